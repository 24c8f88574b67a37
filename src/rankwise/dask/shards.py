"""Shard files as load tasks: every worker maps those that it holds."""

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from .._errors import DataError, ShardFileError
from ..engines import client_of
from ..engines.cluster.client import collect
from ..observations import Piece
from ..storage import StoredEntries, is_shard_folder, map_shard
from .entries import ClusterEntries

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def are_shards(paths: Any) -> bool:
    """Whether this is a folder of shards, or a list of shard files."""
    if isinstance(paths, list | tuple):
        return bool(paths) and all(os.fspath(path).endswith(".bin") for path in paths)
    return is_shard_folder(paths)


def read_shards(paths: Paths, *, client: Any = None) -> ClusterEntries:
    """Entries in shard files, which every worker must be able to read.

    Parameters
    ----------
    paths : path or list of paths
        A folder that `rankwise.write_shards` or ``rankwise shards`` has written; or all of its shard files, then
        rows and columns are called by their numbers.
    client : distributed.Client, optional
        By default the one that this process has made last.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from dask.distributed import Client
    >>> import rankwise.dask
    >>> client = Client(n_workers=1, processes=False, dashboard_address="127.0.0.1:0")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     chunk = np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([5.0, 1.0, 4.0])
    ...     where = rankwise.write_shards([chunk], f"{folder}/shards")
    ...     rankwise.dask.read_shards(f"{folder}/shards", client=client)
    ClusterEntries(2 x 2, 3 observed, 1 shards)
    >>> client.close()
    """
    client = client_of(client)
    if isinstance(paths, list | tuple):
        files = sorted(os.path.abspath(path) for path in paths)
        loads = client.map(_mapped, files, pure=False)
        ends = collect(client, client.map(_ends, loads))
        order = sorted(range(len(ends)), key=ends.__getitem__)  # of the rows, whatever the files are called
        ends, loads = ([part[k] for k in order] for part in (ends, loads))
        _check(ends)
        return ClusterEntries(client, loads, (ends[-1][1], ends[-1][2]))
    stored = StoredEntries(os.fspath(paths))  # type: ignore[arg-type]
    files = [os.path.abspath(path) for path in stored.paths]
    loads = client.map(_mapped, files, pure=False)
    ends = collect(client, client.map(_ends, loads))
    cuts = stored.cuts().tolist()
    if ends != [(start, stop, stored.shape[1]) for start, stop in pairwise(cuts)]:
        raise ShardFileError(f"Some shard files of {paths} belong to another folder; write them again.")
    return ClusterEntries(client, loads, stored.shape, (stored.row_labels, stored.col_labels))


def _mapped(path: str) -> Piece:
    return map_shard(Path(path))


def _ends(piece: Piece) -> tuple[int, int, int]:
    return piece.start, piece.stop, piece.n_cols


def _check(ends: list[tuple[int, int, int]]) -> None:
    """Raise unless the shards follow each other from the first row on."""
    starts, stops, n_cols = zip(*ends, strict=True)
    if starts != (0, *stops[:-1]) or len(set(n_cols)) > 1:
        raise DataError("These shard files are not all those of one matrix; give all of a folder, or the folder.")
