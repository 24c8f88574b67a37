"""Robust principal components of a partly observed matrix: l1 plus nuclear norm, by inexact augmented Lagrangians."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from .._checks import is_number
from .._errors import SettingError
from ..objectives import Problem
from .base import Solver
from .history import StepReport
from .memory import refuse_if_too_large
from .validation import need_in_memory, need_l1, need_positive

Array = NDArray[Any]
INSTEAD = 'use method="glrl-nonsmooth"'
DENSE_COPIES = 7  # observed, mask, low rank, error, multiplier, the SVD's argument and result
MOST_GROWTH = 3.0


@dataclass
class State:
    """Dense matrices of the augmented Lagrangian."""

    observed: Array
    weights: Array
    error: Array
    multiplier: Array
    penalty: float
    most_penalty: float
    nuclear_weight: float


@dataclass(frozen=True)
class ADMM(Solver):
    """Split X from the error, threshold both, update the multiplier; the rank follows from the weight.

    Objective: ``sum over observed |X - O| + nuclear_weight * ||X||_*``. Cost per step: a dense SVD, O(n_rows n_cols
    min(n_rows, n_cols)), and seven dense matrices of memory. Rate: O(1/T). Reference: Lin, Chen and Ma, 2010.

    Parameters
    ----------
    nuclear_weight : float, optional
        By default ``sqrt(density * max(n_rows, n_cols))``: the weight of Candes et al. (2011) for robust principal
        components, ``1 / sqrt(density * max(n_rows, n_cols))`` on the l1 part, turned over. The paper does not say
        what it used.
    growth : float, default=1.01
        Factor by which the penalty grows each step, up to 3 times its start. Without a limit, as Lin et al. have it,
        steps shrink before they reach the minimum: at 1000 times, ratings end 2 % above it. At 1.2 runs end 0.1 to
        0.3 % above the minimum, at 1.01 below 0.05 %, in three times the steps.
    memory_limit : int, optional
        Bytes that may be used; by default what the system has available.
    max_iter : int, default=1000
        Steps to take at most unless `solve` is told otherwise.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.corrupted(20, 15, rank=1, density=0.8).observations
    >>> result = rw.solve(rw.Problem(seen, "l1"), rw.solvers.ADMM(nuclear_weight=3.0), rank=15)
    >>> print(result.model.rank)  # it follows from the weight
    2
    """

    nuclear_weight: float | None = None
    growth: float = 1.01
    memory_limit: int | None = None
    max_iter: int | None = 1000
    grows: ClassVar[bool] = False
    keeps_path: ClassVar[bool] = False
    checkpoints: ClassVar[bool] = False  # they would hold every observed value
    descends: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the settings."""
        for name in ("nuclear_weight", "memory_limit"):
            need_positive(name, getattr(self, name), optional=True)
        if not (is_number(self.growth) and 1 <= self.growth < np.inf):
            raise SettingError(f"`growth` must be at least 1, got {self.growth!r}.")

    def init(self, objective: Problem, rank: int) -> State:
        """X = 0, all of the observed matrix in the error."""
        observations = need_in_memory(need_l1(objective, "ADMM").observations, "ADMM", INSTEAD)
        size = 8.0 * DENSE_COPIES * objective.shape[0] * objective.shape[1]
        refuse_if_too_large(size, "ADMM", "dense matrices", INSTEAD, self.memory_limit)
        objective.reset()
        observed, weights = np.zeros(objective.shape), np.zeros(objective.shape)
        observed[observations.rows, observations.cols] = observations.targets
        weights[observations.rows, observations.cols] = 1.0 if observations.weights is None else observations.weights
        density = observations.n_observed / observed.size
        chosen = self.nuclear_weight or float(np.sqrt(density * max(objective.shape)))
        top = float(np.linalg.norm(observed, 2)) or 1.0
        penalty = 1.25 * chosen / top
        zero = np.zeros(objective.shape)
        return State(observed, weights, zero, zero.copy(), penalty, MOST_GROWTH * penalty, chosen)

    def step(self, objective: Problem, rng: Generator, state: State) -> StepReport:
        """Threshold singular values, then entries, then update the multiplier."""
        shifted = state.multiplier / state.penalty
        left, values, right = np.linalg.svd(state.observed - state.error + shifted, full_matrices=False)
        kept = values > state.nuclear_weight / state.penalty
        shrunk = values[kept] - state.nuclear_weight / state.penalty
        low_rank = (left[:, kept] * shrunk) @ right[kept]
        rest = state.observed - low_rank + shifted
        state.error = np.sign(rest) * np.maximum(np.abs(rest) - state.weights / state.penalty, 0.0)
        violation = state.observed - low_rank - state.error
        state.multiplier += state.penalty * violation
        settled = state.penalty >= state.most_penalty or self.growth == 1
        state.penalty = min(self.growth * state.penalty, state.most_penalty)
        objective.move(shrunk, left[:, kept], right[kept].T)
        value = objective.value() + state.nuclear_weight * float(shrunk.sum())
        return StepReport(value=value, settled=settled)
