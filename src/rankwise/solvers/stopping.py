"""Stopping criteria, and the status of a run that has ended."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .._checks import is_number, is_whole
from .._errors import SettingError
from .history import Record


@dataclass(frozen=True)
class Status:
    """Why a run ended: a reason for programs, a message for people.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.solvers.Status("rank", "Reached rank 2.").reason
    'rank'
    """

    reason: str
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class Stopping:
    """Stopping criteria: rank, number of steps, relative change of the value, time, and a callback.

    `at_rank` tells whether reaching `rank` ends the run. A run that is not settled after `max_iter` steps takes more of
    them, up to `most` if that is larger. `tol` is relative to the value's distance from `zero`.
    """

    rank: int
    max_iter: int | None = None
    tol: float = 0.0
    time_limit: float | None = None
    callback: Callable[[Record], bool | None] | None = None
    at_rank: bool = True
    most: int = 0
    zero: float = 0.0

    def check(self) -> None:
        """Raise if a criterion is invalid."""
        if not is_whole(self.rank) or self.rank < 1:
            raise SettingError(f"`rank` must be a positive integer, got {self.rank!r}.")
        if self.max_iter is not None and not (is_whole(self.max_iter) and self.max_iter >= 1):
            raise SettingError(f"`max_iter` must be a positive integer or None, got {self.max_iter!r}.")
        if not _at_least(self.tol, 0):
            raise SettingError(f"`tol` must be a number of at least zero, got {self.tol!r}.")
        if self.time_limit is not None and not (_at_least(self.time_limit, 0) and self.time_limit > 0):
            raise SettingError(f"`time_limit` must be a positive number of seconds, got {self.time_limit!r}.")
        if self.callback is not None and not callable(self.callback):
            raise SettingError(f"`callback` must be callable with a record, got {type(self.callback).__name__}.")

    def reached(self, record: Record, previous: float, moving: str = "") -> Status | None:
        """Return the status if the run ends after `record`; otherwise None.

        Parameters
        ----------
        record : Record
        previous : float
            Value before the step.
        moving : str
            Reason why the run is not settled; empty if it is.
        """
        if self.callback is not None and self.callback(record):
            return Status("callback", f"The callback stopped the run at rank {record.rank}.")
        if self.at_rank and record.rank >= self.rank:
            return Status("rank", f"Reached rank {record.rank}.")
        if self.max_iter is not None and record.step >= max(self.max_iter, self.most if moving else 0):
            unsettled = f"; not settled: {moving}, raise `max_iter`" if moving else ""
            return Status("max_iter", f"Took {record.step} steps, to rank {record.rank}{unsettled}.")
        if self.tol > 0 and abs(previous - record.value) <= self.tol * abs(record.value - self.zero):
            return Status("tol", f"Step {record.step} changed the value by less than {self.tol:g} of itself.")
        if self.time_limit is not None and record.wall_seconds >= self.time_limit:
            return Status("time", f"The time limit of {self.time_limit:g} s was reached at rank {record.rank}.")
        return None


def _at_least(value: Any, least: float) -> bool:
    return is_number(value) and bool(value >= least)
