"""How well does `ImplicitFactorization` with default parameters rank clicks on published splits, and how fast is it?

Recall and NDCG at 20 over all test users, all columns ranked except those of the training part; published splits of
Gowalla and Amazon CDs (LightGCN, SimpleX), and of MovieLens 1M (`Movielens1M_m1`), whose validation part is neither
trained on nor excluded. Everything is chosen on entries held out from the training part: the latest of each user's line
(`time`), or random ones. Seconds are those of the whole fit, choices included.
"""

import gzip
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import rankwise as rw
from rankwise import DataError
from rankwise.selection import ranking_scores

from .common import Row

CASES = (
    ("ml1m", "random"),
    ("gowalla", "time"),
    ("gowalla", "random"),
    ("amazon-cds", "time"),
    ("amazon-cds", "random"),
)


def run(cases: tuple[tuple[str, str], ...] = CASES) -> Iterator[Row]:
    """One row per data set and way of holding out."""
    for name, held_out in cases:
        users, items, places = read(name, "train")
        start, cpu = time.perf_counter(), time.process_time()
        stamps = places if held_out == "time" else None
        fitted = rw.ImplicitFactorization().fit(np.column_stack((users, items)), time=stamps)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        users, items, _ = read(name, "test")
        scores = ranking_scores(fitted.model_, rw.Observations.from_labels(users, items, np.ones(users.size)))
        rule = fitted.rule_
        yield {
            "data": name,
            "held out": held_out,
            "recall@20": round(scores.recall, 4),
            "ndcg@20": round(scores.ndcg, 4),
            "coverage": round(scores.coverage, 3),
            "seconds": round(seconds, 1),
            "cpu_seconds": round(cpu, 1),
            "powers": f"{rule.row_power:g}, {rule.col_power:g}, {rule.score_power:g}",
            "rank": rule.rank,
            "neighbours": rule.neighbours,
            "low_rank": rule.low_rank,
            "absent": rule.absent,
        }


def read(name: str, part: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Users, items and places in the user's line of a part of a published split."""
    path = Path(os.environ.get("RANKWISE_DATA", "")) / "implicit" / name / f"{part}.txt.gz"
    if not path.exists():
        raise DataError(f"{path} is not there; set RANKWISE_DATA to the folder of the data sets.")
    with gzip.open(path, "rt") as lines:
        numbers = [np.array(line.split(), int) for line in lines]
    users = np.repeat([line[0] for line in numbers], [line.size - 1 for line in numbers])
    return (
        users,
        np.concatenate([line[1:] for line in numbers]),
        np.concatenate([np.arange(line.size - 1) for line in numbers]),
    )
