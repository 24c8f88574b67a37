"""How many entries should a shard hold? Decides MIN_SHARD and N_SHARDS in observations/shards.py.

Milliseconds on two threads, medians of five: of a gram product (its column sums are added shard by shard), of an
evaluation, and of a sweep of the default solver (median of three; per sweep, without the start).
"""

from collections.abc import Iterator
from statistics import median
from unittest.mock import patch

import numpy as np

import rankwise as rw
from rankwise.engines import Shard
from rankwise.estimators.planning import MAX_FACTORS
from rankwise.observations import shards
from rankwise.solvers import BayesSweeps

from .common import THREADS, Row, clocked, layered
from .common import signed_split as split_signs

COUNTS = (2, 4, 8, 16, 32, 64)


def run(size: int = 10_000_000, rank: int = MAX_FACTORS) -> Iterator[Row]:
    """A small set and a large one, with few shards and many."""
    movies, slashdot = rw.datasets.load("movielens-1m"), split_signs("slashdot")[0]
    sets = {"movielens-1m": (movies, "square"), "slashdot": (slashdot, "logistic")}
    for name, (data, loss) in (sets | {f"{size:.0e} synthetic": (layered(size), "square")}).items():
        for count in COUNTS:
            least = max(1, data.n_observed // count)
            with patch.multiple(shards, MIN_SHARD=least, N_SHARDS=count, MAX_SHARD=max(least, shards.MAX_SHARD)):
                problem = rw.Problem(data, loss, n_jobs=THREADS)
                made = len(problem.engine.shards)
                gradient, v = problem.gradient(), np.ones(data.shape[1])
                row: Row = {"data": name, "wanted": count, "shards": made, "entries": data.n_observed // made}
                row |= {"gram_ms": round(1e3 * clocked(gradient.gram, v), 3)}
                row |= {"evaluate_ms": round(1e3 * clocked(problem.engine.run, Shard.evaluate), 3)}
                wall = rw.solve(problem, BayesSweeps(), rank=rank, max_iter=4).history.column("wall_seconds")
            yield row | {"sweep_ms": round(1e3 * median(np.diff(wall)), 2)}
