"""Write a folder of shards from entries in chunks, without holding all of them in memory."""

import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from .._errors import ShardFileError
from ..observations.build import check_duplicates, merge_repeats, sort_entries, starts_of
from ..observations.shards import Piece, cut_rows, joined, rows_between
from .shard_files import LABEL_FILES, Manifest, ShardFiles, write_array, write_shard
from .spool import Spool

RECORDS, MERGED = "records-{:06d}", "merged"  # temporary


def write_shards(
    chunks: Iterable[tuple[Any, ...]],
    folder: str | os.PathLike[str],
    *,
    shape: tuple[int, int] | None = None,
    duplicates: str = "error",
    as_names: Callable[[Array], Array] | None = None,
) -> Path:
    """Write a folder of shards from entries in any order, with memory for one shard and the labels.

    The shards equal those of `Observations.from_labels` of all entries, bit for bit. Entries are written to disk as
    they come (12 to 24 bytes each), from there to one file per shard, and each of these is sorted on its own. The
    folder appears complete or not at all.

    Parameters
    ----------
    chunks : iterable of (rows, cols, values) or (rows, cols, values, weights)
        Arrays of one length; labels of any type that can be sorted. Entries of weight zero are dropped, their rows and
        columns are not.
    folder : path
        Must not exist.
    shape : (n_rows, n_cols), optional
        If given, rows and columns are numbers from 0 instead of labels.
    duplicates : {"error", "mean", "last"}, default="error"
        How to handle a pair that occurs more than once.
    as_names : callable, optional
        Converts the distinct labels of a side, one for one, such as text to integers.

    Returns
    -------
    Path
        Path of the folder.

    Examples
    --------
    >>> import tempfile
    >>> import rankwise as rw
    >>> chunks = [(["ann", "bob"], [7, 7], [5.0, 3.0]), (["ann"], [9], [1.0])]
    >>> with tempfile.TemporaryDirectory() as room:
    ...     folder = rw.write_shards(chunks, f"{room}/ratings")
    ...     print(rw.ShardFolder(folder).shape)
    (2, 2)
    """
    target = Path(folder)
    check_duplicates(duplicates)
    read_errors: list[OSError] = []
    with _new_folder(target, read_errors) as room:
        spool = Spool(room / "spool", shape)
        try:
            for chunk in _read(chunks, read_errors):
                spool.add(*chunk)
            spool.finish(as_names)
            cuts = cut_rows(starts_of(spool.row_counts()), spool.shape[1])
            _distribute(spool.records(), cuts, room)
        finally:
            spool.close()
        pieces = _sorted_pieces(cuts, spool, duplicates, room)
        if duplicates != "error":  # there may be fewer entries now, so the cuts change
            pieces = _cut_again(pieces, room)
        single = spool.single and duplicates == "error"
        _write_all((_as_single(piece) if single else piece for piece in pieces), spool, room)
    return target


def _read(chunks: Iterable[tuple[Any, ...]], errors: list[OSError]) -> Iterator[tuple[Any, ...]]:
    """Yield the chunks; record an error of their source, to tell it from one of writing shards."""
    try:
        yield from chunks
    except OSError as error:
        errors.append(error)
        raise


@contextmanager
def _new_folder(target: Path, read_errors: list[OSError]) -> Iterator[Path]:
    """Make a temporary folder beside `target`, renamed to it at the end, and removed on an error."""
    if target.exists():
        raise ShardFileError(f"{target} exists; choose another folder, or remove it first.")
    if not target.parent.is_dir():
        raise ShardFileError(
            f"There is no folder {target.parent}, in which {target.name} is to be written; make it first."
        )
    room: Path | None = None
    try:
        room = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        yield room
        room.chmod(0o755)
        room.rename(target)
    except OSError as error:
        if error in read_errors:
            raise
        raise ShardFileError(
            f"The shards cannot be written to {target.parent} ({error.strerror or error}); free some space there, or "
            "choose another folder."
        ) from error
    finally:
        if room is not None:
            shutil.rmtree(room, ignore_errors=True)


