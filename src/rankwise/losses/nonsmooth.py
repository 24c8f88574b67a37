"""The nonsmooth losses: what Algorithm 3 of the paper takes. All are piecewise linear."""

import math
from dataclasses import dataclass
from typing import Any

from .._checks import is_number
from .._errors import LossError
from ..kernels import formulas
from .base import Loss, SignLoss


@dataclass(frozen=True)
class Absolute(Loss):
    """``|x - o|``, the l1 loss: gross outliers pull no harder than small errors.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.Absolute().value([1.0, 2.0, 5.0], 1.0)
    array([0., 1., 4.])
    """

    name = "l1"
    smooth = False
    piecewise_linear = True

    @property
    def formula(self) -> Any:
        """No parameters."""
        return formulas.AbsoluteFormula()

    def log_normaliser(self, scale: float) -> float:
        """Laplace noise."""
        return math.log(2 / scale)

    def best_scale(self, mean: float) -> float:
        """One over the mean absolute error."""
        return 1.0 / mean


@dataclass(frozen=True)
class Quantile(Loss):
    """``q (o - x)`` below the target, ``(1 - q) (x - o)`` above: learns the q-quantile. The paper's scalene loss.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.Quantile(0.9).value([0.0, 1.0, 2.0], 1.0).round(1)  # too low costs nine times as much as too high
    array([0.9, 0. , 0.1])
    """

    q: float = 0.5
    name = "quantile"
    smooth = False
    piecewise_linear = True

    def __post_init__(self) -> None:
        """Refuse what is not a probability strictly between 0 and 1."""
        if not is_number(self.q) or not 0 < self.q < 1:
            raise LossError(f"Quantile needs 0 < q < 1, got {self.q!r}.")

    @property
    def formula(self) -> Any:
        """The quantile."""
        return formulas.QuantileFormula(float(self.q))

    def log_normaliser(self, scale: float) -> float:
        """Laplace noise, lopsided."""
        return -math.log(scale * self.q * (1 - self.q))

    def best_scale(self, mean: float) -> float:
        """One over the mean loss."""
        return 1.0 / mean


@dataclass(frozen=True)
class Hinge(SignLoss):
    """``max(0, 1 - x o)`` for targets -1 and +1.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.Hinge().value([-1.0, 0.0, 2.0], 1.0)
    array([2., 1., 0.])
    """

    name = "hinge"
    smooth = False
    piecewise_linear = True

    @property
    def formula(self) -> Any:
        """No parameters."""
        return formulas.HingeFormula()


@dataclass(frozen=True)
class EpsilonInsensitive(Loss):
    """``max(0, |x - o| - epsilon)``: errors up to `epsilon` cost nothing.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.EpsilonInsensitive(0.5).value([1.0, 1.5, 3.0], 1.0)
    array([0. , 0. , 1.5])
    """

    epsilon: float = 0.1
    name = "epsilon-insensitive"
    smooth = False
    piecewise_linear = True

    def __post_init__(self) -> None:
        """Refuse a tube of negative width."""
        if not is_number(self.epsilon) or not 0 <= self.epsilon < float("inf"):
            raise LossError(f"EpsilonInsensitive needs a finite epsilon >= 0, got {self.epsilon!r}.")

    @property
    def formula(self) -> Any:
        """Half the width of the tube."""
        return formulas.EpsilonInsensitiveFormula(float(self.epsilon))

    def log_normaliser(self, scale: float) -> float:
        """Flat in the tube, exponential tails."""
        return math.log(2 * self.epsilon + 2 / scale)

    def best_scale(self, mean: float) -> float:
        """Root of ``epsilon * scale**2 + scale = 1 / mean``."""
        return 2 / mean / (1 + math.sqrt(1 + 4 * self.epsilon / mean))
