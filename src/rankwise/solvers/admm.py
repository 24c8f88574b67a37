"""Robust principal components of a partially observed matrix: l1 loss plus nuclear norm, by ADMM."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator
from numpy.typing import NDArray

from .._arrays import Array
from .._checks import is_number
from .._errors import SettingError
from ..model import predict
from ..objectives import Problem
from ..observations import Observations, need_in_memory
from ..spectral import DenseSVD, Lanczos, LowRank, Operator, SparsePlusLowRank, block_svd, widen
from .base import NamedSolver, Solver
from .cores import Iterate
from .history import StepReport
from .nuclear import RANDOM_DIRECTIONS
from .validation import ANOTHER, IN_MEMORY, L1_LOSS, OBSERVED_ONLY, Need, need_positive

MOST_GROWTH = 3.0
DENSE_SIZE = 250_000  # largest number of entries of a matrix whose singular values are computed exactly, by LAPACK
N_STEP_POWER = 2  # block power iterations per step for larger ones, started from the vectors of the last step
SPARE = 5  # least number of the last vectors beyond the rank in the start block; a tenth of the rank if that is more


@dataclass
class LagrangianState:
    """The matrix X, the error and the multiplier of the augmented Lagrangian, and its weights.

    Unobserved entries of the multiplier are zero, and those of the error are ``-X``: both are stored as arrays over
    the observed entries, shape (n_observed,), in row order like `targets` and `weights`.
    """

    observations: Observations
    targets: Array
    weights: Array
    nuclear_weight: float
    now: Iterate
    predicted: Array  # X at the entries
    error: Array
    multiplier: Array
    right: Array  # start block of the next singular value decomposition, shape (n_cols, k)
    penalty: float = 1.0
    most_penalty: float = MOST_GROWTH

    def sparse(self, values: Array) -> Any:
        """Return the sparse matrix with these values at the observed entries."""
        seen = self.observations
        return sp.csr_array((values, seen.indices, seen.indptr), shape=seen.shape)

    def gap(self, value: float, rng: Generator) -> float:
        """Return how far `value` is above the lower bound that the multiplier gives, if its norm is exact."""
        largest = top_value(self.sparse(self.multiplier), rng)
        share = min(1.0, self.nuclear_weight / largest) if largest > 0.0 else 1.0
        return max(value - share * float(self.multiplier @ self.targets), 0.0)


@dataclass(frozen=True)
class ADMM(Solver[Problem, LagrangianState]):
    """Split X from the error, threshold both, update the multiplier; `nuclear_weight` determines the rank.

    Objective: ``sum over observed |X - O| + nuclear_weight * ||X||_*``. Cost per step: O(rank n_observed + rank**2
    (n_rows + n_cols)). Rate: O(1/T). Reference: Lin, Chen and Ma, 2010.

    The error and the multiplier are stored at the observed entries, and the matrix whose singular values are
    thresholded is the last X, which has low rank, plus a sparse one: memory is O(n_observed + rank (n_rows + n_cols)).
    Up to 250,000 matrix entries the SVD is dense and exact; beyond, block power iterations start from the last vectors.
    The gap in the history is how far the value is above the lower bound that the multiplier gives on the minimum.

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
    max_iter: int | None = 1000
    grows: ClassVar[bool] = False
    keeps_path: ClassVar[bool] = False
    checkpoints: ClassVar[bool] = False  # they would hold every observed value
    descends: ClassVar[bool] = False

    @classmethod
    def methods(cls) -> dict[str, NamedSolver]:
        """Return the method with its default settings."""
        return {"admm": NamedSolver(cls(), "nuclear norm, l1 loss, augmented Lagrangian")}

    @property
    def needs(self) -> tuple[Need, ...]:
        """The l1 loss on entries in memory."""
        return (OBSERVED_ONLY, L1_LOSS, IN_MEMORY)

    def __post_init__(self) -> None:
        need_positive("nuclear_weight", self.nuclear_weight, optional=True)
        if not (is_number(self.growth) and 1 <= self.growth < np.inf):
            raise SettingError(f"`growth` must be at least 1, got {self.growth!r}.")

    def init(self, objective: Problem, rank: int) -> LagrangianState:
        """X = 0, and a penalty in proportion to the top singular value of the observed matrix."""
        seen = need_in_memory(objective.observations, "ADMM", ANOTHER)
        objective.reset()
        targets = targets_to_fit(objective, seen)
        weights = np.ones(targets.size) if seen.weights is None else seen.weights.astype(np.float64)
        density = seen.n_observed / (float(seen.shape[0]) * seen.shape[1])
        weight = self.nuclear_weight or float(np.sqrt(density * max(seen.shape)))
        now, zeros = Iterate.zero(seen.shape), np.zeros(targets.size)
        state = LagrangianState(seen, targets, weights, weight, now, zeros, zeros, zeros, now.V)
        state.penalty = 1.25 * weight / (top_value(state.sparse(targets), np.random.default_rng(0)) or 1.0)
        state.most_penalty = MOST_GROWTH * state.penalty
        return state

    def step(self, objective: Problem, rng: Generator, state: LagrangianState) -> StepReport:
        """Threshold singular values, then entries, then update the multiplier."""
        shifted = state.multiplier / state.penalty
        change = state.targets - state.error + shifted - state.predicted
        n_products = _threshold(state, state.sparse(change), rng)
        now, seen = state.now, state.observations
        state.predicted = predict(now.s, now.U, now.V, seen.rows, seen.cols)
        rest = state.targets - state.predicted + shifted
        limit = state.weights / state.penalty
        clipped = np.clip(rest, -limit, limit)
        state.error, state.multiplier = rest - clipped, state.penalty * clipped
        settled = state.penalty >= state.most_penalty or self.growth == 1
        state.penalty = min(self.growth * state.penalty, state.most_penalty)
        objective.move(now.s, now.U, now.V)
        value = objective.value() + state.nuclear_weight * float(now.s.sum())
        return StepReport(n_products=n_products, value=value, settled=settled, gap=state.gap(value, rng))


