"""Huber loss."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from .._checks import is_number
from .._errors import LossError
from ..kernels.formulas import Formulas, declare
from .base import Loss, register


class HuberFormula(NamedTuple):
    """``(x - o)**2 / 2`` within `delta`, ``delta (|x - o| - delta / 2)`` beyond."""

    delta: float


def value(p: HuberFormula, x: float, o: float) -> float:
    """Quadratic within delta, linear beyond."""
    r = abs(x - o)
    near = min(r, p.delta)
    return near * (r - 0.5 * near)


def slope(p: HuberFormula, x: float, o: float) -> float:
    """``x - o`` clipped to [-delta, delta]."""
    return min(max(x - o, -p.delta), p.delta)


def curvature(p: HuberFormula, x: float, o: float) -> float:
    """One within delta, else zero."""
    return 1.0 if abs(x - o) <= p.delta else 0.0


def expected(p: HuberFormula, m: float, s: float, o: float) -> tuple[float, float, float]:
    """Bound: Huber's loss at the root mean square of the residual."""
    r = m - o
    c = math.sqrt(r * r + s)
    near = min(c, p.delta)
    weight = 1.0 if c <= p.delta else p.delta / c
    return near * (c - 0.5 * near), weight * r, weight


@register
@dataclass(frozen=True)
class Huber(Loss):
    """``(x - o)**2 / 2`` up to `delta` from the target, linear beyond.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.Huber(1.0).value([1.0, 2.0, 5.0], 1.0)
    array([0. , 0.5, 3.5])
    """

    delta: float = 1.0
    name = "huber"
    formulas = declare(Formulas(HuberFormula, value, slope, curvature, expected=expected))
    lipschitz = 1.0
    degree = 2.0

    def __post_init__(self) -> None:
        """Raise `LossError` unless `delta` is positive and finite."""
        if not is_number(self.delta) or not 0 < self.delta < np.inf:
            raise LossError(f"Huber needs a finite delta > 0, got {self.delta!r}.")

    def rescaled(self, unit: float) -> "Huber":
        """Return the loss with `delta` in multiples of `unit`."""
        return Huber(self.delta / unit)

    @property
    def mean_width(self) -> float:  # type: ignore[override]
        """Three times `delta`: about four standard deviations of the targets with ``loss="auto"``."""
        return 3.0 * self.delta

    def log_normaliser(self, scale: float) -> float:
        """Log normalizer of a density that is normal in the middle and has exponential tails."""
        root = math.sqrt(0.5 * scale)
        middle = math.sqrt(math.pi) / root * math.erf(self.delta * root)
        return math.log(middle + 2 / (scale * self.delta) * math.exp(-0.5 * scale * self.delta**2))

    def best_scale(self, mean: float) -> float:
        """Maximum-likelihood scale, by a search between those of normal and of exponential noise."""
        ends = sorted((math.log(0.5 / mean) - 1, math.log(1.0 / mean) + 1))
        best = minimize_scalar(
            lambda t: math.exp(t) * mean + self.log_normaliser(math.exp(t)), bounds=ends, method="bounded"
        )
        return float(math.exp(best.x))
