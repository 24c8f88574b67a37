"""Products of tall matrices with small ones, and sums of them, by fixed blocks of rows: threads change no bit."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels.columns import Term, blend

Array = NDArray[Any]
Work = Callable[[slice], Array]
Each = Callable[[Work, Sequence[slice]], list[Array]]  # what does a work for each of some blocks, in threads perhaps
ROWS = 1 << 13  # of a block: large enough for BLAS, small enough that two threads have blocks to share


def blocks_of(tall: Array) -> list[slice]:
    """Where its rows are cut."""
    return [slice(start, start + ROWS) for start in range(0, max(tall.shape[0], 1), ROWS)]


def by_turns(work: Work, blocks: Sequence[slice]) -> list[Array]:
    """One block after another."""
    return [work(rows) for rows in blocks]


def times(tall: Array, small: Array, each: Each = by_turns) -> Array:
    """``tall @ small``."""
    pieces = each(lambda rows: tall[rows] @ small, blocks_of(tall))
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def inner(left: Array, right: Array, each: Each = by_turns) -> Array:
    """``left.T @ right``, for two tall matrices; blocks are added up in their order."""
    return reduce(np.add, each(lambda rows: left[rows].T @ right[rows], blocks_of(left)))


def blended(*terms: tuple[Any, Array], scale: Array | None = None, each: Each = by_turns) -> tuple[Array, Array]:
    """``scale`` of every row times the sum of up to three matrices, and the sums of the squares of its columns.

    Each matrix comes with a factor, or one for each of its columns.
    """
    (n_rows, width), dtype = terms[0][1].shape, terms[0][1].dtype
    scale = np.ones(n_rows, dtype) if scale is None else scale
    found = np.empty((n_rows, width), dtype)
    given = [Term(np.full(width, factors, dtype), np.ascontiguousarray(block)) for factors, block in terms]
    given += [given[0]._replace(factors=np.zeros(width, dtype))] * (3 - len(given))

    def some(rows: slice) -> Array:
        squares = np.zeros(width)
        parts = (term._replace(block=term.block[rows].reshape(-1)) for term in given)
        blend(scale[rows], *parts, found[rows].reshape(-1), squares)
        return squares

    return found, reduce(np.add, each(some, blocks_of(found)))
