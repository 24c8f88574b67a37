"""`ClusterEntries`: observed entries in the workers of a Dask cluster."""

import math
import operator
import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from .._errors import DataError
from ..engines import Cluster, ShardFolder, client_of, usable_cores
from ..engines.cluster.distributed import collect
from ..engines.cluster.placement import place
from ..engines.cluster.scheduler import free_workers
from ..engines.factory import check_largest
from ..losses import Loss
from ..observations import Entries, Observations, TargetFacts, cut_rows
from ..observations.build import starts_of
from ..observations.labels import as_labels
from ..observations.observed import part_of
from ..observations.shards import FirstLook, first_look, once, second_look, shard_work
from ..storage.shard_files import ShardFiles
from . import tasks


class ClusterEntries(Entries):
    """Observed entries of a matrix, cut into row shards in the workers of a cluster.

    The client never holds more than a sample of the entries. Make one with `read_frame`, `read_parquet` or
    `read_shards`, or from tasks of your own that load a `Piece` each.

    Parameters
    ----------
    client : distributed.Client or None
        None means the one that this process made last.
    loads : sequence of Future
        One per shard, of its `rankwise.observations.Piece`, in the order of rows, without entries of weight zero. Dask
        computes them again if they are lost.
    shape : (n_rows, n_cols)
    labels : pair of array-like, optional
        Labels of the rows and of the columns.

    Examples
    --------
    >>> from dask.distributed import Client
    >>> import rankwise.dask
    >>> client = Client(n_workers=1, processes=False, dashboard_address="127.0.0.1:0")
    >>> piece = next(rankwise.Observations.from_dense([[1.0, 2.0], [3.0, float("nan")]]).pieces())
    >>> entries = rankwise.dask.ClusterEntries(client, [client.submit(lambda: piece)], (2, 2))
    >>> entries.n_observed, entries.target_facts().spread > 0
    (3, True)
    >>> client.close()
    """

    def __init__(
        self, client: Any, loads: Sequence[Any], shape: tuple[int, int], labels: tuple[Any, Any] = (None, None)
    ) -> None:
        self.client, self.loads, self.shape = client_of(client), list(loads), shape
        self.row_labels = as_labels(labels[0], shape[0], "row")
        self.col_labels = as_labels(labels[1], shape[1], "column")
        measures = self._map(tasks.measured)
        self.sizes = [int(measure.counts.sum()) for measure in measures]
        self.n_observed = sum(self.sizes)
        if self.n_observed == 0:
            raise DataError(f"The matrix of shape {shape} has no observed entry.")
        self._cuts = np.array([*(measure.start for measure in measures), shape[0]], np.int64)
        self.weights = None if measures[0].weight is None else True
        weights = [float(measure.counts.sum()) if measure.weight is None else measure.weight for measure in measures]
        self.total_weight, self.heaviest = math.fsum(weights), max(measure.heaviest for measure in measures)
        self._transposed: ClusterEntries | None = None

    def engine(self, loss: Loss, dtype: np.dtype[Any], n_jobs: int | None) -> Cluster:
        """Return an engine over the shards; raise if the loss or the dtype cannot represent a target."""
        self._check_targets(loss, dtype)
        work = shard_work(self.sizes, self._cuts)
        return Cluster(self.client, self.loads, self._cuts, work, loss, dtype, usable_cores(n_jobs))

    def cuts(self) -> NDArray[np.int64]:
        """Return the first row of every shard, and the number of rows."""
        return self._cuts

    def row_weights(self) -> NDArray[np.float64]:
        """Return the sum of the weights of every row's entries; their number if there are no weights."""
        return np.concatenate(self._map(tasks.row_weights))

    @once
    def target_facts(self) -> TargetFacts:
        """Return facts about the targets, by which a loss is chosen."""
        first = FirstLook.joined(self._map(first_look))
        return first.facts(self._map(second_look, mean=first.mean, size=first.size))

    def few_targets(self, n: int) -> Array:
        """Return about `n` targets, from all over the matrix."""
        blocks = self._every(max(1, self.n_observed // n))
        return np.resize(np.concatenate([block.targets for block in blocks]), n)

    def sample(self, n: int) -> Observations:
        """Return every k-th entry, at most `n` of them, in memory."""
        blocks = self._every(-(-self.n_observed // n))
        rows, cols, targets = (np.concatenate([block[k] for block in blocks]) for k in range(3))
        weights = None if self.weights is None else np.concatenate([block.weights for block in blocks])
        labels = self.row_labels, self.col_labels
        return part_of(self.shape, rows, cols, targets, weights, labels)

    def transposed(self) -> "ClusterEntries":
        """Return the entries with rows and columns exchanged; the workers exchange them once."""
        if self._transposed is None:
            counts = np.sum(self._map(tasks.column_counts), axis=0)
            labels = self.col_labels, self.row_labels
            loads = self._transposed_loads(counts)
            self._transposed = ClusterEntries(self.client, loads, self.shape[::-1], labels)
            self._transposed._transposed = self
        return self._transposed

    def release(self) -> None:
        """Release the entries in the workers; they cannot be used afterwards."""
        for load in self.loads + ([] if self._transposed is None else self._transposed.loads):
            load.release()

    def __repr__(self) -> str:
        """Shape, number of entries and shards."""
        weighted = "" if self.weights is None else ", weighted"
        return (
            f"ClusterEntries({self.shape[0]} x {self.shape[1]}, {self.n_observed} observed, "
            f"{len(self.loads)} shards{weighted})"
        )

    def _map(self, function: Callable[..., Any], **settings: Any) -> list[Any]:
        """Return the results of a function of every piece."""
        return collect(self.client, self.client.map(function, self.loads, **settings))

    def _every(self, step: int) -> list[tasks.Block]:
        """Return every `step`-th entry of the whole matrix."""
        starts = np.concatenate(([0], np.cumsum(self.sizes[:-1], dtype=np.int64)))
        firsts = [int(-start % step) for start in starts]
        return collect(self.client, self.client.map(tasks.every, self.loads, firsts, step=step))

    def _transposed_loads(self, counts: NDArray[np.int64]) -> list[Any]:
        """Return tasks that make the shards of the transpose from the shards of this matrix."""
        indptr = starts_of(counts)
        cuts = cut_rows(indptr, self.shape[0])
        splits = self.client.map(tasks.split_columns, self.loads, cuts=cuts)
        sizes = np.diff(indptr[cuts].astype(np.int64)).tolist()
        return shuffled(self.client, splits, cuts, sizes, tasks.transposed, n_cols=self.shape[0])

    def _check_targets(self, loss: Loss, dtype: np.dtype[Any]) -> None:
        checked = self._map(tasks.outside, loss=loss)
        starts = np.concatenate(([0], np.cumsum(self.sizes)))
        wrong = [(first, index + int(start)) for (n, first, index, _), start in zip(checked, starts, strict=False) if n]
        if wrong:
            loss.refuse(sum(n for n, *_ in checked), self.n_observed, *wrong[0])
        loss.check_targets(self.few_targets(1000))  # a custom loss is checked more closely here
        check_largest(max(largest for *_, largest in checked), np.dtype(dtype))


def shuffled(
    client: Any, splits: Sequence[Any], cuts: Array, sizes: Sequence[int], make: Callable[..., Any], **settings: Any
) -> list[Any]:
    """Return futures of ``make(k-th parts of all splits)`` for every shard k, on the worker where it will be used."""
    placed = place(range(len(sizes)), shard_work(sizes, cuts), free_workers(client), {})
    address_of = {number: address for address, numbers in placed.items() for number in numbers}
    futures = []
    for number, (start, stop) in enumerate(pairwise(cuts.tolist())):
        blocks = [client.submit(operator.getitem, split, number) for split in splits]
        where: dict[str, Any] = {"workers": [address_of[number]], "allow_other_workers": True}
        futures.append(client.submit(make, blocks, start, stop, **settings, **where))
    return futures


def read_shards(folder: str | os.PathLike[str], *, client: Any = None) -> ClusterEntries:
    """Read the entries of a folder of shards, which every worker must be able to read.

    Parameters
    ----------
    folder : path
        Written by `rankwise.write_shards` or ``rankwise shards``.
    client : distributed.Client, optional
        By default the one that this process made last.

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
    stored = ShardFolder(os.path.abspath(folder))
    loads = client.map(ShardFiles.map, stored.shards, check=True, pure=False)
    return ClusterEntries(client, loads, stored.shape, (stored.row_labels, stored.col_labels))
