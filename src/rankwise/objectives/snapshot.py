"""Where an objective is between two steps, as plain arrays and numbers."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import all_finite
from ..model import Offsets
from .journal import Journal

Array = NDArray[Any]


@dataclass(frozen=True)
class Snapshot:
    """Where a `Problem` is.

    Attributes
    ----------
    theta, U, V : ndarray
        The point.
    version : int
        Step number of the last change of X.
    journal : Journal
        How the predictions came about.
    behind : bool
        Whether the shards had yet to follow to the point.
    offsets : Offsets or None
        Those that a solver has found, if `own_offsets`; else the problem has those it was made with.
    gram : ndarray
        Inner products of the terms on the observed entries, as far as they are known.
    """

    theta: Array
    U: Array
    V: Array
    version: int
    journal: Journal
    behind: bool
    offsets: Offsets | None
    own_offsets: bool
    gram: Array

    def fits(self, shape: tuple[int, int], dtype: Any) -> bool:
        """Whether this is a place where a problem of that shape can be."""
        rank = self.theta.size
        sizes = ((self.theta, (rank,)), (self.U, (shape[0], rank)), (self.V, (shape[1], rank)))
        sound = all(part.shape == size and all_finite(part) for part, size in sizes) and self.U.dtype == self.V.dtype
        sound = sound and self.U.dtype == dtype and self.theta.dtype == np.float64
        sound = sound and self.version >= 0 and (self.behind or self._told_in_order())
        if self.offsets is not None:
            sides = zip((self.offsets.rows, self.offsets.cols), shape, strict=True)
            sound = sound and all(side.shape == (size,) and all_finite(side) for side, size in sides)
            sound = sound and bool(np.isfinite(self.offsets.constant))
        k = self.gram.shape[0] if self.gram.ndim else rank + 1
        return sound and k <= rank and self.gram.shape == (k, k) and all_finite(self.gram)

    def _told_in_order(self) -> bool:
        """Whether the journal makes just the point's terms, with step numbers that rise to this one's."""
        parts = [self.journal.theta, *(step.theta for step in self.journal.added)]
        if not all(part is None or (part.ndim == 1 and all_finite(part)) for part in parts):
            return False
        first = 0 if self.journal.theta is None else self.journal.theta.size
        versions = [self.journal.version, *(step.version for step in self.journal.added)]
        rising = all(before < after for before, after in pairwise(versions))
        begun = versions[0] >= int(self.journal.theta is not None)
        return (
            first + sum(step.n_terms for step in self.journal.added) == self.theta.size
            and begun
            and rising
            and versions[-1] <= self.version
            and all(np.isfinite([step.shrink, step.weight]).all() for step in self.journal.added)
        )


@dataclass(frozen=True)
class RidgedSnapshot:
    """Where a `Ridged` is: its objective's snapshot, and the inner products of the terms."""

    inner: Any
    products: Array


@dataclass(frozen=True)
class MultitaskSnapshot:
    """Where a `MultitaskRegression` is: the point, and the images of its terms."""

    theta: Array
    U: Array
    V: Array
    images: Array
