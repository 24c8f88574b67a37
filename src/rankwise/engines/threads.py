"""The default engine: shards in memory or on disk, verbs run on a pool of threads, answers joined in shard order."""

import itertools
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import joblib
from joblib.parallel import get_active_backend

from .._checks import is_whole
from .._errors import SettingError
from .base import Answers, Engine
from .buffers import Buffers
from .shard import Shard
from .team import Team

Join = Callable[[int, Any], None]
WORTH = 1.5e-4  # seconds of work for each thread of a round: less is done by others before one more is awake


def usable_cores(n_jobs: int | None = None) -> int:
    """Threads to use: `n_jobs`, or all usable cores for None and -1; one inside a joblib worker."""
    if n_jobs is not None and (not is_whole(n_jobs) or n_jobs == 0):
        raise SettingError(f"`n_jobs` must be None or a non-zero integer, got {n_jobs!r}.")
    if n_jobs is not None and n_jobs > 0:
        return int(n_jobs)
    if getattr(get_active_backend()[0], "nesting_level", 0):  # a joblib worker: its siblings use the other cores
        return 1
    return int(joblib.effective_n_jobs(-1 if n_jobs is None else n_jobs))


class Threads(Engine):
    """Runs a verb on every shard. Results do not depend on `n_jobs`.

    Workers take shards in order; whoever completes the next one in order joins it, so sums fold in one order, see
    `Fold`, with at most ``n_jobs + 2`` answers waiting and one partial sum per doubling of the shards. The pool starts
    with the first verb and ends with `close`. A verb that took its last round little time is left to fewer workers.
    """

    def __init__(
        self, shards: Sequence[Shard], n_jobs: int | None = None, numbers: Sequence[int] | None = None
    ) -> None:
        self.shards = shards
        self.numbers = range(len(shards)) if numbers is None else numbers  # of the shards, among all there are
        self.n_jobs = min(usable_cores(n_jobs), len(shards))
        self.team = Team(self.n_jobs)
        self.rounds = 0
        self.busy: dict[str, float] = {}  # seconds that a verb's last round took the processors
        self.buffers = Buffers()
        for shard in shards:
            shard.buffers = self.buffers

    def ask(self, join: str, verb: str, args: tuple[Any, ...]) -> Answers:
        """One round: the verb on every shard."""
        answers = Answers(join, self.buffers)
        self._each(verb, args, lambda index, answer: answers.take(self.numbers[index], answer))
        return answers

    def close(self) -> None:
        """End the threads, drop the buffers and forget how long verbs took; a later verb starts them again."""
        self.buffers.clear()
        self.busy.clear()
        self.team.close()

    def _each(self, verb: str, args: tuple[Any, ...], join: Join) -> None:
        self.rounds += 1
        round_ = _Round(self.shards, verb, args, join, lookahead=self.n_jobs + 2)
        worth = self.busy.get(verb, math.inf) / WORTH
        self.team.together(round_.work, max(1, int(min(self.n_jobs, worth))))
        if round_.error is not None:
            raise round_.error
        self.busy[verb] = round_.busy


class _Round:
    """One verb on all shards: what is taken, what waits to be joined."""

    def __init__(self, shards: Sequence[Shard], verb: str, args: tuple[Any, ...], join: Join, lookahead: int) -> None:
        self.shards, self.verb, self.args, self.join, self.lookahead = shards, verb, args, join, lookahead
        self.numbers = itertools.count()
        self.joined = 0
        self.waiting: dict[int, Any] = {}
        self.turn = threading.Condition()
        self.error: BaseException | None = None
        self.busy = 0.0

    def work(self) -> None:
        """Take the next shard, run the verb, join what is next in order; until none is left."""
        began = time.thread_time()  # what waits for a lock is not busy
        try:
            while (index := next(self.numbers)) < len(self.shards) and self.error is None:
                with self.turn:
                    while index >= self.joined + self.lookahead and self.error is None:
                        self.turn.wait()
                answer = self.shards[index].answer(self.verb, self.args)
                with self.turn:
                    self.waiting[index] = answer
                    self._join_ready()
            with self.turn:
                self.busy += time.thread_time() - began
        except BaseException as error:
            with self.turn:
                self.error = self.error or error
                self.turn.notify_all()

    def _join_ready(self) -> None:
        while self.joined in self.waiting:
            self.join(self.joined, self.waiting.pop(self.joined))
            self.joined += 1
        self.turn.notify_all()
