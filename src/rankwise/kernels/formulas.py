"""The formulas of the losses, as scalar functions that the loops inline.

A loss reaches a kernel as a `NamedTuple` of its parameters; the tuple's type picks the formulas, so each kernel is
compiled once per kind of loss and the parameters stay run-time values. A formula sees and returns float64.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import float64, int32, int64, njit
from numba.extending import overload

from .jit import INLINED

_LOG2E = 1.4426950408889634
_LARGEST = float(np.finfo(np.float64).max)
_LN2_HI, _LN2_LO = 0.693147180369123816490, 1.90821492927058770002e-10
# No reassociation here: the two-part subtraction of ln 2 is what keeps the last digits.
_strict = njit(**(INLINED | {"fastmath": {"contract"}}))


@_strict
def exp(x):
    """``e**x`` to 1e-15, by arithmetic that vectorises; at least e**-708, and infinite above x = 709.4."""
    x = min(max(x, -708.0), 710.0)
    n = int32(x * _LOG2E + (0.5 if x > 0.0 else -0.5))
    r = x - n * _LN2_HI - n * _LN2_LO
    even = r * r
    p = 1 / 479001600 + r / 6227020800
    p = (1 / 3628800 + r * (1 / 39916800)) + even * p
    p = (1 / 40320 + r * (1 / 362880)) + even * p
    p = (1 / 720 + r * (1 / 5040)) + even * p
    p = (1 / 24 + r * (1 / 120)) + even * p
    p = (1 / 2 + r * (1 / 6)) + even * p
    p = (1.0 + r) + even * p
    return p * np.int64((int64(n) + int64(1023)) << int64(52)).view(np.float64)


@_strict
def _atanh_series(s):
    """``atanh(s)`` for ``abs(s) <= 1/3``, to 1e-16."""
    q = s * s
    even = q * q
    p = 1 / 29 + q / 31
    p = (1 / 25 + q * (1 / 27)) + even * p
    p = (1 / 21 + q * (1 / 23)) + even * p
    p = (1 / 17 + q * (1 / 19)) + even * p
    p = (1 / 13 + q * (1 / 15)) + even * p
    p = (1 / 9 + q * (1 / 11)) + even * p
    p = (1 / 5 + q * (1 / 7)) + even * p
    p = (1.0 + q * (1 / 3)) + even * p
    return s * p


@_strict
def log1p_unit(e):
    """``log(1 + e)`` for e in [0, 1]."""
    return 2.0 * _atanh_series(e / (2.0 + e))


@_strict
def log(x):
    """``log(x)`` by arithmetic that vectorises, to 1e-15 for normal numbers."""
    bits = np.float64(x).view(np.int64)
    n = int32(bits >> int64(52)) - int32(1023)
    m = np.int64((bits & int64(0xFFFFFFFFFFFFF)) | int64(0x3FF0000000000000)).view(np.float64)
    big = m > 1.4142135623730951
    m = 0.5 * m if big else m
    k = float64(n) + (1.0 if big else 0.0)
    inside = k * _LN2_HI + (k * _LN2_LO + 2.0 * _atanh_series((m - 1.0) / (m + 1.0)))
    # A choice between constants vectorises, one between results does not.
    edge = np.inf if x >= 0.0 else np.nan
    return inside * (1.0 if (x > 0.0) & (x < np.inf) else edge)


@_strict
def log1p(x):
    """``log(1 + x)`` by arithmetic that vectorises."""
    inside = min(x, _LARGEST)
    u = 1.0 + inside
    return (log(u) + (inside - (u - 1.0)) / max(u, 1e-300)) * (1.0 if x <= _LARGEST else np.inf)


class SquareFormula(NamedTuple):
    """``(x - o)**2 / 2``."""

    unused: float = 0.0


class LogisticFormula(NamedTuple):
    """``log(1 + exp(-x o))``."""

    unused: float = 0.0


class HuberFormula(NamedTuple):
    """``(x - o)**2 / 2`` within `delta`, ``delta (|x - o| - delta / 2)`` beyond."""

    delta: float


class SquaredHingeFormula(NamedTuple):
    """``max(0, 1 - x o)**2 / 2``."""

    unused: float = 0.0


class SmoothHingeFormula(NamedTuple):
    """With z = x o: ``1/2 - z`` below 0, ``(1 - z)**2 / 2`` up to 1, then 0."""

    unused: float = 0.0


class PoissonFormula(NamedTuple):
    """``exp(x) - o x``."""

    unused: float = 0.0


class AbsoluteFormula(NamedTuple):
    """``|x - o|``."""

    unused: float = 0.0


class QuantileFormula(NamedTuple):
    """``q (o - x)`` below the target, ``(1 - q) (x - o)`` above."""

    q: float


class HingeFormula(NamedTuple):
    """``max(0, 1 - x o)``."""

    unused: float = 0.0


class EpsilonInsensitiveFormula(NamedTuple):
    """``max(0, |x - o| - epsilon)``."""

    epsilon: float


def square_value(p, x, o):
    """``(x - o)**2 / 2``."""
    return 0.5 * (x - o) * (x - o)


def square_slope(p, x, o):
    """``x - o``."""
    return x - o


def square_curvature(p, x, o):
    """One."""
    return 1.0


def logistic_value(p, x, o):
    """``log(1 + exp(-x o))`` without overflow."""
    z = x * o
    return max(-z, 0.0) + log1p_unit(exp(-abs(z)))


def logistic_slope(p, x, o):
    """``-o / (1 + exp(x o))``."""
    z = x * o
    e = exp(-abs(z))
    return -o * (e if z > 0.0 else 1.0) / (1.0 + e)


def logistic_curvature(p, x, o):
    """``o**2 s (1 - s)`` with s the logistic function at x o."""
    e = exp(-abs(x * o))
    return o * o * e / ((1.0 + e) * (1.0 + e))


def huber_value(p, x, o):
    """Quadratic within delta, linear beyond."""
    r = abs(x - o)
    near = min(r, p.delta)
    return near * (r - 0.5 * near)


def huber_slope(p, x, o):
    """``x - o`` clipped to [-delta, delta]."""
    return min(max(x - o, -p.delta), p.delta)


def huber_curvature(p, x, o):
    """One within delta, else zero."""
    return 1.0 if abs(x - o) <= p.delta else 0.0


def squared_hinge_value(p, x, o):
    """``max(0, 1 - x o)**2 / 2``."""
    short = max(0.0, 1.0 - x * o)
    return 0.5 * short * short


def squared_hinge_slope(p, x, o):
    """``-o max(0, 1 - x o)``."""
    return -o * max(0.0, 1.0 - x * o)


def squared_hinge_curvature(p, x, o):
    """``o**2`` inside the margin, else zero."""
    return o * o if x * o < 1.0 else 0.0


def smooth_hinge_value(p, x, o):
    """Hinge with its corner rounded over 0 < x o < 1."""
    z = x * o
    short = min(max(0.0, 1.0 - z), 1.0)
    return 0.5 * short * short + max(-z, 0.0)


def smooth_hinge_slope(p, x, o):
    """``-o`` times 1 - x o clipped to [0, 1]."""
    return -o * min(max(0.0, 1.0 - x * o), 1.0)


def smooth_hinge_curvature(p, x, o):
    """``o**2`` on the rounded corner, else zero."""
    z = x * o
    return o * o if (z > 0.0) & (z < 1.0) else 0.0


def poisson_value(p, x, o):
    """``exp(x) - o x``: the negative log likelihood of counts at log rate x, less its constant."""
    return exp(x) - o * x


def poisson_slope(p, x, o):
    """``exp(x) - o``."""
    return exp(x) - o


def poisson_curvature(p, x, o):
    """``exp(x)``."""
    return exp(x)


def absolute_value(p, x, o):
    """``|x - o|``."""
    return abs(x - o)


def absolute_slope(p, x, o):
    """Sign of x - o; zero at the kink."""
    return (1.0 if x > o else 0.0) - (1.0 if x < o else 0.0)


def quantile_value(p, x, o):
    """The pinball: ``q`` times the shortfall or ``1 - q`` times the excess."""
    return max(p.q * (o - x), (1.0 - p.q) * (x - o))


def quantile_slope(p, x, o):
    """``-q`` below the target, ``1 - q`` above, zero at the kink."""
    return (1.0 - p.q if x > o else 0.0) - (p.q if x < o else 0.0)


def hinge_value(p, x, o):
    """``max(0, 1 - x o)``."""
    return max(0.0, 1.0 - x * o)


def hinge_slope(p, x, o):
    """``-o`` inside the margin, else zero."""
    return -o if x * o < 1.0 else 0.0


def epsilon_insensitive_value(p, x, o):
    """``max(0, |x - o| - epsilon)``."""
    return max(0.0, abs(x - o) - p.epsilon)


def epsilon_insensitive_slope(p, x, o):
    """Sign of x - o outside the tube, zero inside."""
    return (1.0 if x - o > p.epsilon else 0.0) - (1.0 if o - x > p.epsilon else 0.0)


def flat(p, x, o):
    """Zero: the curvature of a piecewise-linear loss, away from its kinks."""
    return 0.0


def absolute_kinks(p, o):
    """Slope far left; place and jump of the first kink; of the second (no jump: there is none)."""
    return -1.0, o, 2.0, o, 0.0


def quantile_kinks(p, o):
    """As `absolute_kinks`."""
    return -p.q, o, 1.0, o, 0.0


def hinge_kinks(p, o):
    """As `absolute_kinks`; targets are -1 or +1, so the margin ends at x = o."""
    return min(-o, 0.0), o, 1.0, o, 0.0


def epsilon_insensitive_kinks(p, o):
    """As `absolute_kinks`."""
    return -1.0, o - p.epsilon, 1.0, o + p.epsilon, 1.0


FORMULAS: dict[type, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    SquareFormula: (square_value, square_slope, square_curvature),
    LogisticFormula: (logistic_value, logistic_slope, logistic_curvature),
    HuberFormula: (huber_value, huber_slope, huber_curvature),
    SquaredHingeFormula: (squared_hinge_value, squared_hinge_slope, squared_hinge_curvature),
    SmoothHingeFormula: (smooth_hinge_value, smooth_hinge_slope, smooth_hinge_curvature),
    PoissonFormula: (poisson_value, poisson_slope, poisson_curvature),
    AbsoluteFormula: (absolute_value, absolute_slope, flat),
    QuantileFormula: (quantile_value, quantile_slope, flat),
    HingeFormula: (hinge_value, hinge_slope, flat),
    EpsilonInsensitiveFormula: (epsilon_insensitive_value, epsilon_insensitive_slope, flat),
}
KINKS: dict[type, Callable[..., Any]] = {
    AbsoluteFormula: absolute_kinks,
    QuantileFormula: quantile_kinks,
    HingeFormula: hinge_kinks,
    EpsilonInsensitiveFormula: epsilon_insensitive_kinks,
}


def value_at(p, x, o):
    """Loss at prediction x and target o."""
    return FORMULAS[type(p)][0](p, x, o)


def slope_at(p, x, o):
    """Derivative of the loss in x."""
    return FORMULAS[type(p)][1](p, x, o)


def curvature_at(p, x, o):
    """Second derivative of the loss in x."""
    return FORMULAS[type(p)][2](p, x, o)


def kinks_at(p, o):
    """Slope far left, then place and jump of each kink, of a piecewise-linear loss."""
    return KINKS[type(p)](p, o)


@overload(value_at, jit_options=INLINED)
def _value_at(p, x, o):
    return FORMULAS[p.instance_class][0]


@overload(slope_at, jit_options=INLINED)
def _slope_at(p, x, o):
    return FORMULAS[p.instance_class][1]


@overload(curvature_at, jit_options=INLINED)
def _curvature_at(p, x, o):
    return FORMULAS[p.instance_class][2]


@overload(kinks_at, jit_options=INLINED)
def _kinks_at(p, o):
    return KINKS[p.instance_class]
