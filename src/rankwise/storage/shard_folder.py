"""Observed entries in a folder of shards."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from .._errors import DataError, ShardFileError
from .._files import file_lock
from ..observations.build import rows_of
from ..observations.entries import Entries
from ..observations.labels import as_labels
from ..observations.observed import Observations, part_of
from ..observations.shards import Piece, TargetFacts, once, target_facts
from .shard_files import LABEL_FILES, MANIFEST, Manifest, map_array
from .sharding import write_shards

TRANSPOSED = "transposed"


class StoredEntries(Entries):
    """Entries of a folder written by `write_shards`; `ShardFolder` adds the engine."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        manifest = Manifest.read(self.folder)
        self.shape = (manifest.shape[0], manifest.shape[1])
        self.sizes = manifest.sizes
        self.n_observed = sum(self.sizes)
        self.weights = True if manifest.weighted else None
        self.total_weight, self.heaviest = float(manifest.total_weight), float(manifest.heaviest)
        self.shards = manifest.shards(self.folder)
        self._transpose = self.folder / f"{TRANSPOSED}-{manifest.digest[:16]}"
        self._cuts = np.array(manifest.cuts, np.int64)
        self._checked: set[int] = set()
        self.row_labels, self.col_labels = (
            _read_labels(self.folder / name, manifest.files[name], size, which) if name in manifest.files else None
            for name, size, which in zip(LABEL_FILES, self.shape, ("row", "column"), strict=True)
        )

    def cuts(self) -> NDArray[np.int64]:
        """Return the first row of every shard, and the number of rows."""
        return self._cuts

    def piece(self, k: int) -> Piece:
        """Return the entries of shard k, memory-mapped; its files are checked the first time."""
        piece = self.shards[k].map(check=k not in self._checked)
        self._checked.add(k)
        return piece

    def pieces(self) -> Iterator[Piece]:
        """Return the entries of the shards, one after the other."""
        return (self.piece(k) for k in range(len(self.sizes)))

    def row_weights(self) -> NDArray[np.float64]:
        """Return the sum of the weights of every row's entries; their number if there are no weights."""
        sums = (np.bincount(rows_of(part.indptr), part.weights, part.stop - part.start) for part in self.pieces())
        return np.concatenate(list(sums)).astype(np.float64)

    @once
    def target_facts(self) -> TargetFacts:
        """Return facts about the targets, by which a loss is chosen."""
        return target_facts(self.pieces)

    def few_targets(self, n: int) -> Array:
        """Return about `n` targets, from all over the matrix."""
        return np.resize(self._every(max(1, self.n_observed // n), n).targets, n)

    def sample(self, n: int) -> Observations:
        """Return every k-th entry, at most `n` of them, in memory."""
        return self._every(-(-self.n_observed // n), n)

    def _every(self, step: int, n: int) -> Observations:
        """Return every `step`-th entry, the first `n` of these."""
        sampled, before, parts = np.arange(min(n, -(-self.n_observed // step))) * step, 0, []
        for k, size in enumerate(self.sizes):
            chosen = sampled[(sampled >= before) & (sampled < before + size)] - before
            before += size
            if chosen.size:
                piece = self.piece(k)
                rows = piece.start + np.searchsorted(piece.indptr, chosen.astype(np.uint64), side="right") - 1
                weights = np.ones(chosen.size) if piece.weights is None else piece.weights[chosen]
                parts.append((rows, piece.indices[chosen], piece.targets[chosen], weights))
        rows, cols, targets, weights = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        labels = self.row_labels, self.col_labels
        return part_of(self.shape, rows, cols, targets, None if self.weights is None else weights, labels)

    def write_transposed(self) -> Path:
        """Write the entries with rows and columns exchanged to a subfolder, unless it exists; return its path.

        The subfolder is named by the digest of the manifest, so that it is not used after the shards were replaced.
        """
        folder = self._transpose
        if not folder.exists():
            with file_lock(self.folder / f"{TRANSPOSED}.lock"):  # another fit may be writing it
                if not folder.exists():
                    for stale in self.folder.glob(f"{TRANSPOSED}-*"):
                        if stale.is_dir() and not stale.is_symlink():
                            shutil.rmtree(stale, ignore_errors=True)
                    chunks = (
                        (part.indices, part.start + rows_of(part.indptr), part.targets)
                        + (() if part.weights is None else (part.weights,))
                        for part in self.pieces()
                    )
                    write_shards(chunks, folder, shape=(self.shape[1], self.shape[0]))
        manifest = Manifest.read(folder)
        if tuple(manifest.shape) != self.shape[::-1] or sum(manifest.sizes) != self.n_observed:
            raise ShardFileError(f"{folder} does not belong to {self.folder}; remove it, and it is written again.")
        return folder

    def __repr__(self) -> str:
        """Place, shape and number of entries."""
        rows, cols = self.shape
        return f"{type(self).__name__}({str(self.folder)!r}: {rows} x {cols}, {self.n_observed} observed)"


def is_shard_folder(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a folder of shards."""
    return (Path(path) / MANIFEST).is_file()


def _read_labels(path: Path, digest: str, size: int, which: str) -> Array | None:
    labels = map_array(path, digest)
    try:
        return as_labels(labels, size, which)
    except DataError as error:
        raise ShardFileError(f"{path} is damaged ({error}); write the shards again.") from None
