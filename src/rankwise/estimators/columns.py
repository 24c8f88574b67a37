"""Encodings of table columns: values to targets of a loss, and predictions to values.

Predictions are relative to the best constant of a column, so that rows without entries and pruned factors predict it.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, log_ndtr

from .._arrays import Array
from ..losses import Huber, Logistic, Loss, Poisson, Square
from ..losses.levels import LevelsLoss, cumulative_log_odds
from ..losses.links import response

NORMAL = 1.4826  # standard deviation of a normal distribution whose median absolute deviation is 1
LEAST_NOISE = 1e-4  # mean loss, in squared units of the spread, that bounds the weight of columns without noise
SLOPES = tuple(k / 10 for k in range(11))  # of the regression of fills towards the mean; zero, the mean, wins ties
HUBER_TURN = 1.345  # where Huber's loss turns linear, in standard deviations: 95 % efficient for normal noise


@dataclass(frozen=True)
class Column:
    """Encoding of a column of a table."""

    losses: tuple[Loss, ...]  # one for each column of the matrix
    shifts: tuple[float, ...]  # best constant prediction of each

    def targets(self, values: Array) -> Array:
        """Encode values of shape (n,) as targets of the losses, shape (n, n_losses)."""
        raise NotImplementedError

    def values(self, x: Array) -> Array:
        """Decode predictions of shape (n, n_losses) to values, or to the numbers of levels, shape (n,)."""
        raise NotImplementedError

    def weight(self, targets: Array, x: Array, variances: Array) -> float:
        """Return the weight of the column's loss, from predictions and their variances, both of shape (n, n_losses).

        One for losses that are log-likelihoods, those of categories and levels.
        """
        return 1.0

    def _excess(self, targets: Array, x: Array, variances: Array) -> float:
        """Mean expected loss above its minimum, by a two-point rule: one standard deviation below and above `x`."""
        loss, o, centre, off = self.losses[0], targets[:, 0], x[:, 0] + self.shifts[0], np.sqrt(variances[:, 0])
        both = 0.5 * (loss.value(centre - off, o) + loss.value(centre + off, o))
        return float(np.mean(both - loss.least_value(o)))


@dataclass(frozen=True)
class Constant(Column):
    """Column with at most one distinct value; it has no columns in the matrix."""

    value: object

    def targets(self, values: Array) -> Array:
        """Return an array without columns."""
        return np.zeros((values.size, 0))

    def values(self, x: Array) -> Array:
        """Return the constant, repeated."""
        values = np.empty(x.shape[0], object)
        values[:] = self.value
        return values


@dataclass(frozen=True)
class Fill:
    """Range of the numbers that fill a column, and their regression towards the column's mean."""

    low: float = -np.inf
    high: float = np.inf
    slope: float = 1.0  # from 0, which fills with `mean`, to 1
    mean: float = 0.0  # of the column

    @classmethod
    def learn(cls, low: float, high: float, values: Array, predictions: Array) -> "Fill":
        """Choose the slope from values and predictions made without them, both of shape (n,).

        It has the largest reduction of the squared error less two standard errors of that reduction, so that a column
        is filled with its mean unless the predictions are better beyond a few extreme values.
        """
        mean = float(values.mean())
        x, y = predictions.clip(low, high) - mean, values - mean
        gains = [y**2 - (y - slope * x) ** 2 for slope in SLOPES]
        bounds = [float(gain.mean() - 2 * gain.std() / np.sqrt(gain.size)) for gain in gains]
        return cls(low, high, SLOPES[int(np.argmax(bounds))], mean)

    def __call__(self, predictions: Array) -> Array:
        """Return the numbers to fill in."""
        return np.asarray(self.mean + self.slope * (predictions.clip(self.low, self.high) - self.mean))


@dataclass(frozen=True)
class Numbers(Column):
    """Numbers or counts."""

    fill: Fill

    def predictions(self, x: Array) -> Array:
        """Return predictions in the unit of the column, shape (n,)."""
        raise NotImplementedError

    def values(self, x: Array) -> Array:
        """Return predictions within the range of the column, and shrunk towards its mean."""
        return self.fill(self.predictions(x))

    def calibrated(self, values: Array, x: Array) -> "Numbers":
        """Return the column with `fill` learned from its values and predictions that were made without them.

        Losses of medians and other quantiles are left as they are: least squares would move them to the mean.
        """
        if not isinstance(self.losses[0], Square | Huber | Poisson):
            return self
        return replace(self, fill=Fill.learn(self.fill.low, self.fill.high, values, self.predictions(x)))


