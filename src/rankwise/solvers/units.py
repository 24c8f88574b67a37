"""A run in the units that a fit stores, with its records and its model in the units of the targets."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..losses.units import UNCHANGED, Units
from ..objectives import Entrywise, Objective, Problem, Ridged
from .base import Solver
from .history import History, Record


def units_of(objective: Objective) -> Units:
    """Return the units of an objective."""
    return objective.loss.units if isinstance(objective, Entrywise) else UNCHANGED


def in_own_units(objective: Objective, solver: Solver[Any, Any]) -> Objective:
    """Return the objective in units chosen from its targets; the objective itself for ordinary targets."""
    if isinstance(objective, Ridged):
        inner = in_own_units(objective.objective, solver)
        return objective if inner is objective.objective else ridged(inner, objective.ridge)
    if type(objective) is not Problem or units_of(objective) != UNCHANGED or not solver.converts_units:
        return objective
    return objective.in_own_units(level=solver.has_constant or objective.fixed_offsets is not None)


def ridged(objective: Objective, ridge: float) -> Ridged:
    """Return an objective with a ridge that is given in the units of the targets."""
    units = units_of(objective)
    return Ridged(objective, ridge * units.unit**2 / units.size)


class OriginalUnits:
    """Converts what a run of `solver` in the units of `objective` reports."""

    def __init__(self, objective: Objective, solver: Solver[Any, Any]) -> None:
        self.units, self.solver = units_of(objective), solver
        entries = objective.observations if isinstance(objective, Entrywise) else None
        self.weight = (
            objective.total_weight if isinstance(objective, Problem) else getattr(entries, "total_weight", 0.0)
        )

    def record(self, record: Record) -> Record:
        """Return a record with values in the units of the targets."""
        units = self.units
        value = self.solver.original_value(record.value, units, self.weight)
        sigma = None if record.sigma is None else record.sigma * units.size / units.unit
        return replace(record, value=value, sigma=sigma, gap=None if record.gap is None else record.gap * units.size)

    def history(self, history: History) -> History:
        """Return all records in the units of the targets."""
        if self.units == UNCHANGED:
            return history
        return History(history.initial_value * self.units.size, [self.record(record) for record in history])

    def callback(self, callback: Callable[[Record], bool | None] | None) -> Callable[[Record], bool | None] | None:
        """Return a callback that passes on records in the units of the targets."""
        if callback is None or self.units == UNCHANGED or not callable(callback):
            return callback
        return lambda record: callback(self.record(record))
