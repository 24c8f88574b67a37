"""Scores of predictions against targets. Each takes predictions as they are, unless it is told to clip them.

Weights count as repetition: an entry of weight 2 is there twice.
Predictions that were decoded (`predict_entries(..., decode=)`) are scored as decoded: say so beside the score, in the
words of `rankwise.model.DECODINGS`.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._errors import DataError, SettingError
from ..observations.build import as_values, check_weights

Array = NDArray[Any]
Range = tuple[float, float]


def sign_accuracy(targets: ArrayLike, predicted: ArrayLike, *, weights: ArrayLike | None = None) -> float:
    """Share of entries whose sign is predicted, from 0 to 1 (higher is better); the paper's accuracy in Table 2.

    The threshold is zero. A prediction of exactly zero, such as that of a row never seen in training, names no sign
    and counts as wrong. Nothing is clipped or rounded.

    Parameters
    ----------
    targets : array-like of shape (n,)
        -1 or +1.
    predicted : array-like of shape (n,)
        On the link scale, where zero is the border.
    weights : array-like of shape (n,), optional

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.selection.sign_accuracy([-1, 1, 1, 1], [-0.3, 2.0, -1.0, 0.0])
    0.5
    """
    signs, x = _signs_and_predictions(targets, predicted)
    return float(np.average(signs * x > 0, weights=_weights(weights, x.size)))


def auc(targets: ArrayLike, predicted: ArrayLike, *, weights: ArrayLike | None = None) -> float:
    """Chance that a random +1 is predicted above a random -1, from 0 to 1; ties count half. O(n log n).

    The area under the ROC curve. Only the order of the predictions matters, so any scale will do; nothing is clipped
    or rounded.

    Parameters
    ----------
    targets : array-like of shape (n,)
        -1 or +1, each at least once.
    predicted : array-like of shape (n,)
    weights : array-like of shape (n,), optional

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.selection.auc([-1, -1, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    signs, x = _signs_and_predictions(targets, predicted)
    n_plus = int(np.count_nonzero(signs > 0))
    n_minus = signs.size - n_plus
    if n_plus == 0 or n_minus == 0:
        raise DataError(f"The AUC compares +1 with -1, but there are {n_plus} and {n_minus} of them; give both.")
    _, group = np.unique(x, return_inverse=True)
    given = _weights(weights, x.size)
    share = np.ones(x.size) if given is None else given
    plus, minus = (np.bincount(group, share * (signs == sign)) for sign in (1, -1))
    pairs = float(plus.sum() * minus.sum())
    if pairs == 0:
        raise DataError("The AUC compares +1 with -1, and all of one sign have weight zero; give both some weight.")
    return float(plus @ (np.cumsum(minus) - minus / 2) / pairs)


def macro_f1(targets: ArrayLike, predicted: ArrayLike, *, weights: ArrayLike | None = None) -> float:
    """Mean of the F1 scores of +1 and of -1, from 0 to 1 (higher is better); both signs weigh the same.

    The threshold is zero; a prediction of exactly zero misses its sign and is claimed for neither. A sign that is
    neither among the targets nor predicted has an F1 of 0. Nothing is clipped or rounded.

    Parameters
    ----------
    targets : array-like of shape (n,)
        -1 or +1.
    predicted : array-like of shape (n,)
        On the link scale, where zero is the border.
    weights : array-like of shape (n,), optional

    Examples
    --------
    >>> import rankwise as rw
    >>> round(rw.selection.macro_f1([-1, 1, 1, 1], [-2.0, 1.0, 1.0, -1.0]), 4)
    0.7333
    """
    signs, x = _signs_and_predictions(targets, predicted)
    given = _weights(weights, x.size)
    return 0.5 * (_f1(signs > 0, x > 0, given) + _f1(signs < 0, x < 0, given))


def mean_absolute_error(
    targets: ArrayLike, predicted: ArrayLike, clip: Range | None = None, *, weights: ArrayLike | None = None
) -> float:
    """Mean of ``abs(predicted - targets)``, in the units of the targets (lower is better); the paper's MABS.

    Nothing is clipped unless `clip` says so, and nothing is rounded to a grid.

    Parameters
    ----------
    targets, predicted : array-like of shape (n,)
    clip : (lowest, highest), optional
        The scale of the targets, such as ``(1, 5)`` stars: predictions beyond an end count as that end.
    weights : array-like of shape (n,), optional

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.selection.mean_absolute_error([1.0, 2.0], [1.5, 4.0])
    1.25
    """
    o, x = _targets_and_predictions(targets, predicted)
    return float(np.average(np.abs(_clipped(x, clip) - o), weights=_weights(weights, x.size)))


def root_mean_squared_error(
    targets: ArrayLike, predicted: ArrayLike, clip: Range | None = None, *, weights: ArrayLike | None = None
) -> float:
    """Root of the mean of ``(predicted - targets)**2``, in the units of the targets (lower is better).

    Nothing is clipped unless `clip` says so, and nothing is rounded to a grid.

    Parameters
    ----------
    targets, predicted : array-like of shape (n,)
    clip : (lowest, highest), optional
        As in `mean_absolute_error`.
    weights : array-like of shape (n,), optional

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.selection.root_mean_squared_error([1.0, 2.0], [1.0, 4.0])
    1.4142135623730951
    """
    o, x = _targets_and_predictions(targets, predicted)
    return float(np.sqrt(np.average((_clipped(x, clip) - o) ** 2, weights=_weights(weights, x.size))))


def _clipped(x: Array, clip: Range | None) -> Array:
    if clip is None:
        return x
    try:
        lowest, highest = map(float, clip)
    except (TypeError, ValueError):
        raise SettingError(f"`clip` must be a pair (lowest, highest), got {clip!r}.") from None
    if not lowest < highest:
        raise SettingError(f"`clip` must be (lowest, highest) with lowest < highest, got {clip!r}.")
    return x.clip(lowest, highest)


def _weights(given: ArrayLike | None, n: int) -> Array | None:
    if given is None:
        return None
    found = as_values(given, n, "weights").astype(np.float64)
    check_weights(found)
    return found


def _f1(true: Array, claimed: Array, weights: Array | None) -> float:
    share = np.ones(true.size) if weights is None else weights
    both, either = share[true & claimed].sum(), share[true].sum() + share[claimed].sum()
    return float(2 * both / either) if either else 0.0


def _signs_and_predictions(targets: ArrayLike, predicted: ArrayLike) -> tuple[Array, Array]:
    signs, x = _targets_and_predictions(targets, predicted)
    wrong = np.flatnonzero(np.abs(signs) != 1)
    if wrong.size:
        raise DataError(
            f"This score needs targets of -1 or +1; {wrong.size} of {signs.size} are not "
            f"(first: {signs[wrong[0]]:g} at entry {wrong[0]}). Map 0/1 data with `2 * y - 1`."
        )
    return signs, x


def _targets_and_predictions(targets: ArrayLike, predicted: ArrayLike) -> tuple[Array, Array]:
    """Both as float64 of one shape (n,), finite and not empty."""
    o, x = np.asarray(targets, float), np.asarray(predicted, float)
    if o.ndim != 1 or o.shape != x.shape or not o.size:
        raise DataError(f"A score needs one prediction for each target, got shapes {o.shape} and {x.shape}.")
    for array, what in ((o, "target"), (x, "prediction")):
        if not np.isfinite(array).all():
            k = int(np.argmin(np.isfinite(array)))
            raise DataError(f"The {what} {array[k]} at entry {k} is not finite; leave such entries out of the score.")
    return o, x
