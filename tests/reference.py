"""Dense NumPy twins of what the package does on shards: slow, obvious, and written from the formulas alone."""

import numpy as np
from scipy.optimize import brentq

from rankwise.losses import Loss
from rankwise.observations import Observations


class Dense:
    """``f(X) = sum of weight * loss(X + base, target) over the observed entries, plus ridge / 2 * ||X||_F**2``."""

    def __init__(
        self, observations: Observations, loss: Loss, ridge: float = 0.0, base: np.ndarray | float = 0.0
    ) -> None:
        self.rows, self.cols, self.targets = observations.rows, observations.cols, observations.targets.astype(float)
        self.weights = np.ones(self.targets.size) if observations.weights is None else observations.weights
        self.shape, self.loss, self.ridge = observations.shape, loss, ridge
        self.base = np.broadcast_to(base, self.shape)[self.rows, self.cols]

    def value(self, X):
        fit = self.weights @ self.loss.value(X[self.rows, self.cols] + self.base, self.targets)
        return float(fit + 0.5 * self.ridge * np.sum(X * X))

    def gradient(self, X):
        G = self.ridge * X
        G[self.rows, self.cols] += self.weights * self.loss.slope(X[self.rows, self.cols] + self.base, self.targets)
        return G

    def minimiser(self):
        """A point where the gradient is zero, by one-dimensional solves; zero outside the pattern."""
        X = np.zeros(self.shape)
        for i, j, o, w in zip(self.rows, self.cols, self.targets, self.weights, strict=True):
            X[i, j] = self._entry(o, w)
        return X

    def _entry(self, o, w):
        if self.ridge == 0:
            return o  # right for square and Huber (no slope at the target) and the hinges (none at margin one)

        def pull(x):
            return float(w * self.loss.slope(x, o)) + self.ridge * x

        far = -pull(0.0) / self.ridge  # slopes grow with x, so the root is between zero and this
        return brentq(pull, min(far, 0.0), max(far, 0.0), xtol=1e-15, rtol=1e-14) if far else 0.0


def random_point(objective, rng, rank=3):
    """Move an objective to a random matrix of that rank, with terms of mixed sign and size; return it dense."""
    objective.reset()
    for _ in range(rank):
        objective.add(rng.uniform(0.5, 1.0), rng.normal(), *(unit(rng, size) for size in objective.shape))
    return matrix_of(objective.point)


def unit(rng, size):
    v = rng.normal(size=size)
    return v / np.linalg.norm(v)


def matrix_of(point):
    """The current point of an objective, dense and in float64."""
    return (point.U.astype(float) * point.theta) @ point.V.T.astype(float)


def top_pair(A):
    """LAPACK's top singular triplet."""
    left, values, right = np.linalg.svd(A, full_matrices=False)
    return left[:, 0], values[0], right[0]


def slopes_of(function, c, h=1e-6):
    """Central differences of a scalar or vector function."""
    steps = h * np.maximum(1.0, np.abs(c))
    return np.array([(function(c + e) - function(c - e)) / (2 * s) for s, e in zip(steps, np.diag(steps), strict=True)])
