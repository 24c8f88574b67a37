"""Loops over observed entries that inline a loss: value, slopes, derivatives along directions.

`base` holds numbers added to the low-rank prediction at each entry, or is None; `weights` may be None, for ones.
"""

from numba import float64

from .formulas import curvature_at, slope_at, value_at
from .jit import jit


@jit
def evaluate(loss, predicted, base, targets, weights, slopes):
    """Write the slopes; return f, the squared norm of the slopes, and their inner product with `predicted`."""
    value = norm = inner = 0.0
    for k in range(predicted.size):
        p, o = float64(predicted[k]), float64(targets[k])
        w = 1.0 if weights is None else float64(weights[k])
        x = p if base is None else p + float64(base[k])
        value += w * value_at(loss, x, o)
        slope = w * slope_at(loss, x, o)
        norm += slope * slope
        inner += slope * p
        slopes[k] = slope
    return value, norm, inner


@jit
def plane(loss, predicted, base, direction, targets, weights, shrink, weight):
    """Value of f(shrink X + weight D) and its derivatives in `shrink` and `weight`."""
    value = slope_x = slope_d = 0.0
    for k in range(predicted.size):
        p, d, o = float64(predicted[k]), float64(direction[k]), float64(targets[k])
        w = 1.0 if weights is None else float64(weights[k])
        x = shrink * p + weight * d
        x += 0.0 if base is None else float64(base[k])
        value += w * value_at(loss, x, o)
        slope = w * slope_at(loss, x, o)
        slope_x += slope * p
        slope_d += slope * d
    return value, slope_x, slope_d


@jit
def plane_curve(loss, predicted, base, direction, targets, weights, shrink, weight):
    """The three second derivatives of f(shrink X + weight D) in `shrink` and `weight`."""
    curve_xx = curve_xd = curve_dd = 0.0
    for k in range(predicted.size):
        p, d, o = float64(predicted[k]), float64(direction[k]), float64(targets[k])
        w = 1.0 if weights is None else float64(weights[k])
        x = shrink * p + weight * d
        x += 0.0 if base is None else float64(base[k])
        curvature = w * curvature_at(loss, x, o)
        curve_xx += curvature * p * p
        curve_xd += curvature * p * d
        curve_dd += curvature * d * d
    return curve_xx, curve_xd, curve_dd


@jit
def curve(loss, predicted, base, direction, targets, weights, out):
    """Write ``curvature * direction`` at every observed entry."""
    for k in range(predicted.size):
        w = 1.0 if weights is None else float64(weights[k])
        x = float64(predicted[k])
        x += 0.0 if base is None else float64(base[k])
        out[k] = w * curvature_at(loss, x, float64(targets[k])) * direction[k]


@jit
def values_at(loss, x, o, out):
    """Write value, slope and curvature of the loss at paired points into the three rows of `out`."""
    for k in range(x.size):
        out[0, k] = value_at(loss, x[k], o[k])
        out[1, k] = slope_at(loss, x[k], o[k])
        out[2, k] = curvature_at(loss, x[k], o[k])
