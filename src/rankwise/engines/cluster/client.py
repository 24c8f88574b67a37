"""Engine whose shards are in the workers of a Dask cluster; shards of lost workers are built again elsewhere."""

import concurrent.futures
import logging
import os
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._arrays import Array
from ..._errors import ClusterError, SettingError
from ...losses import Loss
from ..base import Engine, Results
from ..operations import AnyOperation, Call, Join
from ..threads import ThreadPool
from .distributed import distributed
from .messages import Message, Reply, map_arrays, message_for, shared_part
from .placement import place
from .remote import POLL, Remote, reaches
from .worker import ShardWorker

log = logging.getLogger("rankwise")

DOUBT = 5.0  # seconds after which a worker that did not answer is used again if there is no other
WORKER_TIMEOUT = 60.0  # seconds to wait for a worker if there is none
SCHEDULER_TIMEOUT = 15.0  # seconds for the scheduler to answer
LOST = "The Dask scheduler does not answer, so the fit cannot continue; start a cluster and fit again."
MAX_REBUILDS = 20  # times that lost shards are built again for one operation


@dataclass
class Traffic:
    """Number of round trips between the client and all workers, and bytes of the arrays sent each way."""

    trips: int = 0
    out: int = 0
    back: int = 0


class Cluster(Engine):
    """Runs operations on shards that are spread over workers.

    One actor per worker holds a run of shards and joins their results, so that a worker sends one piece and a few nodes
    of a sum. Operations whose results stay in the shards are queued and sent with the next one: a round trip is one
    message to every worker and one back. The shards of a lost worker are built again by their load tasks on the other
    workers, brought to the state of the others (`recover`), and run the operation again, which changes no bit.

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
    n_jobs : int, default=1
        Threads of the client, for its work between round trips.
    """

    def __init__(
        self,
        client: Any,
        loads: Sequence[Any],
        cuts: Array,
        sizes: Sequence[int],
        loss: Loss,
        dtype: Any,
        n_jobs: int = 1,
    ) -> None:
        self.client, self.loads, self.cuts, self.sizes = client, loads, cuts.tolist(), list(sizes)
        self.loss = distributed().protocol.pickle.dumps(loss)
        self.dtype = np.dtype(dtype)
        self.n_jobs, self.pool, self.rounds = n_jobs, ThreadPool(n_jobs), 0
        self.traffic = Traffic()
        self.remotes: list[Remote] = []
        self._queue: list[Call] = []
        self._direct: bool | None = None  # whether workers can be reached directly; None before the first one
        self._owner = os.getpid()

    def apply(self, operation: AnyOperation, args: tuple[Any, ...]) -> Results:
        """Run an operation on every shard, in one round trip, or queue it if its results stay in the shards."""
        if self._owner != os.getpid():
            raise ClusterError(
                "A problem with entries on a cluster must be used by the process that made it, because a forked "
                "process has no Dask client; make a client and another `Problem` in this process."
            )
        self.rounds += 1
        if operation.join is Join.STAY:
            copies = map_arrays(args, lambda _, array: np.copy(array))  # the caller may change its arrays meanwhile
            self._queue.append((operation, copies))
            return Results(operation.join)
        try:
            results = self._round_trip([*self._queue, (operation, args)])
        except BaseException:
            self.close()
            raise
        self._queue.clear()
        return results

    def each(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """Call `work` with each item in the client's threads; return the results in order."""
        return self.pool.map(work, items)

    def close(self) -> None:
        """Release the shards and end the threads; the next operation builds them again."""
        for remote in list(self.remotes):
            self._drop(remote)
        self._queue.clear()
        self.pool.close()

    def _round_trip(self, calls: list[Call]) -> Results:
        """Send the calls to every worker, then to those that replace lost ones, until all shards have results."""
        self.traffic.trips += 1
        join, doubted = calls[-1][0].join, set[str]()
        replies: list[Reply] = []
        remotes, past = list(self.remotes), list[Call]()
        for _ in range(MAX_REBUILDS):
            replies += self._exchange(remotes, [*past, *calls], doubted)
            lost = self._lost()
            if not lost:
                results = Results(join)
                results.merge(reply.results(join) for reply in replies)
                return results
            remotes, past = self._build(lost, doubted), list(self.recover())
        raise ClusterError(
            f"Workers were lost {MAX_REBUILDS} times during one operation (last {', '.join(sorted(doubted))}); "
            "check their logs: too little memory is the usual reason."
        )

    def _exchange(self, remotes: list[Remote], calls: list[Call], doubted: set[str]) -> list[Reply]:
        """Return the replies of the workers that answer; drop the others and add them to `doubted`."""
        shared = shared_part(calls)
        for remote in remotes:
            self._send(remote, message_for(shared, remote.take))
        replies = []
        for remote in remotes:
            reply = self._receive(remote)
            if reply is None:
                self._drop(remote)
                doubted.add(remote.address)
                log.warning("lost the worker at %s, which held shards %s", remote.address, remote.numbers)
            elif reply.error is not None:
                raise reply.error
            else:
                self.traffic.back += reply.n_bytes
                replies.append(reply)
        return replies

    def _send(self, remote: Remote, message: Message) -> None:
        self.traffic.out += message.n_bytes
        remote.send(message)

    def _receive(self, remote: Remote) -> Reply | None:
        """Return the reply, or None if the connection broke or the scheduler reports the worker as gone."""
        try:
            reply: Reply = remote.receive(self._wait)
        except ClusterError:
            raise
        except Exception as error:  # errors of operations are in the reply: this one is of the connection or the actor
            log.debug("no reply from %s: %r", remote.address, error)
            return None
        return reply

    def _wait(self, address: str) -> None:
        """Raise if the worker is gone."""
        if address not in workers_of(self.client):
            raise ConnectionError(f"The worker at {address} is gone.")

    def _lost(self) -> list[int]:
        """Return the numbers of the shards that no worker has."""
        held = {number for remote in self.remotes for number in remote.numbers}
        return [number for number in range(len(self.loads)) if number not in held]

    def _drop(self, remote: Remote) -> None:
        remote.cancel()
        remote.future.release()
        self.remotes.remove(remote)

    def _build(self, numbers: list[int], doubted: set[str]) -> list[Remote]:
        """Build shards on the workers there are; leave out those of workers that are lost meanwhile."""
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
        return remotes

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


def free_workers(client: Any, doubted: Collection[str] = ()) -> dict[str, int]:
    """Return the threads of the workers that can take shards, by address; wait for one if there is none."""
    start = time.monotonic()
    while True:
        workers, waited = workers_of(client), time.monotonic() - start
        free = {address: n for address, n in workers.items() if address not in doubted}
        if free or (workers and waited > DOUBT):
            return free or workers
        if waited > WORKER_TIMEOUT:
            raise ClusterError(
                f"The Dask cluster has no worker, and none joined within {WORKER_TIMEOUT:g} s; "
                "start workers and fit again."
            )
        time.sleep(0.1)


def workers_of(client: Any) -> dict[str, int]:
    """Return the threads of each worker that the scheduler knows, by address."""
    try:
        threads: dict[str, int] = client.nthreads(callback_timeout=SCHEDULER_TIMEOUT)
    except Exception as error:
        raise ClusterError(LOST) from error
    return threads


def collect(client: Any, futures: Sequence[Any]) -> list[Any]:
    """Return the results of tasks; an error of a task is raised as it is."""
    try:
        results: list[Any] = client.gather(list(futures))
    except concurrent.futures.CancelledError as error:
        if client.status != "running":
            raise ClusterError(LOST) from error
        raise ClusterError(f"Dask canceled a task that reads entries, see the log of its scheduler: {error}") from error
    except OSError as error:
        if client.status != "running":
            raise ClusterError(LOST) from error
        raise  # of the task itself, such as a missing file
    return results


def client_of(client: Any) -> Any:
    """Return a checked Dask client: `client`, or the one that this process made last if it is None."""
    dask = distributed()
    if client is None:
        try:
            client = dask.default_client()
        except ValueError:
            raise SettingError(
                "`client` is None and this process has no Dask client; make one with `dask.distributed.Client(...)`."
            ) from None
    if not isinstance(client, dask.Client) or client.asynchronous:
        raise SettingError(f"`client` must be a `dask.distributed.Client` that is not asynchronous, got {client!r}.")
    if client.status == "closed":
        raise SettingError("`client` is closed; make another with `dask.distributed.Client(...)`.")
    return client
