"""How long does the default fit of clicks take, choices included, beside a grid of 12 settings of implicit's ALS?

MovieLens 1M (`Movielens1M_m1`), random holding out. implicit 0.7 with its defaults (conjugate gradients, 15 sweeps):
64 or 128 factors, regularization 0.01, 1 or 10, alpha 2 or 10. Its setting is chosen on the same held-out fifth of each
row, by the same mean of recall and NDCG at 20, and fitted to all clicks. Processor seconds of one process, reading and
scoring of the test part not counted; both methods one after the other.
"""

import time
from collections.abc import Iterator
from itertools import product

import numpy as np
import scipy.sparse as sp

import rankwise as rw
from rankwise import LowRankModel
from rankwise.model import Seen
from rankwise.selection import ranking_scores, split_within_rows

from .bench_clicks import read
from .common import Row

CASES = ("ml1m",)
GRID = tuple(product((64, 128), (0.01, 1.0, 10.0), (2.0, 10.0)))


def run(cases: tuple[str, ...] = CASES) -> Iterator[Row]:
    """One row per data set and method."""
    for name in cases:
        (users, items, _), (test_users, test_items, _) = read(name, "train"), read(name, "test")
        test = rw.Observations.from_labels(test_users, test_items, np.ones(test_users.size))
        clicks = rw.Observations.from_labels(users, items, np.ones(users.size))
        best, grid_seconds = timed(lambda clicks=clicks: peer(clicks))
        yield result(name, "implicit, grid of 12", grid_seconds, ranking_scores(best[0], test)) | {"chosen": best[1]}
        ours, seconds = timed(lambda clicks=clicks: rw.ImplicitFactorization().fit(clicks))
        row = result(name, "ImplicitFactorization()", seconds, ranking_scores(ours, test))
        yield row | {"chosen": ours.rule_.words, "ratio": round(seconds / grid_seconds, 2)}


def result(name: str, method: str, seconds: float, scores: rw.selection.RankingScores) -> Row:
    """Row of a method."""
    accuracy = {"recall@20": round(scores.recall, 4), "ndcg@20": round(scores.ndcg, 4)}
    return {"data": name, "method": method, **accuracy, "cpu_seconds": round(seconds, 1)}


def timed(call):
    """Return the result of a call and its processor seconds."""
    start = time.process_time()
    found = call()
    return found, time.process_time() - start


def peer(clicks: rw.Observations) -> tuple[LowRankModel, str]:
    """The best setting of the grid, fitted to all clicks, and its name."""
    train, held_out = split_within_rows(clicks, 0.2, random_state=0)

    def quality(setting: tuple[int, float, float]) -> float:
        scores = ranking_scores(fitted(train, *setting), held_out)
        return scores.recall + scores.ndcg

    best = max(GRID, key=quality)
    return fitted(clicks, *best), "factors {}, regularization {:g}, alpha {:g}".format(*best)


def fitted(clicks: rw.Observations, factors: int, regularization: float, alpha: float) -> LowRankModel:
    """Factors of implicit as a model, whose ranking is scored as that of ours."""
    from implicit.cpu.als import AlternatingLeastSquares

    als = AlternatingLeastSquares(factors, regularization=regularization, alpha=alpha, num_threads=2, random_state=0)
    als.fit(sp.csr_matrix(clicks.to_sparse().astype(np.float32)), show_progress=False)
    parts = np.tri(factors), als.user_factors, als.item_factors
    return LowRankModel(*parts, clicks.row_labels, clicks.col_labels, seen=Seen.of(clicks))
