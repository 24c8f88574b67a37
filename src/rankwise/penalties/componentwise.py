"""Penalties that are sums over the factors of a row: each is a proximal map and a value."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from ..kernels.row_penalties import NoFields, PenaltyFormulas
from .base import Penalty, register


class NonNegativeFields(NoFields):
    """No parameters."""


class L1Fields(NamedTuple):
    """Parameters of `L1`."""

    size: float
    weight: float


class NonNegativeL1Fields(NamedTuple):
    """Parameters of `NonNegativeL1`."""

    size: float
    weight: float


def clip(p: NonNegativeFields, z: float, step: float) -> float:
    """Nearest number of at least zero."""
    return max(z, 0.0)


def shrink(p: L1Fields, z: float, step: float) -> float:
    """``z`` moved towards zero by ``step * weight``."""
    return max(z - step * p.weight, 0.0) + min(z + step * p.weight, 0.0)


def size(p: L1Fields, x: float) -> float:
    """``weight * abs(x)``."""
    return p.weight * abs(x)


def shrink_and_clip(p: NonNegativeL1Fields, z: float, step: float) -> float:
    """``z`` less ``step * weight``, at least zero."""
    return max(z - step * p.weight, 0.0)


@register
@dataclass(frozen=True)
class NonNegative(Penalty):
    """All factors are at least zero.

    Parameters
    ----------
    ridge : float, optional
        Ridge of the factors; by default the solver's.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> parts = rw.solvers.FactorSweeps(rows="nonnegative", cols="nonnegative")
    >>> model = rw.solve(rw.Problem(seen, "square"), parts, rank=2).model
    >>> bool((model.U >= 0).all() and (model.V >= 0).all())
    True
    """

    name = "nonnegative"
    formulas = PenaltyFormulas(NonNegativeFields, prox=clip)
    nonnegative = True


@register
@dataclass(frozen=True)
class L1(Penalty):
    """``weight * sum(abs(x))``: some factors of a row are zero. With the ridge it is the elastic net.

    Parameters
    ----------
    ridge : float, optional
        Ridge of the factors; by default the solver's.
    weight : float, default=1

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> sparse = rw.solvers.FactorSweeps(rows=rw.penalties.L1(weight=4.0))
    >>> bool((rw.solve(rw.Problem(seen, "square"), sparse, rank=2).model.U == 0).any())
    True
    """

    name = "l1"
    formulas = PenaltyFormulas(L1Fields, prox=shrink, value=size)
    weight: float = 1.0

    def in_units(self, unit: float, size: float) -> Penalty:
        """Return the penalty on factors divided by `unit`, beside a loss divided by `size`."""
        ridge = None if self.ridge is None else self.ridge * unit**2 / size
        return replace(self, ridge=ridge, weight=self.weight * unit / size)


@register
@dataclass(frozen=True)
class NonNegativeL1(L1):
    """``weight * sum(x)`` over factors of at least zero: parts of which a row has a few.

    Parameters
    ----------
    ridge : float, optional
        Ridge of the factors; by default the solver's.
    weight : float, default=1

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.penalties.NonNegativeL1(weight=0.5).nonnegative
    True
    """

    name = "nonnegative_l1"
    formulas = PenaltyFormulas(NonNegativeL1Fields, prox=shrink_and_clip, value=size)
    nonnegative = True
