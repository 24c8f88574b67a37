"""What does it gain, and cost, that the automatic rank grows beyond 31? The default with and without growth.

RMSE and MAE in stars, clipped, or wrong signs in % and AUC, on held-out entries; means over splits 0, 1 and 2. The
constants were chosen before, on training parts that overlap with some of these entries (docs/constants.md).
`rank` is that of each model. `cpu_s` are CPU seconds of a fit on two threads,
the least of the three, because other programs ran beside.
"""

import time
from collections.abc import Iterator

import numpy as np

import rankwise as rw
from rankwise.estimators.planning import PRUNE_BELOW, most_factors
from rankwise.solvers import BayesSweeps

from .common import THREADS, Row, Split, default_problem

SETS = (
    ("movielens-1m", 0.1),
    ("movielens-1m", 0.5),
    ("movielens-100k", 0.1),
    ("movielens-100k", 0.5),
    ("slashdot", 0.1),
    ("epinions", 0.1),
)


def fitted(split: Split, grows: bool) -> rw.LowRankModel:
    """The default, or its sweeps without growth."""
    if grows:
        return rw.MatrixCompletion(n_jobs=THREADS).fit(split.train).model_
    return rw.solve(default_problem(split), BayesSweeps(least_effect=PRUNE_BELOW), rank=most_factors(split.train)).model


def run(n_splits: int = 3) -> Iterator[Row]:
    """Scores and seconds with and without growth."""
    for name, share in SETS:
        splits = [Split.of(rw.datasets.load(name), share, seed) for seed in range(n_splits)]
        for grows in (False, True):
            scores, seconds, ranks = [], [], []
            for split in splits:
                start = time.process_time()
                model = fitted(split, grows)
                seconds.append(time.process_time() - start)
                scores.append(split.scores(model.at(split.held_out.rows, split.held_out.cols)))
                ranks.append(model.rank)
            row: Row = {"data": name, "held_out": share, "grows": grows, "rank": ", ".join(map(str, ranks))}
            row |= {key: round(float(np.mean([one[key] for one in scores])), 4) for key in scores[0]}
            yield row | {"cpu_s": round(min(seconds), 2)}
