"""How many bytes pass through the client of a Dask cluster in a step, and between workers, with 2, 4 and 8 workers?

Worker processes of one thread each; 6 entries per row, columns of uneven popularity, float32, square loss, at the
given shape and at half its rows and columns. MB of the last of three steps. `needed_MB` is the size of the factors and
offsets that a sweep must send between workers: those of the rows and columns in which a worker has entries and which
another worker has.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
from distributed import Client, LocalCluster

import rankwise as rw
from rankwise.dask import ClusterEntries
from rankwise.engines.cluster import client as engine
from rankwise.solvers import BayesSweeps, FactorSweeps, GreedyPursuit

from .common import Row, scattered

KINDS = {
    "EGLRL": (GreedyPursuit("economic"), 3),
    "sweep, factors": (FactorSweeps(), 31),
    "sweep, bayes": (BayesSweeps(), 31),
}


def held_by(cluster: Any) -> dict[str, Any]:
    """Rows of each worker's shards."""
    return {
        remote.address: np.concatenate([np.arange(rows.start, rows.stop) for rows in remote.rows])
        for remote in cluster.remotes
    }


def needed(problem: rw.Problem, data: rw.Observations, rank: int) -> float:
    """MB of factors and offsets that the workers' entries need from other workers in one sweep."""
    sides = {axis: held_by(problem.engine_of(axis)) for axis in ("rows", "columns")}
    lines = 0
    for own, other, (mine, theirs) in (
        ("rows", "columns", (data.rows, data.cols)),
        ("columns", "rows", (data.cols, data.rows)),
    ):
        for address, rows in sides[own].items():
            wanted = np.unique(theirs[np.isin(mine, rows)])
            lines += np.setdiff1d(wanted, sides[other].get(address, np.zeros(0, int))).size
    return 4 * (rank + 1) * lines / 1e6


def traffic_of(entries: ClusterEntries, data: rw.Observations, kind: str) -> Row:
    """MB of a step that the client sends, that it receives, and that workers send each other."""
    (solver, rank), seen, least = KINDS[kind], [], []
    with closing(rw.Problem(entries, "square")) as problem:

        def look(record: Any) -> None:
            traffic = [each.traffic for each in problem.engines.values() if isinstance(each, engine.Cluster)]
            seen.append([sum(getattr(each, name) for each in traffic) for name in ("out", "back", "peers")])
            if kind == "sweep, factors" and len(seen) == 3:
                least.append(needed(problem, data, rank))

        rw.solve(problem, solver, rank=rank, max_iter=3, tol=0.0, callback=look)
    megabytes = (np.diff(seen, axis=0)[-1] / 1e6).round(4).tolist()
    row: Row = dict(zip(("out_MB", "back_MB", "between_MB"), megabytes, strict=True))
    return row | ({"needed_MB": round(least[0], 2)} if least else {})


def run(
    n_observed: int = 600_000, shape: tuple[int, int] = (100_000, 10_000), numbers: tuple[int, ...] = (2, 4, 8)
) -> Iterator[Row]:
    """All kinds and both shapes for each number of workers."""
    for n in numbers:
        settings: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "memory_limit": 0}
        with LocalCluster(n_workers=n, **settings) as cluster, Client(cluster, set_as_default=False) as client:
            for part in (2, 1):
                data = scattered(n_observed // part, (shape[0] // part, shape[1] // part))
                entries = ClusterEntries(client, client.scatter(list(data.pieces())), data.shape)
                for kind in KINDS:
                    row: Row = {"kind": kind, "workers": n, "shape": "x".join(map(str, data.shape))}
                    yield row | traffic_of(entries, data, kind)
