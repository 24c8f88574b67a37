"""Synthetic observations of known low-rank matrices, for which the best attainable score is known."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from .._arrays import Array
from .._checks import is_number, is_whole
from .._errors import SettingError
from ..model import LowRankModel
from ..observations import Observations
from ..selection.splits import generator

DECAY = 0.8  # each planted term is this much weaker than the one before, so that ranks come in order
CROWDED = 0.1  # above this density all cells are ranked; below it, drawing and dropping repeats is cheaper
FRESH = 0.02  # least share of new cells in a draw; below it, nearly all probability is on cells drawn before


@dataclass(frozen=True, eq=False)
class Planted:
    """Observed entries and the low-rank matrix behind them.

    Attributes
    ----------
    observations : Observations
    truth : LowRankModel
        The planted matrix, orthonormal factors, strongest term first; `truth.at(rows, cols)` predicts from it. That of
        counts holds the logarithms of their means.
    noise : float
        Share of flipped signs or of outliers, or the standard deviation of the noise in stars or counts.
    about : str
        Description in one sentence.

    Examples
    --------
    >>> import rankwise as rw
    >>> planted = rw.datasets.ratings(40, 30, rank=2, density=0.5)
    >>> print(planted.truth.to_dense().shape, planted.noise)
    (40, 30) 0.5
    """

    observations: Observations
    truth: LowRankModel
    noise: float
    about: str


def signed_network(
    n_rows: int,
    n_cols: int,
    rank: int,
    density: float,
    flip: float = 0.05,
    random_state: int = 0,
    *,
    skew: float = 1.0,
) -> Planted:
    """Generate signs of a low-rank matrix at random entries, a share of them flipped.

    A few rows and columns have many entries and most have few, as in real networks. No predictor can expect a sign
    accuracy above ``1 - flip``, which is what the truth itself scores. Half a second for a million entries.

    Parameters
    ----------
    n_rows, n_cols : int
    rank : int
        Rank of the planted matrix.
    density : float
        Share of the entries that is observed, above 0, at most 1.
    flip : float, default=0.05
        Chance that an observed sign is the wrong one, from 0 to below 0.5.
    random_state : int, default=0
    skew : float, default=1
        Standard deviation of the logarithm of a row's or column's popularity; 0 spreads the entries evenly.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> np.unique(rw.datasets.signed_network(40, 30, rank=2, density=0.5).observations.targets)
    array([-1.,  1.])
    """
    if not 0 <= flip < 0.5:
        raise SettingError(f"`flip` must be a share from 0 to below 0.5, got {flip!r}.")
    truth, rows, cols, rng = _planted(n_rows, n_cols, rank, density, skew, random_state)
    signs = np.where(truth.at(rows, cols) < 0, -1.0, 1.0)
    signs[rng.random(signs.size) < flip] *= -1
    about = f"{signs.size:,} signs of a {n_rows:,} x {n_cols:,} matrix of rank {rank}, {flip:.0%} of them flipped"
    return Planted(Observations.from_coo(rows, cols, signs, (n_rows, n_cols)), truth, flip, about)


def ratings(
    n_users: int,
    n_items: int,
    rank: int,
    density: float,
    noise: float = 0.5,
    random_state: int = 0,
    *,
    skew: float = 0.0,
) -> Planted:
    """Generate ratings in stars, relative to their mean: a low-rank matrix plus Gaussian noise.

    Zero is an average rating, and the planted matrix spreads around it by one star (root mean square). Ratings are
    neither clipped nor rounded, so the truth's root mean squared error is `noise`, the least that any predictor can
    expect. Half a second for a million entries.

    Parameters
    ----------
    n_users, n_items : int
    rank : int
        Rank of the planted matrix.
    density : float
        Share of the entries that is observed, above 0, at most 1.
    noise : float, default=0.5
        Standard deviation in stars.
    random_state : int, default=0
    skew : float, default=0
        As in `signed_network`. Pursuits that keep their factors need more ranks the more skewed the pattern is.

    Examples
    --------
    >>> import rankwise as rw
    >>> planted = rw.datasets.ratings(40, 30, rank=2, density=0.5)
    >>> print(planted.observations.shape, planted.truth.rank)
    (40, 30) 2
    """
    if not is_number(noise) or not 0 <= noise < np.inf:
        raise SettingError(f"`noise` must be a number of stars, zero or more, got {noise!r}.")
    truth, rows, cols, rng = _planted(n_users, n_items, rank, density, skew, random_state)
    stars = truth.at(rows, cols) + noise * rng.standard_normal(rows.size)
    about = f"{stars.size:,} ratings of a {n_users:,} x {n_items:,} matrix of rank {rank}, noise of {noise:g} stars"
    return Planted(Observations.from_coo(rows, cols, stars, (n_users, n_items)), truth, noise, about)


def counts(
    n_rows: int,
    n_cols: int,
    rank: int,
    density: float,
    spread: float = 0.5,
    random_state: int = 0,
    *,
    skew: float = 0.0,
) -> Planted:
    """Generate Poisson counts whose log-means are a low-rank matrix.

    The count in row i and column j has the mean and the variance ``exp(truth[i, j])``, so a cell with a truth of zero
    counts one on average. No predictor can expect a mean Poisson loss below the truth's. Half a second for a million
    entries.

    Parameters
    ----------
    n_rows, n_cols : int
    rank : int
        Rank of the matrix of log-means.
    density : float
        Share of the entries that is observed, above 0, at most 1.
    spread : float, default=0.5
        Root mean square of the log-means, above 0, at most 2; beyond, a few cells would hold nearly all counts.
    random_state : int, default=0
    skew : float, default=0
        As in `signed_network`.

    Examples
    --------
    >>> import rankwise as rw
    >>> float(rw.datasets.counts(40, 30, rank=2, density=0.5).observations.targets.min())
    0.0
    """
    if not 0 < spread <= 2:
        raise SettingError(f"`spread` must be above 0 and at most 2, got {spread!r}.")
    truth, rows, cols, rng = _planted(n_rows, n_cols, rank, density, skew, random_state)
    truth = replace(truth, path=spread * truth.path, link="log")
    means = np.exp(truth.at(rows, cols))
    noise = float(np.sqrt(means.mean()))
    about = (
        f"{rows.size:,} counts in a {n_rows:,} x {n_cols:,} matrix with log-means of rank {rank}, mean {noise**2:.2f}"
    )
    values = rng.poisson(means).astype(float)
    return Planted(Observations.from_coo(rows, cols, values, (n_rows, n_cols)), truth, noise, about)


def corrupted(
    n_rows: int,
    n_cols: int,
    rank: int,
    density: float,
    share: float = 0.1,
    random_state: int = 0,
    *,
    size: float = 5.0,
) -> Planted:
    """Generate entries of a low-rank matrix, a share of them outliers.

    The planted matrix has entries of root mean square one. An outlier adds `size` or takes it away, with equal chances;
    the other entries are exact. So the truth's mean absolute error is ``share * size``. Entries are spread evenly. Half
    a second for a million of them.

    Parameters
    ----------
    n_rows, n_cols : int
    rank : int
        Rank of the planted matrix.
    density : float
        Share of the entries that is observed, above 0, at most 1.
    share : float, default=0.1
        Chance that an observed entry is an outlier, from 0 to below 0.5.
    random_state : int, default=0
    size : float, default=5
        Absolute error of an outlier, above 0.

    Examples
    --------
    >>> import rankwise as rw
    >>> planted = rw.datasets.corrupted(40, 30, rank=2, density=0.5, share=0.1)
    >>> seen, truth = planted.observations, planted.truth
    >>> errors = seen.targets - truth.predict_entries(seen.rows, seen.cols)
    >>> print(round(float((abs(errors) > 1.0).mean()), 1))
    0.1
    """
    if not 0 <= share < 0.5:
        raise SettingError(f"`share` must be a share from 0 to below 0.5, got {share!r}.")
    if not 0 < size < np.inf:
        raise SettingError(f"`size` must be a positive number, got {size!r}.")
    truth, rows, cols, rng = _planted(n_rows, n_cols, rank, density, 0.0, random_state)
    off = np.where(rng.random(rows.size) < share, size, 0.0) * rng.choice((-1.0, 1.0), rows.size)
    values = truth.at(rows, cols) + off
    about = f"{rows.size:,} entries of a {n_rows:,} x {n_cols:,} matrix of rank {rank}, {share:.0%} off by {size:g}"
    return Planted(Observations.from_coo(rows, cols, values, (n_rows, n_cols)), truth, share, about)


def _planted(
    n_rows: int, n_cols: int, rank: int, density: float, skew: float, random_state: int
) -> tuple[LowRankModel, Array, Array, Generator]:
    """Check the settings; draw a matrix and the rows and columns of its observed entries; return the generator too."""
    rng = generator(random_state)
    _check(n_rows, n_cols, rank, density, skew)
    return _low_rank(n_rows, n_cols, rank, rng), *_skewed_entries(n_rows, n_cols, density, skew, rng), rng


def _low_rank(n_rows: int, n_cols: int, rank: int, rng: Generator) -> LowRankModel:
    """Draw a matrix of that rank with entries of root mean square one, as its singular value decomposition."""
    strength = DECAY ** np.arange(rank)
    left, small_left = np.linalg.qr(rng.standard_normal((n_rows, rank)) * strength)
    right, small_right = np.linalg.qr(rng.standard_normal((n_cols, rank)))
    inner_left, sigmas, inner_right = np.linalg.svd(small_left @ small_right.T)
    theta = sigmas * np.sqrt(n_rows * n_cols) / np.linalg.norm(sigmas)
    return LowRankModel(np.tril(np.tile(theta, (rank, 1))), left @ inner_left, right @ inner_right.T)


def _skewed_entries(n_rows: int, n_cols: int, density: float, skew: float, rng: Generator) -> tuple[Array, Array]:
    """Draw distinct cells with probabilities that are products of log-normal popularities of their row and column."""
    n_observed = max(1, round(density * n_rows * n_cols))
    popular_rows, popular_cols = (np.exp(skew * rng.standard_normal(size)) for size in (n_rows, n_cols))
    draw = _ranked_cells if density > CROWDED else _drawn_cells
    cells = draw(popular_rows, popular_cols, n_observed, rng)
    return cells // n_cols, cells % n_cols


def _ranked_cells(popular_rows: Array, popular_cols: Array, n: int, rng: Generator) -> Array:
    """Sample n cells without replacement: those with the shortest exponential waiting times; O(n_rows n_cols)."""
    waits = rng.standard_exponential((popular_rows.size, popular_cols.size))
    waits /= popular_rows[:, None]
    waits /= popular_cols
    last = np.partition(waits, n - 1, axis=None)[n - 1]
    return np.flatnonzero(waits <= last)[:n]


def _drawn_cells(popular_rows: Array, popular_cols: Array, n: int, rng: Generator) -> Array:
    """Sample n cells without replacement by rejecting repeats, nearly as `_ranked_cells`; for sparse patterns."""
    cells = np.zeros(0, np.int64)
    while cells.size < n:
        before, more = cells.size, n + n // 4 - cells.size
        rows, cols = (_draw(popular, more, rng) for popular in (popular_rows, popular_cols))
        cells = np.sort(np.concatenate((cells, rows * popular_cols.size + cols)))
        cells = cells[np.r_[True, cells[1:] != cells[:-1]]]  # np.unique hashes, and is 40 times slower
        if cells.size - before < FRESH * more:
            return _ranked_cells(popular_rows, popular_cols, n, rng)
    return rng.choice(cells, n, replace=False, shuffle=False)


def _draw(popular: Array, n: int, rng: Generator) -> Array:
    """Draw `n` indices with replacement, with probabilities proportional to `popular`."""
    edges = np.cumsum(popular)
    indices: Array = np.searchsorted(edges, rng.random(n) * edges[-1], side="right")
    return indices.clip(max=popular.size - 1)


def _check(n_rows: int, n_cols: int, rank: int, density: float, skew: float) -> None:
    for name, size in (("number of rows", n_rows), ("number of columns", n_cols), ("rank", rank)):
        if not is_whole(size) or size < 1:
            raise SettingError(f"The {name} must be a positive integer, got {size!r}.")
    if rank > min(n_rows, n_cols):
        raise SettingError(f"A {n_rows} x {n_cols} matrix has no rank {rank}; its largest is {min(n_rows, n_cols)}.")
    if not 0 < density <= 1:
        raise SettingError(f"`density` must be a share above 0 and at most 1, got {density!r}.")
    if not 0 <= skew < np.inf:
        raise SettingError(f"`skew` must be zero or more, got {skew!r}.")
