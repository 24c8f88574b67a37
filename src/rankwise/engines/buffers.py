"""Arrays that are used again: fresh pages cost more than zeroing old ones."""

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALL = 1024  # numbers; not worth keeping


class Buffers:
    """A pile of idle float64 arrays; safe to use from several threads."""

    def __init__(self) -> None:
        self._idle: defaultdict[tuple[int, ...], list[NDArray[Any]]] = defaultdict(list)

    def take(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """An array of zeros."""
        try:
            found = self._idle[shape].pop()
        except IndexError:
            return np.zeros(shape)
        found.fill(0.0)
        return found

    def give_back(self, array: NDArray[Any]) -> None:
        """Return an array that nobody reads any more."""
        if array.size >= SMALL:
            self._idle[array.shape].append(array)

    def clear(self) -> None:
        """Let all of them go."""
        self._idle.clear()
