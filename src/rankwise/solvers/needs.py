"""What a solver needs of the objective, refused by name before any work."""

from typing import Any

from .._errors import LossError
from ..objectives import Problem


def need_l1(objective: Any, method: str) -> Problem:
    """The objective itself, if it is the l1 loss on observed entries and nothing else."""
    if isinstance(objective, Problem) and objective.loss.name == "l1":
        return objective
    loss = getattr(objective, "loss", objective)
    raise LossError(f'{method} needs the l1 loss without a ridge, got {loss!r}; use loss="l1" or another method.')


def need_smooth(objective: Any, method: str) -> None:
    """Raise unless the objective is smooth."""
    if not objective.smooth:
        loss = getattr(objective, "loss", objective)
        raise LossError(
            f'{method} needs a smooth loss and {loss!r} is not declared smooth: use method="glrl-nonsmooth", '
            'or refine="none".'
        )
