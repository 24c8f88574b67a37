"""Factors: a matrix ``X = U diag(theta) V.T`` to which terms can be added."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .._arrays import Array
from .._checks import is_number
from .._errors import SettingError
from ..kernels import pattern

PADDED_WIDTH = 8  # columns are allocated in blocks, so that a row of a factor is a whole number of SIMD registers


class Factors:
    """A matrix in factored form, such as the current point of an objective.

    Rows of U and V are contiguous and padded with zero columns to a multiple of eight. Kernels, which read one row at a
    time, use `padded`; other code uses `theta`, `U` and `V`.

    Parameters
    ----------
    shape : tuple of int
        (n_rows, n_cols).
    dtype : dtype, default=float64
        Of U and V; theta is always float64.
    """

    def __init__(self, shape: tuple[int, int], dtype: DTypeLike = np.float64) -> None:
        self.shape = shape
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.clear()

    def clear(self) -> None:
        """Remove all terms: X = 0."""
        self.rank = 0
        self._theta = np.zeros(0)
        self._later: tuple[ArrayLike, ArrayLike] | None = None  # U and V, not read yet
        self._arrays = np.zeros((self.shape[0], 0), self.dtype), np.zeros((self.shape[1], 0), self.dtype)

    def place(self, rank: int, U: ArrayLike, V: ArrayLike) -> None:
        """Set ``X = U V.T``; U and V are read when they are first needed, and must not change until then."""
        self.clear()
        self.rank, self._later = rank, (U, V)
        self._theta = np.zeros(-(-rank // PADDED_WIDTH) * PADDED_WIDTH)
        self._theta[:rank] = 1.0

    def copy(self) -> "Factors":
        """Return factors that do not change with these."""
        copied = Factors(self.shape, self.dtype)
        copied.rank, copied._theta, copied._later = self.rank, self._theta.copy(), self._later
        copied._arrays = self._arrays[0].copy(), self._arrays[1].copy()
        return copied

    def _read(self) -> tuple[Array, Array]:
        """Return U and V with their padding."""
        if self._later is not None:
            sides, self._later = self._later, None
            more = self._theta.size - self.rank
            U, V = (np.pad(np.asarray(side, self.dtype), ((0, 0), (0, more))) for side in sides)
            self._arrays = U, V
        return self._arrays

    @property
    def theta(self) -> NDArray[np.float64]:
        """Coefficients of the terms, shape (rank,)."""
        return self._theta[: self.rank]

    @property
    def U(self) -> Array:
        """Left vectors, shape (n_rows, rank), unit columns."""
        return self._read()[0][:, : self.rank]

    @property
    def V(self) -> Array:
        """Right vectors, shape (n_cols, rank), unit columns."""
        return self._read()[1][:, : self.rank]

    @property
    def padded(self) -> tuple[NDArray[np.float64], Array, Array]:
        """Theta, U and V with their padding, C-contiguous."""
        return self._theta, *self._read()

    def pad(self, theta: Array) -> NDArray[np.float64]:
        """Return `theta` with zeros for the padding."""
        return np.concatenate((theta, np.zeros(self._theta.size - theta.size)))

    def append(self, shrink: float, weight: float, u: Array, v: Array, theta: Array | None = None) -> None:
        """Set ``X = shrink X + weight u diag(theta) v.T``; u and v are vectors or matrices."""
        theta, u, v = as_terms(u, v, theta)
        U, V = self._read()
        missing = self.rank + theta.size - self._theta.size
        if missing > 0:
            more = -(-missing // PADDED_WIDTH) * PADDED_WIDTH
            self._theta = np.concatenate((self._theta, np.zeros(more)))
            U, V = (np.pad(factor, ((0, 0), (0, more))) for factor in (U, V))
        self._theta[: self.rank] *= shrink
        new = slice(self.rank, self.rank + theta.size)
        self._theta[new], U[:, new], V[:, new] = weight * theta, u, v
        self._arrays, self.rank = (U, V), self.rank + theta.size

    def replace(self, theta: Array) -> None:
        """Set the coefficients of the terms."""
        self._theta[: self.rank] = theta

    def inner_products(self, u: Array, v: Array) -> NDArray[np.float64]:
        """Return ``<u_k v_k.T, u v.T>`` for every term k and column of u and v; O((n_rows + n_cols) rank) each."""
        u, v = (np.asarray(side, np.float64) for side in (u, v))
        return np.asarray((u.T @ self.U) * (v.T @ self.V))


def as_terms(u: Array, v: Array, theta: Array | None = None) -> tuple[Array, Array, Array]:
    """Return coefficients, left and right columns of ``u diag(theta) v.T``; one term if u and v are vectors."""
    u, v = (side.reshape(side.shape[0], -1) for side in (u, v))
    return np.ones(u.shape[1]) if theta is None else theta, u, v


def check_dense_size(shape: tuple[int, int], max_bytes: float) -> None:
    """Raise SettingError if a float64 matrix of this shape takes more than `max_bytes`."""
    if not is_number(max_bytes) or not max_bytes >= 0:
        raise SettingError(f"`max_bytes` must be a number of at least zero, got {max_bytes!r}.")
    needed = 8 * shape[0] * shape[1]
    if needed > max_bytes:
        raise SettingError(
            f"The whole matrix of {shape[0]} x {shape[1]} takes {needed / 2**30:.3g} GiB, more than the "
            f"{max_bytes / 2**30:.3g} GiB allowed: use `predict_entries` or `recommend`, or raise `max_bytes`."
        )


def scaled(factor: Array, theta: Array) -> NDArray[np.float64]:
    """Return the first columns of U or V, times their coefficients."""
    return np.asarray(factor[:, : theta.size] * theta, np.float64)


def predict(theta: Array, U: Array, V: Array, rows: Array, cols: Array) -> NDArray[np.float64]:
    """Return ``U diag(theta) V.T`` at pairs of rows and columns; columns of U and V beyond theta's are not used."""
    out = np.zeros(rows.size)
    rows, cols = (np.ascontiguousarray(side, np.uint64) for side in (rows, cols))
    U, V = (np.ascontiguousarray(side) for side in (U, V))
    pattern.low_rank_pairs(rows, cols, np.ascontiguousarray(theta), U, V, out)
    return out
