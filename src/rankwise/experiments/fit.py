"""One fit of one method on one split, timed by the solver's clock, scored outside it."""

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
from .plan import Data, Experiment, Method, Split
from .scores import SCORES, Score
from .store import Line

APART = 1.02  # a curve's next point is this much later than the one before: hundreds of steps are not all scored
NO_WEIGHT = 1e12  # above the largest useful weight of any data: the solution is zero after one step


@dataclass(frozen=True)
class Part:
    """One split of a data set: entries to learn from, entries held out, and the size of a standardised unit."""

    number: int
    train: Observations
    held_out: Observations
    unit: float = 1.0


def parts(experiment: Experiment, observations: Observations) -> Iterator[Part]:
    """The splits that are run, in order."""
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
    """Targets of both sides less the training mean, over the training deviation, which becomes the unit."""
    targets = part.train.targets
    mean, deviation = float(targets.mean(dtype=float)), float(targets.std(dtype=float)) or 1.0
    train, held_out = (
        Observations.from_coo(side.rows, side.cols, (side.targets - mean) / deviation, side.shape)
        for side in (part.train, part.held_out)
    )
    return Part(part.number, train, held_out, deviation)


class Curve:
    """Callback of `solve` that scores steps on both sides of a split; the clock stands still meanwhile."""

    def __init__(self, problem: Problem, part: Part, score: Score) -> None:
        self.problem, self.part, self.score = problem, part, score
        self.columns: dict[str, list[float]] = {"cpu": [], "wall": [], "training": [], "testing": []}

    def __call__(self, record: Record) -> None:
        """Add a point, if it is far enough from the last one on a logarithmic axis."""
        wall = self.columns["wall"]
        if not wall or record.wall_seconds >= APART * wall[-1]:
            self.add(record)

    def end(self, record: Record) -> None:
        """Add the last point, unless it is there."""
        if self.columns["wall"][-1:] != [record.wall_seconds]:
            self.add(record)

    def add(self, record: Record) -> None:
        """Score the problem's point."""
        found = record.cpu_seconds, record.wall_seconds, *map(self._score, (self.part.train, self.part.held_out))
        for column, value in zip(self.columns.values(), found, strict=True):
            column.append(value)

    def _score(self, side: Observations) -> float:
        predicted = predict(*self.problem.point.padded, side.rows, side.cols)
        if self.problem.offsets is not None:
            predicted += self.problem.offsets.at(side.rows, side.cols)
        return self.score(side.targets, predicted, self.part.unit)


def fit(experiment: Experiment, data: Data, part: Part, solver: Any) -> Line:
    """Scores, seconds and, on the first split, the curve of one fit."""
    problem = Problem(part.train, experiment.loss)
    curve = Curve(problem, part, SCORES[experiment.scores[0]]) if part.number == 0 else None
    result = solve(problem, solver, rank=data.rank, time_limit=experiment.time_limit, callback=curve)
    if curve is not None and result.history:
        curve.end(result.history[-1])
    timed_out = result.status.reason == "time"
    found: Line = {
        "status": "time" if timed_out else "done",
        "end": result.status.reason,
        "message": str(result.status),
        "steps": len(result.history),
        "rank": result.model.rank,
        "cpu_seconds": result.history[-1].cpu_seconds if result.history else 0.0,
        "wall_seconds": result.history[-1].wall_seconds if result.history else 0.0,
        "scores": {} if timed_out else _scores(experiment, part, result.model),
    }
    return found if curve is None else found | {"curve": curve.columns}


def _scores(experiment: Experiment, part: Part, model: Any) -> dict[str, float]:
    side = part.held_out
    predicted = model.at(side.rows, side.cols)
    return {name: SCORES[name](side.targets, predicted, part.unit) for name in experiment.scores}


def search_weight(experiment: Experiment, data: Data, part: Part, method: Method) -> Line:
    """AIS-Impute's nuclear weight for the wanted rank, and what it took to find it; compiling left out."""
    problem = Problem(part.train, experiment.loss)
    settings = {name: value for name, value in method.settings_on(data.name).items() if name != "nuclear_weight"}
    solve(problem, AISImpute(NO_WEIGHT, **settings), rank=data.rank, max_iter=1)  # compiles
    start = time.perf_counter(), time.process_time()
    with threadpool_limits(limits=1, user_api="blas"):  # as `solve` has it
        state = AISImpute(**settings).init(problem, data.rank)
    wall, cpu = time.perf_counter() - start[0], time.process_time() - start[1]
    problem.close()
    return {"nuclear_weight": state.weight, "wall_seconds": wall, "cpu_seconds": cpu}
