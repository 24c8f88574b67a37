"""Connections from a client to the shards in a Dask worker: one of their own, or Dask's messages."""

import asyncio
import concurrent.futures
import logging
from typing import Any

from .distributed import distributed
from .lines import POLL, Door, Line, Wait

log = logging.getLogger("rankwise")

REPLY_TIMEOUT = 5.0  # seconds for a worker to reply


class Relay:
    """Connection to an actor by Dask's own messages.

    Parameters
    ----------
    client : distributed.Client
    address : str
        Address of the worker.
    key : str
        Key of the actor.
    direct : bool
        Whether messages go directly to the worker; otherwise the scheduler forwards them.
    wait : callable
        Called each second without a reply; raises if there will be none.
    """

    def __init__(self, client: Any, address: str, key: str, direct: bool, wait: Wait) -> None:
        self.client, self.address, self.key, self.direct, self.wait = client, address, key, direct, wait
        self.call: concurrent.futures.Future[Any] | None = None

    def send(self, *message: Any, function: str = "handle") -> None:
        """Call a method of the actor; `receive` raises if this fails."""
        coroutine = self._call(function, message)
        self.call = asyncio.run_coroutine_threadsafe(coroutine, self.client.loop.asyncio_loop)

    def receive(self) -> Any:
        """Return the reply."""
        if self.call is None:
            raise ConnectionError("No message was sent.")
        try:
            while not concurrent.futures.wait([self.call], POLL).done:
                self.wait()
            return self.call.result()
        finally:
            self.close()

    def close(self) -> None:
        """Cancel the call."""
        if self.call is not None:
            self.call.cancel()
            self.call = None

    async def _call(self, function: str, message: tuple[Any, ...]) -> Any:
        """Call a method of the actor; raises whatever goes wrong."""
        worker = self.client.rpc(self.address)
        if not self.direct:
            worker = distributed().actor.ProxyRPC(self.client.scheduler, self.address)
        wrapped = [distributed().protocol.to_serialize(part) for part in message]
        reply = await worker.actor_execute(function=function, actor=self.key, args=wrapped, kwargs={})
        if reply["status"] != "OK":
            raise reply["exception"]
        return reply["result"]


def line_from(relay: Relay) -> Line | Relay:
    """Return a direct connection to the relay's actor, or the relay if that fails."""
    relay.send(function="listen")
    try:
        door: Door | None = relay.receive()
        if door is None:
            return relay
        host = distributed().comm.get_address_host(relay.address)
        return Line(host, door, _context(relay.client, relay.address), relay.wait)
    except OSError as error:
        log.info("no direct connection to %s; using Dask's messages, which are slower: %r", relay.address, error)
        return relay


def reaches(client: Any, address: str) -> bool:
    """Return whether this client can connect to workers; otherwise the scheduler forwards messages."""

    async def reach() -> None:
        await asyncio.wait_for(client.rpc(address).identity(), REPLY_TIMEOUT)

    try:
        client.sync(reach)
    except Exception:
        log.warning("workers cannot be reached directly; the scheduler forwards all messages, which is slower")
        return False
    return True


def _context(client: Any, address: str) -> Any:
    """Return the TLS context of the client, if the worker uses TLS."""
    return client.security.get_connection_args("client")["ssl_context"] if address.startswith("tls://") else None
