"""Type of NumPy arrays of any dtype."""

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
