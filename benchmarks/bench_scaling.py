"""How do time and memory grow with observations, rank and threads?

20,000 columns, 100 entries per row, float32, square loss. Steps of EGLRL (30 power iterations) from 1e5 to 1e8
observations; sweeps of the default solver to 1e7, and at ranks 1 to 64 with 1e6. Each in its own process, by the
solver's clock, without the first step. `extra_MB`: increase of the peak resident memory by the construction of the
problem and the solver. Exponents are slopes of log seconds against log size over all rows of a kind. Targets: the time
per observation grows by at most 1.3 from 1e6 to 1e8; two threads are 1.6 times as fast as one on MovieLens 1M and on
1e7 (the default, four sweeps of it on 1e7, and EGLRL at rank 4, including offsets and the transpose; minimum of three
alternating runs, of two on 1e7).
"""

from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np

import rankwise as rw
from rankwise.estimators.planning import MAX_FACTORS
from rankwise.observations import Observations
from rankwise.solvers import BayesSweeps

from .common import Meter, NoAnswerError, Row, Split, apart, default_problem, exponent, layered, sweep

SIZES = (100_000, 1_000_000, 10_000_000)
LARGEST = 100_000_000
RANKS = (1, 2, 4, 8, 16, 32, 64)
Point = tuple[float, float, int]


def stepped(method: Any, size: int, rank: int, steps: int, n_jobs: int) -> Point:
    """Median seconds of a step after the first, MB, and observations; for a process of its own."""
    rw.solve(rw.Problem(layered(10_000), "square", n_jobs=n_jobs), method, rank=rank, max_iter=1)  # loads the kernels
    data: Observations = layered(size)
    with Meter() as meter:
        history = rw.solve(rw.Problem(data, "square", n_jobs=n_jobs), method, rank=rank, max_iter=steps).history
    wall = history.column("wall_seconds")
    return median(np.diff(wall)), meter.megabytes, data.n_observed


def shown(kind: str, rank: int, n_jobs: int, point: Point) -> Row:
    """One point as a row."""
    seconds, memory, n = point
    row: Row = {"kind": kind, "n_observed": n, "rank": rank, "threads": n_jobs, "step_ms": round(1e3 * seconds, 3)}
    return row | {"ns_per_observation": round(1e9 * seconds / n, 2), "extra_MB": round(memory)}


def sizes(kind: str, method: Any, rank: int, steps: int, n_jobs: int, wanted: tuple[int, ...]) -> Iterator[Row]:
    """Rows by size, then their exponents."""
    points: list[Point] = []
    for size in wanted:
        try:
            points.append(apart(stepped, method, size, rank, steps, n_jobs))
        except NoAnswerError as error:
            yield {"kind": kind, "n_observed": size, "threads": n_jobs, "note": str(error)}
            continue
        yield shown(kind, rank, n_jobs, points[-1])
    if len(points) > 1:
        seconds, memory, n = zip(*points, strict=True)
        last = seconds[-1] / n[-1] / (seconds[min(1, len(n) - 2)] / n[min(1, len(n) - 2)])
        row = {"kind": f"{kind}: over observations", "threads": n_jobs, "exponent": round(exponent(n, seconds), 3)}
        yield row | {"memory_exponent": round(exponent(n, memory), 3), "per_observation_1e6_to_last": round(last, 2)}


def ranks(size: int, n_jobs: int) -> Iterator[Row]:
    """A sweep at each rank, then the exponent over the larger half."""
    points = [apart(stepped, BayesSweeps(), size, rank, 4, n_jobs) for rank in RANKS]
    yield from (shown("sweep", rank, n_jobs, point) for rank, point in zip(RANKS, points, strict=True))
    slope = exponent(RANKS[-4:], [seconds for seconds, _, _ in points[-4:]])
    yield {"kind": f"sweep: over ranks {RANKS[-4]} to {RANKS[-1]}", "threads": n_jobs, "exponent": round(slope, 3)}


def threads(name: str, split: Split, n_sweeps: int | None, repeats: int) -> Iterator[Row]:
    """Least seconds on one thread over least seconds on two."""
    found: dict[tuple[str, int], list[float]] = {}
    for _ in range(repeats):
        for n_jobs in (1, 2):
            history = sweep(split, problem=default_problem(split, n_jobs=n_jobs), max_iter=n_sweeps).history
            found.setdefault(("the default", n_jobs), []).append(history[-1].wall_seconds)
            greedy = rw.solve(rw.Problem(split.train, "square", n_jobs=n_jobs), "eglrl", rank=4).history
            found.setdefault(("EGLRL", n_jobs), []).append(greedy[-1].wall_seconds)
    for kind, steps in (("the default", len(history)), ("EGLRL", len(greedy))):
        one, two = (min(found[kind, n_jobs]) for n_jobs in (1, 2))
        row: Row = {"kind": f"{kind}, {steps} steps, {name}", "n_observed": split.train.n_observed}
        yield row | {"seconds_1_thread": round(one, 3), "seconds_2": round(two, 3), "speedup": round(one / two, 2)}


def run(wanted: tuple[int, ...] = SIZES, largest: int = LARGEST) -> Iterator[Row]:
    """Sizes, ranks, threads; the largest size last."""
    for n_jobs in (1, 2):
        yield from sizes("sweep", BayesSweeps(), MAX_FACTORS, 4, n_jobs, wanted)
    yield from ranks(wanted[-2], 2)
    try:
        yield from threads("movielens-1m", Split.load("movielens-1m"), None, 3)
    except rw.DataError as error:
        yield {"kind": "threads, movielens-1m", "note": f"left out: {error}"}
    yield from threads(f"{wanted[-1]:.0e} synthetic", Split.of(layered(wanted[-1]), 0.01), 4, 2)
    yield from sizes("EGLRL step", "eglrl", 4, 4, 1, wanted)
    yield from sizes("EGLRL step", "eglrl", 4, 4, 2, (*wanted, largest))
