"""Loops over the breakpoints of f along a direction, for piecewise-linear losses.

Along X + eta D the loss of one entry has a kink where ``x + eta d`` meets a kink of the loss, so the slope of f in eta
jumps there. The smallest eta at which the slope is no longer negative minimizes f: a weighted median.
"""

from numba import float64, uint64

from .formulas import kinks_at
from .jit import jit


@jit
def breakpoints(loss, predicted, base, direction, targets, weights, lo, hi, jumps, counts):
    """Return the slope just above `lo`; add the jumps in (lo, hi] to equal bins, and count them."""
    slope = 0.0
    scale = jumps.size / (hi - lo)
    last = uint64(jumps.size - 1)
    for k in range(predicted.size):
        d = float64(direction[k])
        if d == 0.0:
            continue
        w = 1.0 if weights is None else float64(weights[k])
        x = float64(predicted[k])
        x += 0.0 if base is None else float64(base[k])
        far_left, z1, j1, z2, j2 = kinks_at(loss, float64(targets[k]))
        slope += w * d * (far_left if d > 0.0 else far_left + j1 + j2)
        for z, j in ((z1, j1), (z2, j2)):
            eta = (z - x) / d
            jump = w * j * abs(d)
            if eta <= lo:
                slope += jump
            elif eta <= hi and jump > 0.0:
                bin_ = min(uint64((eta - lo) * scale), last)
                jumps[bin_] += jump
                counts[bin_] += 1.0
    return slope


@jit
def breakpoints_between(loss, predicted, base, direction, targets, weights, lo, hi, etas, jumps):
    """Write the breakpoints in (lo, hi] and their jumps; return how many, and the slope just above `lo`."""
    n = uint64(0)
    slope = 0.0
    for k in range(predicted.size):
        d = float64(direction[k])
        if d == 0.0:
            continue
        w = 1.0 if weights is None else float64(weights[k])
        x = float64(predicted[k])
        x += 0.0 if base is None else float64(base[k])
        far_left, z1, j1, z2, j2 = kinks_at(loss, float64(targets[k]))
        slope += w * d * (far_left if d > 0.0 else far_left + j1 + j2)
        for z, j in ((z1, j1), (z2, j2)):
            eta = (z - x) / d
            jump = w * j * abs(d)
            if eta <= lo:
                slope += jump
            elif eta <= hi and jump > 0.0 and n < etas.size:
                etas[n] = eta
                jumps[n] = jump
                n += uint64(1)
    return n, slope
