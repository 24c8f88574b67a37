"""Range, distinct values and ordinal thresholds of the training targets, used by ``predict_entries(decode=...)``."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from .._arrays import Array
from ..engines import ThreadPool, usable_cores
from ..losses.links import response
from ..observations import Entries, Observations

if TYPE_CHECKING:
    from .low_rank import LowRankModel

MAX_GRID = 32  # distinct targets that make a grid
MAX_ENTRIES = 1_000_000  # entries that are used; of more, evenly spaced ones
THRESHOLD_ENTRIES = 20_000  # entries for the common thresholds: accurate to about 0.01 standard deviations
TASK_ENTRIES = 1 << 16  # entries per task of a thread
PEAK = np.float32(0.3989)  # of the normal density


@dataclass(frozen=True, eq=False)
class Targets:
    """Statistics of the training targets; does not contain the target of any entry.

    Attributes
    ----------
    low, high : float
        Least and largest target.
    step : float
        1 if all targets are integers, else 0.
    noise_variance : float
        Variance of a target around its prediction, for losses without a link.
    grid : ndarray of shape (k,)
        Distinct targets in rising order if there are at most 32, else empty.
    shares : ndarray of shape (k,)
        Share of the weight at each value of the grid.
    thresholds : ndarray of shape (k - 1,)
        A prediction above exactly q of them has value q of the grid as its median. Chosen so that the predictive
        distribution gives every value its share of the training entries.
    row_shifts, col_shifts : ndarray of shape (n_rows, k - 1) and (n_cols, k - 1)
        Added to the thresholds in a row and in a column, because raters use the grid differently: one rater's five
        stars are another's four.
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
    def of(cls, model: "LowRankModel", entries: Observations | Entries, n_jobs: int | None = -1) -> "Targets":
        """Statistics of the training entries of `model`, at most a million of them; costs O(rank n_observed)."""
        observations = entries if isinstance(entries, Observations) else entries.sample(MAX_ENTRIES)
        targets, weights, seen = observations.targets, observations.weights, None
        if weights is not None:
            seen = np.flatnonzero(weights > 0)
            targets, weights = targets[seen], weights[seen].astype(np.float64)
        low, high = (_plain(end) for end in (targets.min(), targets.max())) if targets.size else (0.0, 0.0)
        step = float(np.array_equal(targets, np.rint(targets)))
        grid = grid_of(targets)
        counts = [np.sum(targets == value) if weights is None else weights[targets == value].sum() for value in grid]
        shares = np.array(counts) / max(targets.size if weights is None else weights.sum(), 1e-300)
        most = MAX_ENTRIES if grid.size and model.link == "identity" else THRESHOLD_ENTRIES
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
        """Statistics for the transposed model."""
        return replace(self, row_shifts=self.col_shifts, col_shifts=self.row_shifts)

    def for_new_rows(self) -> "Targets":
        """Statistics for a model of new rows, which have no shifts."""
        return replace(self, row_shifts=self.row_shifts[:0])

    def thresholds_at(self, rows: Array, cols: Array) -> Iterator[Array]:
        """Yield the k-th threshold of every entry, shape (n,), rising in k; new rows and columns have no shift."""
        before = np.full(rows.size, -np.inf)
        for k, threshold in enumerate(self.thresholds):
            shifted = np.full(rows.size, threshold)
            for shifts, numbers in ((self.row_shifts, rows), (self.col_shifts, cols)):
                known = (numbers >= 0) & (numbers < shifts.shape[0])
                shifted[known] += shifts[numbers[known], k]
            before = np.maximum(before, shifted)
            yield before

    def to_arrays(self) -> dict[str, Array]:
        """Arrays by name, for the model's file."""
        return {field.name: np.asarray(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array], shape: tuple[int, int]) -> "Targets":
        """Statistics from the arrays of `to_arrays`; ValueError, TypeError or KeyError if they are inconsistent."""
        low, high, step, noise = (float(arrays[name]) for name in ("low", "high", "step", "noise_variance"))
        grid, shares, thresholds, rows, cols = (arrays[field.name] for field in fields(cls)[4:])
        n = thresholds.size
        sizes = {grid.shape, shares.shape} | ({(n + 1,)} if n else set())
        valid = len(sizes) == 1 and grid.ndim == 1 and noise >= 0 and low <= high
        for shifts, size in ((rows, shape[0]), (cols, shape[1])):
            valid = valid and shifts.shape[1:] == (n,) and shifts.shape[0] <= size  # rows may be newer
        valid = valid and all(part.dtype.kind == "f" and np.isfinite(part).all() for part in arrays.values())
        if not valid or np.any(np.diff(grid) <= 0):
            raise ValueError("inconsistent targets")
        return cls(low, high, step, noise, grid, shares, thresholds, rows, cols)


