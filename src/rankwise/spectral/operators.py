"""Linear operators: matrices that are accessed only through products with vectors or blocks of columns."""

from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from .._arrays import Array
from .tall import Each, by_turns, inner, times

Vector = Array
PIECE = 256  # columns of a block that are multiplied at a time


class Operator(LinearOperator):
    """A SciPy linear operator with the products that the oracles use, which subclasses can do in one pass.

    Attributes
    ----------
    each : callable
        Maps a function over blocks of rows of tall matrices, possibly in threads.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> operator: rw.spectral.Operator = rw.spectral.as_operator(np.diag([2.0, 1.0]))
    >>> operator.twice(np.array([1.0, 1.0]))
    array([4., 1.])
    """

    each: Each = staticmethod(by_turns)

    def gram(self, v: Vector, shift: Vector | None = None) -> tuple[Vector, Vector]:
        """Return ``z = A v + shift`` and ``A.T z`` for a vector or a block of columns."""
        z = product(self, v)
        if shift is not None:
            z = z + shift
        return z, transposed(self, z)

    def twice(self, v: Vector) -> Vector:
        """Return ``A.T A v`` for a vector or a block of columns."""
        return self.gram(v)[1]


class Wrapped(Operator):
    """An `Operator` around a matrix or a SciPy linear operator."""

    def __init__(self, inner: LinearOperator) -> None:
        super().__init__(inner.dtype, inner.shape)
        self.inner = inner

    def _matvec(self, v: Vector) -> Vector:
        return np.asarray(self.inner.matvec(v))

    def _rmatvec(self, u: Vector) -> Vector:
        return np.asarray(self.inner.rmatvec(u))

    def _matmat(self, V: Vector) -> Vector:
        return np.asarray(self.inner.matmat(V))

    def _rmatmat(self, U: Vector) -> Vector:
        return np.asarray(self.inner.rmatmat(U))


class LowRank(Operator):
    """``U diag(theta) V.T``; a product costs O((n_rows + n_cols) rank).

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> operator = rw.spectral.LowRank(np.array([2.0]), np.array([[1.0], [0.0]]), np.array([[0.6], [0.8]]))
    >>> operator.matvec(np.array([1.0, 1.0]))
    array([2.8, 0. ])
    """

    def __init__(self, theta: Vector, U: Vector, V: Vector, each: Each = by_turns) -> None:
        super().__init__(np.dtype(np.float64), (U.shape[0], V.shape[0]))
        self.theta, self.U, self.V, self.each = theta, U, V, each

    def _matvec(self, v: Vector) -> Vector:
        return self._product(self.U, self.V, v.ravel())

    def _rmatvec(self, u: Vector) -> Vector:
        return self._product(self.V, self.U, u.ravel())

    def _matmat(self, V: Vector) -> Vector:
        return self._product(self.U, self.V, V)

    def _rmatmat(self, U: Vector) -> Vector:
        return self._product(self.V, self.U, U)

    def _adjoint(self) -> "LowRank":
        return LowRank(self.theta, self.V, self.U, self.each)

    def _product(self, left: Vector, right: Vector, v: Vector) -> Vector:
        """Return ``left diag(theta) right.T v``, computed in the dtype of the factors so that they are not copied."""
        small = (self.theta * inner(right, v.astype(right.dtype, copy=False), self.each).T).T
        return np.asarray(times(left, small.astype(left.dtype, copy=False), self.each), np.float64)


class SparsePlusLowRank(Operator):
    """``S + L`` for a sparse S and a low-rank L, without forming the sum.

    `gram` passes once over S if S is an `Operator` whose `gram` does.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> import rankwise as rw
    >>> low_rank = rw.spectral.LowRank(np.array([2.0]), np.array([[1.0], [0.0]]), np.array([[0.6], [0.8]]))
    >>> rw.spectral.SparsePlusLowRank(sp.eye_array(2).tocsr(), low_rank).matvec(np.array([1.0, 1.0]))
    array([3.8, 1. ])
    """

    def __init__(self, sparse: Any, low_rank: Operator) -> None:
        super().__init__(np.dtype(np.float64), low_rank.shape)
        self.sparse, self.low_rank, self.each = as_operator(sparse), low_rank, low_rank.each

    def _matvec(self, v: Vector) -> Vector:
        return np.asarray(self.sparse.matvec(v.ravel()) + self.low_rank.matvec(v.ravel()))

    def _rmatvec(self, u: Vector) -> Vector:
        return np.asarray(self.sparse.rmatvec(u.ravel()) + self.low_rank.rmatvec(u.ravel()))

    def _matmat(self, V: Vector) -> Vector:
        return np.asarray(self.sparse.matmat(V) + self.low_rank.matmat(V))

    def _rmatmat(self, U: Vector) -> Vector:
        return np.asarray(self.sparse.rmatmat(U) + self.low_rank.rmatmat(U))

    def gram(self, v: Vector, shift: Vector | None = None) -> tuple[Vector, Vector]:
        """Return ``z = (S + L) v + shift`` and ``(S + L).T z`` for a vector or a block of columns."""
        added = product(self.low_rank, v)
        z, w = self.sparse.gram(v, added if shift is None else added + shift)
        return z, w + transposed(self.low_rank, z)


class Scaled(Operator):
    """``diag(rows) A diag(cols)`` for an operator A, without forming it.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> scaled = rw.spectral.Scaled(np.ones((2, 2)), np.array([1.0, 2.0]), np.array([3.0, 0.0]))
    >>> scaled.matvec(np.array([1.0, 1.0]))
    array([3., 6.])
    """

    def __init__(self, matrix: Any, rows: Vector, cols: Vector) -> None:
        self.operator, self.rows, self.cols = as_operator(matrix), rows, cols
        super().__init__(np.dtype(np.float64), self.operator.shape)
        self.each = self.operator.each

    def twice(self, v: Vector) -> Vector:
        """Return ``A.T A v``; wide blocks by pieces, because every shard has a sum of the size of the result."""
        if v.ndim == 1 or v.shape[1] <= PIECE:
            return super().twice(v)
        return np.column_stack([super(Scaled, self).twice(v[:, at : at + PIECE]) for at in range(0, v.shape[1], PIECE)])

    def _matvec(self, v: Vector) -> Vector:
        return np.asarray(self.rows * self.operator.matvec(self.cols * v.ravel()))

    def _rmatvec(self, u: Vector) -> Vector:
        return np.asarray(self.cols * self.operator.rmatvec(self.rows * u.ravel()))

    def _matmat(self, V: Vector) -> Vector:
        return np.asarray(self.rows[:, None] * self.operator.matmat(self.cols[:, None] * V))

    def _rmatmat(self, U: Vector) -> Vector:
        return np.asarray(self.cols[:, None] * self.operator.rmatmat(self.rows[:, None] * U))


def as_operator(matrix: Any) -> Operator:
    """Return an array, a sparse matrix or a SciPy linear operator as an `Operator`.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> rw.spectral.as_operator(np.eye(3)).shape
    (3, 3)
    """
    return matrix if isinstance(matrix, Operator) else Wrapped(aslinearoperator(matrix))


def product(operator: LinearOperator, v: Vector) -> Vector:
    """Return ``A v`` for a vector or a block of columns, also of one column."""
    return np.asarray(operator.matvec(v) if v.ndim == 1 else operator.matmat(v))


def transposed(operator: LinearOperator, u: Vector) -> Vector:
    """Return ``A.T u`` for a vector or a block of columns, also of one column."""
    return np.asarray(operator.rmatvec(u) if u.ndim == 1 else operator.rmatmat(u))
