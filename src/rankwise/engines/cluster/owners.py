"""Part of the cluster's engine that has shards built by the workers, and built again when their worker is lost."""

import uuid
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ..._arrays import Array
from ..._errors import ClusterError
from ...losses import Loss
from ..base import Engine
from .distributed import distributed
from .kept import Holders
from .placement import place
from .remote import Remote, reaches
from .scheduler import free_workers, workers_of
from .worker import ShardWorker

POLL = 1.0  # seconds between checks whether workers still exist, while waiting for them


class ShardOwners(Engine):
    """Actors of an engine, one per worker, with a run of shards each.

    Parameters
    ----------
    client : distributed.Client
    loads : sequence of Future
        One per shard, of its `Piece`; Dask computes it again if it was lost.
    cuts : ndarray of shape (n_shards + 1,)
        First row of every shard, and the number of rows.
    sizes : sequence of int
        Cost of every shard, in observations.
    loss : Loss
    dtype : dtype
    """

    def __init__(
        self, client: Any, loads: Sequence[Any], cuts: Array, sizes: Sequence[int], loss: Loss, dtype: Any
    ) -> None:
        self.client, self.loads, self.cuts, self.sizes = client, loads, cuts.tolist(), list(sizes)
        self.loss = distributed().protocol.pickle.dumps(loss)
        self.dtype = np.dtype(dtype)
        self.remotes: list[Remote] = []
        self._direct: bool | None = None  # whether workers can be reached directly; None before the first one
        self._holders: Holders | None = None

    @property
    def holders(self) -> Holders:
        """The actors, as those that keep lines."""
        if self._holders is None or set(self._holders.remotes) != set(self.remotes):
            self._holders = Holders(self.remotes)
        return self._holders

    def lost(self) -> list[int]:
        """Return the numbers of the shards that no worker has."""
        held = {number for remote in self.remotes for number in remote.numbers}
        return [number for number in range(len(self.loads)) if number not in held]

    def drop(self, remote: Remote) -> None:
        """Release an actor and its shards."""
        remote.cancel()
        remote.future.release()
        self.remotes.remove(remote)

    def build(self, doubted: Collection[str]) -> None:
        """Build lost shards on the workers there are; leave out those of workers that are lost meanwhile."""
        numbers = self.lost()
        if not numbers:
            return
        threads = free_workers(self.client, doubted)
        held = {address: sum(each.size for each in self.remotes if each.address == address) for address in threads}
        placed = place(numbers, self.sizes, threads, held)
        started = [self._start(address, shards, threads[address]) for address, shards in placed.items()]
        remotes = [remote for remote in started if self._is_built(remote)]
        if self._direct is None and remotes:
            self._direct = reaches(self.client, remotes[0].address)
        for remote in remotes:
            remote.direct = self._direct is not False
        self.remotes += remotes

    def _start(self, address: str, numbers: list[int], n_threads: int) -> Remote:
        """Start an actor; Dask brings the pieces to the worker, or computes lost ones again."""
        future = self.client.submit(
            ShardWorker,
            [self.loads[number] for number in numbers],
            numbers,
            self.loss,
            self.dtype.str,
            n_threads,
            key=f"rankwise-shards-{uuid.uuid4().hex}",
            workers=[address],
            actor=True,
        )
        rows = [slice(self.cuts[number], self.cuts[number + 1]) for number in numbers]
        runs = [rows[0]]
        for following in rows[1:]:
            if runs[-1].stop == following.start:
                runs[-1] = slice(runs[-1].start, following.stop)
            else:
                runs.append(following)
        return Remote(self.client, address, numbers, runs, future, sum(self.sizes[number] for number in numbers))

    def _is_built(self, remote: Remote) -> bool:
        """Wait for the actor; False if its worker is lost. Errors of its load tasks are raised."""
        future = remote.future
        while not future.done():
            try:
                future.exception(timeout=POLL)
            except TimeoutError:
                if remote.address not in workers_of(self.client):
                    break
        if future.status == "finished":
            return True
        error = future.exception() if future.status == "error" else None
        future.release()
        if error is None or remote.address not in workers_of(self.client):
            return False
        if isinstance(error, distributed().KilledWorker):
            raise ClusterError(f"Workers died while loading shards: {error}") from error
        raise error
