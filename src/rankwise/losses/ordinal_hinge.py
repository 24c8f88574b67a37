"""All-thresholds hinge loss of ordered levels."""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from ..kernels.formulas import Formulas, declare
from .base import register
from .levels import Array, LevelsLoss

MARGIN_FLOOR = 1e-12  # added to E[r**2], so that no weight is infinite


class OrdinalHingeFormula(NamedTuple):
    """Sum over all thresholds of ``max(0, 1 - side (x - threshold))``, side being +1 for those below the target."""

    thresholds: Array


def value(p: OrdinalHingeFormula, x: float, o: float) -> float:
    """Sum over the thresholds of hinge losses."""
    total = 0.0
    for k in range(p.thresholds.size):
        z = x - p.thresholds[k] if o > k else p.thresholds[k] - x
        total += max(0.0, 1.0 - z)
    return total


def slope(p: OrdinalHingeFormula, x: float, o: float) -> float:
    """Number of margins violated at thresholds above the target, less those below it."""
    total = 0.0
    for k in range(p.thresholds.size):
        if o > k:
            total -= 1.0 if x - p.thresholds[k] < 1.0 else 0.0
        else:
            total += 1.0 if p.thresholds[k] - x < 1.0 else 0.0
    return total


def expected(p: OrdinalHingeFormula, m: float, s: float, o: float) -> tuple[float, float, float]:
    """Bound: of every hinge, half its absolute value, bounded, plus a linear function."""
    value, slope, weight = 0.0, 0.0, 0.0
    for k in range(p.thresholds.size):
        side = 1.0 if o > k else -1.0
        short = 1.0 - side * (m - p.thresholds[k])
        c = math.sqrt(short * short + s + MARGIN_FLOOR)
        value += 0.5 * (c + short)
        slope -= 0.5 * side * (short / c + 1.0)
        weight += 0.5 / c
    return value, slope, weight


@register
@dataclass(frozen=True)
class OrdinalHinge(LevelsLoss):
    """Sum over all thresholds of ``max(0, 1 - side (x - threshold))``; see `Ordinal`.

    It declares no kinks, as it has more than the two that the search for the best step supports; steps are searched as
    for any other loss.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.OrdinalHinge(3).value([0.0, 1.0, 2.0], 1.0)
    array([1.5, 1. , 1.5])
    """

    name = "ordinal-hinge"
    formulas = declare(Formulas(OrdinalHingeFormula, value, slope, expected=expected))
    smooth = False
    is_likelihood: ClassVar[bool] = False
