"""The matrix between two orthonormal bases: pairs added to it, and its refit by L-BFGS or by proximal steps."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from .. import spectral
from .._arrays import Array
from .._checks import all_finite
from ..objectives import Movable
from ..spectral import as_operator
from .history import StepReport
from .steps import first_weight, minimise

NEGLIGIBLE = 1e-9  # singular values below this fraction of the largest are rounding errors


@dataclass
class Iterate:
    """``U diag(s) V.T`` with orthonormal columns."""

    U: Array
    s: Array
    V: Array

    def is_sound(self, shape: tuple[int, int]) -> bool:
        """Return whether all parts are finite and of the right shapes."""
        sizes = (self.U, (shape[0], self.s.size)), (self.s, (self.s.size,)), (self.V, (shape[1], self.s.size))
        return all(part.shape == size and all_finite(part) for part, size in sizes)

    def leading(self, rank: int) -> "Iterate":
        """Return the first `rank` components."""
        return Iterate(self.U[:, :rank], self.s[:rank], self.V[:, :rank])

    @classmethod
    def of(cls, objective: Movable) -> "Iterate":
        """Return a copy of the current point."""
        point = objective.point
        return cls(point.U.astype(np.float64), point.theta.copy(), point.V.astype(np.float64))

    @classmethod
    def zero(cls, shape: tuple[int, int]) -> "Iterate":
        """Return the zero matrix."""
        return cls(np.zeros((shape[0], 0)), np.zeros(0), np.zeros((shape[1], 0)))


def compress(U: Array, V: Array, least: float = NEGLIGIBLE) -> Iterate:
    """Return the SVD of ``U V.T`` without singular values below `least` of the largest.

    Costs O((n_rows + n_cols) k**2) for k columns.
    """
    (left, A), (right, B) = (np.linalg.qr(side.astype(np.float64)) for side in (U, V))
    inner, values, outer = np.linalg.svd(A @ B.T, full_matrices=False)
    large = values > least * values[:1].sum()
    return Iterate(left @ inner[:, large], values[large], right @ outer[large].T)


class Core:
    """``C -> f(U C V.T)`` over orthonormal bases U and V whose spans contain X and new pairs.

    Parameters
    ----------
    objective : Movable
    u, v : ndarray of shape (n_rows,) and (n_cols,), or with one column per pair
    """

    def __init__(self, objective: Movable, u: Array, v: Array) -> None:
        self.objective = objective
        point = objective.point
        self.U, self._left = _extended(point.U, u)
        self.V, self._right = _extended(point.V, v)
        self.theta = point.theta.copy()

    def start(self, weight: float | Array, shrink: float = 1.0) -> Array:
        """Return the core of ``shrink X + u diag(weight) v.T``, raveled."""
        return np.ravel(self._left * np.append(shrink * self.theta, weight) @ self._right.T)

    def matrix(self, c: Array) -> Array:
        """Return the raveled core as a matrix."""
        return c.reshape(self.U.shape[1], self.V.shape[1])

    def value(self, c: Array) -> float:
        """Return the value at the raveled core c, where X is moved to."""
        C = self.matrix(c)
        self.objective.move(np.ones(C.shape[1]), self.U @ C, self.V)
        return self.objective.value()

    def __call__(self, c: Array) -> tuple[float, NDArray[np.float64]]:
        """Return value and gradient at the raveled core c."""
        value = self.value(c)
        gradient = as_operator(self.objective.gradient())
        return value, (self.U.T @ gradient.matmat(self.V)).ravel()

    def iterate(self, c: Array) -> Iterate:
        """Return the SVD of ``U C V.T``."""
        left, values, right = np.linalg.svd(self.matrix(c), full_matrices=False)
        return Iterate(self.U @ left, values, self.V @ right.T)

    def move(self, c: Array) -> None:
        """Set ``X = U C V.T``, in terms of its singular vectors."""
        X = self.iterate(c)
        self.objective.move(X.s, X.U, X.V)


def add_pair(objective: Movable, oracle: spectral.Oracle, n_lbfgs: int, rng: Generator) -> StepReport:
    """Add the gradient's top singular pair to the bases of X, then refit the core: a step of GECO."""
    gradient = objective.gradient()
    u, sigma, v, n_products = oracle(gradient, rng=rng)
    if gradient.norm == 0.0:  # the squares of the entries underflow
        sigma = 0.0
    weight, n_evaluations = first_weight(objective, u, sigma, v) if sigma > 0 else (0.0, 0)
    if weight == 0.0:
        return StepReport(sigma, gradient.norm, gradient.inner, n_products, n_evaluations, 0)
    core = Core(objective, u, v)
    start = core.start(weight)
    C, used = minimise(core, start, np.full_like(start, abs(weight)), n_lbfgs)
    core.move(C)
    full = objective.point.rank == min(objective.shape)
    stop = ("rank", f"Reached rank {objective.point.rank}, the largest of this shape.") if full else None
    return StepReport(sigma, gradient.norm, gradient.inner, n_products, n_evaluations + used, stop=stop)


def proximal_steps(
    core: Core, start: Array, shrink: Callable[[Array], Array], weight: float, n_iter: int
) -> tuple[Array, int]:
    """Minimize ``f + weight ||C||_*`` over a core by accelerated proximal steps of length 1 / L.

    Parameters
    ----------
    core : Core
    start : ndarray
        Raveled core; the result is never worse.
    shrink : callable
        The proximal map as a function of singular values in descending order.
    weight : float
        Of the nuclear norm.
    n_iter : int
        Steps; momentum restarts when the value rises.

    Returns
    -------
    c : ndarray
        The best core of all steps, raveled.
    n_evaluations : int
    """
    lipschitz = float(core.objective.lipschitz or 1.0)
    value, gradient = core(start)
    least = last = value + weight * float(np.linalg.svd(core.matrix(start), compute_uv=False).sum())
    best = before = now = start
    momentum = 1.0
    for _ in range(n_iter):
        target = core.matrix(now - gradient / lipschitz)
        if not all_finite(target):
            break
        left, values, right = np.linalg.svd(target, full_matrices=False)
        values = shrink(values)
        after = np.ravel(left * values @ right)
        value = core.value(after) + weight * float(values.sum())
        if value < least:
            best, least = after, value
        momentum = 1.0 if value > last else momentum
        following = 0.5 * (1 + np.sqrt(1 + 4 * momentum**2))
        now = after + (momentum - 1) / following * (after - before)
        before, momentum, last = after, following, value
        gradient = core(now)[1]
    return best, 2 * n_iter + 1


def _extended(basis: Array, vectors: Array) -> tuple[Array, Array]:
    """Return an orthonormal basis of the columns and the vectors, and their coordinates in it."""
    columns = np.column_stack((basis.astype(np.float64), vectors))
    Q, R = np.linalg.qr(columns)
    return Q, R
