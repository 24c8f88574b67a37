"""Warm starts from a model: its sides for new rows and columns, or its terms as the start of a longer path."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from .._errors import SettingError
from ..engines import Engine
from ..model import Learned, LearnedSide, LowRankModel
from ..objectives import Entrywise, Movable, Objective, Problem
from ..objectives.sides import Side
from ..observations import Features, LabelIndex
from .feature_prior import continued_prior
from .row_priors import RowPrior
from .sweep_state import OFFSETS, SweepState
from .validation import MOVABLE, check_needs

if TYPE_CHECKING:
    from .sweeps import Sweeps


def check_start(objective: Objective, start: Any) -> None:
    """Raise unless `start` is a model with the objective's link."""
    if not isinstance(start, LowRankModel):
        raise SettingError(f"`start` must be a LowRankModel, got {type(start).__name__}.")
    loss = objective.loss if isinstance(objective, Entrywise) else None
    if loss is not None and loss.link != start.link:
        raise SettingError(
            f"`start` predicts on the {start.link} scale and {loss!r} on the {loss.link} scale; set warm_start=False "
            "to fit from scratch."
        )


def places(new: Array | None, old: Array | None, n_new: int, n_old: int) -> NDArray[np.int64]:
    """Old number of each new row, -1 for added rows; matched by label if both have labels, else by number."""
    return LabelIndex(old, n_old, "row").align(LabelIndex(new, n_new, "row"), unknown="skip", by_position=True)


def side_places(problem: Problem, model: LowRankModel) -> tuple[Array, Array]:
    """Numbers of the problem's rows and columns in the model, -1 for added ones."""
    entries = problem.observations
    rows = places(entries.row_labels, model.row_labels, entries.shape[0], model.shape[0])
    return rows, places(entries.col_labels, model.col_labels, entries.shape[1], model.shape[1])


def resumable_sides(solver: "Sweeps", start: LowRankModel, rank: int) -> Learned:
    """Return the sides of a model; raise `SettingError` unless it was fitted by such sweeps with the same offsets."""
    name, learned = type(solver).__name__, start.learned
    if learned is None or learned.uncertain != solver.uncertain:
        raise SettingError(f"{name} can only be warm-started from a model fitted by {name}; set warm_start=False.")
    bare = solver.offsets == "none" and start.offsets is not None
    if bare or (learned.rows.offset, learned.cols.offset) != OFFSETS[solver.offsets]:
        raise SettingError(f"offsets={solver.offsets!r} differs from the offsets of the model; set warm_start=False.")
    if rank < learned.rank:
        raise SettingError(
            f"`rank` must be at least the model's, {learned.rank}, for a warm start of {name}, got {rank}; for "
            "predictions of a lower rank use `predict_entries(..., rank=)`, or set warm_start=False."
        )
    return learned


def resumed_side(
    learned: LearnedSide, place: Array, uncertain: bool, engine: Engine, dtype: Any, features: Features | None = None
) -> Side:
    """Side of a model for new row numbers; added rows are zero and have the variance of the prior."""

    def laid_out(part: Array, fill: Array | float) -> Array:
        rows = np.empty((place.size, part.shape[1]), dtype)
        rows[:] = fill
        rows[place >= 0] = part[place[place >= 0]]
        return rows

    means = laid_out(learned.means, 0.0)
    variances = laid_out(learned.variances, 1.0 / learned.precisions if uncertain else 0.0)
    multipliers = np.ones(place.size, dtype)
    parts = engine, means, variances, learned.precisions, np.zeros_like(means), multipliers
    return Side(*parts, learned.offset, features=features)


def restore_priors(
    problem: Problem,
    state: SweepState,
    start: LowRankModel,
    make: Callable[[SweepState], list[RowPrior]],
    ridge: float = 1.0,
) -> None:
    """Make the priors of a state, with the parts of those of the model that fit, for new row numbers."""
    state.priors = make(state)
    learned, numbers = start.learned, side_places(problem, start)
    saved = (None, None) if learned is None else (learned.rows.prior, learned.cols.prior)
    for k, (arrays, place) in enumerate(zip(saved[: len(state.priors)], numbers[::-1], strict=False)):
        if arrays is not None:
            side, _ = state.sides[k]
            state.priors[k] = prior = continued_prior(state.priors[k], arrays, ridge, state.sides[k])
            prior.renumber(place, problem.dtype)
            side.prior_means = prior.row_means(side)


def resume_path(objective: Objective, rank: int, start: LowRankModel, method: str) -> None:
    """Move the objective to the longest model of the path of `start`, to which more terms will be added."""
    check_needs(objective, (MOVABLE,), f"A warm start of {method}")
    assert isinstance(objective, Movable)
    seen = objective.observations if isinstance(objective, Entrywise) else None
    labels = () if seen is None else ((seen.row_labels, start.row_labels), (seen.col_labels, start.col_labels))
    moved = any(new is not None and old is not None and not np.array_equal(new, old) for new, old in labels)
    if objective.shape != start.shape or moved:
        raise SettingError(
            f"{method} can only be warm-started with the rows and columns of the model, {start.shape[0]} x "
            f'{start.shape[1]}; set warm_start=False, or use method="bayes" or "factors", which accept new ones.'
        )
    if start.only_by is not None or start.learned is not None:
        raise SettingError(
            f"{method} can only be warm-started from a model fitted by a pursuit; set warm_start=False to fit from "
            "scratch."
        )
    if rank <= start.longest:
        raise SettingError(
            f"`rank` must be above the {start.longest} of the model for a warm start of {method}, got {rank}; "
            "for predictions of a lower rank use `predict_entries(..., rank=)`."
        )
    objective.reset()
    objective.move(start.path[-1], start.U, start.V)
