"""A folder of shards: entries that stay on disk."""

import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from .._errors import ShardFileError
from .._locks import alone
from ..observations.build import rows_of
from ..observations.labels import as_labels
from ..observations.observed import Observations, part_of
from ..observations.shards import Piece, TargetFacts, target_facts
from .shard_files import ShardFile
from .sharding import ABOUT, FORMAT, LABELS, SHARD, VERSION, write_shards

Array = NDArray[Any]
LARGEST = 1 << 28  # bytes of `about.json`
TURNED = "transposed"
# What NumPy raises for a file that is no array, or a damaged one: its headers are Python expressions.
UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    ArithmeticError,
    MemoryError,
    RuntimeError,
    SyntaxError,
    TokenError,
)


class StoredEntries:
    """The entries of a folder that `write_shards` has written; see `Entries`.

    Parameters
    ----------
    folder : path

    Attributes
    ----------
    shape : tuple of int
    n_observed : int
    row_labels, col_labels : ndarray or None
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        about = _read_about(self.folder)
        self.shape: tuple[int, int] = (about["shape"][0], about["shape"][1])
        self.sizes: list[int] = about["sizes"]
        self.n_observed = sum(self.sizes)
        self.weights = True if about["weighted"] else None
        self.total_weight, self.heaviest = float(about["total_weight"]), float(about["heaviest"])
        self._cuts = np.array(about["cuts"], np.int64)
        self._files: dict[int, ShardFile] = {}  # shards that have been looked through
        self.row_labels, self.col_labels = (
            _read_labels(self.folder / name, size, which)
            for name, size, which in zip(LABELS, self.shape, ("row", "column"), strict=True)
        )

    def cuts(self) -> NDArray[np.int64]:
        """Row numbers at which the shards begin, and the number of rows."""
        return self._cuts

    @property
    def paths(self) -> list[Path]:
        """The shard files."""
        return [self.folder / SHARD.format(k) for k in range(len(self.sizes))]

    def piece(self, k: int) -> Piece:
        """What shard k holds, mapped; looked through when it is first asked for."""
        if k in self._files:
            return self._files[k].map()
        file = ShardFile(self.folder / SHARD.format(k))
        piece = file.map()
        wanted = int(self._cuts[k]), int(self._cuts[k + 1]), self.shape[1], self.sizes[k], self.weights is None
        if wanted != (piece.start, piece.stop, piece.n_cols, piece.indices.size, piece.weights is None):
            raise ShardFileError(f"{file.path} belongs to another folder of shards; write them again.")
        self._files[k] = file
        return piece

    def pieces(self) -> Iterator[Piece]:
        """What the shards hold, one after the other."""
        return (self.piece(k) for k in range(len(self.sizes)))

    def weighted(self) -> "StoredEntries":
        """These entries: those of weight zero were never written."""
        return self

    def row_weights(self) -> NDArray[np.float64]:
        """Sum of the weights of every row's entries; their number if there are no weights."""
        found = (np.bincount(rows_of(part.indptr), part.weights, part.stop - part.start) for part in self.pieces())
        return np.concatenate(list(found)).astype(np.float64)

    def target_facts(self) -> TargetFacts:
        """What a loss is chosen by."""
        return target_facts(self.pieces)

    def few_targets(self, n: int) -> NDArray[Any]:
        """About `n` targets, from all over the matrix."""
        return np.resize(self._every(max(1, self.n_observed // n), n).targets, n)

    def sample(self, n: int) -> Observations:
        """Every k-th entry, at most `n` of them, in memory."""
        return self._every(-(-self.n_observed // n), n)

    def _every(self, step: int, n: int) -> Observations:
        """Every `step`-th entry, the first `n` of these."""
        wanted, before, found = np.arange(min(n, -(-self.n_observed // step))) * step, 0, []
        for k, size in enumerate(self.sizes):
            mine = wanted[(wanted >= before) & (wanted < before + size)] - before
            before += size
            if mine.size:
                part = self.piece(k)
                rows = part.start + np.searchsorted(part.indptr, mine.astype(np.uint64), side="right") - 1
                weights = np.ones(mine.size) if part.weights is None else part.weights[mine]
                found.append((rows, part.indices[mine], part.targets[mine], weights))
        rows, cols, targets, weights = (np.concatenate(parts) for parts in zip(*found, strict=True))
        labels = self.row_labels, self.col_labels
        given = None if self.weights is None else weights
        return part_of(self.shape, rows, cols, targets, given, labels)

    def transposed(self) -> "StoredEntries":
        """The same entries with rows and columns exchanged, in a folder inside this one; written when first needed."""
        turned = self.folder / TURNED
        with alone(self.folder):  # another fit may be at it
            if not turned.exists():
                chunks = (
                    (part.indices, part.start + rows_of(part.indptr), part.targets)
                    + (() if part.weights is None else (part.weights,))
                    for part in self.pieces()
                )
                write_shards(chunks, turned, shape=(self.shape[1], self.shape[0]))
        found = type(self)(turned)
        if found.shape != self.shape[::-1] or found.n_observed != self.n_observed:
            raise ShardFileError(f"{turned} does not belong to {self.folder}; remove it, it is made again.")
        found.row_labels, found.col_labels = self.col_labels, self.row_labels
        return found

    def __repr__(self) -> str:
        """Size, number of shards, place."""
        rows, cols = self.shape
        return f"{type(self).__name__}({str(self.folder)!r}: {rows} x {cols}, {self.n_observed} observed)"


def is_shard_folder(path: str | os.PathLike[str]) -> bool:
    """Whether there is a folder of shards."""
    return (Path(path) / ABOUT).is_file()


def _read_about(folder: Path) -> dict[str, Any]:
    """What the folder says of itself, checked."""
    path = folder / ABOUT
    if not path.is_file():
        raise ShardFileError(f"{folder} is not a folder of shards; make one with `rankwise shards FILE -o FOLDER`.")
    if path.stat().st_size > LARGEST:
        raise ShardFileError(f"{path} is too large to be what it should be.")
    try:
        about = json.loads(path.read_bytes())
        sound = about["format"] == FORMAT and type(about["version"]) is int and about["version"] > 0
        if sound and about["version"] > VERSION:
            raise ShardFileError(
                f"{folder} has format {about['version']}; this version of rankwise reads up to {VERSION}. Update it."
            )
        cuts, sizes, shape = about["cuts"], about["sizes"], about["shape"]
        sound = sound and all(type(k) is int and 0 <= k < 2**63 for k in (*cuts, *sizes, *shape))
        sound = sound and len(shape) == 2 and len(cuts) == len(sizes) + 1 and len(sizes) > 0 and min(sizes) > 0
        sound = sound and cuts[0] == 0 and cuts[-1] == shape[0] and cuts == sorted(set(cuts)) and max(shape) < 2**32
        numbers = about["total_weight"], about["heaviest"]
        sound = sound and all(type(x) in (int, float) and 0 < float(x) < float("inf") for x in numbers)
        sound = sound and type(about["weighted"]) is bool
    except ShardFileError:
        raise
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        sound = False
    if not sound:
        raise ShardFileError(f"{path} is damaged, or not rankwise's; write the shards again.")
    found: dict[str, Any] = about
    return found


def _read_labels(path: Path, size: int, which: str) -> NDArray[Any] | None:
    if not path.exists():
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy warns of what no sound header has
            return as_labels(open_memmap(path, mode="r"), size, which)
    except (*UNREADABLE, Warning) as error:
        raise ShardFileError(f"{path} is damaged ({error}); write the shards again.") from None
