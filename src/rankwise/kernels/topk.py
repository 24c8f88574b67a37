"""The k columns with the highest scores in each row, without storing all scores."""

from typing import NamedTuple

import numpy as np
from numba import float64, uint64

from .._arrays import Array
from .jit import inner, jit, part
from .pattern import variance_of

WIDTH = 128  # columns scored at a time: their factors and scores stay in the cache
GROUP = 32  # scores compared with the threshold at once


class Doubt(NamedTuple):
    """Means and variances of factors, offsets last, and how many standard deviations to subtract from a prediction.

    Attributes
    ----------
    risk : float
        Not negative; the arrays are not used if it is zero.
    row_means, row_variances : ndarray of shape (n_rows, rank + 1)
    col_means, col_variances : ndarray of shape (n_cols, rank + 1)
    """

    risk: float
    row_means: Array
    row_variances: Array
    col_means: Array
    col_variances: Array


@jit
def best_columns(terms, doubt, excluded, out):
    """Write the best columns j of each row i by ``left[i] @ right[j] + base[i] + shifts[i, j]``, best first.

    `terms` holds ``left, right, base, shifts``; columns of `right` beyond those of `left` are not used; `shifts` has a
    row for each row i, or one for all. `doubt.risk` standard deviations are deducted from the scores; they are computed
    only for columns that are among the best so far without the deduction. `excluded` holds ``indptr, indices, places``:
    columns ``places[indices[indptr[i]:indptr[i + 1]]]``, in increasing order, are left out, and a place of -1 leaves
    out nothing. `out` holds ``scores, columns, counts``: scores and column numbers, of shape (n_rows, k), and how many
    of them are filled. Ties are ordered by column.
    """
    left, right, base, shifts = terms
    indptr, indices, places = excluded
    scores, columns, counts = out
    n_rows, rank = left.shape
    block, tile = np.zeros((rank, WIDTH)), np.zeros(WIDTH)
    following = indptr[:-1].copy()  # the next entry of each row to exclude
    counts[:] = 0
    for start in range(0, right.shape[0], WIDTH):
        width = min(WIDTH, right.shape[0] - start)
        for j in range(width):
            for c in range(rank):
                block[c, j] = right[start + j, c]
        for i in range(n_rows):
            shift = shifts[min(i, shifts.shape[0] - 1)]
            for j in range(width):
                tile[j] = base[i] + shift[start + j]
            add_products(left[i], block, tile)
            following[i] = exclude(indices, following[i], indptr[i + 1], places, start, width, tile)
            counts[i] = keep_best(tile, width, start, doubt, i, scores[i], columns[i], counts[i])
    for i in range(n_rows):
        sort_heap(scores[i], columns[i], counts[i])


@jit
def mark_best(scores, heap, margins, marks):
    """Set ``marks[j]`` for columns j whose score in some row is not below the heap.size-th best less the row's margin.

    Scores of minus infinity are not marked. `heap` is scratch.
    """
    zeros = np.zeros(heap.size, np.int64)
    n_cols = scores.shape[1]
    whole = n_cols // GROUP * GROUP
    for i in range(scores.shape[0]):
        row, count = scores[i], 0
        for first in range(0, n_cols, GROUP):
            if count == heap.size and first < whole and not any_above(row[first : first + GROUP], heap[0]):
                continue
            for j in range(first, min(first + GROUP, n_cols)):
                if count < heap.size and row[j] > -np.inf:
                    heap[count] = row[j]
                    count += 1
                    rise(heap, zeros, count - 1)
                elif count == heap.size and row[j] > heap[0]:
                    heap[0] = row[j]
                    sink(heap, zeros, count)
        least = heap[0] - margins[i] if count == heap.size else -np.inf
        for first in range(0, n_cols, GROUP):
            if first < whole and not any_above(row[first : first + GROUP], least):
                continue
            for j in range(first, min(first + GROUP, n_cols)):
                if row[j] > least:
                    marks[j] = True


@jit
def add_products(left, block, tile):
    """Add ``left @ block`` to `tile`, four terms per pass; the order of the additions is the same for every column."""
    whole = left.size // 4 * 4
    for c in range(0, whole, 4):
        x0, x1, x2, x3 = float64(left[c]), float64(left[c + 1]), float64(left[c + 2]), float64(left[c + 3])
        y0, y1, y2, y3 = block[c], block[c + 1], block[c + 2], block[c + 3]
        for j in range(WIDTH):
            tile[j] += x0 * y0[j] + x1 * y1[j] + x2 * y2[j] + x3 * y3[j]
    for c in range(whole, left.size):
        weight, line = float64(left[c]), block[c]
        for j in range(WIDTH):
            tile[j] += weight * line[j]


@jit
def exclude(indices, k, last, places, start, width, tile):
    """Set excluded columns among ``start, ..., start + width - 1`` to minus infinity; return the next entry."""
    while k < last and places[indices[k]] < start + width:
        place = places[indices[k]] - start
        if place >= 0:
            tile[place] = -np.inf
        k += uint64(1)
    return k


@inner
def keep_best(tile, width, start, doubt, i, scores, columns, count):
    """Insert scores above the lowest one into a heap whose root is the lowest; return the size of the heap."""
    for first in range(0, width, GROUP):
        if count == scores.size and not any_above(tile[first : first + GROUP], scores[0]):
            continue
        for j in range(first, min(first + GROUP, width)):
            full = count == scores.size
            if not tile[j] > (scores[0] if full else -np.inf):
                continue
            score = tile[j] - deduction(doubt, i, start + j)
            if not full:
                scores[count], columns[count] = score, start + j
                count += 1
                rise(scores, columns, count - 1)
            elif score > scores[0]:  # of equal scores, the lower column is in the heap already
                scores[0], columns[0] = score, start + j
                sink(scores, columns, count)
    return count


@part
def deduction(doubt, i, j):
    """Return `doubt.risk` standard deviations of the prediction for row i and column j."""
    if doubt.risk == 0.0:
        return 0.0
    m, s, n, t = doubt.row_means[i], doubt.row_variances[i], doubt.col_means[j], doubt.col_variances[j]
    return doubt.risk * np.sqrt(variance_of(m, s, n, t))


@jit
def any_above(group, lowest):
    """Return whether any of `GROUP` scores is above `lowest`; without an early exit, so that the loop vectorizes."""
    above = 0
    for j in range(GROUP):
        above |= group[j] > lowest
    return above > 0


@jit
def worse(scores, columns, a, b):
    """Return whether element a of the heap ranks below b: a lower score, or an equal one and a higher column."""
    return scores[a] < scores[b] or (scores[a] == scores[b] and columns[a] > columns[b])


@jit
def swap(scores, columns, a, b):
    """Exchange two elements of the heap."""
    scores[a], scores[b] = scores[b], scores[a]
    columns[a], columns[b] = columns[b], columns[a]


@jit
def rise(scores, columns, at):
    """Restore the heap after a change of its last element."""
    while at > 0 and worse(scores, columns, at, (at - 1) // 2):
        swap(scores, columns, at, (at - 1) // 2)
        at = (at - 1) // 2


@jit
def sink(scores, columns, size):
    """Restore the heap after a change of its root."""
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
    """Sort the elements of the heap by falling score."""
    for size in range(count - 1, 0, -1):
        swap(scores, columns, 0, size)
        sink(scores, columns, size)
