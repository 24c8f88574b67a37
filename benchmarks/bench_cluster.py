"""What does a Dask cluster cost compared with threads, and does the cost model of docs/scale.md hold?

Two worker processes of one thread each against two threads, and one against one, on this machine: 1e7 observations,
20,000 columns, 100 entries per row, float32, square loss. Steps of EGLRL (30 power iterations; Lanczos with tol=0.01)
and sweeps at rank 10: median milliseconds of a step after the first, minimum of two alternating runs. Target: two
workers take at most 1.5 times as long as two threads. `trips` and `MB` are the round trips and the data sent between
the client and the workers in one step, both ways. `model_ms` is the time of the threads + trips x latency + bytes /
bandwidth. Latency is measured with an operation on two numbers, bandwidth with a block of 48 columns, both in the same
run and after subtraction of the time on threads.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from copy import copy
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from distributed import Client, LocalCluster
from numpy.typing import NDArray

import rankwise as rw
from rankwise.dask import ClusterEntries
from rankwise.engines import Shard
from rankwise.observations import Piece, cut_rows
from rankwise.solvers import BayesSweeps, FactorSweeps, GreedyPursuit
from rankwise.spectral import Lanczos

from .common import Row, layered

Array = NDArray[Any]

KINDS = {
    "EGLRL": (GreedyPursuit("economic"), 4, 4),
    "EGLRL, Lanczos": (GreedyPursuit("economic", Lanczos(tol=0.01)), 4, 4),
    "sweep, factors": (FactorSweeps(), 10, 4),
    "sweep, bayes": (BayesSweeps(), 10, 4),
}


def made(size: int, start: int, stop: int) -> Piece:
    """Rows of the synthetic matrix, made where they are needed: nothing of their size goes through the client."""
    data = layered(size)
    lo, hi = int(data.indptr[start]), int(data.indptr[stop])
    indptr = data.indptr[start : stop + 1] - np.uint64(lo)
    return Piece(start, data.shape[1], indptr, data.indices[lo:hi].copy(), data.targets[lo:hi].copy(), None)


@contextmanager
def entries_with(n_workers: int, size: int) -> Iterator[ClusterEntries]:
    """The synthetic matrix on worker processes of one thread each."""
    settings: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "memory_limit": 0}
    with LocalCluster(n_workers=n_workers, **settings) as cluster, Client(cluster, set_as_default=False) as client:
        n_rows, per_row = max(size // 100, 1), 100
        cuts = cut_rows(np.arange(n_rows + 1, dtype=np.uint64) * np.uint64(per_row), 20_000).tolist()
        loads = client.map(made, [size] * (len(cuts) - 1), cuts[:-1], cuts[1:], pure=False)
        yield ClusterEntries(client, loads, (n_rows, 20_000))


def stepped(given: Any, kind: str, n_jobs: int | None) -> tuple[float, float, float]:
    """Median seconds of a step after the first, and its round trips and bytes."""
    solver, rank, steps = KINDS[kind]
    problem, seen = rw.Problem(given, "square", n_jobs=n_jobs), []

    def look(record: Any) -> None:
        engines = [engine for engine in problem.engines.values() if hasattr(engine, "traffic")]
        seen.append([sum(getattr(engine.traffic, name) for engine in engines) for name in ("trips", "out", "back")])

    wall = rw.solve(problem, solver, rank=rank, max_iter=steps, tol=0.0, callback=look).history.column("wall_seconds")
    trips, out, back = np.median(np.diff(seen, axis=0)[-2:], axis=0)
    return median(np.diff(wall)), float(trips), float(out + back)


def asked(problem: rw.Problem, block: Array | None) -> tuple[float, float]:
    """Median seconds of a question, and its bytes: two numbers and next to nothing to do, or sums of a block's rows."""
    problem.value()
    engine: Any = problem.engine
    seconds = []
    before = copy(getattr(engine, "traffic", None))
    for _ in range(20):
        start = perf_counter()
        engine.run(Shard.plane, 1.0, 0.0) if block is None else engine.run(Shard.gather, block, block.shape[1])
        seconds.append(perf_counter() - start)
    if before is None:
        return median(seconds), 0.0
    return median(seconds), (engine.traffic.out + engine.traffic.back - before.out - before.back) / 20


def constants(entries: Any, data: rw.Observations, n_jobs: int) -> tuple[float, float]:
    """Seconds of a round trip beyond the work, and bytes per second of one with long vectors."""
    block = np.ones((20_000, 48), np.float32)
    with closing(rw.Problem(entries, "square")) as far, closing(rw.Problem(data, "square", n_jobs=n_jobs)) as near:
        latency = asked(far, None)[0] - asked(near, None)[0]
        seconds, n_bytes = asked(far, block)
        return latency, n_bytes / max(seconds - asked(near, block)[0] - latency, 1e-9)


def run(size: int = 10_000_000, repeats: int = 2, numbers: tuple[int, ...] = (1, 2)) -> Iterator[Row]:
    """By turns: threads, workers."""
    data = layered(size)
    for n in numbers:
        with entries_with(n, size) as entries:
            latency, bandwidth = constants(entries, data, n)
            row: Row = {"kind": "constants", "n_observed": size, "workers": n, "round_trip_ms": round(1e3 * latency, 2)}
            yield row | {"MB_per_s": round(bandwidth / 1e6)}
            for kind in KINDS:
                found: dict[str, list[tuple[float, float, float]]] = {"threads": [], "workers": []}
                for _ in range(repeats):
                    found["threads"].append(stepped(data, kind, n))
                    found["workers"].append(stepped(entries, kind, None))
                one, other = (float(min(seconds for seconds, *_ in found[which])) for which in found)
                _, trips, n_bytes = found["workers"][-1]
                model = one + trips * latency + n_bytes / bandwidth
                row = {"kind": kind, "n_observed": size, "workers": n, "trips": round(trips)}
                row |= {"MB": round(n_bytes / 1e6, 2), "threads_ms": round(1e3 * one, 2)}
                row |= {"workers_ms": round(1e3 * other, 2), "model_ms": round(1e3 * model, 2)}
                yield row | {"workers/threads": round(other / one, 2)}
