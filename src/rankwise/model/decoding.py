"""Point predictions in the units of the targets, matched to a metric: ``predict_entries(decode=...)``."""

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, pdtrik

from .._arrays import Array
from .._checks import check_choice
from .._errors import SettingError
from ..losses.base import classes_of, takes_signs
from ..losses.links import response
from .targets import MAX_GRID, Targets

if TYPE_CHECKING:
    from .low_rank import LowRankModel

DECODINGS = {  # descriptions, printed beside scores
    "clip": "clipped to the scale of the training targets",
    "round": "rounded to the grid of the training targets",
    "mean": "mean of the predictive distribution",
    "median": "median of the predictive distribution",
    "class": "most likely value",
    "probability": "probability of the positive class",
}


def decode(model: "LowRankModel", x: Array, how: str, rows: Array, cols: Array, sure: bool) -> Array:
    """Decode link-scale predictions `x` at row and column numbers, shape (n,); `sure` takes their variances as zero."""
    check_choice("decode", how, DECODINGS)
    variances = np.zeros(x.size)
    if not sure and model.posterior is not None:
        known = (rows >= 0) & (cols >= 0)
        variances[known] = model.posterior.variance_at(rows[known], cols[known])
    if how == "probability":
        return _probability(model, x, variances)
    targets = targets_of(model)
    if takes_signs(model.loss) or model.link == "logit":
        if how != "class":
            raise SettingError(
                f"decode={how!r} is not for signs; use 'class', or 'probability' with the logistic loss."
            )
        return _class(model, targets, x)
    if how == "median":
        return _median(model, targets, x, rows, cols)
    if how == "mean":
        return response(model.link, x + 0.5 * variances * (model.link == "log")).clip(targets.low, targets.high)
    if how == "class":
        return _likeliest(model, x, variances, rows, cols)
    clipped = response(model.link, x).clip(targets.low, targets.high)
    if how == "round" and targets.step and not targets.grid.size:
        return np.asarray(np.rint(clipped))
    return clipped if how == "clip" else _nearest(_grid(targets, how), clipped)


def targets_of(model: "LowRankModel") -> Targets:
    """Range and distinct values of the training targets; SettingError if the model does not store them."""
    if model.targets is None:
        raise SettingError("This model does not know the scale of its targets; models of an estimator's `fit` do.")
    return model.targets


def _probability(model: "LowRankModel", x: Array, variances: Array) -> Array:
    """Probability of +1: mean of the logistic function at one standard deviation below and above the prediction.

    Sweeps average the loss over the same two points. There the slopes add up to zero, up to the prior, so that the mean
    probability of the training entries is the share of +1, also where +1 is rare.
    """
    if model.link != "logit":
        raise SettingError("decode='probability' is for the logistic loss, which predicts log-odds.")
    deviations = np.sqrt(variances)
    return 0.5 * (response("logit", x - deviations) + response("logit", x + deviations))


def _class(model: "LowRankModel", targets: Targets, x: Array) -> Array:
    """Class of the predictions, by their sign; the more frequent class where one is zero."""
    negative, positive = classes_of(model.loss)
    common = positive if not targets.grid.size else targets.grid[int(np.argmax(targets.shares))]
    return np.where(x == 0, common, np.where(x > 0, positive, negative))


def _median(model: "LowRankModel", targets: Targets, x: Array, rows: Array, cols: Array) -> Array:
    """Median of the predictive distribution: from the thresholds, of a Poisson law, or `x` clipped without a grid."""
    if model.link == "log":
        rates = np.minimum(response("log", x), 1e9)
        return np.asarray(np.clip(np.ceil(np.maximum(pdtrik(0.5, rates), 0.0)), targets.low, targets.high))
    if not targets.grid.size:
        return x.clip(targets.low, targets.high)
    place = np.zeros(x.size, np.int64)
    for thresholds in targets.thresholds_at(rows, cols):
        place += x > thresholds
    return np.asarray(targets.grid[place])


def _likeliest(model: "LowRankModel", x: Array, variances: Array, rows: Array, cols: Array) -> Array:
    """Value of the grid with the largest probability."""
    if model.link != "identity":
        raise SettingError("decode='class' is for signs and for targets on a grid; use 'round' or 'median' for counts.")
    targets = targets_of(model)
    grid = _grid(targets, "class")
    deviations = np.sqrt(np.maximum(variances + targets.noise_variance, np.finfo(float).tiny))
    place, best, below = np.zeros(x.size, np.int64), np.full(x.size, -1.0), np.zeros(x.size)
    for k, thresholds in enumerate(chain(targets.thresholds_at(rows, cols), [np.inf])):
        upto = ndtr((thresholds - x) / deviations)
        better = upto - below > best
        place[better], best[better], below = k, (upto - below)[better], upto
    return np.asarray(grid[place])


def _grid(targets: Targets, how: str) -> Array:
    if not targets.grid.size:
        raise SettingError(
            f"decode={how!r} needs training targets of at most {MAX_GRID} different values, each twice or more on "
            "average; use 'clip'."
        )
    return targets.grid


def _nearest(grid: Array, x: Array) -> Array:
    """Nearest value of the grid; the upper one halfway."""
    return np.asarray(grid[np.searchsorted(0.5 * (grid[1:] + grid[:-1]), x, side="right")])
