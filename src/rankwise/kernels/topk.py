"""The best few columns of many rows, without ever holding all scores."""

import numpy as np
from numba import float64, uint64

from .jit import jit

WIDTH = 128  # columns scored at a time: their factors and scores stay in the cache
GROUP = 32  # scores looked at together


@jit
def best_columns(left, right, base, shift, indptr, indices, places, scores, columns, counts):
    """Best columns j of every row i by ``left[i] @ right[j] + base[i] + shift[j]``, best first, ties to the lower j.

    Columns of `right` beyond those of `left` are not used.

    The columns ``places[indices[indptr[i]:indptr[i + 1]]]``, in rising order, are left out; a place of -1 is none.
    Writes into `scores` and `columns`, as wide as the number wanted, and into `counts` how many were found.
    """
    n_rows, rank = left.shape
    block, found = np.zeros((rank, WIDTH)), np.zeros(WIDTH)
    following = indptr[:-1].copy()
    counts[:] = 0
    for start in range(0, right.shape[0], WIDTH):
        width = min(WIDTH, right.shape[0] - start)
        for j in range(width):
            for c in range(rank):
                block[c, j] = right[start + j, c]
        for i in range(n_rows):
            for j in range(width):
                found[j] = base[i] + shift[start + j]
            add_products(left[i], block, found)
            following[i] = leave_out(indices, following[i], indptr[i + 1], places, start, width, found)
            counts[i] = keep_best(found, width, start, scores[i], columns[i], counts[i])
    for i in range(n_rows):
        sort_heap(scores[i], columns[i], counts[i])


@jit
def add_products(left, block, found):
    """``found += left @ block``, four terms in one pass over `found`; the same additions for every column."""
    whole = left.size // 4 * 4
    for c in range(0, whole, 4):
        x0, x1, x2, x3 = float64(left[c]), float64(left[c + 1]), float64(left[c + 2]), float64(left[c + 3])
        y0, y1, y2, y3 = block[c], block[c + 1], block[c + 2], block[c + 3]
        for j in range(WIDTH):
            found[j] += x0 * y0[j] + x1 * y1[j] + x2 * y2[j] + x3 * y3[j]
    for c in range(whole, left.size):
        weight, line = float64(left[c]), block[c]
        for j in range(WIDTH):
            found[j] += weight * line[j]


@jit
def leave_out(indices, k, last, places, start, width, found):
    """Minus infinity for the columns to leave out among ``start, ..., start + width - 1``; where to go on."""
    while k < last and places[indices[k]] < start + width:
        place = places[indices[k]] - start
        if place >= 0:
            found[place] = -np.inf
        k += uint64(1)
    return k


@jit
def keep_best(found, width, start, scores, columns, count):
    """Put scores better than the worst kept into a heap whose root is the worst; its new size."""
    for first in range(0, width, GROUP):
        if count == scores.size and not any_above(found[first : first + GROUP], scores[0]):
            continue
        for j in range(first, min(first + GROUP, width)):
            if count == scores.size:
                if found[j] > scores[0]:  # a tie goes to the lower column, which is there
                    scores[0], columns[0] = found[j], start + j
                    sink(scores, columns, count)
            elif found[j] > -np.inf:
                scores[count], columns[count] = found[j], start + j
                count += 1
                rise(scores, columns, count - 1)
    return count


@jit
def any_above(found, worst):
    """Whether any score is above `worst`; no early exit, so that it vectorises."""
    above = 0
    for j in range(GROUP):
        above |= found[j] > worst
    return above > 0


@jit
def worse(scores, columns, a, b):
    """Whether place a of a heap holds less than place b: a lower score, or the same and a higher column."""
    return scores[a] < scores[b] or (scores[a] == scores[b] and columns[a] > columns[b])


@jit
def swap(scores, columns, a, b):
    """Exchange two places of a heap."""
    scores[a], scores[b] = scores[b], scores[a]
    columns[a], columns[b] = columns[b], columns[a]


@jit
def rise(scores, columns, at):
    """Restore the heap after its last place changed."""
    while at > 0 and worse(scores, columns, at, (at - 1) // 2):
        swap(scores, columns, at, (at - 1) // 2)
        at = (at - 1) // 2


@jit
def sink(scores, columns, size):
    """Restore the heap after its root changed."""
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and worse(scores, columns, child + 1, child):
            child += 1
        if not worse(scores, columns, child, at):
            return
        swap(scores, columns, child, at)
        at = child


@jit
def sort_heap(scores, columns, count):
    """Best first."""
    for size in range(count - 1, 0, -1):
        swap(scores, columns, 0, size)
        sink(scores, columns, size)
