"""Scores of predictions, computed by scikit-learn after checks of the input.

They differ from scikit-learn's functions in what they accept: classes -1 and +1, or 0 and 1, with predictions on the
link scale, where a prediction of exactly zero has no sign; and a range to clip predictions to. A weight of 2
counts an entry twice. Predictions from ``predict_entries(..., decode=)`` are scored as they are; name the
decoding beside the score.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn import metrics

from .._arrays import Array
from .._errors import DataError, SettingError
from ..observations.build import as_values, check_weights

Range = tuple[float, float]


def sign_accuracy(targets: ArrayLike, predicted: ArrayLike, *, weights: ArrayLike | None = None) -> float:
    """Fraction of entries whose sign is predicted, from 0 to 1 (higher is better); the paper's accuracy in Table 2.

    A prediction of exactly zero, such as that of a row without training entries, has no sign and counts as wrong.

    Parameters
    ----------
    targets : array-like of shape (n,)
        -1 and +1, or 0 and 1.
    predicted : array-like of shape (n,)
        On the link scale, on which zero is the threshold.
    weights : array-like of shape (n,), optional

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.selection.sign_accuracy([-1, 1, 1, 1], [-0.3, 2.0, -1.0, 0.0])
    0.5
    """
    signs, x = _signs_and_predictions(targets, predicted)
    # Four times as fast as `sklearn.metrics.accuracy_score`, which sorts the labels; solvers call this at every step.
    return float(np.average(signs * x > 0, weights=_check_weights(weights, x.size)))


def auc(targets: ArrayLike, predicted: ArrayLike, *, weights: ArrayLike | None = None) -> float:
    """Area under the ROC curve, from 0 to 1 (higher is better). O(n log n).

    This is the probability that a random +1 has a higher prediction than a random -1, with ties counted half. Only the
    order of the predictions matters.

    Parameters
    ----------
    targets : array-like of shape (n,)
        -1 and +1, or 0 and 1, each at least once.
    predicted : array-like of shape (n,)
        On any scale.
    weights : array-like of shape (n,), optional

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.selection.auc([-1, -1, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    signs, x = _signs_and_predictions(targets, predicted)
    n_plus = int(np.count_nonzero(signs > 0))
    if n_plus in (0, signs.size):
        raise DataError(f"The AUC compares +1 with -1, but there are {n_plus} and {signs.size - n_plus}; give both.")
    checked = _check_weights(weights, x.size)
    if checked is not None and not all(checked[signs == sign].any() for sign in (1, -1)):
        raise DataError("The AUC compares +1 with -1, and all of one sign have weight zero; give both some weight.")
    return float(metrics.roc_auc_score(signs, x, sample_weight=checked))


def macro_f1(targets: ArrayLike, predicted: ArrayLike, *, weights: ArrayLike | None = None) -> float:
    """Mean of the F1 scores of +1 and of -1, from 0 to 1 (higher is better).

    A prediction of exactly zero is a prediction of neither sign. The F1 score of a sign that is neither among the
    targets nor predicted is 0.

    Parameters
    ----------
    targets : array-like of shape (n,)
        -1 and +1, or 0 and 1.
    predicted : array-like of shape (n,)
        On the link scale, on which zero is the threshold.
    weights : array-like of shape (n,), optional

    Examples
    --------
    >>> import rankwise as rw
    >>> round(rw.selection.macro_f1([-1, 1, 1, 1], [-2.0, 1.0, 1.0, -1.0]), 4)
    0.7333
    """
    signs, x = _signs_and_predictions(targets, predicted)
    options: dict[str, Any] = {"labels": [-1, 1], "average": "macro", "zero_division": 0}
    return float(metrics.f1_score(signs, np.sign(x), sample_weight=_check_weights(weights, x.size), **options))


def mean_absolute_error(
    targets: ArrayLike, predicted: ArrayLike, clip: Range | None = None, *, weights: ArrayLike | None = None
) -> float:
    """Mean of ``abs(predicted - targets)``, in the units of the targets (lower is better); the paper's MABS.

    Parameters
    ----------
    targets, predicted : array-like of shape (n,)
    clip : (lowest, highest), optional
        Range of the targets, such as ``(1, 5)`` stars, to clip predictions to.
    weights : array-like of shape (n,), optional

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.selection.mean_absolute_error([1.0, 2.0], [1.5, 4.0])
    1.25
    """
    o, x = _targets_and_predictions(targets, predicted)
    return float(metrics.mean_absolute_error(o, _clip(x, clip), sample_weight=_check_weights(weights, x.size)))


def root_mean_squared_error(
    targets: ArrayLike, predicted: ArrayLike, clip: Range | None = None, *, weights: ArrayLike | None = None
) -> float:
    """Square root of the mean of ``(predicted - targets)**2``, in the units of the targets (lower is better).

    Parameters
    ----------
    targets, predicted : array-like of shape (n,)
    clip : (lowest, highest), optional
        Range of the targets, such as ``(1, 5)`` stars, to clip predictions to.
    weights : array-like of shape (n,), optional

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.selection.root_mean_squared_error([1.0, 2.0], [1.0, 4.0])
    1.4142135623730951
    """
    o, x = _targets_and_predictions(targets, predicted)
    return float(metrics.root_mean_squared_error(o, _clip(x, clip), sample_weight=_check_weights(weights, x.size)))


def _clip(x: Array, clip: Range | None) -> Array:
    if clip is None:
        return x
    try:
        lowest, highest = map(float, clip)
    except (TypeError, ValueError):
        raise SettingError(f"`clip` must be a pair (lowest, highest), got {clip!r}.") from None
    if not lowest < highest:
        raise SettingError(f"`clip` must be (lowest, highest) with lowest < highest, got {clip!r}.")
    return x.clip(lowest, highest)


def _check_weights(weights: ArrayLike | None, n: int) -> Array | None:
    if weights is None:
        return None
    checked = as_values(weights, n, "weights").astype(np.float64)
    check_weights(checked)
    return checked


def _signs_and_predictions(targets: ArrayLike, predicted: ArrayLike) -> tuple[Array, Array]:
    signs, x = _targets_and_predictions(targets, predicted)
    wrong = np.flatnonzero(np.abs(signs) != 1)
    if wrong.size and ((signs == 0) | (signs == 1)).all():
        return 2 * signs - 1, x
    if wrong.size:
        raise DataError(
            f"This score needs targets of -1 and +1, or of 0 and 1; {wrong.size} of {signs.size} are not -1 or +1 "
            f"(first: {signs[wrong[0]]:g} at entry {wrong[0]})."
        )
    return signs, x


def _targets_and_predictions(targets: ArrayLike, predicted: ArrayLike) -> tuple[Array, Array]:
    """Return both as float64 of the same shape (n,), n > 0; raise if a value is not finite."""
    o, x = np.asarray(targets, float), np.asarray(predicted, float)
    if o.ndim != 1 or o.shape != x.shape or not o.size:
        raise DataError(f"A score needs one prediction for each target, got shapes {o.shape} and {x.shape}.")
    for array, what in ((o, "target"), (x, "prediction")):
        if not np.isfinite(array).all():
            k = int(np.argmin(np.isfinite(array)))
            raise DataError(f"The {what} {array[k]} at entry {k} is not finite; leave such entries out of the score.")
    return o, x
