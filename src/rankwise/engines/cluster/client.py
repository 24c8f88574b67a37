"""Engine whose shards are in the workers of a Dask cluster; shards of lost workers are built again elsewhere."""

import concurrent.futures
import logging
import math
import os
import time
import uuid
import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._arrays import Array
from ..._errors import ClusterError
from ...losses import Loss
from ..base import Engine, Results
from ..operations import AnyOperation, Call, Join
from ..shard import Shard
from ..threads import ThreadPool
from .distributed import LOST, distributed
from .kept import Holders, Kept, Key, LinesLost
from .messages import Message, Reply, copied, joined, layouts_in, message_for, shared_part
from .peers import Exchange, PeerError
from .placement import place
from .remote import Remote, reaches
from .worker import ShardWorker

log = logging.getLogger("rankwise")

POLL = 1.0  # seconds between checks whether workers still exist, while waiting for them
SILENCE = 30.0  # seconds after which a worker whose event loop does not answer is given up, while it works
DOUBT = 5.0  # seconds after which a worker that did not answer is used again if there is no other
WORKER_TIMEOUT = 60.0  # seconds to wait for a worker if there is none
SCHEDULER_TIMEOUT = 15.0  # seconds for the scheduler to answer
MAX_REBUILDS = 20  # times that lost shards are built again for one operation
PEER_BYTES = 1 << 22  # arrays that would take more than this to send to all workers go from worker to worker


