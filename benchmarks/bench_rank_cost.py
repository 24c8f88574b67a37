"""Does a GLRL step grow linearly with the rank, and an EGLRL step not at all (Section 3.3)? Slashdot, rank 1 to 64.

Milliseconds per step in blocks of eight ranks, medians over runs. The slope is that of a line fitted to step time
against rank, relative to its start.
"""

from collections.abc import Iterator

import numpy as np

import rankwise as rw

from .common import Row, signed_split


def run(repeats: int = 3, rank: int = 64) -> Iterator[Row]:
    """Step time by rank, for both methods."""
    train, _ = signed_split("slashdot")
    problem = rw.Problem(train, "logistic")
    for method in ("eglrl", "glrl"):
        runs = [rw.solve(problem, method, rank=rank).history for _ in range(repeats)]
        wall = np.median([np.diff(run.column("wall_seconds"), prepend=0.0) for run in runs], axis=0)
        blocks = wall.reshape(-1, 8)
        centre = np.arange(4.5, rank, 8)
        slope, start = np.polyfit(np.arange(1, rank + 1), wall, 1)
        row: Row = {"method": method}
        row |= {f"rank~{int(c)}_ms": round(1e3 * float(np.median(b)), 1) for c, b in zip(centre, blocks, strict=True)}
        row |= {"slope_%_per_rank": round(100 * slope / start, 2)}
        yield row
