"""Expected loss of an uncertain prediction, and the quadratic that the row solves minimize in its place.

The prediction has mean m and variance s. `expected_at` returns the value of the expected loss (or of a bound on it),
its slope in m, and a weight w: near (m, s) it is approximated by ``value + slope dm + w (dm**2 + ds) / 2``.

A loss with kinks is bounded through ``|r| <= (r**2 / c + c) / 2`` with ``c**2 = E[r**2]``, and so is Huber's. There the
quadratic lies above the bound everywhere, so that its minimizer never increases the bound. Losses that declare no such
bound are averaged over the two points m - sqrt(s) and m + sqrt(s), which is exact up to the third moment; there the
quadratic is Newton's, and the caller must check that its minimizer is an improvement. So must it for a loss of a user's
that may have corners, whose bound is taken for granted at its target.
"""

import math
from typing import Any

from numba.extending import overload

from .formulas import FORMULAS, slope_at, value_at
from .jit import PART

_NARROW = 1e-8  # smallest variance of the two points, so that there are two slopes to compare
SQUARE_FLOOR = 1e-36  # added to E[r**2], so that no weight is infinite; below the square of any target worth the name


def two_point_expected(p, m, s, o):
    """Average over m - sqrt(s) and m + sqrt(s), extrapolated along the quadratic for variances below 1e-8."""
    wide = max(s, _NARROW)  # no branch, so that it vectorizes
    d = math.sqrt(wide)
    left, right = slope_at(p, m - d, o), slope_at(p, m + d, o)
    weight = max(0.0, (right - left) / (2.0 * d))  # against rounding; and zero, not NaN, between two infinite slopes
    value = 0.5 * (value_at(p, m - d, o) + value_at(p, m + d, o) - weight * (wide - s))
    return value, 0.5 * (left + right), weight


def mirrored_expected(p, m, s, o):
    """For a loss that may have a corner at its target: the even part in the error r = m - o at ``sqrt(r**2 + s)``.

    The odd part stays at r. Equals the bounds of the absolute and the quantile loss, and the average of the square
    loss.
    """
    r = m - o
    c = math.sqrt(r * r + s + SQUARE_FLOOR)
    value = 0.5 * (value_at(p, o + c, o) + value_at(p, o - c, o) + value_at(p, m, o) - value_at(p, o - r, o))
    weight = max(0.0, 0.5 * (slope_at(p, o + c, o) - slope_at(p, o - c, o)) / c)
    return value, weight * r + 0.5 * (slope_at(p, m, o) + slope_at(p, o - r, o)), weight


def expected_at(p, m, s, o):
    """Value, slope and weight of the expected loss at mean m, variance s and target o."""
    return (FORMULAS[type(p)].expected or two_point_expected)(p, m, s, o)


@overload(expected_at, jit_options=PART, strict=False)
def _expected_at(p, m, s, o):
    return FORMULAS[p.instance_class].expected or two_point_expected


def majorised(p: Any) -> bool:
    """Whether the quadratic of `expected_at` lies above the expected loss everywhere."""
    formulas = FORMULAS[type(p)]
    return formulas.expected is not None and formulas.bound
