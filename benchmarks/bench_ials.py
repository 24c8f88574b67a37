"""How long does one sweep of iALS take, exact row solves against exact row solves, compared with implicit 0.7?

Published training parts of MovieLens 1M and Gowalla; a sweep solves all users and then all items, in float32. rankwise:
`FactorSweeps` with `Everywhere`; implicit: `AlternatingLeastSquares(use_cg=False)`. Processor seconds of one thread:
the difference between runs of one and of three sweeps, in one process and one after the other; the faster of two.
"""

import time
from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

import rankwise as rw

from .bench_clicks import read
from .common import Row

CASES = (("ml1m", 64), ("ml1m", 128), ("gowalla", 64), ("gowalla", 128), ("ml1m", 256))
REPEATS = 2
WEIGHT, RIDGE = 0.1, 0.1


def run(cases: tuple[tuple[str, int], ...] = CASES, n_jobs: int = 1) -> Iterator[Row]:
    """One row per data set and rank."""
    for name, rank in cases:
        users, items, _ = read(name, "train")
        clicks = sp.csr_matrix((np.ones(users.size, np.float32), (users, items)))
        ours = fastest(sweeps(clicks, rank, n_jobs))
        theirs = fastest(peer_sweeps(clicks, rank, n_jobs))
        yield {
            "data": name,
            "rank": rank,
            "threads": n_jobs,
            "cpu_seconds": round(ours, 3),
            "implicit_cpu_seconds": round(theirs, 3),
            "ratio": round(ours / theirs, 2),
        }


def fastest(fit: Callable[[int], None]) -> float:
    """Processor seconds of one sweep."""
    fit(1)  # compile, start threads
    with threadpool_limits(1, "blas"):
        return min(0.5 * (timed(fit, 3) - timed(fit, 1)) for _ in range(REPEATS))


def timed(fit: Callable[[int], None], n_sweeps: int) -> float:
    """Processor seconds of a run."""
    start = time.process_time()
    fit(n_sweeps)
    return time.process_time() - start


def sweeps(clicks: sp.csr_matrix, rank: int, n_jobs: int) -> Callable[[int], None]:
    """Runs of our sweeps from one start."""
    problem = rw.Problem(rw.Observations.from_sparse(clicks), "square", n_jobs=n_jobs, everywhere=rw.Everywhere(WEIGHT))
    solver = rw.solvers.FactorSweeps(ridge=RIDGE, offsets="none")

    def fit(n_sweeps: int) -> None:
        state = solver.init(problem, rank)
        for step in range(n_sweeps):
            solver.step(problem, np.random.default_rng(step), state)

    return fit


def peer_sweeps(clicks: sp.csr_matrix, rank: int, n_jobs: int) -> Callable[[int], None]:
    """Runs of implicit's sweeps."""
    from implicit.cpu.als import AlternatingLeastSquares

    def fit(n_sweeps: int) -> None:
        settings = {"use_cg": False, "iterations": n_sweeps, "num_threads": n_jobs, "random_state": 0}
        peer = AlternatingLeastSquares(rank, regularization=RIDGE, alpha=1 / WEIGHT, **settings)
        peer.fit(clicks, show_progress=False)

    return fit
