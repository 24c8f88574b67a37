"""Matrices known through their products."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from .tall import Each, by_turns, inner, times

Vector = NDArray[Any]


class LowRank(LinearOperator):
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
        """``left diag(theta) right.T v`` in the factors' own number type, so that they are not copied."""
        small = (self.theta * inner(right, v.astype(right.dtype, copy=False), self.each).T).T
        return np.asarray(times(left, small.astype(left.dtype, copy=False), self.each), np.float64)


class SparsePlusLowRank(LinearOperator):
    """``S + L``, never formed. One fused product passes once over S if S has a fused product of its own.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> import rankwise as rw
    >>> low_rank = rw.spectral.LowRank(np.array([2.0]), np.array([[1.0], [0.0]]), np.array([[0.6], [0.8]]))
    >>> rw.spectral.SparsePlusLowRank(sp.eye_array(2).tocsr(), low_rank).matvec(np.array([1.0, 1.0]))
    array([3.8, 1. ])
    """

    def __init__(self, sparse: Any, low_rank: LowRank) -> None:
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
        """``z = (S + L) v + shift`` and ``(S + L).T z``, for a vector or a block of columns."""
        added = product(self.low_rank, v)
        z, w = gram(self.sparse, v, added if shift is None else added + shift)
        return z, w + transposed(self.low_rank, z)


def as_operator(matrix: Any) -> LinearOperator:
    """`matrix` as a SciPy linear operator."""
    return matrix if isinstance(matrix, LinearOperator) else aslinearoperator(matrix)


def gram(operator: LinearOperator, v: Vector, shift: Vector | None = None) -> tuple[Vector, Vector]:
    """``z = A v + shift`` and ``A.T z``, for a vector or a block of columns, in one pass if the operator can."""
    if hasattr(operator, "gram"):
        z, w = operator.gram(v, shift)
        return z, w
    z = product(operator, v)
    if shift is not None:
        z = z + shift
    return z, transposed(operator, z)


def twice(operator: LinearOperator, v: Vector) -> Vector:
    """``A.T A v`` for a vector or a block of columns, in one pass if the operator can."""
    return np.asarray(operator.twice(v)) if hasattr(operator, "twice") else gram(operator, v)[1]


def product(operator: LinearOperator, v: Vector) -> Vector:
    """``A v`` for a vector or a block of columns, be it one column."""
    return np.asarray(operator.matvec(v) if v.ndim == 1 else operator.matmat(v))


def transposed(operator: LinearOperator, u: Vector) -> Vector:
    """``A.T u`` for a vector or a block of columns."""
    return np.asarray(operator.rmatvec(u) if u.ndim == 1 else operator.rmatmat(u))
