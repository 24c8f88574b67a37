"""Some threads that work together, this one among them."""

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class Team:
    """Up to so many threads; they start with the first work for more than one and end with `close`."""

    def __init__(self, n_jobs: int = 1) -> None:
        self.n_jobs = n_jobs
        self._pool: ThreadPoolExecutor | None = None

    def together(self, work: Callable[[], None], n: int) -> None:
        """The same work in n threads at once."""
        if self._pool is None and n > 1:
            self._pool = ThreadPoolExecutor(self.n_jobs - 1, thread_name_prefix="rankwise")
        helpers = [self._pool.submit(work) for _ in range(n - 1)] if self._pool is not None else []
        try:
            work()
        finally:
            for helper in helpers:
                helper.result()

    def each(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """Some work for each of some items, which are taken in order."""
        found: list[Any] = [None] * len(items)
        numbers = itertools.count()

        def some() -> None:
            while (index := next(numbers)) < len(items):
                found[index] = work(items[index])

        self.together(some, max(1, min(self.n_jobs, len(items))))
        return found

    def close(self) -> None:
        """End the threads; a later work starts them again."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
