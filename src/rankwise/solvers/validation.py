"""What a solver needs of the objective and of its settings, refused by name before any work."""

from typing import Any

import numpy as np

from .._checks import is_number
from .._errors import LossError, SettingError
from ..objectives import Problem
from ..observations import Observations


def need_l1(objective: Any, method: str) -> Problem:
    """The objective itself, if it is the l1 loss on observed entries and nothing else."""
    if isinstance(objective, Problem) and objective.loss.name == "l1":
        if objective.given_offsets is not None:
            raise SettingError(f"{method} knows no offsets; subtract them from the targets, or use another method.")
        return objective
    loss = getattr(objective, "loss", objective)
    raise LossError(f'{method} needs the l1 loss without a ridge, got {loss!r}; use loss="l1" or another method.')


def need_entries(objective: Any, method: str) -> Problem:
    """The objective itself, if it is a loss on observed entries and nothing else."""
    if isinstance(objective, Problem) and objective.given_offsets is not None:
        raise SettingError(f"{method} finds offsets of its own; make the `Problem` without any.")
    if isinstance(objective, Problem):
        return objective
    raise SettingError(
        f"{method} solves for the factors of observed entries and has a ridge of its own, so it needs a `Problem`, "
        f"got {type(objective).__name__}."
    )


def need_smooth(objective: Any, method: str) -> None:
    """Raise unless the objective is smooth."""
    if not objective.smooth:
        loss = getattr(objective, "loss", objective)
        raise LossError(
            f'{method} needs a smooth loss and {loss!r} is not declared smooth: use method="glrl-nonsmooth", '
            'or refine="none".'
        )


def need_move(objective: Any, method: str) -> None:
    """Raise unless the objective, inside a ridge if any, can move to any low-rank matrix."""
    inner = getattr(objective, "objective", objective)
    if not hasattr(inner, "move"):
        raise SettingError(
            f"{method} needs an objective that can move to any low-rank matrix, as Problem can, and "
            f'{type(inner).__name__} cannot: use method="glrl" or "eglrl".'
        )


def need_positive(name: str, given: Any, optional: bool = False) -> None:
    """Raise unless `given` is a positive, finite number, or None where that will do."""
    if not (optional and given is None) and not (is_number(given) and 0 < given < np.inf):
        raise SettingError(f"`{name}` must be a positive number, got {given!r}.")


def need_not_negative(name: str, given: Any) -> None:
    """Raise unless `given` is a finite number of at least zero."""
    if not (is_number(given) and 0 <= given < np.inf):
        raise SettingError(f"`{name}` must be a number of at least zero, got {given!r}.")


def need_share(shrinkage: Any) -> None:
    """Raise unless `shrinkage` is above zero and at most one."""
    if not is_number(shrinkage) or not 0 < shrinkage <= 1:
        raise SettingError(f"`shrinkage` must be above 0 and at most 1, got {shrinkage!r}.")


def need_in_memory(entries: Any, what: str, instead: str) -> Observations:
    """The entries themselves, if they are in memory."""
    if not isinstance(entries, Observations):
        raise SettingError(
            f"{what} needs the entries in memory, and these are in a {type(entries).__name__}: {instead}."
        )
    return entries
