"""The default engine: shards in memory, verbs run on a pool of threads, answers joined in shard order."""

import itertools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import joblib
import numpy as np
from joblib.parallel import get_active_backend
from numpy.typing import NDArray

from .._checks import is_whole
from .._errors import DataError, SettingError
from ..losses import Loss
from ..observations import Observations
from .buffers import Buffers
from .shard import Shard

Join = Callable[[int, Any], None]


def usable_cores(n_jobs: int | None = None) -> int:
    """Threads to use: `n_jobs`, or all usable cores for None and -1; one inside a joblib worker."""
    if n_jobs is not None and (not is_whole(n_jobs) or n_jobs == 0):
        raise SettingError(f"`n_jobs` must be None or a non-zero integer, got {n_jobs!r}.")
    if n_jobs is not None and n_jobs > 0:
        return int(n_jobs)
    if getattr(get_active_backend()[0], "nesting_level", 0):  # a joblib worker: its siblings use the other cores
        return 1
    return int(joblib.effective_n_jobs(-1 if n_jobs is None else n_jobs))


class Threads:
    """Runs a verb on every shard. Results do not depend on `n_jobs`.

    Workers take shards in order; whoever completes the next one in order joins it, so sums fold in shard order with
    at most ``n_jobs + 2`` answers waiting. The pool starts with the first verb and ends with `close`.
    """

    def __init__(self, shards: Sequence[Shard], n_jobs: int | None = None) -> None:
        self.shards = shards
        self.n_jobs = min(usable_cores(n_jobs), len(shards))
        self._pool: ThreadPoolExecutor | None = None
        self.rounds = 0  # verbs run so far
        self.buffers = Buffers()
        for shard in shards:
            shard.buffers = self.buffers

    @classmethod
    def over(cls, observations: Observations, loss: Loss, dtype: Any, n_jobs: int | None = None) -> "Threads":
        """The shards of these observations; refuses targets that the loss or the number type cannot take."""
        loss.check_targets(observations.targets)
        _check_range(observations, np.dtype(dtype))
        cuts = pairwise(observations.cuts().tolist())
        return cls([Shard(observations, loss, *rows, dtype) for rows in cuts], n_jobs)

    def run(self, verb: str, *args: Any) -> None:
        """Verbs whose answers stay in the shards."""
        self._each(verb, args, lambda index, answer: None)

    def sum(self, verb: str, *args: Any) -> NDArray[np.float64]:
        """Verbs whose answers add up, in shard order."""
        total = _Sum(self.buffers)
        self._each(verb, args, total.join)
        return total.found

    def concatenate(self, verb: str, *args: Any) -> NDArray[np.float64]:
        """Verbs whose answers are pieces, one per shard."""
        pieces: list[Any] = []
        self._each(verb, args, lambda index, answer: pieces.append(answer))
        return np.concatenate(pieces)

    def concatenate_and_sum(self, verb: str, *args: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Verbs that answer with a piece and a term of a sum."""
        pieces: list[Any] = []
        total = _Sum(self.buffers)

        def join(index: int, answer: Any) -> None:
            pieces.append(answer[0])
            total.join(index, answer[1])

        self._each(verb, args, join)
        return np.concatenate(pieces), total.found

    def close(self) -> None:
        """End the threads and drop the buffers; a later verb starts them again."""
        self.buffers.clear()
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _each(self, verb: str, args: tuple[Any, ...], join: Join) -> None:
        self.rounds += 1
        if self.n_jobs == 1:
            for index, shard in enumerate(self.shards):
                join(index, getattr(shard, verb)(*args))
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.n_jobs - 1, thread_name_prefix="rankwise")
        round_ = _Round(self.shards, verb, args, join, lookahead=self.n_jobs + 2)
        helpers = [self._pool.submit(round_.work) for _ in range(self.n_jobs - 1)]
        round_.work()
        for helper in helpers:
            helper.result()
        if round_.error is not None:
            raise round_.error


class _Sum:
    """Adds answers up as they come, and gives their memory back."""

    def __init__(self, buffers: Buffers) -> None:
        self.buffers = buffers
        self.found: Any = None

    def join(self, index: int, answer: NDArray[np.float64]) -> None:
        """Add the next answer."""
        if index == 0:
            self.found = answer
        else:
            with np.errstate(invalid="ignore"):  # f may be infinite where a line search looks
                np.add(self.found, answer, out=self.found)
            self.buffers.give_back(answer)


class _Round:
    """One verb on all shards: what is taken, what waits to be joined."""

    def __init__(self, shards: Sequence[Shard], verb: str, args: tuple[Any, ...], join: Join, lookahead: int) -> None:
        self.shards, self.verb, self.args, self.join, self.lookahead = shards, verb, args, join, lookahead
        self.numbers = itertools.count()
        self.joined = 0
        self.waiting: dict[int, Any] = {}
        self.turn = threading.Condition()
        self.error: BaseException | None = None

    def work(self) -> None:
        """Take the next shard, run the verb, join what is next in order; until none is left."""
        try:
            while (index := next(self.numbers)) < len(self.shards) and self.error is None:
                with self.turn:
                    while index >= self.joined + self.lookahead and self.error is None:
                        self.turn.wait()
                answer = getattr(self.shards[index], self.verb)(*self.args)
                with self.turn:
                    self.waiting[index] = answer
                    self._join_ready()
        except BaseException as error:
            with self.turn:
                self.error = self.error or error
                self.turn.notify_all()

    def _join_ready(self) -> None:
        while self.joined in self.waiting:
            self.join(self.joined, self.waiting.pop(self.joined))
            self.joined += 1
        self.turn.notify_all()


def _check_range(observations: Observations, dtype: np.dtype[Any]) -> None:
    largest = float(np.abs(observations.targets).max())
    if largest > 1e-3 * float(np.finfo(dtype).max) ** 0.5:
        raise DataError(
            f"The largest target, {largest:g}, is too large to be squared in {dtype}; "
            "divide the targets by a constant, or use dtype=float64."
        )
