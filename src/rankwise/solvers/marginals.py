"""Damped means of rows and columns: predictions for rows and columns that were not seen during fit."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from .._arrays import Array
from ..engines import Engine, Shard
from ..losses import Loss
from ..losses.base import classes_of
from ..losses.links import from_mean
from ..model import Marginals, Offsets
from .sweep_state import SweepState

LOG_DAMPINGS = (-6.0, 14.0)  # range of the logarithm of the damping


def without_factors(state: SweepState) -> dict[str, Any]:
    """Predictions at rank 0 and for unseen rows and columns, for the model; none if the fit has no offsets."""
    if state.baseline is None:
        return {}
    marginals = fit_marginals(state.rows.engine, state.loss, state.baseline)
    return {"baseline": state.baseline, "marginals": marginals}


def mean_offsets(state: SweepState, offsets: Offsets) -> Offsets:
    """Offsets for predictions at rank 0, from those fitted without factors; at most two passes.

    Huber's loss fits offsets that are nearer to medians. They get one round of damped means of the residuals: of all
    entries, of the columns, then of the rows, where targets farther than ``loss.mean_width`` from the constant count as
    that far. The damping is the ridge of the offsets in units of an entry, whose noise is at least the mean squared
    residual. Other losses keep their offsets.
    """
    loss, centre = state.loss, float(offsets.constant)
    if loss.quadratic or loss.link != "identity" or not loss.mean_width:
        return offsets
    for k, name, side in ((1, "cols", state.cols), (0, "rows", state.rows)):
        both = state.rows.engine.run(Shard.moments, centre, float(loss.mean_width), offsets)
        weights, sums, squares = both[k].T
        level, noise = float(sums.sum() / weights.sum()), float(squares.sum() / weights.sum())
        entry = min(state.scale * state.curvature, 1 / max(noise, 1e-30))
        offsets = replace(offsets, constant=offsets.constant + level)
        if side.offset:
            means = (sums + weights * (getattr(offsets, name) - level)) / (weights + side.precisions[-1] / entry)
            offsets = replace(offsets, **{name: means.astype(side.means.dtype)})
    return offsets


def fit_marginals(engine: Engine, loss: Loss, baseline: Offsets) -> Marginals:
    """Mean targets of every row and column, shrunk towards the mean of all, on the link scale; one pass.

    Targets farther than ``loss.mean_width`` from the constant of `baseline`, the offsets fitted without factors, count
    as that far. Under losses that do not predict a mean, the marginals are those offsets.
    """
    level = float(baseline.constant)
    centre = level if loss.link == "identity" else 0.0
    both = engine.run(Shard.moments, centre, float(loss.mean_width), None)
    rows, cols = (level + side.astype(np.float64) for side in (baseline.rows, baseline.cols))
    if loss.mean_width:
        weight, total, _ = both[0].sum(axis=0)
        rows, cols = (_linked(loss, centre + damped_means(*side.T)) for side in both)
        level = float(_linked(loss, centre + total / weight))
    return Marginals(rows, cols, both[0][:, 0].copy(), both[1][:, 0].copy(), level)


def _linked(loss: Loss, means: Array | float) -> Array:
    """Predictions on the link scale whose targets have these means."""
    low, high = classes_of(loss)
    return from_mean(loss.link, (2 * means - low - high) / (high - low) if loss.link == "logit" else means)


def damped_means(weights: Array, sums: Array, squares: Array) -> NDArray[np.float64]:
    """``level + (sums - weights * level) / (weights + damping)`` for the sums of each group, shape (n_groups,).

    The level is the mean of all. The damping has the least squared error when every entry in turn is left out of its
    group: an unseen row has at most one entry in a column.
    """
    level = float(sums.sum() / weights.sum())
    gaps, spreads = sums - level * weights, squares - 2 * level * sums + level**2 * weights

    def left_out(log_damping: float) -> float:
        share = 1.0 / (np.maximum(weights - 1.0, 0.0) + np.exp(log_damping))
        errors = (1 + share) ** 2 * spreads - (2 * (1 + share) - weights * share) * share * gaps**2
        return float(errors.sum())

    damping = np.exp(minimize_scalar(left_out, bounds=LOG_DAMPINGS, method="bounded").x)
    return np.asarray(level + gaps / (weights + damping))
