"""Are the default's constants right on entries that no held-out score of ours has seen?

Only the training part of split 0 of each data set is used; a tenth of it is held out, twice (seeds 11 and 12). One
constant at a time is changed; the others keep their default, which is the row marked `=`. `cost`: RMSE or wrong signs
in %, mean of both, with its standard error over the held-out entries; `change`: difference from the default with its
paired standard error, which is much smaller because the entries are the same. The last column states for each constant
whether the default is within one standard error of the best value, and how much better that value is if the paired
comparison is significant. On the networks only the most important constants are changed.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import rankwise as rw
from rankwise.estimators.planning import most_factors, resolve_loss
from rankwise.solvers import BayesSweeps, sweeps

from .common import SHARES, Row, Split, default_problem

SEEDS = (11, 12)
SWEEPS = BayesSweeps()
MODULE = ("START", "OFFSET_RIDGE", "OFFSET_SWEEPS", "N_POWER")  # constants of solvers/sweeps.py
VALUES: dict[str, tuple[Any, ...]] = {
    "start_precision": (3.0, 30.0),
    "START": (0.01, 1.0),
    "pattern_ridge": (1.0, 3.0, 10.0),
    "pattern_prior": (False,),
    "rank": (15, 31, 47),
    "max_iter": (8, 18),
    "loss": ("square", 1.0, 2.0),
    "OFFSET_RIDGE": (0.5, 8.0),
    "OFFSET_SWEEPS": (1, 6),
    "N_POWER": (1, 6),
}
ON_SIGNS = ("start_precision", "START", "pattern_ridge", "pattern_prior", "rank", "max_iter")
USUAL = {"rank": "auto", "max_iter": SWEEPS.max_iter, "loss": 1.345}


def usual(name: str) -> Any:
    """The default of a constant."""
    if name in MODULE:
        return getattr(sweeps, name)
    return USUAL.get(name) or getattr(SWEEPS, name)


def errors(split: Split, name: str = "", value: Any = None) -> np.ndarray:
    """Squared error, or whether the sign is wrong, at each held-out entry, with one constant changed."""
    settings = {name: value} if name in ("start_precision", "pattern_ridge", "pattern_prior") else {}
    loss: Any = "auto"
    if name == "loss":
        spread = resolve_loss("auto", split.train, "bayes").delta / USUAL["loss"]
        loss = value if isinstance(value, str) else rw.losses.Huber(value * spread)
    with patch.object(sweeps, name, value) if name in MODULE else nullcontext():
        found = rw.solve(
            default_problem(split, loss),
            BayesSweeps(**settings),
            rank=value if name == "rank" else most_factors(split.train),
            max_iter=value if name == "max_iter" else None,
        )
    predicted, targets = found.model.at(split.held_out.rows, split.held_out.cols), split.held_out.targets
    if split.signs:
        return (np.where(predicted < 0, -1, 1) != targets).astype(float)
    return (np.clip(predicted, split.train.targets.min(), split.train.targets.max()) - targets) ** 2


class Change(NamedTuple):
    """What a value does to the cost."""

    value: Any
    cost: float
    spread: float
    change: float
    deviation: float


def changed(value: Any, found: np.ndarray, base: np.ndarray, signs: bool) -> Change:
    """Cost and its change, each with its standard error, by the slope of the square root for RMSE."""
    cost, less = found.mean(), found - base
    slope = 100.0 if signs else 0.5 / np.sqrt(cost)
    spread, deviation = (slope * each.std(ddof=1) / np.sqrt(less.size) for each in (found, less))
    return Change(value, 100 * cost if signs else float(np.sqrt(cost)), spread, slope * less.mean(), deviation)


def judged(name: str, changes: list[Change]) -> Iterator[Row]:
    """The rows of one constant."""
    best = min(changes, key=lambda one: one.change)
    verdict = "yes" if -best.change <= best.spread else "no"
    if -best.change > best.deviation:
        verdict += (
            f", but {best.value} is better by {-best.change:.4f}, {-best.change / best.deviation:.1f} paired errors"
        )
    for one in sorted(changes, key=lambda one: (isinstance(one.value, str), one.value)):
        row: Row = {"constant": name, "value": f"{one.value} =" if one.value == usual(name) else one.value}
        row |= {"cost": f"{one.cost:.4f} ± {one.spread:.4f}", "change": f"{one.change:+.4f} ± {one.deviation:.4f}"}
        yield row | ({"default_is_fine": verdict} if one.value == usual(name) else {})


def run(names: tuple[str, ...] = tuple(SHARES), seeds: tuple[int, ...] = SEEDS) -> Iterator[Row]:
    """All constants on all data sets, the networks last."""
    for name in names:
        splits = [Split.of(Split.load(name).train, 0.1, seed) for seed in seeds]
        signs = splits[0].signs
        base = np.concatenate([errors(split) for split in splits])
        for constant in ON_SIGNS if signs else VALUES:
            changes = [changed(usual(constant), base, base, signs)]
            for value in VALUES[constant]:
                found = np.concatenate([errors(split, constant, value) for split in splits])
                changes.append(changed(value, found, base, signs))
            yield from ({"data": name} | row for row in judged(constant, changes))
