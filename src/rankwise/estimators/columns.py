"""Columns of a table as columns of a matrix: targets of a loss, and back again.

Prediction zero stands for the best constant of every column, so that a row of which nothing is known, and a factor that
has faded, give that.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from ..losses import Logistic, Loss, Poisson
from ..losses.levels import cumulative_log_odds
from ..losses.links import response

Array = NDArray[Any]
NORMAL = 1.4826  # standard deviation of normal numbers whose median distance from the median is 1
LEAST_NOISE = 1e-4  # mean loss, in squared units of the spread, below which columns count as exact copies of each other
TURN = 1.345  # where Huber's loss turns linear, in standard deviations: 95 % efficient for normal noise


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    losses : tuple of Loss
        One for each column of the matrix that it becomes.
    shifts : tuple of float
        The best constant of each.
    """

    losses: tuple[Loss, ...]
    shifts: tuple[float, ...]

    def targets(self, values: Array) -> Array:
        """Targets of the losses, shape (n, n_losses)."""
        raise NotImplementedError

    def values(self, x: Array) -> Array:
        """Values in the column's own unit for predictions of shape (n, n_losses)."""
        raise NotImplementedError

    def weight(self, targets: Array, x: Array, variances: Array) -> float:
        """What the column's loss is to be multiplied with, given predictions and their variances.

        Losses of categories and levels are log likelihoods as they are, and weigh one.
        """
        return 1.0

    def _excess(self, targets: Array, x: Array, variances: Array) -> float:
        """Mean expected loss above that of a perfect prediction; averaged over two points."""
        loss, o, centre, off = self.losses[0], targets[:, 0], x[:, 0] + self.shifts[0], np.sqrt(variances[:, 0])
        both = 0.5 * (loss.value(centre - off, o) + loss.value(centre + off, o))
        return float(np.mean(both - loss.least_value(o)))


@dataclass(frozen=True)
class Constant(Column):
    """A column with one value, or with none at all: nothing to learn."""

    value: Any

    def targets(self, values: Array) -> Array:
        """None."""
        return np.zeros((values.size, 0))

    def values(self, x: Array) -> Array:
        """The one value."""
        found = np.empty(x.shape[0], object)
        found[:] = self.value
        return found


@dataclass(frozen=True)
class Real(Column):
    """Numbers, in units of their spread around their centre."""

    centre: float
    unit: float

    @classmethod
    def learn(cls, values: Array, loss: Loss) -> "Real":
        """From the values that are there; quartiles where they tell, as outliers do not move them."""
        centre = float(np.median(values))
        unit = NORMAL * float(np.median(np.abs(values - centre))) or float(np.std(values))
        targets = (values - centre) / unit
        ends = float(targets.min()), float(targets.max())
        best = minimize_scalar(lambda x: float(loss.value(x, targets).sum()), bounds=ends, method="bounded")
        return cls((loss,), (float(best.x),), centre, unit)

    def targets(self, values: Array) -> Array:
        """Distance from the centre."""
        return (values[:, None] - self.centre) / self.unit

    def values(self, x: Array) -> Array:
        """In the column's unit."""
        return np.asarray(self.centre + self.unit * (x[:, 0] + self.shifts[0]))

    def weight(self, targets: Array, x: Array, variances: Array) -> float:
        """One over the noise: the scale at which the loss is the likeliest."""
        return self.losses[0].best_scale(max(self._excess(targets, x, variances), LEAST_NOISE))


@dataclass(frozen=True)
class Count(Column):
    """Counts; predictions are the logarithm of the rate, less that of the mean."""

    @classmethod
    def learn(cls, values: Array) -> "Count":
        """From the values that are there."""
        return cls((Poisson(),), (float(np.log(max(values.mean(), 1e-9))),))

    def targets(self, values: Array) -> Array:
        """Themselves."""
        return values[:, None]

    def values(self, x: Array) -> Array:
        """Expected counts."""
        return response("log", x[:, 0] + self.shifts[0])

    def weight(self, targets: Array, x: Array, variances: Array) -> float:
        """One for Poisson's own noise, less for counts that spread more: one over the mean deviance."""
        return 1.0 / max(1.0, 2.0 * self._excess(targets, x, variances))


@dataclass(frozen=True)
class Levels(Column):
    """Ordered levels; thresholds where the levels' shares put them."""

    names: tuple[Any, ...]

    @classmethod
    def learn(cls, codes: Array, names: tuple[Any, ...], kind: Any) -> "Levels":
        """From the numbers of the levels that are there."""
        thresholds = cumulative_log_odds(np.bincount(codes.astype(int), minlength=len(names)))
        return cls((kind(len(names), tuple(thresholds.tolist())),), (0.0,), names)

    def targets(self, values: Array) -> Array:
        """Numbers of the levels."""
        return values[:, None]

    def values(self, x: Array) -> Array:
        """Numbers of the median levels."""
        found: Array = self.losses[0].median(x[:, 0])  # type: ignore[attr-defined]
        return found


@dataclass(frozen=True)
class Classes(Column):
    """Categories without order: each one against all others; two need one column."""

    names: tuple[Any, ...]

    @classmethod
    def learn(cls, codes: Array, names: tuple[Any, ...]) -> "Classes":
        """From the numbers of the categories that are there."""
        counts = np.bincount(codes.astype(int), minlength=len(names))
        odds = np.log(counts + 0.5) - np.log(codes.size - counts + 0.5)
        odds = odds[1:] if len(names) == 2 else odds
        return cls((Logistic(),) * odds.size, tuple(odds.tolist()), names)

    def targets(self, values: Array) -> Array:
        """+1 for the category itself, -1 for the others."""
        found = np.where(values[:, None] == np.arange(len(self.names)), 1.0, -1.0)
        return found[:, 1:] if len(self.names) == 2 else found

    def values(self, x: Array) -> Array:
        """Numbers of the likeliest categories."""
        linked: Array = x + np.array(self.shifts)
        return (linked[:, 0] > 0).astype(np.int64) if len(self.names) == 2 else linked.argmax(axis=1)
