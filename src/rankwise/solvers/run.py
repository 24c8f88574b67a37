"""State of a solver run between two iterations, and its conversion to and from checkpoints."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._arrays import Array
from .._errors import DataError
from ..model import LowRankModel
from ..objectives import Checkpointable, Objective
from .base import Solver
from .history import History, Record, StepReport
from .iterates import Iterates
from .stopping import Status, Stopping


@dataclass(frozen=True)
class SavedRun:
    """A `Run` as plain parts, as a checkpoint stores it."""

    place: Any  # snapshot of the objective
    state: Any
    thetas: list[Array]
    values: list[float]
    initial_value: float
    records: list[Record]
    first: int
    previous: float
    before: float
    stop: tuple[str, str] | None
    seconds: tuple[float, float]
    moving: str


@dataclass
class Run:
    """A run between two iterations.

    Attributes
    ----------
    state : object
        State of the solver.
    history : History
    iterates : Iterates
    first : int
        Number of random streams used by the model of a warm start.
    previous, before : float
        Value after and before the last step; `before` is infinite if a small change must not end the run.
    stop : tuple of str or None
        Reason and message if the solver has asked to stop.
    seconds : tuple of float
        Wall and CPU seconds of earlier processes.
    moving : str
        Reason why the run is not settled, as reported by the last step.
    """

    state: Any
    history: History
    iterates: Iterates
    first: int
    previous: float
    before: float = np.inf
    stop: tuple[str, str] | None = None
    seconds: tuple[float, float] = (0.0, 0.0)
    moving: str = ""

    @classmethod
    def begun(cls, objective: Objective, solver: Solver[Any, Any], rank: int, start: LowRankModel | None) -> "Run":
        """Return the run before its first step, from zero or from a model."""
        first = 0 if start is None else start.longest  # a pursuit has made one draw per term
        state = solver.init(objective, rank) if start is None else solver.resume(objective, rank, start)
        value = objective.value()
        return cls(state, History(value), Iterates.begun(objective, solver, start), first, value)

    @classmethod
    def restored(cls, saved: SavedRun, objective: Checkpointable, solver: Solver[Any, Any]) -> "Run":
        """Return the run of a checkpoint; raise `DataError` if its parts are inconsistent."""
        objective.restore(saved.place)
        iterates = Iterates(objective, solver, saved.thetas, saved.values)
        counted = [record.step for record in saved.records] == list(range(1, len(saved.records) + 1))
        if not (counted and iterates.is_sound() and saved.first >= 0 and solver.accepts(objective, saved.state)):
            raise DataError("The parts of the checkpoint are inconsistent.")
        history = History(saved.initial_value, saved.records)
        values = saved.previous, saved.before
        return cls(saved.state, history, iterates, saved.first, *values, saved.stop, saved.seconds, saved.moving)

    def saved(self, objective: Checkpointable, seconds: tuple[float, float]) -> SavedRun:
        """Return the parts that a checkpoint stores."""
        return SavedRun(
            place=objective.snapshot(),
            state=self.state,
            thetas=self.iterates.thetas,
            values=self.iterates.values,
            initial_value=self.history.initial_value,
            records=list(self.history),
            first=self.first,
            previous=self.previous,
            before=self.before,
            stop=self.stop,
            seconds=seconds,
            moving=self.moving,
        )

    def append(self, record: Record, report: StepReport) -> None:
        """Store the outcome of a step."""
        self.history.append(record)
        self.before = self.previous if report.settled else np.inf
        self.previous, self.stop, self.moving = record.value, report.stop, report.moving

    def ended(self, stopping: Stopping) -> Status | None:
        """Return why the run ends after the last step; None if it does not."""
        if len(self.history) == 0:
            return None
        status = stopping.reached(self.history[-1], self.before, self.moving)
        return status or (Status(*self.stop) if self.stop else None)
