"""How many bytes pass through the client of a Dask cluster in a step, and between workers, with 2, 4 and 8 workers?

Worker processes of one thread each; 20 entries per row, columns of uneven popularity, float32, square loss. `direct`:
the client sends every array to every worker and adds up their sums. `peers`: workers exchange large arrays and sums.
MB of the last of three steps.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
from distributed import Client, LocalCluster

import rankwise as rw
from rankwise.dask import ClusterEntries
from rankwise.engines.cluster import client as engine
from rankwise.solvers import FactorSweeps, GreedyPursuit

from .common import Row, scattered

KINDS = {"EGLRL": (GreedyPursuit("economic"), 3), "sweep, factors": (FactorSweeps(), 31)}
WAYS = {"direct": float("inf"), "peers": engine.PEER_BYTES}


def traffic_of(entries: ClusterEntries, kind: str) -> list[float]:
    """MB of a step that the client sends, that it receives, and that workers send each other."""
    (solver, rank), seen = KINDS[kind], []
    with closing(rw.Problem(entries, "square")) as problem:

        def look(record: Any) -> None:
            traffic = [each.traffic for each in problem.engines.values() if isinstance(each, engine.Cluster)]
            seen.append([sum(getattr(each, name) for each in traffic) for name in ("out", "back", "peers")])

        rw.solve(problem, solver, rank=rank, max_iter=3, tol=0.0, callback=look)
    megabytes: list[float] = (np.diff(seen, axis=0)[-1] / 1e6).round(2).tolist()
    return megabytes


def run(
    n_observed: int = 2_000_000, shape: tuple[int, int] = (100_000, 10_000), numbers: tuple[int, ...] = (2, 4, 8)
) -> Iterator[Row]:
    """All kinds and ways for each number of workers."""
    data = scattered(n_observed, shape)
    for n in numbers:
        settings: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "memory_limit": 0}
        with LocalCluster(n_workers=n, **settings) as cluster, Client(cluster, set_as_default=False) as client:
            entries = ClusterEntries(client, client.scatter(list(data.pieces())), data.shape)
            for kind in KINDS:
                for way, least in WAYS.items():
                    engine.PEER_BYTES = least
                    out, back, peers = traffic_of(entries, kind)
                    row: Row = {"kind": kind, "way": way, "workers": n, "shape": "x".join(map(str, shape))}
                    yield row | {"out_MB": out, "back_MB": back, "peers_MB": peers}
