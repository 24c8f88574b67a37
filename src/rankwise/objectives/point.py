"""The current point of a `Problem`: factors, offsets, and the journal of the predictions stored in the shards."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .._arrays import Array
from .._errors import DataError
from ..engines import Call, Shard
from ..model import Factors, Offsets
from .journal import Journal
from .snapshot import Snapshot

Direction = tuple[Array, Array, Array | None]  # u, v and theta of a direction D = u diag(theta) v.T


class Point:
    """Where X is, and what the shards have stored of it."""

    def __init__(self, shape: tuple[int, int], dtype: DTypeLike) -> None:
        self.factors = Factors(shape, dtype)  # the current X
        self.offsets: Offsets | None = None  # added to X at every entry
        self.version = 0  # changes of X so far; operations that change predictions carry it and so are idempotent
        self.journal = Journal()  # operations that computed the predictions in the shards
        self.behind = False  # whether the predictions in the shards are not yet those of X
        self.direction: Direction | None = None  # whose products are stored in the shards
        # Value, squared norm of the gradient, <gradient, X>; None unless the slopes in the shards are those of X.
        self.summary: NDArray[np.float64] | None = None
        self.gram = np.zeros((0, 0))  # inner products of the first terms on the observed entries
        self.products = np.zeros((0, 0))  # those on all cells, weighted as in `Cells`

    def changed(self) -> None:
        """Count a change of X; value and slopes are no longer those of X."""
        self.version += 1
        self.summary = None

    def set(self, theta: Array, U: Array, V: Array) -> None:
        """Replace all terms by ``U diag(theta) V.T``."""
        self.gram, self.products = np.zeros((0, 0)), np.zeros((0, 0))
        self.factors.clear()
        self.factors.append(1.0, 1.0, U, V, theta)

    def place(self, U: Any, V: Any) -> None:
        """Replace all terms by ``U V.T``."""
        self.gram = np.zeros((0, 0))
        self.factors.place(U.shape[1], U, V)

    def read(self) -> None:
        """Read factors and offsets that are elsewhere."""
        _ = self.factors.padded, self.offsets is None or self.offsets.rows

    def clear(self) -> None:
        """Remove all terms."""
        self.factors.clear()
        self.gram, self.products = np.zeros((0, 0)), np.zeros((0, 0))
        self.changed()
        self.journal.restart(self.version)

    def append(self, shrink: float, weight: float, direction: Direction) -> None:
        """Record ``X = shrink X + weight D`` after the shards have added it to their predictions."""
        u, v, theta = direction
        self.factors.append(shrink, weight, u, v, theta)
        self.journal.add(self.version, shrink, weight, theta)

    def recompute(self) -> None:
        """Record that the shards compute their predictions anew from the factors."""
        self.behind = False
        self.journal.restart(self.version, self.factors.theta)

    def drop_scratch(self) -> None:
        """Record that an operation has overwritten the slopes and the direction in the shards."""
        self.summary = self.direction = None

    def as_stored(self, direction: Direction) -> Direction:
        """Return a direction with u and v contiguous and in the dtype of the factors."""
        u, v, theta = direction
        dtype = self.factors.dtype
        return np.ascontiguousarray(u, dtype), np.ascontiguousarray(v, dtype), theta

    def replay(self) -> Iterator[Call]:
        """Yield the operations that bring a new shard to this point; none while all shards are behind."""
        if self.behind:
            return
        yield Shard.shift, (self.offsets,)
        yield from self.journal.replay(self.factors)
        if self.direction is not None:
            yield Shard.aim, self.as_stored(self.direction)
        if self.summary is not None:
            yield Shard.evaluate, ()

    def snapshot(self, fixed_offsets: Offsets | None) -> Snapshot:
        """Return this point for a checkpoint, without offsets that the problem has anyway."""
        offsets = None if self.offsets is fixed_offsets else self.offsets
        own = offsets is not None or fixed_offsets is None
        terms = self.factors.theta, self.factors.U, self.factors.V
        return Snapshot(*terms, self.version, self.journal, self.behind, offsets, own, self.gram, self.products)

    def restore(self, snapshot: Snapshot, fixed_offsets: Offsets | None) -> None:
        """Move to the point of a snapshot; raise `DataError` if it is of another shape or dtype."""
        if not snapshot.fits(self.factors.shape, self.factors.dtype):
            raise DataError("The snapshot is of another problem.")
        self.set(snapshot.theta, snapshot.U, snapshot.V)
        self.offsets = snapshot.offsets if snapshot.own_offsets else fixed_offsets
        self.version, self.journal, self.behind = snapshot.version, snapshot.journal, snapshot.behind
        self.gram, self.products = snapshot.gram, snapshot.products
        self.drop_scratch()
