"""Which method for the leading singular pair of the gradient? Decides `oracle` of the pursuits and `block` of Lanczos.

Epinions and Slashdot, logistic loss, one tenth held out. After 0, 10 and 30 EGLRL steps: passes over the observations,
milliseconds (medians of five), and the relative error of the leading singular value (compared with ARPACK, to 1e-10).
`passes_to_30`: the fewest passes in which Lanczos finds as large a value as the paper's 30 power iterations (target: a
quarter, 7.6), mean over three starts. Then a whole EGLRL fit at rank 40 with each. Decision: 30 power iterations remain
the default, as in the paper, because nothing is faster in memory. Where a pass is expensive, as from disk or on a
cluster, use Lanczos with one vector (a third of the passes) or with a block of 8 (a fifth, but a pass costs more).
"""

from collections.abc import Iterator
from statistics import mean, median
from typing import Any

import numpy as np
from scipy.sparse.linalg import svds
from threadpoolctl import threadpool_limits

import rankwise as rw
from rankwise.selection import sign_accuracy
from rankwise.solvers import GreedyPursuit
from rankwise.spectral import Lanczos, PowerMethod

from .common import Row, clocked, signed_split

ORACLES = {
    "power, 30": (PowerMethod(), 1),
    "lanczos, tol 0.01": (Lanczos(tol=0.01), 1),
    "lanczos, block of 8, 7 passes": (Lanczos(tol=0.01, block=8, max_blocks=7, max_restarts=0), 8),
}
BLOCKS = (1, 2, 4, 8)


def passes_to(gradient: Any, sigma: float, block: int, seed: int) -> int:
    """Passes in which Lanczos finds a value of at least `sigma`."""
    for n in range(2, 31):
        oracle = Lanczos(tol=1e-9, block=block, max_blocks=n, max_restarts=0)
        if oracle(gradient, rng=np.random.default_rng(seed)).sigma >= sigma:
            return n
    return 31


def at_one_gradient(problem: rw.Problem, where: Row) -> Iterator[Row]:
    """Every oracle there, then the passes that blocks need."""
    gradient = problem.gradient()
    exact = float(svds(gradient, k=1, tol=1e-10, random_state=0, return_singular_vectors=False)[0])
    for name, (oracle, width) in ORACLES.items():
        triplets = [oracle(gradient, rng=np.random.default_rng(seed)) for seed in range(3)]
        with threadpool_limits(limits=1, user_api="blas"):  # as `solve` has it
            seconds = clocked(lambda oracle=oracle: oracle(gradient, rng=np.random.default_rng(0)))
        row = where | {"oracle": name, "passes": round(median(each.n_products for each in triplets) / 2 / width, 1)}
        yield row | {"ms": round(1e3 * seconds, 1), "missed": f"{max(1 - each.sigma / exact for each in triplets):.1e}"}
    paper = [PowerMethod()(gradient, rng=np.random.default_rng(seed)).sigma for seed in range(3)]
    for block in BLOCKS:
        found = mean(passes_to(gradient, sigma, block, seed) for seed, sigma in enumerate(paper))
        yield where | {"oracle": f"lanczos, block of {block}", "passes_to_30": round(found, 1)}


def run(rank: int = 40, repeats: int = 3) -> Iterator[Row]:
    """One gradient at a time, then whole fits."""
    for name in ("epinions", "slashdot"):
        train, held_out = signed_split(name)
        problem = rw.Problem(train, "logistic")
        for steps in (0, 10, 30):
            problem.reset()
            if steps:
                rw.solve(problem, "eglrl", rank=steps)
            yield from at_one_gradient(problem, {"data": name, "gradient": f"after {steps} steps"})
        for oracle_name, (oracle, _) in ORACLES.items():
            solver = GreedyPursuit("economic", oracle)
            last = rw.solve(problem, solver, rank=rank, held_out=held_out, score=sign_accuracy).history[-1]
            times = [rw.solve(problem, solver, rank=rank).history[-1].wall_seconds for _ in range(repeats)]
            row: Row = {"data": name, "gradient": f"EGLRL, rank {rank}", "oracle": oracle_name}
            row |= {"accuracy_%": round(100 * last.score, 2), "value": round(last.value)}
            yield row | {"fit_s": round(median(times), 2)}
