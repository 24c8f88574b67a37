"""Priors on the rows of a side that are learned during the sweeps; the first is the pattern of observed entries."""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from .._checks import all_finite
from .._errors import SettingError
from ..engines import Engine, Shard
from ..model import PriorArrays
from ..objectives.sides import Side

STEPS = 2  # of conjugate gradients per sweep


@runtime_checkable
class RowPrior(Protocol):
    """Prior mean of the rows of one side, given by parameters that are learned between sweeps.

    A type that is listed in `PRIORS` is kept by models and checkpoints; for the latter it must be a dataclass.
    """

    kind: ClassVar[str]

    def improve(self, side: Side, other: Side) -> None:
        """Fit the parameters to the side's rows, and update ``side.prior_means``."""

    def penalty(self, side: Side) -> NDArray[np.float64]:
        """Squared size of the parameters by component, times their ridge in units of the side's precisions."""

    def row_means(self, side: Side) -> Array:
        """Prior means of the rows of a side, whether or not they were in the fit."""

    def narrow(self, places: Array) -> None:
        """Keep the components at `places` only, the offset's among them."""

    def renumber(self, places: Array, dtype: Any) -> None:
        """Give the other side new rows: number `places[j]` before is j now, and -1 stands for a new one."""

    def is_sound(self, side: Side, other: Side) -> bool:
        """Return whether the parameters are finite and fit the two sides."""

    def to_arrays(self) -> PriorArrays:
        """Parameters as plain arrays, for a model."""

    @classmethod
    def from_arrays(cls, saved: PriorArrays, ridge: float) -> "RowPrior":
        """Inverse of `to_arrays`."""


@dataclass
class PatternPrior:
    """Prior mean of row i: ``n_i**-0.5 * sum of weights[j] over the columns j of its n_i entries``, as in SVD++.

    The weights solve a ridge regression of the rows on their patterns, by conjugate gradients that are continued from
    sweep to sweep. A priori they are normal, with `ridge` times the rows' own precisions.
    """

    kind: ClassVar[str] = "pattern"
    ridge: float
    weights: Array  # (n_other, width)
    lengths: Array | None = None  # (n,): ``n_i**-0.5`` of the side's rows; computed on first use
    squares: Array | None = None  # (width,): sums of the squared weights, as of the last improvement

    @classmethod
    def zero(cls, side: Side, other: Side, ridge: float) -> "PatternPrior":
        """Weights of zero, for the rows of `side`."""
        return cls(ridge, np.zeros((other.means.shape[0], side.means.shape[1]), side.means.dtype))

    @classmethod
    def from_arrays(cls, saved: PriorArrays, ridge: float) -> "PatternPrior":
        """The prior of a model; `ridge` counts only if it is improved further."""
        return cls(ridge, saved.arrays["weights"])

    def to_arrays(self) -> PriorArrays:
        """The weights, for a model."""
        return PriorArrays(self.kind, {"weights": np.asarray(self.weights)})

    def is_sound(self, side: Side, other: Side) -> bool:
        """Return whether weights and lengths are finite and of the sides' sizes."""
        (n, width), n_other = side.means.shape, other.means.shape[0]
        known = self.weights.shape[1] if self.weights.ndim == 2 else width + 1
        sizes: list[tuple[Array, tuple[int, ...]]] = [(self.weights, (n_other, known))]
        sizes += [] if self.lengths is None else [(self.lengths, (n,))]
        sound = self.squares is None or (self.squares.shape == (known,) and all_finite(self.squares))
        return (
            int(side.offset) <= known <= width
            and all(part.shape == size and part.dtype == side.means.dtype and all_finite(part) for part, size in sizes)
            and sound
        )

    def improve(self, side: Side, other: Side, n_steps: int = STEPS) -> None:
        """Take steps of conjugate gradients, and update ``side.prior_means``."""
        missing = side.means.shape[1] - self.weights.shape[1]
        if missing:  # new factors were inserted before the offset
            at = self.weights.shape[1] - int(side.offset)
            self.weights = other.engine.run(Shard.insert, self.weights, at, missing, 0.0)
        if self.lengths is None:
            self.lengths = pattern_lengths(side.engine, self.weights.dtype)
        dtype, ridge, lengths = side.means.dtype, self.ridge, self.lengths
        residual, _ = blended(side.engine, (1, side.means), (-1, side.prior_means), scale=lengths)
        gradient, squared = gathered(other.engine, (1, residual), (-ridge, self.weights))
        direction, length = gradient, squared
        for k in range(n_steps):
            change, curvature = gathered(side.engine, (1, direction), scale=lengths)
            step = _ratio(squared, np.asarray(curvature) + ridge * np.asarray(length), dtype)
            self.weights, self.squares = blended(other.engine, (1, self.weights), (step, direction))
            side.prior_means, _ = blended(side.engine, (1, side.prior_means), (step, change))
            if k + 1 < n_steps:
                scaled, before = blended(side.engine, (1, change), scale=lengths)[0], squared
                terms = (-step, scaled), (1, gradient), (-ridge * step, direction)
                gradient, squared = gathered(other.engine, *terms)
                turn = _ratio(squared, before, dtype)
                direction, length = blended(other.engine, (1, gradient), (turn, direction))

    def penalty(self, side: Side) -> NDArray[np.float64]:
        """Sum of the squared weights of each component, times the ridge."""
        return np.zeros(side.means.shape[1]) if self.squares is None else self.ridge * np.asarray(self.squares)

    def row_means(self, side: Side) -> Array:
        """Prior means of the rows of a side, given their patterns."""
        lengths = pattern_lengths(side.engine, self.weights.dtype)
        return gathered(side.engine, (1, self.weights), scale=lengths)[0]

    def narrow(self, places: Array) -> None:
        """Keep the components at `places` only."""
        self.weights = np.ascontiguousarray(np.asarray(self.weights)[:, places])
        self.squares = None if self.squares is None else np.asarray(self.squares)[places]

    def renumber(self, places: Array, dtype: Any) -> None:
        """Give the other side new rows; those that were not there before get weights of zero."""
        weights = np.zeros((places.size, self.weights.shape[1]), dtype)
        weights[places >= 0] = self.weights[places[places >= 0]]
        self.weights, self.lengths, self.squares = weights, None, None


