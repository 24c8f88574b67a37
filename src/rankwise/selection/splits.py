"""Random splits of observed entries into training and held-out entries."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from .._checks import is_number, is_whole
from .._errors import SettingError
from ..observations import Observations, need_in_memory


def split_entries(observations: Any, held_out: float = 0.1, random_state: int = 0) -> tuple[Observations, Observations]:
    """Split the entries at random into training entries and held-out entries.

    Both parts keep the shape and the labels, so a row may have no training entry. O(n_observed).

    Parameters
    ----------
    observations : Observations, SciPy sparse matrix, or array with NaN
    held_out : float, default=0.1
        Fraction of the entries to hold out, above 0 and below 1; both parts have at least one entry.
    random_state : int, default=0
        Seed of the split.

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
        raise SettingError(f"`held_out` must be a fraction above 0 and below 1, got {held_out!r}.")
    observations = _splittable(observations)
    n = observations.n_observed
    if n < 2:
        raise SettingError(f"`observations` must have at least two entries to be split, got {n}.")
    n_held_out = min(max(round(held_out * n), 1), n - 1)
    chosen = np.zeros(n, bool)
    chosen[generator(random_state).choice(n, n_held_out, replace=False, shuffle=False)] = True
    return observations.take(~chosen), observations.take(chosen)


def folds(observations: Any, n_folds: int = 10, random_state: int = 0) -> Iterator[tuple[Observations, Observations]]:
    """Iterate over pairs (train, held_out) for cross-validation; every entry is held out exactly once.

    The sizes of the folds differ by at most one entry. Both parts keep the shape and the labels.

    Parameters
    ----------
    observations : Observations, SciPy sparse matrix, or array with NaN
    n_folds : int, default=10
        From 2 to the number of entries; the paper uses 10 for the signed networks (Section 5.1).
    random_state : int, default=0
        Seed of the folds.

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


def _splittable(data: Any) -> Observations:
    """Convert data to observations; raise if its entries are not in memory."""
    return need_in_memory(Observations.from_any(data), "Splitting", "split the entries before they are written")


def generator(random_state: Any) -> Generator:
    """Return a random number generator seeded by a non-negative integer."""
    if not is_whole(random_state) or random_state < 0:
        raise SettingError(f"`random_state` must be a non-negative integer, got {random_state!r}.")
    return np.random.default_rng(int(random_state))
