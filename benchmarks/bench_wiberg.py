"""Which ridge for the Wiberg row of Table 4? A tenth of the first split's training half decides; MovieLens, rank 10.

Errors are in the units of Table 4. The test half is not used. `rises` counts the steps after the first that raise the
objective, the l1 value plus the ridge; the start is not X = 0, so that the first value may exceed that of zero under a
large ridge. `cpu_s` and `wall_s` are of the whole fit, by the solver's clock.
"""

from collections.abc import Iterator

import numpy as np

import rankwise as rw
from rankwise.experiments import find
from rankwise.experiments.fit import parts
from rankwise.selection import mean_absolute_error, split_entries
from rankwise.solvers import Wiberg

from .common import Row

RIDGES = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


def run() -> Iterator[Row]:
    """Error on validation entries, l1 value per training entry, steps, rises and seconds by ridge."""
    for name in ("movielens-100k", "movielens-1m"):
        part = next(parts(find("table4"), rw.datasets.load(name)))
        train, validation = split_entries(part.train, 0.1, 0)
        for ridge in RIDGES:
            result = rw.solve(rw.Problem(train, "l1"), Wiberg(program="inexact", ridge=ridge), rank=10)
            predicted = result.model.at(validation.rows, validation.cols)
            fitted = result.model.at(train.rows, train.cols)
            last = result.history[-1]
            yield {
                "data": name,
                "ridge": ridge,
                "validation_MAE": round(mean_absolute_error(validation.targets, predicted), 4),
                "training_MAE": round(mean_absolute_error(train.targets, fitted), 4),
                "steps": len(result.history),
                "rises": int((np.diff(result.history.column("value")) > 0).sum()),
                "cpu_s": round(last.cpu_seconds, 1),
                "wall_s": round(last.wall_seconds, 1),
            }
