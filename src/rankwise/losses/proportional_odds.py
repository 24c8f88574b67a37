"""Proportional-odds loss of ordered levels."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..kernels.formulas import Formulas, declare, exp, log1p_unit
from .base import register
from .levels import Array, LevelsLoss


class ProportionalOddsFormula(NamedTuple):
    """``log(1 + exp(-(x - below))) + log(1 + exp(x - above))``, the thresholds next to the target."""

    thresholds: Array


def value(p: ProportionalOddsFormula, x: float, o: float) -> float:
    """Sum of the logistic losses at the thresholds next to the target; one at either end of the scale."""
    level, total = int(o), 0.0
    if level > 0:
        z = x - p.thresholds[level - 1]
        total += max(-z, 0.0) + log1p_unit(exp(-abs(z)))
    if level < p.thresholds.size:
        z = p.thresholds[level] - x
        total += max(-z, 0.0) + log1p_unit(exp(-abs(z)))
    return total


def slope(p: ProportionalOddsFormula, x: float, o: float) -> float:
    """Sum of the slopes of the logistic losses at the thresholds next to the target."""
    level, total = int(o), 0.0
    if level > 0:
        z = x - p.thresholds[level - 1]
        e = exp(-abs(z))
        total -= (e if z > 0.0 else 1.0) / (1.0 + e)
    if level < p.thresholds.size:
        z = p.thresholds[level] - x
        e = exp(-abs(z))
        total += (e if z > 0.0 else 1.0) / (1.0 + e)
    return total


def curvature(p: ProportionalOddsFormula, x: float, o: float) -> float:
    """Sum of the curvatures of the logistic losses at the thresholds next to the target."""
    level, total = int(o), 0.0
    if level > 0:
        e = exp(-abs(x - p.thresholds[level - 1]))
        total += e / ((1.0 + e) * (1.0 + e))
    if level < p.thresholds.size:
        e = exp(-abs(x - p.thresholds[level]))
        total += e / ((1.0 + e) * (1.0 + e))
    return total


@register
@dataclass(frozen=True)
class ProportionalOdds(LevelsLoss):
    """``log(1 + exp(-(x - below))) + log(1 + exp(x - above))``: the thresholds on either side of the target.

    The negative log likelihood of McCullagh's proportional odds model (1980) less its constant: the odds of passing
    threshold k are ``exp(x - threshold[k])``. See `Ordinal` for the thresholds.

    Examples
    --------
    >>> import rankwise as rw
    >>> grades = rw.losses.ProportionalOdds.from_targets([0, 0, 1, 2])
    >>> grades.median([-3.0, 0.0, 3.0])
    array([0, 0, 2])
    """

    name = "proportional-odds"
    formulas = declare(Formulas(ProportionalOddsFormula, value, slope, curvature))

    def _total(self, curvatures: Array) -> Array:
        """Largest sum of the curvatures of two neighboring thresholds."""
        padded = np.pad(curvatures, ((1, 1), (0, 0)))
        return np.asarray((padded[1:] + padded[:-1]).max(axis=0))
