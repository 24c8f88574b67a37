"""Inexact Wiberg steps for l1 factorization, by products alone: smoothed residuals and conjugate gradients."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._arrays import Array
from ..model import predict

SMOOTHING, LEAST_SMOOTHING = 1e-2, 1e-4  # of absolute values, relative to the mean absolute residual: first and last
SLOW = 3e-4  # relative gain of a step below which the smoothing is quartered
DAMPING, LEAST_DAMPING, MOST_DAMPING = 1.0, 1e-6, 1e3  # first, least and last, relative to the mean curvature
EXACT = 1e-12  # relative residual that counts as rounding error
N_ELIMINATIONS = 3  # reweighted least squares for V after each change of U
N_CONJUGATE = 20  # iterations of conjugate gradients per step
LENGTHS = (1.0, 0.25, 0.25**2, 0.25**3)  # of a step, until the value falls
JITTER = 1e-10  # of a block's mean diagonal, added to it: rows shorter than the rank have singular blocks


@dataclass(frozen=True)
class FlatEntries:
    """Observed entries in row order, and sums over them; the sparse products do not copy the pattern."""

    shape: tuple[int, int]
    indptr: Array
    indices: Array
    targets: Array
    weights: Array

    @cached_property
    def rows(self) -> Array:
        """Row of each entry."""
        return np.repeat(np.arange(self.shape[0], dtype=np.uint64), np.diff(self.indptr))

    @cached_property
    def cols(self) -> Array:
        """Column of each entry."""
        return self.indices.astype(np.uint64)

    def at(self, left: Array, right: Array) -> NDArray[np.float64]:
        """Return ``left @ right.T`` at the entries, shape (n_observed,)."""
        return predict(np.ones(left.shape[1]), left, right, self.rows, self.cols)

    def residual(self, U: Array, V: Array) -> NDArray[np.float64]:
        """Return targets minus ``U @ V.T`` at the entries."""
        return np.asarray(self.targets - self.at(U, V))

    def reweighted(self, residual: Array, smoothing: float) -> NDArray[np.float64]:
        """Return the weights of squares that touch the smoothed absolute residuals; smoothing in units of targets."""
        return np.asarray(self.weights / np.sqrt(residual**2 + smoothing**2))

    def over_rows(self, values: Array, right: Array) -> Array:
        """Return ``S @ right`` for the sparse S with these values at the entries."""
        return np.asarray(sp.csr_array((values, self.indices, self.indptr), shape=self.shape) @ right)

    def over_cols(self, values: Array, left: Array) -> Array:
        """Return ``S.T @ left`` for the sparse S with these values at the entries."""
        return np.asarray(sp.csc_array((values, self.indices, self.indptr), shape=self.shape[::-1]) @ left)


@dataclass(frozen=True)
class Linearization:
    """Predictions as a function of U, with V eliminated by weighted least squares, to first order.

    ``change(D)[k]`` is ``D_i v_j - u_i H_j^-1 sum_i' w u_i' (D_i' v_j)`` with ``H_j = sum_i w u_i u_i.T + ridge I``. As
    the smoothing tends to zero, it is the derivative of the predictions whose V minimizes the l1 residuals.

    Parameters
    ----------
    entries : FlatEntries
    U, V : ndarray of shapes (n_rows, rank), (n_cols, rank)
    weights : ndarray of shape (n_observed,)
        Weights w of the squared residuals.
    ridge : float
    """

    entries: FlatEntries
    U: Array
    V: Array
    weights: Array
    ridge: float

    @cached_property
    def inverse(self) -> Array:
        """Inverses of the blocks H, shape (n_cols, rank, rank)."""
        return np.linalg.inv(_regular(self.entries.over_cols(self.weights, outer(self.U)), self.ridge))

    def follow(self, D: Array) -> Array:
        """Return the change of V that follows a change D of U."""
        crossed = self.entries.over_cols(self.weights * self.entries.at(D, self.V), self.U)
        return -times(self.inverse, crossed)

    def change(self, D: Array) -> NDArray[np.float64]:
        """Return the change of the predictions, shape (n_observed,)."""
        return self.entries.at(D, self.V) + self.entries.at(self.U, self.follow(D))

    def normal(self, D: Array) -> Array:
        """Return the normal equations' matrix times D; it is symmetric and has no negative eigenvalue."""
        return self.entries.over_rows(self.weights * self.change(D), self.V) + self.ridge * D

    def direction(self, residual: Array, damping: float) -> tuple[Array, Array]:
        """Return changes of U and V: `N_CONJUGATE` conjugate gradient iterations, preconditioned by U's own blocks."""
        pull = self.weights * residual
        fixed = times(self.inverse, self.entries.over_cols(pull, self.U) - self.ridge * self.V)
        pull = pull - self.weights * self.entries.at(self.U, fixed)
        right = self.entries.over_rows(pull, self.V) - self.ridge * self.U
        blocks = self.entries.over_rows(self.weights, outer(self.V)).reshape(-1, *self.inverse.shape[1:])
        damping *= float(np.trace(blocks, axis1=1, axis2=2).mean()) / blocks.shape[1]
        inverse = np.linalg.inv(_regular(blocks, self.ridge + damping))
        D = conjugate_gradients(lambda x: self.normal(x) + damping * x, right, lambda x: times(inverse, x))
        return D, fixed + self.follow(D)


def conjugate_gradients(product: Any, right: Array, precondition: Any, n_iter: int = N_CONJUGATE) -> Array:
    """Solve ``product(x) = right`` from zero until the residual is a hundredth, by at most `n_iter` products."""
    x, rest = np.zeros_like(right), right
    scaled = precondition(rest)
    direction, size = scaled, float(np.vdot(rest, scaled))
    enough = 1e-4 * size
    for _ in range(n_iter):
        if not size > enough:
            break
        image = product(direction)
        curvature = float(np.vdot(direction, image))
        if not curvature > 0:
            break
        x, rest = x + size / curvature * direction, rest - size / curvature * image
        scaled = precondition(rest)
        size, previous = float(np.vdot(rest, scaled)), size
        direction = scaled + size / previous * direction
    return x


def outer(factor: Array) -> Array:
    """Return the products of all pairs of entries of each row, shape (n, rank**2)."""
    return np.asarray(np.einsum("ia,ib->iab", factor, factor).reshape(factor.shape[0], -1))


def times(blocks: Array, rows: Array) -> Array:
    """Return each block times its row, shape (n, rank)."""
    return np.asarray(np.einsum("iab,ib->ia", blocks, rows))


def _regular(blocks: Array, ridge: float) -> Array:
    """Return the blocks, shape (n, rank, rank), plus `ridge` and a jitter on their diagonals; they have inverses."""
    rank = int(np.sqrt(blocks[0].size))
    blocks = blocks.reshape(-1, rank, rank).copy()
    diagonal = np.einsum("iaa->ia", blocks)
    diagonal += ridge + JITTER * diagonal.mean(axis=1, keepdims=True)
    diagonal += diagonal.sum(axis=1, keepdims=True) == 0  # no entries: zero stays the solution
    return blocks


def eliminate(
    entries: FlatEntries, U: Array, V: Array, ridge: float, smoothing: float, n_iter: int = N_ELIMINATIONS
) -> Array:
    """Return V improved for fixed U, by reweighted least squares on smoothed absolute residuals."""
    pairs = outer(U)
    for _ in range(n_iter):
        weights = entries.reweighted(entries.residual(U, V), smoothing)
        blocks = _regular(entries.over_cols(weights, pairs), ridge)
        V = np.linalg.solve(blocks, entries.over_cols(weights * entries.targets, U)[:, :, None])[:, :, 0]
    return np.asarray(V)


def balanced(U: Array, V: Array) -> tuple[Array, Array]:
    """Return the factors of ``U @ V.T`` of least norm: orthogonal columns, of equal lengths in both factors."""
    (left, small), (right, other) = np.linalg.qr(U), np.linalg.qr(V)
    inner_left, s, inner_right = np.linalg.svd(small @ other.T)
    return left @ (inner_left * np.sqrt(s)), right @ (inner_right.T * np.sqrt(s))


@dataclass
class InexactState:
    """Factors, the value that they have, and how bold the next step is."""

    entries: FlatEntries
    ridge: float
    U: Array
    V: Array
    value: float
    smoothing: float = SMOOTHING
    damping: float = DAMPING

    @classmethod
    def begun(cls, entries: FlatEntries, ridge: float, U: Array, V: Array) -> "InexactState":
        """Return the state at ``U @ V.T``, with V eliminated if that lowers the value."""
        state = cls(entries, ridge, *balanced(U, V), np.inf)
        state.value = state.value_at(state.U, state.V)
        if state.value > 0:
            state.accept(state.U, eliminate(entries, state.U, state.V, ridge, state.absolute_smoothing()))
        return state

    @property
    def settled(self) -> bool:
        """Whether the smoothing is at its least."""
        return self.smoothing <= LEAST_SMOOTHING

    def value_at(self, U: Array, V: Array) -> float:
        """Return the weighted sum of absolute residuals, without smoothing, plus the ridge."""
        penalty = 0.5 * self.ridge * float(np.vdot(U, U) + np.vdot(V, V))
        return float(self.entries.weights @ np.abs(self.entries.residual(U, V))) + penalty

    def absolute_smoothing(self) -> float:
        """Return the smoothing in the units of the targets."""
        weights = self.entries.weights
        return self.smoothing * float(weights @ np.abs(self.entries.residual(self.U, self.V))) / float(weights.sum())

    def accept(self, U: Array, V: Array) -> bool:
        """Move to the balanced factors of ``U @ V.T`` if the value is lower there."""
        U, V = balanced(U, V)
        value = self.value_at(U, V)
        if not value < self.value:
            return False
        self.U, self.V, self.value = U, V, value
        return True

    def move(self) -> tuple[str, str] | None:
        """Take a step if one lowers the value; return a reason and a message if the run is to stop."""
        entries, before = self.entries, self.value
        if before <= EXACT * float(entries.weights @ np.abs(entries.targets)):
            return "converged", "The fit is exact."
        residual, smoothing = entries.residual(self.U, self.V), self.absolute_smoothing()
        weights = entries.reweighted(residual, smoothing)
        D, follow = Linearization(entries, self.U, self.V, weights, self.ridge).direction(residual, self.damping)
        for length in LENGTHS:
            U = self.U + length * D
            if self.accept(U, eliminate(entries, U, self.V + length * follow, self.ridge, smoothing)):
                break
        failed = self.value == before
        if failed and self.settled and self.damping >= MOST_DAMPING:
            return "no-descent", "No step lowers the value at the final smoothing."
        bold = not failed and length == 1
        self.damping = max(self.damping / 3, LEAST_DAMPING) if bold else self.damping * (16 if failed else 4)
        if before - self.value <= SLOW * before:
            self.smoothing = max(self.smoothing / 4, LEAST_SMOOTHING)
        return None
