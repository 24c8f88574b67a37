"""Quantile loss."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from .._checks import is_number
from .._errors import LossError
from ..kernels.expected import SQUARE_FLOOR
from ..kernels.formulas import Formulas, declare
from .base import Loss, register


class QuantileFormula(NamedTuple):
    """``q (o - x)`` below the target, ``(1 - q) (x - o)`` above."""

    q: float


def value(p: QuantileFormula, x: float, o: float) -> float:
    """``q`` times the shortfall or ``1 - q`` times the excess."""
    return max(p.q * (o - x), (1.0 - p.q) * (x - o))


def slope(p: QuantileFormula, x: float, o: float) -> float:
    """``-q`` below the target, ``1 - q`` above, zero at the kink."""
    return (1.0 - p.q if x > o else 0.0) - (p.q if x < o else 0.0)


def kinks(p: QuantileFormula, o: float) -> tuple[float, ...]:
    """One kink, at the target."""
    return -p.q, o, 1.0, o, 0.0


def expected(p: QuantileFormula, m: float, s: float, o: float) -> tuple[float, float, float]:
    """Bound: half the absolute value, bounded, plus a linear function."""
    r = m - o
    c = math.sqrt(r * r + s + SQUARE_FLOOR)
    return 0.5 * c - (p.q - 0.5) * r, 0.5 * r / c - (p.q - 0.5), 0.5 / c


@register
@dataclass(frozen=True)
class Quantile(Loss):
    """``q (o - x)`` below the target, ``(1 - q) (x - o)`` above: learns the q-quantile. The paper's scalene loss.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.Quantile(0.9).value([0.0, 1.0, 2.0], 1.0).round(1)  # too low costs nine times as much as too high
    array([0.9, 0. , 0.1])
    """

    q: float = 0.5
    name = "quantile"
    formulas = declare(Formulas(QuantileFormula, value, slope, kinks=kinks, expected=expected))
    smooth = False
    degree = 1.0

    def __post_init__(self) -> None:
        """Raise `LossError` unless `q` lies strictly between 0 and 1."""
        if not is_number(self.q) or not 0 < self.q < 1:
            raise LossError(f"Quantile needs 0 < q < 1, got {self.q!r}.")

    @property
    def symmetric(self) -> bool:  # type: ignore[override]
        """Whether the quantile is the median."""
        return self.q == 0.5

    def log_normaliser(self, scale: float) -> float:
        """Log normalizer of asymmetric Laplace noise."""
        return -math.log(scale * self.q * (1 - self.q))

    def best_scale(self, mean: float) -> float:
        """Inverse of the mean loss."""
        return 1.0 / mean
