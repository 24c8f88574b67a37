"""The smooth losses: what Algorithm 2 of the paper takes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import LossError
from ..kernels import entrywise
from .base import Loss, SignLoss


@dataclass(frozen=True)
class Square(Loss):
    """``(x - o)**2 / 2``; the half makes it 1-Lipschitz smooth, as Theorem 3 needs (Eq. 2 of the paper lacks it)."""

    name = "square"
    lipschitz = 1.0
    quadratic = True

    @property
    def formula(self) -> entrywise.SquareFormula:
        """No parameters."""
        return entrywise.SquareFormula()


@dataclass(frozen=True)
class Logistic(SignLoss):
    """``log(1 + exp(-x o))`` for targets -1 and +1; x is the log-odds of +1."""

    name = "logistic"
    link = "logit"
    lipschitz = 0.25

    @property
    def formula(self) -> entrywise.LogisticFormula:
        """No parameters."""
        return entrywise.LogisticFormula()


@dataclass(frozen=True)
class Huber(Loss):
    """``(x - o)**2 / 2`` up to `delta` from the target, linear beyond."""

    delta: float = 1.0
    name = "huber"
    lipschitz = 1.0

    def __post_init__(self) -> None:
        """Refuse a corner that is not to the right of zero."""
        if not 0 < self.delta < np.inf:
            raise LossError(f"Huber needs a finite delta > 0, got {self.delta:g}.")

    @property
    def formula(self) -> entrywise.HuberFormula:
        """The distance at which it turns linear."""
        return entrywise.HuberFormula(float(self.delta))


@dataclass(frozen=True)
class SquaredHinge(SignLoss):
    """``max(0, 1 - x o)**2 / 2`` for targets -1 and +1."""

    name = "squared-hinge"
    lipschitz = 1.0

    @property
    def formula(self) -> entrywise.SquaredHingeFormula:
        """No parameters."""
        return entrywise.SquaredHingeFormula()


@dataclass(frozen=True)
class SmoothHinge(SignLoss):
    """Hinge with its corner rounded over 0 < x o < 1, for targets -1 and +1 (Rennie and Srebro, 2005)."""

    name = "smooth-hinge"
    lipschitz = 1.0

    @property
    def formula(self) -> entrywise.SmoothHingeFormula:
        """No parameters."""
        return entrywise.SmoothHingeFormula()


@dataclass(frozen=True)
class Poisson(Loss):
    """``exp(x) - o x`` for counts; x is the log of the rate. No global Lipschitz constant: steps by backtracking."""

    name = "poisson"
    link = "log"
    domain = "zero or more"
    domain_cure = "Counts cannot be negative."

    @property
    def formula(self) -> entrywise.PoissonFormula:
        """No parameters."""
        return entrywise.PoissonFormula()

    def in_domain(self, targets: NDArray[Any]) -> NDArray[np.bool_]:
        """Mask of the targets that are finite and not negative."""
        return (targets >= 0) & np.isfinite(targets)
