"""Greedy efficient component optimization: a pursuit that refits the whole core between its two bases."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from .. import spectral
from .._arrays import Array
from ..objectives import Movable
from ..spectral import as_operator
from .base import NamedSolver, Solver
from .history import StepReport
from .steps import first_weight, minimise
from .validation import MOVABLE, SMOOTH, Need, need_count


@dataclass(frozen=True)
class GECO(Solver[Movable, None]):
    """Add the gradient's top singular pair, then refit the rank x rank core between the two orthonormal bases.

    Objective: any smooth f. Cost per step: O(rank n_observed + rank**2 (n_rows + n_cols)) per evaluation. Rate: as
    the pursuit's, since the core contains its coefficients. Reference: Shalev-Shwartz, Gonen and Shamir, ICML 2011.

    Parameters
    ----------
    n_lbfgs : int, default=50
        Largest number of L-BFGS iterations on the core per step.
    oracle : {"power", "lanczos", "dense"} or oracle object, default="power"

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> print(rw.solve(rw.Problem(seen, "square"), rw.solvers.GECO(), rank=2).model.rank)
    2
    """

    n_lbfgs: int = 50
    oracle: str | spectral.Oracle = "power"
    keeps_path: ClassVar[bool] = False
    _oracle: spectral.Oracle = field(init=False, repr=False, compare=False)

    @classmethod
    def methods(cls) -> dict[str, NamedSolver]:
        """Return the method with its default settings."""
        return {"geco": NamedSolver(cls(), "greedy, any smooth loss, the whole core refitted")}

    @property
    def needs(self) -> tuple[Need, ...]:
        """A smooth objective that can move."""
        return (SMOOTH, MOVABLE)

    def __post_init__(self) -> None:
        """Check the settings and replace the oracle's name by an object."""
        need_count("n_lbfgs", self.n_lbfgs)
        object.__setattr__(self, "_oracle", spectral.get(self.oracle))

    def init(self, objective: Movable, rank: int) -> None:
        """X = 0."""
        objective.reset()

    def step(self, objective: Movable, rng: Generator, state: None) -> StepReport:
        """Add one direction to each basis, then refit the core."""
        gradient = objective.gradient()
        u, sigma, v, n_products = self._oracle(gradient, rng=rng)
        if gradient.norm == 0.0:  # the squares of the entries underflow
            sigma = 0.0
        weight, n_evaluations = first_weight(objective, u, sigma, v) if sigma > 0 else (0.0, 0)
        if weight == 0.0:
            return StepReport(sigma, gradient.norm, gradient.inner, n_products, n_evaluations, 0)
        core = Core(objective, u, v)
        start = core.start(weight)
        C, used = minimise(core, start, np.full_like(start, abs(weight)), self.n_lbfgs)
        core.move(C)
        full = objective.point.rank == min(objective.shape)
        stop = ("rank", f"Reached rank {objective.point.rank}, the largest of this shape.") if full else None
        return StepReport(sigma, gradient.norm, gradient.inner, n_products, n_evaluations + used, stop=stop)


class Core:
    """``C -> f(U C V.T)`` over orthonormal bases U and V whose spans contain X and a new pair."""

    def __init__(self, objective: Movable, u: Array, v: Array) -> None:
        self.objective = objective
        point = objective.point
        self.U, self._left = _extended(point.U, u)
        self.V, self._right = _extended(point.V, v)
        self.theta = point.theta.copy()

    def start(self, weight: float) -> Array:
        """Return the core of ``X + weight u v.T``, raveled."""
        return np.ravel(self._left * np.append(self.theta, weight) @ self._right.T)

    def __call__(self, c: Array) -> tuple[float, NDArray[np.float64]]:
        """Return value and gradient at the raveled core c."""
        C = c.reshape(self.U.shape[1], self.V.shape[1])
        self.objective.move(np.ones(C.shape[1]), self.U @ C, self.V)
        gradient = as_operator(self.objective.gradient())
        return self.objective.value(), (self.U.T @ gradient.matmat(self.V)).ravel()

    def move(self, c: Array) -> None:
        """Set ``X = U C V.T``, in terms of its singular vectors."""
        left, values, right = np.linalg.svd(c.reshape(self.U.shape[1], self.V.shape[1]), full_matrices=False)
        self.objective.move(values, self.U @ left, self.V @ right.T)


def _extended(basis: Array, vector: Array) -> tuple[Array, Array]:
    """Return an orthonormal basis of the columns and the vector, and their coordinates in it."""
    columns = np.column_stack((basis.astype(np.float64), vector))
    Q, R = np.linalg.qr(columns)
    return Q, R
