"""Read Dask data frames and Parquet files into shards on the workers of a cluster."""

import os
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .._arrays import Array
from .._errors import DataError
from .._extras import require
from ..engines import client_of
from ..engines.cluster.distributed import collect
from ..observations import cut_rows
from ..observations.build import check_duplicates, refuse_huge, refuse_repeat, refuse_weightless, starts_of
from ..observations.frames import column_of, need_names
from . import tasks
from .entries import ClusterEntries, shuffled
from .scan import Counted, Names, PartitionFacts, Scan, check, merged, scan

FAN_IN = 16  # lists of labels that one task merges


def read_parquet(
    path: Any, *, row: Any, col: Any, value: Any, weight: Any = None, client: Any = None, duplicates: str = "error"
) -> ClusterEntries:
    """Read Parquet files with one line per entry (see `read_frame`).

    Parameters
    ----------
    path : path or list of paths
        Files, or a folder of files, that every worker can read.
    row, col, value, weight, client, duplicates
        As in `read_frame`.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"user": [7, 7, 9], "film": ["A", "B", "A"], "stars": [5.0, 1.0, 4.0]})
    >>> from dask.distributed import Client
    >>> import rankwise.dask
    >>> client = Client(n_workers=1, processes=False, dashboard_address="127.0.0.1:0")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     frame.to_parquet(f"{folder}/ratings.parquet")
    ...     rankwise.dask.read_parquet(folder, row="user", col="film", value="stars", client=client)
    ClusterEntries(2 x 2, 3 observed, 1 shards)
    >>> client.close()
    """
    need_names(row, col, value)
    columns = Names(row, col, value, weight).used
    paths = [os.fspath(each) for each in path] if isinstance(path, list | tuple) else os.fspath(path)
    frames = require("dask.dataframe", "dask")
    try:
        frame = frames.read_parquet(paths)
    except (FileNotFoundError, OSError) as error:
        raise DataError(f"Cannot read Parquet files from {paths}: {error}") from error
    for name in columns:
        column_of(frame._meta, name, _use(name, row, col, value))
    return read_frame(
        frame[columns], row=row, col=col, value=value, weight=weight, client=client, duplicates=duplicates
    )


def read_frame(
    frame: Any, *, row: Any, col: Any, value: Any, weight: Any = None, client: Any = None, duplicates: str = "error"
) -> ClusterEntries:
    """Read a Dask data frame with one line per entry.

    The frame is read twice, partition by partition: for labels and counts, then to send every entry to its shard. The
    result equals `Observations.from_frame` of the whole frame, bit for bit, for any partitions.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
    row, col, value : name of a column
        Columns of the row labels, the column labels and the observed values.
    weight : name of a column, optional
        Weight of each entry's loss.
    client : distributed.Client, optional
        By default the client that this process created last.
    duplicates : {"error", "mean", "last"}, default="error"
        How to treat a repeated (row, column) pair.

    Examples
    --------
    >>> import dask.dataframe as dd
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"user": [7, 7, 9], "film": ["A", "B", "A"], "stars": [5.0, 1.0, 4.0]})
    >>> from dask.distributed import Client
    >>> import rankwise.dask
    >>> client = Client(n_workers=1, processes=False, dashboard_address="127.0.0.1:0")
    >>> parts = dd.from_pandas(frame, npartitions=2)
    >>> rankwise.dask.read_frame(parts, row="user", col="film", value="stars", client=client)
    ClusterEntries(2 x 2, 3 observed, 1 shards)
    >>> client.close()
    """
    need_names(row, col, value)
    check_duplicates(duplicates)
    names, client = Names(row, col, value, weight), client_of(client)
    for name, use in zip(names, ("row", "col", "value", "weight"), strict=True):
        if name is not None:
            column_of(frame._meta, name, use)
    delayed = require("dask", "dask").delayed
    parts = frame[names.used].to_delayed()
    scans = [delayed(scan)(part, names) for part in parts]
    sides = [_merged(delayed, scans, side, which) for side, which in enumerate(("row", "column"))]
    futures = client.compute([*scans, *sides])  # results that futures refer to are not computed again below
    check(collect(client, client.map(_facts, futures[: len(scans)])), names)
    rows, cols = collect(client, futures[-2:])
    shape, labels = (rows.labels.size, cols.labels.size), (rows.labels, cols.labels)
    n = int(rows.counts.sum())
    if n == 0:
        raise DataError(f"The matrix of shape {shape} has no observed entry; there is nothing to learn from.")
    refuse_huge(*shape, n)
    cuts = cut_rows(starts_of(rows.counts), shape[1])
    split = [delayed(_split)(part, names, *sides, cuts) for part in parts]
    splits = client.compute(split)
    sizes = np.diff(starts_of(rows.counts)[cuts].astype(np.int64)).tolist()
    groups = shuffled(client, splits, cuts, sizes, tasks.grouped, n_cols=shape[1], duplicates=duplicates)
    return ClusterEntries(client, _loads(client, groups, cuts, shape, labels), shape, labels)


def _loads(
    client: Any, groups: list[Any], cuts: Array, shape: tuple[int, int], labels: tuple[Array, Array]
) -> list[Any]:
    """Futures of the pieces, cut by the entries that remain: merged repeats and zero weights move the cuts."""
    summaries = collect(client, client.map(tasks.summary, groups))
    repeat = next((repeat for _, repeat, _ in summaries if repeat is not None), None)
    if repeat is not None:
        refuse_repeat(repeat[0], repeat[1], labels)
    if max(heaviest for *_, heaviest in summaries) == 0:
        refuse_weightless()
    indptr = starts_of(np.concatenate([counts for counts, *_ in summaries]))
    balanced = cut_rows(indptr, shape[1])
    if np.array_equal(balanced, cuts):
        return list(client.map(tasks.piece_of, groups))
    loads = []
    for start, stop in pairwise(balanced.tolist()):
        first, last = int(np.searchsorted(cuts, start, side="right")) - 1, int(np.searchsorted(cuts, stop, side="left"))
        loads.append(client.submit(tasks.recut, groups[first:last], start, stop))
    return loads


def _merged(delayed: Any, scans: Sequence[Any], side: int, which: str) -> Any:
    """Merge labels and counts of all partitions in a tree, `FAN_IN` at a time."""
    parts = [delayed(_side)(part, side) for part in scans]
    while True:
        parts = [delayed(merged)(parts[k : k + FAN_IN], which) for k in range(0, len(parts), FAN_IN)]
        if len(parts) == 1:
            return parts[0]


def _side(part: Scan, side: int) -> Counted:
    return part.cols if side else part.rows


def _facts(part: Scan) -> PartitionFacts:
    return part.facts


def _split(part: Any, names: Names, rows: Counted, cols: Counted, cuts: Array) -> list[tasks.Block]:
    return tasks.split_partition(part, names, rows.labels, cols.labels, cuts)


def _use(name: Any, row: Any, col: Any, value: Any) -> str:
    """Parameter that names a column."""
    return next((use for use, column in (("row", row), ("col", col), ("value", value)) if column == name), "weight")
