"""Small nuclear-norm problems with their dense twins, solutions, and minima by a generic convex solver."""

from functools import cache

import cvxpy as cp
import numpy as np
import pytest
from helpers import make_observations
from reference import Dense

from rankwise import Problem, Ridged
from rankwise.losses import Logistic, Square

both_losses = pytest.mark.parametrize("loss", [Square(), Logistic()], ids=repr)
every_share = pytest.mark.parametrize("share", [0.5, 0.1])


def make_problem(loss, ridge=0.0, shape=(20, 15), weights=True, seed=1):
    observations = make_observations(loss, np.random.default_rng(seed), shape, 0.5, weights)
    problem = Problem(observations, loss, dtype=np.float64)
    return (Ridged(problem, ridge) if ridge else problem), Dense(observations, loss, ridge)


def largest_weight(f):
    return np.linalg.norm(f.gradient(np.zeros(f.shape)), 2)


def shrunk(X, threshold):
    left, values, right = np.linalg.svd(X, full_matrices=False)
    return (left * np.maximum(values - threshold, 0)) @ right


def proximal_solve(f, lipschitz, weight, n_iter=20_000):
    """Minimiser of ``f + weight ||X||_*`` and its value: accelerated proximal gradient, restarted, to rounding."""
    X = Z = np.zeros(f.shape)
    momentum, last = 1.0, np.inf
    for _ in range(n_iter):
        Y = shrunk(Z - f.gradient(Z) / lipschitz, weight / lipschitz)
        value = f.value(Y) + weight * np.linalg.norm(Y, "nuc")
        momentum = 1.0 if value > last else momentum
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        Z, moved = Y + (momentum - 1) / following * (Y - X), np.linalg.norm(Y - X)
        X, momentum, last = Y, following, value
        if moved <= 1e-13 * np.linalg.norm(Y):
            break
    return X, value


@cache
def solved(loss, ridge, share):
    """A problem, its dense twin, the weight that is this share of the largest useful one, and the solution."""
    problem, f = make_problem(loss, ridge)
    weight = share * largest_weight(f)
    return problem, f, weight, *proximal_solve(f, problem.lipschitz, weight)


def cvxpy_minimum(f, penalty=None, radius=None):
    """Least ``f + penalty ||X||_*``, or least f over the ball of this radius, by a generic convex solver."""
    X = cp.Variable(f.shape)
    seen = X[f.rows, f.cols]
    if isinstance(f.loss, Square):
        losses = cp.square(seen - f.targets) / 2
    else:
        losses = cp.logistic(-cp.multiply(f.targets, seen))
    fit = f.weights @ losses
    if radius is not None:
        return cp.Problem(cp.Minimize(fit), [cp.normNuc(X) <= radius]).solve(solver="CLARABEL")
    return cp.Problem(cp.Minimize(fit + penalty * cp.normNuc(X))).solve(solver="CLARABEL")


def values_of(result):
    return np.r_[result.history.initial_value, result.history.column("value")]
