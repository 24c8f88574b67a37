"""Hinge loss."""

import math
from dataclasses import dataclass

from ..kernels.expected import SQUARE_FLOOR
from ..kernels.formulas import Formulas, NoParameters, declare
from .base import Loss, register
from .domains import SIGNS


class HingeFormula(NoParameters):
    """``max(0, 1 - x o)``."""


def value(p: HingeFormula, x: float, o: float) -> float:
    """``max(0, 1 - x o)``."""
    return max(0.0, 1.0 - x * o)


def slope(p: HingeFormula, x: float, o: float) -> float:
    """``-o`` inside the margin, else zero."""
    return -o if x * o < 1.0 else 0.0


def kinks(p: HingeFormula, o: float) -> tuple[float, ...]:
    """One kink: targets are -1 or +1, so the margin ends at x = o."""
    return min(-o, 0.0), o, 1.0, o, 0.0


def expected(p: HingeFormula, m: float, s: float, o: float) -> tuple[float, float, float]:
    """Bound: half the absolute value of ``1 - x o``, bounded, plus a linear function."""
    short = 1.0 - m * o
    c = math.sqrt(short * short + s + SQUARE_FLOOR)
    return 0.5 * (c + short), -0.5 * o * (short / c + 1.0), 0.5 / c


@register
@dataclass(frozen=True)
class Hinge(Loss):
    """``max(0, 1 - x o)`` for targets -1 and +1.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.Hinge().value([-1.0, 0.0, 2.0], 1.0)
    array([2., 1., 0.])
    """

    name = "hinge"
    formulas = declare(Formulas(HingeFormula, value, slope, kinks=kinks, expected=expected))
    smooth = False
    domain = SIGNS
