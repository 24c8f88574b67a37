"""Step length along a new rank-one term, and minimization over a few coefficients."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq, minimize

from .._arrays import Array
from ..objectives import Objective, Restriction

Valued = Callable[[Array], tuple[float, Array]]
MAX_BACKTRACKS = 60  # changes of the curvature bound at most
MAX_EVALUATIONS = 80  # to find where f is finite
FARTHEST = 16.0  # largest extrapolation, in steps


def first_weight(objective: Objective, u: Array, sigma: float, v: Array) -> tuple[float, int]:
    """Return the weight of the new term in line 4 of Algorithm 2, and the number of evaluations of f.

    The weight is ``-sigma / L``, the longest step that Proposition 1 allows. If L is unknown, it is the smallest L,
    found by backtracking, for which the proposition's descent holds along this term. Zero if no step lowers f.
    """
    if objective.lipschitz is not None:
        return -sigma / objective.lipschitz, 0
    return backtrack(objective.along(u, v), sigma, objective.smooth)


def backtrack(phi: Restriction, sigma: float, smooth: bool = True) -> tuple[float, int]:
    """Return ``w = -sigma / L`` with ``f(X + w D) <= f(X) - sigma**2 / (2 L)``, L found by halving or doubling.

    The search starts from the curvature at X, or from the smallest L with which a positive f stays positive.
    """
    here = np.array([1.0, 0.0])
    value, _ = phi(here)
    curvature = phi.curve(here, np.array([0.0, 1.0]))[1] if smooth else 0.0
    if not 0 < curvature < np.inf:
        curvature = sigma**2 / (2 * value) if value > 0 else 1.0
    bound = curvature if 0 < curvature < np.inf else 1.0

    def holds(bound: float) -> bool:
        reached = phi(np.array([1.0, -sigma / bound]))[0]
        return bool(reached < value and reached <= value - sigma**2 / (2 * bound))

    growth = 0.5 if holds(bound) else 2.0
    for tries in range(1, MAX_BACKTRACKS):
        if holds(growth * bound) == (growth > 1):
            return -sigma / (growth * bound if growth > 1 else bound), tries + 2
        bound *= growth
    return (-sigma / bound if growth < 1 else 0.0), MAX_BACKTRACKS + 1


def solve_quadratic(phi: Restriction, start: Array) -> tuple[Array, int]:
    """Return the minimizer of a quadratic restriction, by a Newton step and a second one that corrects rounding."""
    hessian = phi.hessian()
    root = np.sqrt(np.diag(hessian))
    unit = np.divide(1.0, root, out=np.ones_like(root), where=root > 0)  # otherwise large targets hide the new term
    best, (least, gradient) = start, phi(start)
    for _ in range(2):
        c = best - unit * np.linalg.lstsq(hessian * unit * unit[:, None], unit * gradient, rcond=None)[0]
        value, gradient = phi(c)
        if not value <= least:  # rounding, not progress
            break
        best, least = c, value
    return best, 3


def minimise(phi: Valued, start: Array, scale: Array, max_iter: int, gtol: float = 1e-5) -> tuple[Array, int]:
    """Minimize a restriction by at most `max_iter` L-BFGS iterations from `start`.

    The result is never worse than `start`, and f is finite there.

    Parameters
    ----------
    phi : callable c -> (value, gradient)
    start : ndarray of shape (k,)
    scale : ndarray of shape (k,)
        L-BFGS sees ``(c - start) / scale``, and its first step has length one. The refinements pass line 4's weight,
        a short step: exact minima of the training value predict held-out entries worse (benchmarks/bench_lbfgs.py).
    max_iter : int
    gtol : float
        Stop when no slope is larger, relative to the sum of those at `start`; zero for many coefficients.

    Returns
    -------
    c : ndarray of shape (k,)
    n_evaluations : int
    """
    best, (least, gradient) = start, phi(start)
    unit = float(np.abs(gradient) @ scale) or 1.0
    first = least / unit, scale * gradient / unit  # at `start`, where L-BFGS evaluates first
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

    options = {"maxiter": max_iter, "gtol": gtol}
    minimize(scaled, np.zeros_like(start), jac=True, method="L-BFGS-B", options=options)
    return best, n_evaluations


def tilted(phi: Valued, tilt: float) -> Valued:
    """Return ``c -> phi(c) + tilt c[1]``, with its gradient."""

    def value(c: Array) -> tuple[float, Array]:
        found, slopes = phi(c)
        return found + tilt * float(c[1]), slopes + np.array([0.0, tilt])

    return value


def bisect(phi: Valued) -> tuple[float, int]:
    """Minimize a convex restriction over weight >= 0 at shrink = 1, to a relative accuracy of 1e-9.

    Returns the weight and the number of evaluations.
    """

    def slope(weight: float) -> float:
        return float(phi(np.array([1.0, weight]))[1][1])

    first = slope(0.0)
    if not first < 0:
        return 0.0, 1

    def rise(weight: float) -> float:
        return slope(weight) - 1e-9 * first  # slopes by differences are never exactly zero

    lo, hi, at_hi, n_evaluations = 0.0, 1.0, rise(1.0), 2
    while at_hi < 0 and hi < 1e30:
        lo, hi, at_hi, n_evaluations = hi, 4 * hi, rise(4 * hi), n_evaluations + 1
    while not np.isfinite(at_hi) and n_evaluations < MAX_EVALUATIONS:  # f may be infinite there
        middle = 0.5 * (lo + hi)
        at_middle, n_evaluations = rise(middle), n_evaluations + 1
        lo, hi, at_hi = (middle, hi, at_hi) if at_middle < 0 else (lo, middle, at_middle)
    if not 0 <= at_hi < np.inf:
        return lo, n_evaluations
    weight, result = brentq(rise, lo, hi, xtol=1e-300, rtol=1e-9, full_output=True, disp=False)
    return float(weight), n_evaluations + int(result.function_calls)


def extrapolated(first: Array, second: Array, third: Array) -> Array:
    """Extrapolation of each row from its last three iterates (SQUAREM, Varadhan and Roland, 2008).

    Iterates that alternate around their limit have a length of 1/2, which takes them to the middle.
    """
    step = second.astype(np.float64) - first
    change = third.astype(np.float64) - second - step
    size, turn = (np.linalg.norm(part, axis=1, keepdims=True) for part in (step, change))
    length = np.clip(np.divide(size, turn, out=np.ones_like(size), where=turn > 0), 0.5, FARTHEST)
    return np.ascontiguousarray(first + 2 * length * step + length**2 * change, first.dtype)
