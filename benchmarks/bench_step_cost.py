"""How does a step of GECO, local search, boosting, active subspaces and Frank-Wolfe grow with rank and entries?

Their docstrings state O(rank n_observed + rank**2 (n_rows + n_cols)) per evaluation. Slashdot, logistic loss, CPU time.
By rank: medians of the steps at ranks near 5, 10 and 20, whose number of evaluations varies; active subspace selection
runs at decreasing weights, local search from EGLRL's point. By entries: a quarter, half and all of the training entries
at rank 10; rows and columns stay, so that exponents below one show the part of the cost that depends on the shape.
"""

from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np

import rankwise as rw
from rankwise.selection import split_entries
from rankwise.solvers import GECO, ActiveSubspace, Boosting, FrankWolfe, GreedyPursuit, History, LocalSearch

from .common import Row, exponent, signed_split

RANKS = (5, 10, 20)
SHARES = (0.25, 0.5, 1.0)
WEIGHTS = {
    5: 20.0,
    10: 12.0,
    20: 7.5,
}  # of active subspace selection, for solutions near these ranks
N_SWAPS = 3

SOLVERS: dict[str, Callable[[int], Any]] = {
    "geco": lambda rank: GECO(),
    "local-search": lambda rank: LocalSearch(GreedyPursuit(), polish=N_SWAPS),
    "boosting": lambda rank: Boosting(3.0),  # a small weight: one more term per step up to all of these ranks
    "active-subspace": lambda rank: ActiveSubspace(WEIGHTS[rank]),
    "frank-wolfe": lambda rank: FrankWolfe(20000.0),
}


def step_costs(history: History, rank: int) -> tuple[float, float, int]:
    """Median CPU seconds and evaluations of the steps near `rank`, or of the last ones, and their median rank."""
    ranks, seconds = history.column("rank"), np.diff(history.column("cpu_seconds"), prepend=0.0)
    near = np.abs(ranks - rank) <= max(1, 0.1 * rank)
    near[0] = False
    if near.sum() < 2 or ranks[-1] == ranks[-2]:  # at a fixed rank
        near = np.arange(ranks.size) >= ranks.size - N_SWAPS
    return median(seconds[near]), median(history.column("n_evaluations")[near]), int(median(ranks[near]))


def costs(problem: rw.Problem, name: str, rank: int, share: float = 1.0) -> tuple[float, float, int]:
    """Cost of the steps of a method near a rank."""
    solver = SOLVERS[name](rank)
    if name == "active-subspace":
        solver = ActiveSubspace(share * WEIGHTS[rank])  # singular values of the gradient fall with the entries
    n_steps = rank + N_SWAPS if name == "local-search" else 12 if name == "active-subspace" else rank + 2
    history = rw.solve(problem, solver, rank=rank + (name == "geco"), max_iter=n_steps, tol=0.0).history
    return step_costs(history, rank)


def run() -> Iterator[Row]:
    """CPU milliseconds per step by rank and by number of entries, per method, with their exponents."""
    train, _ = signed_split("slashdot")
    parts = [train if share == 1 else split_entries(train, 1 - share, 0)[0] for share in SHARES]
    for name in SOLVERS:
        problem = rw.Problem(train, "logistic")
        by_rank = [costs(problem, name, rank) for rank in RANKS]
        yield _row(name, "rank", [cost[2] for cost in by_rank], by_rank)
        by_size = [
            costs(rw.Problem(part, "logistic"), name, 10, share) for part, share in zip(parts, SHARES, strict=True)
        ]
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
