"""Predicates and errors for the validation of parameters."""

import sys
from collections.abc import Iterable
from typing import TypeGuard

import numpy as np

from ._arrays import Array
from ._errors import SettingError


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether `value` is a real number; booleans are not, nor integers beyond the range of floats."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    return not isinstance(value, int) or abs(value) <= sys.float_info.max


def all_finite(array: Array) -> bool:
    """Return whether `array` has a floating-point type and only finite values."""
    return array.dtype in (np.float32, np.float64) and bool(np.isfinite(array).all())


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether `value` is an integer; booleans are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def one_of(names: Iterable[object]) -> str:
    """Return the names as an error lists them: ``'a' or 'b'``, or ``one of 'a', 'b', 'c'``."""
    quoted = [repr(name) for name in names]
    return " or ".join(quoted) if len(quoted) < 3 else f"one of {', '.join(quoted)}"


def check_choice(parameter: str, value: object, choices: Iterable[object]) -> None:
    """Raise SettingError unless `value` is one of `choices`."""
    if value not in choices:
        raise SettingError(f"`{parameter}` must be {one_of(choices)}, got {value!r}.")
