"""What the pattern of observed entries says of a row's factors, whatever the entries' values (the idea of SVD++)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import all_finite
from ..model.sides import Side, gathered, lengths_of
from ..spectral.tall import blended

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
        sizes = (self.weights, (n_other, known)), (self.lengths, (n,))
        return int(self.side.offset) <= known <= width and all(
            part.shape == size and part.dtype == self.side.means.dtype and all_finite(part) for part, size in sizes
        )

    def start(self, weights: Array) -> None:
        """Go on from weights learned before."""
        self.weights = weights
        self.side.around, _ = self._seen(weights)

    def improve(self, n_iter: int) -> None:
        """Take conjugate gradient steps, then move what the side's rows are thought to be around."""
        missing = self.side.means.shape[1] - self.weights.shape[1]
        if missing:  # new factors came before the offset
            at = self.weights.shape[1] - int(self.side.offset)
            self.weights = np.insert(self.weights, [at] * missing, 0.0, axis=1)
        each, dtype, ridge = self.side.engine.each, self.side.means.dtype, self.ridge
        rest, _ = blended((1, self.side.means), (-1, self.side.around), scale=self.lengths, each=each)
        left, squared = blended((1, self._gather(rest)), (-ridge, self.weights), each=each)
        direction, length = left, squared
        for k in range(n_iter):
            seen, found = self._seen(direction)
            step = _ratio(squared, found + ridge * length, dtype)
            self.weights, _ = blended((1, self.weights), (step, direction), each=each)
            self.side.around, _ = blended((1, self.side.around), (step, seen), each=each)
            if k + 1 < n_iter:
                pulled = self._gather(blended((1, seen), scale=self.lengths, each=each)[0])
                before = squared
                left, squared = blended((1, left), (-step, pulled), (-ridge * step, direction), each=each)
                turn = _ratio(squared, before, dtype)
                direction, length = blended((1, left), (turn, direction), each=each)

    def squares(self) -> NDArray[np.float64]:
        """The weights' own penalty, for each component."""
        return self.ridge * blended((1, self.weights), each=self.side.engine.each)[1]

    def _seen(self, weights: Array) -> tuple[Array, Array]:
        """What weights say of the rows, and the squares of that."""
        found = gathered(self.side.engine, weights)
        return blended((1, found), scale=self.lengths, each=self.side.engine.each)

    def _gather(self, rows: Array) -> Array:
        return gathered(self.other.engine, rows)


def _ratio(above: Array, below: Array, dtype: Any) -> Array:
    """In the factors' own number type, so that what it is multiplied with stays so."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0).astype(dtype)
