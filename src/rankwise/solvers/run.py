"""A run of a solver, where it is between two steps: begun, gone on with, and as what a checkpoint holds of it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import DataError
from ..model import LowRankModel
from ..objectives import Objective
from .history import History, Record, StepReport
from .iterates import Iterates
from .stopping import Status, Stopping


@dataclass(frozen=True)
class Kept:
    """A run as plain parts, all that its next steps and its model depend on; see `Run` for their meaning."""

    place: Any  # snapshot of the objective
    state: Any
    thetas: list[NDArray[Any]]
    values: list[float]
    initial_value: float
    records: list[Record]
    first: int
    previous: float
    before: float
    stop: tuple[str, str] | None
    seconds: tuple[float, float]


@dataclass
class Run:
    """What the loop carries from step to step.

    Attributes
    ----------
    state : object
        What the solver's steps carry.
    history : History
    iterates : Iterates
    first : int
        Draws made by the model that this run goes on from.
    previous, before : float
        Value after the last step, and before it; infinite if a small change must not end the run.
    stop : tuple of str or None
        Why the solver itself wants to stop here.
    seconds : tuple of float
        Wall and CPU seconds taken by an earlier process.
    """

    state: Any
    history: History
    iterates: Iterates
    first: int
    previous: float
    before: float = np.inf
    stop: tuple[str, str] | None = None
    seconds: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def begun(cls, objective: Objective, solver: Any, rank: int, start: LowRankModel | None) -> "Run":
        """Before the first step, from zero or from a model."""
        first = 0 if start is None else start.longest  # as many draws a pursuit has made
        state = solver.init(objective, rank) if start is None else solver.resume(objective, rank, start)
        value = objective.value()
        return cls(state, History(value), Iterates.begun(objective, solver, start), first, value)

    @classmethod
    def restored(cls, kept: Kept, objective: Any, solver: Any) -> "Run":
        """Where a checkpoint was written; raises `DataError` if its parts do not fit together."""
        objective.restore(kept.place)
        iterates = Iterates(objective, solver, kept.thetas, kept.values)
        counted = [record.step for record in kept.records] == list(range(1, len(kept.records) + 1))
        if not (counted and iterates.is_sound() and kept.first >= 0 and solver.accepts(objective, kept.state)):
            raise DataError("The parts of the checkpoint do not fit together.")
        history = History(kept.initial_value, kept.records)
        return cls(kept.state, history, iterates, kept.first, kept.previous, kept.before, kept.stop, kept.seconds)

    def kept(self, seconds: tuple[float, float]) -> Kept:
        """What a checkpoint holds."""
        place: Any = self.iterates.objective
        passed = self.iterates.thetas, self.iterates.values
        told = self.history.initial_value, list(self.history)
        return Kept(
            place.snapshot(), self.state, *passed, *told, self.first, self.previous, self.before, self.stop, seconds
        )

    def take(self, record: Record, report: StepReport) -> None:
        """A step was made."""
        self.history.append(record)
        self.before = self.previous if report.settled else np.inf
        self.previous, self.stop = record.value, report.stop

    def ended(self, stopping: Stopping) -> Status | None:
        """Why it ends after the last step, if it does."""
        if len(self.history) == 0:
            return None
        return stopping.reached(self.history[-1], self.before) or (Status(*self.stop) if self.stop else None)
