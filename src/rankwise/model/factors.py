"""``X = U diag(theta) V.T``, growing one term at a time."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

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

    def append(self, shrink: float, weight: float, u: NDArray[Any], v: NDArray[Any]) -> None:
        """``X = shrink X + weight u v.T``."""
        if self.rank == self._theta.size:
            self._theta = np.concatenate((self._theta, np.zeros(BLOCK)))
            self._U, self._V = (np.pad(factor, ((0, 0), (0, BLOCK))) for factor in (self._U, self._V))
        self._theta[: self.rank] *= shrink
        self._theta[self.rank] = weight
        self._U[:, self.rank], self._V[:, self.rank] = u, v
        self.rank += 1

    def replace(self, theta: NDArray[Any]) -> None:
        """New coefficients for the same terms."""
        self._theta[: self.rank] = theta

    def inner_products(self, u: NDArray[Any], v: NDArray[Any]) -> NDArray[np.float64]:
        """``<u_k v_k.T, u v.T>`` for every term k; O((n_rows + n_cols) rank)."""
        u, v = (np.asarray(side, np.float64) for side in (u, v))
        return np.asarray((u @ self.U) * (v @ self.V))
