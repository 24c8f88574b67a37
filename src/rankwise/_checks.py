"""Small tests of parameters, for readable errors."""

from typing import Any

import numpy as np


def is_number(given: Any) -> bool:
    """Whether `given` is a real number; True and False are not."""
    return isinstance(given, int | float | np.integer | np.floating) and not isinstance(given, bool)


def is_whole(given: Any) -> bool:
    """Whether `given` is an integer; True and False are not."""
    return isinstance(given, int | np.integer) and not isinstance(given, bool)
