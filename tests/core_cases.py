"""Small problems for GECO and local search: with a dense twin, or with a planted low-rank matrix."""

import numpy as np
from helpers import make_observations
from reference import Dense

from rankwise import Observations, Problem, Ridged
from rankwise.losses import Logistic


def make_problem(loss, ridge=0.0, shape=(12, 9), dtype=np.float64):
    observations = make_observations(loss, np.random.default_rng(4), shape, 0.5, weights=True)
    problem = Problem(observations, loss, dtype=dtype)
    return (Ridged(problem, ridge) if ridge else problem), Dense(observations, loss, ridge)


def planted(loss, seed, shape=(40, 30), rank=5, density=0.5):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(shape[0], rank)) @ rng.normal(size=(shape[1], rank)).T
    truth += 0.3 * rng.normal(size=shape)
    rows, cols = np.nonzero(rng.random(shape) < density)
    targets = np.where(truth > 0, 1.0, -1.0) if isinstance(loss, Logistic) else truth
    return Problem(Observations.from_coo(rows, cols, targets[rows, cols], shape), loss, dtype=np.float64)
