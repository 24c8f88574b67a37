"""Calibrated probabilities of signs: a function of log-odds and their variances, fitted to held-out entries."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from .._arrays import Array
from ..losses.links import response

NAMES = ("intercept", "slope", "width", "n_entries")
START = (0.0, 1.0, math.pi / 8)  # MacKay's approximation of the logistic function averaged over a normal distribution
BOUNDS = ((-50.0, 50.0), (0.0, 50.0), (0.0, 10.0))
PRIOR = (4.0, 4.0, 0.1)  # precisions around the start, so that a few entries move it little


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
        """Fit to entries that the model was not fitted to, by maximum likelihood with a weak prior around `START`."""
        shares = np.ones(x.size) if weights is None else weights.astype(np.float64)
        signs, start, precisions = np.where(positive, 1.0, -1.0), np.array(START), np.array(PRIOR)

        def cost(p: Array) -> tuple[float, NDArray[np.float64]]:
            root = np.sqrt(1 + p[2] * variances)
            margins = signs * (p[0] + p[1] * x / root)
            slopes = -shares * signs * response("logit", -margins)
            parts = np.ones(x.size), x / root, -0.5 * p[1] * x * variances / root**3
            gradient = np.array([np.sum(slopes * part) for part in parts]) + precisions * (p - start)
            penalty = 0.5 * float(np.sum(precisions * (p - start) ** 2))
            return float(np.sum(shares * np.logaddexp(0.0, -margins))) + penalty, gradient

        best = minimize(cost, start, jac=True, method="L-BFGS-B", bounds=BOUNDS)
        intercept, slope, width = map(float, best.x)
        return cls(intercept, slope, width, int(x.size))

    def at(self, x: Array, variances: Array) -> NDArray[np.float64]:
        """Probabilities at predictions on the link scale with these variances, shape (n,)."""
        return np.asarray(response("logit", self.intercept + self.slope * x / np.sqrt(1 + self.width * variances)))

    def transposed(self) -> "OddsCalibration":
        """Calibration of the transposed model: the same."""
        return self

    def to_arrays(self) -> dict[str, Array]:
        """Arrays by name, for the model's file."""
        return {name: np.asarray(getattr(self, name)) for name in NAMES}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array]) -> "OddsCalibration":
        """Inverse of `to_arrays`; ValueError, TypeError or KeyError if the arrays are inconsistent."""
        numbers = [float(arrays[name]) for name in NAMES]
        inside = all(low <= number <= high for number, (low, high) in zip(numbers, BOUNDS, strict=False))
        if len(arrays) != len(NAMES) or not inside or not numbers[3] >= 0:
            raise ValueError("inconsistent calibration of probabilities")
        intercept, slope, width, n_entries = numbers
        return cls(intercept, slope, width, int(n_entries))
