"""`ClusterEntries`: observed entries that live with the workers of a Dask cluster."""

import math
import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import DataError
from ..engines import Cluster, client_of, usable_cores
from ..engines.cluster.client import collect, free_workers
from ..engines.cluster.placement import deal
from ..engines.factory import check_largest
from ..losses import Loss
from ..observations import Observations, TargetFacts, cut_rows
from ..observations.build import starts_of
from ..observations.labels import as_labels
from ..observations.observed import part_of
from ..observations.shards import FirstLook, first_look, second_look, shard_work
from . import tasks

Array = NDArray[Any]


class ClusterEntries:
    """The known entries of a matrix, cut into row shards that the workers of a cluster hold.

    Has what `Observations` have for a fit, and never holds more than a sample of the entries itself. Make one with
    `read_frame` or `read_parquet`, or from tasks of your own that load a `Piece` each.

    Parameters
    ----------
    client : distributed.Client or None
        None is the one that this process has made last.
    loads : sequence of Future
        One for every shard, of its `rankwise.observations.Piece`, in the order of rows, without entries of weight
        zero. Dask computes them again if they are lost.
    shape : (n_rows, n_cols)
    labels : pair of array-like, optional
        Names of the rows and of the columns.

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
        found = self._each(tasks.measured)
        self.sizes = [int(each.counts.sum()) for each in found]
        self.n_observed = sum(self.sizes)
        if self.n_observed == 0:
            raise DataError(f"The matrix of shape {shape} has no observed entry; there is nothing to learn from.")
        self._cuts = np.array([*(each.start for each in found), shape[0]], np.int64)
        self.weights = None if found[0].weight is None else True
        weights = [float(each.counts.sum()) if each.weight is None else each.weight for each in found]
        self.total_weight, self.heaviest = math.fsum(weights), max(each.heaviest for each in found)
        self._turned: ClusterEntries | None = None

    def engine(self, loss: Loss, dtype: np.dtype[Any], n_jobs: int | None) -> Cluster:
        """What runs verbs on the shards; refuses targets that the loss or the number type cannot take."""
        self._check_targets(loss, dtype)
        work = shard_work(self.sizes, self._cuts)
        return Cluster(self.client, self.loads, self._cuts, work, loss, dtype, usable_cores(n_jobs))

    def cuts(self) -> NDArray[np.int64]:
        """Row numbers at which the shards begin, and the number of rows."""
        return self._cuts

    def weighted(self) -> "ClusterEntries":
        """These entries, which all have a positive weight."""
        return self

    def row_weights(self) -> NDArray[np.float64]:
        """Sum of the weights of every row's entries; their number if there are no weights."""
        return np.concatenate(self._each(tasks.row_weights))

    def target_facts(self) -> TargetFacts:
        """What a loss is chosen by."""
        first = FirstLook.joined(self._each(first_look))
        return first.facts(self._each(second_look, mean=first.mean))

    def few_targets(self, n: int) -> NDArray[Any]:
        """About `n` targets, from all over the matrix."""
        blocks = self._every(max(1, self.n_observed // n))
        return np.resize(np.concatenate([block.targets for block in blocks]), n)

    def sample(self, n: int) -> Observations:
        """Every k-th entry, at most `n` of them, in memory."""
        blocks = self._every(-(-self.n_observed // n))
        rows, cols, targets = (np.concatenate([block[k] for block in blocks]) for k in range(3))
        weights = None if self.weights is None else np.concatenate([block.weights for block in blocks])
        labels = self.row_labels, self.col_labels
        return part_of(self.shape, rows, cols, targets, weights, labels)

    def transposed(self) -> "ClusterEntries":
        """The same entries with rows and columns exchanged; the workers pass them on to each other once."""
        if self._turned is None:
            counts = np.sum(self._each(tasks.column_counts), axis=0)
            labels = self.col_labels, self.row_labels
            loads = self._turned_loads(counts)
            self._turned = ClusterEntries(self.client, loads, self.shape[::-1], labels)
            self._turned._turned = self
        return self._turned

    def release(self) -> None:
        """Let the workers forget the entries; nothing can be learned from them any more."""
        for load in self.loads + ([] if self._turned is None else self._turned.loads):
            load.release()

    def __repr__(self) -> str:
        """Sizes, at a glance."""
        weighted = "" if self.weights is None else ", weighted"
        return (
            f"ClusterEntries({self.shape[0]} x {self.shape[1]}, {self.n_observed} observed, "
            f"{len(self.loads)} shards{weighted})"
        )

    def _each(self, function: Callable[..., Any], **given: Any) -> list[Any]:
        """What a function says of every piece."""
        return collect(self.client, self.client.map(function, self.loads, **given))

    def _every(self, step: int) -> list[tasks.Block]:
        """Every `step`-th entry of the whole matrix."""
        starts = np.concatenate(([0], np.cumsum(self.sizes[:-1], dtype=np.int64)))
        firsts = [int(-start % step) for start in starts]
        return collect(self.client, self.client.map(tasks.every, self.loads, firsts, step=step))

    def _turned_loads(self, counts: NDArray[np.int64]) -> list[Any]:
        """Tasks that make the shards of the transpose out of those that are there."""
        indptr = starts_of(counts)
        cuts = cut_rows(indptr, self.shape[0])
        splits = self.client.map(tasks.split_columns, self.loads, cuts=cuts)
        sizes = np.diff(indptr[cuts].astype(np.int64)).tolist()
        return shuffled(self.client, splits, cuts, sizes, tasks.turned, n_cols=self.shape[0])

    def _check_targets(self, loss: Loss, dtype: np.dtype[Any]) -> None:
        found = self._each(tasks.outside, loss=loss)
        starts = np.concatenate(([0], np.cumsum(self.sizes)))
        wrong = [(first, place + int(start)) for (n, first, place, _), start in zip(found, starts, strict=False) if n]
        if wrong:
            loss.refuse(sum(n for n, *_ in found), self.n_observed, *wrong[0])
        loss.check_targets(self.few_targets(1000))  # a loss of the user's own is looked at closely here
        check_largest(max(largest for *_, largest in found), np.dtype(dtype))


def shuffled(
    client: Any, splits: Sequence[Any], cuts: Array, sizes: Sequence[int], make: Callable[..., Any], **given: Any
) -> list[Any]:
    """Futures of what `make` makes of the k-th parts of all splits, for every k; where the engine will want it."""
    dealt = deal(range(len(sizes)), shard_work(sizes, cuts), free_workers(client), {})
    place = {number: address for address, numbers in dealt.items() for number in numbers}
    found = []
    for number, (start, stop) in enumerate(pairwise(cuts.tolist())):
        blocks = [client.submit(operator.getitem, split, number) for split in splits]
        where: dict[str, Any] = {"workers": [place[number]], "allow_other_workers": True}
        found.append(client.submit(make, blocks, start, stop, **given, **where))
    return found
