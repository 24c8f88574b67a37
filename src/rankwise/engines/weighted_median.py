"""Exact minimizer of a piecewise-linear f along a direction: a weighted median, found by selection without sorting."""

import numpy as np

from .._arrays import Array
from .base import Engine
from .shard import Shard

N_BINS, SORTABLE, MAX_PASSES = 256, 4096, 400  # bins of a pass, breakpoints that are sorted, passes at most
ZERO_SLOPE = 1e-12  # a slope smaller than this share of all jumps is zero


def best_weight(engine: Engine, tilt: float = 0.0, curvature: float = 0.0) -> float:
    """Return the minimizer over eta >= 0 of ``f(X + eta D) + tilt eta + curvature eta**2 / 2``, D of the last `aim`.

    Signs of slopes bracket it first. Then each round passes once over the observations and keeps the bin in which the
    slope changes its sign, 1/256 of the interval; when few breakpoints are left they are sorted. O(n_observed) a pass.
    """
    slope, jumps, _ = engine.run(Shard.breakpoints, 0.0, np.finfo(float).max, 1)
    zero_slope = -ZERO_SLOPE * (abs(slope) + jumps)
    if slope + tilt >= zero_slope:
        return 0.0
    (lo, hi), widen = _bracket(engine, tilt, curvature, zero_slope), True
    for _ in range(MAX_PASSES):
        slope, jumps, counts = _round(engine, lo, hi)
        edges = np.linspace(lo, hi, N_BINS + 1)
        slopes = slope + tilt + np.r_[0.0, np.cumsum(jumps)] + curvature * edges
        if slopes[0] >= zero_slope:
            return lo
        if slopes[-1] < zero_slope:
            if not widen:  # the minimum is bracketed, so this is rounding
                return hi
            lo, hi = hi, 8 * hi
            continue
        k, widen = int(np.argmax(slopes >= zero_slope)) - 1, False
        lo, hi = float(edges[k]), float(edges[k + 1])
        if counts[k] <= SORTABLE or hi - lo <= 4 * np.spacing(hi):
            return _walk(engine, lo, hi, tilt, curvature, zero_slope)
    return lo


def _bracket(engine: Engine, tilt: float, curvature: float, zero_slope: float) -> tuple[float, float]:
    """Bracket the minimizer to about a thousandth of itself by the signs of slopes, in cheaper passes than `_round`."""

    def falls(eta: float) -> bool:
        return bool(engine.run(Shard.plane, 1.0, eta)[2] + tilt + curvature * eta < zero_slope)

    lo, hi = 0.0, 1.0
    if falls(hi):
        while falls(hi) and hi < 1e30:
            lo, hi = hi, 8 * hi
    else:
        while hi > 1e-30 and not falls(hi / 8):
            hi /= 8
        lo = hi / 8 if hi > 1e-30 else 0.0
    for _ in range(10):
        middle = 0.5 * (lo + hi)
        lo, hi = (middle, hi) if falls(middle) else (lo, middle)
    return lo, hi


def _round(engine: Engine, lo: float, hi: float) -> tuple[float, Array, Array]:
    """Return the slope just above lo, and jumps and counts of breakpoints in equal bins of (lo, hi]."""
    bins = engine.run(Shard.breakpoints, lo, hi, N_BINS)
    return float(bins[0]), bins[1 : N_BINS + 1], bins[N_BINS + 1 :]


def _walk(engine: Engine, lo: float, hi: float, tilt: float, curvature: float, zero_slope: float) -> float:
    """Return where the slope changes its sign in [lo, hi], by sorting the few breakpoints there."""
    points = engine.run(Shard.breakpoints_between, lo, hi, 2 * SORTABLE)
    at_lo = points[:, 0] <= lo
    slope, at = float(points[at_lo, 1].sum()) + tilt, lo
    if slope + curvature * lo >= zero_slope:
        return lo
    points = points[~at_lo]
    for eta, jump in points[np.argsort(points[:, 0], kind="stable")]:
        if curvature > 0 and slope + curvature * eta >= 0:  # the slope reaches zero before eta
            return float(np.clip(-slope / curvature, at, eta))
        at, slope = float(eta), slope + jump
        if slope + curvature * at >= zero_slope:
            return at
    return float(np.clip(-slope / curvature, at, hi)) if curvature > 0 else hi
