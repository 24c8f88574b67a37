"""What the loop asks of every solver."""

from typing import Any, ClassVar

from numpy.random import Generator

from .._errors import SettingError
from ..model import LowRankModel
from .history import StepReport


class Solver:
    """Base of the solvers: `init` moves to the start, `step` makes one step and reports it.

    `grows`: each step adds to the rank, and the run ends at the wanted one; the others work at one rank.
    `keeps_path`: terms stay as they are when others join, so that the model of every rank passed is kept.
    `descends`: no step raises the value, so that the last point is the best.
    `truncates`: terms change when others join, and a model of lower rank is the truncated one.
    `checkpoints`: what the steps carry can be written to a checkpoint.
    `max_iter`: steps to take at most unless the caller says otherwise; pursuits stop at the rank instead.

    Examples
    --------
    >>> import rankwise as rw
    >>> [name for name, (solver, _) in rw.solvers.METHODS.items() if not solver.grows]
    ['bayes', 'factors', 'ais-impute', 'soft-impute', 'altmin', 'admm', 'wiberg']
    """

    grows: ClassVar[bool] = True
    keeps_path: ClassVar[bool] = True
    descends: ClassVar[bool] = True
    truncates: ClassVar[bool] = False
    max_iter: int | None = None
    checkpoints: ClassVar[bool] = True

    def init(self, objective: Any, rank: int) -> Any:
        """Move to the start; return the state that the steps carry."""
        raise NotImplementedError(f"{type(self).__name__} has no start.")

    def resume(self, objective: Any, rank: int, start: LowRankModel) -> Any:
        """Move to where a model is, to go on from there; return the state that the steps carry."""
        raise SettingError(f"{type(self).__name__} cannot go on from a model; fit anew (warm_start=False).")

    def steps_from(self, start: LowRankModel | None, rank: int) -> int | None:
        """Steps to take at most, from nothing or going on from a model, unless the caller says otherwise."""
        return self.max_iter

    def step(self, objective: Any, rng: Generator, state: Any) -> StepReport:
        """Make one step."""
        raise NotImplementedError(f"{type(self).__name__} makes no step.")

    def accepts(self, objective: Any, state: Any) -> bool:
        """Whether a state from a file is one that the steps can carry on with."""
        return True

    def finish(self, state: Any) -> dict[str, Any]:
        """What the model keeps beside its terms."""
        return {}
