"""What a model keeps of its training targets: their ends, their grid, and how predictions fall onto it."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from ..engines import ThreadPool, usable_cores
from ..losses.links import response
from ..observations import Entries, Observations

Array = NDArray[Any]
MOST = 32  # different targets, for them to be a grid
ENTRIES = 1_000_000  # that are looked at; of more, evenly spread ones
SAMPLE = 20_000  # of these for what all rows share: a threshold is then known to about 0.01 deviations
BLOCK = 1 << 16  # entries that a thread looks at at a time
PEAK = np.float32(0.3989)  # of the normal density


@dataclass(frozen=True, eq=False)
class Targets:
    """Scale of the training targets; no target of any entry.

    Attributes
    ----------
    low, high : float
    step : float
        1 if all targets are whole numbers, else 0.
    noise_variance : float
        Of a target around its prediction, for losses without a link.
    grid : ndarray of shape (k,)
        The different targets in rising order, if there are at most 32; else empty.
    shares : ndarray of shape (k,)
        How much of the weight is at each value of the grid.
    thresholds : ndarray of shape (k - 1,)
        A prediction above the first q of them has value q of the grid as its median. Placed so that the predictive
        distribution gives every value its share of the training entries.
    row_shifts, col_shifts : ndarray of shape (n_rows, k - 1) and (n_cols, k - 1)
        What is added to the thresholds in a row and in a column, for the same reason: one rater's five stars are
        another's four.
    """

    low: float
    high: float
    step: float
    noise_variance: float
    grid: Array
    shares: Array
    thresholds: Array
    row_shifts: Array
    col_shifts: Array

    @classmethod
    def of(cls, model: Any, entries: Observations | Entries, n_jobs: int | None = None) -> "Targets":
        """Scale of the entries that `model` was learned from; O(rank n_observed), at most a million of them."""
        observations = entries if isinstance(entries, Observations) else entries.sample(ENTRIES)
        targets, weights, seen = observations.targets, observations.weights, None
        if weights is not None:
            seen = np.flatnonzero(weights > 0)
            targets, weights = targets[seen], weights[seen].astype(np.float64)
        low, high = (_plain(end) for end in (targets.min(), targets.max())) if targets.size else (0.0, 0.0)
        step = float(np.array_equal(targets, np.rint(targets)))
        grid = grid_of(targets)
        counts = [np.sum(targets == value) if weights is None else weights[targets == value].sum() for value in grid]
        shares = np.array(counts) / max(targets.size if weights is None else weights.sum(), 1e-300)
        most = ENTRIES if grid.size and model.link == "identity" else SAMPLE
        some = np.arange(0, targets.size, -(-targets.size // most) or 1)
        with closing(ThreadPool(usable_cores(n_jobs))) as pool:
            sample = Sample.of(model, observations, some if seen is None else seen[some], pool)
            if model.link != "identity" or not grid.size:
                noise = sample.noise_variance if model.link == "identity" else 0.0
                rows, cols = (np.zeros((size, 0)) for size in model.shape)
                return cls(low, high, step, noise, _plains(grid), shares, np.zeros(0), rows, cols)
            thresholds = sample.thresholds(np.cumsum(shares)[:-1])
            rows, cols = sample.shifts(thresholds, grid, model.shape, pool)
        return cls(low, high, step, sample.noise_variance, _plains(grid), shares, thresholds, rows, cols)

    def transposed(self) -> "Targets":
        """The same with rows and columns exchanged."""
        return replace(self, row_shifts=self.col_shifts, col_shifts=self.row_shifts)

    def for_new_rows(self) -> "Targets":
        """The same for other rows, of which no shift is known."""
        return replace(self, row_shifts=self.row_shifts[:0])

    def thresholds_at(self, rows: Array, cols: Array) -> Iterator[Array]:
        """The first threshold of every entry, the second and so on, rising; rows and columns added later: no shift."""
        before = np.full(rows.size, -np.inf)
        for k, threshold in enumerate(self.thresholds):
            found = np.full(rows.size, threshold)
            for shifts, numbers in ((self.row_shifts, rows), (self.col_shifts, cols)):
                known = (numbers >= 0) & (numbers < shifts.shape[0])
                found[known] += shifts[numbers[known], k]
            before = np.maximum(before, found)
            yield before

    def to_arrays(self) -> dict[str, Array]:
        """Its parts, for the model's file."""
        return {field.name: np.asarray(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array], shape: tuple[int, int]) -> "Targets":
        """What `to_arrays` wrote; ValueError, TypeError or KeyError if the parts do not fit together."""
        low, high, step, noise = (float(arrays[name]) for name in ("low", "high", "step", "noise_variance"))
        grid, shares, thresholds, rows, cols = (arrays[field.name] for field in fields(cls)[4:])
        found = cls(low, high, step, noise, grid, shares, thresholds, rows, cols)
        n = found.thresholds.size
        sizes = {found.grid.shape, found.shares.shape} | ({(n + 1,)} if n else set())
        sound = len(sizes) == 1 and found.grid.ndim == 1 and found.noise_variance >= 0 and found.low <= found.high
        for shifts, size in ((found.row_shifts, shape[0]), (found.col_shifts, shape[1])):
            sound = sound and shifts.shape[1:] == (n,) and shifts.shape[0] <= size  # rows may have come later
        sound = sound and all(part.dtype.kind == "f" and np.isfinite(part).all() for part in arrays.values())
        if not sound or np.any(np.diff(found.grid) <= 0):
            raise ValueError("parts do not fit")
        return found


