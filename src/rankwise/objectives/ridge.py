"""``f(X) + (ridge / 2) ||X||_F**2``, for any objective f."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import all_finite, is_number
from .._errors import DataError, SettingError
from ..model import as_terms
from ..spectral import LowRank, SparsePlusLowRank
from .protocol import Objective
from .snapshot import RidgedSnapshot

Array = NDArray[Any]


class Ridged:
    """An objective made strongly convex by a ridge.

    The gradient is that of f plus ``ridge X``, low-rank, and is never formed. ``||X||_F**2`` comes from the inner
    products of the terms, one new row per step in O((n_rows + n_cols) rank).

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.Observations.from_coo([0, 0, 1], [0, 1, 1], [1.0, 2.0, 4.0])
    >>> objective = rw.Ridged(rw.Problem(seen, "square"), 0.5)
    >>> print(objective.lipschitz, objective.strong_convexity)
    1.5 0.5
    """

    def __init__(self, objective: Objective, ridge: float) -> None:
        if not is_number(ridge) or not 0 < ridge < np.inf:
            raise SettingError(f"`ridge` must be a positive number, got {ridge!r}.")
        self.objective, self.ridge = objective, float(ridge)
        self._products = np.zeros((0, 0))
        self.shape, self.point = objective.shape, objective.point
        self.smooth, self.quadratic = objective.smooth, objective.quadratic
        self.piecewise_linear = objective.piecewise_linear
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

    def along(self, u: Array, v: Array, theta: Array | None = None) -> "RidgedRestriction":
        """``(shrink, weight) -> f(shrink X + weight u v.T)`` plus the ridge's share."""
        scales, left, right = as_terms(u, v, theta)
        cross = float(scales @ (self.point.inner_products(left, right) @ self.point.theta))
        own = float(scales @ (_products(left, right) @ scales))
        products = np.array([[self._squared(), cross], [cross, own]])
        return RidgedRestriction(self.objective.along(u, v, theta), self.ridge * products)

    def along_terms(self) -> "RidgedRestriction":
        """``theta -> f(sum_k theta[k] u_k v_k.T)`` plus the ridge's share."""
        return RidgedRestriction(self.objective.along_terms(), self.ridge * self._products)

    def add(self, shrink: float, weight: float, u: Array, v: Array, theta: Array | None = None) -> None:
        """``X = shrink X + weight u v.T``."""
        _, left, right = as_terms(u, v, theta)
        cross = self.point.inner_products(left, right)
        self._products = np.block([[self._products, cross.T], [cross, _products(left, right)]])
        self.objective.add(shrink, weight, u, v, theta)

    def replace(self, theta: Array) -> None:
        """New coefficients for the terms of X."""
        self.objective.replace(theta)

    def move(self, theta: Array, U: Array, V: Array) -> None:
        """``X = U diag(theta) V.T``, if the objective can."""
        self.objective.move(theta, U, V)  # type: ignore[attr-defined]
        self._products = _products(self.point.U, self.point.V)

    def fingerprint(self) -> dict[str, Any]:
        """What the objective is, and the ridge."""
        return {**self.objective.fingerprint(), "ridge": self.ridge}  # type: ignore[attr-defined]

    def snapshot(self) -> RidgedSnapshot:
        """Where X is, to be restored in a later process."""
        return RidgedSnapshot(self.objective.snapshot(), self._products)  # type: ignore[attr-defined]

    def restore(self, found: RidgedSnapshot) -> None:
        """Move to where a snapshot was taken."""
        self.objective.restore(found.inner)  # type: ignore[attr-defined]
        if found.products.shape != 2 * (self.point.rank,) or not all_finite(found.products):
            raise DataError("The snapshot is of another problem.")
        self._products = found.products

    def close(self) -> None:
        """Let go of the objective's resources."""
        self.objective.close()

    def _squared(self) -> float:
        theta = self.point.theta
        return max(float(theta @ self._products @ theta), 0.0)


class RidgedRestriction:
    """A restriction of f plus half a quadratic form."""

    def __init__(self, restriction: Any, quadratic: NDArray[np.float64]) -> None:
        self.restriction, self.quadratic = restriction, quadratic

    def __call__(self, c: Array) -> tuple[float, NDArray[np.float64]]:
        """Value and gradient."""
        value, gradient = self.restriction(c)
        pull = self.quadratic @ c
        return value + 0.5 * float(c @ pull), gradient + pull

    def curve(self, c: Array, direction: Array) -> NDArray[np.float64]:
        """Hessian times `direction`."""
        return np.asarray(self.restriction.curve(c, direction) + self.quadratic @ direction)

    def hessian(self) -> NDArray[np.float64]:
        """The Hessian of a quadratic f."""
        return np.asarray(self.restriction.hessian() + self.quadratic)

    def best_weight(self, tilt: float = 0.0, curvature: float = 0.0) -> float:
        """Minimiser over the second coefficient, the first being one."""
        own = self.quadratic[:, 1]
        return float(self.restriction.best_weight(tilt + own[0], curvature + own[1]))


def _products(left: Array, right: Array) -> Array:
    """Inner products of the terms ``left[:, k] right[:, k].T`` with each other."""
    left, right = np.asarray(left, np.float64), np.asarray(right, np.float64)
    return np.asarray((left.T @ left) * (right.T @ right))
