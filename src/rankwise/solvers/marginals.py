"""Damped means of rows and columns: predictions for rows and columns that were not seen during fit."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from .._arrays import Array
from ..engines import Engine, Shard
from ..losses import Loss
from ..losses.links import from_mean
from ..model import Marginals
from .sweep_state import SweepState

LOG_DAMPINGS = (-6.0, 14.0)  # range of the logarithm of the damping


def without_factors(state: SweepState) -> dict[str, Any]:
    """Predictions at rank 0 and for unseen rows and columns, for the model; none if the fit has no offsets."""
    if state.baseline is None:
        return {}
    return {"baseline": state.baseline, "marginals": fit_marginals(state.rows.engine, state.loss)}


def fit_marginals(engine: Engine, loss: Loss) -> Marginals | None:
    """Mean targets of every row and column, shrunk towards the mean of all; None if `loss` does not predict a mean.

    Costs two passes over the entries. Targets farther than ``loss.mean_width`` from the mean count as that far.
    """
    if not loss.mean_width:
        return None
    weights, sums, _ = engine.run(Shard.moments, 0.0, np.inf)[0].sum(axis=0)
    centre = float(sums / weights)
    both = engine.run(Shard.moments, centre, float(loss.mean_width))
    rows, cols = (from_mean(loss.link, centre + damped_means(*side.T)) for side in both)
    constant = from_mean(loss.link, np.array([centre + both[0][:, 1].sum() / weights]))
    return Marginals(rows, cols, both[0][:, 0].copy(), both[1][:, 0].copy(), float(constant[0]))


def damped_means(weights: Array, sums: Array, squares: Array) -> NDArray[np.float64]:
    """``level + (sums - weights * level) / (weights + damping)`` for the sums of each group, shape (n_groups,).

    The level is the mean of all. The damping has the least squared error when every entry in turn is left out of its
    group: an unseen row has at most one entry in a column.
    """
    level = float(sums.sum() / weights.sum())
    gaps, spreads = sums - level * weights, squares - 2 * level * sums + level**2 * weights

    def left_out(log_damping: float) -> float:
        share = 1.0 / (np.maximum(weights - 1.0, 0.0) + np.exp(log_damping))
        errors = (1 + share) ** 2 * spreads - (2 * (1 + share) - weights * share) * share * gaps**2
        return float(errors.sum())

    damping = np.exp(minimize_scalar(left_out, bounds=LOG_DAMPINGS, method="bounded").x)
    return np.asarray(level + gaps / (weights + damping))
