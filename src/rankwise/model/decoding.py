"""Point predictions in the units of the targets, matched to a metric: ``predict_entries(decode=...)``."""

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, pdtrik

from .._arrays import Array
from .._checks import check_choice
from .._errors import SettingError
from ..losses.base import classes_of, takes_signs
from ..losses.levels import LevelsLoss
from ..losses.links import response
from .odds import OddsCalibration, averages
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
    if how == "probability" and model.link != "logit":
        raise SettingError(
            "decode='probability' is for the logistic loss, which predicts log-odds; levels have `predict_proba`."
        )
    if how == "probability":
        return respond(model, x, rows, cols, sure)
    if isinstance(model.loss, LevelsLoss):
        return _level(model.loss, how, x, variances_at(model, rows, cols, sure))
    targets = targets_of(model)
    variances = variances_at(model, rows, cols, sure)
    if takes_signs(model.loss) or model.link == "logit":
        if how != "class":
            raise SettingError(
                f"decode={how!r} is not for signs; use 'class', or 'probability' with the logistic loss."
            )
        odds = respond(model, x, rows, cols, sure) - 0.5 if model.link == "logit" else x
        return _class(model, targets, odds)
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
        raise SettingError("This model does not know the scale of its targets; models of `MatrixCompletion.fit` do.")
    return model.targets


def variances_at(model: "LowRankModel", rows: Array, cols: Array, sure: bool) -> Array:
    """Posterior variances at row and column numbers, shape (n,); 0 if `sure`, at unknown ones, or without any."""
    variances = np.zeros(rows.size)
    if not sure and model.posterior is not None:
        known = (rows >= 0) & (cols >= 0)
        variances[known] = model.posterior.variance_at(rows[known], cols[known])
    return variances


def respond(model: "LowRankModel", x: Array, rows: Array, cols: Array, sure: bool) -> Array:
    """Predictions `x` on the response scale at row and column numbers, shape (n,); `sure` as in `decode`.

    Probabilities are calibrated if the model is, where row and column are known. Else they are averages over the
    posterior.
    """
    if model.link != "logit":
        return response(model.link, x)
    variances = variances_at(model, rows, cols, sure)
    uncalibrated = averages(x, variances)
    if sure or not isinstance(model.calibration, OddsCalibration):
        return uncalibrated
    return np.where((rows >= 0) & (cols >= 0), model.calibration.at(x, variances), uncalibrated)


def respond_everywhere(model: "LowRankModel", x: Array, rank: int | None) -> Array:
    """Predictions `x` of the whole matrix, of that rank, on the response scale."""
    if model.link != "logit":
        return response(model.link, x)
    rows, cols = np.indices(model.shape).reshape(2, -1)
    return respond(model, x.ravel(), rows, cols, sure=rank not in (None, model.rank)).reshape(model.shape)


def class_probabilities(model: "LowRankModel", x: Array, rows: Array, cols: Array) -> Array:
    """Probabilities of the two classes or of all levels at link-scale predictions, shape (n, n_classes)."""
    if isinstance(model.loss, LevelsLoss):
        above = model.loss.exceedances(x, variances_at(model, rows, cols, sure=False))
        return -np.diff(above, axis=1, prepend=1.0, append=0.0)
    if model.link != "logit":
        raise SettingError("Probabilities of classes need the logistic, Bernoulli, ordinal or proportional-odds loss.")
    positive = respond(model, x, rows, cols, sure=False)
    return np.column_stack((1 - positive, positive))


def _level(loss: LevelsLoss, how: str, x: Array, variances: Array) -> Array:
    """Mean, median or most likely level under the probabilities that the loss gives to the levels.

    The mean lies within the levels, so that "clip" changes nothing. A loss that is no likelihood has a median only.
    """
    if how == "median":
        return loss.median(x).astype(np.float64)
    if not loss.is_likelihood:
        raise SettingError(f"decode={how!r} needs a likelihood, which {type(loss).__name__} is not; use 'median'.")
    above = loss.exceedances(x, variances)
    if how == "class":
        likeliest: Array = np.argmax(-np.diff(above, axis=1, prepend=1.0, append=0.0), axis=1).astype(np.float64)
        return likeliest
    mean = above.sum(axis=1)
    return np.asarray(np.rint(mean) if how == "round" else mean)


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
