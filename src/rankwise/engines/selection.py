"""The exact minimum of a piecewise-linear f along a direction: a weighted median, by selection, not sorting."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base import Engine

BINS, FEW, ROUNDS = 256, 4096, 400
ROUNDING = 1e-12  # a slope smaller than this share of all jumps is zero


def best_weight(engine: Engine, tilt: float = 0.0, curvature: float = 0.0) -> float:
    """Minimiser over eta >= 0 of ``f(X + eta D) + tilt eta + curvature eta**2 / 2``, D being what the shards aim at.

    Slopes bracket it first. Then each round passes once over the observations and keeps the bin in which the slope
    turns, 1/256 of the interval; when few breakpoints are left they are sorted. O(n_observed) a pass.
    """
    slope, jumps, _ = engine.sum("breakpoints", 0.0, np.finfo(float).max, 1)
    nothing = -ROUNDING * (abs(slope) + jumps)
    if slope + tilt >= nothing:
        return 0.0
    (lo, hi), widen = _bracket(engine, tilt, curvature, nothing), True
    for _ in range(ROUNDS):
        slope, jumps, counts = _round(engine, lo, hi)
        edges = np.linspace(lo, hi, BINS + 1)
        slopes = slope + tilt + np.r_[0.0, np.cumsum(jumps)] + curvature * edges
        if slopes[0] >= nothing:
            return lo
        if slopes[-1] < nothing:
            if not widen:  # the minimum was known to be here, so this is rounding
                return hi
            lo, hi = hi, 8 * hi
            continue
        k, widen = int(np.argmax(slopes >= nothing)) - 1, False
        lo, hi = float(edges[k]), float(edges[k + 1])
        if counts[k] <= FEW or hi - lo <= 4 * np.spacing(hi):
            return _walk(engine, lo, hi, tilt, curvature, nothing)
    return lo


def _bracket(engine: Engine, tilt: float, curvature: float, nothing: float) -> tuple[float, float]:
    """Where the minimum is, to a thousandth or so of itself, by the signs of slopes: cheaper passes than a round."""

    def falls(eta: float) -> bool:
        return bool(engine.sum("plane", 1.0, eta)[2] + tilt + curvature * eta < nothing)

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


def _round(engine: Engine, lo: float, hi: float) -> tuple[float, NDArray[Any], NDArray[Any]]:
    answer = engine.sum("breakpoints", lo, hi, BINS)
    return float(answer[0]), answer[1 : BINS + 1], answer[BINS + 1 :]


def _walk(engine: Engine, lo: float, hi: float, tilt: float, curvature: float, nothing: float) -> float:
    """Go through the few breakpoints of (lo, hi] in order, to where the slope turns; it may turn at lo itself."""
    points = engine.concatenate("breakpoints_between", lo, hi, 2 * FEW)
    at_lo = points[:, 0] <= lo
    slope, at = float(points[at_lo, 1].sum()) + tilt, lo
    if slope + curvature * lo >= nothing:
        return lo
    points = points[~at_lo]
    for eta, jump in points[np.argsort(points[:, 0], kind="stable")]:
        if curvature > 0 and slope + curvature * eta >= 0:  # it turns on the way there
            return float(np.clip(-slope / curvature, at, eta))
        at, slope = float(eta), slope + jump
        if slope + curvature * at >= nothing:
            return at
    return float(np.clip(-slope / curvature, at, hi)) if curvature > 0 else hi
