"""Alternating minimisation over two factors, by gradient steps."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from .._checks import all_finite
from ..objectives import PlaneRestriction, Problem
from ..spectral import block_svd
from .base import Solver
from .history import StepReport
from .steps import bisect
from .validation import need_move, need_smooth

Array = NDArray[Any]
TRIES = 40


@dataclass
class State:
    """The two factors, ``X = U V.T``, in the objective's number type, and whether X has been moved there yet."""

    U: Array
    V: Array
    there: bool = False


@dataclass(frozen=True)
class AltMin(Solver):
    """Gradient steps on U and on V by turns, each with a line search.

    Objective: any smooth f of ``X = U V.T``. Cost per step: O(rank n_observed). Rate: not known. Reference: Chiang,
    Hsieh, Natarajan, Dhillon and Tewari, JMLR 2014.

    Starts from the leading triplets of the negative gradient at zero, scaled to the minimum of f along them; the
    papers do not say where they start.

    Parameters
    ----------
    max_iter : int or None, default=500
        Steps at most.

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

    def init(self, objective: Problem, rank: int) -> State:
        """Factors of the scaled negative gradient."""
        need_smooth(objective, "AltMin")
        need_move(objective, "AltMin")
        objective.reset()
        rank = min(rank, *objective.shape)
        start = np.random.default_rng(0).standard_normal((objective.shape[1], rank))
        U, s, V, _ = block_svd(objective.gradient(), start, 5)
        weight = bisect(objective.along(U, V, -s))[0]
        root = np.sqrt(weight * s)
        objective.reset()
        return State((-U * root).astype(objective.dtype), (V * root).astype(objective.dtype))

    def accepts(self, objective: Problem, state: Any) -> bool:
        """Whether the factors are of the objective's shape."""
        if not isinstance(state, State) or state.U.ndim != 2:
            return False
        sides = zip((state.U, state.V), objective.shape, strict=True)
        return all(side.shape == (size, state.U.shape[1]) and all_finite(side) for side, size in sides)

    def step(self, objective: Problem, rng: Generator, state: State) -> StepReport:
        """One line-searched gradient step on each factor."""
        tried = 0
        if not state.there:
            objective.move(*unit_terms(state.U, state.V))
            state.there = True
        for side in ("U", "V"):
            gradient = objective.gradient()
            if side == "U":
                slope = gradient.matmat(state.V)
                phi = objective.along(slope, state.V, -np.ones(slope.shape[1]))
            else:
                slope = gradient.rmatmat(state.U)
                phi = objective.along(state.U, slope, -np.ones(slope.shape[1]))
            length, used = armijo(phi, objective.value(), float(np.vdot(slope, slope)))
            tried += used
            setattr(state, side, getattr(state, side) - np.asarray(length * slope, objective.dtype))
            objective.move(*unit_terms(state.U, state.V))
        return StepReport(n_products=2 * state.U.shape[1], n_evaluations=tried)


def unit_terms(U: Array, V: Array) -> tuple[Array, Array, Array]:
    """``U V.T`` as coefficients and columns of unit length; zero columns stay zero."""
    left, right = (np.sqrt(np.einsum("ij,ij->j", side, side, dtype=np.float64)) for side in (U, V))
    U, V = (side / np.where(norm > 0, norm, 1.0).astype(side.dtype) for side, norm in ((U, left), (V, right)))
    return left * right, U, V


def armijo(phi: PlaneRestriction, value: float, squared: float) -> tuple[float, int]:
    """Length of a step along the negative gradient, whose squared norm is given: Newton's, halved until f falls."""
    curvature = float(phi.curve(np.array([1.0, 0.0]), np.array([0.0, 1.0]))[1])
    length = squared / curvature if curvature > 0 else 1.0
    for tries in range(1, TRIES):
        if phi(np.array([1.0, length]))[0] <= value - 1e-4 * length * squared:
            return length, tries
        length *= 0.5
    return 0.0, TRIES - 1
