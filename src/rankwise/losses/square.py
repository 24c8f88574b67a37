"""Square loss."""

import math
from dataclasses import dataclass

from ..kernels.formulas import Formulas, NoParameters, declare
from .base import Loss, register


class SquareFormula(NoParameters):
    """``(x - o)**2 / 2``."""


def value(p: SquareFormula, x: float, o: float) -> float:
    """``(x - o)**2 / 2``."""
    return 0.5 * (x - o) * (x - o)


def slope(p: SquareFormula, x: float, o: float) -> float:
    """``x - o``."""
    return x - o


def curvature(p: SquareFormula, x: float, o: float) -> float:
    """One."""
    return 1.0


def expected(p: SquareFormula, m: float, s: float, o: float) -> tuple[float, float, float]:
    """Exact expected loss."""
    return 0.5 * ((m - o) * (m - o) + s), m - o, 1.0


@register
@dataclass(frozen=True)
class Square(Loss):
    """``(x - o)**2 / 2``; the half makes it 1-Lipschitz smooth, as Theorem 3 needs (equation 2 of the paper lacks it).

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.Square().value([0.0, 1.0, 3.0], 1.0)
    array([0.5, 0. , 2. ])
    """

    name = "square"
    formulas = declare(Formulas(SquareFormula, value, slope, curvature, expected=expected))
    lipschitz = 1.0
    degree = 2.0
    quadratic = True
    mean_width = math.inf

    def log_normaliser(self, scale: float) -> float:
        """Log normalizer of normal noise with variance ``1 / scale``."""
        return 0.5 * math.log(2 * math.pi / scale)

    def best_scale(self, mean: float) -> float:
        """Inverse of the mean squared error."""
        return 0.5 / mean
