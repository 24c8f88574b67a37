"""Loops over observed entries that inline a loss: value, slopes, derivatives along directions.

`base` holds numbers added to the low-rank prediction at each entry, or is None; `weights` may be None, for ones.
"""

from typing import NamedTuple

from numba import float64

from .._arrays import Array
from .formulas import curvature_at, slope_at, value_at
from .jit import jit, part


class SearchLine(NamedTuple):
    """Observed entries at X, and a direction D from there; all arrays of shape (n_entries,)."""

    predicted: Array  # X without `base`
    base: Array | None
    direction: Array
    targets: Array
    weights: Array | None


@part
def weight_at(weights, k):
    """Weight of entry k. A function, because Numba removes a branch on None only if its condition is an argument."""
    return 1.0 if weights is None else float64(weights[k])


@part
def base_at(base, k):
    """Number added to the prediction of entry k."""
    return 0.0 if base is None else float64(base[k])


@jit
def evaluate(loss, predicted, base, targets, weights, slopes):
    """Write the slopes; return f, the squared norm of the slopes, and their inner product with `predicted`."""
    value = norm = inner = 0.0
    for k in range(predicted.size):
        p, o = float64(predicted[k]), float64(targets[k])
        w = weight_at(weights, k)
        x = p if base is None else p + float64(base[k])
        value += w * value_at(loss, x, o)
        slope = w * slope_at(loss, x, o)
        norm += slope * slope
        inner += slope * p
        slopes[k] = slope
    return value, norm, inner


@jit
def plane(loss, line, shrink, weight):
    """Value of f(shrink X + weight D) and its derivatives in `shrink` and `weight`."""
    predicted, base, direction, targets, weights = line
    value = slope_x = slope_d = 0.0
    for k in range(predicted.size):
        p, d, o = float64(predicted[k]), float64(direction[k]), float64(targets[k])
        w = weight_at(weights, k)
        x = shrink * p + weight * d
        x += base_at(base, k)
        value += w * value_at(loss, x, o)
        slope = w * slope_at(loss, x, o)
        slope_x += slope * p
        slope_d += slope * d
    return value, slope_x, slope_d


@jit
def plane_curve(loss, line, shrink, weight):
    """The three second derivatives of f(shrink X + weight D) in `shrink` and `weight`."""
    predicted, base, direction, targets, weights = line
    curve_xx = curve_xd = curve_dd = 0.0
    for k in range(predicted.size):
        p, d, o = float64(predicted[k]), float64(direction[k]), float64(targets[k])
        w = weight_at(weights, k)
        x = shrink * p + weight * d
        x += base_at(base, k)
        curvature = w * curvature_at(loss, x, o)
        curve_xx += curvature * p * p
        curve_xd += curvature * p * d
        curve_dd += curvature * d * d
    return curve_xx, curve_xd, curve_dd


@jit
def curve(loss, line, out):
    """Write ``curvature * direction`` at every observed entry."""
    predicted, base, direction, targets, weights = line
    for k in range(predicted.size):
        w = weight_at(weights, k)
        x = float64(predicted[k])
        x += base_at(base, k)
        out[k] = w * curvature_at(loss, x, float64(targets[k])) * direction[k]


@jit
def values_at(loss, x, o, out):
    """Write value, slope and curvature of the loss at paired points into the three rows of `out`."""
    for k in range(x.size):
        out[0, k] = value_at(loss, x[k], o[k])
        out[1, k] = slope_at(loss, x[k], o[k])
        out[2, k] = curvature_at(loss, x[k], o[k])
