"""Sums over shards whose bits do not depend on who adds what up."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .buffers import Buffers

Array = NDArray[Any]


class Part(NamedTuple):
    """Sum of the answers of the shards ``first`` to ``first + width - 1``; a node of the tree."""

    first: int
    width: int
    sum: Array


class Fold:
    """Adds answers up along the binary tree over shard numbers, whichever of them are here.

    Nodes are runs of ``2**k`` shards that begin at a multiple of ``2**k``; two that make up a larger one are added
    as soon as both are known. So whoever has a run of shards sends at most two parts per doubling of its length, and
    parts made by several workers lead to the same bits as if one had made them all.
    """

    def __init__(self, buffers: Buffers | None = None) -> None:
        self.buffers = buffers
        self.parts: list[Part] = []

    def add(self, part: Part) -> None:
        """Take the next part, in the order of shards."""
        self.parts.append(part)
        while len(self.parts) > 1 and _siblings(*self.parts[-2:]):
            self._join_last()

    def total(self) -> Array:
        """The sum over all shards, once all are here: the parts left over, from the last to the first."""
        while len(self.parts) > 1:
            self._join_last()
        return self.parts[0].sum

    def _join_last(self) -> None:
        right, left = self.parts.pop(), self.parts.pop()
        with np.errstate(invalid="ignore"):  # f may be infinite where a line search looks
            np.add(left.sum, right.sum, out=left.sum)
        if self.buffers is not None:
            self.buffers.give_back(right.sum)
        self.parts.append(Part(left.first, left.width + right.width, left.sum))


def _siblings(left: Part, right: Part) -> bool:
    return left.width == right.width and left.first % (2 * left.width) == 0 and right.first == left.first + left.width
