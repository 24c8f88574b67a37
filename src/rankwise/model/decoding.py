"""Point predictions in the units of the targets, matched to a metric: ``predict_entries(decode=...)``."""

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import pdtrik

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
        return _sign(model, how, x, rows, cols, sure)
    if how in ("mean", "median", "class"):
        if model.link == "log":
            return _count(how, x, variances).clip(targets.low, targets.high)
        return _of_grid(model, how, x, variances, rows, cols) if targets.thresholds.size else _real(model, how, x)
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
    """Probabilities of the values of `levels_of` at link-scale predictions, shape (n, n_levels)."""
    levels_of(model)  # raises if there are none
    if model.link == "logit":
        positive = respond(model, x, rows, cols, sure=False)
        return np.column_stack((1 - positive, positive))
    variances = variances_at(model, rows, cols, sure=False)
    if isinstance(model.loss, LevelsLoss):
        return -np.diff(model.loss.exceedances(x, variances), axis=1, prepend=1.0, append=0.0)
    upto = np.column_stack([np.zeros(x.size), *targets_of(model).cumulative(x, variances, rows, cols), np.ones(x.size)])
    return np.diff(upto, axis=1)


def levels_of(model: "LowRankModel") -> Array:
    """Values that the predictive distribution gives probabilities to, rising; SettingError if it is not discrete."""
    loss = model.loss
    if model.link == "logit":
        return np.array(classes_of(loss))
    if isinstance(loss, LevelsLoss) and loss.is_likelihood:
        return np.arange(loss.levels, dtype=np.float64)
    if isinstance(loss, LevelsLoss) or takes_signs(loss):
        raise SettingError(f"{type(loss).__name__} is no likelihood, so that its targets have no probabilities.")
    if model.link == "log":
        raise SettingError("Counts have no largest value, so that there is no table of their probabilities.")
    if model.targets is None or not model.targets.thresholds.size:
        raise SettingError(f"A table of probabilities needs training targets of 2 to {MAX_GRID} different values.")
    return model.targets.grid


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


def _sign(model: "LowRankModel", how: str, x: Array, rows: Array, cols: Array, sure: bool) -> Array:
    """Class of two, by the sign of `x` or the probability, the more frequent class at zero; or the mean of the two."""
    (negative, positive), targets = classes_of(model.loss), targets_of(model)
    likelihood = model.link == "logit"
    if how not in (("mean", "median", "class") if likelihood else ("class",)):
        raise SettingError(f"decode={how!r} is not for signs; use 'class', or 'probability' with the logistic loss.")
    odds = respond(model, x, rows, cols, sure) - 0.5 if likelihood else x
    if how == "mean":
        return np.asarray(negative + (positive - negative) * (odds + 0.5))
    common = positive if not targets.grid.size else targets.grid[int(np.argmax(targets.shares))]
    return np.where(odds == 0, common, np.where(odds > 0, positive, negative))


def _count(how: str, x: Array, variances: Array) -> Array:
    """Mean of a count whose log rate is normal; median and most likely value of a Poisson distribution of rate e^x."""
    if how == "mean":
        return response("log", x + 0.5 * variances)
    rates = np.minimum(response("log", x), 1e9)
    return np.floor(rates) if how == "class" else np.ceil(np.maximum(pdtrik(0.5, rates), 0.0))


def _real(model: "LowRankModel", how: str, x: Array) -> Array:
    """Mean and median of a symmetric distribution around `x`, within the range of the training targets."""
    targets = targets_of(model)
    if how == "class" and targets.grid.size != 1:
        _grid(targets, how)
    if model.loss is not None and not model.loss.symmetric:
        raise SettingError(
            f"decode={how!r} is not for {model.loss!r} and targets without a grid, because its prediction is another "
            "quantile; use 'clip'."
        )
    return x.clip(targets.low, targets.high)


def _of_grid(model: "LowRankModel", how: str, x: Array, variances: Array, rows: Array, cols: Array) -> Array:
    """Mean, median or most likely value of the distribution over the grid; value by value, in memory O(n)."""
    targets = targets_of(model)
    place, mean = np.zeros(x.size, np.int64), np.full(x.size, targets.grid[-1])
    if how == "median":
        for thresholds in targets.thresholds_at(rows, cols):
            place += x > thresholds
        return np.asarray(targets.grid[place])
    best, below = np.full(x.size, -1.0), np.zeros(x.size)
    for k, upto in enumerate(targets.cumulative(x, variances, rows, cols)):
        better = upto - below > best
        place[better], best[better], below = k, (upto - below)[better], upto
        mean -= (targets.grid[k + 1] - targets.grid[k]) * upto
    place[1 - below > best] = targets.grid.size - 1
    return mean if how == "mean" else np.asarray(targets.grid[place])


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
