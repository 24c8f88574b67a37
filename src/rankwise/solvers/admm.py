"""Robust principal components of a partially observed matrix: l1 loss plus nuclear norm, by ADMM."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from .._arrays import Array
from .._checks import is_number
from .._errors import SettingError
from ..objectives import Problem
from .base import NamedSolver, Solver
from .history import StepReport
from .validation import ANOTHER, IN_MEMORY, L1, Need, need_memory, need_positive

DENSE_COPIES = 7  # observed, mask, low rank, error, multiplier, the SVD's argument and result
MOST_GROWTH = 3.0


@dataclass
class LagrangianState:
    """Dense matrices of the augmented Lagrangian, shape (n_rows, n_cols), and its weights."""

    observed: Array
    weights: Array
    error: Array
    multiplier: Array
    penalty: float
    most_penalty: float
    nuclear_weight: float


@dataclass(frozen=True)
class ADMM(Solver[Problem, LagrangianState]):
    """Split X from the error, threshold both, update the multiplier; `nuclear_weight` determines the rank.

    Objective: ``sum over observed |X - O| + nuclear_weight * ||X||_*``. Cost per step: a dense SVD, O(n_rows n_cols
    min(n_rows, n_cols)), and seven dense matrices of memory. Rate: O(1/T). Reference: Lin, Chen and Ma, 2010.

    Parameters
    ----------
    nuclear_weight : float, optional
        By default ``sqrt(density * max(n_rows, n_cols))``: the weight of Candes et al. (2011) for robust principal
        components, ``1 / sqrt(density * max(n_rows, n_cols))`` on the l1 part, inverted. The paper does not state
        its weight.
    growth : float, default=1.01
        Factor by which the penalty grows each step, up to 3 times its start. Without a limit, as Lin et al. have it,
        steps shrink before they reach the minimum: at 1000 times, ratings end 2 % above it. At 1.2 runs end 0.1 to
        0.3 % above the minimum, at 1.01 below 0.05 %, in three times the steps.
    memory_limit : int, optional
        Bytes that may be used; by default the memory that is available.
    max_iter : int, default=1000
        Default limit on the number of steps.

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

    @classmethod
    def methods(cls) -> dict[str, NamedSolver]:
        """Return the method with its default settings."""
        return {"admm": NamedSolver(cls(), "nuclear norm, l1 loss, dense augmented Lagrangian")}

    @property
    def needs(self) -> tuple[Need, ...]:
        """The l1 loss on entries in memory."""
        return (L1, IN_MEMORY)

    def __post_init__(self) -> None:
        need_positive("nuclear_weight", self.nuclear_weight, optional=True)
        need_positive("memory_limit", self.memory_limit, optional=True)
        if not (is_number(self.growth) and 1 <= self.growth < np.inf):
            raise SettingError(f"`growth` must be at least 1, got {self.growth!r}.")

    def init(self, objective: Problem, rank: int) -> LagrangianState:
        """X = 0, all of the observed matrix in the error."""
        observations = objective.observations
        n_bytes = 8.0 * DENSE_COPIES * objective.shape[0] * objective.shape[1]
        need_memory(n_bytes, "ADMM", "dense matrices", ANOTHER, self.memory_limit)
        objective.reset()
        observed, weights = np.zeros(objective.shape), np.zeros(objective.shape)
        observed[observations.rows, observations.cols] = targets_to_fit(objective)
        weights[observations.rows, observations.cols] = 1.0 if observations.weights is None else observations.weights
        density = observations.n_observed / observed.size
        nuclear_weight = self.nuclear_weight or float(np.sqrt(density * max(objective.shape)))
        top = float(np.linalg.norm(observed, 2)) or 1.0
        penalty = 1.25 * nuclear_weight / top
        zero = np.zeros(objective.shape)
        return LagrangianState(observed, weights, zero, zero.copy(), penalty, MOST_GROWTH * penalty, nuclear_weight)

    def step(self, objective: Problem, rng: Generator, state: LagrangianState) -> StepReport:
        """Threshold singular values, then entries, then update the multiplier."""
        shifted = state.multiplier / state.penalty
        left, values, right = np.linalg.svd(state.observed - state.error + shifted, full_matrices=False)
        retained = values > state.nuclear_weight / state.penalty
        shrunk = values[retained] - state.nuclear_weight / state.penalty
        low_rank = (left[:, retained] * shrunk) @ right[retained]
        rest = state.observed - low_rank + shifted
        state.error = np.sign(rest) * np.maximum(np.abs(rest) - state.weights / state.penalty, 0.0)
        violation = state.observed - low_rank - state.error
        state.multiplier += state.penalty * violation
        settled = state.penalty >= state.most_penalty or self.growth == 1
        state.penalty = min(self.growth * state.penalty, state.most_penalty)
        objective.move(shrunk, left[:, retained], right[retained].T)
        value = objective.value() + state.nuclear_weight * float(shrunk.sum())
        return StepReport(value=value, settled=settled)


def targets_to_fit(objective: Problem) -> NDArray[np.float64]:
    """Return the targets minus the offsets of the objective, in entry order, shape (n_observed,)."""
    observations, offsets = objective.observations, objective.fixed_offsets
    targets = observations.targets.astype(np.float64)
    return targets if offsets is None else targets - offsets.at(observations.rows, observations.cols)
