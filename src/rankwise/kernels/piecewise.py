"""Loops over the breakpoints of f along a direction, for piecewise-linear losses.

Along X + eta D the loss of one entry has a kink where ``x + eta d`` meets a kink of the loss, so the slope of f in eta
jumps there. The smallest eta at which the slope is no longer negative minimizes f: a weighted median.
"""

from numba import float64, uint64

from .entrywise import base_at, weight_at
from .formulas import kinks_at
from .jit import jit, part


@part
def kinks_along(loss, line, k):
    """Slope of entry k at the smallest eta, and eta and jump of each of its two breakpoints; D is not zero there."""
    d, w = float64(line.direction[k]), weight_at(line.weights, k)
    x = float64(line.predicted[k]) + base_at(line.base, k)
    far_left, z1, j1, z2, j2 = kinks_at(loss, float64(line.targets[k]))
    slope = w * d * (far_left if d > 0.0 else far_left + j1 + j2)
    return slope, (((z1 - x) / d, w * j1 * abs(d)), ((z2 - x) / d, w * j2 * abs(d)))


@jit
def breakpoints(loss, line, lo, hi, jumps, counts):
    """Return the slope just above `lo`; add the jumps in (lo, hi] to equal bins, and count them.

    `line` is an `entrywise.SearchLine`.
    """
    slope, direction = 0.0, line.direction
    scale, last = jumps.size / (hi - lo), uint64(jumps.size - 1)
    for k in range(direction.size):
        if direction[k] == 0.0:
            continue
        first_slope, kinks = kinks_along(loss, line, k)
        slope += first_slope
        for eta, jump in kinks:
            if eta <= lo:
                slope += jump
            elif eta <= hi and jump > 0.0:
                bin_ = min(uint64((eta - lo) * scale), last)
                jumps[bin_] += jump
                counts[bin_] += 1.0
    return slope


@jit
def breakpoints_between(loss, line, lo, hi, etas, jumps):
    """Write the breakpoints in (lo, hi] and their jumps; return how many, and the slope just above `lo`."""
    n, slope, direction = uint64(0), 0.0, line.direction
    for k in range(direction.size):
        if direction[k] == 0.0:
            continue
        first_slope, kinks = kinks_along(loss, line, k)
        slope += first_slope
        for eta, jump in kinks:
            if eta <= lo:
                slope += jump
            elif eta <= hi and jump > 0.0 and n < etas.size:
                etas[n] = eta
                jumps[n] = jump
                n += uint64(1)
    return n, slope
