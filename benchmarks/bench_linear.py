"""Is the cost of a step linear in the observations? EGLRL steps from 1e5 to 1e7, 20,000 columns, 30 power iterations.

`exponent` is the slope of log time per step against log observations, from the row above; 1 is linear.
"""

import math
from collections.abc import Iterator
from statistics import median

import numpy as np

import rankwise as rw
from rankwise.observations import Observations

from .common import Row, scattered

SIZES = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)


def run(repeats: int = 3, rank: int = 5) -> Iterator[Row]:
    """Seconds per step, and nanoseconds per step and observation."""
    for loss in ("square", "logistic"):
        before: tuple[int, float] | None = None
        for size in SIZES:
            data = scattered(size, (max(2_000, size // 100), 20_000))
            if loss == "logistic":
                data = Observations(data.indptr, data.indices, np.sign(data.targets), data.shape)
            problem = rw.Problem(data, loss)
            step = median(rw.solve(problem, "eglrl", rank=rank).history[-1].wall_seconds for _ in range(repeats)) / rank
            row = {
                "loss": loss,
                "n_observed": data.n_observed,
                "step_ms": round(1e3 * step, 2),
                "ns_per_observation": round(1e9 * step / data.n_observed, 1),
            }
            if before is not None:
                row["exponent"] = round(math.log(step / before[1]) / math.log(data.n_observed / before[0]), 2)
            before = data.n_observed, step
            yield row
