"""``X = U diag(theta) V.T``, growing one term at a time."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import pattern

Array = NDArray[Any]
BLOCK = 8  # columns are added in blocks of this many, so that a factor row is a whole number of SIMD registers


class Factors:
    """The current point of a solver, in factored form.

    Rows of U and V are contiguous and padded with zero columns to a multiple of eight: kernels read one row at a
    time and may use `padded`; everyone else reads `theta`, `U` and `V`.
    """

    def __init__(self, shape: tuple[int, int], dtype: Any = np.float64) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)
        self.clear()

    def clear(self) -> None:
        """Back to the zero matrix."""
        self.rank = 0
        self._theta = np.zeros(0)
        self._U, self._V = (np.zeros((size, 0), self.dtype) for size in self.shape)

    @property
    def theta(self) -> NDArray[np.float64]:
        """Coefficients of the terms, shape (rank,)."""
        return self._theta[: self.rank]

    @property
    def U(self) -> NDArray[Any]:
        """Left vectors, shape (n_rows, rank), unit columns."""
        return self._U[:, : self.rank]

    @property
    def V(self) -> NDArray[Any]:
        """Right vectors, shape (n_cols, rank), unit columns."""
        return self._V[:, : self.rank]

    @property
    def padded(self) -> tuple[NDArray[np.float64], NDArray[Any], NDArray[Any]]:
        """Theta, U and V with their zero columns, C-contiguous."""
        return self._theta, self._U, self._V

    def pad(self, theta: NDArray[Any]) -> NDArray[np.float64]:
        """`theta` with zeros for the unused columns."""
        return np.concatenate((theta, np.zeros(self._theta.size - theta.size)))

    def append(self, shrink: float, weight: float, u: Array, v: Array, theta: Array | None = None) -> None:
        """``X = shrink X + weight u v.T``, or ``shrink X + weight u diag(theta) v.T`` for several columns."""
        theta, u, v = as_terms(u, v, theta)
        missing = self.rank + theta.size - self._theta.size
        if missing > 0:
            more = -(-missing // BLOCK) * BLOCK
            self._theta = np.concatenate((self._theta, np.zeros(more)))
            self._U, self._V = (np.pad(factor, ((0, 0), (0, more))) for factor in (self._U, self._V))
        self._theta[: self.rank] *= shrink
        new = slice(self.rank, self.rank + theta.size)
        self._theta[new], self._U[:, new], self._V[:, new] = weight * theta, u, v
        self.rank += theta.size

    def replace(self, theta: NDArray[Any]) -> None:
        """New coefficients for the same terms."""
        self._theta[: self.rank] = theta

    def inner_products(self, u: Array, v: Array) -> NDArray[np.float64]:
        """``<u_k v_k.T, u v.T>`` for every term k; O((n_rows + n_cols) rank) for each column of u and v."""
        u, v = (np.asarray(side, np.float64) for side in (u, v))
        return np.asarray((u.T @ self.U) * (v.T @ self.V))


def as_terms(u: Array, v: Array, theta: Array | None = None) -> tuple[Array, Array, Array]:
    """Coefficients, left and right columns of ``u diag(theta) v.T``; one term if u and v are vectors."""
    u, v = (side.reshape(side.shape[0], -1) for side in (u, v))
    return np.ones(u.shape[1]) if theta is None else theta, u, v


def predict(theta: NDArray[Any], U: NDArray[Any], V: NDArray[Any], rows: Any, cols: Any) -> NDArray[np.float64]:
    """Entries of ``U diag(theta) V.T``; columns beyond theta's are not used, and do not change a bit."""
    out = np.zeros(rows.size)
    rows, cols = (np.ascontiguousarray(side, np.uint64) for side in (rows, cols))
    U, V = (np.ascontiguousarray(side) for side in (U, V))
    pattern.low_rank_pairs(rows, cols, np.ascontiguousarray(theta), U, V, out)
    return out
