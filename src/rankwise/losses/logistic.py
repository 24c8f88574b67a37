"""Logistic loss."""

import math
from dataclasses import dataclass

from ..kernels.formulas import Formulas, NoParameters, declare, exp, log1p_unit
from .base import Loss, register
from .domains import SIGNS


class LogisticFormula(NoParameters):
    """``log(1 + exp(-x o))``."""


def value(p: LogisticFormula, x: float, o: float) -> float:
    """``log(1 + exp(-x o))`` without overflow."""
    z = x * o
    return max(-z, 0.0) + log1p_unit(exp(-abs(z)))


def slope(p: LogisticFormula, x: float, o: float) -> float:
    """``-o / (1 + exp(x o))``."""
    z = x * o
    e = exp(-abs(z))
    return -o * (e if z > 0.0 else 1.0) / (1.0 + e)


def curvature(p: LogisticFormula, x: float, o: float) -> float:
    """``o**2 s (1 - s)`` with s the logistic function at x o."""
    e = exp(-abs(x * o))
    return o * o * e / ((1.0 + e) * (1.0 + e))


@register
@dataclass(frozen=True)
class Logistic(Loss):
    """``log(1 + exp(-x o))`` for targets -1 and +1; x is the log-odds of +1.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.Logistic().value([-2.0, 0.0, 2.0], 1.0).round(3)
    array([2.127, 0.693, 0.127])
    """

    name = "logistic"
    formulas = declare(Formulas(LogisticFormula, value, slope, curvature))
    lipschitz = 0.25
    domain = SIGNS
    link = "logit"
    mean_width = math.inf
