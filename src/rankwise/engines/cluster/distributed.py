"""Dask's cluster package, an optional dependency that is imported when a cluster is used: clients, tasks and actors."""

import concurrent.futures
from collections.abc import Sequence
from typing import Any

from ..._errors import ClusterError, SettingError
from ..._extras import require

LOST = "The Dask scheduler does not answer, so the fit cannot continue; start a cluster and fit again."


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


def collect(client: Any, futures: Sequence[Any]) -> list[Any]:
    """Return the results of tasks; an error of a task is raised as it is."""
    try:
        results: list[Any] = client.gather(list(futures))
    except concurrent.futures.CancelledError as error:
        if client.status != "running":
            raise ClusterError(LOST) from error
        raise ClusterError(f"Dask canceled a task that reads entries, see the log of its scheduler: {error}") from error
    except OSError as error:
        if client.status != "running":
            raise ClusterError(LOST) from error
        raise  # of the task itself, such as a missing file
    return results


def client_of(client: Any) -> Any:
    """Return a checked Dask client: `client`, or the one that this process made last if it is None."""
    dask = distributed()
    if client is None:
        try:
            client = dask.default_client()
        except ValueError:
            raise SettingError(
                "`client` is None and this process has no Dask client; make one with `dask.distributed.Client(...)`."
            ) from None
    if not isinstance(client, dask.Client) or client.asynchronous:
        raise SettingError(f"`client` must be a `dask.distributed.Client` that is not asynchronous, got {client!r}.")
    if client.status == "closed":
        raise SettingError("`client` is closed; make another with `dask.distributed.Client(...)`.")
    return client
