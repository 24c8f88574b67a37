"""Small tests of parameters, for readable errors."""

import sys
from typing import Any

import numpy as np


def is_number(given: Any) -> bool:
    """Whether `given` is a real number; True and False are not, nor integers beyond all floats."""
    if isinstance(given, bool) or not isinstance(given, int | float | np.integer | np.floating):
        return False
    return not isinstance(given, int) or abs(given) <= sys.float_info.max


def all_finite(array: Any) -> bool:
    """Whether `array` is one of finite floating-point numbers."""
    return array.dtype in (np.float32, np.float64) and bool(np.isfinite(array).all())


def is_whole(given: Any) -> bool:
    """Whether `given` is an integer; True and False are not."""
    return isinstance(given, int | np.integer) and not isinstance(given, bool)
