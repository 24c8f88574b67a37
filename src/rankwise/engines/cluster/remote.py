"""Actor in a Dask worker as its client sees it: the shards in it, and calls of its methods by Dask's messages."""

import asyncio
import concurrent.futures
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._arrays import Array
from .distributed import distributed

log = logging.getLogger("rankwise")

POLL = 1.0  # seconds between checks whether the worker still exists, while waiting
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

    def take(self, array: Array) -> Array:
        """Return the lines of this worker's rows."""
        parts = [array[rows] for rows in self.rows]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def send(self, message: Any) -> None:
        """Call the actor's method `handle`; `receive` raises if this fails."""
        self.call = asyncio.run_coroutine_threadsafe(self._handle(message), self.client.loop.asyncio_loop)

    def receive(self, wait: Callable[[str], None]) -> Any:
        """Return the reply; `wait` is called with the address each second without one, and raises to give up."""
        if self.call is None:
            raise ConnectionError("No message was sent.")
        try:
            while not concurrent.futures.wait([self.call], POLL).done:
                wait(self.address)
            return self.call.result()
        finally:
            self.cancel()

    def cancel(self) -> None:
        """Cancel the call."""
        if self.call is not None:
            self.call.cancel()
            self.call = None

    async def _handle(self, message: Any) -> Any:
        worker = self.client.rpc(self.address)
        if not self.direct:
            worker = distributed().actor.ProxyRPC(self.client.scheduler, self.address)
        args = [distributed().protocol.to_serialize(message)]
        reply = await worker.actor_execute(function="handle", actor=self.future.key, args=args, kwargs={})
        if reply["status"] != "OK":
            raise reply["exception"]
        return reply["result"]


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
