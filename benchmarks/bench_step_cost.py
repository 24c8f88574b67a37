"""How do steps of the methods that the paper names, and of local search, grow with rank and entries?

Their docstrings state O(rank n_observed + rank**2 (n_rows + n_cols)) per evaluation. Slashdot, logistic loss, CPU time.
By rank: medians of the steps at ranks near 5, 10 and 20, whose number of evaluations varies; active subspace
selection adds several terms per step, of which the nearest step is taken, and local search starts from EGLRL's point.
By entries: a quarter, half and all of the training entries at rank 10; rows and columns stay, so that exponents below
one show the part of the cost that depends on the shape.

Wiberg (inexact) and ADMM: the first half of MovieLens 1M in Table 4, l1 loss, medians of the last 3 of 20 steps, and a
quarter, half and all of its entries. ADMM's rank follows from the nuclear weight: 3, 2 and 1 times its default by rank,
2 times by entries. The cost of a Wiberg step is stated as O(rank**2 n_observed).
"""

from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np

import rankwise as rw
from rankwise.experiments import find
from rankwise.experiments.fit import parts
from rankwise.observations import Observations
from rankwise.selection import split_entries
from rankwise.solvers import (
    ADMM,
    GECO,
    ActiveSubspace,
    Boosting,
    FrankWolfe,
    GreedyPursuit,
    History,
    LocalSearch,
    Wiberg,
)

from .common import Row, exponent, signed_split

RANKS = (5, 10, 20)
SHARES = (0.25, 0.5, 1.0)
N_SWAPS = 3
WEIGHTS = (3.0, 2.0, 1.0)  # nuclear weights of ADMM, relative to its default
N_STEPS = 20

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


def l1_costs(train: Observations, name: str, size: float) -> tuple[float, None, int]:
    """Cost of the steps of Wiberg at this rank, or of ADMM at this multiple of its default weight."""
    problem = rw.Problem(train, "l1")
    rank, solver = int(size), Wiberg("inexact")
    if name == "admm":
        rank, solver = min(train.shape), ADMM(size * ADMM().init(problem, 1).nuclear_weight)
    history = rw.solve(problem, solver, rank=rank, max_iter=N_STEPS, tol=0.0).history
    seconds = np.diff(history.column("cpu_seconds"))
    return median(seconds[-N_SWAPS:]), None, int(median(history.column("rank")[-N_SWAPS:]))


def run() -> Iterator[Row]:
    """CPU milliseconds per step by rank and by number of entries, per method, with their exponents."""
    train, _ = signed_split("slashdot")
    shares = _shares(train)
    for name in SOLVERS:
        problem = rw.Problem(train, "logistic")
        by_rank = [costs(problem, name, rank) for rank in RANKS]
        yield _row(name, "rank", [cost[2] for cost in by_rank], by_rank)
        by_size = [costs(rw.Problem(share, "logistic"), name, 10) for share in shares]
        yield _row(name, "entries", [share.n_observed for share in shares], by_size)
    train = next(parts(find("table4"), rw.datasets.load("movielens-1m"))).train
    shares = _shares(train)
    for name, sizes in (("wiberg", RANKS), ("admm", WEIGHTS)):
        by_rank = [l1_costs(train, name, size) for size in sizes]
        yield _row(name, "rank", [cost[2] for cost in by_rank], by_rank)
        by_size = [l1_costs(share, name, sizes[1]) for share in shares]
        yield _row(name, "entries", [share.n_observed for share in shares], by_size)


def _shares(train: Observations) -> list[Observations]:
    return [train if share == 1 else split_entries(train, 1 - share, 0)[0] for share in SHARES]


def _row(name: str, against: str, sizes: list[int], found: list[tuple[float, float | None, int]]) -> Row:
    seconds, evaluations, ranks = zip(*found, strict=True)
    row = {
        "method": name,
        "against": against,
        "sizes": ", ".join(map(str, sizes)),
        "ranks": ", ".join(map(str, ranks)),
        "cpu_ms_per_step": ", ".join(f"{1e3 * one:.0f}" for one in seconds),
        "exponent": round(exponent(sizes, seconds), 2),
    }
    if None not in evaluations:
        row["evaluations"] = ", ".join(f"{one:g}" for one in evaluations)
        row["exponent_per_evaluation"] = round(exponent(sizes, np.divide(seconds, evaluations)), 2)
    return row
