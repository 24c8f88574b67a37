"""Which methods a table prints in bold."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr

from .._checks import is_number
from .._errors import DataError, SettingError

ROUNDING = 1e-12  # differences below this share of the scores come from the order of sums


def best_methods(
    scores: Mapping[str, ArrayLike | None], *, larger_is_better: bool, confidence: float = 0.95
) -> set[str]:
    """The best method and those that are not significantly worse: what the paper's tables highlight.

    The best has the best mean. Another is worse if a paired t-test of its differences to the best, fold by fold, gives
    a two-sided p below ``1 - confidence``. Differences that do not vary leave nothing to test: equal scores are a tie,
    and any other method is worse. So with one fold only the best is left, and those that equal it.

    Parameters
    ----------
    scores : mapping of str to array-like of shape (n_folds,)
        All over the same folds, in the same order. A method that is None, empty, or not finite on some fold (it ran out
        of time) is left out.
    larger_is_better : bool
        True for accuracies, False for errors.
    confidence : float, default=0.95

    Returns
    -------
    set of str
        Empty if no method finished all folds.

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
    best = max(finished.values(), key=lambda found: sign * found.mean())
    return {name for name, found in finished.items() if _p_value(best - found, best) >= 1 - confidence}


def _finished(scores: Mapping[str, ArrayLike | None]) -> dict[str, NDArray[Any]]:
    """The methods with a score on every fold."""
    given = {name: np.asarray(found, float) for name, found in scores.items() if found is not None}
    finished = {name: found for name, found in given.items() if found.size and np.isfinite(found).all()}
    shapes = {name: found.shape for name, found in finished.items()}
    if any(len(shape) != 1 for shape in shapes.values()) or len(set(shapes.values())) > 1:
        raise DataError(f"A paired test needs one score per fold, as many for each method, got shapes {shapes}.")
    return finished


def _p_value(differences: NDArray[Any], best: NDArray[Any]) -> float:
    """Two-sided p of a t-test that the differences have mean zero."""
    n, tiny = differences.size, ROUNDING * float(np.abs(best).max())
    if np.abs(differences).max() <= tiny:
        return 1.0
    spread = float(differences.std(ddof=1)) if n > 1 else 0.0
    if spread <= tiny:
        return 0.0
    return float(2 * stdtr(n - 1, -abs(differences.mean()) * np.sqrt(n) / spread))
