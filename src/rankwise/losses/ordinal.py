"""Losses of ordered levels, compared with the thresholds between them."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._checks import is_number, is_whole
from .._errors import DataError, LossError
from ..kernels import thresholds as formulas
from .base import Loss

Array = NDArray[np.float64]
PIECE = 4096


@dataclass(frozen=True)
class _Levels(Loss):
    """What the losses of ordered levels share: the thresholds."""

    levels: int = 5
    thresholds: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        """Put the thresholds halfway between the levels if none are given; refuse what is no scale."""
        name = type(self).__name__
        if not is_whole(self.levels) or self.levels < 2:
            raise LossError(f"{name} needs at least 2 levels, got {self.levels!r}.")
        found = tuple(k + 0.5 for k in range(self.levels - 1)) if self.thresholds is None else tuple(self.thresholds)
        if len(found) != self.levels - 1 or not all(is_number(each) and np.isfinite(each) for each in found):
            raise LossError(f"{name} with {self.levels} levels needs {self.levels - 1} finite thresholds, got {found}.")
        if not all(low < high for low, high in pairwise(found)):
            raise LossError(f"{name} needs thresholds that rise, got {found}.")
        object.__setattr__(self, "thresholds", tuple(map(float, found)))
        object.__setattr__(self, "domain", f"whole numbers from 0 to {self.levels - 1}")
        if self.smooth:
            object.__setattr__(self, "lipschitz", self._steepest())

    @classmethod
    def from_targets(cls, targets: ArrayLike, levels: int | None = None) -> Any:
        """Thresholds at the log-odds of each level being passed, so that the best constant is 0 and has their shares.

        Half an observation is added to both sides of each threshold, so that none is infinite.
        """
        given = np.asarray(targets, float).ravel()
        wrong = np.flatnonzero(~((given >= 0) & (given < np.inf) & (given == np.floor(given))))
        if wrong.size:
            raise DataError(
                f"{cls.__name__} needs targets that are whole numbers from 0 up; {wrong.size} of {given.size} are not "
                f"(first: {given[wrong[0]]:g} at entry {wrong[0]}). {cls.domain_cure}"
            )
        levels = int(given.max(initial=0)) + 1 if levels is None else levels
        return cls(levels, tuple(cumulative_log_odds(np.bincount(given.astype(int), minlength=levels)).tolist()))

    def in_domain(self, targets: NDArray[Any]) -> NDArray[np.bool_]:
        """Mask of the targets that are levels."""
        return np.asarray((targets >= 0) & (targets < self.levels) & (targets == np.floor(targets)))

    def median(self, x: ArrayLike) -> NDArray[np.int64]:
        """Level of each prediction: how many thresholds lie below it."""
        return np.searchsorted(np.array(self.thresholds), np.asarray(x)).astype(np.int64)

    def _array(self) -> Array:
        found = np.array(self.thresholds)
        found.flags.writeable = False
        return found

    def _curvatures(self, x: Array) -> Array:
        """Curvature that each threshold adds at x, shape (n_thresholds, n)."""
        odds = np.exp(-np.abs(x - self._array()[:, None]))
        return np.asarray(odds / (1 + odds) ** 2)

    def _steepest(self) -> float:
        """Largest sum of curvatures, to a millionth above: its third derivative is at most 1/8 a threshold."""
        places, gap = self._array(), 2e-3
        near = places[:, None] + np.arange(-2.0, 2.0 + gap, gap)
        grid = np.unique(np.clip(near, places[0], places[-1]))
        pieces = np.array_split(grid, -(-grid.size // PIECE))  # memory grows with the levels, not with their square
        steepest = max(float(self._summed(self._curvatures(piece)).max()) for piece in pieces)
        return float(steepest + places.size / 8 * gap**2 / 8)

    def _summed(self, curvatures: Array) -> Array:
        return np.asarray(curvatures.sum(axis=0))


@dataclass(frozen=True)
class Ordinal(_Levels):
    """Sum over all thresholds of ``log(1 + exp(-side (x - threshold)))``, side being +1 below the target, -1 above.

    The all-thresholds loss of Rennie and Srebro (2005), for levels 0, 1, 2 and so on. `thresholds` has one number fewer
    than there are levels; by default 0.5, 1.5, 2.5 and so on. `from_targets` takes them from the levels' shares.

    Examples
    --------
    >>> import rankwise as rw
    >>> grades = rw.losses.Ordinal(3)  # levels 0, 1 and 2, with thresholds at 0.5 and 1.5
    >>> grades.value([0.0, 1.0, 2.0], 1.0).round(2)
    array([1.18, 0.95, 1.18])
    """

    name = "ordinal"

    @property
    def formula(self) -> formulas.OrdinalFormula:
        """The thresholds."""
        return formulas.OrdinalFormula(self._array())


@dataclass(frozen=True)
class OrdinalHinge(_Levels):
    """Sum over all thresholds of ``max(0, 1 - side (x - threshold))``; see `Ordinal`.

    Made of straight lines, but of more than the search for a best step knows: steps are found as for any other loss.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.OrdinalHinge(3).value([0.0, 1.0, 2.0], 1.0)
    array([1.5, 1. , 1.5])
    """

    name = "ordinal-hinge"
    smooth = False

    @property
    def formula(self) -> formulas.OrdinalHingeFormula:
        """The thresholds."""
        return formulas.OrdinalHingeFormula(self._array())


@dataclass(frozen=True)
class ProportionalOdds(_Levels):
    """``log(1 + exp(-(x - below))) + log(1 + exp(x - above))``: the thresholds on either side of the target.

    The negative log likelihood of McCullagh's proportional odds model (1980) less its constant: the odds of passing
    threshold k are ``exp(x - threshold[k])``. See `Ordinal` for the thresholds.

    Examples
    --------
    >>> import rankwise as rw
    >>> grades = rw.losses.ProportionalOdds.from_targets([0, 0, 1, 2])
    >>> grades.median([-3.0, 0.0, 3.0])
    array([0, 0, 2])
    """

    name = "proportional-odds"

    @property
    def formula(self) -> formulas.ProportionalOddsFormula:
        """The thresholds."""
        return formulas.ProportionalOddsFormula(self._array())

    def _summed(self, curvatures: Array) -> Array:
        """Two neighbours at a time."""
        padded = np.pad(curvatures, ((1, 1), (0, 0)))
        return np.asarray((padded[1:] + padded[:-1]).max(axis=0))


def cumulative_log_odds(counts: ArrayLike) -> Array:
    """Log of the odds of being at most at level k, for all levels but the last; finite, and rising."""
    counts = np.asarray(counts, float)
    if counts.size < 2 or counts.sum() == 0:
        raise DataError(f"Thresholds need observations of at least two levels, got counts {counts.tolist()}.")
    below = np.cumsum(counts)[:-1] + 0.5
    found = np.log(below) - np.log(counts.sum() + 1 - below)
    # Levels that never occur still need a place of their own.
    return np.maximum.accumulate(found) + 1e-6 * np.arange(found.size)
