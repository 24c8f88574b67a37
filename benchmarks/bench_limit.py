"""How close is each hot kernel to the machine's limit? Bytes per second against the measured read bandwidth.

Ten million observations, 100,000 x 20,000, float32, through the shard operations that solvers use. `GB/s` counts the
bytes that a pass must at least read and write: column and slope of every entry for a product (8 bytes), prediction,
target and slope for an evaluation (12), prediction, direction and target along a direction (12), column and result for
low-rank values (8), column and target for row solves (8), the column for sums over the pattern (4); gathered factor
rows are not counted. `share` divides it by the read bandwidth with as many threads, measured by summing 400 MB; kernel
and sum alternate, because the bandwidth of a shared machine varies by half. A block of eight vectors counts its bytes
once per vector. Targets: share 0.3 for one vector and 0.6 for a block on two threads; 2e7 entries/s for predictions at
rank 40 (32 bytes each). `GFlop/s` of the row solves counts half of each outer product and a third of the cube of the
width for each row. Top columns: benchmarks/bench_recommend.py.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np

import rankwise as rw
from rankwise.engines import Shard
from rankwise.estimators.planning import MAX_FACTORS
from rankwise.objectives.sides import RowSettings
from rankwise.observations import Observations
from rankwise.solvers import BayesSweeps

from .common import Row, by_turns, clocked, scattered, signs_of

READ = 400_000_000
Verb = tuple[str, Callable[[], Any], float]


@numba.njit(nogil=True, fastmath=True)
def total(values):
    """Sum of an array."""
    found = np.float32(0.0)
    for k in range(values.size):
        found += values[k]
    return found


@contextmanager
def reading(n_jobs: int) -> Iterator[Callable[[], Any]]:
    """A call that reads `READ` bytes once, a piece per thread."""
    pieces = np.array_split(np.ones(READ // 4, np.float32), n_jobs)
    with ThreadPoolExecutor(n_jobs) as pool:
        yield lambda: list(pool.map(total, pieces))


def products(problem: rw.Problem) -> Iterator[Verb]:
    """Products with the gradient, and bytes of each."""
    gradient, rng, n = problem.gradient(), np.random.default_rng(0), problem.observations.n_observed
    u, v, block = (rng.standard_normal(size) for size in (*problem.shape, (problem.shape[1], 8)))
    yield "gram, one vector", lambda: gradient.gram(v), 8.0 * n
    yield "gram, block of 8, per vector", lambda: gradient.gram(block), 8 * 8.0 * n
    yield "product", lambda: gradient @ v, 8.0 * n
    yield "transposed", lambda: gradient.rmatvec(u), 8.0 * n


def entries(problem: rw.Problem) -> Iterator[Verb]:
    """Passes that look at every entry's loss."""
    engine, n, name = problem.engine, problem.observations.n_observed, problem.loss.name
    yield f"evaluate, {name}", lambda: engine.run(Shard.evaluate), 12.0 * n
    yield f"plane, {name}", lambda: engine.run(Shard.plane, 1.0, 0.1), 12.0 * n


def factors(problem: rw.Problem) -> Iterator[Verb]:
    """Passes that gather factor rows."""
    engine, n, rng = problem.engine, problem.observations.n_observed, np.random.default_rng(0)
    U, V = (rng.standard_normal((size, 32)).astype(problem.dtype) for size in problem.shape)
    yield "low_rank_at, rank 32", lambda: engine.run(Shard.aim, U, V, np.ones(32)), 8.0 * n
    yield "gather, 32 columns", lambda: engine.run(Shard.gather, V, V.shape[1]), 4.0 * n


def row_solves(problem: rw.Problem) -> tuple[Verb, float]:
    """A half sweep of the default, and its floating-point operations."""
    solver, n = BayesSweeps(), problem.observations.n_observed
    state = solver.init(problem, MAX_FACTORS)
    solver._grow(problem, np.random.default_rng(0), state, MAX_FACTORS)
    d, settings = MAX_FACTORS + 1, RowSettings(state.constant, state.scale, True)
    flops = n * d * (d + 1) + problem.shape[0] * d**3 / 3
    name = f"solve_rows, {problem.loss.name}, rank {MAX_FACTORS} + offset"
    return (name, lambda: state.rows.improve(state.cols, settings), 8.0 * n), flops


def predictions(data: Observations, rank: int = 40) -> Iterator[Row]:
    """Predictions at all observed entries, row by row and in any order."""
    rng = np.random.default_rng(0)
    U, V = (rng.standard_normal((size, rank)).astype(np.float32) for size in data.shape)
    model = rw.LowRankModel(np.tril(np.ones((rank, rank))), U, V)
    order, n = rng.permutation(data.n_observed), data.n_observed
    for words, rows, cols in (("by rows", data.rows, data.cols), ("in any order", data.rows[order], data.cols[order])):
        seconds = clocked(model.predict_entries, rows, cols, repeats=3)
        found = {"threads": 1, "kernel": f"predict_entries, rank {rank}, {words}", "ms": round(1e3 * seconds, 2)}
        yield found | {"GB/s": round(32 * n / seconds / 1e9, 2), "entries/s": f"{n / seconds:.2e}"}


def kernels(ratings: Observations, signs: Observations, n_jobs: int, read: Callable[[], Any]) -> Iterator[Row]:
    """Every kernel beside the read bandwidth."""

    def row(verb: Verb, repeats: int = 9) -> Row:
        name, call, bytes_moved = verb
        seconds, reading = by_turns([call, read], repeats)
        speed, limit = bytes_moved / seconds, READ / reading
        found = {"threads": n_jobs, "kernel": name, "ms": round(1e3 * seconds, 2), "GB/s": round(speed / 1e9, 2)}
        return found | {"read GB/s": round(limit / 1e9, 2), "share": round(speed / limit, 3)}

    for data, loss in ((ratings, "square"), (signs, "logistic")):
        problem = rw.Problem(data, loss, n_jobs=n_jobs)
        if loss == "square":
            yield from map(row, products(problem))
        yield from map(row, entries(problem))
        if loss == "square":
            yield from map(row, factors(problem))
        problem.close()
    for data, loss in ((ratings, "huber"), (signs, "logistic")):
        problem = rw.Problem(data, loss, n_jobs=n_jobs)
        verb, flops = row_solves(problem)
        found = row(verb, repeats=3)
        yield found | {"GFlop/s": round(flops / found["ms"] / 1e6, 1)}
        problem.close()


def run(n: int = 10_000_000, shape: tuple[int, int] = (100_000, 20_000)) -> Iterator[Row]:
    """Every kernel on one thread and on two."""
    ratings = scattered(n, shape)
    signs = signs_of(ratings)
    for n_jobs in (1, 2):
        with reading(n_jobs) as read:
            yield from kernels(ratings, signs, n_jobs, read)
    yield from predictions(ratings)
