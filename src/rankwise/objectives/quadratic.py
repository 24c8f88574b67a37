"""Restrictions of an objective to a few coefficients plus a quadratic function of them."""

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from .protocol import PlaneRestriction, Restriction


class PlusQuadratic:
    """A restriction of f plus ``c @ quadratic @ c / 2 + linear @ c + constant``."""

    def __init__(
        self,
        restriction: Restriction,
        quadratic: NDArray[np.float64],
        linear: NDArray[np.float64] | float = 0.0,
        constant: float = 0.0,
    ) -> None:
        self.restriction, self.quadratic, self.linear, self.constant = restriction, quadratic, linear, constant

    def __call__(self, c: Array) -> tuple[float, NDArray[np.float64]]:
        """Return value and gradient at c."""
        value, gradient = self.restriction(c)
        slope = self.quadratic @ c + self.linear
        return value + 0.5 * float(c @ (slope + self.linear)) + self.constant, gradient + slope

    def curve(self, c: Array, direction: Array) -> NDArray[np.float64]:
        """Return the Hessian at c times `direction`."""
        return np.asarray(self.restriction.curve(c, direction) + self.quadratic @ direction)

    def hessian(self) -> NDArray[np.float64]:
        """Return the Hessian of a quadratic f."""
        return np.asarray(self.restriction.hessian() + self.quadratic)


class PlanePlusQuadratic(PlusQuadratic):
    """A restriction of f to (shrink, weight) plus a quadratic function of both."""

    restriction: PlaneRestriction

    def best_weight(self, tilt: float = 0.0, curvature: float = 0.0) -> float:
        """Minimize over weight >= 0 at shrink = 1, for a piecewise linear f."""
        own = self.quadratic[:, 1]
        slope = own[0] + np.broadcast_to(self.linear, 2)[1]
        return float(self.restriction.best_weight(tilt + slope, curvature + own[1]))
