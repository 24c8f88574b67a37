"""How does a step of GECO, local search, boosting, active subspaces and Frank-Wolfe grow with rank and entries?

Their docstrings state O(rank n_observed + rank**2 (n_rows + n_cols)) per evaluation. Slashdot, logistic loss, CPU time.
By rank: medians of the steps at ranks near 5, 10 and 20, whose number of evaluations varies; active subspace
selection adds several terms per step, of which the nearest step is taken, and local search starts from EGLRL's point.
By entries: a quarter, half and all of the training entries at rank 10; rows and columns stay, so that exponents below
one show the part of the cost that depends on the shape.
"""

from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np

import rankwise as rw
from rankwise.selection import split_entries
from rankwise.solvers import GECO, ActiveSubspace, Boosting, FrankWolfe, GreedyPursuit, History, LocalSearch

from .common import Row, exponent, signed_split

RANKS = (5, 10, 20)
SHARES = (0.25, 0.5, 1.0)
N_SWAPS = 3

SOLVERS: dict[str, Any] = {
    "geco": GECO(),
    "local-search": LocalSearch(GreedyPursuit(), polish=N_SWAPS),
    "boosting": Boosting(3.0),  # a small weight: one more term per step up to all of these ranks
    "active-subspace": ActiveSubspace(3.0),  # likewise, with a few more terms per step
    "frank-wolfe": FrankWolfe(20000.0),
}


def step_costs(history: History, rank: int) -> tuple[float, float, int]:
    """Median CPU seconds and evaluations of the steps near `rank`, or of the last ones at one rank, and their rank."""
    ranks, seconds = history.column("rank"), np.diff(history.column("cpu_seconds"), prepend=0.0)
    near = np.abs(ranks - rank) <= max(1, 0.1 * rank)
    near[0] = False
    if ranks[-1] == ranks[-2]:  # at a fixed rank
        near = np.arange(ranks.size) >= ranks.size - N_SWAPS
    elif near.sum() < 2:  # several terms per step
        near = np.arange(ranks.size) == np.abs(ranks - rank).argmin()
    return median(seconds[near]), median(history.column("n_evaluations")[near]), int(median(ranks[near]))


def costs(problem: rw.Problem, name: str, rank: int) -> tuple[float, float, int]:
    """Cost of the steps of a method near a rank."""
    n_steps = rank + N_SWAPS if name == "local-search" else 5 if name == "active-subspace" else rank + 2
    history = rw.solve(problem, SOLVERS[name], rank=rank + (name == "geco"), max_iter=n_steps, tol=0.0).history
    return step_costs(history, rank)


def run() -> Iterator[Row]:
    """CPU milliseconds per step by rank and by number of entries, per method, with their exponents."""
    train, _ = signed_split("slashdot")
    parts = [train if share == 1 else split_entries(train, 1 - share, 0)[0] for share in SHARES]
    for name in SOLVERS:
        problem = rw.Problem(train, "logistic")
        by_rank = [costs(problem, name, rank) for rank in RANKS]
        yield _row(name, "rank", [cost[2] for cost in by_rank], by_rank)
        by_size = [costs(rw.Problem(part, "logistic"), name, 10) for part in parts]
        yield _row(name, "entries", [part.n_observed for part in parts], by_size)


def _row(name: str, against: str, sizes: list[int], found: list[tuple[float, float, int]]) -> Row:
    seconds, evaluations, ranks = zip(*found, strict=True)
    return {
        "method": name,
        "against": against,
        "sizes": ", ".join(map(str, sizes)),
        "ranks": ", ".join(map(str, ranks)),
        "cpu_ms_per_step": ", ".join(f"{1e3 * one:.0f}" for one in seconds),
        "evaluations": ", ".join(f"{one:g}" for one in evaluations),
        "exponent": round(exponent(sizes, seconds), 2),
        "exponent_per_evaluation": round(exponent(sizes, np.divide(seconds, evaluations)), 2),
    }