PRIORS: dict[str, type[Any]] = {PatternPrior.kind: PatternPrior}


def restored_prior(saved: PriorArrays, ridge: float = 1.0) -> RowPrior:
    """The prior that a model has kept."""
    if saved.kind not in PRIORS:
        raise SettingError(
            f"The model has a row prior of type {saved.kind!r}, which is not known here ({', '.join(PRIORS)}); import "
            "the module that adds it to `rankwise.solvers.row_priors.PRIORS`."
        )
    prior: RowPrior = PRIORS[saved.kind].from_arrays(saved, ridge)
    return prior


def gathered(engine: Engine, *terms: tuple[Any, Array], scale: Array | None = None) -> tuple[Array, Array]:
    """Return a weighted sum of matrices as `blended`, whose first term stands for its sums over the rows' patterns.

    These are the sums of ``block[j]`` over the columns j of row i's entries, for every row i in the engine's shards.
    """
    factors, (block, *blocks) = zip(*terms, strict=True)
    return engine.run(Shard.gather_blend, block, block.shape[1], factors, tuple(blocks), scale)


def pattern_lengths(engine: Engine, dtype: Any) -> Array:
    """``n_i**-0.5`` for every row with n_i entries, 1 for rows without entries."""
    return engine.run(Shard.pattern_lengths, np.dtype(dtype).str)


def blended(engine: Engine, *terms: tuple[Any, Array], scale: Array | None = None) -> tuple[Array, Array]:
    """Return a weighted sum of up to three matrices with a line per row, and the sums of squares of its columns."""
    factors, blocks = zip(*terms, strict=True)
    return engine.run(Shard.blend, factors, blocks, scale)


def _ratio(above: Array, below: Array, dtype: Any) -> Array:
    """``above / below``, zero where `below` is, in the factors' number type so that products keep it."""
    above, below = np.asarray(above), np.asarray(below)
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0).astype(dtype)
