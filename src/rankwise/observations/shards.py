"""Cutting a matrix into row shards, by the data alone, never by the number of threads or workers."""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from .build import starts_of

MIN_SHARD, MAX_SHARD = 1 << 17, 1 << 22  # entries of a shard
N_SHARDS = 16  # shards of a matrix of medium size
MIN_BLOCK, N_BLOCKS = 1 << 15, 8  # entries of a block of a shard, and blocks at most
PER_ROW = 8  # cost of a row, in entries


def cut_rows(indptr: NDArray[np.uint64], n_cols: int) -> NDArray[np.int64]:
    """Return the first row of every shard, and the number of rows; shape (n_shards + 1,).

    A shard holds about 1/16 of the observations, but at least twice as many as there are columns, so that adding up
    the shards' column sums costs less than making them, and at most four million. Rows are not split. A row counts as
    up to eight entries more than it has, so that shards of many short rows have fewer entries; at most as many as a row
    has on average, which keeps the shard of the longest rows below twice its share.
    """
    n_observed = int(indptr[-1])
    size = min(max(n_observed // N_SHARDS, MIN_SHARD, 2 * n_cols), max(MAX_SHARD, 2 * n_cols))
    n_shards = _even(n_observed // size)
    return _cut_evenly(indptr, n_shards)


def count_blocks(n_observed: int) -> int:
    """Return the number of blocks of a shard of so many entries, at least one."""
    return _even(min(N_BLOCKS, n_observed // MIN_BLOCK))


def cut_blocks(indptr: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the first row of every block of a shard, and the number of rows; shape (n_blocks + 1,)."""
    return _cut_evenly(indptr, count_blocks(int(indptr[-1])))


def _cut_evenly(indptr: NDArray[np.uint64], n_parts: int) -> NDArray[np.int64]:
    """Return the first rows of parts of about equal work, and the number of rows; each part has entries."""
    n_rows, n_observed = indptr.size - 1, int(indptr[-1])
    work = indptr + row_work(n_rows, n_observed) * np.arange(n_rows + 1, dtype=np.uint64)
    boundaries = np.arange(1, n_parts, dtype=np.uint64) * work[-1] // np.uint64(n_parts)
    inner = np.searchsorted(work, boundaries, side="left")
    begins, first = np.unique(indptr[inner], return_index=True)
    inner = inner[first[(begins > 0) & (begins < n_observed)]]  # no shard without entries
    return np.unique(np.concatenate(([0], inner, [n_rows]))).astype(np.int64)


def row_work(n_rows: int, n_observed: int) -> np.uint64:
    """Return the cost of a row beside its entries, in entries."""
    return np.uint64(min(PER_ROW, n_observed // max(n_rows, 1)))


def shard_work(sizes: Sequence[int], cuts: NDArray[np.int64]) -> list[int]:
    """Return the cost of each shard in entries; `sizes` are the numbers of its entries."""
    per_row = int(row_work(int(cuts[-1]), sum(sizes)))
    return [size + per_row * n for size, n in zip(sizes, np.diff(cuts).tolist(), strict=True)]


def _even(n: int) -> int:
    """Round the number of shards down, so that two or four threads have equally many; at least one."""
    return n - n % 4 if n >= 4 else max(1, n - n % 2)


class Piece(NamedTuple):
    """Entries of consecutive rows from `start` on, in CSR form; `indptr` begins at zero."""

    start: int
    n_cols: int
    indptr: NDArray[np.uint64]
    indices: NDArray[np.uint32]
    targets: Array
    weights: Array | None

    @property
    def stop(self) -> int:
        """One past the last row."""
        return self.start + self.indptr.size - 1


def rows_between(piece: Piece, start: int, stop: int) -> Piece:
    """Return the rows of a piece from `start` to `stop`."""
    start, stop = max(start, piece.start), min(stop, piece.stop)
    indptr = piece.indptr[start - piece.start : stop - piece.start + 1]
    entries = slice(int(indptr[0]), int(indptr[-1]))
    weights = None if piece.weights is None else piece.weights[entries]
    return Piece(start, piece.n_cols, indptr - indptr[0], piece.indices[entries], piece.targets[entries], weights)


def joined(pieces: Sequence[Piece]) -> Piece:
    """Concatenate consecutive pieces."""
    counts = np.concatenate([np.diff(piece.indptr.astype(np.int64)) for piece in pieces])
    indices = np.concatenate([piece.indices for piece in pieces])
    targets = np.concatenate([piece.targets for piece in pieces])
    weights = None if pieces[0].weights is None else np.concatenate([piece.weights for piece in pieces])
    return Piece(pieces[0].start, pieces[0].n_cols, starts_of(counts), indices, targets, weights)


class TargetFacts(NamedTuple):
    """Facts about the targets, by which a loss is chosen."""

    signs: bool  # all are -1 or +1, and not all are +1
    spread: float  # standard deviation
    zero_one: bool  # all are 0 or 1, and both occur
    mean: float = 0.0


def once(method: Callable[[Any], TargetFacts]) -> Callable[[Any], TargetFacts]:
    """Decorate a method that computes facts about entries, which never change, so that it does so once."""

    @wraps(method)
    def kept(self: Any) -> TargetFacts:
        if "_facts" not in self.__dict__:
            self.__dict__["_facts"] = method(self)
        return self.__dict__["_facts"]  # type: ignore[no-any-return]

    return kept


def target_facts(pieces: Callable[[], Iterable[Piece]]) -> TargetFacts:
    """Compute facts about the targets in two passes over the pieces; entries of weight zero do not count."""
    first = FirstLook.joined(map(first_look, pieces()))
    return first.facts(second_look(piece, first.mean, first.size) for piece in pieces())


class FirstLook(NamedTuple):
    """Results of the first pass over the targets."""

    weight: float
    sum: float
    signs: bool  # all are -1 or +1
    negative: bool  # one is below zero
    zero_one: bool  # all are 0 or 1
    largest: float  # absolute value

    @classmethod
    def joined(cls, looks: Iterable["FirstLook"]) -> "FirstLook":
        """Join the results of all pieces."""
        weights, sums, signs, negative, zero_one, largest = zip(*looks, strict=True)
        return cls(math.fsum(weights), _sum(sums), all(signs), any(negative), all(zero_one), max(largest))

    @property
    def mean(self) -> float:
        """Weighted mean of the targets."""
        return self.sum / self.weight if self.weight else 0.0

    @property
    def size(self) -> float:
        """Power of two near the largest target, in units of which squares neither overflow nor vanish."""
        return math.ldexp(1.0, math.frexp(self.largest)[1]) if 0 < self.largest < 2.0**1000 else 1.0

    def facts(self, squares: Iterable[float]) -> TargetFacts:
        """Return the facts, given the results of the second pass for every piece."""
        root = math.sqrt(math.fsum(squares) / self.weight) if self.weight else 0.0
        zero_one = self.zero_one and 0 < self.sum < self.weight
        return TargetFacts(self.signs and self.negative, self.size * root, zero_one, self.mean)


def first_look(piece: Piece) -> FirstLook:
    """Compute the sums of one piece, without BLAS, whose last bits depend on its threads."""
    targets, weights = _counted(piece)
    signs, negative = bool((np.abs(targets) == 1).all()), bool((targets < 0).any())
    zero_one = bool(((targets == 0) | (targets == 1)).all())
    with np.errstate(over="ignore"):
        total = float((targets * weights).sum())
    largest = float(np.abs(targets).max(initial=0.0))
    return FirstLook(float(weights.sum()), total, signs, negative, zero_one, largest)


def second_look(piece: Piece, mean: float, size: float = 1.0) -> float:
    """Return the weighted sum of the squared distances from the mean, in units of `size`; infinite on overflow."""
    targets, weights = _counted(piece)
    with np.errstate(over="ignore", invalid="ignore"):
        return float((((targets - mean) / size) ** 2 * weights).sum())


def _sum(parts: Iterable[float]) -> float:
    """Exact sum; infinite if float64 cannot represent it."""
    try:
        return math.fsum(parts)
    except (OverflowError, ValueError):
        return math.inf


def _counted(piece: Piece) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return targets and weights in float64, of the entries of positive weight."""
    targets = piece.targets.astype(np.float64)
    if piece.weights is None:
        return targets, np.ones(targets.size)
    seen = piece.weights > 0
    return targets[seen], piece.weights[seen].astype(np.float64)
