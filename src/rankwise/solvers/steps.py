"""How far to go along a new rank-one term, and small minimisations over a few coefficients."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize

from ..objectives import Objective, Restriction

Array = NDArray[Any]
Valued = Callable[[Array], tuple[float, Array]]
TRIES = 60
MOST = 80  # evaluations to find where f is finite


def first_weight(objective: Objective, u: Array, sigma: float, v: Array) -> tuple[float, int]:
    """Weight of the new term in line 4 of Algorithm 2, and the evaluations it took.

    It is ``-sigma / L``, the longest step Proposition 1 allows; where L is unknown, the smallest L found by
    backtracking for which the proposition's descent holds along this term. Zero if no step lowers f.
    """
    if objective.lipschitz is not None:
        return -sigma / objective.lipschitz, 0
    return backtrack(objective.along(u, v), sigma)


def backtrack(phi: Restriction, sigma: float) -> tuple[float, int]:
    """Find L by halving or doubling so that ``f(X - sigma / L D) <= f(X) - sigma**2 / (2 L)``."""
    here = np.array([1.0, 0.0])
    value, _ = phi(here)
    curvature = phi.curve(here, np.array([0.0, 1.0]))[1]
    bound = curvature if 0 < curvature < np.inf else 1.0

    def holds(bound: float) -> bool:
        reached = phi(np.array([1.0, -sigma / bound]))[0]
        return bool(reached < value and reached <= value - sigma**2 / (2 * bound))

    growth = 0.5 if holds(bound) else 2.0
    for tries in range(1, TRIES):
        if holds(growth * bound) == (growth > 1):
            return -sigma / (growth * bound if growth > 1 else bound), tries + 2
        bound *= growth
    return (-sigma / bound if growth < 1 else 0.0), TRIES + 1


def solve_quadratic(phi: Restriction, start: Array) -> tuple[Array, int]:
    """Minimiser of a quadratic restriction, by Newton's step and a second one that mends its rounding."""
    hessian = phi.hessian()
    root = np.sqrt(np.diag(hessian))
    unit = np.divide(1.0, root, out=np.ones_like(root), where=root > 0)  # else large targets hide the new term
    best, (least, gradient) = start, phi(start)
    for _ in range(2):
        c = best - unit * np.linalg.lstsq(hessian * unit * unit[:, None], unit * gradient, rcond=None)[0]
        value, gradient = phi(c)
        if not value <= least:  # rounding, not progress
            break
        best, least = c, value
    return best, 3


def minimise(phi: Valued, start: Array, scale: Array, max_iter: int) -> tuple[Array, int]:
    """Lower a restriction by at most `max_iter` L-BFGS iterations from `start`.

    Never returns a point that is worse than `start`, nor one where f is not finite.

    Parameters
    ----------
    phi : callable c -> (value, gradient)
    start : ndarray of shape (k,)
    scale : ndarray of shape (k,)
        L-BFGS sees ``(c - start) / scale``, and its first step has length one. The refinements pass line 4's weight,
        a short step: exact minima of the training value predict held-out entries worse (benchmarks/bench_lbfgs.py).
    max_iter : int

    Returns
    -------
    c : ndarray of shape (k,)
    n_evaluations : int
    """
    best, (least, gradient) = start, phi(start)
    unit = float(np.abs(gradient) @ scale) or 1.0
    first = least / unit, scale * gradient / unit  # what L-BFGS asks for first
    n_evaluations = 1

    def scaled(y: Array) -> tuple[float, Array]:
        nonlocal best, least, n_evaluations
        if not y.any():
            return first
        c = start + scale * y
        value, gradient = phi(c)
        n_evaluations += 1
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return np.finfo(float).max, np.zeros_like(y)
        if value < least:
            best, least = c, value
        return value / unit, scale * gradient / unit

    minimize(scaled, np.zeros_like(start), jac=True, method="L-BFGS-B", options={"maxiter": max_iter})
    return best, n_evaluations


def bisect(phi: Restriction) -> tuple[float, int]:
    """Minimiser over weight >= 0 of a convex restriction at shrink = 1: where its slope is zero, to 1e-9 of itself."""

    def slope(weight: float) -> float:
        return float(phi(np.array([1.0, weight]))[1][1])

    first = slope(0.0)
    if not first < 0:
        return 0.0, 1

    def rise(weight: float) -> float:
        return slope(weight) - 1e-9 * first  # a slope by differences is never exactly zero

    lo, hi, at_hi, n_evaluations = 0.0, 1.0, rise(1.0), 2
    while at_hi < 0 and hi < 1e30:
        lo, hi, at_hi, n_evaluations = hi, 4 * hi, rise(4 * hi), n_evaluations + 1
    while not np.isfinite(at_hi) and n_evaluations < MOST:  # f may be infinite there
        middle = 0.5 * (lo + hi)
        found, n_evaluations = rise(middle), n_evaluations + 1
        lo, hi, at_hi = (middle, hi, at_hi) if found < 0 else (lo, middle, found)
    if not 0 <= at_hi < np.inf:
        return lo, n_evaluations
    weight, result = brentq(rise, lo, hi, xtol=1e-300, rtol=1e-9, full_output=True, disp=False)
    return float(weight), n_evaluations + int(result.function_calls)
