"""Logistic loss."""

import math
from dataclasses import dataclass

from ..kernels.formulas import Formulas, NoParameters, declare, exp, log1p_unit
from .base import Loss, register
from .domains import SIGNS


class LogisticFormula(NoParameters):
    """``log(1 + exp(-x s))``, with s = 1 for positive targets and -1 for others, so that -1 and 0 are alike."""


def value(p: LogisticFormula, x: float, o: float) -> float:
    """``log(1 + exp(-x s))`` without overflow."""
    z = x if o > 0.0 else -x
    return max(-z, 0.0) + log1p_unit(exp(-abs(z)))


def slope(p: LogisticFormula, x: float, o: float) -> float:
    """``-s / (1 + exp(x s))``."""
    s = 1.0 if o > 0.0 else -1.0
    z = x * s
    e = exp(-abs(z))
    return -s * (e if z > 0.0 else 1.0) / (1.0 + e)


def curvature(p: LogisticFormula, x: float, o: float) -> float:
    """``q (1 - q)`` with q the logistic function at x."""
    e = exp(-abs(x))
    return e / ((1.0 + e) * (1.0 + e))


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
