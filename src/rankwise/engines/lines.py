"""Shard operations on arrays with a line for every row, such as factors; they read no entries."""

from typing import Any

import numpy as np

from .._arrays import Array
from ..kernels.row_parts import GaussianPrior
from ..spectral.tall import blended
from .operations import Join, Line, operation


class RowLines:
    """The part of a shard that knows which rows it has: ``start`` to ``stop``."""

    start: int
    stop: int
    indptr: Array

    @operation(Join.BOTH, by_row=("blocks", "scale"), kept=lambda factors, blocks, scale: (Line.of(blocks[0]),))
    def blend(self, factors: tuple[Any, ...], blocks: tuple[Array, ...], scale: Array | None) -> tuple[Array, Array]:
        """Return a weighted sum of up to three blocks, and the sums of squares of its columns.

        The factors of a block are a number or an array of shape (width,); `scale` multiplies every row of the sum.
        """
        own = slice(self.start, self.stop)
        terms = ((weights, block[own]) for weights, block in zip(factors, blocks, strict=True))
        return blended(*terms, scale=None if scale is None else scale[own])

    @operation(Join.CONCATENATE, by_row=("block",))
    def largest(self, block: Array) -> Array:
        """Return the largest absolute value of each column, shape (1, width)."""
        own = block[self.start : self.stop]
        return np.asarray(np.maximum(own.max(axis=0, initial=0.0), -own.min(axis=0, initial=0.0))[None])

    @operation(
        Join.CONCATENATE,
        by_row=("block", "more"),
        kept=lambda block, place, n, more: (Line.of(block, block.shape[1] + n),),
    )
    def insert(self, block: Array, place: int, n: int, more: Any) -> Array:
        """Insert n columns before the one at `place`: those of `more`, or of this number."""
        own = slice(self.start, self.stop)
        new = more[own] if isinstance(more, np.ndarray) else more
        return np.ascontiguousarray(np.insert(block[own], [place] * n, new, axis=1))

    @operation(Join.CONCATENATE, by_row=("block",), kept=lambda block, places: (Line.of(block, len(places)),))
    def select(self, block: Array, places: Array) -> Array:
        """Return the columns at `places`."""
        return np.ascontiguousarray(block[self.start : self.stop, places])

    @operation(Join.CONCATENATE, by_row=("block",), kept=lambda block: (Line.of(block),))
    def keep(self, block: Array) -> Array:
        """Return the block, which stays with the workers of a cluster."""
        return block[self.start : self.stop]

    @operation(Join.CONCATENATE, kept=lambda dtype: (Line((), np.dtype(dtype)),))
    def pattern_lengths(self, dtype: str) -> Array:
        """Return ``n_i**-0.5`` for every row with n_i entries, 1 for rows without entries."""
        counts = np.diff(self.indptr).astype(dtype)
        return np.asarray(1.0 / np.sqrt(np.maximum(counts, 1.0)), dtype)


def row_squares(means: Array, variances: Array, prior: Any) -> Array:
    """Sums over rows with a Gaussian prior, shape (2 d,); zeros under other priors.

    Of each component's expected squared distance from its prior mean, then of its squared mean times the row's
    multiplier.
    """
    if not isinstance(prior, GaussianPrior):
        return np.zeros(2 * means.shape[1])
    distances = blended((1, means), (-1, prior.means))[1] + np.sum(variances, axis=0, dtype=np.float64)
    return np.concatenate((distances, np.sum(prior.multipliers[:, None] * means**2, axis=0, dtype=np.float64)))
