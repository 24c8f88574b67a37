"""What the pattern of observed entries says of a row's factors, whatever the entries' values (the idea of SVD++)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import all_finite
from ..model.sides import Side, gathered, lengths_of, spread

Array = NDArray[Any]


@dataclass
class PatternPrior:
    """Row i is thought to be around ``n_i**-0.5 * sum over its entries' columns j of weights[j]``.

    The weights follow from a ridge regression of the rows on their patterns, by conjugate gradients that go on from
    sweep to sweep. They are normal a priori, with the row precisions times `ridge`.
    """

    side: Side
    other: Side
    ridge: float
    weights: Array
    lengths: Array

    @classmethod
    def zero(cls, side: Side, other: Side, ridge: float) -> "PatternPrior":
        """Nothing learned yet."""
        weights = np.zeros((other.means.shape[0], side.means.shape[1]), side.means.dtype)
        return cls(side, other, ridge, weights, lengths_of(side.engine, weights.shape[0], weights.dtype))

    def is_sound(self) -> bool:
        """Whether the weights are of the sides' sizes, and all is finite."""
        (n, width), n_other = self.side.means.shape, self.other.means.shape[0]
        known = self.weights.shape[1] if self.weights.ndim == 2 else width + 1
        sizes = (self.weights, (n_other, known)), (self.lengths, (n, 1))
        return int(self.side.offset) <= known <= width and all(
            part.shape == size and part.dtype == self.side.means.dtype and all_finite(part) for part, size in sizes
        )

    def start(self, weights: Array) -> None:
        """Go on from weights learned before."""
        self.weights = weights
        self.side.around = np.ascontiguousarray(self._spread(weights), weights.dtype)

    def improve(self, n_iter: int) -> None:
        """Take conjugate gradient steps, then move what the side's rows are thought to be around."""
        missing = self.side.means.shape[1] - self.weights.shape[1]
        if missing:  # new factors came before the offset
            at = self.weights.shape[1] - int(self.side.offset)
            self.weights = np.insert(self.weights, [at] * missing, 0.0, axis=1)
        around, dtype = self.side.around, self.side.means.dtype
        left = self._pull(self.side.means - around) - self.ridge * self.weights
        direction, squared = left, _squares(left)
        for k in range(n_iter):
            seen = self._spread(direction)
            step = _ratio(squared, _squares(seen) + self.ridge * _squares(direction), dtype)
            self.weights = self.weights + step * direction
            around = around + step * seen
            if k + 1 < n_iter:
                left = left - step * (self._pull(seen) + self.ridge * direction)
                before, squared = squared, _squares(left)
                direction = left + _ratio(squared, before, dtype) * direction
        self.side.around = np.ascontiguousarray(around)

    def squares(self) -> NDArray[np.float64]:
        """The weights' own penalty, for each component."""
        return self.ridge * _squares(self.weights)

    def _spread(self, weights: Array) -> Array:
        return spread(self.side.engine, self.lengths, weights)

    def _pull(self, rows: Array) -> Array:
        return gathered(self.other.engine, np.asarray(self.lengths * rows, self.lengths.dtype))


def _squares(block: Array) -> NDArray[np.float64]:
    return np.sum(block * block, axis=0, dtype=np.float64)


def _ratio(above: Array, below: Array, dtype: Any) -> Array:
    """In the factors' own number type, so that what it is multiplied with stays so."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0).astype(dtype)
