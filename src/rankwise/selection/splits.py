"""Which observed entries are learned from, and which are held out."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from .._checks import is_number, is_whole
from .._errors import SettingError
from ..observations import Observations
from ..solvers.validation import need_in_memory


def split_entries(observations: Any, held_out: float = 0.1, random_state: int = 0) -> tuple[Observations, Observations]:
    """Cut the entries into two parts at random; every entry is in exactly one.

    Both parts keep the shape and the labels, so a row may be left without any entry to learn from. O(n_observed).

    Parameters
    ----------
    observations : Observations, SciPy sparse matrix, or array with NaN
    held_out : float, default=0.1
        Share of the entries to hold out, above 0 and below 1; rounded to a whole number of entries, at least one on
        either side.
    random_state : int, default=0
        The same number gives the same split.

    Returns
    -------
    train, held_out : Observations

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> train, test = rw.selection.split_entries(seen, 0.25)
    >>> print(seen.n_observed, train.n_observed, test.n_observed)
    600 450 150
    """
    if not is_number(held_out) or not 0 < held_out < 1:
        raise SettingError(f"`held_out` must be a share above 0 and below 1, got {held_out!r}.")
    observations = _splittable(observations)
    n = observations.n_observed
    if n < 2:
        raise SettingError("One entry cannot be split in two; give observations with at least two.")
    n_held_out = min(max(round(held_out * n), 1), n - 1)
    chosen = np.zeros(n, bool)
    chosen[generator(random_state).choice(n, n_held_out, replace=False, shuffle=False)] = True
    return observations.take(~chosen), observations.take(chosen)


def folds(observations: Any, n_folds: int = 10, random_state: int = 0) -> Iterator[tuple[Observations, Observations]]:
    """Pairs (train, held_out) for cross-validation; every entry is held out exactly once.

    Folds differ by at most one entry in size. Both parts keep the shape and the labels.

    Parameters
    ----------
    observations : Observations, SciPy sparse matrix, or array with NaN
    n_folds : int, default=10
        From 2 to the number of entries; the paper takes 10 for the signed networks (Section 5.1).
    random_state : int, default=0
        The same number gives the same folds.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> print([test.n_observed for train, test in rw.selection.folds(seen, 3)])
    [200, 200, 200]
    """
    observations = _splittable(observations)
    n = observations.n_observed
    if not is_whole(n_folds) or not 2 <= n_folds <= n:
        raise SettingError(f"`n_folds` must be an integer from 2 to the {n} entries, got {n_folds!r}.")
    fold_of = np.arange(n) % n_folds
    generator(random_state).shuffle(fold_of)
    return ((observations.take(fold_of != k), observations.take(fold_of == k)) for k in range(n_folds))


def _splittable(given: Any) -> Observations:
    """What was given, as entries in memory."""
    return need_in_memory(Observations.from_any(given), "Splitting", "split the entries before they are written")


def generator(random_state: Any) -> Generator:
    """Source of random numbers seeded by an integer of at least zero."""
    if not is_whole(random_state) or random_state < 0:
        raise SettingError(f"`random_state` must be an integer of at least zero, got {random_state!r}.")
    return np.random.default_rng(int(random_state))
