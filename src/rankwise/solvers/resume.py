"""Going on from a model: its sides laid out for the new rows and columns, its terms as the start of a longer path."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import SettingError
from ..engines import Engine
from ..model import LearnedSide, LowRankModel
from ..model.sides import Side
from ..objectives import Objective, Problem
from ..observations import LabelIndex
from .validation import need_move

Array = NDArray[Any]


def check_start(objective: Any, start: Any) -> None:
    """Raise unless `start` is a model whose predictions mean the same as the objective's."""
    if not isinstance(start, LowRankModel):
        raise SettingError(f"`start` must be a model to go on from, got {type(start).__name__}.")
    loss = getattr(objective, "loss", None)
    if loss is not None and loss.link != start.link:
        raise SettingError(
            f"The model predicts on the {start.link} scale and {loss!r} on the {loss.link} scale; fit anew without "
            "warm_start to change the loss so."
        )


def places(new: Array | None, old: Array | None, n_new: int, n_old: int) -> NDArray[np.int64]:
    """Where each new row was before, -1 for those that were not: by label if both have labels, else by number."""
    return LabelIndex(old, n_old, "row").align(LabelIndex(new, n_new, "row"), unknown="skip", by_position=True)


def side_places(problem: Problem, model: LowRankModel) -> tuple[Array, Array]:
    """Places of the problem's rows and columns in the model."""
    seen = problem.observations
    rows = places(seen.row_labels, model.row_labels, seen.shape[0], model.shape[0])
    return rows, places(seen.col_labels, model.col_labels, seen.shape[1], model.shape[1])


def laid_out(part: Array, place: Array, fill: Array | float, dtype: Any) -> Array:
    """Rows of `part` in their new places, `fill` in the others."""
    found = np.empty((place.size, part.shape[1]), dtype)
    found[:] = fill
    found[place >= 0] = part[place[place >= 0]]
    return found


def resumed_side(learned: LearnedSide, place: Array, uncertain: bool, engine: Engine, dtype: Any) -> Side:
    """A side where the model left it; new rows are zero, with the variance they have before they are seen."""
    means = laid_out(learned.means, place, 0.0, dtype)
    variances = laid_out(learned.variances, place, 1.0 / learned.precisions if uncertain else 0.0, dtype)
    counts = np.ones(place.size, dtype)
    return Side(engine, means, variances, learned.precisions, np.zeros_like(means), counts, learned.offset)


def resume_path(objective: Objective, rank: int, start: LowRankModel, method: str) -> None:
    """Move to the longest model of the path, from which more terms are to follow."""
    need_move(objective, f"Going on with {method}")
    seen: Any = getattr(getattr(objective, "objective", objective), "observations", None)
    labels = () if seen is None else ((seen.row_labels, start.row_labels), (seen.col_labels, start.col_labels))
    moved = any(new is not None and old is not None and not np.array_equal(new, old) for new, old in labels)
    if objective.shape != start.shape or moved:
        raise SettingError(
            f"{method} goes on only with the rows and columns it had, {start.shape[0]} x {start.shape[1]}; fit anew "
            'without warm_start, or use refine="bayes" or "factors", which take in new ones.'
        )
    if start.only_by is not None or start.learned is not None:
        raise SettingError(f"{method} goes on from the path of a pursuit, and this model has none; fit anew.")
    if rank <= start.longest:
        raise SettingError(
            f"{method} goes on to a higher rank than the {start.longest} that the model has, got rank={rank}; "
            "for lower ones, ask for predictions with `rank=`."
        )
    objective.reset()
    objective.move(start.path[-1], start.U, start.V)  # type: ignore[attr-defined]
