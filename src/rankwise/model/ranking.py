"""The best columns of rows, and the rows or columns most alike."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._checks import is_whole
from .._errors import SettingError
from ..engines import usable_cores
from ..kernels import topk as top

Array = NDArray[Any]
BLOCK = 64  # rows that one thread ranks at a time


class Best(NamedTuple):
    """Best columns of each row, best first: numbers, scores, and how many there are; -1 and minus infinity beyond."""

    columns: NDArray[np.int64]
    scores: NDArray[np.float64]
    counts: NDArray[np.int64]


class Sides(NamedTuple):
    """Scores ``left[i] @ right[j] + base[i] + shift[j]``; columns of `right` beyond those of `left` are not used."""

    left: Array
    right: Array
    base: NDArray[np.float64]
    shift: NDArray[np.float64]


class Excluded(NamedTuple):
    """Columns to leave out, row by row, in rising order: those of row i are ``indices[indptr[i]:indptr[i + 1]]``."""

    indptr: NDArray[np.uint64]
    indices: NDArray[np.uint32]


def best_columns(sides: Sides, n: int, excluded: Excluded, among: Array | None = None, n_jobs: Any = None) -> Best:
    """The n best columns of every row by their scores; ties go to the lower column.

    Costs O(n_rows n_columns rank); scores are made and dropped a few at a time. The same on any number of threads,
    and the same for a row whatever other rows are asked for with it.

    Parameters
    ----------
    sides : Sides
        What the scores are made of.
    n : int
    excluded : Excluded
    among : ndarray of int, optional
        Columns to choose among, in rising order; all by default.
    n_jobs : int, optional
        Threads; None means all usable cores.
    """
    left, right, base, shift = sides
    places = np.arange(right.shape[0])
    if among is not None:
        right, shift, places = right[among], shift[among], np.full(places.size, -1)
        places[among] = np.arange(among.size)
    n_rows, width = left.shape[0], min(n, right.shape[0])
    best = Best(np.full((n_rows, n), -1), np.full((n_rows, n), -np.inf), np.zeros(n_rows, np.int64))
    columns, scores = np.zeros((n_rows, width), np.int64), np.zeros((n_rows, width))
    left, right = (np.ascontiguousarray(part) for part in (left, right))

    def rank_rows(first: int) -> None:
        part, ends = slice(first, first + BLOCK), slice(first, first + BLOCK + 1)
        excluding = excluded.indptr[ends], excluded.indices, places
        found = scores[part], columns[part], best.counts[part]
        top.best_columns(left[part], right, base[part], shift, *excluding, *found)

    if width:
        with ThreadPoolExecutor(usable_cores(n_jobs)) as pool:
            list(pool.map(rank_rows, range(0, n_rows, BLOCK)))
    filled = np.arange(width) < best.counts[:, None]
    columns = columns if among is None or not among.size else among[columns]
    best.columns[:, :width][filled], best.scores[:, :width][filled] = columns[filled], scores[filled]
    return best


def none_excluded(n_rows: int) -> Excluded:
    """Nothing to leave out."""
    return Excluded(np.zeros(n_rows + 1, np.uint64), np.zeros(0, np.uint32))


def excluded_of(indptr: Array, indices: Array, rows: Array) -> Excluded:
    """The pattern's columns in the wanted rows."""
    starts, ends = (side.astype(np.int64)[rows] for side in (indptr[:-1], indptr[1:]))
    begins = np.concatenate(([0], np.cumsum(ends - starts)))
    entries = np.arange(begins[-1]) + np.repeat(starts - begins[:-1], ends - starts)
    return Excluded(begins.astype(np.uint64), np.ascontiguousarray(indices[entries]))


def directions(theta: Array, near: Array, far: Array, unsure: Array | float = 0.0) -> NDArray[np.float64]:
    """Vectors whose inner products are the cosines between the rows of ``near diag(theta) far.T``.

    Zero for rows that are zero. `unsure` is the variance of every row, which is added to its squared length. Costs
    O((n_near + n_far) rank**2).
    """
    if not theta.size:
        return np.zeros((near.shape[0], 0))
    triangle: Array = np.linalg.qr(far[:, : theta.size].astype(np.float64)).R
    found = (near[:, : theta.size] * theta) @ triangle.T
    lengths = np.sqrt(np.sum(found * found, axis=1) + unsure)
    least = lengths.max(initial=0.0) * np.finfo(near.dtype).eps  # shorter ones are rounding
    return np.where(lengths[:, None] > least, found / np.maximum(lengths, np.finfo(float).tiny)[:, None], 0.0)


def check_count(n: Any, wanted: ArrayLike = (), size: int = 0) -> int:
    """`n` if it is a whole number of at least one; no more than the `size` that a single wanted label can get."""
    if not is_whole(n) or n < 1:
        raise SettingError(f"`n` must be an integer of at least 1, got {n!r}.")
    return min(int(n), max(size, 1)) if np.ndim(wanted) == 0 else int(n)


def named(best: Best, labels: Array | None, wanted: ArrayLike) -> tuple[Array, NDArray[np.float64]]:
    """Labels and scores: as many as there are for a single wanted label, padded to n for several."""
    columns, scores, counts = best
    if np.ndim(wanted) == 0:
        columns, scores = columns[0, : counts[0]], scores[0, : counts[0]]
    if labels is None:
        return columns, scores
    if not columns.size or columns.min() >= 0:
        return labels[columns], scores
    found = np.full(columns.shape, None, object)
    found[columns >= 0] = labels[columns[columns >= 0]]
    return found, scores
