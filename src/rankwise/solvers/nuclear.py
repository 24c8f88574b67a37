"""Nuclear-norm regularisation: AIS-Impute, and soft-impute as its unaccelerated case."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from .._checks import all_finite, is_number, is_whole
from .._errors import LossError, SettingError
from ..objectives import Problem
from ..spectral import LowRank, SparsePlusLowRank, block_svd, widen
from .base import Solver
from .history import StepReport
from .validation import need_move, need_positive

Array = NDArray[Any]
DIVERGED = 1e8  # values this many times the first one come from a Lipschitz constant that is too small
FLOOR = 1e-4  # the search for a rank never goes below this share of the largest useful weight
ABOVE = 10  # steps in a row above the wanted rank after which the solution is taken to have a larger one
SPARE = 5  # random directions beside the last subspace, so that the rank can grow
NEW = 0.03  # squared share of a direction outside the others' span from which it is worth a place in the start block


@dataclass
class Iterate:
    """``U diag(s) V.T`` with orthonormal columns."""

    U: Array
    s: Array
    V: Array

    def is_sound(self, shape: tuple[int, int]) -> bool:
        """Whether all is finite and of these sizes."""
        sizes = (self.U, (shape[0], self.s.size)), (self.s, (self.s.size,)), (self.V, (shape[1], self.s.size))
        return all(part.shape == size and all_finite(part) for part, size in sizes)

    @classmethod
    def zero(cls, shape: tuple[int, int]) -> "Iterate":
        """The zero matrix."""
        return cls(np.zeros((shape[0], 0)), np.zeros(0), np.zeros((shape[1], 0)))


@dataclass
class State:
    """What the accelerated proximal gradient carries along."""

    weight: float
    start_weight: float
    most: int
    now: Iterate
    before: Iterate
    limit: float
    momentum: float = 1.0
    step: int = 0
    value: float = np.inf


@dataclass(frozen=True)
class AISImpute(Solver):
    """Accelerated, inexact soft-impute.

    Objective: smooth f plus ``nuclear_weight * ||X||_*``. Cost per step: O(rank n_observed + rank**2 (n_rows +
    n_cols)). Rate: O(1/T**2), O(1/T) for soft-impute. Reference: Yao and Kwok, IJCAI 2015.

    Each step is a proximal gradient step from an extrapolated point; the singular value thresholding uses a few
    block power iterations on sparse plus low rank, started from the last two iterates' right vectors. Momentum
    restarts when the value rises.

    Parameters
    ----------
    nuclear_weight : float, optional
        The paper's lambda. By default the smallest one, at least 1e-4 of the largest useful one, whose solution has
        at most the wanted rank; such a weight is not unique, and the search runs on the same clock.
    accelerate : bool, default=True
        False gives plain soft-impute.
    continuation : float, default=0.7
        The weight falls from the largest useful one to the wanted one by this factor a step; 0 starts at the end.
    n_power : int, default=3
        Block power iterations per step. One is often enough, as each step starts from the last one's vectors.
    max_iter : int or None, default=500
        Steps at most.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> result = rw.solve(rw.Problem(seen, "square"), rw.solvers.AISImpute(nuclear_weight=5.0), rank=10)
    >>> print(result.model.rank)  # it follows from the weight
    2
    """

    nuclear_weight: float | None = None
    accelerate: bool = True
    continuation: float = 0.7
    n_power: int = 3
    max_iter: int | None = 500
    grows: ClassVar[bool] = False
    keeps_path: ClassVar[bool] = False
    descends: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the settings."""
        need_positive("nuclear_weight", self.nuclear_weight, optional=True)
        if not (is_number(self.continuation) and 0 <= self.continuation < 1):
            raise SettingError(f"`continuation` must be at least 0 and below 1, got {self.continuation!r}.")
        if not (is_whole(self.n_power) and self.n_power >= 1):
            raise SettingError(f"`n_power` must be an integer of at least 1, got {self.n_power!r}.")

    def init(self, objective: Problem, rank: int) -> State:
        """X = 0; find the weight if none is given."""
        need_move(objective, "AISImpute")
        if objective.lipschitz is None or not objective.smooth:
            raise LossError(
                f"AISImpute needs a smooth loss with a Lipschitz constant, and {objective.loss!r} has none: "
                'use method="altmin" or "glrl" for smooth losses, "glrl-nonsmooth" for others.'
            )
        objective.reset()
        largest = _top_value(objective)
        limit = DIVERGED * (1.0 + abs(objective.value()))
        if self.nuclear_weight is None:
            weight, found = self._find_weight(objective, rank, largest, limit)
            objective.reset()
            return State(weight, weight, rank, found, found, limit)
        start = max(largest, self.nuclear_weight) if self.continuation else self.nuclear_weight
        zero = Iterate.zero(objective.shape)
        return State(self.nuclear_weight, start, min(objective.shape), zero, zero, limit)

    def accepts(self, objective: Problem, state: Any) -> bool:
        """Whether the iterates are of the objective's shape."""
        sound = isinstance(state, State) and state.now.is_sound(objective.shape)
        return sound and state.before.is_sound(objective.shape) and state.step >= 0 and state.momentum >= 1

    def step(self, objective: Problem, rng: Generator, state: State) -> StepReport:
        """One proximal gradient step from the extrapolated point."""
        state.step += 1
        weight = state.weight + (state.start_weight - state.weight) * self.continuation**state.step
        n_products = self._proximal_step(objective, rng, state, weight)
        settled = weight <= 1.01 * state.weight
        return StepReport(n_products=n_products, value=state.value, settled=settled)

    def _proximal_step(self, objective: Problem, rng: Generator, state: State, weight: float) -> int:
        """Move to the thresholded gradient step; at most ``state.most`` terms. The value is infinite on divergence."""
        following = 0.5 * (1 + np.sqrt(1 + 4 * state.momentum**2))
        push = (state.momentum - 1) / following if self.accelerate else 0.0
        state.momentum = following
        theta = np.concatenate(((1 + push) * state.now.s, -push * state.before.s))
        U, V = (np.column_stack((getattr(state.now, side), getattr(state.before, side))) for side in "UV")
        objective.move(theta, U, V)
        lipschitz = float(objective.lipschitz or 1.0)
        point, each = objective.point, objective.engine.each
        here = LowRank(theta, point.U, point.V, each)  # as stored: half the bytes, and where X really is
        target = SparsePlusLowRank(-1.0 / lipschitz * objective.gradient(), here)
        left, values, right, n_products = block_svd(target, _basis(V, state.most, rng), self.n_power)
        kept = values > weight / lipschitz
        kept[state.most :] = False
        state.before = state.now
        state.now = Iterate(left[:, kept], values[kept] - weight / lipschitz, right[:, kept])
        objective.move(state.now.s, state.now.U, state.now.V)
        value = objective.value() + state.weight * float(state.now.s.sum())
        if value > state.value:
            state.momentum = 1.0
        state.value = value if value <= state.limit else np.inf
        return n_products

    def _find_weight(self, objective: Problem, rank: int, largest: float, limit: float) -> tuple[float, Iterate]:
        """Smallest weight, to 5 %, whose solution has at most `rank` terms, and that solution.

        Weights halve until the rank is passed, then close in; solutions warm-start each other.
        """
        high, low = largest, None
        best = Iterate.zero(objective.shape)
        weight = 0.5 * largest
        while True:
            found = self._solve_at(objective, State(weight, weight, rank + SPARE, best, best, limit), rank)
            if found.s.size <= rank:
                high, best = weight, found
            else:
                low = weight
            if (low is None and high <= FLOOR * largest) or (low is not None and high <= 1.05 * low):
                return high, best
            weight = max(0.5 * high, FLOOR * largest) if low is None else float(np.sqrt(low * high))

    def _solve_at(self, objective: Problem, state: State, rank: int) -> Iterate:
        """Solution at one weight, to a relative change of 1e-5; given up once its rank has stayed above `rank`."""
        rng = np.random.default_rng(0)
        above = 0
        for _ in range(self.max_iter or 500):
            previous = state.value
            self._proximal_step(objective, rng, state, state.weight)
            above = above + 1 if state.now.s.size > rank else 0
            if above >= ABOVE or not abs(previous - state.value) > 1e-5 * abs(state.value):
                break
        return state.now


def soft_impute(nuclear_weight: float | None = None) -> AISImpute:
    """Plain soft-impute (Mazumder et al., 2010): no momentum.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.solvers.soft_impute(nuclear_weight=5.0).accelerate
    False
    """
    return AISImpute(nuclear_weight, accelerate=False, continuation=0.0)


def _top_value(objective: Problem) -> float:
    """Top singular value of the gradient at zero: from this weight on, the solution is zero."""
    start = np.random.default_rng(0).standard_normal((objective.shape[1], SPARE))
    return float(block_svd(objective.gradient(), start, 10)[1][0])


def _basis(V: Array, most: int, rng: Generator) -> Array:
    """Start of the block iterations: at most `most` directions that nearly span V's unit columns, and random ones."""
    squares, vectors = (found[..., ::-1][..., :most] for found in np.linalg.eigh(V.T @ V))
    kept = squares > NEW
    span = V @ (vectors[:, kept] / np.sqrt(squares[kept]))
    return widen(span, min(span.shape[1] + SPARE, V.shape[0]), rng)
