"""From a Dask data frame, or Parquet files, to shards with the workers."""

import os
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import DataError
from .._extras import require
from ..engines import client_of
from ..engines.cluster.client import collect
from ..observations import cut_rows
from ..observations.build import check_duplicates, refuse_huge, refuse_repeat, refuse_weightless, starts_of
from ..observations.frames import column_of, need_names
from . import tasks
from .entries import ClusterEntries, shuffled
from .scan import Counted, Names, check, look, merged

Array = NDArray[Any]
FAN_IN = 16  # lists of labels that one task merges


def is_dask_frame(data: Any) -> bool:
    """Whether `data` is a Dask data frame; none of Dask is imported to see that."""
    return (
        type(data).__module__.partition(".")[0] == "dask" and hasattr(data, "to_delayed") and hasattr(data, "columns")
    )


def read_parquet(
    path: Any, *, row: Any, col: Any, value: Any, weight: Any = None, client: Any = None, duplicates: str = "error"
) -> ClusterEntries:
    """Entries out of Parquet files with one line per entry; as `read_frame`.

    Parameters
    ----------
    path : path or list of paths
        Of files, or of a folder of them, that every worker can read.
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
    columns = Names(row, col, value, weight).given
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
    """Entries out of a Dask data frame with one line per entry.

    The frame is read twice, partition by partition: for labels and counts, then to send every entry to its shard. What
    comes out equals `Observations.from_frame` of the whole frame, bit for bit, wherever its partitions end.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
    row, col, value : name of a column
        Where the row labels, the column labels and the observed values are.
    weight : name of a column, optional
        Weight of each entry's loss.
    client : distributed.Client, optional
        By default the one that this process has made last.
    duplicates : {"error", "mean", "last"}, default="error"
        What to do with a pair that comes more than once.

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
    parts = frame[names.given].to_delayed()
    looks = [delayed(look)(part, names) for part in parts]
    sides = [_merged(delayed, looks, side, which) for side, which in enumerate(("row", "column"))]
    held = client.compute([*looks, *sides])  # while they are held, they are not computed again below
    check(collect(client, client.map(_facts, held[: len(looks)])), names)
    rows, cols = collect(client, held[-2:])
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
    """Pieces cut as the entries that are left ask for: repeats and entries without weight move the cuts."""
    found = collect(client, client.map(tasks.summary, groups))
    repeat = next((repeat for _, repeat, _ in found if repeat is not None), None)
    if repeat is not None:
        refuse_repeat(repeat[0], repeat[1], labels)
    if max(heaviest for *_, heaviest in found) == 0:
        refuse_weightless()
    indptr = starts_of(np.concatenate([counts for counts, *_ in found]))
    wanted = cut_rows(indptr, shape[1])
    if np.array_equal(wanted, cuts):
        return list(client.map(tasks.piece_of, groups))
    loads = []
    for start, stop in pairwise(wanted.tolist()):
        first, last = int(np.searchsorted(cuts, start, side="right")) - 1, int(np.searchsorted(cuts, stop, side="left"))
        loads.append(client.submit(tasks.recut, groups[first:last], start, stop))
    return loads


def _merged(delayed: Any, looks: Sequence[Any], side: int, which: str) -> Any:
    """Labels and counts of all partitions, a few lists at a time."""
    parts = [delayed(_side)(each, side) for each in looks]
    while True:
        parts = [delayed(merged)(parts[k : k + FAN_IN], which) for k in range(0, len(parts), FAN_IN)]
        if len(parts) == 1:
            return parts[0]


def _side(found: Any, side: int) -> Counted:
    counted: Counted = found[side]
    return counted


def _facts(found: Any) -> Any:
    return found.facts


def _split(part: Any, names: Names, rows: Counted, cols: Counted, cuts: Array) -> list[tasks.Block]:
    return tasks.split_partition(part, names, rows.labels, cols.labels, cuts)


def _use(name: Any, row: Any, col: Any, value: Any) -> str:
    """What a column is asked for as."""
    return next((use for use, given in (("row", row), ("col", col), ("value", value)) if given == name), "weight")