@dataclass
class Traffic:
    """Number of round trips between the client and all workers, and bytes of the arrays sent.

    `out` and `back` are sent by the client and to it, `peers` from worker to worker.
    """

    trips: int = 0
    out: int = 0
    back: int = 0
    peers: int = 0


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
        self._peers = True  # whether workers have reached each other so far
        self._layout, self._told = 0, list[Remote]()  # number of changes of the peers, and those who know each other
        self._direct: bool | None = None  # whether workers can be reached directly; None before the first one
        self._holders: Holders | None = None  # the workers, as those that keep lines
        self._dropped: list[Key] = []  # lines that no handle refers to any more
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
            self._queue.append((operation, copied(args)))  # the caller may change its arrays meanwhile
            return Results(operation.join)
        try:
            results = self._round_trip([*self._queue, (operation, args)])
        except LinesLost:  # the other workers go on with the shards that they have
            self._peers = True
            self._queue.clear()
            raise
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

    def kept(self, lines: Any) -> Any:
        """Return the handle of an array with a line per row, which the workers keep from now on."""
        return lines if isinstance(lines, Kept) else self.run(Shard.keep, lines)

    def _round_trip(self, calls: list[Call]) -> Results:
        """Send the calls to every worker, then to those that replace lost ones, until all shards have results."""
        self.traffic.trips += 1
        doubted, replies = set[str](), list[Reply]()
        remotes, past = list(self.remotes), list[Call]()
        if self._peers and remotes and not self._lost():
            replies = self._exchange(remotes, calls, doubted, peers=True)
            if len(replies) == len(remotes):
                return self._joined(replies, calls[-1][0])
            replies, remotes = [], list(self.remotes)  # results of peers are parts of each other: repeat all without
        for _ in range(MAX_REBUILDS):
            replies += self._exchange(remotes, [*past, *calls], doubted)
            lost = self._lost()
            if not lost:
                return self._joined(replies, calls[-1][0])
            remotes, past = self._build(lost, doubted), list(self.recover())
        raise ClusterError(
            f"Workers were lost {MAX_REBUILDS} times during one operation (last {', '.join(sorted(doubted))}); "
            "check their logs: too little memory is the usual reason."
        )

    def _exchange(
        self, remotes: list[Remote], calls: list[Call], doubted: set[str], peers: bool = False
    ) -> list[Reply]:
        """Return the replies of the workers that answer; drop lost ones and add them to `doubted`."""
        n = len(remotes)
        shared = shared_part(calls, PEER_BYTES / (n - 1) if peers and n > 1 else math.inf, pull=peers)
        keep = self.traffic.trips if calls[-1][0].kept else None
        forget, self._dropped = tuple(self._dropped), []
        layouts = layouts_in(calls, shared)
        for k, remote in enumerate(remotes):
            exchange = self._with_peers(remotes, k) if peers else None
            message = message_for(shared, remote.take, exchange, n)
            news = {layout: holders for layout, holders in layouts.items() if layout not in remote.layouts}
            remote.layouts |= set(news)
            self._send(remote, replace(message, keep=keep, forget=forget, layouts=news))
        self._told = remotes if peers else self._told
        self._await(remotes, peers)
        replies = [reply for remote in remotes if (reply := self._reply(remote, doubted)) is not None]
        if len(replies) < n and peers:
            self._told = []
            if len(self.remotes) == n:
                self._peers = False
                log.warning("workers cannot reach each other; the client sends all arrays, which is slower")
        return replies

    def _joined(self, replies: list[Reply], operation: AnyOperation) -> Results:
        """Return the results of all workers, with handles of what they keep."""
        results = joined(replies, operation.join, len(self.loads))
        if operation.kept:
            if self._holders is None or set(self._holders.remotes) != set(self.remotes):
                self._holders = Holders(self.remotes)
            parts = zip(*(reply.kept or () for reply in replies), strict=True)
            handles = [
                Kept(self._fetch, (self.traffic.trips, k), self._holders, self.cuts[-1], descriptions)
                for k, descriptions in enumerate(parts)
            ]
            for handle in handles:
                weakref.finalize(handle, self._dropped_later, handle.key)
            results.kept = handles[0] if len(handles) == 1 else tuple(handles)
        return results

    def _dropped_later(self, key: Key) -> None:
        self._dropped.append(key)

    def _fetch(self, kept: Kept, rows: Array | None) -> Array:
        """Return all lines, or those of some rows, of an array that the workers keep."""
        remotes = list(kept.holders.remotes)
        if not set(remotes) <= set(self.remotes):
            raise LinesLost("A worker was lost with the factors of its rows.")
        n = len(rows) if rows is not None else kept.shape[0]
        whole = np.empty((n, *kept.shape[1:]), kept.dtype)
        places = {remote: remote.places(rows) for remote in remotes}
        for remote, (lines, _) in places.items():
            remote.ask("lines", [kept.key], -1, "", lines)
        self._await(remotes, False)
        for remote, (_, at) in places.items():
            try:
                (whole[at],) = remote.receive()
            except Exception as error:
                self._drop(remote)
                raise LinesLost("A worker was lost with the factors of its rows.") from error
        self.traffic.back += whole.nbytes
        return whole

    def _with_peers(self, remotes: list[Remote], own: int) -> Exchange:
        """Return what a worker must know of its peers; their addresses only if they have changed."""
        changed = self._told != remotes
        self._layout += changed and own == 0
        peers = tuple((remote.address, remote.future.key) for remote in remotes) if changed else None
        return Exchange(self.traffic.trips, self._layout, own, PEER_BYTES, peers)

    def _send(self, remote: Remote, message: Message) -> None:
        self.traffic.out += message.n_bytes
        remote.send(message)

    def _await(self, remotes: list[Remote], peers: bool) -> None:
        """Wait until every worker has answered, its connection broke, it fell silent, or the scheduler lost it."""
        waiting = {remote.call: remote for remote in remotes if remote.call is not None}
        while waiting:
            done, _ = concurrent.futures.wait(waiting, POLL, concurrent.futures.FIRST_COMPLETED)
            if not done:
                for address in {remote.address for remote in waiting.values() if remote.seconds_silent() > SILENCE}:
                    remove_worker(self.client, address)
                known = workers_of(self.client)
                done = {call for call, remote in waiting.items() if remote.address not in known and call.cancel()}
            for call in done:
                del waiting[call]
            if peers and any(map(_failed, done)):
                for remote in waiting.values():
                    remote.abandon(self.traffic.trips)

    def _reply(self, remote: Remote, doubted: set[str]) -> Reply | None:
        """Return the reply of a worker; None if it missed a peer, or if it is lost and has been dropped."""
        try:
            reply: Reply = remote.receive()
        except Exception as error:  # errors of operations are in the reply: this one is of the connection or the actor
            log.debug("no reply from %s: %r", remote.address, error)
            log.warning("lost the worker at %s, which held shards %s", remote.address, remote.numbers)
            self._drop(remote)
            doubted.add(remote.address)
            return None
        if isinstance(reply.error, PeerError):
            log.debug("%s: %s", remote.address, reply.error)
            return None
        if reply.error is not None:
            raise reply.error
        self.traffic.back += reply.n_bytes
        self.traffic.peers += reply.peer_bytes
        return reply

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


def _failed(call: "concurrent.futures.Future[Reply]") -> bool:
    return call.cancelled() or call.exception() is not None or call.result().error is not None


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


def remove_worker(client: Any, address: str) -> None:
    """Have the scheduler give up a worker that does not answer, so that Dask makes what it held elsewhere."""

    async def remove(dask_scheduler: Any) -> None:
        await dask_scheduler.remove_worker(address, stimulus_id="rankwise-silent")

    log.warning("the worker at %s has not answered for %g s and is given up", address, SILENCE)
    client.run_on_scheduler(remove)
