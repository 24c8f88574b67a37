"""Paired comparison of methods over folds: the methods that a table prints in bold."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from .._arrays import Array
from .._checks import is_number
from .._errors import DataError, SettingError

TIE_TOLERANCE = 1e-12  # relative to the scores: smaller differences are rounding errors


def best_methods(
    scores: Mapping[str, ArrayLike | None], *, larger_is_better: bool, confidence: float = 0.95
) -> set[str]:
    """Return the method with the best mean and those that are not significantly worse, as in the paper's tables.

    A method is worse if the two-sided p-value of a paired t-test against the best method is below ``1 - confidence``.
    If the differences do not vary, there is nothing to test: methods with equal scores tie, and others are worse. With
    one fold, only the best method and its equals are returned.

    Parameters
    ----------
    scores : mapping of str to array-like of shape (n_folds,)
        Scores of each method on the same folds, in the same order. Methods with None, no scores or a score that is not
        finite (out of time, for example) are left out.
    larger_is_better : bool
        True for accuracies, False for errors.
    confidence : float, default=0.95

    Returns
    -------
    set of str
        Empty if no method has a finite score on every fold.

    Examples
    --------
    >>> import rankwise as rw
    >>> accuracy = {"ours": [0.93, 0.94, 0.93], "theirs": [0.90, 0.91, 0.91]}
    >>> rw.selection.best_methods(accuracy, larger_is_better=True)
    {'ours'}
    """
    if not is_number(confidence) or not 0 < confidence < 1:
        raise SettingError(f"`confidence` must be above 0 and below 1, got {confidence!r}.")
    finished = _finished(scores)
    if not finished:
        return set()
    sign = 1.0 if larger_is_better else -1.0
    best = max(finished.values(), key=lambda values: sign * values.mean())
    return {name for name, values in finished.items() if _p_value(best, values) >= 1 - confidence}


def _finished(scores: Mapping[str, ArrayLike | None]) -> dict[str, Array]:
    """Return the methods with a finite score on every fold."""
    arrays = {name: np.asarray(values, float) for name, values in scores.items() if values is not None}
    finished = {name: values for name, values in arrays.items() if values.size and np.isfinite(values).all()}
    shapes = {name: values.shape for name, values in finished.items()}
    if any(len(shape) != 1 for shape in shapes.values()) or len(set(shapes.values())) > 1:
        raise DataError(f"A paired test needs one score per fold, as many for each method, got shapes {shapes}.")
    return finished


def _p_value(best: Array, other: Array) -> float:
    """Return the two-sided p-value of the paired t-test; SciPy's is undefined for differences that do not vary."""
    differences, tiny = best - other, TIE_TOLERANCE * float(np.abs(best).max())
    if np.abs(differences).max() <= tiny:
        return 1.0
    if differences.size == 1 or differences.std(ddof=1) <= tiny:
        return 0.0
    return float(stats.ttest_rel(best, other).pvalue)
