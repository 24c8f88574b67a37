"""Ordered logistic distribution over the values of a grid, fitted to leave-one-out predictions at training entries."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from .._arrays import Array
from ..engines import ThreadPool
from ..losses.links import response
from ..observations import Observations
from .intervals import residual_scales

if TYPE_CHECKING:
    from .low_rank import LowRankModel

STEEPNESS = math.pi / math.sqrt(3)  # of the logistic distribution with variance one
COMMON_ENTRIES = 20_000  # entries for thresholds and width: accurate to about 0.01 standard deviations
TASK_ENTRIES = 1 << 16  # entries per task of a thread
LARGEST_LEVERAGE = 0.9  # share of its own prediction that an entry may have
LEAST_CHANCE = 1e-9  # of a value, so that its logarithm is finite
LOG_BOUNDS = (-7.0, 5.0)  # of gaps between thresholds and of the width


class OrderedFit(NamedTuple):
    """Parameters of the distribution, as in `Targets`."""

    thresholds: Array
    width: float
    row_shifts: Array
    col_shifts: Array
    row_scales: Array
    col_scales: Array


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

    def left_out(self) -> "Sample":
        """Return the entries with the predictions that they would have without themselves, approximately.

        Under the square loss, an entry whose prediction has the posterior variance s has moved it by ``h = s / noise``
        of the way to its target, so that the error without the entry is larger by ``1 / (1 - h)``.
        """
        leverage = np.minimum(self.variances / max(self.noise_variance, np.finfo(float).tiny), LARGEST_LEVERAGE)
        return replace(self, predicted=self.targets - (self.targets - self.predicted) / (1 - leverage))

    def ordered(self, grid: Array, shape: tuple[int, int], pool: ThreadPool) -> OrderedFit:
        """Fit the distribution over `grid`, each entry predicted as if it had been left out; O(n_levels n).

        The scales of rows and columns come first, from the sizes of the errors; then thresholds and width, the shifts
        of rows and columns, and thresholds and width again.
        """
        sample, middles = self.left_out(), 0.5 * (grid[1:] + grid[:-1])
        if not middles.size:
            return OrderedFit(middles, 1.0, *(np.zeros((size, 0)) for size in shape), *map(np.ones, shape))
        levels, some = np.searchsorted(middles, self.targets), slice(None, None, -(-self.rows.size // COMMON_ENTRIES))
        scales = sample.scales(shape)
        deviations = sample.deviations * scales[0][self.rows] * scales[1][self.cols]
        part = sample.predicted[some], levels[some], deviations[some], self.weights[some]
        thresholds, width = common_thresholds(middles, *part)
        shifts = sample.shifts(thresholds, levels, width * deviations, shape, pool)
        moved = (shifts[0][self.rows[some]] + shifts[1][self.cols[some]]).astype(np.float64)
        return OrderedFit(*common_thresholds(thresholds, *part, moved), *shifts, *scales)

    def scales(self, shape: tuple[int, int]) -> tuple[Array, Array]:
        """Scales of the noise of every row and every column, shrunk towards one; see `residual_scales`."""
        numbers, deviations = (self.rows, self.cols), self.deviations
        return residual_scales(np.abs(self.targets - self.predicted) / deviations, numbers, self.weights, shape)

    def shifts(
        self, thresholds: Array, levels: Array, deviations: Array, shape: tuple[int, int], pool: ThreadPool
    ) -> tuple[Array, Array]:
        """Shifts of every row's and of every column's thresholds from the common ones.

        One Newton step towards the shares of its own entries, shrunk as far as sampling explains the differences.
        """
        sides = tuple(np.zeros((size, thresholds.size), np.float32) for size in shape)
        steepness, predicted = (STEEPNESS / deviations).astype(np.float32), self.predicted.astype(np.float32)

        def move(k: int) -> None:
            probabilities = expit((np.float32(thresholds[k]) - predicted) * steepness)
            variances = probabilities * (1 - probabilities)
            parts = (levels <= k) - probabilities, steepness * variances, variances
            for shifts, numbers in zip(sides, (self.rows, self.cols), strict=True):
                shifts[:, k] = _shifted(*(np.bincount(numbers, self.weights * part, shifts.shape[0]) for part in parts))

        pool.map(move, range(thresholds.size))
        return sides[0], sides[1]


def common_thresholds(
    start: Array, x: Array, levels: Array, deviations: Array, weights: Array, shifts: Array | float = 0.0
) -> tuple[NDArray[np.float64], float]:
    """Maximum-likelihood thresholds, and the factor of `deviations`, of levels at predictions x.

    Unknowns are the first threshold and the logarithms of the gaps, so that thresholds rise, in units of the mean
    deviation. `shifts`, of shape (n, n_thresholds), are added to the thresholds at the entries.
    """
    unit, center, n = float(deviations.mean()), float(x.mean()), start.size
    x, deviations, shares = (x - center) / unit, deviations / unit, weights / weights.sum()
    shifts, entries = np.broadcast_to(shifts, (x.size, n)) / unit, np.arange(x.size)

    def side(edges: Array, ends: Array, width: Array) -> tuple[Array, Array, Array]:
        """Probability up to a threshold, or to one end of the scale, and its slopes in threshold and log width."""
        inside = (ends > 0) & (ends <= n)
        z = (edges[entries, np.clip(ends - 1, 0, n - 1)] - x) / width
        upto = np.where(inside, expit(STEEPNESS * z), ends > n)
        slope = np.where(inside, STEEPNESS * upto * (1 - upto), 0.0)
        return upto, slope / width, -slope * z

    def cost(p: Array) -> tuple[float, Array]:
        gaps, width = np.exp(p[1:n]), deviations * math.exp(p[n])
        edges = p[0] + np.concatenate(([0.0], np.cumsum(gaps))) + shifts
        below, above = side(edges, levels, width), side(edges, levels + 1, width)
        chances = np.maximum(above[0] - below[0], LEAST_CHANCE)
        by_edge = np.bincount(levels + 1, shares * above[1] / chances, n + 2)[1:-1]
        by_edge = by_edge - np.bincount(levels, shares * below[1] / chances, n + 2)[1:-1]
        later = np.cumsum(by_edge[::-1])[::-1]  # a gap moves all later thresholds
        by_width = np.sum(shares * (above[2] - below[2]) / chances)
        gradient = -np.concatenate((later[:1], gaps * later[1:], [by_width]))
        return -float(np.sum(shares * np.log(chances))), gradient

    gaps = np.log(np.maximum(np.diff(start) / unit, math.exp(LOG_BOUNDS[0])))
    first = np.concatenate(([(start[0] - center) / unit], np.clip(gaps, *LOG_BOUNDS), [0.0]))
    best = minimize(cost, first, jac=True, method="L-BFGS-B", bounds=[(None, None), *[LOG_BOUNDS] * n]).x
    places = best[0] + np.concatenate(([0.0], np.cumsum(np.exp(best[1:n]))))
    return center + unit * places, math.exp(best[n])


def _shifted(gaps: Array, slopes: Array, variances: Array) -> Array:
    """Posterior means of d given ``gaps ~ N(slopes d, variances)``; prior variance of d by the method of moments."""
    excess, squares = float(np.sum(gaps**2 - variances)), float(np.sum(slopes**2))
    if excess <= 0 or squares == 0:
        return np.zeros(gaps.size)
    return slopes * gaps / (slopes**2 + variances * squares / excess + np.finfo(np.float64).tiny)
