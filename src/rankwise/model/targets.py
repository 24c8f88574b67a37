"""Range, distinct values and ordinal thresholds of the training targets, used by ``predict_entries(decode=...)``."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from .._arrays import Array
from ..engines import ThreadPool, usable_cores
from ..observations import Entries, Observations
from .ordered import STEEPNESS, Sample

if TYPE_CHECKING:
    from .low_rank import LowRankModel

MAX_GRID = 32  # distinct targets that make a grid
MAX_ENTRIES = 1_000_000  # entries that are used; of more, evenly spaced ones
GRID_ENTRIES = 20_000  # entries that are searched for distinct values at a time


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
        A prediction above exactly q of them has value q of the grid as its median.
    width : float
        Factor of the standard deviation of a target before it is cut at the thresholds.
    row_shifts, col_shifts : ndarray of shape (n_rows, k - 1) and (n_cols, k - 1)
        Added to the thresholds in a row and in a column, because raters use the grid differently: one rater's five
        stars are another's four.
    row_scales, col_scales : ndarray of shape (n_rows,) and (n_cols,)
        Factors of the standard deviation in a row and in a column, because some raters are more consistent than
        others; empty without a grid.
    """

    low: float
    high: float
    step: float
    noise_variance: float
    grid: Array
    shares: Array
    thresholds: Array
    width: float
    row_shifts: Array
    col_shifts: Array
    row_scales: Array
    col_scales: Array

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
        most = MAX_ENTRIES if grid.size and model.link == "identity" else GRID_ENTRIES
        some = np.arange(0, targets.size, -(-targets.size // most) or 1)
        with closing(ThreadPool(usable_cores(n_jobs))) as pool:
            sample = Sample.of(model, observations, some if seen is None else seen[some], pool)
            if model.link != "identity" or not grid.size:
                noise = sample.noise_variance if model.link == "identity" else 0.0
                rows, cols = (np.zeros((size, 0)) for size in model.shape)
                none = np.zeros(0)
                return cls(low, high, step, noise, _plains(grid), shares, none, 1.0, rows, cols, none, none)
            levels = sample.ordered(grid.astype(np.float64), model.shape, pool)
        return cls(low, high, step, sample.noise_variance, _plains(grid), shares, *levels)

    def transposed(self) -> "Targets":
        """Statistics for the transposed model."""
        turned = replace(self, row_shifts=self.col_shifts, col_shifts=self.row_shifts)
        return replace(turned, row_scales=self.col_scales, col_scales=self.row_scales)

    def for_new_rows(self) -> "Targets":
        """Statistics for a model of new rows, which have no shifts and no scales."""
        return replace(self, row_shifts=self.row_shifts[:0], row_scales=self.row_scales[:0])

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

    def cumulative(self, x: Array, variances: Array, rows: Array, cols: Array) -> Iterator[Array]:
        """Yield the probability of a target up to value k of the grid, for all values but the last, shape (n,).

        The target of an entry with prediction x has a logistic distribution, cut at the thresholds. Its variance is the
        posterior variance plus that of the noise, times the squares of the width and of the scales of row and column.
        """
        deviations = self.width * np.sqrt(np.maximum(variances + self.noise_variance, np.finfo(float).tiny))
        for scales, numbers in ((self.row_scales, rows), (self.col_scales, cols)):
            known = (numbers >= 0) & (numbers < scales.size)
            deviations[known] *= scales[numbers[known]]
        for thresholds in self.thresholds_at(rows, cols):
            yield expit(STEEPNESS * ((thresholds - x) / deviations))

    def to_arrays(self) -> dict[str, Array]:
        """Arrays by name, for the model's file."""
        return {field.name: np.asarray(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array], shape: tuple[int, int]) -> "Targets":
        """Statistics from the arrays of `to_arrays`; ValueError, TypeError or KeyError if they are inconsistent."""
        numbers = ("low", "high", "step", "noise_variance", "width")
        low, high, step, noise, width = (float(arrays[name]) for name in numbers)
        grid, shares, thresholds, rows, cols, *scales = (
            arrays[field.name] for field in fields(cls) if field.name not in numbers
        )
        n = thresholds.size
        sizes = {grid.shape, shares.shape} | ({(n + 1,)} if n else set())
        valid = len(sizes) == 1 and grid.ndim == 1 and noise >= 0 and low <= high and width > 0
        for shifts, scale, size in zip((rows, cols), scales, shape, strict=True):
            valid = valid and shifts.shape[1:] == (n,) and shifts.shape[0] <= size  # rows may be newer
            valid = valid and scale.ndim == 1 and scale.size <= size and bool((scale > 0).all())
        valid = valid and all(part.dtype.kind == "f" and np.isfinite(part).all() for part in arrays.values())
        if not valid or np.any(np.diff(grid) <= 0):
            raise ValueError("inconsistent targets")
        return cls(low, high, step, noise, grid, shares, thresholds, width, rows, cols, *scales)


def grid_of(targets: Array) -> Array:
    """Distinct targets if there are at most 32 and each occurs twice on average; else an empty array."""
    grid, rest = targets[:0], targets
    while rest.size and grid.size <= MAX_GRID:
        grid = np.unique(np.concatenate((grid, rest[:GRID_ENTRIES])))
        rest = rest[~np.isin(rest, grid)] if grid.size <= MAX_GRID else rest
    return grid if grid.size <= min(MAX_GRID, targets.size / 2) else targets[:0]


def _plain(value: Any) -> float:
    """Nearest short decimal: float32's 0.1 becomes 0.1."""
    return float(str(value))


def _plains(values: Array) -> NDArray[np.float64]:
    return np.array([_plain(value) for value in values], np.float64)
