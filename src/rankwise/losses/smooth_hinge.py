"""Smooth hinge loss."""

from dataclasses import dataclass

from ..kernels.formulas import Formulas, NoParameters, declare
from .base import Loss, register
from .domains import SIGNS


class SmoothHingeFormula(NoParameters):
    """With z = x o: ``1/2 - z`` below 0, ``(1 - z)**2 / 2`` up to 1, then 0."""


def value(p: SmoothHingeFormula, x: float, o: float) -> float:
    """Hinge with its corner rounded over 0 < x o < 1."""
    z = x * o
    short = min(max(0.0, 1.0 - z), 1.0)
    return 0.5 * short * short + max(-z, 0.0)


def slope(p: SmoothHingeFormula, x: float, o: float) -> float:
    """``-o`` times 1 - x o clipped to [0, 1]."""
    return -o * min(max(0.0, 1.0 - x * o), 1.0)


def curvature(p: SmoothHingeFormula, x: float, o: float) -> float:
    """``o**2`` on the rounded corner, else zero."""
    z = x * o
    return o * o if (z > 0.0) & (z < 1.0) else 0.0


@register
@dataclass(frozen=True)
class SmoothHinge(Loss):
    """Hinge with its corner rounded over 0 < x o < 1, for targets -1 and +1 (Rennie and Srebro, 2005).

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.SmoothHinge().value([-1.0, 0.5, 1.0], 1.0)
    array([1.5  , 0.125, 0.   ])
    """

    name = "smooth-hinge"
    formulas = declare(Formulas(SmoothHingeFormula, value, slope, curvature))
    lipschitz = 1.0
    domain = SIGNS
