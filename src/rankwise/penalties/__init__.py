"""Penalties and constraints on the factors of rows or columns."""

from .base import BY_NAME, Penalty, Ridge, get, register
from .base import allow_units as allow_units
from .base import factor_units as factor_units
from .base import from_plain as from_plain
from .componentwise import L1, NonNegative, NonNegativeL1
from .custom import CustomPenalty, penalty
from .rowwise import Fixed, OneHot, Simplex

__all__ = [
    "BY_NAME",
    "L1",
    "CustomPenalty",
    "Fixed",
    "NonNegative",
    "NonNegativeL1",
    "OneHot",
    "Penalty",
    "Ridge",
    "Simplex",
    "get",
    "penalty",
    "register",
]
