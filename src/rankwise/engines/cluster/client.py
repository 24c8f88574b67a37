"""The engine whose shards live in the workers of a Dask cluster, and outlive them."""

import concurrent.futures
import logging
import time
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._errors import ClusterError, SettingError
from ...losses import Loss
from ..base import STAY, Answers, Engine
from ..team import Team
from .distributed import distributed
from .lines import POLL, Line
from .messages import Reply, Told, Verb, each_array, ready, told
from .placement import deal
from .relay import Relay, line_from, reaches
from .worker import Holder

log = logging.getLogger("rankwise")

Array = NDArray[Any]
DOUBT = 5.0  # seconds after which a worker that did not answer is trusted again, if nobody else is there
PATIENCE = 60.0  # seconds to wait for a worker when none is left
REACH = 15.0  # seconds for the scheduler to answer
LOST = "The Dask scheduler does not answer, so the fit cannot go on; start a cluster and fit again."
TRIES = 20  # times that lost shards are made anew in one round


@dataclass
class Traffic:
    """Round trips between the client and all workers, and bytes of the arrays that went each way."""

    trips: int = 0
    out: int = 0
    back: int = 0


@dataclass(eq=False)
class Holding:
    """An actor in a worker, and the shards it holds."""

    address: str
    numbers: list[int]
    rows: list[slice]
    future: Any  # of Dask; the actor lives as long as it
    size: int  # what its shards take to go through, in observations
    line: Line | Relay | None = None  # how to talk to it, once it is there

    def take(self, array: Array) -> Array:
        """Lines of the rows that are held."""
        parts = [array[rows] for rows in self.rows]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


