"""Certificates of nuclear-norm problems: the top singular value of a gradient with a bound, and duality gaps."""

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from .._arrays import Array
from ..losses import Loss
from ..objectives import Entrywise, Gradient, Objective
from ..observations import Observations
from ..spectral import Lanczos

ORACLE = Lanczos(tol=1e-5, block=2, max_blocks=20, max_restarts=4)
ROUNDING = 1e-7  # relative error of a product with vectors stored in float32


class Top(NamedTuple):
    """Top singular triplet of a gradient, an upper estimate of its singular value, and the number of products."""

    u: Array
    sigma: float
    v: Array
    upper: float
    n_products: int


def top_triplet(gradient: Gradient, rng: Generator) -> Top:
    """Return the top singular triplet with ``upper = sigma + ||G.T u - sigma v||``.

    Some singular value of G lies within the residual's norm of sigma. That it is the largest one follows from the
    random start: Lanczos' method does not miss one that is well separated.
    """
    u, sigma, v, n_products = ORACLE(gradient, rng=rng)
    residual = float(np.linalg.norm(gradient.rmatvec(u) - sigma * v)) if sigma > 0 else 0.0
    return Top(u, sigma, v, sigma * (1 + ROUNDING) + residual, n_products + 1)


def nuclear_gap(objective: Objective, weight: float, upper: float, norm: float) -> float:
    """Return a bound on ``f(X) + weight ||X||_* - min``; infinite if no lower bound on f is known.

    With ``tau = min(1, weight / upper)``, tau times the gradient G is feasible in the dual problem. As f is convex and
    at least `least_value`, its conjugate there is at most the chord between tau = 0 and tau = 1, which gives
    ``(1 - tau) (f(X) - least) + weight ||X||_* + tau <G, X>``; for a quadratic f, 1 - tau is squared.

    Parameters
    ----------
    objective : Objective
    weight : float
        Nuclear-norm weight.
    upper : float
        At least the largest singular value of the gradient at X.
    norm : float
        Nuclear norm of X.
    """
    least = least_value(objective)
    if least is None:
        return np.inf
    tau = min(1.0, weight / upper) if upper > 0 else 1.0
    rest = (1 - tau) ** (2 if objective.quadratic else 1)
    return max(rest * (objective.value() - least) + weight * norm + tau * objective.gradient().inner, 0.0)


def least_value(objective: Objective) -> float | None:
    """Return a lower bound on f over all matrices, the sum of the least losses; None if it is not known."""
    if not isinstance(objective, Entrywise) or not objective.loss.built_in or objective.loss.name == "mixed":
        return None
    if type(objective.loss).least_value is Loss.least_value:
        return 0.0
    entries: object = objective.observations  # may be on disk or on a cluster
    if not isinstance(entries, Observations):
        return None
    least = objective.loss.least_value(entries.targets.astype(np.float64))
    return float(least.sum() if entries.weights is None else entries.weights @ least)
