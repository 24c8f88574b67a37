"""How much memory does an economic fit take at ten million observations? Target: 60 bytes each, plus the factors.

Peak resident memory during `fit` minus resident memory before it, in its own process, with compiled code loaded first.
"""

from collections.abc import Iterator
from typing import Any

import rankwise as rw
from rankwise.observations import Observations

from .common import THREADS, Meter, Row, apart, scattered, signs_of

RANK = 10


def extra(loss: str, kind: str, size: int) -> Row:
    """One row; for a process of its own."""

    def given(data: Observations) -> Any:
        data = signs_of(data) if loss == "logistic" else data
        return data.to_sparse() if kind == "scipy csr" else data

    estimator = rw.MatrixCompletion(loss, rank=RANK, method="eglrl", n_jobs=THREADS)
    estimator.fit(given(scattered(10_000, (500, 400))))
    data = given(scattered(size, (size // 100, 20_000)))
    with Meter() as meter:
        estimator.fit(data)
    n, factors = len(data.indices), 4 * RANK * sum(data.shape) / 1e6
    row: Row = {"loss": loss, "input": kind, "n_observed": n, "extra_MB": round(meter.megabytes)}
    row |= {"factors_MB": round(factors)}
    return row | {"bytes_per_observation": round(1e6 * (meter.megabytes - factors) / n, 1)}


def run(size: int = 10_000_000) -> Iterator[Row]:
    """Bytes per observation for two losses and two kinds of input."""
    for loss in ("square", "logistic"):
        for kind in ("Observations", "scipy csr"):
            yield apart(extra, loss, kind, size)
