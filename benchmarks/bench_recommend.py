"""How long does it take to find the ten best columns of many rows? Target: 10,000 x 10,000 at rank 31 under a second.

Random factors with offsets, a hundred seen columns per row excluded, two threads, medians. `dense` is NumPy on the same
number of threads: all scores by BLAS in blocks of 1,000 rows, then `argpartition`. `exact` scores all columns by the
kernel, where the default leaves out most of them by BLAS first; both give the same bits. Ranks other than 31 are one
run each, in processor seconds of all threads; the last row is the target of 10**5 users and 4 * 10**4 items in seconds.
"""

import time
from collections.abc import Iterator
from functools import partial
from statistics import median
from unittest.mock import patch

import numpy as np

from rankwise import LowRankModel
from rankwise.model import Offsets, Seen
from rankwise.model.shortlist import Shortlist

from .common import Row

RANK, N, SEEN = 31, 10, 100
WIDE = ((2_000, 40_000, 64), (1_000, 40_000, 256), (500, 40_000, 1024), (100_000, 40_000, 64))  # the last: default only


def run(repeats: int = 5) -> Iterator[Row]:
    """One row per size."""
    for n_rows, n_cols in ((10_000, 10_000), (1_000, 100_000), (1, 1_000_000)):
        model, rows = random_model(n_rows, n_cols), np.arange(n_rows)
        model.recommend(rows[:1], N)  # compile, not timed
        ours = [timed(lambda model=model, rows=rows: model.recommend(rows, N, n_jobs=2)) for _ in range(repeats)]
        dense = [timed(lambda model=model: by_blocks(model)) for _ in range(repeats)]
        yield {"rows": n_rows, "columns": n_cols, "seconds": median(ours), "dense_seconds": median(dense)}

    yield from wide()


def wide() -> Iterator[Row]:
    """One row per size at higher ranks, in processor seconds."""
    for n_rows, n_cols, rank in WIDE:
        model, rows = random_model(n_rows, n_cols, rank), np.arange(n_rows)
        model.recommend(rows[:64], N)  # compile, not timed
        row = {"rows": n_rows, "columns": n_cols, "rank": rank}
        ask = partial(model.recommend, rows, N, n_jobs=2)
        row["cpu_seconds"] = round(timed(ask, time.process_time), 2)
        if n_rows * rank < 10**6:
            with patch.object(Shortlist, "of", return_value=None):
                row["exact_cpu_seconds"] = round(timed(ask, time.process_time), 2)
        yield row


def random_model(n_rows: int, n_cols: int, rank: int = RANK) -> LowRankModel:
    rng = np.random.default_rng(0)
    U, V = (rng.normal(size=(size, rank)).astype(np.float32) for size in (n_rows, n_cols))
    offsets = Offsets(0.0, *(rng.normal(size=size).astype(np.float32) for size in (n_rows, n_cols)))
    indices = np.sort(rng.integers(0, n_cols // SEEN, (n_rows, SEEN)) + np.arange(SEEN) * (n_cols // SEEN), axis=1)
    seen = Seen(np.arange(n_rows + 1, dtype=np.uint64) * SEEN, indices.ravel().astype(np.uint32))
    return LowRankModel(np.tri(rank), U, V, offsets=offsets, seen=seen)


def by_blocks(model: LowRankModel) -> None:
    for first in range(0, model.shape[0], 1000):
        block = slice(first, first + 1000)
        scores = model.U[block] @ model.V.T + model.offsets.rows[block, None] + model.offsets.cols
        seen = model.seen.indices.reshape(-1, SEEN)[block]
        np.put_along_axis(scores, seen, -np.inf, 1)
        best = np.argpartition(-scores, N, axis=1)[:, :N]
        np.argsort(-np.take_along_axis(scores, best, 1), axis=1)


def timed(call, clock=time.perf_counter) -> float:
    start = clock()
    call()
    return clock() - start
