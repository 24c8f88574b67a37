"""Import of Dask's cluster package, an optional dependency, when a cluster is used."""

from collections.abc import Sequence
from typing import Any

from ..._extras import require


def distributed() -> Any:
    """Return the package, or raise with the command that installs it."""
    return require("distributed", "dask")


async def call_actor(worker: Any, actor: str, function: str, args: Sequence[Any]) -> Any:
    """Call a method of an actor by an RPC connection to its worker; errors are raised here."""
    wrapped = [distributed().protocol.to_serialize(arg) for arg in args]
    reply = await worker.actor_execute(function=function, actor=actor, args=wrapped, kwargs={})
    if reply["status"] != "OK":
        raise reply["exception"]
    return reply["result"]
