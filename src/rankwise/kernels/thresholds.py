"""Losses of ordered levels: a prediction is compared with the thresholds between neighbouring levels.

The target is a level, 0 to the number of thresholds; threshold k lies between the levels k and k + 1.
"""

import math
from typing import Any, NamedTuple

from . import expected, formulas
from .formulas import exp, log1p_unit

_SHARP = 1e-12  # as in expected.py


class OrdinalFormula(NamedTuple):
    """Sum over all thresholds of ``log(1 + exp(-side (x - threshold)))``, side being +1 for those below the target."""

    thresholds: Any


class OrdinalHingeFormula(NamedTuple):
    """Sum over all thresholds of ``max(0, 1 - side (x - threshold))``."""

    thresholds: Any


class ProportionalOddsFormula(NamedTuple):
    """``log(1 + exp(-(x - below))) + log(1 + exp(x - above))``, the thresholds next to the target."""

    thresholds: Any


def ordinal_value(p, x, o):
    """One logistic loss for every threshold."""
    total = 0.0
    for k in range(p.thresholds.size):
        z = x - p.thresholds[k] if o > k else p.thresholds[k] - x
        total += max(-z, 0.0) + log1p_unit(exp(-abs(z)))
    return total


def ordinal_slope(p, x, o):
    """Its derivative."""
    total = 0.0
    for k in range(p.thresholds.size):
        z = x - p.thresholds[k] if o > k else p.thresholds[k] - x
        e = exp(-abs(z))
        pull = (e if z > 0.0 else 1.0) / (1.0 + e)
        total += -pull if o > k else pull
    return total


def ordinal_curvature(p, x, o):
    """The same for every target."""
    total = 0.0
    for k in range(p.thresholds.size):
        e = exp(-abs(x - p.thresholds[k]))
        total += e / ((1.0 + e) * (1.0 + e))
    return total


def ordinal_hinge_value(p, x, o):
    """One hinge for every threshold."""
    total = 0.0
    for k in range(p.thresholds.size):
        z = x - p.thresholds[k] if o > k else p.thresholds[k] - x
        total += max(0.0, 1.0 - z)
    return total


def ordinal_hinge_slope(p, x, o):
    """Thresholds above the target that are too near, less those below that are."""
    total = 0.0
    for k in range(p.thresholds.size):
        if o > k:
            total -= 1.0 if x - p.thresholds[k] < 1.0 else 0.0
        else:
            total += 1.0 if p.thresholds[k] - x < 1.0 else 0.0
    return total


def ordinal_hinge_expected(p, m, s, o):
    """Every hinge bounded as half its absolute value and half a straight line."""
    value, slope, weight = 0.0, 0.0, 0.0
    for k in range(p.thresholds.size):
        side = 1.0 if o > k else -1.0
        short = 1.0 - side * (m - p.thresholds[k])
        c = math.sqrt(short * short + s + _SHARP)
        value += 0.5 * (c + short)
        slope -= 0.5 * side * (short / c + 1.0)
        weight += 0.5 / c
    return value, slope, weight


def odds_value(p, x, o):
    """Two logistic losses, one at either end of the scale."""
    level, total = int(o), 0.0
    if level > 0:
        z = x - p.thresholds[level - 1]
        total += max(-z, 0.0) + log1p_unit(exp(-abs(z)))
    if level < p.thresholds.size:
        z = p.thresholds[level] - x
        total += max(-z, 0.0) + log1p_unit(exp(-abs(z)))
    return total


def odds_slope(p, x, o):
    """Its derivative."""
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


def odds_curvature(p, x, o):
    """Its second derivative."""
    level, total = int(o), 0.0
    if level > 0:
        e = exp(-abs(x - p.thresholds[level - 1]))
        total += e / ((1.0 + e) * (1.0 + e))
    if level < p.thresholds.size:
        e = exp(-abs(x - p.thresholds[level]))
        total += e / ((1.0 + e) * (1.0 + e))
    return total


formulas.FORMULAS[OrdinalFormula] = ordinal_value, ordinal_slope, ordinal_curvature
formulas.FORMULAS[OrdinalHingeFormula] = ordinal_hinge_value, ordinal_hinge_slope, formulas.flat
formulas.FORMULAS[ProportionalOddsFormula] = odds_value, odds_slope, odds_curvature
expected.PARABOLAS[OrdinalHingeFormula] = ordinal_hinge_expected
