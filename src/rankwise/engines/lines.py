"""Shard operations on arrays with a line for every row, such as factors; they read no entries."""

from typing import Any

import numpy as np

from .._arrays import Array
from ..spectral.tall import blended
from .operations import Join, operation


class RowLines:
    """The part of a shard that knows which rows it has: ``start`` to ``stop``."""

    start: int
    stop: int
    indptr: Array

    @operation(Join.BOTH, by_row=("blocks", "scale"), kept=True)
    def blend(self, factors: tuple[Any, ...], blocks: tuple[Array, ...], scale: Array | None) -> tuple[Array, Array]:
        """Return a weighted sum of up to three blocks, and the sums of squares of its columns.

        The factors of a block are a number or an array of shape (width,); `scale` multiplies every row of the sum.
        """
        own = slice(self.start, self.stop)
        terms = ((weights, block[own]) for weights, block in zip(factors, blocks, strict=True))
        return blended(*terms, scale=None if scale is None else scale[own])

    @operation(Join.SUM, by_row=("means", "prior_means", "variances"))
    def squares(self, means: Array, prior_means: Array, variances: Array) -> Array:
        """Sum over the rows of each component's expected squared distance from its prior mean."""
        own = slice(self.start, self.stop)
        _, squares = blended((1, means[own]), (-1, prior_means[own]))
        return np.asarray(squares + np.sum(variances[own], axis=0, dtype=np.float64))

    @operation(Join.SUM, by_row=("means", "multipliers"))
    def weighted_squares(self, means: Array, multipliers: Array) -> Array:
        """Sum over the rows of each component's squared mean, times the row's multiplier."""
        own = slice(self.start, self.stop)
        return np.asarray(np.sum(multipliers[own, None] * means[own] ** 2, axis=0, dtype=np.float64))

    @operation(Join.CONCATENATE, by_row=("block",))
    def largest(self, block: Array) -> Array:
        """Return the largest absolute value of each column, shape (1, width)."""
        own = block[self.start : self.stop]
        return np.asarray(np.maximum(own.max(axis=0, initial=0.0), -own.min(axis=0, initial=0.0))[None])

    @operation(Join.CONCATENATE, by_row=("block", "more"), kept=True)
    def insert(self, block: Array, place: int, n: int, more: Any) -> Array:
        """Insert n columns before the one at `place`: those of `more`, or of this number."""
        own = slice(self.start, self.stop)
        new = more[own] if isinstance(more, np.ndarray) else more
        return np.ascontiguousarray(np.insert(block[own], [place] * n, new, axis=1))

    @operation(Join.CONCATENATE, by_row=("block",), kept=True)
    def select(self, block: Array, places: Array) -> Array:
        """Return the columns at `places`."""
        return np.ascontiguousarray(block[self.start : self.stop, places])

    @operation(Join.CONCATENATE, by_row=("block",), kept=True)
    def keep(self, block: Array) -> Array:
        """Return the block, which stays with the workers of a cluster."""
        return block[self.start : self.stop]

    @operation(Join.CONCATENATE, kept=True)
    def pattern_lengths(self, dtype: str) -> Array:
        """Return ``n_i**-0.5`` for every row with n_i entries, 1 for rows without entries."""
        counts = np.diff(self.indptr).astype(dtype)
        return np.asarray(1.0 / np.sqrt(np.maximum(counts, 1.0)), dtype)
