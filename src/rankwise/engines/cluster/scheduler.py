"""Questions to the scheduler of a Dask cluster: which workers there are, and the removal of one."""

import logging
import time
from collections.abc import Collection
from typing import Any

from ..._errors import ClusterError
from .distributed import LOST

log = logging.getLogger("rankwise")

DOUBT = 5.0  # seconds after which a worker that did not answer is used again if there is no other
WORKER_TIMEOUT = 60.0  # seconds to wait for a worker if there is none
SCHEDULER_TIMEOUT = 15.0  # seconds for the scheduler to answer


def free_workers(client: Any, doubted: Collection[str] = ()) -> dict[str, int]:
    """Return the threads of the workers that can take shards, by address; wait for one if there is none."""
    start = time.monotonic()
    while True:
        workers, waited = workers_of(client), time.monotonic() - start
        free = {address: n for address, n in workers.items() if address not in doubted}
        if free or (workers and waited > DOUBT):
            return free or workers
        if waited > WORKER_TIMEOUT:
            raise ClusterError(
                f"The Dask cluster has no worker, and none joined within {WORKER_TIMEOUT:g} s; "
                "start workers and fit again."
            )
        time.sleep(0.1)


def workers_of(client: Any) -> dict[str, int]:
    """Return the threads of each worker that the scheduler knows, by address."""
    try:
        threads: dict[str, int] = client.nthreads(callback_timeout=SCHEDULER_TIMEOUT)
    except Exception as error:
        raise ClusterError(LOST) from error
    return threads


def remove_worker(client: Any, address: str, seconds: float) -> None:
    """Have the scheduler give up a worker that did not answer, so that Dask makes what it held elsewhere."""

    async def remove(dask_scheduler: Any) -> None:
        await dask_scheduler.remove_worker(address, stimulus_id="rankwise-silent")

    log.warning("the worker at %s has not answered for %g s and is given up", address, seconds)
    client.run_on_scheduler(remove)
