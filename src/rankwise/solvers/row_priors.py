"""Priors on the rows of a side that are learned during the sweeps; the first is the pattern of observed entries."""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from .._checks import all_finite
from .._errors import SettingError
from ..engines import Engine, Shard
from ..kernels.lanes import pad_columns
from ..model import PriorArrays
from ..objectives.sides import Side
from ..spectral.tall import blended

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

    def row_means(self, engine: Engine) -> Array:
        """Prior means of the rows in an engine's shards, whether or not they were in the fit."""

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
        return PriorArrays(self.kind, {"weights": self.weights})

    def is_sound(self, side: Side, other: Side) -> bool:
        """Return whether weights and lengths are finite and of the sides' sizes."""
        (n, width), n_other = side.means.shape, other.means.shape[0]
        known = self.weights.shape[1] if self.weights.ndim == 2 else width + 1
        sizes: list[tuple[Array, tuple[int, ...]]] = [(self.weights, (n_other, known))]
        sizes += [] if self.lengths is None else [(self.lengths, (n,))]
        return int(side.offset) <= known <= width and all(
            part.shape == size and part.dtype == side.means.dtype and all_finite(part) for part, size in sizes
        )

    def improve(self, side: Side, other: Side, n_steps: int = STEPS) -> None:
        """Take steps of conjugate gradients, and update ``side.prior_means``."""
        missing = side.means.shape[1] - self.weights.shape[1]
        if missing:  # new factors were inserted before the offset
            at = self.weights.shape[1] - int(side.offset)
            self.weights = np.insert(self.weights, [at] * missing, 0.0, axis=1)
        if self.lengths is None:
            self.lengths = pattern_lengths(side.engine, self.weights.shape[0], self.weights.dtype)
        each, dtype, ridge, lengths = side.engine.each, side.means.dtype, self.ridge, self.lengths
        residual, _ = blended((1, side.means), (-1, side.prior_means), scale=lengths, each=each)
        gradient, squared = blended((1, pattern_sums(other.engine, residual)), (-ridge, self.weights), each=each)
        direction, length = gradient, squared
        for k in range(n_steps):
            change, curvature = blended((1, pattern_sums(side.engine, direction)), scale=lengths, each=each)
            step = _ratio(squared, curvature + ridge * length, dtype)
            self.weights, _ = blended((1, self.weights), (step, direction), each=each)
            side.prior_means, _ = blended((1, side.prior_means), (step, change), each=each)
            if k + 1 < n_steps:
                back = pattern_sums(other.engine, blended((1, change), scale=lengths, each=each)[0])
                before = squared
                gradient, squared = blended((1, gradient), (-step, back), (-ridge * step, direction), each=each)
                turn = _ratio(squared, before, dtype)
                direction, length = blended((1, gradient), (turn, direction), each=each)

    def penalty(self, side: Side) -> NDArray[np.float64]:
        """Sum of the squared weights of each component, times the ridge."""
        return self.ridge * blended((1, self.weights), each=side.engine.each)[1]

    def row_means(self, engine: Engine) -> Array:
        """Prior means of the rows in an engine's shards."""
        lengths = pattern_lengths(engine, self.weights.shape[0], self.weights.dtype)
        return blended((1, pattern_sums(engine, self.weights)), scale=lengths, each=engine.each)[0]

    def narrow(self, places: Array) -> None:
        """Keep the components at `places` only."""
        self.weights = np.ascontiguousarray(self.weights[:, places])

    def renumber(self, places: Array, dtype: Any) -> None:
        """Give the other side new rows; those that were not there before get weights of zero."""
        weights = np.zeros((places.size, self.weights.shape[1]), dtype)
        weights[places >= 0] = self.weights[places[places >= 0]]
        self.weights, self.lengths = weights, None


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


def pattern_sums(engine: Engine, block: Array) -> Array:
    """Sum of ``block[j]`` over the columns j of row i's entries, for every row i in the engine's shards."""
    return engine.run(Shard.gather, pad_columns(block, block.dtype), block.shape[1])


def pattern_lengths(engine: Engine, n_other: int, dtype: Any) -> Array:
    """``n_i**-0.5`` for every row with n_i entries, 1 for rows without entries."""
    counts = pattern_sums(engine, np.ones((n_other, 1), dtype))[:, 0]
    return (1.0 / np.sqrt(np.maximum(counts, 1.0))).astype(dtype)


def _ratio(above: Array, below: Array, dtype: Any) -> Array:
    """``above / below``, zero where `below` is, in the factors' number type so that products keep it."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0).astype(dtype)
