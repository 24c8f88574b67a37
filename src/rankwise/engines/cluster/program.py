"""Operations that wait in the client, and the round trip that runs them: one message to every worker concerned.

Operations whose results stay with the workers wait until the client reads something that depends on them. All that
waits in an engine then goes to its workers in one message, and so does all that waits in other engines whose lines it
needs. Workers run their calls in order, and wait for lines of each other where a call needs them.
"""

import concurrent.futures
import itertools
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..._arrays import Array
from ..._errors import ClusterError
from ..base import Results
from ..operations import AnyOperation
from .kept import Kept, LinesLost
from .messages import Reply, arrays_in
from .owners import POLL
from .remote import Remote
from .scheduler import remove_worker, workers_of

if TYPE_CHECKING:
    from .client import Cluster

log = logging.getLogger("rankwise")

SILENCE = 30.0  # seconds after which a worker whose event loop does not answer is given up, while it works
MAX_REBUILDS = 20  # times that lost shards are built again for one round trip
_numbers, _trips = itertools.count(1), itertools.count(1)


class Waiting:
    """A call of an operation that was not sent yet, with handles of what workers will keep, and its results later."""

    def __init__(self, engine: "Cluster", operation: AnyOperation, args: tuple[Any, ...]) -> None:
        self.engine, self.operation, self.args = engine, operation, args
        self.number = next(_numbers)  # in the order in which operations were asked for
        self.results: Results | None = None
        lines = () if operation.kept is None else operation.kept(*args)
        self.handles = tuple(Kept(engine, (self.number, k), line) for k, line in enumerate(lines))

    def finish(self, results: Results) -> None:
        """Take the results and let go of everything else."""
        for handle in self.handles:
            handle.holders = self.engine.holders
        self.results, self.args, self.handles = results, (), ()


class LateSums:
    """Sums over the shards of an operation that waits; NumPy makes an array of them by running what waits."""

    def __init__(self, call: Waiting) -> None:
        self._call = call
        self._total: Array | None = None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self._call.results is None:
            self._call.engine.flush()
        if self._call.results is None:
            raise LinesLost("A worker was lost before the sums over its rows were known.")
        if self._total is None:
            self._total = self._call.results.tree.total()
        return self._total if dtype is None else self._total.astype(dtype, copy=False)


def link(call: Waiting) -> None:
    """Note that a call needs lines that still wait in other engines, so that all of it is sent together."""
    for array in arrays_in([(call.operation, call.args)]):
        if isinstance(array, Kept) and array.holders is None and array.engine is not call.engine:
            array.engine.linked.add(call.engine)
            call.engine.linked.add(array.engine)


def program_of(engine: "Cluster") -> list[Waiting]:
    """Return the calls that wait in an engine and in all that are linked to it, in the order of their numbers."""
    engines = [engine]
    for each in engines:
        engines += [other for other in each.linked if other not in engines]
    return sorted((call for each in engines for call in each.queue), key=lambda call: call.number)


def run_program(program: Sequence[Waiting]) -> None:
    """Run the calls in one round trip, again if workers are lost meanwhile; repeated calls change no bit.

    If workers do not reach each other, the client runs the calls one by one and sends all arrays itself.
    """
    engines = list(dict.fromkeys(call.engine for call in program))
    doubted = set[str]()
    for _ in range(MAX_REBUILDS):
        for engine in engines:
            engine.build(doubted)
        if any(engine.lost() for engine in engines):
            continue
        if not all(engine.peers_reached for engine in engines):
            if all(_run([call], False, doubted) for call in program if call.results is None):
                return
        elif _run(program, True, doubted):
            return
        elif not any(engine.lost() for engine in engines):
            log.warning("workers cannot reach each other; the client sends all arrays, which is slower")
            for engine in engines:
                engine.peers_reached = False
    raise ClusterError(
        f"Workers were lost {MAX_REBUILDS} times during one operation (last {', '.join(sorted(doubted))}); "
        "check their logs: too little memory is the usual reason."
    )


def _run(program: Sequence[Waiting], peers: bool, doubted: set[str]) -> bool:
    """Run the calls and return whether all workers have answered; drop lost ones and add them to `doubted`."""
    calls: dict[Cluster, list[Waiting]] = {}
    for call in program:
        calls.setdefault(call.engine, []).append(call)
    trip = next(_trips)
    for engine, own in calls.items():
        engine.send(own, trip, peers)
    await_replies([remote for engine in calls for remote in engine.remotes], trip if peers else None)
    replies = {engine: engine.replies(doubted) for engine in calls}
    if any(len(found) < len(engine.remotes) or engine.lost() for engine, found in replies.items()):
        return False
    for engine, own in calls.items():
        for k, call in enumerate(own):
            call.finish(engine.joined(call.operation, [reply.answers[k] for reply in replies[engine]]))
    return True


def await_replies(remotes: Sequence[Remote], trip: int | None = None) -> None:
    """Wait until every worker has answered, its connection broke, it fell silent, or the scheduler lost it.

    If one has failed, the others stop waiting for peers in this trip.
    """
    waiting = {remote.call: remote for remote in remotes if remote.call is not None}
    while waiting:
        done, _ = concurrent.futures.wait(waiting, POLL, concurrent.futures.FIRST_COMPLETED)
        if not done:
            client = next(iter(waiting.values())).client
            for address in {remote.address for remote in waiting.values() if remote.seconds_silent() > SILENCE}:
                remove_worker(client, address, SILENCE)
            known = workers_of(client)
            done = {call for call, remote in waiting.items() if remote.address not in known and call.cancel()}
        for call in done:
            del waiting[call]
        if trip is not None and any(map(_failed, done)):
            for remote in waiting.values():
                remote.abandon(trip)


def _failed(call: "concurrent.futures.Future[Reply]") -> bool:
    return call.cancelled() or call.exception() is not None or call.result().error is not None
