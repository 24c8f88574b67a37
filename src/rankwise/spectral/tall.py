"""Products and sums of tall matrices by fixed blocks of rows, so that results do not depend on threads."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from .._arrays import Array
from ..kernels.columns import Term, blend

BlockWork = Callable[[slice], Array]
Each = Callable[[BlockWork, Sequence[slice]], list[Array]]  # maps a function over blocks of rows, possibly in threads
ROWS = 1 << 13  # of a block: large enough for BLAS, small enough to be shared among threads


def blocks_of(tall: Array) -> list[slice]:
    """Return the blocks of rows of a tall matrix."""
    return [slice(start, start + ROWS) for start in range(0, max(tall.shape[0], 1), ROWS)]


def by_turns(work: BlockWork, blocks: Sequence[slice]) -> list[Array]:
    """Call `work` for one block after another."""
    return [work(rows) for rows in blocks]


def times(tall: Array, small: Array, each: Each = by_turns) -> Array:
    """Return ``tall @ small``."""
    pieces = each(lambda rows: tall[rows] @ small, blocks_of(tall))
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def inner(left: Array, right: Array, each: Each = by_turns) -> Array:
    """Return ``left.T @ right`` for two tall matrices; blocks are summed in order."""
    return reduce(np.add, each(lambda rows: left[rows].T @ right[rows], blocks_of(left)))


def blended(*terms: tuple[Any, Array], scale: Array | None = None, each: Each = by_turns) -> tuple[Array, Array]:
    """Return a weighted sum of up to three matrices, shape (n_rows, width), and the sums of squares of its columns.

    A term is a pair of factors, a number or an array of shape (width,), and a matrix of shape (n_rows, width). `scale`,
    of shape (n_rows,), multiplies every row of the sum.
    """
    (n_rows, width), dtype = terms[0][1].shape, terms[0][1].dtype
    scale = np.ones(n_rows, dtype) if scale is None else scale
    total = np.empty((n_rows, width), dtype)
    padded = [Term(np.full(width, factors, dtype), np.ascontiguousarray(block)) for factors, block in terms]
    padded += [padded[0]._replace(factors=np.zeros(width, dtype))] * (3 - len(padded))

    def blend_block(rows: slice) -> Array:
        squares = np.zeros(width)
        parts = (term._replace(block=term.block[rows].reshape(-1)) for term in padded)
        blend(scale[rows], *parts, total[rows].reshape(-1), squares)
        return squares

    return total, reduce(np.add, each(blend_block, blocks_of(total)))
