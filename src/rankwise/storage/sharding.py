"""From entries that come in chunks to a folder of shards, without ever holding them all."""

import json
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

from .._errors import ShardFileError
from ..observations.build import check_duplicates, merge_repeats, sort_entries, starts_of
from ..observations.shards import Piece, cut_rows, joined, rows_between
from .shard_files import map_shard, write_shard
from .spool import Spool

Array = NDArray[Any]
FORMAT, VERSION = "rankwise-shards", 1
ABOUT, SHARD = "about.json", "shard-{:06d}.bin"
HEAP, MERGED = "heap-{:06d}", "merged-{:06d}"  # on the way there
LABELS = ("row_labels.npy", "col_labels.npy")


def write_shards(
    chunks: Iterable[tuple[Any, ...]],
    folder: str | os.PathLike[str],
    *,
    shape: tuple[int, int] | None = None,
    duplicates: str = "error",
    as_names: Callable[[Array], Array] | None = None,
) -> Path:
    """Write a folder of shards from entries in any order; memory for one shard and the labels is enough.

    The shards hold what `Observations.from_labels` of all entries would, bit for bit. Entries go to the disk as they
    come (12 to 24 bytes each), from there to a heap for each shard, and each heap is sorted on its own. The folder
    appears complete or not at all.

    Parameters
    ----------
    chunks : iterable of (rows, cols, values) or (rows, cols, values, weights)
        Arrays of one length; labels of any type that can be sorted. Entries of weight zero are left out, their rows
        and columns stay.
    folder : path
        Must not exist.
    shape : (n_rows, n_cols), optional
        If given, rows and columns are numbers from 0, not labels.
    duplicates : {"error", "mean", "last"}, default="error"
        What to do with a pair that comes more than once.
    as_names : callable, optional
        What the labels mean, such as whole numbers that came as text: takes the different ones of a side, and returns
        their names, one for one.

    Returns
    -------
    Path
        The folder.

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
    unread: list[OSError] = []
    with _appearing(target, unread) as room:
        spool = Spool(room / "spool", shape)
        try:
            for chunk in _read(chunks, unread):
                spool.add(*chunk)
            spool.finish(as_names)
            cuts = cut_rows(starts_of(spool.row_counts()), spool.shape[1])
            _heap(spool.records(), cuts, room)
        finally:
            spool.close()
        pieces = _sorted_heaps(cuts, spool, duplicates, room)
        if duplicates != "error":  # there may be fewer entries now, and other cuts
            pieces = _cut_again(pieces, room)
        single = spool.single and duplicates == "error"
        _write_all((_as_single(piece) if single else piece for piece in pieces), spool, room)
    return target


def _read(chunks: Iterable[tuple[Any, ...]], unread: list[OSError]) -> Iterator[tuple[Any, ...]]:
    """The chunks; notes the error of where they come from, which is not one of where shards go."""
    try:
        yield from chunks
    except OSError as error:
        unread.append(error)
        raise


@contextmanager
def _appearing(target: Path, unread: list[OSError]) -> Iterator[Path]:
    """A folder beside the wanted one that takes its name if all goes well, and is gone if not."""
    if target.exists():
        raise ShardFileError(f"{target} exists; choose another name for the folder, or remove it first.")
    if not target.parent.is_dir():
        raise ShardFileError(f"There is no folder {target.parent} to make {target.name} in; make it first.")
    room: Path | None = None
    try:
        room = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        yield room
        room.chmod(0o755)
        room.rename(target)
    except OSError as error:
        if error in unread:
            raise
        raise ShardFileError(
            f"The shards cannot be written to {target.parent} ({error.strerror or error}); make room there, or choose "
            "another place."
        ) from error
    finally:
        if room is not None:
            shutil.rmtree(room, ignore_errors=True)


def _heap(chunks: Iterable[Array], cuts: NDArray[np.int64], room: Path) -> None:
    """Append records to a file for each shard, in the order they come."""
    small = np.uint16 if cuts.size <= 2**16 else np.uint32  # NumPy sorts 16 bits by counting
    for records in chunks:
        shard_of = (np.searchsorted(cuts, records["row"], side="right") - 1).astype(small)
        order = np.argsort(shard_of, kind="stable")
        ends = np.searchsorted(shard_of[order], np.arange(cuts.size))
        for k, (lo, hi) in enumerate(pairwise(ends.tolist())):
            if lo < hi:
                with (room / HEAP.format(k)).open("ab") as file:
                    file.write(records[order[lo:hi]].data)


def _sorted_heaps(cuts: NDArray[np.int64], spool: Spool, duplicates: str, room: Path) -> Iterator[Piece]:
    """What each shard holds; its heap is removed."""
    called = tuple(np.arange(n) if names is None else names for names, n in zip(spool.labels, spool.shape, strict=True))
    for k, (start, stop) in enumerate(pairwise(cuts.tolist())):
        heap = room / HEAP.format(k)
        records = np.fromfile(heap, spool.record)
        heap.unlink()
        rows, cols = (records["row"] - np.uint32(start)), np.ascontiguousarray(records["col"])
        indptr, order = sort_entries(rows, cols, (stop - start, spool.shape[1]))
        weights = records["weight"][order] if spool.weighted else None
        names = called[0][start:stop], called[1]
        parts = merge_repeats(indptr, cols[order], records["value"][order], weights, duplicates, names)
        yield Piece(start, spool.shape[1], *parts)


def _cut_again(pieces: Iterable[Piece], room: Path) -> Iterator[Piece]:
    """The same rows cut by the entries that are left."""
    paths, counts = [], []
    for k, piece in enumerate(pieces):
        paths.append(room / MERGED.format(k))
        write_shard(paths[-1], piece)
        counts.append(np.diff(piece.indptr.astype(np.int64)))
        n_cols = piece.n_cols
    bounds = np.cumsum([0, *(part.size for part in counts)])
    for start, stop in pairwise(cut_rows(starts_of(np.concatenate(counts)), n_cols).tolist()):
        first, last = np.searchsorted(bounds, start, side="right") - 1, np.searchsorted(bounds, stop)
        yield joined([rows_between(map_shard(path, check=False), start, stop) for path in paths[first:last]])
    for path in paths:
        path.unlink()


def _as_single(piece: Piece) -> Piece:
    """Its numbers in float32, which holds them all."""
    weights = None if piece.weights is None else piece.weights.astype(np.float32)
    return piece._replace(targets=piece.targets.astype(np.float32), weights=weights)


def _write_all(pieces: Iterable[Piece], spool: Spool, room: Path) -> None:
    """The shards, the labels, and last what they are."""
    cuts, sizes, weights, heaviest = [0], [], [], 1.0 if not spool.weighted else 0.0
    for k, piece in enumerate(pieces):
        write_shard(room / SHARD.format(k), piece)
        cuts.append(piece.stop)
        sizes.append(int(piece.indices.size))
        if piece.weights is not None:
            weights.append(float(piece.weights.sum(dtype=np.float64)))
            heaviest = max(heaviest, float(piece.weights.max()))
    for name, names in zip(LABELS, spool.labels, strict=True):
        if names is not None:
            np.save(room / name, names.astype(str) if names.dtype.kind == "O" else names, allow_pickle=False)
    about = {
        "format": FORMAT,
        "version": VERSION,
        "shape": list(spool.shape),
        "cuts": cuts,
        "sizes": sizes,
        "weighted": spool.weighted,
        "total_weight": math.fsum(weights) if spool.weighted else float(sum(sizes)),
        "heaviest": heaviest,
    }
    with (room / ABOUT).open("x") as file:
        json.dump(about, file)
        file.flush()
        os.fsync(file.fileno())
