"""``f(X) + (ridge / 2) ||X||_F**2``, for any objective f."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import SettingError
from ..spectral import LowRank, SparsePlusLowRank
from .protocol import Objective, Restriction

Array = NDArray[Any]


class Ridged:
    """An objective made strongly convex by a ridge.

    The gradient is that of f plus ``ridge X``, low-rank, and is never formed. ``||X||_F**2`` comes from the inner
    products of the terms, one new row per step in O((n_rows + n_cols) rank).
    """

    def __init__(self, objective: Objective, ridge: float) -> None:
        if not 0 < ridge < np.inf:
            raise SettingError(f"`ridge` must be a positive number, got {ridge!r}.")
        self.objective, self.ridge = objective, float(ridge)
        self._products = np.zeros((0, 0))
        self.shape, self.point = objective.shape, objective.point
        self.smooth, self.quadratic = objective.smooth, objective.quadratic
        self.lipschitz = None if objective.lipschitz is None else objective.lipschitz + self.ridge
        self.strong_convexity = objective.strong_convexity + self.ridge

    def __getattr__(self, name: str) -> Any:
        """Everything else is the objective's own: its loss, its observations."""
        return getattr(self.objective, name)

    def reset(self) -> None:
        """Move to X = 0."""
        self.objective.reset()
        self._products = np.zeros((0, 0))

    def value(self) -> float:
        """Value f(X) plus the ridge's share."""
        return self.objective.value() + 0.5 * self.ridge * self._squared()

    def gradient(self) -> SparsePlusLowRank:
        """Gradient of f plus ``ridge X``."""
        plain = self.objective.gradient()
        point, squared = self.point, self._squared()
        operator = SparsePlusLowRank(plain, LowRank(self.ridge * point.theta, point.U, point.V))
        both = plain.norm**2 + 2 * self.ridge * plain.inner + self.ridge**2 * squared
        operator.norm, operator.inner = float(np.sqrt(max(both, 0.0))), plain.inner + self.ridge * squared
        return operator

    def along(self, u: Array, v: Array) -> "RidgedRestriction":
        """``(shrink, weight) -> f(shrink X + weight u v.T)`` plus the ridge's share."""
        cross = float(self.point.theta @ self.point.inner_products(u, v))
        products = np.array([[self._squared(), cross], [cross, _product(u, v)]])
        return RidgedRestriction(self.objective.along(u, v), self.ridge * products)

    def along_terms(self) -> "RidgedRestriction":
        """``theta -> f(sum_k theta[k] u_k v_k.T)`` plus the ridge's share."""
        return RidgedRestriction(self.objective.along_terms(), self.ridge * self._products)

    def add(self, shrink: float, weight: float, u: Array, v: Array) -> None:
        """``X = shrink X + weight u v.T``."""
        row = self.point.inner_products(u, v)
        self._products = np.block([[self._products, row[:, None]], [row[None, :], np.full((1, 1), _product(u, v))]])
        self.objective.add(shrink, weight, u, v)

    def replace(self, theta: Array) -> None:
        """New coefficients for the terms of X."""
        self.objective.replace(theta)

    def close(self) -> None:
        """Let go of the objective's resources."""
        self.objective.close()

    def _squared(self) -> float:
        theta = self.point.theta
        return max(float(theta @ self._products @ theta), 0.0)


class RidgedRestriction:
    """A restriction of f plus half a quadratic form."""

    def __init__(self, restriction: Restriction, quadratic: NDArray[np.float64]) -> None:
        self.restriction, self.quadratic = restriction, quadratic

    def __call__(self, c: Array) -> tuple[float, NDArray[np.float64]]:
        """Value and gradient."""
        value, gradient = self.restriction(c)
        pull = self.quadratic @ c
        return value + 0.5 * float(c @ pull), gradient + pull

    def curve(self, c: Array, direction: Array) -> NDArray[np.float64]:
        """Hessian times `direction`."""
        return self.restriction.curve(c, direction) + self.quadratic @ direction

    def hessian(self) -> NDArray[np.float64]:
        """The Hessian of a quadratic f."""
        return self.restriction.hessian() + self.quadratic


def _product(u: Array, v: Array) -> float:
    u, v = np.asarray(u, np.float64), np.asarray(v, np.float64)
    return float(u @ u) * float(v @ v)
