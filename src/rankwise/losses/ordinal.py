"""All-thresholds logistic loss of ordered levels."""

from dataclasses import dataclass
from typing import NamedTuple

from ..kernels.formulas import Formulas, declare, exp, log1p_unit
from .base import register
from .levels import Array, LevelsLoss


class OrdinalFormula(NamedTuple):
    """Sum over all thresholds of ``log(1 + exp(-side (x - threshold)))``, side being +1 for those below the target."""

    thresholds: Array


def value(p: OrdinalFormula, x: float, o: float) -> float:
    """Sum over the thresholds of logistic losses."""
    total = 0.0
    for k in range(p.thresholds.size):
        z = x - p.thresholds[k] if o > k else p.thresholds[k] - x
        total += max(-z, 0.0) + log1p_unit(exp(-abs(z)))
    return total


def slope(p: OrdinalFormula, x: float, o: float) -> float:
    """Sum over the thresholds of the slopes of logistic losses."""
    total = 0.0
    for k in range(p.thresholds.size):
        z = x - p.thresholds[k] if o > k else p.thresholds[k] - x
        e = exp(-abs(z))
        steepness = (e if z > 0.0 else 1.0) / (1.0 + e)
        total += -steepness if o > k else steepness
    return total


def curvature(p: OrdinalFormula, x: float, o: float) -> float:
    """Sum over the thresholds of the curvatures of logistic losses; does not depend on the target."""
    total = 0.0
    for k in range(p.thresholds.size):
        e = exp(-abs(x - p.thresholds[k]))
        total += e / ((1.0 + e) * (1.0 + e))
    return total


@register
@dataclass(frozen=True)
class Ordinal(LevelsLoss):
    """Sum over all thresholds of ``log(1 + exp(-side (x - threshold)))``, side being +1 below the target, -1 above.

    The all-thresholds loss of Rennie and Srebro (2005), for levels 0, 1, 2 and so on. `thresholds` has one number fewer
    than there are levels; by default 0.5, 1.5, 2.5 and so on. `from_targets` takes them from the levels' shares.

    Examples
    --------
    >>> import rankwise as rw
    >>> grades = rw.losses.Ordinal(3)  # levels 0, 1 and 2, with thresholds at 0.5 and 1.5
    >>> grades.value([0.0, 1.0, 2.0], 1.0).round(2)
    array([1.18, 0.95, 1.18])
    """

    name = "ordinal"
    formulas = declare(Formulas(OrdinalFormula, value, slope, curvature))
