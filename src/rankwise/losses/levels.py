"""Base class of the losses of ordered levels, which compare a prediction with the thresholds between the levels.

The target is a level, 0 to the number of thresholds; threshold k lies between the levels k and k + 1.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._checks import is_number, is_whole
from .._errors import DataError, LossError
from .base import Loss
from .domains import whole_numbers
from .links import response

Array = NDArray[np.float64]
MAX_LEVELS = 1 << 16  # also of losses in model files, where a number must not cost memory
GRID_CHUNK = 4096  # points of the grid that are evaluated at once: memory grows with the levels, not with their square


@dataclass(frozen=True)
class LevelsLoss(Loss):
    """A loss with parameters `levels` and `thresholds`; by default the thresholds are 0.5, 1.5, 2.5 and so on."""

    levels: int = 5
    thresholds: tuple[float, ...] | None = None
    is_likelihood: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Fill in default thresholds; raise `LossError` unless they are `levels` - 1, finite and increasing."""
        name = type(self).__name__
        if not is_whole(self.levels) or not 2 <= self.levels <= MAX_LEVELS:
            raise LossError(f"{name} needs at least 2 levels, and at most {MAX_LEVELS}, got {self.levels!r}.")
        halfway = (k + 0.5 for k in range(self.levels - 1))
        places = tuple(halfway if self.thresholds is None else self.thresholds)
        if len(places) != self.levels - 1 or not all(is_number(place) and np.isfinite(place) for place in places):
            raise LossError(
                f"{name} with {self.levels} levels needs {self.levels - 1} finite thresholds, got {places}."
            )
        if not all(low < high for low, high in pairwise(places)):
            raise LossError(f"{name} needs thresholds that rise, got {places}.")
        object.__setattr__(self, "thresholds", tuple(map(float, places)))
        object.__setattr__(self, "domain", whole_numbers(self.levels))
        if self.smooth:
            object.__setattr__(self, "lipschitz", self._largest_curvature())

    @classmethod
    def from_targets(cls, targets: ArrayLike, levels: int | None = None) -> Self:
        """Loss with thresholds at the log-odds of exceeding each level.

        With these the best constant prediction is 0 and has the levels' shares. Half an observation is added on both
        sides of each threshold, so that all are finite.
        """
        try:
            numbers = np.asarray(targets, float).ravel()
        except OverflowError:
            raise DataError(f"{cls.__name__} needs targets within the range of float64.") from None
        wrong = np.flatnonzero(~((numbers >= 0) & (numbers < np.inf) & (numbers == np.floor(numbers))))
        if wrong.size:
            raise DataError(
                f"{cls.__name__} needs targets that are whole numbers from 0 up; {wrong.size} of {numbers.size} are "
                f"not (first: {numbers[wrong[0]]:g} at entry {wrong[0]}). {cls.domain.remedy}"
            )
        levels = int(numbers.max(initial=0)) + 1 if levels is None else levels
        if levels > MAX_LEVELS:
            raise LossError(f"{cls.__name__} needs at most {MAX_LEVELS} levels, got {levels!r}; group the targets.")
        return cls(levels, tuple(cumulative_log_odds(np.bincount(numbers.astype(int), minlength=levels)).tolist()))

    @classmethod
    def restore(cls, parameters: dict[str, Any]) -> "Loss":
        """Loss with parameters from a file; without thresholds `LossError`, as defaults might fill the memory."""
        if parameters.get("thresholds") is None:
            raise LossError(f"The thresholds of the loss {cls.name!r} are missing from the file.")
        return super().restore(parameters)

    @property
    def formula(self) -> Any:
        """The thresholds as the tuple that the kernels dispatch on."""
        return self.formulas.parameters(self._array())

    def median(self, x: ArrayLike) -> NDArray[np.int64]:
        """Level of each prediction: the number of thresholds below it."""
        return np.searchsorted(np.array(self.thresholds), np.asarray(x)).astype(np.int64)

    def exceedances(self, x: ArrayLike, variances: ArrayLike = 0.0) -> Array:
        """Probability of a level above each threshold, ``1 / (1 + exp(threshold - x))``; shape (n, levels - 1).

        Both losses that are sums of logistic losses estimate these odds. For predictions with a variance it is the
        mean at one standard deviation below and above x, as sweeps average the loss. Raises `LossError` if the loss is
        no likelihood.
        """
        if not self.is_likelihood:
            raise LossError(f"{type(self).__name__} is no likelihood, so levels have no probabilities; use the median.")
        gaps, deviations = np.asarray(x, float)[:, None] - self._array(), np.sqrt(np.asarray(variances, float))
        deviations = np.broadcast_to(deviations, gaps.shape[:1])[:, None]
        return 0.5 * (response("logit", gaps - deviations) + response("logit", gaps + deviations))

    def _array(self) -> Array:
        thresholds = np.array(self.thresholds)
        thresholds.flags.writeable = False
        return thresholds

    def _curvatures(self, x: Array) -> Array:
        """Curvature of the logistic loss at each threshold, shape (n_thresholds, n)."""
        odds = np.exp(-np.abs(x - self._array()[:, None]))
        return np.asarray(odds / (1 + odds) ** 2)

    def _largest_curvature(self) -> float:
        """Bound of the curvature, tight to a millionth, from a grid; third derivatives are at most 1/8 each."""
        places, gap = self._array(), 2e-3
        near = places[:, None] + np.arange(-2.0, 2.0 + gap, gap)
        grid = np.unique(np.clip(near, places[0], places[-1]))
        chunks = np.array_split(grid, -(-grid.size // GRID_CHUNK))
        largest = max(float(self._total(self._curvatures(chunk)).max()) for chunk in chunks)
        return float(largest + places.size / 8 * gap**2 / 8)

    def _total(self, curvatures: Array) -> Array:
        """Curvature of the loss from those of the thresholds, at the target where it is largest."""
        return np.asarray(curvatures.sum(axis=0))


def cumulative_log_odds(counts: ArrayLike) -> Array:
    """Log of the odds of being at most at level k, for all levels but the last; finite and increasing."""
    counts = np.asarray(counts, float)
    if counts.size < 2 or counts.sum() == 0:
        raise DataError(f"Thresholds need observations of at least two levels, got counts {counts.tolist()}.")
    below = np.cumsum(counts)[:-1] + 0.5
    log_odds = np.log(below) - np.log(counts.sum() + 1 - below)
    # Levels that never occur still need thresholds of their own.
    return np.maximum.accumulate(log_odds) + 1e-6 * np.arange(log_odds.size)
