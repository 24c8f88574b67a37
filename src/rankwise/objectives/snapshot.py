"""Snapshots: the current point of an objective as plain arrays and numbers, for checkpoints."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .._arrays import Array
from .._checks import all_finite
from ..model import Offsets
from .journal import Journal


@dataclass(frozen=True)
class Snapshot:
    """Current point of a `Problem`; see `Point`."""

    theta: Array  # (rank,)
    U: Array  # (n_rows, rank)
    V: Array  # (n_cols, rank)
    version: int
    journal: Journal
    behind: bool
    offsets: Offsets | None  # fitted by a solver, if `own_offsets`; otherwise the problem's fixed offsets are in use
    own_offsets: bool
    gram: Array  # (k, k), k <= rank
    products: Array  # (k, k), k <= rank

    def fits(self, shape: tuple[int, int], dtype: DTypeLike) -> bool:
        """Return whether the parts are consistent, finite, and of this shape and dtype."""
        rank = self.theta.size
        sizes = ((self.theta, (rank,)), (self.U, (shape[0], rank)), (self.V, (shape[1], rank)))
        sound = all(part.shape == size and all_finite(part) for part, size in sizes) and self.U.dtype == self.V.dtype
        sound = sound and self.U.dtype == dtype and self.theta.dtype == np.float64
        sound = sound and self.version >= 0 and (self.behind or self._journal_is_consistent())
        if self.offsets is not None:
            sides = zip((self.offsets.rows, self.offsets.cols), shape, strict=True)
            sound = sound and all(side.shape == (size,) and all_finite(side) for side, size in sides)
            sound = sound and bool(np.isfinite(self.offsets.constant))
        return sound and all(_is_gram(part, rank) for part in (self.gram, self.products))

    def _journal_is_consistent(self) -> bool:
        """Return whether the journal makes exactly the point's terms, with ascending versions up to this one's."""
        parts = [self.journal.theta, *(step.theta for step in self.journal.added)]
        if not all(part is None or (part.ndim == 1 and all_finite(part)) for part in parts):
            return False
        first = 0 if self.journal.theta is None else self.journal.theta.size
        versions = [self.journal.version, *(step.version for step in self.journal.added)]
        ascending = all(before < after for before, after in pairwise(versions))
        begun = versions[0] >= int(self.journal.theta is not None)
        return (
            first + sum(step.n_terms for step in self.journal.added) == self.theta.size
            and begun
            and ascending
            and versions[-1] <= self.version
            and all(np.isfinite([step.shrink, step.weight]).all() for step in self.journal.added)
        )


def _is_gram(part: Array, rank: int) -> bool:
    """Return whether it can be the inner products of the first terms of `rank` ones."""
    k = part.shape[0] if part.ndim else rank + 1
    return k <= rank and part.shape == (k, k) and all_finite(part)


@dataclass(frozen=True)
class RidgedSnapshot:
    """Current point of a `Ridged`: the snapshot of its objective, and the inner products of the terms."""

    inner: Any
    products: Array


@dataclass(frozen=True)
class MultitaskSnapshot:
    """Current point of a `MultitaskRegression`, and the predictions of its terms, shape (n_responses, rank)."""

    theta: Array
    U: Array
    V: Array
    images: Array
