"""Engine whose shards are in the workers of a Dask cluster; shards of lost workers are built again elsewhere."""

import logging
import math
import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ..._arrays import Array
from ..._errors import ClusterError
from ...losses import Loss
from ..base import Results
from ..operations import AnyOperation, ArgsT, Join, Operation, ResultT
from ..shard import Shard
from ..threads import ThreadPool
from .kept import Kept, Key, LinesLost
from .messages import Answer, Message, Reply, copied, joined, layouts_in, shared_part, worker_part
from .owners import ShardOwners
from .peers import Exchange, PeerError
from .program import LateSums, Waiting, await_replies, link, program_of, run_program
from .remote import Remote

log = logging.getLogger("rankwise")

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


class Cluster(ShardOwners):
    """Runs operations on shards that are spread over workers.

    One actor per worker holds a run of shards and joins their results, so that a worker sends one piece and a few nodes
    of a sum. Operations whose results stay with the workers wait, and are sent together with the first one whose result
    is read: a round trip is one message to every worker and one back. The shards of a lost worker are built again by
    their load tasks on the other workers, brought to the state of the others (`recover`), and what was sent is run
    again, which changes no bit.

    Parameters
    ----------
    client, loads, cuts, sizes, loss, dtype
        As in `ShardOwners`.
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
        super().__init__(client, loads, cuts, sizes, loss, dtype)
        self.n_jobs, self.pool, self.rounds = n_jobs, ThreadPool(n_jobs), 0
        self.traffic = Traffic()
        self.queue: list[Waiting] = []
        self.linked: set[Cluster] = set()  # other engines whose waiting calls need lines of those here, or vice versa
        self.peers_reached = True  # whether workers have reached each other so far
        self._layout, self._told = 0, list[Remote]()  # number of changes of the peers, and those who know each other
        self._dropped: list[Key] = []  # lines that no handle refers to any more
        self._owner = os.getpid()

    def run(self, operation: Operation[ResultT, *ArgsT], *args: *ArgsT) -> ResultT:
        """Run an operation on every shard and return the joined result.

        What stays with the workers is returned as handles, and sums beside them when they are read.
        """
        if operation.kept is None:
            return super().run(operation, *args)
        call = self._add(operation, args)
        for handle in call.handles:
            weakref.finalize(handle, self._dropped.append, handle.key)
        kept: Any = call.handles[0] if len(call.handles) == 1 else call.handles
        return cast(ResultT, (kept, LateSums(call)) if operation.join is Join.BOTH else kept)

    def apply(self, operation: AnyOperation, args: tuple[Any, ...]) -> Results:
        """Run an operation on every shard, in one round trip, or queue it if its results stay in the shards."""
        call = self._add(operation, args)
        if operation.join is not Join.STAY:
            self.flush()
        return call.results or Results(operation.join)

    def flush(self) -> None:
        """Run what waits in this engine, and in others whose lines it needs, in one round trip."""
        program = program_of(self)
        if not program:
            return
        engines = {call.engine for call in program}
        self.traffic.trips += 1
        try:
            run_program(program)
        except LinesLost:  # the other workers go on with the shards that they have
            for engine in engines:
                engine.peers_reached = True
            raise
        except BaseException:
            for engine in engines:
                engine.close()
            raise
        finally:
            for engine in engines:
                engine.queue.clear()
                engine.linked.clear()

    def each(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """Call `work` with each item in the client's threads; return the results in order."""
        return self.pool.map(work, items)

    def close(self) -> None:
        """Release the shards and end the threads; the next operation builds them again."""
        for remote in list(self.remotes):
            self.drop(remote)
        self.queue.clear()
        self.linked.clear()
        self.pool.close()

    def kept(self, lines: Any) -> Any:
        """Return the handle of an array with a line per row, which the workers keep from now on."""
        return lines if isinstance(lines, Kept) else self.run(Shard.keep, lines)

    def fetch(self, kept: Kept, rows: Array | None = None) -> Array:
        """Return all lines, or those of some rows, of an array that the workers keep."""
        if kept.holders is None:
            self.flush()
        remotes = () if kept.holders is None else kept.holders.remotes
        if not remotes or not set(remotes) <= set(self.remotes):
            raise LinesLost("A worker was lost with the factors of its rows.")
        n = len(rows) if rows is not None else kept.shape[0]
        whole = np.zeros((n, *kept.shape[1:]), kept.dtype)
        places = {remote: remote.places(rows) for remote in remotes}
        for remote, (lines, _) in places.items():
            remote.ask("lines", [kept.key], -1, "", lines)
        await_replies(remotes)
        for remote, (_, at) in places.items():
            try:
                (lines,) = remote.receive()
            except Exception as error:
                self.drop(remote)
                raise LinesLost("A worker was lost with the factors of its rows.") from error
            if lines is not None:
                whole[at] = lines
                self.traffic.back += lines.nbytes
        return whole

    def send(self, calls: Sequence[Waiting], trip: int, peers: bool) -> None:
        """Send calls to all workers; to new ones, also those that bring them to the state of the others."""
        remotes, given = list(self.remotes), [(call.operation, call.args) for call in calls]
        n = len(remotes)
        shared = shared_part(given, PEER_BYTES / (n - 1) if peers and n > 1 else math.inf, pull=peers)
        layouts = layouts_in(given, shared)
        fresh = shared_part(list(self.recover()), pull=False) if any(remote.fresh for remote in remotes) else []
        numbers = [call.number if call.handles else None for call in calls]
        forget = tuple(self._dropped)
        del self._dropped[: len(forget)]
        for k, remote in enumerate(remotes):
            exchange = self._with_peers(remotes, k, trip) if peers else None
            past = worker_part(fresh, remote.take) if remote.fresh else []
            own = worker_part(shared, remote.take, (k, n) if peers else None)
            news = {layout: holders for layout, holders in layouts.items() if layout not in remote.layouts}
            remote.layouts |= set(news)
            self._send(remote, Message(past, own, numbers, exchange, forget, news))
        self._told = remotes if peers else self._told

    def replies(self, doubted: set[str]) -> list[Reply]:
        """Return the replies of the workers that have answered; drop lost ones and add them to `doubted`."""
        n = len(self.remotes)
        found = [reply for remote in list(self.remotes) if (reply := self._reply(remote, doubted)) is not None]
        if len(found) < n:
            self._told = []
        return found

    def joined(self, operation: AnyOperation, answers: Sequence[Answer]) -> Results:
        """Return the results of all workers."""
        return joined(answers, operation.join, len(self.loads))

    def _add(self, operation: AnyOperation, args: tuple[Any, ...]) -> Waiting:
        if self._owner != os.getpid():
            raise ClusterError(
                "A problem with entries on a cluster must be used by the process that made it, because a forked "
                "process has no Dask client; make a client and another `Problem` in this process."
            )
        self.rounds += 1
        waits = operation.join is Join.STAY or operation.kept is not None
        call = Waiting(self, operation, copied(args) if waits else args)  # the caller may change its arrays meanwhile
        self.queue.append(call)
        link(call)
        return call

    def _with_peers(self, remotes: list[Remote], own: int, trip: int) -> Exchange:
        """Return what a worker must know of its peers; their addresses only if they have changed."""
        changed = self._told != remotes
        self._layout += changed and own == 0
        peers = tuple((remote.address, remote.future.key) for remote in remotes) if changed else None
        return Exchange(trip, self._layout, own, PEER_BYTES, peers)

    def _send(self, remote: Remote, message: Message) -> None:
        self.traffic.out += message.n_bytes
        remote.send(message)

    def _reply(self, remote: Remote, doubted: set[str]) -> Reply | None:
        """Return the reply of a worker; None if it missed a peer, or if it is lost and has been dropped."""
        try:
            reply: Reply = remote.receive()
        except Exception as error:  # errors of operations are in the reply: this one is of the connection or the actor
            log.debug("no reply from %s: %r", remote.address, error)
            log.warning("lost the worker at %s, which held shards %s", remote.address, remote.numbers)
            self.drop(remote)
            doubted.add(remote.address)
            return None
        if isinstance(reply.error, PeerError):
            log.debug("%s: %s", remote.address, reply.error)
            return None
        if reply.error is not None:
            raise reply.error
        remote.fresh = False
        self.traffic.back += reply.n_bytes
        self.traffic.peers += reply.peer_bytes
        return reply
