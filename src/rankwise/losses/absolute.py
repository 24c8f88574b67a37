"""Absolute loss."""

import math
from dataclasses import dataclass

from ..kernels.expected import SQUARE_FLOOR
from ..kernels.formulas import Formulas, NoParameters, declare
from .base import Loss, register


class AbsoluteFormula(NoParameters):
    """``|x - o|``."""


def value(p: AbsoluteFormula, x: float, o: float) -> float:
    """``|x - o|``."""
    return abs(x - o)


def slope(p: AbsoluteFormula, x: float, o: float) -> float:
    """Sign of x - o; zero at the kink."""
    return (1.0 if x > o else 0.0) - (1.0 if x < o else 0.0)


def kinks(p: AbsoluteFormula, o: float) -> tuple[float, ...]:
    """One kink, at the target."""
    return -1.0, o, 2.0, o, 0.0


def expected(p: AbsoluteFormula, m: float, s: float, o: float) -> tuple[float, float, float]:
    """Bound: the root mean square of the residual, at least its mean absolute value."""
    r = m - o
    c = math.sqrt(r * r + s + SQUARE_FLOOR)
    return c, r / c, 1.0 / c


@register
@dataclass(frozen=True)
class Absolute(Loss):
    """``|x - o|``, the l1 loss, robust to outliers: the slope of a large error is that of a small one.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.Absolute().value([1.0, 2.0, 5.0], 1.0)
    array([0., 1., 4.])
    """

    name = "l1"
    formulas = declare(Formulas(AbsoluteFormula, value, slope, kinks=kinks, expected=expected))
    smooth = False
    degree = 1.0

    def log_normaliser(self, scale: float) -> float:
        """Log normalizer of Laplace noise."""
        return math.log(2 / scale)

    def best_scale(self, mean: float) -> float:
        """Inverse of the mean absolute error."""
        return 1.0 / mean