@dataclass(frozen=True, eq=False)
class Sample:
    """Training entries, their predictions, and how sure these are."""

    rows: Array
    cols: Array
    targets: Array
    weights: Array
    predicted: Array
    variances: Array
    noise_variance: float

    @classmethod
    def of(cls, model: Any, observations: Observations, entries: Array, pool: ThreadPool) -> "Sample":
        """The chosen entries under `model`."""
        starts = np.searchsorted(entries, observations.indptr.astype(np.int64))
        rows = np.repeat(np.arange(starts.size - 1), np.diff(starts))
        cols = observations.indices[entries].astype(np.int64)
        targets = observations.targets[entries].astype(np.float64)
        weights = np.ones(rows.size) if observations.weights is None else observations.weights[entries]
        predicted, variances = np.zeros(rows.size), np.zeros(rows.size)

        def look(some: slice) -> None:
            predicted[some] = model.at(rows[some], cols[some])
            if model.posterior is not None:
                variances[some] = model.posterior.variance_at(rows[some], cols[some])

        pool.map(look, [slice(first, first + BLOCK) for first in range(0, rows.size, BLOCK)])
        errors = (response(model.link, predicted) - targets) ** 2
        noise = float(np.average(errors + variances, weights=weights)) if rows.size else 0.0
        return cls(rows, cols, targets, weights.astype(np.float64), predicted, variances, noise)

    @cached_property
    def deviations(self) -> Array:
        """Of a new target around each prediction; a little above zero."""
        least = 1e-9 * max(float(np.abs(self.predicted).max(initial=0.0)), 1e-9)
        return np.maximum(np.sqrt(self.variances + self.noise_variance), least)

    def thresholds(self, shares: Array) -> Array:
        """Places c at which the mean chance of a new target up to c is each of the shares."""
        some = slice(None, None, -(-self.rows.size // SAMPLE))
        x, deviations, weights = self.predicted[some], self.deviations[some], self.weights[some]
        weights = weights / weights.sum()

        def above(c: float, share: float = 0.0) -> float:
            chances = weights * ndtr((c - x) / deviations)
            return float(np.sum(chances)) - share  # not BLAS: its threads wait for each other

        ends = float((x - 40 * deviations).min()), float((x + 40 * deviations).max())
        shares = np.clip(shares, above(ends[0]), above(ends[1]))  # by rounding, a share may be beyond both
        found = [brentq(above, *ends, args=(share,)) for share in shares]
        return np.maximum.accumulate(np.array(found)) if found else np.zeros(0)

    def shifts(self, thresholds: Array, grid: Array, shape: tuple[int, int], pool: ThreadPool) -> tuple[Array, Array]:
        """How far every row's and column's thresholds lie from the common ones.

        One Newton step towards the shares of its own entries, pulled back as far as chance explains the differences.
        """
        found = tuple(np.zeros((size, thresholds.size), np.float32) for size in shape)
        per = (1 / self.deviations).astype(np.float32)

        def move(k: int) -> None:
            z = (np.float32(thresholds[k]) - self.predicted.astype(np.float32)) * per
            chances = ndtr(z)
            slopes = PEAK * per * np.exp(-0.5 * z * z)
            parts = (self.targets <= grid[k]) - chances, slopes, chances * (1 - chances)
            for shifts, numbers in zip(found, (self.rows, self.cols), strict=True):
                shifts[:, k] = _shifted(*(np.bincount(numbers, self.weights * part, shifts.shape[0]) for part in parts))

        pool.map(move, range(thresholds.size))
        return found[0], found[1]


def _shifted(gaps: Array, slopes: Array, chance: Array) -> Array:
    """Means of shifts d given ``gaps ~ N(slopes d, chance)``, the variance of all d learned by its moments."""
    excess, squares = float(np.sum(gaps**2 - chance)), float(np.sum(slopes**2))
    if excess <= 0 or squares == 0:
        return np.zeros(gaps.size)
    return slopes * gaps / (slopes**2 + chance * squares / excess + np.finfo(np.float64).tiny)


def grid_of(targets: Array) -> Array:
    """The different targets, if there are at most 32 of them and each comes twice on average; else none."""
    grid, left = targets[:0], targets
    while left.size and grid.size <= MOST:
        grid = np.unique(np.concatenate((grid, left[:SAMPLE])))
        left = left[~np.isin(left, grid)] if grid.size <= MOST else left
    return grid if grid.size <= min(MOST, targets.size / 2) else targets[:0]


def _plain(value: Any) -> float:
    """A number as it was written: float32's 0.1 becomes 0.1."""
    return float(str(value))


def _plains(values: Array) -> NDArray[np.float64]:
    return np.array([_plain(value) for value in values], np.float64)
