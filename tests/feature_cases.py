"""Matrices whose rows follow from features, with the truth."""

from typing import NamedTuple

import numpy as np

from rankwise import Features, Observations


class PlantedFeatures(NamedTuple):
    """A matrix of rank 2 and its entries; rows and columns around a regression on features.

    The features of the rows are a block of four categories, a number that matters and a number that does not.
    """

    truth: np.ndarray
    seen: Observations
    features: dict


def planted_features(shape=(300, 120), density=0.1, cold=0, noise=0.3, effect=1.0, seed=0):
    """The first `cold` rows have no entry."""
    rng = np.random.default_rng(seed)
    n, m = shape
    blocks = np.eye(4)[rng.integers(0, 4, n)], rng.standard_normal((n, 1)), rng.standard_normal((n, 1))
    matrix, weights = np.hstack(blocks), rng.standard_normal((6, 3))
    weights[5] = 0.0
    rows = effect * matrix @ weights + 0.5 * rng.standard_normal((n, 3))
    cols = rng.standard_normal((m, 2))
    truth = rows[:, :2] @ cols.T + rows[:, 2:]
    mask = rng.random(shape) < density
    mask[:cold] = False
    i, j = np.nonzero(mask)
    values = truth[i, j] + noise * rng.standard_normal(i.size)
    features = {"rows": Features(matrix, [0, 0, 0, 0, 1, 2])}
    return PlantedFeatures(truth, Observations.from_coo(i, j, values, shape), features)


def held_out_error(model, data):
    """Root mean squared error at the entries that are not observed."""
    hidden = np.ones(data.truth.shape, bool)
    hidden[data.seen.rows, data.seen.cols] = False
    return float(np.sqrt(np.mean((model.to_dense() - data.truth)[hidden] ** 2)))
