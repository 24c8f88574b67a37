"""Vectors that are used again: fresh pages cost more than zeroing old ones."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Buffers:
    """A pile of idle float64 vectors; safe to use from several threads."""

    def __init__(self) -> None:
        self._idle: list[NDArray[Any]] = []

    def take(self, size: int) -> NDArray[np.float64]:
        """A vector of zeros."""
        try:
            found = self._idle.pop()
        except IndexError:
            return np.zeros(size)
        if found.size != size:
            return np.zeros(size)
        found.fill(0.0)
        return found

    def give_back(self, vector: NDArray[Any]) -> None:
        """Return a vector that nobody reads any more; blocks are not kept."""
        if vector.ndim == 1:
            self._idle.append(vector)

    def clear(self) -> None:
        """Let all of them go."""
        self._idle.clear()
