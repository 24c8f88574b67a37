"""How near to the machine's arithmetic limit do row solves run, at ranks 31 to 255? MovieLens 1M, 90 %, one thread.

CPU seconds of solving all rows and all columns once, the least of five. `asm` and `solve` are the GFLOP that the
systems take, in float32 to assemble their upper halves and in float64 to factor them; `limit_s` is the time of these at
the speed of NumPy's matrix products of 1,024 x 1,024, and `share` the limit over the time. The systems of rows with few
entries are smaller than counted.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import rankwise as rw
from rankwise.kernels.lanes import padded
from rankwise.solvers import BayesSweeps

from .common import Row, Split, default_problem


def least(function: Callable[..., Any], *args: Any, repeats: int = 5) -> float:
    """Least CPU seconds of a call."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        function(*args)
        seconds.append(time.process_time() - start)
    return min(seconds)


def limits(size: int = 1024) -> list[float]:
    """GFLOP/s of products of square matrices in float32 and in float64."""
    blocks = (np.random.default_rng(0).random((size, size)).astype(dtype) for dtype in ("f4", "f8"))
    return [2e-9 * size**3 / least(np.matmul, block, block) for block in blocks]


def run(ranks: tuple[int, ...] = (31, 63, 127, 255)) -> Iterator[Row]:
    """Seconds of both halves of a sweep, and what the arithmetic takes at least."""
    split = Split.of(rw.datasets.load("movielens-1m"), 0.1)
    with threadpool_limits(1, user_api="blas"):
        single, double = limits()
        for rank in ranks:
            problem, solver = default_problem(split, n_jobs=1), BayesSweeps()
            state = solver.init(problem, rank)
            solver.step(problem, np.random.default_rng(0), state)
            width = padded(rank + 1)
            assembled = 1e-9 * split.train.n_observed * width * (width + 8)
            row: Row = {"rank": rank, "float32_GFLOP/s": round(single, 1), "float64_GFLOP/s": round(double, 1)}
            for name, (side, other) in zip(("rows", "columns"), state.sides, strict=True):
                solved = 1e-9 * side.means.shape[0] * width**3 / 3
                seconds = least(solver._improve, problem, state, side, other)
                limit = assembled / single + solved / double
                row |= {f"{name}_asm": round(assembled, 1), f"{name}_solve": round(solved, 1)}
                row |= {f"{name}_s": round(seconds, 3), f"{name}_limit_s": round(limit, 3)}
                row |= {f"{name}_share": round(limit / seconds, 2)}
            yield row
