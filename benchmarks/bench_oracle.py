"""Which way to the gradient's top pair? Decides `oracle` of the pursuits and `block` of Lanczos.

Epinions, logistic loss, one tenth held out. At the start and after ten EGLRL steps: passes over the observations,
milliseconds (medians of five), and the share of the top singular value (by ARPACK, to 1e-10) that is missed. Then a
whole EGLRL fit at rank 40 with each. The paper has 30 power iterations.
"""

from collections.abc import Iterator
from statistics import median

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
    "lanczos, block of 8": (Lanczos(), 8),
    "lanczos, block of 1": (Lanczos(block=1, max_blocks=40), 1),
}


def run(rank: int = 40, repeats: int = 3) -> Iterator[Row]:
    """One gradient at a time, then whole fits."""
    train, held_out = signed_split("epinions")
    problem = rw.Problem(train, "logistic")
    for steps in (0, 10):
        problem.reset()
        if steps:
            rw.solve(problem, "eglrl", rank=steps)
        gradient = problem.gradient()
        exact = float(svds(gradient, k=1, tol=1e-10, random_state=0, return_singular_vectors=False)[0])
        for name, (oracle, width) in ORACLES.items():
            triplets = [oracle(gradient, rng=np.random.default_rng(seed)) for seed in range(repeats)]
            with threadpool_limits(limits=1, user_api="blas"):  # as `solve` has it
                seconds = clocked(lambda oracle=oracle, at=gradient: oracle(at, rng=np.random.default_rng(0)))
            row: Row = {"oracle": name, "gradient": f"after {steps} steps"}
            row |= {"passes": round(median(each.n_products for each in triplets) / 2 / width, 1)}
            row |= {"ms": round(1e3 * seconds, 1)}
            yield row | {"missed": f"{max(1 - each.sigma / exact for each in triplets):.1e}"}
    for name, (oracle, _) in ORACLES.items():
        solver = GreedyPursuit("economic", oracle)
        last = rw.solve(problem, solver, rank=rank, held_out=held_out, score=sign_accuracy).history[-1]
        times = [rw.solve(problem, solver, rank=rank).history[-1].wall_seconds for _ in range(repeats)]
        row = {"oracle": name, "gradient": f"EGLRL, rank {rank}", "accuracy_%": round(100 * last.score, 2)}
        yield row | {"value": round(last.value), "fit_s": round(median(times), 2)}
