"""Greedy efficient component optimisation: the pursuit with its whole core refitted."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from .. import spectral
from .._checks import is_whole
from .._errors import SettingError
from ..objectives import Problem
from .base import Solver
from .history import StepReport
from .steps import first_weight, minimise
from .validation import need_move, need_smooth

Array = NDArray[Any]


@dataclass(frozen=True)
class GECO(Solver):
    """Add the gradient's top singular pair, then refit the rank x rank core between the two orthonormal bases.

    Objective: any smooth f. Cost per step: O(rank n_observed + rank**2 (n_rows + n_cols)) per evaluation. Rate: as
    the pursuit's, since the core contains its coefficients. Reference: Shalev-Shwartz, Gonen and Shamir, ICML 2011.

    Parameters
    ----------
    n_lbfgs : int, default=50
        Most L-BFGS iterations on the core per step.
    oracle : {"power", "lanczos", "dense"} or oracle object, default="power"

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> print(rw.solve(rw.Problem(seen, "square"), rw.solvers.GECO(), rank=2).model.rank)
    2
    """

    n_lbfgs: int = 50
    oracle: Any = "power"
    keeps_path: ClassVar[bool] = False
    _oracle: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Turn the name into an object."""
        if not (is_whole(self.n_lbfgs) and self.n_lbfgs >= 1):
            raise SettingError(f"`n_lbfgs` must be an integer of at least 1, got {self.n_lbfgs!r}.")
        object.__setattr__(self, "_oracle", spectral.get(self.oracle))

    def init(self, objective: Problem, rank: int) -> None:
        """X = 0."""
        need_smooth(objective, "GECO")
        need_move(objective, "GECO")
        objective.reset()

    def step(self, objective: Problem, rng: Generator, state: None) -> StepReport:
        """One more direction on each side, then the core."""
        gradient = objective.gradient()
        u, sigma, v, n_products = self._oracle(gradient, rng=rng)
        if gradient.norm == 0.0:  # what is left of it vanishes in its own square
            sigma = 0.0
        weight, tried = first_weight(objective, u, sigma, v) if sigma > 0 else (0.0, 0)
        if weight == 0.0:
            return StepReport(sigma, gradient.norm, gradient.inner, n_products, tried, 0)
        core = Core(objective, u, v)
        start = core.start(weight)
        C, used = minimise(core, start, np.full_like(start, abs(weight)), self.n_lbfgs)
        core.move(C)
        full = objective.point.rank == min(objective.shape)
        stop = ("rank", f"Reached rank {objective.point.rank}, the largest of this shape.") if full else None
        return StepReport(sigma, gradient.norm, gradient.inner, n_products, tried + used, stop=stop)


class Core:
    """``C -> f(U C V.T)`` over orthonormal bases that hold X and a new pair."""

    def __init__(self, objective: Problem, u: Array, v: Array) -> None:
        self.objective = objective
        point = objective.point
        self.U, self._left = _extended(point.U, u)
        self.V, self._right = _extended(point.V, v)
        self.theta = point.theta.copy()

    def start(self, weight: float) -> Array:
        """The core of X plus ``weight u v.T``, raveled."""
        return np.ravel(self._left * np.append(self.theta, weight) @ self._right.T)

    def __call__(self, c: Array) -> tuple[float, NDArray[np.float64]]:
        """Value and gradient."""
        C = c.reshape(self.U.shape[1], self.V.shape[1])
        self.objective.move(np.ones(C.shape[1]), self.U @ C, self.V)
        gradient = self.objective.gradient()
        return self.objective.value(), (self.U.T @ gradient.matmat(self.V)).ravel()

    def move(self, c: Array) -> None:
        """Make ``U C V.T`` the point, by its singular value decomposition."""
        left, values, right = np.linalg.svd(c.reshape(self.U.shape[1], self.V.shape[1]), full_matrices=False)
        self.objective.move(values, self.U @ left, self.V @ right.T)


def _extended(basis: Array, vector: Array) -> tuple[Array, Array]:
    """Orthonormal basis of the columns and the vector, and their coordinates in it."""
    columns = np.column_stack((basis.astype(np.float64), vector))
    Q, R = np.linalg.qr(columns)
    return Q, R
