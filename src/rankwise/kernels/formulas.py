"""Dispatch from a loss's parameters to its scalar functions, and the exp and log that these use.

A loss reaches a kernel as a `NamedTuple` of its parameters. The type of the tuple selects the functions that the loss
has declared with `declare`; the kernel inlines them. Each kernel is compiled once per type, and the parameters stay
run-time values. The functions take and return float64.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, get_type_hints

import numpy as np
from numba import float64, int32, int64, njit
from numba.extending import overload

from .._errors import LossError
from .jit import INLINED, PART

_LOG2E = 1.4426950408889634
_LARGEST = float(np.finfo(np.float64).max)
_LN2_HI, _LN2_LO = 0.693147180369123816490, 1.90821492927058770002e-10
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def _strict(function: FunctionT) -> FunctionT:
    """Compile without reassociation, which would cancel the two-part subtraction of ln 2 and lose the last digits."""
    return njit(**(INLINED | {"fastmath": {"contract"}}))(function)  # type: ignore[no-any-return]


@_strict
def exp(x: float) -> float:
    """``e**x`` to 1e-15, by arithmetic that vectorises; at least e**-708, and infinite above x = 709.4."""
    x = min(max(x, -708.0), 710.0)
    n = int32(x * _LOG2E + (0.5 if x > 0.0 else -0.5))
    r = x - n * _LN2_HI - n * _LN2_LO
    even = r * r
    p = 1 / 479001600 + r / 6227020800
    p = (1 / 3628800 + r * (1 / 39916800)) + even * p
    p = (1 / 40320 + r * (1 / 362880)) + even * p
    p = (1 / 720 + r * (1 / 5040)) + even * p
    p = (1 / 24 + r * (1 / 120)) + even * p
    p = (1 / 2 + r * (1 / 6)) + even * p
    p = (1.0 + r) + even * p
    return p * np.int64((int64(n) + int64(1023)) << int64(52)).view(np.float64)  # type: ignore[no-any-return]


@_strict
def _atanh_series(s: float) -> float:
    """``atanh(s)`` for ``abs(s) <= 1/3``, to 1e-16."""
    q = s * s
    even = q * q
    p = 1 / 29 + q / 31
    p = (1 / 25 + q * (1 / 27)) + even * p
    p = (1 / 21 + q * (1 / 23)) + even * p
    p = (1 / 17 + q * (1 / 19)) + even * p
    p = (1 / 13 + q * (1 / 15)) + even * p
    p = (1 / 9 + q * (1 / 11)) + even * p
    p = (1 / 5 + q * (1 / 7)) + even * p
    p = (1.0 + q * (1 / 3)) + even * p
    return s * p


@_strict
def log1p_unit(e: float) -> float:
    """``log(1 + e)`` for e in [0, 1]."""
    return 2.0 * _atanh_series(e / (2.0 + e))


@_strict
def log(x: float) -> float:
    """``log(x)`` by arithmetic that vectorises, to 1e-15 for normal numbers."""
    bits = np.float64(x).view(np.int64)
    n = int32(bits >> int64(52)) - int32(1023)
    m = np.int64((bits & int64(0xFFFFFFFFFFFFF)) | int64(0x3FF0000000000000)).view(np.float64)
    big = m > 1.4142135623730951
    m = 0.5 * m if big else m
    k = float64(n) + (1.0 if big else 0.0)
    inside = k * _LN2_HI + (k * _LN2_LO + 2.0 * _atanh_series((m - 1.0) / (m + 1.0)))
    # A choice between constants vectorises, one between results does not.
    edge = np.inf if x >= 0.0 else np.nan
    return inside * (1.0 if (x > 0.0) & (x < np.inf) else edge)  # type: ignore[no-any-return]


@_strict
def log1p(x: float) -> float:
    """``log(1 + x)`` by arithmetic that vectorises."""
    inside = min(x, _LARGEST)
    u = 1.0 + inside
    return (log(u) + (inside - (u - 1.0)) / max(u, 1e-300)) * (1.0 if x <= _LARGEST else np.inf)


class NoParameters(NamedTuple):
    """Base of the tuples of losses without parameters; Numba's tuples need a field."""

    unused: float = 0.0


def flat(p, x, o):
    """Zero: the curvature of a piecewise-linear loss, away from its kinks."""
    return 0.0


@dataclass(frozen=True)
class Formulas:
    """Scalar functions of a loss, each called with the tuple `p` of its parameters first.

    Attributes
    ----------
    parameters : type
        The `NamedTuple` of the parameters: any number of floats, or one array.
    value, slope, curvature : callable (p, x, o) -> float
        The loss and its first two derivatives in the prediction x, at a kink a subgradient and zero; the default
        curvature is zero.
    kinks : callable (p, o) -> 5 floats, optional
        For piecewise-linear losses: the slope far to the left, then position and jump of the slope of two kinks (jump
        zero: no second kink).
    expected : callable (p, m, s, o) -> 3 floats, optional
        Value, slope and weight of the expected loss, see `rankwise.kernels.expected`; the default is the average over
        two points.
    bound : bool
        Whether the quadratic of `expected` lies above the expected loss everywhere.
    """

    parameters: type[Any]
    value: Callable[..., float]
    slope: Callable[..., float]
    curvature: Callable[..., float] = flat
    kinks: Callable[..., tuple[float, ...]] | None = None
    expected: Callable[..., tuple[float, float, float]] | None = None
    bound: bool = True

    @property
    def has_array(self) -> bool:
        """Whether the parameters are one array instead of floats."""
        return any(hint is not float for hint in get_type_hints(self.parameters).values())


FORMULAS: dict[type, Formulas] = {}


def declare(formulas: Formulas) -> Formulas:
    """Make kernels compile these functions wherever they get a tuple of the type `formulas.parameters`."""
    name = formulas.parameters.__name__
    if name in {declared.__name__ for declared in FORMULAS}:
        raise LossError(
            f"The parameters of two losses have the type name {name}, and Numba tells tuple types apart by "
            "their names; rename one of them."
        )
    FORMULAS[formulas.parameters] = formulas
    return formulas


def value_at(p, x, o):
    """Loss at prediction x and target o."""
    return FORMULAS[type(p)].value(p, x, o)


def slope_at(p, x, o):
    """Derivative of the loss in x at target o."""
    return FORMULAS[type(p)].slope(p, x, o)


def curvature_at(p, x, o):
    """Second derivative of the loss in x at target o."""
    return FORMULAS[type(p)].curvature(p, x, o)


def kinks_at(p: Any, o: float) -> Any:
    """Slope far to the left, then position and jump of two kinks, of a piecewise-linear loss."""
    kinks = FORMULAS[type(p)].kinks
    assert kinks is not None
    return kinks(p, o)


# Not strict: Numba would take annotations for different arguments.
@overload(value_at, jit_options=PART, strict=False)
def _value_at(p, x, o):
    return FORMULAS[p.instance_class].value


@overload(slope_at, jit_options=PART, strict=False)
def _slope_at(p, x, o):
    return FORMULAS[p.instance_class].slope


@overload(curvature_at, jit_options=PART, strict=False)
def _curvature_at(p, x, o):
    return FORMULAS[p.instance_class].curvature


@overload(kinks_at, jit_options=PART, strict=False)
def _kinks_at(p, o):
    return FORMULAS[p.instance_class].kinks
