"""Squared hinge loss."""

from dataclasses import dataclass

from ..kernels.formulas import Formulas, NoParameters, declare
from .base import Loss, register
from .domains import SIGNS


class SquaredHingeFormula(NoParameters):
    """``max(0, 1 - x o)**2 / 2``."""


def value(p: SquaredHingeFormula, x: float, o: float) -> float:
    """``max(0, 1 - x o)**2 / 2``."""
    short = max(0.0, 1.0 - x * o)
    return 0.5 * short * short


def slope(p: SquaredHingeFormula, x: float, o: float) -> float:
    """``-o max(0, 1 - x o)``."""
    return -o * max(0.0, 1.0 - x * o)


def curvature(p: SquaredHingeFormula, x: float, o: float) -> float:
    """``o**2`` inside the margin, else zero."""
    return o * o if x * o < 1.0 else 0.0


@register
@dataclass(frozen=True)
class SquaredHinge(Loss):
    """``max(0, 1 - x o)**2 / 2`` for targets -1 and +1.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.SquaredHinge().value([-1.0, 0.0, 1.0], 1.0)
    array([2. , 0.5, 0. ])
    """

    name = "squared-hinge"
    formulas = declare(Formulas(SquaredHingeFormula, value, slope, curvature))
    lipschitz = 1.0
    domain = SIGNS
