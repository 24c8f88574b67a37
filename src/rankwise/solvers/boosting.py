"""Matrix-norm boosting: rank-one terms for a nuclear-norm problem, each followed by a local search over the factors."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from .._arrays import Array
from ..objectives import Movable
from ..spectral import as_operator
from .base import NamedSolver
from .cores import compress
from .duality import Top
from .penalty import NuclearNormSolver, PenaltyState
from .steps import Valued, bisect, minimise, tilted
from .validation import need_count

REMOVED = 1e-6  # singular values below this fraction of the largest are removed


@dataclass(frozen=True)
class Boosting(NuclearNormSolver):
    """Add the gradient's top singular pair with the best weight, then refit all factors by L-BFGS.

    Objective: smooth f plus ``nuclear_weight * ||X||_*``. Cost per step: O(rank n_observed + rank**2 (n_rows +
    n_cols)) per evaluation. Rate: O(1/T), without a Lipschitz constant. Reference: Zhang, Yu and Schuurmans, NIPS 2012.

    The weight of the pair (u, v) minimizes ``f(X - b u v.T) + nuclear_weight * b`` over b >= 0. The local search
    minimizes ``f(U V.T) + nuclear_weight / 2 * (||U||_F**2 + ||V||_F**2)``, which also rescales X; the paper does so
    by a second variable. An SVD then makes the penalty equal to the nuclear norm. No step raises the value, and
    `Record.gap` bounds its distance to the minimum.

    Parameters
    ----------
    nuclear_weight : float, optional
        The paper's lambda. By default the one for the requested rank, see `AISImpute`; the search counts towards the
        time.
    n_lbfgs : int, default=30
        Largest number of L-BFGS iterations on the factors per step.
    max_iter : int or None, default=500
        Default limit on the number of steps.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> result = rw.solve(rw.Problem(seen, "square"), rw.solvers.Boosting(nuclear_weight=5.0))
    >>> print(result.model.rank)  # it follows from the weight
    2
    """

    nuclear_weight: float | None = None
    n_lbfgs: int = 30
    max_iter: int | None = 500

    @classmethod
    def methods(cls) -> dict[str, NamedSolver]:
        """Return the method with its default settings."""
        summary = "nuclear norm, square or logistic loss and the like, one pair per step and all factors refitted"
        return {"boosting": NamedSolver(cls(), summary)}

    def __post_init__(self) -> None:
        super().__post_init__()
        need_count("n_lbfgs", self.n_lbfgs)

    def improve(self, objective: Movable, rng: Generator, state: PenaltyState, top: Top) -> tuple[int, int]:
        """Add the pair if it lowers the value, then refit the factors."""
        point = objective.point
        U, V = (side.astype(np.float64) * np.sqrt(point.theta) for side in (point.U, point.V))
        n_evaluations = 0
        if top.sigma > state.weight and point.rank < state.most:
            weight, n_evaluations = bisect(tilted(objective.along(-top.u, top.v), state.weight))
            U, V = np.column_stack((U, -np.sqrt(weight) * top.u)), np.column_stack((V, np.sqrt(weight) * top.v))
        if U.shape[1] == 0:
            return 0, n_evaluations
        start = np.concatenate((U, V)).ravel()
        scale = np.full_like(start, np.sqrt((U**2).sum(axis=0).max()))
        best, used = minimise(_factors(objective, state.weight), start, scale, self.n_lbfgs, gtol=0.0)
        U, V = np.split(best.reshape(-1, U.shape[1]), [U.shape[0]])
        X = compress(U, V, REMOVED)
        objective.move(X.s, X.U, X.V)
        return 0, n_evaluations + used


def _factors(objective: Movable, weight: float) -> Valued:
    """Return ``(U, V) -> f(U V.T) + weight / 2 (||U||**2 + ||V||**2)``, with its gradient; U above V, raveled."""
    n_rows, n = objective.shape[0], sum(objective.shape)

    def value(c: Array) -> tuple[float, Array]:
        U, V = np.split(c.reshape(n, -1), [n_rows])
        objective.move(np.ones(U.shape[1]), U, V)
        gradient = as_operator(objective.gradient())
        slopes = np.concatenate((gradient.matmat(V), gradient.rmatmat(U)))
        return objective.value() + 0.5 * weight * float(c @ c), slopes.ravel() + weight * c

    return value
