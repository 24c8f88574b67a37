"""A loss averaged over an uncertain prediction, as a parabola: what the row solves minimise.

The prediction has mean m and variance s. `expected_at` answers with the average's value (or a bound on it), its slope
in m, and a weight w, so that near (m, s) the average is ``value + slope dm + w (dm**2 + ds) / 2``.

Losses with a corner are bounded from above by parabolas, through ``|r| <= (r**2 / c + c) / 2`` with ``c**2 = E[r**2]``,
and so is Huber's; the parabola lies above the bound everywhere, so that its minimum never raises it. All others are
averaged over the two points m - sqrt(s) and m + sqrt(s), exact up to the third moment; there the parabola is Newton's,
and the caller must look whether it went too far.
"""

import math
from typing import Any

from numba.extending import overload

from . import formulas
from .formulas import slope_at, value_at
from .jit import INLINED

_NARROW = 1e-8  # variance at least, so that there are two slopes to compare
_SHARP = 1e-36  # added to the variance, so that no weight is infinite; below the square of any target worth the name


def square_expected(p, m, s, o):
    """Exact."""
    return 0.5 * ((m - o) * (m - o) + s), m - o, 1.0


def huber_expected(p, m, s, o):
    """Huber's loss at the root mean square of the residual."""
    r = m - o
    c = math.sqrt(r * r + s)
    near = min(c, p.delta)
    weight = 1.0 if c <= p.delta else p.delta / c
    return near * (c - 0.5 * near), weight * r, weight


def absolute_expected(p, m, s, o):
    """The root mean square of the residual, at least its mean absolute value."""
    r = m - o
    c = math.sqrt(r * r + s + _SHARP)
    return c, r / c, 1.0 / c


def quantile_expected(p, m, s, o):
    """Half the absolute value, bounded, and a straight line."""
    r = m - o
    c = math.sqrt(r * r + s + _SHARP)
    return 0.5 * c - (p.q - 0.5) * r, 0.5 * r / c - (p.q - 0.5), 0.5 / c


def hinge_expected(p, m, s, o):
    """Half the absolute value of the margin's shortfall, bounded, and a straight line."""
    short = 1.0 - m * o
    c = math.sqrt(short * short + s + _SHARP)
    return 0.5 * (c + short), -0.5 * o * (short / c + 1.0), 0.5 / c


def epsilon_insensitive_expected(p, m, s, o):
    """Half the sum of the absolute values beyond either wall of the tube, bounded."""
    low, high = m - o + p.epsilon, m - o - p.epsilon
    c, d = math.sqrt(low * low + s + _SHARP), math.sqrt(high * high + s + _SHARP)
    return 0.5 * (c + d) - p.epsilon, 0.5 * (low / c + high / d), 0.5 / c + 0.5 / d


def two_point_expected(p, m, s, o):
    """Average over m - sqrt(s) and m + sqrt(s); a smaller variance than 1e-8 is reached along the parabola."""
    wide = max(s, _NARROW)  # and no branch, so that it vectorises
    d = math.sqrt(wide)
    left, right = slope_at(p, m - d, o), slope_at(p, m + d, o)
    weight = max(0.0, (right - left) / (2.0 * d))  # rounding; and zero, not undefined, between two infinite slopes
    value = 0.5 * (value_at(p, m - d, o) + value_at(p, m + d, o) - weight * (wide - s))
    return value, 0.5 * (left + right), weight


PARABOLAS = {
    formulas.SquareFormula: square_expected,
    formulas.HuberFormula: huber_expected,
    formulas.AbsoluteFormula: absolute_expected,
    formulas.QuantileFormula: quantile_expected,
    formulas.HingeFormula: hinge_expected,
    formulas.EpsilonInsensitiveFormula: epsilon_insensitive_expected,
}
UNSURE: set[type] = set()  # those among them whose parabolas may be Newton's all the same


def expected_at(p, m, s, o):
    """Value, slope and weight of the expected loss at mean m, variance s and target o."""
    return PARABOLAS.get(type(p), two_point_expected)(p, m, s, o)


@overload(expected_at, jit_options=INLINED)
def _expected_at(p, m, s, o):
    return PARABOLAS.get(p.instance_class, two_point_expected)


def majorised(p: Any) -> bool:
    """Whether the parabola lies above the expected loss everywhere."""
    return type(p) in PARABOLAS and type(p) not in UNSURE
