"""Nuclear-norm regularization: AIS-Impute, and soft-impute as its unaccelerated case."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from .._arrays import Array
from .._checks import all_finite, is_number
from .._errors import SettingError
from ..losses.units import Units
from ..objectives import Movable
from ..spectral import LowRank, SparsePlusLowRank, as_operator, block_svd, widen
from .base import NamedSolver, Solver
from .cores import Iterate
from .history import StepReport
from .validation import LIPSCHITZ, MOVABLE, SMOOTH, Need, need_count, need_positive

DIVERGED = 1e8  # times the first value: then the Lipschitz constant is too small
FLOOR = 1e-4  # smallest weight of the search for a rank, relative to the largest useful one
ABOVE = 10  # consecutive steps above the wanted rank after which a weight is rejected
RANDOM_DIRECTIONS = 5  # random directions beside the last subspace, so that the rank can grow
SPARE_DIRECTIONS = 5  # directions below the threshold that the next step starts from, too: they converge over steps
NEW = 0.03  # smallest squared norm outside the span of the others for a direction of the start block


@dataclass
class ProximalState:
    """State of the accelerated proximal gradient method between two steps."""

    weight: float  # nuclear-norm weight
    start_weight: float  # the one that the continuation starts from
    most: int  # largest number of terms
    now: Iterate
    before: Iterate  # the iterate before `now`
    spare: Array  # (n_cols, at most SPARE_DIRECTIONS): right vectors of the largest values below the threshold
    limit: float  # values above it count as divergence
    momentum: float = 1.0
    step: int = 0
    value: float = np.inf


@dataclass(frozen=True)
class AISImpute(Solver[Movable, ProximalState]):
    """Accelerated, inexact soft-impute.

    Objective: smooth f plus ``nuclear_weight * ||X||_*``. Cost per step: O(rank n_observed + rank**2 (n_rows +
    n_cols)). Rate: O(1/T**2), O(1/T) for soft-impute. Reference: Yao and Kwok, IJCAI 2015.

    Each step is a proximal gradient step from an extrapolated point; the singular value thresholding uses a few
    block power iterations on sparse plus low rank, started from the last two iterates' right vectors and from those of
    the largest singular values below the threshold. Momentum restarts when the value rises.

    Parameters
    ----------
    nuclear_weight : float, optional
        The paper's lambda. By default the smallest one, at least 1e-4 of the largest useful one, whose solution has
        at most the requested rank; the search for it counts towards the time.
    accelerate : bool, default=True
        False gives plain soft-impute.
    continuation : float, default=0.7
        Factor per step by which the weight falls from the largest useful one to `nuclear_weight`; 0 disables it.
    n_power : int, default=3
        Block power iterations per step, started from the vectors of the last step; one is often enough.
    max_iter : int or None, default=500
        Default limit on the number of steps.

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
    state_types: ClassVar[tuple[type, ...]] = (ProximalState, Iterate)

    @classmethod
    def methods(cls) -> dict[str, NamedSolver]:
        """Return the accelerated and the plain method."""
        nuclear = "nuclear norm, square or logistic loss and the like"
        return {
            "ais-impute": NamedSolver(cls(), f"{nuclear}, accelerated proximal gradient"),
            "soft-impute": NamedSolver(soft_impute(), f"{nuclear}, plain proximal gradient"),
        }

    def in_units(self, units: Units) -> "AISImpute":
        """Return the solver with the weight of stored numbers."""
        return replace(self, nuclear_weight=stored_weight(self.nuclear_weight, units))

    @property
    def needs(self) -> tuple[Need, ...]:
        """A smooth objective with a known Lipschitz constant that can move."""
        return (SMOOTH, LIPSCHITZ, MOVABLE)

    def __post_init__(self) -> None:
        need_positive("nuclear_weight", self.nuclear_weight, optional=True)
        if not (is_number(self.continuation) and 0 <= self.continuation < 1):
            raise SettingError(f"`continuation` must be at least 0 and below 1, got {self.continuation!r}.")
        need_count("n_power", self.n_power)

    def init(self, objective: Movable, rank: int) -> ProximalState:
        """X = 0; search for the weight if it is None."""
        objective.reset()
        limit = DIVERGED * (1.0 + abs(objective.value()))
        if self.nuclear_weight is None:
            weight, solution = self.search(objective, rank)
            return ProximalState(weight, weight, rank, solution, solution, solution.V[:, :0], limit)
        start = max(top_value(objective), self.nuclear_weight) if self.continuation else self.nuclear_weight
        zero = Iterate.zero(objective.shape)
        return ProximalState(self.nuclear_weight, start, min(objective.shape), zero, zero, zero.V, limit)

    def accepts(self, objective: Movable, state: object) -> bool:
        """Return whether the iterates are of the objective's shape."""
        if not isinstance(state, ProximalState) or not state.now.is_sound(objective.shape):
            return False
        spare = state.spare.ndim == 2 and state.spare.shape[0] == objective.shape[1] and all_finite(state.spare)
        return spare and state.before.is_sound(objective.shape) and state.step >= 0 and state.momentum >= 1

    def step(self, objective: Movable, rng: Generator, state: ProximalState) -> StepReport:
        """One proximal gradient step from the extrapolated point."""
        state.step += 1
        weight = state.weight + (state.start_weight - state.weight) * self.continuation**state.step
        n_products = self._proximal_step(objective, rng, state, weight)
        settled = weight <= 1.01 * state.weight
        return StepReport(n_products=n_products, value=state.value, settled=settled)

    def _proximal_step(self, objective: Movable, rng: Generator, state: ProximalState, weight: float) -> int:
        """Move to the thresholded gradient step, of at most ``state.most`` terms; an infinite value is divergence."""
        following = 0.5 * (1 + np.sqrt(1 + 4 * state.momentum**2))
        push = (state.momentum - 1) / following if self.accelerate else 0.0
        state.momentum = following
        theta = np.concatenate(((1 + push) * state.now.s, -push * state.before.s))
        U, V = np.column_stack((state.now.U, state.before.U)), np.column_stack((state.now.V, state.before.V))
        objective.move(theta, U, V)
        lipschitz, point = float(objective.lipschitz or 1.0), objective.point
        gradient = as_operator(objective.gradient())
        here = LowRank(theta, point.U, point.V, gradient.each)  # the factors as stored: half the bytes, and exactly X
        target = SparsePlusLowRank(-1.0 / lipschitz * gradient, here)
        start = start_block(np.column_stack((V, state.spare)), state.most + SPARE_DIRECTIONS, rng)
        left, values, right, n_products = block_svd(target, start, self.n_power)
        retained = values > weight / lipschitz
        retained[state.most :] = False
        state.spare = right[:, ~retained][:, :SPARE_DIRECTIONS]
        state.before = state.now
        state.now = Iterate(left[:, retained], values[retained] - weight / lipschitz, right[:, retained])
        objective.move(state.now.s, state.now.U, state.now.V)
        value = objective.value() + state.weight * float(state.now.s.sum())
        if value > state.value:
            state.momentum = 1.0
        state.value = value if value <= state.limit else np.inf
        return n_products

    def search(self, objective: Movable, rank: int) -> tuple[float, Iterate]:
        """Return the smallest weight, to 5 %, whose solution has at most `rank` terms, and that solution.

        The weight is halved until the rank is exceeded, then bisected; each solution starts from the last one. Leaves
        the objective at X = 0.
        """
        objective.reset()
        largest = top_value(objective)
        limit = DIVERGED * (1.0 + abs(objective.value()))
        high, low = largest, None
        best = Iterate.zero(objective.shape)
        weight = 0.5 * largest
        while True:
            state = ProximalState(weight, weight, rank + RANDOM_DIRECTIONS, best, best, best.V[:, :0], limit)
            solution = self._solve_at(objective, state, rank)
            if solution.s.size <= rank:
                high, best = weight, solution
            else:
                low = weight
            if (low is None and high <= FLOOR * largest) or (low is not None and high <= 1.05 * low):
                objective.reset()
                return high, best
            weight = max(0.5 * high, FLOOR * largest) if low is None else float(np.sqrt(low * high))

    def _solve_at(self, objective: Movable, state: ProximalState, rank: int) -> Iterate:
        """Return the solution at one weight, to a relative change of 1e-5; stop if its rank stays above `rank`."""
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
    """Return plain soft-impute (Mazumder et al., 2010): `AISImpute` without momentum and continuation.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.solvers.soft_impute(nuclear_weight=5.0).accelerate
    False
    """
    return AISImpute(nuclear_weight, accelerate=False, continuation=0.0)


def stored_weight(weight: float | None, units: Units) -> float | None:
    """Return a nuclear weight in stored units; None stays None."""
    return None if weight is None else weight * units.unit / units.size


def top_value(objective: Movable) -> float:
    """Return the top singular value of the gradient at zero: for larger weights, the solution is zero."""
    start = np.random.default_rng(0).standard_normal((objective.shape[1], RANDOM_DIRECTIONS))
    return float(block_svd(objective.gradient(), start, 10)[1][0])


def start_block(V: Array, most: int, rng: Generator) -> Array:
    """Return a start block: at most `most` directions that nearly span V's unit columns, and random ones."""
    squares, vectors = (part[..., ::-1][..., :most] for part in np.linalg.eigh(V.T @ V))
    retained = squares > NEW
    span = V @ (vectors[:, retained] / np.sqrt(squares[retained]))
    return widen(span, min(span.shape[1] + RANDOM_DIRECTIONS, V.shape[0]), rng)
