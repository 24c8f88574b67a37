"""Predicates for the validation of parameters."""

import sys
from typing import Any

import numpy as np


def is_number(value: Any) -> bool:
    """Return whether `value` is a real number; booleans are not, nor integers beyond the range of floats."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    return not isinstance(value, int) or abs(value) <= sys.float_info.max


def all_finite(array: Any) -> bool:
    """Return whether `array` has a floating-point type and only finite values."""
    return array.dtype in (np.float32, np.float64) and bool(np.isfinite(array).all())


def is_whole(value: Any) -> bool:
    """Return whether `value` is an integer; booleans are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