@dataclass(frozen=True, eq=False)
class Sample:
    """Training entries with their predictions and posterior variances on the link scale, each of shape (n,)."""

    rows: Array
    cols: Array
    targets: Array
    weights: Array
    predicted: Array
    variances: Array
    noise_variance: float

    @classmethod
    def of(cls, model: "LowRankModel", observations: Observations, entries: Array, pool: ThreadPool) -> "Sample":
        """Entries with the given numbers, and their predictions under `model`."""
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

        pool.map(look, [slice(first, first + TASK_ENTRIES) for first in range(0, rows.size, TASK_ENTRIES)])
        errors = (response(model.link, predicted) - targets) ** 2
        noise = float(np.average(errors + variances, weights=weights)) if rows.size else 0.0
        return cls(rows, cols, targets, weights.astype(np.float64), predicted, variances, noise)

    @cached_property
    def deviations(self) -> Array:
        """Standard deviation of a new target around each prediction, positive."""
        least = 1e-9 * max(float(np.abs(self.predicted).max(initial=0.0)), 1e-9)
        return np.maximum(np.sqrt(self.variances + self.noise_variance), least)

    def thresholds(self, shares: Array) -> Array:
        """Values c at which the mean probability of a target up to c equals each of the shares."""
        some = slice(None, None, -(-self.rows.size // THRESHOLD_ENTRIES))
        x, deviations, weights = self.predicted[some], self.deviations[some], self.weights[some]
        weights = weights / weights.sum()

        def above(c: float, share: float = 0.0) -> float:
            probabilities = weights * ndtr((c - x) / deviations)
            return float(np.sum(probabilities)) - share  # not BLAS: its threads wait for each other

        ends = float((x - 40 * deviations).min()), float((x + 40 * deviations).max())
        shares = np.clip(shares, above(ends[0]), above(ends[1]))  # by rounding, a share may be beyond both
        roots = [brentq(above, *ends, args=(share,)) for share in shares]
        return np.maximum.accumulate(np.array(roots)) if roots else np.zeros(0)

    def shifts(self, thresholds: Array, grid: Array, shape: tuple[int, int], pool: ThreadPool) -> tuple[Array, Array]:
        """Shifts of every row's and of every column's thresholds from the common ones.

        One Newton step towards the shares of its own entries, shrunk as far as sampling explains the differences.
        """
        sides = tuple(np.zeros((size, thresholds.size), np.float32) for size in shape)
        per = (1 / self.deviations).astype(np.float32)

        def move(k: int) -> None:
            z = (np.float32(thresholds[k]) - self.predicted.astype(np.float32)) * per
            probabilities = ndtr(z)
            slopes = PEAK * per * np.exp(-0.5 * z * z)
            parts = (self.targets <= grid[k]) - probabilities, slopes, probabilities * (1 - probabilities)
            for shifts, numbers in zip(sides, (self.rows, self.cols), strict=True):
                shifts[:, k] = _shifted(*(np.bincount(numbers, self.weights * part, shifts.shape[0]) for part in parts))

        pool.map(move, range(thresholds.size))
        return sides[0], sides[1]


def _shifted(gaps: Array, slopes: Array, variances: Array) -> Array:
    """Posterior means of d given ``gaps ~ N(slopes d, variances)``; prior variance of d by the method of moments."""
    excess, squares = float(np.sum(gaps**2 - variances)), float(np.sum(slopes**2))
    if excess <= 0 or squares == 0:
        return np.zeros(gaps.size)
    return slopes * gaps / (slopes**2 + variances * squares / excess + np.finfo(np.float64).tiny)


def grid_of(targets: Array) -> Array:
    """Distinct targets if there are at most 32 and each occurs twice on average; else an empty array."""
    grid, rest = targets[:0], targets
    while rest.size and grid.size <= MAX_GRID:
        grid = np.unique(np.concatenate((grid, rest[:THRESHOLD_ENTRIES])))
        rest = rest[~np.isin(rest, grid)] if grid.size <= MAX_GRID else rest
    return grid if grid.size <= min(MAX_GRID, targets.size / 2) else targets[:0]


def _plain(value: Any) -> float:
    """Nearest short decimal: float32's 0.1 becomes 0.1."""
    return float(str(value))


def _plains(values: Array) -> NDArray[np.float64]:
    return np.array([_plain(value) for value in values], np.float64)
