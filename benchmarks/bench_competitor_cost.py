"""How does a step of AltMin and of AIS-Impute grow with the rank? The paper states O(r n) and O(r**2 n). Slashdot.

Ranks about 10 to 40 (AltMin: to 80). AltMin runs at each rank; AIS-Impute at decreasing weights, timed at the rank of
its last iterates. `exponent` is the slope of log seconds per step against log rank, over all ranks and over the last
two; it is below the paper's where costs that do not depend on the rank still matter.
"""

from collections.abc import Iterator
from statistics import median

import numpy as np

import rankwise as rw
from rankwise.solvers import AISImpute

from .common import Row, signed_split

RANKS = (10, 20, 40, 80)
WEIGHTS = (8.0, 6.7, 5.8, 5.2)


def step_seconds(history: rw.solvers.History) -> tuple[float, int]:
    """Median seconds of the steps at the last rank and nearby, and that rank."""
    wall, ranks = history.column("wall_seconds"), history.column("rank")
    taken = np.diff(wall, prepend=0.0)
    at_rank = ranks >= 0.8 * ranks[-1]
    at_rank[0] = False
    return median(taken[at_rank]), int(median(ranks[at_rank]))


def run() -> Iterator[Row]:
    """Milliseconds per step at each rank, and the exponents."""
    train, _ = signed_split("slashdot")
    problem = rw.Problem(train, "logistic")
    for method in ("altmin", "ais-impute"):
        ranks, seconds = [], []
        for rank, weight in zip(RANKS, WEIGHTS, strict=True):
            solver = AISImpute(weight) if "ais" in method else method
            found, at = step_seconds(rw.solve(problem, solver, rank=rank, max_iter=40, tol=0).history)
            ranks.append(at)
            seconds.append(found)
        slope = np.polyfit(np.log(ranks), np.log(seconds), 1)[0]
        last = np.log(seconds[-1] / seconds[-2]) / np.log(ranks[-1] / ranks[-2])
        row: Row = {"method": method, "ranks": ", ".join(map(str, ranks))}
        row |= {"ms_per_step": ", ".join(f"{1e3 * s:.0f}" for s in seconds)}
        yield row | {"exponent": round(float(slope), 2), "exponent_last": round(float(last), 2)}
