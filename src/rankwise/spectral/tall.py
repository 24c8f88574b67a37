"""Products of tall matrices with small ones, and sums of them, by fixed blocks of rows: threads change no bit."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels.columns import Term, blend

Array = NDArray[Any]
ROWS = 1 << 13  # of a block: large enough for BLAS, small enough that two threads have blocks to share


def times(tall: Array, small: Array, n_jobs: int = 1) -> Array:
    """``tall @ small``."""
    pieces = _each(lambda rows: tall[rows] @ small, tall.shape[0], n_jobs)
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def inner(left: Array, right: Array, n_jobs: int = 1) -> Array:
    """``left.T @ right``, for two tall matrices; blocks are added up in their order."""
    return reduce(np.add, _each(lambda rows: left[rows].T @ right[rows], left.shape[0], n_jobs))


def blended(*terms: tuple[Any, Array], scale: Array | None = None, n_jobs: int = 1) -> tuple[Array, Array]:
    """``scale`` of every row times the sum of up to three matrices, and the sums of the squares of its columns.

    Each matrix comes with a factor, or one for each of its columns.
    """
    (n_rows, width), dtype = terms[0][1].shape, terms[0][1].dtype
    scale = np.ones(n_rows, dtype) if scale is None else scale
    found = np.empty((n_rows, width), dtype)
    given = [Term(np.full(width, factors, dtype), block) for factors, block in terms]
    given += [given[0]._replace(factors=np.zeros(width, dtype))] * (3 - len(given))

    def some(rows: slice) -> Array:
        squares = np.zeros(width)
        blend(scale[rows], *(term._replace(block=term.block[rows]) for term in given), found[rows], squares)
        return squares

    return found, reduce(np.add, _each(some, n_rows, n_jobs))


def _each(product: Callable[[slice], Array], n_rows: int, n_jobs: int) -> list[Array]:
    """One product for every block of rows."""
    blocks = [slice(start, start + ROWS) for start in range(0, max(n_rows, 1), ROWS)]
    if n_jobs == 1 or len(blocks) == 1:
        return [product(rows) for rows in blocks]
    with ThreadPoolExecutor(min(n_jobs, len(blocks))) as pool:  # NumPy lets other threads run while it multiplies
        return list(pool.map(product, blocks))
