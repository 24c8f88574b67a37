"""How long does a sweep take on 2 to 1,000 workers, by a model of latency and bandwidth?

The messages of one sweep of `FactorSweeps` and of `BayesSweeps` are recorded from a fit: operations, bytes by message,
and lines that workers send each other. The model replays them. A round trip takes the client's time for a message to
and from every worker; then every worker asks each holder of lines, receives the lines, works, and answers. `check`
compares the model with fits on 2, 4 and 8 worker processes of one thread each, which share the cores of this machine,
with constants measured in the same run, where work takes as long as on as many threads. `forecast` is for 1e10
observations, 1e8 rows, 1e5 columns, rank 31, workers of 16 threads on machines of their own, links of 1.2 GB/s, and
0.5 ms for a message.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from distributed import Client, LocalCluster

import rankwise as rw
from rankwise.dask import ClusterEntries
from rankwise.engines import Cluster, Shard
from rankwise.engines.cluster.kept import Foreign
from rankwise.engines.cluster.messages import arrays_in
from rankwise.solvers import BayesSweeps, FactorSweeps

from .common import Row, scattered

KINDS = {"sweep, factors": FactorSweeps(), "sweep, bayes": BayesSweeps()}
STEPS = 4


@dataclass
class Trip:
    """Messages to the workers of one side in a round trip of the recorded sweep."""

    number: int  # of the round trip, which may have messages to both sides
    axis: str
    operations: list[str]
    small: int  # bytes of a message and of its reply
    line: int  # bytes of a line of the other side's arrays that workers need
    pulls: int  # operations that need such lines
    work: float = 0.0  # processor seconds of all shards


@dataclass
class Machines:
    """Constants of the model."""

    message: float  # seconds of a process for one message
    latency: float  # seconds of a round trip beyond that
    bandwidth: float  # bytes per second of a process
    threads: int = 1  # of a worker
    cores: float = np.inf  # that all processes share


def seconds(trips: list[Trip], n: int, machines: Machines, lines: dict[str, float], factor: float = 1.0) -> float:
    """Time of a sweep on n workers; `lines` are those that a worker gets by axis, `factor` multiplies the work."""
    share = n / min(n, machines.cores)  # processes that take turns on a core
    total = machines.latency * len({trip.number for trip in trips})
    for trip in trips:
        client = 2 * n * machines.message + 2 * n * trip.small / machines.bandwidth
        asked = lines[trip.axis] * trip.line
        pull = (2 * (n - 1) * trip.pulls * machines.message + asked / machines.bandwidth) * share
        total += client + pull + factor * trip.work * share / (n * machines.threads)
    return total


@contextmanager
def recorded(trips: list[Trip], axes: dict[int, str], uncertain: bool) -> Iterator[None]:
    """Record the round trips of all engines meanwhile; `axes` maps engines to axes.

    Variances, the second array of a row solve, are zero and not sent unless the solver is `uncertain`.
    """
    send, seen = Cluster._send, set[tuple[int, int]]()

    def hooked(engine: Any, remote: Any, message: Any) -> None:
        number = message.exchange.trip
        if (id(engine), number) not in seen:
            seen.add((id(engine), number))
            tokens = [[each for each in arrays_in([call]) if isinstance(each, Foreign)] for call in message.calls]
            tokens = tokens if uncertain else [part[:1] for part in tokens]
            sizes = [np.dtype(each.dtype).itemsize * int(np.prod(each.shape[1:])) for part in tokens for each in part]
            names, pulls = [repr(operation) for operation, _ in message.calls], sum(map(bool, tokens))
            axis = axes.get(id(engine), "columns")
            trips.append(Trip(number, axis, names, message.n_bytes, sum(sizes), pulls))
        send(engine, remote, message)

    Cluster._send = hooked  # type: ignore[method-assign]
    try:
        yield
    finally:
        Cluster._send = send  # type: ignore[method-assign]


def stepped(problem: rw.Problem, solver: Any, rank: int) -> tuple[float, list[Trip], dict[tuple[str, str], float]]:
    """Median seconds of a sweep, the trips of the last one, and the processor seconds of its operations."""
    trips: list[Trip] = []
    starts, busy = [0], dict[tuple[str, str], float]()

    def look(record: Any) -> None:
        starts.append(len(trips))
        for axis, engine in problem.engines.items():
            busy.update({(axis, repr(name)): used for name, used in getattr(engine, "busy", {}).items()})

    with closing(problem), recorded(trips, {id(problem.engine): "rows"}, solver.uncertain):
        history = rw.solve(problem, solver, rank=rank, max_iter=STEPS, tol=0.0, callback=look).history
    return float(median(np.diff(history.column("wall_seconds"))[1:])), trips[starts[-2] : starts[-1]], busy


@contextmanager
def running(n: int) -> Iterator[Any]:
    """Client of n worker processes of one thread each."""
    settings: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "memory_limit": 0}
    with LocalCluster(n_workers=n, **settings) as cluster, Client(cluster, set_as_default=False) as client:
        yield client


def constants(entries: ClusterEntries, n: int, cores: int) -> Machines:
    """Measure a round trip without work, and the upload of a block, with n workers."""
    with closing(rw.Problem(entries, "square")) as problem:
        problem.value()
        engine, block = problem.engine, np.ones((problem.shape[0], 32), np.float32)
        found = []
        for operation, args in ((Shard.plane, (1.0, 0.0)), (Shard.largest, (block[:, :1],)), (Shard.keep, (block,))):
            times = []
            for _ in range(9):
                start = perf_counter()
                engine.run(operation, *args)
                times.append(perf_counter() - start)
            found.append(median(times))
    trip = found[1]
    return Machines(trip / (4 * n), trip / 2, block.nbytes / max(found[2] - trip, 1e-6), cores=cores)


def lines_by_axis(data: rw.Observations, n: int) -> dict[str, float]:
    """Lines of the other side that a worker needs from others, on average, for n equal runs of rows or columns."""
    found = {}
    for axis, mine, theirs in (("rows", data.rows, data.cols), ("columns", data.cols, data.rows)):
        part = np.argsort(np.argsort(mine, kind="stable")) * n // mine.size
        found[axis] = float(np.mean([np.unique(theirs[part == k]).size for k in range(n)])) * (n - 1) / n
    return found


def check(n_observed: int, shape: tuple[int, int], rank: int, numbers: tuple[int, ...]) -> Iterator[Row]:
    """Compare with fits on this machine."""
    data, cores = scattered(n_observed, shape), os.cpu_count() or 1
    for n in numbers:
        with running(n) as client:
            entries = ClusterEntries(client, client.scatter(list(data.pieces())), data.shape)
            machines = constants(entries, n, cores)
            for kind, solver in KINDS.items():
                threads, _, busy = stepped(rw.Problem(data, "square", n_jobs=min(n, cores)), solver, rank)
                measured, trips, _ = stepped(rw.Problem(entries, "square"), solver, rank)
                for trip in trips:
                    trip.work = sum(busy.get((trip.axis, name), 0.0) for name in trip.operations)
                work = sum(trip.work for trip in trips) / min(n, cores)
                model = seconds(trips, n, machines, lines_by_axis(data, n), factor=threads / work)
                row: Row = {"part": "check", "kind": kind, "workers": n, "trips": len({trip.number for trip in trips})}
                row |= {"threads_ms": round(1e3 * threads, 1), "measured_ms": round(1e3 * measured, 1)}
                row |= {"model_ms": round(float(1e3 * model), 1)}
                yield row | {"measured/model": round(float(measured / model), 2)}


def forecast(n_observed: float = 1e10, shape: tuple[float, float] = (1e8, 1e5), rank: int = 31) -> Iterator[Row]:
    """Step times at a size that was not run, for 2 to 1,000 workers."""
    data = scattered(200_000, (20_000, 2_000))
    with running(2) as client:
        entries = ClusterEntries(client, client.scatter(list(data.pieces())), data.shape)
        fits = {kind: stepped(rw.Problem(entries, "square"), solver, rank)[1] for kind, solver in KINDS.items()}
    machines = Machines(message=0.5e-3, latency=1e-3, bandwidth=1.2e9, threads=16)
    for kind, trips in fits.items():
        for trip in trips:  # nanoseconds of a core for each entry, benchmarks/bench_limit.py
            costs = {"Shard.solve_rows": 60e-9 * rank / 31, "Shard.gather_blend": 0.25e-9 * rank}
            trip.work = n_observed * sum(costs.get(name, 0.0) for name in trip.operations)
        for n in (2, 5, 10, 20, 50, 100, 200, 500, 1000):
            m, k = shape, n_observed / n
            lines = {"rows": m[1] * -np.expm1(-k / m[1]), "columns": m[0] * -np.expm1(-k / m[0])}
            lines = {axis: found * (n - 1) / n for axis, found in lines.items()}
            total, work = seconds(trips, n, machines, lines), sum(trip.work for trip in trips) / (16 * n)
            received = sum(lines[trip.axis] * trip.line for trip in trips)
            row: Row = {
                "part": "forecast",
                "kind": kind,
                "workers": n,
                "trips": len({trip.number for trip in trips}),
                "work_s": round(work, 2),
            }
            yield row | {"received_GB": round(float(received) / 1e9, 2), "sweep_s": round(float(total), 2)}


def run(
    n_observed: int = 2_000_000,
    shape: tuple[int, int] = (100_000, 10_000),
    rank: int = 31,
    numbers: tuple[int, ...] = (2, 4, 8),
) -> Iterator[Row]:
    """The check on this machine, then the forecast."""
    yield from check(n_observed, shape, rank, numbers)
    yield from forecast(rank=rank)
