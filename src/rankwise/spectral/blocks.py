"""Several leading singular triplets at once, by block power iterations from a start subspace."""

from typing import Any

import numpy as np

from .._arrays import Array
from .operators import as_operator
from .tall import Each, by_turns, inner, times


def block_svd(operator: Any, start: Array, n_iter: int = 3) -> tuple[Array, Array, Array, int]:
    """Compute approximate leading singular triplets of an operator.

    Parameters
    ----------
    operator : LinearOperator of shape (n_rows, n_cols)
    start : ndarray of shape (n_cols, k)
        Columns near the leading right singular vectors, such as those of the last iterate, or random.
    n_iter : int, default=3
        Power iterations; each costs 2 k products, in one pass over the observations.

    Returns
    -------
    U, s, V : ndarray of shapes (n_rows, k), (k,), (n_cols, k)
        Orthonormal columns, singular values in descending order.
    n_products : int

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> start = rw.spectral.widen(np.zeros((3, 0)), 2, np.random.default_rng(0))
    >>> operator = rw.spectral.LowRank(np.array([3.0, 1.0]), np.eye(3)[:, :2], np.eye(3)[:, :2])
    >>> U, sigmas, V, n_products = rw.spectral.block_svd(operator, start)
    >>> print(sigmas.round(2))
    [3. 1.]
    """
    operator = as_operator(operator)
    k, each = min(start.shape[1], *operator.shape), operator.each
    V = start[:, :k]
    for _ in range(n_iter):
        V = orthonormal(operator.twice(V), 1, each)
    V = orthonormal(V, 1, each)  # a second pass: the last one loses half the digits
    Z = operator.matmat(V)
    U = orthonormal(Z, 2, each)
    left, s, right = np.linalg.svd(inner(U, Z, each))
    return times(U, left, each), s, times(V, right.T, each), (2 * n_iter + 1) * k


def right_svd(operator: Any, start: Array, n_iter: int = 3) -> tuple[Array, Array]:
    """Compute approximate leading singular values and right singular vectors, shapes (k,) and (n_cols, k).

    The result is that of `block_svd` without the left vectors, which take a quarter of its time at a rank of a
    thousand. Values below 1e-8 of the largest are not accurate.
    """
    operator = as_operator(operator)
    V, each = start[:, : min(start.shape[1], *operator.shape)], operator.each
    for _ in range(n_iter):
        V = orthonormal(operator.twice(V), 1, each)
    V = orthonormal(V, 1, each)  # a second pass: the last one loses half the digits
    Z = operator.matmat(V)
    squares, vectors = np.linalg.eigh(inner(Z, Z, each))
    del Z
    return np.sqrt(np.maximum(squares[::-1], 0.0)), times(V, vectors[:, ::-1], each)


def orthonormal(A: Array, n_passes: int = 2, each: Each = by_turns) -> Array:
    """Return a matrix of A's shape whose orthonormal columns span A's column space.

    Each pass whitens A by the eigendecomposition of ``A.T A``, which is accurate to half the digits, so that two passes
    are needed for full accuracy. Nearly dependent columns use LAPACK's QR factorization, which takes five to ten times
    as long.
    """
    A = A / (float(np.abs(A).max(initial=0.0)) or 1.0)
    for _ in range(n_passes):
        squares, vectors = np.linalg.eigh(inner(A, A, each))
        if not squares[0] > 1e-12 * squares[-1]:
            return np.linalg.qr(A)[0]
        A = times(A, vectors / np.sqrt(squares), each)
    return A


def widen(V: Array, k: int, rng: np.random.Generator) -> Array:
    """Return `V` with standard normal columns appended until it has k columns.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> rw.spectral.widen(np.eye(4)[:, :1], 3, np.random.default_rng(0)).shape
    (4, 3)
    """
    return np.column_stack((V, rng.standard_normal((V.shape[0], max(0, k - V.shape[1])))))
