"""Epsilon-insensitive loss."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from .._checks import is_number
from .._errors import LossError
from ..kernels.expected import SQUARE_FLOOR
from ..kernels.formulas import Formulas, declare
from .base import Loss, register


class EpsilonInsensitiveFormula(NamedTuple):
    """``max(0, |x - o| - epsilon)``."""

    epsilon: float


def value(p: EpsilonInsensitiveFormula, x: float, o: float) -> float:
    """``max(0, |x - o| - epsilon)``."""
    return max(0.0, abs(x - o) - p.epsilon)


def slope(p: EpsilonInsensitiveFormula, x: float, o: float) -> float:
    """Sign of x - o outside the tube, zero inside."""
    return (1.0 if x - o > p.epsilon else 0.0) - (1.0 if o - x > p.epsilon else 0.0)


def kinks(p: EpsilonInsensitiveFormula, o: float) -> tuple[float, ...]:
    """Two kinks, at the walls of the tube."""
    return -1.0, o - p.epsilon, 1.0, o + p.epsilon, 1.0


def expected(p: EpsilonInsensitiveFormula, m: float, s: float, o: float) -> tuple[float, float, float]:
    """Bound: half the sum of the absolute distances from the two walls of the tube, bounded."""
    low, high = m - o + p.epsilon, m - o - p.epsilon
    c, d = math.sqrt(low * low + s + SQUARE_FLOOR), math.sqrt(high * high + s + SQUARE_FLOOR)
    return 0.5 * (c + d) - p.epsilon, 0.5 * (low / c + high / d), 0.5 / c + 0.5 / d


@register
@dataclass(frozen=True)
class EpsilonInsensitive(Loss):
    """``max(0, |x - o| - epsilon)``: errors up to `epsilon` cost nothing.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.EpsilonInsensitive(0.5).value([1.0, 1.5, 3.0], 1.0)
    array([0. , 0. , 1.5])
    """

    epsilon: float = 0.1
    name = "epsilon-insensitive"
    formulas = declare(Formulas(EpsilonInsensitiveFormula, value, slope, kinks=kinks, expected=expected))
    smooth = False
    degree = 1.0

    def __post_init__(self) -> None:
        """Raise `LossError` unless `epsilon` is finite and not negative."""
        if not is_number(self.epsilon) or not 0 <= self.epsilon < float("inf"):
            raise LossError(f"EpsilonInsensitive needs a finite epsilon >= 0, got {self.epsilon!r}.")

    def rescaled(self, unit: float) -> "EpsilonInsensitive":
        """Return the loss with `epsilon` in multiples of `unit`."""
        return EpsilonInsensitive(self.epsilon / unit)

    def log_normaliser(self, scale: float) -> float:
        """Log normalizer of a density that is constant in the tube and has exponential tails."""
        return math.log(2 * self.epsilon + 2 / scale)

    def best_scale(self, mean: float) -> float:
        """Root of ``epsilon * scale**2 + scale = 1 / mean``."""
        return 2 / mean / (1 + math.sqrt(1 + 4 * self.epsilon / mean))
