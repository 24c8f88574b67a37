"""Actor in a Dask worker as its client sees it: the shards in it, and calls of its methods by Dask's messages."""

import asyncio
import concurrent.futures
import logging
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..._arrays import Array
from .distributed import call_actor, distributed

log = logging.getLogger("rankwise")

REACH_TIMEOUT = 5.0  # seconds for a worker to answer the first message


@dataclass(eq=False)
class Remote:
    """An actor in a worker, the shards in it, and the call that it is working on.

    Connections, their keep-alive probes and time limits, encryption and the serialization of arrays are Dask's.
    """

    client: Any
    address: str
    numbers: list[int]
    rows: list[slice]
    future: Any  # of Dask; the actor lives as long as it
    size: int  # cost of its shards, in observations
    direct: bool = True  # whether messages go to the worker itself; otherwise the scheduler forwards them
    call: "concurrent.futures.Future[Any] | None" = None
    layouts: set[int] = field(default_factory=set)  # of other engines that the worker knows
    fresh: bool = True  # whether its shards are still to be brought to the state of the others
    _question: "concurrent.futures.Future[Any] | None" = None
    _asked: float = 0.0

    def take(self, array: Any) -> Any:
        """Return the lines of this worker's rows; what stands for them if the worker keeps them."""
        if not isinstance(array, np.ndarray):
            return array.of(self)
        parts = [array[rows] for rows in self.rows]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def places(self, rows: Array | None) -> tuple[Any, Any]:
        """Return the worker's lines of some rows, or of all that it has, and their places among the rows."""
        own = np.concatenate([np.arange(each.start, each.stop) for each in self.rows])
        if rows is None:
            return slice(None), own
        order = np.argsort(own)
        at = np.searchsorted(own[order], rows)
        found = np.flatnonzero(own[order][np.minimum(at, own.size - 1)] == rows)
        return order[at[found]], found

    def send(self, message: Any) -> None:
        """Call the actor's method `handle`; `receive` raises if this fails."""
        self.ask("handle", message)

    def ask(self, function: str, *args: Any) -> None:
        """Call a method of the actor; `receive` raises if this fails."""
        self.call = self._start(function, *args)

    def receive(self) -> Any:
        """Return the reply."""
        if self.call is None:
            raise ConnectionError("No message was sent.")
        try:
            return self.call.result()
        finally:
            self.call = None

    def seconds_silent(self) -> float:
        """Return for how long the worker has left a question whether it is alive unanswered; ask it if none is open."""
        now = time.monotonic()
        if self._question is None or self._question.done():
            self._question, self._asked = self._start("alive"), now
        return now - self._asked

    def cancel(self) -> None:
        """Cancel the call."""
        if self.call is not None:
            self.call.cancel()

    def abandon(self, trip: int) -> None:
        """Have the worker stop waiting for its peers; there is no reply."""
        self._start("abandon", trip)

    def _start(self, function: str, *args: Any) -> "concurrent.futures.Future[Any]":
        return asyncio.run_coroutine_threadsafe(self._execute(function, args), self.client.loop.asyncio_loop)

    async def _execute(self, function: str, args: tuple[Any, ...]) -> Any:
        worker = self.client.rpc(self.address)
        if not self.direct:
            worker = distributed().actor.ProxyRPC(self.client.scheduler, self.address)
        return await call_actor(worker, self.future.key, function, args)


def reaches(client: Any, address: str) -> bool:
    """Return whether this client can connect to workers; otherwise the scheduler forwards messages."""

    async def reach() -> None:
        await asyncio.wait_for(client.rpc(address).identity(), REACH_TIMEOUT)

    try:
        client.sync(reach)
    except Exception:
        log.warning("workers cannot be reached directly; the scheduler forwards all messages, which is slower")
        return False
    return True
