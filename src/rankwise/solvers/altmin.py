"""Alternating minimization over two factors, by gradient steps."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from .._arrays import Array
from .._checks import all_finite
from ..objectives import Movable, PlaneRestriction
from ..spectral import as_operator, block_svd
from .base import NamedSolver, Solver
from .history import StepReport
from .steps import bisect
from .validation import MOVABLE, SMOOTH, Need

ARMIJO_HALVINGS = 40  # of a step at most


@dataclass
class TwoFactors:
    """The two factors of ``X = U V.T``, in the dtype of the objective, and whether X has been set to them."""

    U: Array
    V: Array
    placed: bool = False


@dataclass(frozen=True)
class AltMin(Solver[Movable, TwoFactors]):
    """Alternating gradient steps on U and on V, each with a line search.

    Objective: any smooth f of ``X = U V.T``. Cost per step: O(rank n_observed). Rate: not known. Reference: Chiang,
    Hsieh, Natarajan, Dhillon and Tewari, JMLR 2014.

    Starts from the leading triplets of the negative gradient at zero, scaled to the minimum of f along them; the
    papers do not state their start.

    Parameters
    ----------
    max_iter : int or None, default=500
        Default limit on the number of steps.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> print(rw.solve(rw.Problem(seen, "square"), rw.solvers.AltMin(), rank=2).model.rank)
    2
    """

    max_iter: int | None = 500
    grows: ClassVar[bool] = False
    keeps_path: ClassVar[bool] = False
    state_types: ClassVar[tuple[type, ...]] = (TwoFactors,)

    @classmethod
    def methods(cls) -> dict[str, NamedSolver]:
        """Return the method with its default settings."""
        return {"altmin": NamedSolver(cls(), "two factors, any smooth loss, alternating gradient steps")}

    @property
    def needs(self) -> tuple[Need, ...]:
        """A smooth objective that can move."""
        return (SMOOTH, MOVABLE)

    def init(self, objective: Movable, rank: int) -> TwoFactors:
        """Start from the factors of the scaled negative gradient."""
        objective.reset()
        rank = min(rank, *objective.shape)
        start = np.random.default_rng(0).standard_normal((objective.shape[1], rank))
        U, s, V, _ = block_svd(objective.gradient(), start, 5)
        weight = bisect(objective.along(U, V, -s))[0]
        root = np.sqrt(weight * s)
        objective.reset()
        dtype = objective.point.dtype
        return TwoFactors((-U * root).astype(dtype), (V * root).astype(dtype))

    def accepts(self, objective: Movable, state: object) -> bool:
        """Return whether the factors are finite and of the objective's shape."""
        if not isinstance(state, TwoFactors) or state.U.ndim != 2:
            return False
        sides = zip((state.U, state.V), objective.shape, strict=True)
        return all(side.shape == (size, state.U.shape[1]) and all_finite(side) for side, size in sides)

    def step(self, objective: Movable, rng: Generator, state: TwoFactors) -> StepReport:
        """One line-searched gradient step on each factor."""
        n_evaluations, dtype = 0, objective.point.dtype
        if not state.placed:
            objective.move(*unit_terms(state.U, state.V))
            state.placed = True
        for on_rows in (True, False):
            gradient, minus = as_operator(objective.gradient()), -np.ones(state.U.shape[1])
            slope = gradient.matmat(state.V) if on_rows else gradient.rmatmat(state.U)
            phi = objective.along(slope, state.V, minus) if on_rows else objective.along(state.U, slope, minus)
            length, used = armijo(phi, objective.value(), float(np.vdot(slope, slope)))
            n_evaluations += used
            change = np.asarray(length * slope, dtype)
            if on_rows:
                state.U = state.U - change
            else:
                state.V = state.V - change
            objective.move(*unit_terms(state.U, state.V))
        return StepReport(n_products=2 * state.U.shape[1], n_evaluations=n_evaluations)


def unit_terms(U: Array, V: Array) -> tuple[Array, Array, Array]:
    """Return ``U V.T`` as coefficients and columns of unit length; zero columns stay zero."""
    left, right = (np.sqrt(np.einsum("ij,ij->j", side, side, dtype=np.float64)) for side in (U, V))
    U, V = (side / np.where(norm > 0, norm, 1.0).astype(side.dtype) for side, norm in ((U, left), (V, right)))
    return left * right, U, V


def armijo(phi: PlaneRestriction, value: float, squared: float) -> tuple[float, int]:
    """Return a step length along the negative gradient of squared norm `squared`: Newton's, halved until f falls."""
    curvature = float(phi.curve(np.array([1.0, 0.0]), np.array([0.0, 1.0]))[1])
    length = squared / curvature if curvature > 0 else 1.0
    for tries in range(1, ARMIJO_HALVINGS):
        if phi(np.array([1.0, length]))[0] <= value - 1e-4 * length * squared:
            return length, tries
        length *= 0.5
    return 0.0, ARMIJO_HALVINGS - 1