def _distribute(chunks: Iterable[Array], cuts: NDArray[np.int64], room: Path) -> None:
    """Append records to one file per shard, in the order they come."""
    small = np.uint16 if cuts.size <= 2**16 else np.uint32  # NumPy sorts 16 bits by counting
    for records in chunks:
        shard_of = (np.searchsorted(cuts, records["row"], side="right") - 1).astype(small)
        order = np.argsort(shard_of, kind="stable")
        ends = np.searchsorted(shard_of[order], np.arange(cuts.size))
        for k, (lo, hi) in enumerate(pairwise(ends.tolist())):
            if lo < hi:
                with (room / RECORDS.format(k)).open("ab") as file:
                    file.write(records[order[lo:hi]].data)


def _sorted_pieces(cuts: NDArray[np.int64], spool: Spool, duplicates: str, room: Path) -> Iterator[Piece]:
    """Yield the sorted entries of each shard; remove its file of records."""
    labels = tuple(np.arange(n) if names is None else names for names, n in zip(spool.labels, spool.shape, strict=True))
    for k, (start, stop) in enumerate(pairwise(cuts.tolist())):
        path = room / RECORDS.format(k)
        records = np.fromfile(path, spool.record)
        path.unlink()
        rows, cols = (records["row"] - np.uint32(start)), np.ascontiguousarray(records["col"])
        indptr, order = sort_entries(rows, cols, (stop - start, spool.shape[1]))
        weights = records["weight"][order] if spool.weighted else None
        names = labels[0][start:stop], labels[1]
        parts = merge_repeats(indptr, cols[order], records["value"][order], weights, duplicates, names)
        yield Piece(start, spool.shape[1], *parts)


def _cut_again(pieces: Iterable[Piece], room: Path) -> Iterator[Piece]:
    """Yield the rows cut by the entries that are left."""
    merged, counts = room / MERGED, []
    merged.mkdir()
    shards = []
    for k, piece in enumerate(pieces):
        digests = write_shard(merged, k, piece)
        shards.append(ShardFiles(merged, k, piece.start, piece.stop, piece.n_cols, piece.indices.size, digests))
        counts.append(np.diff(piece.indptr.astype(np.int64)))
    bounds = np.array([0, *(shard.stop for shard in shards)])
    for start, stop in pairwise(cut_rows(starts_of(np.concatenate(counts)), piece.n_cols).tolist()):
        first, last = np.searchsorted(bounds, start, side="right") - 1, np.searchsorted(bounds, stop)
        yield joined([rows_between(shard.map(), start, stop) for shard in shards[first:last]])
    shutil.rmtree(merged)


def _as_single(piece: Piece) -> Piece:
    """Convert targets and weights to float32, which represents all of them exactly."""
    weights = None if piece.weights is None else piece.weights.astype(np.float32)
    return piece._replace(targets=piece.targets.astype(np.float32), weights=weights)


def _write_all(pieces: Iterable[Piece], spool: Spool, room: Path) -> None:
    """Write the shards, the labels, and the manifest last."""
    cuts, sizes, weights, heaviest = [0], [], [], 1.0 if not spool.weighted else 0.0
    files: dict[str, str] = {}
    for k, piece in enumerate(pieces):
        files |= write_shard(room, k, piece)
        cuts.append(piece.stop)
        sizes.append(int(piece.indices.size))
        if piece.weights is not None:
            weights.append(float(piece.weights.sum(dtype=np.float64)))
            heaviest = max(heaviest, float(piece.weights.max()))
    for name, labels in zip(LABEL_FILES, spool.labels, strict=True):
        if labels is not None:
            files |= write_array(room / name, labels.astype(str) if labels.dtype.kind == "O" else labels)
    total = math.fsum(weights) if spool.weighted else float(sum(sizes))
    Manifest(list(spool.shape), cuts, sizes, spool.weighted, total, heaviest, files).write(room)
