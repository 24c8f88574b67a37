"""Losses of non-negative predictions, for non-negative factors: Kullback-Leibler, and losses less those of zeros.

A matrix in which absent entries are zeros has the loss of a zero at every cell, which is a quadratic or linear function
of the prediction (`rankwise.Everywhere`), and at the other entries what their loss has beyond it: the losses with
`beyond_zero`. They are found by name, but are not offered to methods that predict numbers below zero.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from ..kernels.formulas import Formulas, NoParameters, declare, log
from ..kernels.jit import linked
from .base import Loss
from .domains import COUNTS

LEAST_RATE = 1e-6  # added to rates, in the units of the targets


class DivergenceFormula(NoParameters):
    """``x - o log(x)`` with x increased by a small number; its second-order expansion below zero."""


class DivergenceBeyondZeroFormula(NoParameters):
    """``-o log(x)``, as `DivergenceFormula`."""


class SquareBeyondZeroFormula(NoParameters):
    """``o (o / 2 - x)``."""


@linked
def log_value(p: NoParameters, x: float, o: float) -> float:
    """``o log(o / x) - o``."""
    above, below = max(x, 0.0) + LEAST_RATE, min(x, 0.0) / LEAST_RATE
    return o * (log(max(o, 1e-300)) - 1.0 - log(above) + below * (0.5 * below - 1.0))


@linked
def log_slope(p: NoParameters, x: float, o: float) -> float:
    """``-o / x``."""
    return o * (min(x, 0.0) / LEAST_RATE - 1.0 if x < 0.0 else -LEAST_RATE / (x + LEAST_RATE)) / LEAST_RATE


@linked
def log_curvature(p: NoParameters, x: float, o: float) -> float:
    """``o / x**2``."""
    above = max(x, 0.0) + LEAST_RATE
    return o / (above * above)


@linked
def log_expected(p: NoParameters, m: float, s: float, o: float) -> tuple[float, float, float]:
    """Expected value to second order in the variance."""
    curvature = log_curvature(p, m, o)
    return log_value(p, m, o) + 0.5 * s * curvature, log_slope(p, m, o), curvature


def value(p: DivergenceFormula, x: float, o: float) -> float:
    """``x - o + o log(o / x)``."""
    return x + log_value(p, x, o)


def slope(p: DivergenceFormula, x: float, o: float) -> float:
    """``1 - o / x``."""
    return 1.0 + log_slope(p, x, o)


def curvature(p: DivergenceFormula, x: float, o: float) -> float:
    """``o / x**2``."""
    return log_curvature(p, x, o)


def expected(p: DivergenceFormula, m: float, s: float, o: float) -> tuple[float, float, float]:
    """Expected value to second order in the variance."""
    beyond, steep, bend = log_expected(p, m, s, o)
    return m + beyond, 1.0 + steep, bend


def square_value(p: SquareBeyondZeroFormula, x: float, o: float) -> float:
    """``(x - o)**2 / 2 - x**2 / 2``."""
    return o * (0.5 * o - x)


def square_slope(p: SquareBeyondZeroFormula, x: float, o: float) -> float:
    """``-o``."""
    return -o


def square_expected(p: SquareBeyondZeroFormula, m: float, s: float, o: float) -> tuple[float, float, float]:
    """Exact expected loss."""
    return o * (0.5 * o - m), -o, 0.0


@dataclass(frozen=True)
class KullbackLeibler(Loss):
    """``x - o + o log(o / x)`` for rates x of at least zero: Poisson's log likelihood without a link.

    For `FactorSweeps` with non-negative factors on both sides, and `NMF`. Rates are increased by 1e-6.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.KullbackLeibler().value([1.0, 4.0], 2.0).round(3)
    array([0.386, 0.614])
    """

    name = "kullback-leibler"
    formulas = declare(Formulas(DivergenceFormula, value, slope, curvature, expected=expected, bound=False))
    domain = COUNTS
    mean_width = np.inf


@dataclass(frozen=True)
class KullbackLeiblerBeyondZero(Loss):
    """``o log(o / x) - o``: the Kullback-Leibler loss of a target less that of a zero, which is x.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.KullbackLeiblerBeyondZero().value([1.0, 2.0], 2.0).round(3)
    array([-0.614, -2.   ])
    """

    name = "kullback-leibler-beyond-zero"
    formulas = declare(
        Formulas(DivergenceBeyondZeroFormula, log_value, log_slope, log_curvature, expected=log_expected, bound=False)
    )
    domain = COUNTS


@dataclass(frozen=True)
class SquareBeyondZero(Loss):
    """``(x - o)**2 / 2 - x**2 / 2``: the square loss of a target less that of a zero; linear in x.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.SquareBeyondZero().value([0.0, 1.0], 2.0)
    array([2., 0.])
    """

    name = "square-beyond-zero"
    formulas = declare(Formulas(SquareBeyondZeroFormula, square_value, square_slope, expected=square_expected))
    quadratic = True
    degree = 2.0

    def least_value(self, targets: Array) -> NDArray[np.float64]:
        """Minus infinity."""
        return np.full(targets.shape, -np.inf)


RESTRICTED: dict[str, type[Loss]] = {
    kind.name: kind for kind in (KullbackLeibler, KullbackLeiblerBeyondZero, SquareBeyondZero)
}