@dataclass(frozen=True)
class Real(Numbers):
    """Numbers, standardized by their median and spread."""

    centre: float
    unit: float

    @classmethod
    def learn(cls, values: Array, loss: Loss, fill: Fill) -> "Real":
        """Use the median absolute deviation as the unit, or the standard deviation where the former is zero."""
        centre = float(np.median(values))
        unit = NORMAL * float(np.median(np.abs(values - centre))) or float(np.std(values))
        targets = (values - centre) / unit
        ends = float(targets.min()), float(targets.max())
        best = minimize_scalar(lambda x: float(loss.value(x, targets).sum()), bounds=ends, method="bounded")
        return cls((loss,), (float(best.x),), fill, centre, unit)

    def targets(self, values: Array) -> Array:
        """Standardize the values."""
        return (values[:, None] - self.centre) / self.unit

    def predictions(self, x: Array) -> Array:
        """Undo the standardization."""
        return np.asarray(self.centre + self.unit * (x[:, 0] + self.shifts[0]))

    def weight(self, targets: Array, x: Array, variances: Array) -> float:
        """Return the maximum-likelihood scale of the loss: the inverse of the noise."""
        return self.losses[0].best_scale(max(self._excess(targets, x, variances), LEAST_NOISE))


@dataclass(frozen=True)
class Count(Numbers):
    """Counts; a prediction is the logarithm of the rate over the mean count."""

    @classmethod
    def learn(cls, values: Array, fill: Fill) -> "Count":
        """Use the logarithm of the mean as the shift."""
        return cls((Poisson(),), (float(np.log(max(values.mean(), 1e-9))),), fill)

    def targets(self, values: Array) -> Array:
        """Return the counts."""
        return values[:, None]

    def predictions(self, x: Array) -> Array:
        """Return expected counts."""
        return response("log", x[:, 0] + self.shifts[0])

    def weight(self, targets: Array, x: Array, variances: Array) -> float:
        """Return one over the mean deviance, at most 1: overdispersed counts weigh less."""
        return 1.0 / max(1.0, 2.0 * self._excess(targets, x, variances))


@dataclass(frozen=True)
class Levels(Column):
    """Ordered levels, with thresholds at the cumulative log-odds of their frequencies."""

    names: tuple[object, ...]

    @classmethod
    def learn(cls, codes: Array, names: tuple[object, ...], kind: type[LevelsLoss]) -> "Levels":
        """Fit the thresholds of a loss of type `kind` to the observed levels' numbers."""
        thresholds = cumulative_log_odds(np.bincount(codes.astype(int), minlength=len(names)))
        return cls((kind(len(names), tuple(thresholds.tolist())),), (0.0,), names)

    def targets(self, values: Array) -> Array:
        """Return the numbers of the levels."""
        return values[:, None]

    def values(self, x: Array) -> Array:
        """Return the numbers of the median levels."""
        levels: Array = self.losses[0].median(x[:, 0])  # type: ignore[attr-defined]
        return levels


@dataclass(frozen=True)
class Classes(Column):
    """Unordered categories, one against the rest; two categories need one column of the matrix."""

    names: tuple[object, ...]

    @classmethod
    def learn(cls, codes: Array, names: tuple[object, ...]) -> "Classes":
        """Use the log-odds of the categories' frequencies as shifts."""
        counts = np.bincount(codes.astype(int), minlength=len(names))
        odds = np.log(counts + 0.5) - np.log(codes.size - counts + 0.5)
        odds = odds[1:] if len(names) == 2 else odds
        return cls((Logistic(),) * odds.size, tuple(odds.tolist()), names)

    def targets(self, values: Array) -> Array:
        """Return +1 for the category itself and -1 for the others."""
        signs = np.where(values[:, None] == np.arange(len(self.names)), 1.0, -1.0)
        return signs[:, 1:] if len(self.names) == 2 else signs

    def values(self, x: Array) -> Array:
        """Return the numbers of the most probable categories."""
        linked: Array = x + np.array(self.shifts)
        return (linked[:, 0] > 0).astype(np.int64) if len(self.names) == 2 else linked.argmax(axis=1)


def are_counts(values: Array) -> bool:
    """Return whether whole numbers of shape (n,) are likelier as counts than as rounded normal numbers.

    Both distributions have the mean and the variance of the values. That of the counts is negative binomial, Poisson
    counts whose rates vary, or Poisson if the variance is not above the mean.
    """
    if not values.size or values.min() < 0 or np.ptp(values) == 0:
        return False
    mean, variance = float(values.mean()), float(values.var())
    distance, deviation = np.abs(values - mean), np.sqrt(variance)
    as_numbers = -0.5 * (distance / deviation) ** 2 - np.log(deviation * np.sqrt(2 * np.pi))
    if deviation < 100:  # rounding changes the density
        nearer, farther = log_ndtr((0.5 - distance) / deviation), log_ndtr((-0.5 - distance) / deviation)
        as_numbers = nearer + np.log(-np.expm1(farther - nearer))
    as_counts = values * np.log(mean) - mean - gammaln(values + 1)
    if variance > mean:
        shape = mean**2 / (variance - mean)
        as_counts = gammaln(values + shape) - gammaln(shape) - gammaln(values + 1)
        as_counts += shape * np.log(shape / (shape + mean)) + values * np.log(mean / (shape + mean))
    return float(as_counts.sum()) > float(as_numbers.sum())
