"""Several leading singular triplets at once, by block power iterations from a given subspace."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .operators import as_operator

Array = NDArray[Any]


def block_svd(operator: Any, start: Array, n_iter: int = 3) -> tuple[Array, Array, Array, int]:
    """Approximate leading singular triplets of an operator.

    Parameters
    ----------
    operator : LinearOperator of shape (n_rows, n_cols)
    start : ndarray of shape (n_cols, k)
        Columns near the leading right singular vectors, such as those of the last iterate, or random.
    n_iter : int, default=3
        Power iterations; each costs 2 k products, in blocks.

    Returns
    -------
    U, s, V : ndarray of shapes (n_rows, k), (k,), (n_cols, k)
        Orthonormal columns, values in falling order.
    n_products : int
    """
    operator = as_operator(operator)
    k = min(start.shape[1], *operator.shape)
    Q, n_products = np.linalg.qr(operator.matmat(start[:, :k]))[0], k
    for _ in range(n_iter - 1):
        Q = np.linalg.qr(operator.matmat(operator.rmatmat(Q)))[0]
        n_products += 2 * k
    V, s, W = np.linalg.svd(operator.rmatmat(Q), full_matrices=False)
    return Q @ W.T, s, V, n_products + k


def widen(V: Array, k: int, rng: np.random.Generator) -> Array:
    """`V` with random columns added until it has k."""
    return np.column_stack((V, rng.standard_normal((V.shape[0], max(0, k - V.shape[1])))))
