"""Poisson loss."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from ..kernels.formulas import Formulas, NoParameters, declare, exp
from .base import Loss, register
from .domains import COUNTS


class PoissonFormula(NoParameters):
    """``exp(x) - o x``."""


def value(p: PoissonFormula, x: float, o: float) -> float:
    """``exp(x) - o x``: the negative log likelihood of counts at log rate x, less its constant."""
    return exp(x) - o * x


def slope(p: PoissonFormula, x: float, o: float) -> float:
    """``exp(x) - o``."""
    return exp(x) - o


def curvature(p: PoissonFormula, x: float, o: float) -> float:
    """``exp(x)``."""
    return exp(x)


@register
@dataclass(frozen=True)
class Poisson(Loss):
    """``exp(x) - o x`` for counts; x is the log of the rate. No global Lipschitz constant: steps by backtracking.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.Poisson().value([0.0, 1.0], 2.0).round(3)
    array([1.   , 0.718])
    """

    name = "poisson"
    formulas = declare(Formulas(PoissonFormula, value, slope, curvature))
    domain = COUNTS
    link = "log"
    mean_width = np.inf

    def least_value(self, targets: Array) -> NDArray[np.float64]:
        """``o - o log(o)``, the loss at the rate o."""
        return np.asarray(targets - targets * np.log(np.maximum(targets, 1e-300)))
