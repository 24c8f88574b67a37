"""The smooth losses: what Algorithm 2 of the paper takes."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from .._checks import is_number
from .._errors import LossError
from ..kernels import formulas
from .base import Loss, SignLoss


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
    lipschitz = 1.0
    quadratic = True

    @property
    def formula(self) -> formulas.SquareFormula:
        """No parameters."""
        return formulas.SquareFormula()

    def log_normaliser(self, scale: float) -> float:
        """Normal noise: ``sqrt(2 pi / scale)``."""
        return 0.5 * math.log(2 * math.pi / scale)

    def best_scale(self, mean: float) -> float:
        """One over the mean squared error."""
        return 0.5 / mean


@dataclass(frozen=True)
class Logistic(SignLoss):
    """``log(1 + exp(-x o))`` for targets -1 and +1; x is the log-odds of +1.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.Logistic().value([-2.0, 0.0, 2.0], 1.0).round(3)
    array([2.127, 0.693, 0.127])
    """

    name = "logistic"
    link = "logit"
    lipschitz = 0.25

    @property
    def formula(self) -> formulas.LogisticFormula:
        """No parameters."""
        return formulas.LogisticFormula()


@dataclass(frozen=True)
class Huber(Loss):
    """``(x - o)**2 / 2`` up to `delta` from the target, linear beyond.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.Huber(1.0).value([1.0, 2.0, 5.0], 1.0)
    array([0. , 0.5, 3.5])
    """

    delta: float = 1.0
    name = "huber"
    lipschitz = 1.0

    def __post_init__(self) -> None:
        """Refuse a corner that is not to the right of zero."""
        if not is_number(self.delta) or not 0 < self.delta < np.inf:
            raise LossError(f"Huber needs a finite delta > 0, got {self.delta!r}.")

    @property
    def formula(self) -> formulas.HuberFormula:
        """The distance at which it turns linear."""
        return formulas.HuberFormula(float(self.delta))

    def log_normaliser(self, scale: float) -> float:
        """Normal in the middle, exponential tails."""
        root = math.sqrt(0.5 * scale)
        middle = math.sqrt(math.pi) / root * math.erf(self.delta * root)
        return math.log(middle + 2 / (scale * self.delta) * math.exp(-0.5 * scale * self.delta**2))

    def best_scale(self, mean: float) -> float:
        """By a search over its logarithm, between normal and exponential noise."""
        ends = sorted((math.log(0.5 / mean) - 1, math.log(1.0 / mean) + 1))
        found = minimize_scalar(
            lambda t: math.exp(t) * mean + self.log_normaliser(math.exp(t)), bounds=ends, method="bounded"
        )
        return float(math.exp(found.x))


@dataclass(frozen=True)
class SquaredHinge(SignLoss):
    """``max(0, 1 - x o)**2 / 2`` for targets -1 and +1.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.SquaredHinge().value([-1.0, 0.0, 1.0], 1.0)
    array([2. , 0.5, 0. ])
    """

    name = "squared-hinge"
    lipschitz = 1.0

    @property
    def formula(self) -> formulas.SquaredHingeFormula:
        """No parameters."""
        return formulas.SquaredHingeFormula()


@dataclass(frozen=True)
class SmoothHinge(SignLoss):
    """Hinge with its corner rounded over 0 < x o < 1, for targets -1 and +1 (Rennie and Srebro, 2005).

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.SmoothHinge().value([-1.0, 0.5, 1.0], 1.0)
    array([1.5  , 0.125, 0.   ])
    """

    name = "smooth-hinge"
    lipschitz = 1.0

    @property
    def formula(self) -> formulas.SmoothHingeFormula:
        """No parameters."""
        return formulas.SmoothHingeFormula()


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
    link = "log"
    domain = "zero or more"
    domain_cure = "Counts cannot be negative."

    @property
    def formula(self) -> formulas.PoissonFormula:
        """No parameters."""
        return formulas.PoissonFormula()

    def in_domain(self, targets: NDArray[Any]) -> NDArray[np.bool_]:
        """Mask of the targets that are finite and not negative."""
        return np.asarray((targets >= 0) & np.isfinite(targets))
