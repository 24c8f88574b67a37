"""Probabilities of signs: averages over the posterior, and a calibrated function of log-odds and their variances."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from .._arrays import Array
from ..losses.links import response

NAMES = ("intercept", "slope", "width", "n_entries")
MACKAY = (0.0, 1.0, math.pi / 8)  # MacKay's approximation of the logistic function averaged over a normal distribution
BOUNDS = ((-50.0, 50.0), (0.0, 50.0), (0.0, 10.0))  # of the log-odds at their centre, slope and width
LARGEST_INTERCEPT = 1e4
TINY = 1e-300
PRIOR = (100.0, 25.0, 4.0)  # precisions around the start, so that a few entries move it little
LEAST_EVIDENCE = (
    6.0  # nats by which a calibration must beat the averages; chance alone gives three numbers 1.5 on average
)


def averages(x: Array, variances: Array) -> NDArray[np.float64]:
    """Means of the logistic function at one standard deviation below and above log-odds `x`, shape (n,).

    Sweeps average the loss over the same two points: there the slopes add up to zero, up to the prior, so that the mean
    probability of the training entries is the share of +1, also where +1 is rare.
    """
    deviations = np.sqrt(variances)
    return np.asarray(0.5 * (response("logit", x - deviations) + response("logit", x + deviations)))


@dataclass(frozen=True)
class OddsCalibration:
    """Probability of the positive class: ``1 / (1 + exp(-(intercept + slope x / sqrt(1 + width s))))``.

    x is the prediction on the link scale and s its posterior variance. It has the slope and intercept of Platt's
    scaling, and the share of the posterior variance that counts.
    """

    intercept: float
    slope: float
    width: float
    n_entries: int

    @classmethod
    def on(cls, x: Array, variances: Array, positive: Array, weights: Array | None = None) -> "OddsCalibration":
        """Fit to entries that the model was not fitted to, by maximum likelihood with a weak prior around `MACKAY`.

        The prior is on the change of the mean log-odds, where intercept and slope are nearly independent.
        """
        shares = np.ones(x.size) if weights is None else weights.astype(np.float64)
        signs, start, precisions = np.where(positive, 1.0, -1.0), np.array(MACKAY), np.array(PRIOR)
        centre = float(np.mean(x / np.sqrt(1 + MACKAY[2] * variances))) if x.size else 0.0

        def cost(p: Array) -> tuple[float, NDArray[np.float64]]:
            root = np.sqrt(1 + p[2] * variances)
            margins = signs * (centre + p[0] + p[1] * (x / root - centre))
            slopes = -shares * signs * response("logit", -margins)
            parts = np.ones(x.size), x / root - centre, -0.5 * p[1] * x * variances / root**3
            gradient = np.array([np.sum(slopes * part) for part in parts]) + precisions * (p - start)
            penalty = 0.5 * float(np.sum(precisions * (p - start) ** 2))
            return float(np.sum(shares * np.logaddexp(0.0, -margins))) + penalty, gradient

        best = minimize(cost, start, jac=True, method="L-BFGS-B", bounds=BOUNDS)
        shift, slope, width = map(float, best.x)
        return cls(shift + centre - slope * centre, slope, width, int(x.size))

    @classmethod
    def if_better(cls, x: Array, variances: Array, positive: Array, weights: Array) -> "OddsCalibration | None":
        """Fit to entries as `on` does; None unless it makes them likelier than `averages` by `LEAST_EVIDENCE` nats."""
        odds = cls.on(x, variances, positive, weights)
        pair = odds.at(x, variances), averages(x, variances)
        after, before = (np.where(positive, p, 1 - p) for p in pair)
        gain = float(np.sum(weights * np.log(np.maximum(after, TINY) / np.maximum(before, TINY))))
        return odds if gain > LEAST_EVIDENCE and odds.is_sound() else None

    def at(self, x: Array, variances: Array) -> NDArray[np.float64]:
        """Probabilities at predictions on the link scale with these variances, shape (n,)."""
        return np.asarray(response("logit", self.intercept + self.slope * x / np.sqrt(1 + self.width * variances)))

    def transposed(self) -> "OddsCalibration":
        """Return the calibration of the transposed model, which is this one."""
        return self

    def to_arrays(self) -> dict[str, Array]:
        """Arrays by name, for the model's file."""
        return {name: np.asarray(getattr(self, name)) for name in NAMES}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array]) -> "OddsCalibration":
        """Inverse of `to_arrays`; ValueError, TypeError or KeyError if the arrays are inconsistent."""
        intercept, slope, width, n_entries = (float(arrays[name]) for name in NAMES)
        odds = cls(intercept, slope, width, int(n_entries))
        if len(arrays) != len(NAMES) or not odds.is_sound():
            raise ValueError("inconsistent calibration of probabilities")
        return odds

    def is_sound(self) -> bool:
        """Return whether all numbers are finite and in their ranges."""
        ends = (-LARGEST_INTERCEPT, LARGEST_INTERCEPT), *BOUNDS[1:], (0, math.inf)
        return all(low <= getattr(self, name) <= high for name, (low, high) in zip(NAMES, ends, strict=True))
