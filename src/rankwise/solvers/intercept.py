"""The same prediction everywhere: where sweeps start."""

from dataclasses import replace

import numpy as np

from ..model import Offsets
from ..objectives import Problem
from .steps import bisect


def place_level(problem: Problem, constant: float) -> None:
    """The same prediction everywhere."""
    nothing = (np.zeros((size, 0), problem.dtype) for size in problem.shape)
    problem.place(replace(Offsets.zero(problem.shape, problem.dtype), constant=constant), *nothing)


def best_level(problem: Problem) -> float:
    """The constant prediction of least value, at X = 0 without offsets."""
    ones = [np.ones(size, problem.dtype) for size in problem.shape]
    for sign in (1.0, -1.0):
        phi = problem.along(sign * ones[0], ones[1])
        weight = phi.best_weight() if problem.piecewise_linear else bisect(phi)[0]
        if weight > 0:
            return sign * weight
    return 0.0
