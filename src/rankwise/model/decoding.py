"""Predictions in the form that a metric asks for."""

from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, pdtrik

from .._errors import SettingError
from ..losses.base import takes_signs
from ..losses.links import response
from .targets import MOST, Targets

Array = NDArray[Any]
DECODINGS = {  # what each does, in words to print beside a score
    "clip": "clipped to the scale of the training targets",
    "round": "rounded to the grid of the training targets",
    "mean": "mean of the predictive distribution",
    "median": "median of the predictive distribution",
    "class": "most likely value",
    "probability": "probability of +1",
}


def decode(model: Any, x: Array, how: str, rows: Array, cols: Array, sure: bool) -> Array:
    """Predictions `x` of the link scale at row and column numbers, decoded; `sure` leaves their variances out."""
    if how not in DECODINGS:
        raise SettingError(f"`decode` must be one of {', '.join(map(repr, DECODINGS))}, got {how!r}.")
    variances = np.zeros(x.size)
    if not sure and model.posterior is not None:
        variances = model.posterior.variance_at(rows, cols)
    if how == "probability":
        return _probability(model, x, variances)
    targets = targets_of(model)
    if takes_signs(model.loss) or model.link == "logit":
        if how != "class":
            raise SettingError(
                f"decode={how!r} is not for signs; use 'class', or 'probability' with the logistic loss."
            )
        return _sign(targets, x)
    if how == "median":
        return _median(model, targets, x, rows, cols)
    if how == "mean":
        return response(model.link, x + 0.5 * variances * (model.link == "log")).clip(targets.low, targets.high)
    if how == "class":
        return _likeliest(model, x, variances, rows, cols)
    found = response(model.link, x).clip(targets.low, targets.high)
    if how == "round" and targets.step and not targets.grid.size:
        return np.asarray(np.rint(found))
    return found if how == "clip" else _nearest(_grid(targets, how), found)


def targets_of(model: Any) -> Targets:
    """Scale of the targets that a model was learned from, as its estimator left it."""
    if model.targets is None:
        raise SettingError("This model does not know the scale of its targets; models of an estimator's `fit` do.")
    found: Targets = model.targets
    return found


def _probability(model: Any, x: Array, variances: Array) -> Array:
    """Of +1: the logistic function averaged over a normal x, to within 0.02 (MacKay, 1992)."""
    if model.link != "logit":
        raise SettingError("decode='probability' is for the logistic loss, which predicts log-odds.")
    return response("logit", x / np.sqrt(1 + np.pi / 8 * variances))


def _sign(targets: Targets, x: Array) -> Array:
    """-1 or +1; where a prediction is zero, the more frequent one."""
    common = 1.0 if not targets.grid.size else targets.grid[int(np.argmax(targets.shares))]
    return np.where(x == 0, common, np.sign(x))


def _median(model: Any, targets: Targets, x: Array, rows: Array, cols: Array) -> Array:
    """Between the thresholds; of a Poisson distribution for counts; the prediction itself, clipped, without a grid."""
    if model.link == "log":
        rates = np.minimum(response("log", x), 1e9)
        return np.asarray(np.clip(np.ceil(np.maximum(pdtrik(0.5, rates), 0.0)), targets.low, targets.high))
    if not targets.grid.size:
        return x.clip(targets.low, targets.high)
    place = np.zeros(x.size, np.int64)
    for thresholds in targets.thresholds_at(rows, cols):
        place += x > thresholds
    return np.asarray(targets.grid[place])


def _likeliest(model: Any, x: Array, variances: Array, rows: Array, cols: Array) -> Array:
    """Value of the grid with the largest chance."""
    if model.link != "identity":
        raise SettingError("decode='class' is for signs and for targets on a grid; use 'round' or 'median' for counts.")
    grid = _grid(model.targets, "class")
    deviations = np.sqrt(np.maximum(variances + model.targets.noise_variance, np.finfo(float).tiny))
    place, best, below = np.zeros(x.size, np.int64), np.full(x.size, -1.0), np.zeros(x.size)
    for k, thresholds in enumerate(chain(model.targets.thresholds_at(rows, cols), [np.inf])):
        upto = ndtr((thresholds - x) / deviations)
        better = upto - below > best
        place[better], best[better], below = k, (upto - below)[better], upto
    return np.asarray(grid[place])


def _grid(targets: Targets, how: str) -> Array:
    if not targets.grid.size:
        raise SettingError(
            f"decode={how!r} needs training targets of at most {MOST} different values, each twice or more on average; "
            "use 'clip'."
        )
    return targets.grid


def _nearest(grid: Array, x: Array) -> Array:
    """The value of the grid next to each x; halfway, the upper one."""
    return np.asarray(grid[np.searchsorted(0.5 * (grid[1:] + grid[:-1]), x, side="right")])
