"""The ways from a client to the shards that a Dask worker holds: a line of their own, or Dask's messages."""

import asyncio
import concurrent.futures
import logging
from typing import Any

from .distributed import distributed
from .lines import POLL, Door, Line, Wait

log = logging.getLogger("rankwise")

REACH = 5.0  # seconds for a worker to answer


class Relay:
    """Questions to an actor in Dask's own messages.

    Parameters
    ----------
    client : distributed.Client
    address : str
        Of the worker.
    key : str
        Of the actor.
    direct : bool
        Whether they go straight to the worker; the scheduler passes them on if not.
    wait : callable
        Called each second while nothing comes; raises if nothing will.
    """

    def __init__(self, client: Any, address: str, key: str, direct: bool, wait: Wait) -> None:
        self.client, self.address, self.key, self.direct, self.wait = client, address, key, direct, wait
        self.call: concurrent.futures.Future[Any] | None = None

    def tell(self, *message: Any, function: str = "ask") -> None:
        """Ask something; what goes wrong is for `hear` to say."""
        called = self._call(function, message)
        self.call = asyncio.run_coroutine_threadsafe(called, self.client.loop.asyncio_loop)

    def hear(self) -> Any:
        """The answer."""
        if self.call is None:
            raise ConnectionError("Nothing was asked.")
        try:
            while not concurrent.futures.wait([self.call], POLL).done:
                self.wait()
            return self.call.result()
        finally:
            self.close()

    def close(self) -> None:
        """Wait for nothing any more."""
        if self.call is not None:
            self.call.cancel()
            self.call = None

    async def _call(self, function: str, message: tuple[Any, ...]) -> Any:
        """A call of an actor's method that ends whatever goes wrong."""
        worker = self.client.rpc(self.address)
        if not self.direct:
            worker = distributed().actor.ProxyRPC(self.client.scheduler, self.address)
        wrapped = [distributed().protocol.to_serialize(part) for part in message]
        found = await worker.actor_execute(function=function, actor=self.key, args=wrapped, kwargs={})
        if found["status"] != "OK":
            raise found["exception"]
        return found["result"]


def line_from(relay: Relay) -> Line | Relay:
    """A line to where the relay leads, or the relay itself if there can be none."""
    relay.tell(function="listen")
    try:
        door: Door | None = relay.hear()
        if door is None:
            return relay
        host = distributed().comm.get_address_host(relay.address)
        return Line(host, door, _context(relay.client, relay.address), relay.wait)
    except OSError as error:
        log.info("no line to %s, so Dask's own messages are used, which take longer: %r", relay.address, error)
        return relay


def reaches(client: Any, address: str) -> bool:
    """Whether this client can talk to workers itself; if not, the scheduler passes messages on."""

    async def reach() -> None:
        await asyncio.wait_for(client.rpc(address).identity(), REACH)

    try:
        client.sync(reach)
    except Exception:
        log.warning("workers cannot be reached directly: the scheduler passes all messages on, which takes longer")
        return False
    return True


def _context(client: Any, address: str) -> Any:
    """Of the client's own keys, if the worker wants any."""
    return client.security.get_connection_args("client")["ssl_context"] if address.startswith("tls://") else None