def _threshold(state: LagrangianState, change: Any, rng: Generator) -> int:
    """Set X to X plus `change`, with singular values lowered to at least zero; return the number of products."""
    argument = SparsePlusLowRank(change, LowRank(state.now.s, state.now.U, state.now.V))
    level, n_products = state.nuclear_weight / state.penalty, 0
    width = state.right.shape[1] + RANDOM_DIRECTIONS
    while True:
        left, values, right, used = leading(argument, state.right, width, rng)
        n_products += used
        rank = int(np.count_nonzero(values > level))
        if rank < values.size or rank == min(argument.shape):
            break
        state.right, width = right, 2 * width  # there may be more values above the level
    state.now = Iterate(left[:, :rank], values[:rank] - level, right[:, :rank])
    state.right = right[:, : rank + max(SPARE, rank // 10)]
    return n_products


def is_small(shape: tuple[int, ...]) -> bool:
    """Return whether a matrix may be formed, for exact singular values."""
    return shape[0] * shape[1] <= DENSE_SIZE


def leading(operator: Operator, start: Array, width: int, rng: Generator) -> tuple[Array, Array, Array, int]:
    """Return leading singular triplets as `block_svd` does: all, exactly, of a small matrix, else `width` of them."""
    if is_small(operator.shape):
        left, values, right = np.linalg.svd(operator.matmat(np.eye(operator.shape[1])), full_matrices=False)
        return left, values, right.T, operator.shape[1]
    return block_svd(operator, widen(start, width, rng), N_STEP_POWER)


def top_value(matrix: Any, rng: Generator) -> float:
    """Return the top singular value of a sparse matrix, exact if the matrix is small."""
    oracle = DenseSVD() if is_small(matrix.shape) else Lanczos(tol=1e-4, max_restarts=3)
    return oracle(matrix, rng=rng).sigma


def targets_to_fit(objective: Problem, observations: Observations) -> NDArray[np.float64]:
    """Return the targets minus the offsets of the objective, in entry order, shape (n_observed,)."""
    offsets = objective.fixed_offsets
    targets = objective.loss.units.stored(observations.targets, np.float64)
    return targets if offsets is None else targets - offsets.at(observations.rows, observations.cols)
