"""Base classes of the convex nuclear-norm methods: duality gap per step, monotone steps, choice of the weight."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from ..losses.units import Units
from ..objectives import Movable
from .base import Solver
from .cores import Iterate
from .duality import Top, nuclear_gap, top_triplet
from .history import StepReport
from .nuclear import AISImpute, stored_weight
from .validation import LIPSCHITZ, MOVABLE, SMOOTH, Need, need_positive

OPTIMAL_RATIO = 1.005  # a small change may end the run if the top singular value is at most this multiple of the weight


@dataclass
class PenaltyState:
    """State of a nuclear-norm method between two steps."""

    weight: float  # nuclear-norm weight
    most: int  # largest number of terms
    value: float  # f plus the penalty
    lower: float = -np.inf  # largest lower bound on the minimum so far
    radius: float = np.inf  # largest nuclear norm
    first: float = np.inf  # value at X = 0


class ConvexSolver(Solver[Movable, PenaltyState]):
    """A method whose steps start from a certificate and never raise the value.

    A subclass implements `init`, `bound`, `improve` and `is_settled`.
    """

    grows: ClassVar[bool] = False
    keeps_path: ClassVar[bool] = False
    compares_values: ClassVar[bool] = True
    state_types: ClassVar[tuple[type, ...]] = (PenaltyState,)

    def accepts(self, objective: Movable, state: object) -> bool:
        """Return whether the state is one of this objective."""
        if not isinstance(state, PenaltyState) or not 1 <= state.most <= min(objective.shape):
            return False
        return state.weight >= 0 and state.radius >= 0

    def bound(self, objective: Movable, state: PenaltyState, top: Top) -> float:
        """Return a bound on how far the value at X is above the minimum; infinite if there is none."""
        raise NotImplementedError

    def improve(self, objective: Movable, rng: Generator, state: PenaltyState, top: Top) -> tuple[int, int]:
        """Move X to a lower value; return the numbers of products and evaluations."""
        raise NotImplementedError

    def is_settled(self, state: PenaltyState, top: Top, bound: float) -> bool:
        """Return whether a small change of the value may end the run, from what was known before the step."""
        raise NotImplementedError

    def step(self, objective: Movable, rng: Generator, state: PenaltyState) -> StepReport:
        """Certify X by the gradient's top singular value, then improve it."""
        before, gradient = Iterate.of(objective), objective.gradient()
        norm, inner = gradient.norm, gradient.inner
        top = top_triplet(gradient, rng)
        if norm == 0.0 and before.s.size == 0:
            return StepReport(0.0, norm, inner, top.n_products, inner_rank=0)
        bound = self.bound(objective, state, top)
        state.lower = max(state.lower, state.value - bound)
        n_products, n_evaluations = self.improve(objective, rng, state, top)
        value, stop = objective.value() + state.weight * float(objective.point.theta.sum()), None
        if state.value <= value < np.inf:
            objective.move(before.s, before.U, before.V)
            value = state.value
            stop = ("converged", f"No step lowers the value at rank {before.s.size}.")
        state.value = value
        return StepReport(
            sigma=top.sigma if norm > 0 else None,
            norm=norm,
            inner=inner,
            n_products=top.n_products + n_products,
            n_evaluations=n_evaluations,
            value=value,
            settled=self.is_settled(state, top, bound) or before.s.size == state.most,
            stop=stop,
            gap=max(value - state.lower, 0.0) if np.isfinite(state.lower) else None,
        )


class NuclearNormSolver(ConvexSolver):
    """A method for smooth f plus ``nuclear_weight * ||X||_*``; a subclass implements `improve`."""

    nuclear_weight: float | None = None

    @property
    def needs(self) -> tuple[Need, ...]:
        """A smooth objective that can move, with a known Lipschitz constant if the weight is searched for."""
        return (SMOOTH, LIPSCHITZ, MOVABLE) if self.nuclear_weight is None else (SMOOTH, MOVABLE)

    def __post_init__(self) -> None:
        need_positive("nuclear_weight", self.nuclear_weight, optional=True)

    def in_units(self, units: Units) -> "Solver[Any, Any]":
        """Return the solver with the weight of stored numbers."""
        return replace(self, nuclear_weight=stored_weight(self.nuclear_weight, units))  # type: ignore[type-var]

    def init(self, objective: Movable, rank: int) -> PenaltyState:
        """X = 0; search for the weight if it is None."""
        objective.reset()
        most = min(objective.shape)
        if self.nuclear_weight is not None:
            return PenaltyState(self.nuclear_weight, most, objective.value())
        weight, _ = AISImpute().search(objective, rank)
        return PenaltyState(weight, min(rank, most), objective.value())

    def bound(self, objective: Movable, state: PenaltyState, top: Top) -> float:
        """Return the duality gap of the penalized problem at X."""
        return nuclear_gap(objective, state.weight, top.upper, float(objective.point.theta.sum()))

    def is_settled(self, state: PenaltyState, top: Top, bound: float) -> bool:
        """Return whether the top singular value is close to the weight."""
        return top.upper <= OPTIMAL_RATIO * state.weight
