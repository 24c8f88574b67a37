"""Engine that runs operations on shards in memory or on disk, in a pool of threads."""

import itertools
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import joblib
from joblib.parallel import get_active_backend

from .._checks import is_whole
from .._errors import SettingError
from .base import Buffers, Engine, Results
from .operations import AnyOperation

WORTH = 1e-4  # seconds of work per thread: with less, waking another thread gains little


def usable_cores(n_jobs: int | None = -1) -> int:
    """Return the number of threads to use.

    Parameters
    ----------
    n_jobs : int or None, default=-1
        A positive number is taken as it is. -1 means all usable cores, -2 all but one and so on, but one inside a
        joblib worker, whose siblings use the other cores. None means 1 outside a joblib context, and the number of jobs
        of the context inside one, as in scikit-learn.
    """
    if n_jobs is not None and (not is_whole(n_jobs) or n_jobs == 0):
        raise SettingError(f"`n_jobs` must be None or a non-zero integer, got {n_jobs!r}.")
    if n_jobs is not None and n_jobs > 0:
        return int(n_jobs)
    if n_jobs is not None and get_active_backend()[0].nesting_level:
        return 1
    return int(joblib.effective_n_jobs(n_jobs))


class ThreadPool:
    """Up to `n_jobs` threads, the calling one among them; started when first needed, ended by `close`.

    A forked process, which inherits no threads, starts its own.
    """

    def __init__(self, n_jobs: int = 1) -> None:
        self.n_jobs = n_jobs
        self._pool: ThreadPoolExecutor | None = None
        self._owner = 0  # process that started the threads

    def run(self, work: Callable[[], None], n: int) -> None:
        """Call `work` in `n` threads at once and wait for all of them."""
        if self._owner != os.getpid():
            self._pool = None
        if self._pool is None and n > 1:
            self._pool = ThreadPoolExecutor(self.n_jobs - 1, thread_name_prefix="rankwise")
            self._owner = os.getpid()
        helpers = [self._pool.submit(work) for _ in range(n - 1)] if self._pool is not None else []
        try:
            work()
        finally:
            for helper in helpers:
                helper.result()

    def map(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """Call `work` with each item, taken in order, and return the results."""
        results: list[Any] = [None] * len(items)
        numbers = itertools.count()

        def some() -> None:
            while (index := next(numbers)) < len(items):
                results[index] = work(items[index])

        self.run(some, max(1, min(self.n_jobs, len(items))))
        return results

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None and self._owner == os.getpid():
            self._pool.shutdown()
        self._pool = None


class ShardLike(Protocol):
    """A shard, in memory or on disk."""

    buffers: Buffers
    n_blocks: int

    def parts(self, operation: AnyOperation) -> Sequence["ShardLike"]:
        """Return the parts of this shard that threads may share under an operation."""

    def run(self, operation: AnyOperation, args: tuple[Any, ...]) -> Any:
        """Return the result of an operation on this shard."""


class Threads(Engine):
    """Runs operations on shards in threads. Results do not depend on `n_jobs`.

    Threads take shards, or blocks of shards, in order; the one that completes the next in order adds its result, so
    sums are made along one tree, see `TreeSum`. At most ``n_jobs + 2`` results wait, and one partial sum per doubling
    of the shards. The pool starts with the first operation and ends with `close`. An operation whose last round was
    short runs on fewer threads.

    Parameters
    ----------
    shards : sequence of Shard or StoredShard
    n_jobs : int or None, default=-1
        See `usable_cores`.
    numbers : sequence of int, optional
        Numbers of the shards among all shards of the matrix, if these are not all.
    """

    def __init__(
        self, shards: Sequence[ShardLike], n_jobs: int | None = -1, numbers: Sequence[int] | None = None
    ) -> None:
        self.shards = shards
        self.numbers = range(len(shards)) if numbers is None else numbers
        self.n_jobs = min(usable_cores(n_jobs), sum(shard.n_blocks for shard in shards))
        self.pool = ThreadPool(self.n_jobs)
        self.rounds = 0
        self.busy: dict[AnyOperation, float] = {}  # processor seconds of each operation's last round
        self.buffers = Buffers()
        for shard in shards:
            shard.buffers = self.buffers

    def apply(self, operation: AnyOperation, args: tuple[Any, ...]) -> Results:
        """Run an operation on every shard and return the results before they are joined."""
        self.rounds += 1
        results = Results(operation.join, self.buffers)
        numbered = zip(self.numbers, (shard.parts(operation) for shard in self.shards), strict=True)
        parts = [_Part(one, number, one is of_shard[-1]) for number, of_shard in numbered for one in of_shard]
        round_ = _Round(parts, self.n_jobs + 2, operation, operation.prepared(args), results)
        worth = self.busy.get(operation, math.inf) / WORTH
        self.pool.run(round_.work, max(1, int(min(self.n_jobs, len(parts), worth))))
        if round_.error is not None:
            raise round_.error
        self.busy[operation] = round_.busy
        return results

    def each(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """Call `work` with each item in the threads; return the results in order."""
        return self.pool.map(work, items)

    def close(self) -> None:
        """End the threads, free the buffers and forget how long operations took."""
        self.buffers.clear()
        self.busy.clear()
        self.pool.close()


class _Part(NamedTuple):
    """A shard or one of its blocks, which one thread takes."""

    shard: ShardLike
    number: int  # of the shard
    last: bool  # of its shard


class _Round:
    """One operation on all shards: which parts are taken, and which results wait for earlier ones."""

    def __init__(
        self, parts: Sequence[_Part], lookahead: int, operation: AnyOperation, args: tuple[Any, ...], results: Results
    ) -> None:
        self.parts, self.lookahead = parts, lookahead
        self.operation, self.args, self.results = operation, args, results
        self.taken = itertools.count()
        self.joined = 0
        self.waiting: dict[int, Any] = {}
        self.blocks: list[Any] = []  # results of the first blocks of the next shard
        self.turn = threading.Condition()
        self.error: BaseException | None = None
        self.busy = 0.0

    def work(self) -> None:
        """Take the next part, run the operation, add the results that are next in order; until none is left."""
        began = time.thread_time()  # waiting for a lock does not count
        try:
            while (index := next(self.taken)) < len(self.parts) and self.error is None:
                with self.turn:
                    while index >= self.joined + self.lookahead and self.error is None:
                        self.turn.wait()
                result = self.parts[index].shard.run(self.operation, self.args)
                with self.turn:
                    self.waiting[index] = result
                    self._add_ready()
            with self.turn:
                self.busy += time.thread_time() - began
        except BaseException as error:
            with self.turn:
                self.error = self.error or error
                self.turn.notify_all()

    def _add_ready(self) -> None:
        while self.joined in self.waiting:
            part = self.parts[self.joined]
            self.blocks.append(self.waiting.pop(self.joined))
            if part.last:
                self.results.add(part.number, *self.blocks)
                self.blocks = []
            self.joined += 1
        self.turn.notify_all()
