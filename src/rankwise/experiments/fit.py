"""Fit of one method on one split: times by the solver's clock, and scores, which the clock excludes."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from threadpoolctl import threadpool_limits

from .. import selection
from ..model import predict
from ..objectives import Problem
from ..observations import Observations
from ..solvers import AISImpute, Record, solve
from .plan import Data, Experiment, Split
from .scores import SCORES, TableScore
from .store import StoredLine

SPACING = 1.02  # ratio of the times of two points of a curve, so that few of many iterations are scored
HUGE_WEIGHT = 1e12  # the solution is zero after one iteration


@dataclass(frozen=True)
class Part:
    """Split of a data set: training entries, held-out entries, and the size of a standardized unit."""

    number: int
    train: Observations
    held_out: Observations
    unit: float = 1.0


def parts(experiment: Experiment, observations: Observations) -> Iterator[Part]:
    """Yield the splits of the experiment in order."""
    pairs = islice(_pairs(experiment.split, observations), experiment.used)
    for number, (train, held_out) in enumerate(pairs):
        part = Part(number, train, held_out)
        yield standardised(part) if experiment.standardise else part


def _pairs(split: Split, observations: Observations) -> Iterator[tuple[Observations, Observations]]:
    if split.kind == "folds":
        return selection.folds(observations, split.parts, split.seed)
    seeds = range(split.seed, split.seed + split.parts)
    return (selection.split_entries(observations, split.held_out, seed) for seed in seeds)


def standardised(part: Part) -> Part:
    """Return the split with targets standardized by the mean and the standard deviation of the training targets."""
    targets = part.train.targets
    mean, deviation = float(targets.mean(dtype=float)), float(targets.std(dtype=float)) or 1.0
    train, held_out = (
        Observations.from_coo(entries.rows, entries.cols, (entries.targets - mean) / deviation, entries.shape)
        for entries in (part.train, part.held_out)
    )
    return Part(part.number, train, held_out, deviation)


class Curve:
    """Callback of `solve` that records times, and scores on the training and the held-out entries."""

    def __init__(self, problem: Problem, part: Part, score: TableScore) -> None:
        self.problem, self.part, self.score = problem, part, score
        self.columns: dict[str, list[float]] = {"cpu": [], "wall": [], "training": [], "testing": []}

    def __call__(self, record: Record) -> None:
        """Add a point if the time since the last one is long enough on a logarithmic axis."""
        wall = self.columns["wall"]
        if not wall or record.wall_seconds >= SPACING * wall[-1]:
            self.add(record)

    def end(self, record: Record) -> None:
        """Add the last iteration, unless it has been added."""
        if self.columns["wall"][-1:] != [record.wall_seconds]:
            self.add(record)

    def add(self, record: Record) -> None:
        """Score the current iterate, and add a point."""
        scores = map(self._score, (self.part.train, self.part.held_out))
        point = record.cpu_seconds, record.wall_seconds, *scores
        for column, value in zip(self.columns.values(), point, strict=True):
            column.append(value)

    def _score(self, entries: Observations) -> float:
        predicted = predict(*self.problem.point.padded, entries.rows, entries.cols)
        if self.problem.offsets is not None:
            predicted += self.problem.offsets.at(entries.rows, entries.cols)
        return self.score(entries.targets, predicted, self.part.unit)


def fit(experiment: Experiment, data: Data, part: Part, solver: Any) -> StoredLine:
    """Return status, rank, times and scores of one fit; on the first split, also its curve."""
    problem = Problem(part.train, experiment.loss)
    curve = Curve(problem, part, SCORES[experiment.scores[0]]) if part.number == 0 else None
    result = solve(problem, solver, rank=data.rank, time_limit=experiment.time_limit, callback=curve)
    if curve is not None and result.history:
        curve.end(result.history[-1])
    timed_out = result.status.reason == "time"
    line: StoredLine = {
        "status": "time" if timed_out else "done",
        "end": result.status.reason,
        "message": str(result.status),
        "steps": len(result.history),
        "rank": result.model.rank,
        "cpu_seconds": result.history[-1].cpu_seconds if result.history else 0.0,
        "wall_seconds": result.history[-1].wall_seconds if result.history else 0.0,
        "scores": {} if timed_out else _scores(experiment, part, result.model),
    }
    return line if curve is None else line | {"curve": curve.columns}


def _scores(experiment: Experiment, part: Part, model: Any) -> dict[str, float]:
    held_out = part.held_out
    predicted = model.at(held_out.rows, held_out.cols)
    return {name: SCORES[name](held_out.targets, predicted, part.unit) for name in experiment.scores}


def search(experiment: Experiment, data: Data, part: Part) -> StoredLine:
    """Return the weight at which AIS-Impute reaches the rank, its solution's nuclear norm, and the seconds taken."""
    problem = Problem(part.train, experiment.loss)
    solve(problem, AISImpute(HUGE_WEIGHT), rank=data.rank, max_iter=1)  # compiles the kernels, which is not timed
    start = time.perf_counter(), time.process_time()
    with threadpool_limits(limits=1, user_api="blas"):  # as in `solve`
        weight, solution = AISImpute().search(problem, data.rank)
    wall, cpu = time.perf_counter() - start[0], time.process_time() - start[1]
    problem.close()
    return {"nuclear_weight": weight, "radius": float(solution.s.sum()), "wall_seconds": wall, "cpu_seconds": cpu}
