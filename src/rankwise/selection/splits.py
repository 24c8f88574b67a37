"""Splits of observed entries into training and held-out entries: at random, within rows, by time, by rows."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from .._checks import is_number, is_whole
from .._errors import DataError, SettingError
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


def split_within_rows(
    observations: Any, held_out: float | int = 0.2, *, time: ArrayLike | None = None, random_state: int = 0
) -> tuple[Observations, Observations]:
    """Hold out some entries of every row: the latest ones if `time` is given, else random ones.

    Both parts keep the shape and the labels. A row keeps at least one training entry, so a row with a single entry has
    none held out. O(n_observed log n_observed).

    Parameters
    ----------
    observations : Observations, SciPy sparse matrix, or array with NaN
    held_out : float or int, default=0.2
        Share of the entries of each row, rounded to the nearest integer, or their number if it is an integer.
    time : array-like of shape (n_observed,), optional
        Time of each entry, in the order of ``observations.rows`` and ``observations.cols``. Of entries with equal times
        those with higher column numbers are held out.
    random_state : int, default=0
        Seed of the split; not used if `time` is given.

    Returns
    -------
    train, held_out : Observations

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> train, test = rw.selection.split_within_rows(seen, 1)  # leave one out
    >>> print(test.n_observed, train.n_observed)
    40 560
    """
    by_number = is_whole(held_out) and held_out >= 1
    if not by_number and not (is_number(held_out) and 0 < held_out < 1):
        raise SettingError(f"`held_out` must be a positive integer or a fraction below 1, got {held_out!r}.")
    observations = _splittable(observations)
    n, rows = observations.n_observed, observations.rows
    key = generator(random_state).permutation(n) if time is None else np.asarray(time)
    if key.shape != (n,) or key.dtype.kind not in "biufmM" or (key != key).any():
        raise DataError(f"`time` must have a time for each of the {n} entries, got {key.dtype} of shape {key.shape}.")
    counts = np.diff(observations.indptr.astype(np.int64))
    n_held_out = np.full(counts.size, held_out) if by_number else np.rint(held_out * counts)
    n_held_out = np.minimum(n_held_out.astype(np.int64), np.maximum(counts - 1, 0))
    order = np.lexsort((key, rows))  # rows are sorted, so this permutes the entries within each row
    place = np.empty(n, np.int64)
    place[order] = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
    chosen = place >= (counts - n_held_out)[rows]
    if not chosen.any():
        raise DataError(
            f"No entry can be held out: each of the {counts.size} rows has too few; `held_out` is {held_out:g}."
        )
    return observations.take(~chosen), observations.take(chosen)


def split_rows(observations: Any, held_out: float = 0.1, random_state: int = 0) -> tuple[Observations, Observations]:
    """Split the rows at random into training rows and held-out rows, to score predictions for new rows.

    The parts have the same columns and the row labels of their own rows.

    Parameters
    ----------
    observations : Observations, SciPy sparse matrix, or array with NaN
    held_out : float, default=0.1
        Fraction of the rows to hold out, above 0 and below 1; both parts have at least one row.
    random_state : int, default=0
        Seed of the split.

    Returns
    -------
    train, held_out : Observations

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> train, new = rw.selection.split_rows(seen, 0.25)
    >>> print(train.shape, new.shape)
    (30, 30) (10, 30)
    """
    if not is_number(held_out) or not 0 < held_out < 1:
        raise SettingError(f"`held_out` must be a fraction above 0 and below 1, got {held_out!r}.")
    observations = _splittable(observations)
    n = observations.shape[0]
    if n < 2:
        raise SettingError(f"`observations` must have at least two rows to be split, got {n}.")
    n_held_out = min(max(round(held_out * n), 1), n - 1)
    order = generator(random_state).permutation(n)
    train, new = np.sort(order[n_held_out:]), np.sort(order[:n_held_out])
    return observations.take_rows(train), observations.take_rows(new)


def _splittable(data: Any) -> Observations:
    """Convert data to observations; raise if its entries are not in memory."""
    return need_in_memory(Observations.from_any(data), "Splitting", "split the entries before they are written")


def generator(random_state: Any) -> Generator:
    """Return a random number generator seeded by a non-negative integer."""
    if not is_whole(random_state) or random_state < 0:
        raise SettingError(f"`random_state` must be a non-negative integer, got {random_state!r}.")
    return np.random.default_rng(int(random_state))
