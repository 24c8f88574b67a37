"""Tasks of the workers that turn entries into shards: split, gather, sort, merge, transpose."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from ..observations import Piece
from ..observations.build import first_disorder, merge_repeats, rows_of, sort_entries, starts_of
from ..observations.frames import coded, column_of, numbers_of
from ..observations.shards import joined, rows_between
from .scan import LABEL_COLUMNS, Names


class Block(NamedTuple):
    """Entries of some rows, in the order in which they were read."""

    rows: NDArray[np.uint32]
    cols: NDArray[np.uint32]
    targets: Array
    weights: Array | None

    def take(self, chosen: Array) -> "Block":
        """Return some of the entries."""
        weights = None if self.weights is None else self.weights[chosen]
        return Block(self.rows[chosen], self.cols[chosen], self.targets[chosen], weights)


class Group(NamedTuple):
    """All entries of some rows, sorted; the pair of the first duplicate, if that is an error; the largest weight."""

    piece: Piece
    repeat: tuple[int, int] | None
    heaviest: float


class PieceSizes(NamedTuple):
    """Sizes and weights of a piece, for the client."""

    start: int
    counts: NDArray[np.int64]  # entries of every row
    weight: float | None  # sum of the weights, if there are any
    heaviest: float


def split_partition(part: Any, names: Names, row_labels: Array, col_labels: Array, cuts: Array) -> list[Block]:
    """Split the entries of a partition by the shard of their row."""
    sides = []
    for name, (use, which), labels in zip(names[:2], LABEL_COLUMNS, (row_labels, col_labels), strict=True):
        own, codes = coded(column_of(part, name, use), which)
        sides.append(np.searchsorted(labels, own).astype(np.uint32)[codes] if own.size else np.zeros(0, np.uint32))
    targets = numbers_of(column_of(part, names.value, "value"), names.value)
    weights = None if names.weight is None else numbers_of(column_of(part, names.weight, "weight"), names.weight)
    return _split(Block(sides[0], sides[1], targets, weights), cuts)


def split_columns(piece: Piece, cuts: Array) -> list[Block]:
    """Split the entries of a piece by the shard of their column; columns become the rows of the blocks."""
    rows = (rows_of(piece.indptr) + piece.start).astype(np.uint32)
    return _split(Block(piece.indices, rows, piece.targets, piece.weights), cuts)


def _split(block: Block, cuts: Array) -> list[Block]:
    shard = np.searchsorted(cuts, block.rows, side="right") - 1
    order = np.argsort(shard, kind="stable")
    ends = np.searchsorted(shard[order], np.arange(cuts.size))
    parts = [order[ends[k] : ends[k + 1]] for k in range(cuts.size - 1)]
    return [block.take(part) for part in parts]


def grouped(blocks: Sequence[Block], start: int, stop: int, n_cols: int, duplicates: str = "error") -> Group:
    """Sort the entries of rows `start` to `stop`, merge duplicates, and drop those of weight zero."""
    rows, cols, targets = (np.concatenate([block[k] for block in blocks]) for k in range(3))
    weights = None if blocks[0].weights is None else np.concatenate([block.weights for block in blocks])
    indptr, order = sort_entries(rows - np.uint32(start), cols, (stop - start, n_cols))
    indices, targets, weights = cols[order], targets[order], None if weights is None else weights[order]
    k = first_disorder(indptr, indices)
    if k >= 0 and duplicates == "error":
        row = int(np.searchsorted(indptr, np.uint64(k), side="right")) - 1
        return Group(Piece(start, n_cols, indptr, indices, targets, weights), (start + row, int(indices[k])), 1.0)
    heaviest = 1.0
    if k >= 0:
        indptr, indices, targets, weights = merge_repeats(indptr, indices, targets, weights, duplicates)
    if weights is not None:
        heaviest = float(weights.max(initial=0.0))
        if not (weights > 0).all():
            indptr, indices, targets, weights = _positive(indptr, indices, targets, weights)
    return Group(Piece(start, n_cols, indptr, indices, targets, weights), None, heaviest)


def _positive(indptr: Array, indices: Array, targets: Array, weights: Array) -> tuple[Array, Array, Array, Array]:
    """Return the entries of positive weight."""
    positive = weights > 0
    counts = np.bincount(rows_of(indptr)[positive], minlength=indptr.size - 1)
    return starts_of(counts), indices[positive], targets[positive], weights[positive]


def summary(group: Group) -> tuple[NDArray[np.int64], tuple[int, int] | None, float]:
    """Return the number of entries of every row, the duplicate if any, and the largest weight."""
    return _lengths(group.piece), group.repeat, group.heaviest


def piece_of(group: Group) -> Piece:
    """Return the entries of a group."""
    return group.piece


def recut(groups: Sequence[Group], start: int, stop: int) -> Piece:
    """Return rows `start` to `stop` of consecutive groups."""
    return joined([rows_between(group.piece, start, stop) for group in groups])


def transposed(blocks: Sequence[Block], start: int, stop: int, n_cols: int) -> Piece:
    """Return a shard of the transpose from the blocks of all pieces, in their order."""
    return grouped(blocks, start, stop, n_cols).piece


def measured(piece: Piece) -> PieceSizes:
    """Return sizes and weights of a piece."""
    weights, counts = piece.weights, _lengths(piece)
    if weights is None:
        return PieceSizes(piece.start, counts, None, 1.0)
    return PieceSizes(piece.start, counts, float(weights.sum(dtype=np.float64)), float(weights.max(initial=0.0)))


def _lengths(piece: Piece) -> NDArray[np.int64]:
    starts = piece.indptr.astype(np.int64)
    return starts[1:] - starts[:-1]


def column_counts(piece: Piece) -> NDArray[np.int64]:
    """Return the number of entries of every column."""
    return np.bincount(piece.indices, minlength=piece.n_cols)


def row_weights(piece: Piece) -> NDArray[np.float64]:
    """Return the sum of the weights of every row's entries."""
    rows = rows_of(piece.indptr)
    return np.bincount(rows, piece.weights, piece.indptr.size - 1).astype(np.float64)


def every(piece: Piece, first: int, step: int) -> Block:
    """Return every `step`-th entry, from the entry `first` on."""
    chosen = slice(first, None, step)
    rows = (rows_of(piece.indptr)[chosen] + piece.start).astype(np.uint32)
    weights = None if piece.weights is None else piece.weights[chosen]
    return Block(rows, piece.indices[chosen], piece.targets[chosen], weights)


def outside(piece: Piece, loss: Any) -> tuple[int, Any, int, float]:
    """Return how many targets are outside the loss's domain, the first and its index, and the largest stored one."""
    wrong = np.flatnonzero(~loss.in_domain(piece.targets))
    first = (piece.targets[wrong[0]], int(wrong[0])) if wrong.size else (0.0, 0)
    return wrong.size, *first, float(np.abs(loss.units.stored(piece.targets, np.float64)).max(initial=0.0))