class Cluster(Engine):
    """Runs verbs on shards that are spread over workers.

    One actor for each worker holds a run of shards and joins their answers, so that a worker sends one piece and a
    few parts of a sum. Verbs that nobody waits for the answer of are kept and go out with the next one: a round trip
    is one message to every worker and one back. A worker that is lost takes its shards along; they are made anew by
    their load tasks on the workers that are there, told what the others know (`recover`), and asked again, which
    changes no bit.

    Parameters
    ----------
    client : distributed.Client
    loads : sequence of Future
        One for every shard, of its `Piece`; Dask computes it again where it was lost.
    cuts : ndarray of shape (n_shards + 1,)
        Rows at which the shards begin, and the number of rows.
    sizes : sequence of int
        What every shard takes to go through, in observations.
    loss : Loss
    dtype : dtype
    n_jobs : int, default=1
        Threads of the client, for what it does between round trips.
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
        self.n_jobs, self.team, self.rounds = n_jobs, Team(n_jobs), 0
        self.traffic = Traffic()
        self.holdings: list[Holding] = []
        self._queue: list[Verb] = []
        self._direct: bool | None = None  # whether workers are in reach; found out with the first of them
        self._lined = True  # whether lines can be had, as far as is known

    def ask(self, join: str, verb: str, args: tuple[Any, ...]) -> Answers:
        """One round: the verb on every shard; a round trip, unless the answers stay where they are."""
        self.rounds += 1
        if join == STAY:
            self._queue.append((verb, each_array(args, np.copy)))  # who asked may change them before they go out
            return Answers(join)
        try:
            found = self._trip(join, [*self._queue, (verb, args)])
        except BaseException:
            self.close()
            raise
        self._queue.clear()
        return found

    def close(self) -> None:
        """Let the shards go; a later verb makes them anew."""
        for holding in list(self.holdings):
            self._drop(holding)
        self._queue.clear()
        self.team.close()

    def _trip(self, join: str, verbs: list[Verb]) -> Answers:
        """Tell every worker, then those that take over from the lost, until all shards have answered."""
        self.traffic.trips += 1
        found, doubted = Answers(join), set[str]()
        replies: list[Reply] = []
        asked, past = list(self.holdings), list[Verb]()
        for _ in range(TRIES):
            replies += self._ask(asked, join, [*past, *verbs], doubted)
            lost = self._lost()
            if not lost:
                found.merge(reply.answers(join) for reply in replies)
                return found
            asked, past = self._hold(lost, doubted), list(self.recover())
        raise ClusterError(
            f"Workers were lost {TRIES} times while one question was asked (lately {', '.join(sorted(doubted))}); "
            "look at their logs: too little memory is the usual reason."
        )

    def _ask(self, asked: list[Holding], join: str, verbs: list[Verb], doubted: set[str]) -> list[Reply]:
        """Replies of those that answer; the others are dropped and doubted."""
        shared = ready(verbs)
        for holding in asked:
            self._tell(holding, told(join, shared, holding.take))
        replies = []
        for holding in asked:
            reply = self._hear(holding)
            if reply is None:
                self._drop(holding)
                doubted.add(holding.address)
                log.warning("lost the worker at %s, which held shards %s", holding.address, holding.numbers)
            elif reply.error is not None:
                raise reply.error
            else:
                self.traffic.back += reply.n_bytes
                replies.append(reply)
        return replies

    def _tell(self, holding: Holding, message: Told) -> None:
        self.traffic.out += message.n_bytes
        if holding.line is not None:
            holding.line.tell(message)

    def _hear(self, holding: Holding) -> Reply | None:
        """The reply, or None if there will be none: the connection broke, or the scheduler knows the worker is gone."""
        try:
            found: Reply | None = None if holding.line is None else holding.line.hear()
        except ClusterError:
            raise
        except Exception as error:  # the verbs' own errors are in the reply: this is the connection, or a lost actor
            log.debug("no reply from %s: %r", holding.address, error)
            return None
        return found

    def _wait(self, address: str) -> None:
        """Raise if nothing will come from there any more."""
        if address not in workers_of(self.client):
            raise ConnectionError(f"The worker at {address} is gone.")

    def _lost(self) -> list[int]:
        """Shards that nobody holds."""
        held = {number for holding in self.holdings for number in holding.numbers}
        return [number for number in range(len(self.loads)) if number not in held]

    def _drop(self, holding: Holding) -> None:
        if holding.line is not None:
            holding.line.close()
        holding.future.release()
        self.holdings.remove(holding)

    def _hold(self, numbers: list[int], doubted: set[str]) -> list[Holding]:
        """Have shards made by the workers that are there; what a worker lost meanwhile was to hold is left out."""
        threads = free_workers(self.client, doubted)
        held = {address: sum(each.size for each in self.holdings if each.address == address) for address in threads}
        dealt = deal(numbers, self.sizes, threads, held)
        making = [self._make(address, mine, threads[address]) for address, mine in dealt.items()]
        made = [holding for holding in making if self._made(holding)]
        self.holdings += made
        for holding in made:
            holding.line = self._line(holding)
        return made

    def _make(self, address: str, numbers: list[int], n_threads: int) -> Holding:
        """Start making an actor; Dask brings the pieces to the worker, or computes those that were lost again."""
        future = self.client.submit(
            Holder,
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
        return Holding(address, numbers, runs, future, sum(self.sizes[number] for number in numbers))

    def _made(self, holding: Holding) -> bool:
        """Whether the actor is there; False if its worker was lost first. What its load tasks raise is raised here."""
        future = holding.future
        while not future.done():
            try:
                future.exception(timeout=POLL)
            except TimeoutError:
                if holding.address not in workers_of(self.client):
                    break
        if future.status == "finished":
            return True
        error = future.exception() if future.status == "error" else None
        future.release()
        if error is None or holding.address not in workers_of(self.client):
            return False
        if isinstance(error, distributed().KilledWorker):
            raise ClusterError(f"Workers died while they loaded shards: {error}") from error
        raise error

    def _line(self, holding: Holding) -> Line | Relay | None:
        """The shortest way to the actor; None if its worker is lost already."""
        if self._direct is None:
            self._direct = reaches(self.client, holding.address)
        relay = Relay(
            self.client, holding.address, holding.future.key, self._direct, partial(self._wait, holding.address)
        )
        try:
            found = line_from(relay) if self._direct and self._lined else relay
        except ClusterError:
            raise
        except Exception as error:
            log.debug("no way to %s: %r", holding.address, error)
            return None
        self._lined = isinstance(found, Line)
        return found


def free_workers(client: Any, doubted: Collection[str] = ()) -> dict[str, int]:
    """Threads of the workers that can take shards, by address; waits for one if there is none."""
    start = time.monotonic()
    while True:
        workers, waited = workers_of(client), time.monotonic() - start
        free = {address: n for address, n in workers.items() if address not in doubted}
        if free or (workers and waited > DOUBT):
            return free or workers
        if waited > PATIENCE:
            raise ClusterError(
                f"No Dask worker is there, and none has come within {PATIENCE:g} s; start workers and fit again."
            )
        time.sleep(0.1)


def workers_of(client: Any) -> dict[str, int]:
    """Threads of each worker that the scheduler knows, by its address."""
    try:
        found: dict[str, int] = client.nthreads(callback_timeout=REACH)
    except Exception as error:
        raise ClusterError(LOST) from error
    return found


def collect(client: Any, futures: Sequence[Any]) -> list[Any]:
    """What the tasks found; an error of a task is raised as itself."""
    try:
        found: list[Any] = client.gather(list(futures))
    except concurrent.futures.CancelledError as error:
        if client.status != "running":
            raise ClusterError(LOST) from error
        raise ClusterError(f"Dask cancelled a task of reading the entries, see its scheduler's log: {error}") from error
    except OSError as error:
        if client.status != "running":
            raise ClusterError(LOST) from error
        raise  # of the task itself, such as a file that is not there
    return found


def client_of(client: Any) -> Any:
    """The client that is meant: the given one, or the one that this process has made last."""
    dask = distributed()
    if client is None:
        try:
            client = dask.default_client()
        except ValueError:
            raise SettingError(
                "No Dask client is there; make one with `dask.distributed.Client(...)` and give it as `client=`."
            ) from None
    if not isinstance(client, dask.Client) or client.asynchronous:
        raise SettingError(f"`client` must be a `dask.distributed.Client` that is not asynchronous, got {client!r}.")
    if client.status == "closed":
        raise SettingError("The Dask client is closed; make another with `dask.distributed.Client(...)`.")
    return client
