"""Rows or columns as one side of a factorization, and the solve of all its rows given the other side."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .._arrays import Array
from .._checks import all_finite
from ..engines import Engine, Shard
from ..kernels.lanes import padded
from ..kernels.row_parts import NO_KEYS, Absent, Design, GaussianPrior, RowProblem, SharedQuadratic
from ..model import Cells, LearnedSide
from ..spectral.tall import blended


@dataclass(frozen=True)
class RowSettings:
    """Settings that the row solves of both sides share."""

    constant: float = 0.0  # part of every prediction
    scale: float = 1.0  # factor of the expected loss against the prior
    estimate_variances: bool = False  # whether factors have variances, or are numbers
    smoothing: float = 0.0  # variance added to every prediction, which rounds the corners of a nonsmooth loss
    held_back: int = 0  # limit of the keys of entries that count as absent, see `Absent`; zero for none


@dataclass
class Side:
    """Factors of the rows, or of the columns as rows of the transpose; d is the rank, plus one if `offset`."""

    engine: Engine  # shards whose rows these are
    means: Array  # (n, d): factors, then the offset
    variances: Array  # (n, d): zero where they are not estimated
    precisions: Array  # (d,): prior precision of each component: the ridge
    prior_means: Array  # (n, d): prior mean of every row
    multipliers: Array  # (n,): factor of each row's precisions
    offset: bool  # whether this side has offsets
    keys: Array = field(default_factory=lambda: NO_KEYS)  # (n,): by which entries are held back, if any are

    @classmethod
    def empty(cls, engine: Engine, size: int, offset: bool, dtype: DTypeLike) -> "Side":
        """A side without factors, and with offsets of zero if it has any."""
        shape = (size, int(offset))
        means, variances, prior_means = (np.zeros(shape, dtype) for _ in range(3))
        return cls(engine, means, variances, np.ones(shape[1]), prior_means, np.ones(size, dtype), offset)

    @classmethod
    def from_learned(cls, learned: LearnedSide, engine: Engine) -> "Side":
        """A side of a fitted model, with prior means of zero."""
        prior_means, multipliers = np.zeros_like(learned.means), np.ones(learned.means.shape[0], learned.means.dtype)
        sizes = learned.means, learned.variances, learned.precisions
        return cls(engine, *sizes, prior_means, multipliers, learned.offset)

    @property
    def rank(self) -> int:
        """Number of factors."""
        return int(self.means.shape[1] - self.offset)

    @property
    def factors(self) -> Array:
        """Means of the factors, shape (n, rank)."""
        return self.means[:, : self.rank]

    @property
    def offsets(self) -> Array:
        """Means of the offsets, shape (n,); zeros without offsets."""
        return self.means[:, -1] if self.offset else np.zeros(self.means.shape[0], self.means.dtype)

    def widen(self, factors: Array, precision: float, variance: float = 0.0) -> None:
        """Insert more factors before the offset."""
        places = [self.rank] * factors.shape[1]
        self.means, self.variances, self.prior_means = (
            np.ascontiguousarray(np.insert(part, places, new, axis=1))
            for part, new in ((self.means, factors), (self.variances, variance), (self.prior_means, 0.0))
        )
        self.precisions = np.insert(self.precisions, places, precision)

    def narrow(self, components: Array) -> Array:
        """Remove all factors but `components`; return the columns that are left, the offset's among them."""
        places = np.append(components, self.rank) if self.offset else components
        self.means, self.variances, self.prior_means = (
            np.ascontiguousarray(part[:, places]) for part in (self.means, self.variances, self.prior_means)
        )
        self.precisions = self.precisions[places]
        return places

    def design(self, constant: float, ones: bool, smoothing: float) -> Design:
        """Regressors of the other side's rows; with a column of ones if that side has offsets."""
        dtype, size = self.means.dtype, self.means.shape[0]
        factors, variances = (np.zeros((size, padded(self.rank + int(ones))), dtype) for _ in range(2))
        factors[:, : self.rank], variances[:, : self.rank] = self.factors, self.variances[:, : self.rank]
        if ones:
            factors[:, self.rank] = 1.0
        spread = self.variances[:, -1] if self.offset else np.zeros(size, dtype)
        base, spread = (part.astype(dtype) for part in (constant + self.offsets, spread + smoothing))
        return Design(factors, variances, base, spread, self.keys)

    def improve(
        self,
        other: "Side",
        settings: RowSettings,
        shared: Any = None,
        penalty: Any = None,
        cells: Cells | None = None,
    ) -> "HalfSweep":
        """Solve every row given the other side; one pass over the observations.

        The shared quadratic and the penalty, if any, are of types that `rankwise.kernels.row_parts` has rules for. A
        term of all cells takes the place of the shared quadratic.
        """
        if self.means.shape[1] == 0:
            return HalfSweep(other.expected_loss(self, settings, None if cells is None else cells.transposed()))
        design = other.design(settings.constant, self.offset, settings.smoothing)
        prior = GaussianPrior(self.prior_means, self.precisions, self.multipliers)
        moments = None if cells is None else other.col_moments(cells, settings.constant)
        if cells is not None:
            matrix, vector = cells.row_quadratic(moments, self.means.shape[1], settings.scale)
            shared = SharedQuadratic(matrix, vector, cells.rows.astype(self.means.dtype))
        if isinstance(shared, SharedQuadratic) and not settings.estimate_variances:
            shared = shared.prepared(design, prior)
        absent = Absent(self.keys, settings.held_back)
        problem = RowProblem(prior, float(settings.scale), settings.estimate_variances, shared, penalty, absent)
        rows, sums = self.engine.run(Shard.solve_rows, design, problem, self.means, self.variances)
        self.means, self.variances = rows
        half = HalfSweep(*sums)
        if cells is None:
            return half
        loss = half.loss + cells.expected(self.row_moments(cells), moments)
        return replace(half, loss=loss, curvatures=half.curvatures + cells.total)

    def expected_loss(self, other: "Side", settings: RowSettings, cells: Cells | None = None) -> float:
        """Expected loss at both sides as they are, with the term of all cells; one pass over the observations."""
        design = other.design(settings.constant, self.offset, settings.smoothing)
        loss = float(self.engine.run(Shard.expected_loss, design, self.means, self.variances)[0])
        if cells is None:
            return loss
        return loss + cells.expected(self.row_moments(cells), other.col_moments(cells, settings.constant))

    def row_moments(self, cells: Cells) -> Array:
        """Weighted second moments of these rows, see `Cells`."""
        return cells.row_moments(self.factors, self.variances, self.offsets, self.engine.each)

    def col_moments(self, cells: Cells, constant: float) -> Array:
        """Weighted second moments of these rows as the columns of the other side's, see `Cells`."""
        return cells.col_moments(self.means, self.variances, self.offset, constant, self.engine.each)

    def is_sound(self, n: int, rank: int, dtype: DTypeLike) -> bool:
        """Return whether all parts are finite, non-negative where they must be, and of n rows and `rank` factors."""
        width = rank + int(self.offset)
        block, line = (self.means, self.variances, self.prior_means), (self.multipliers,)
        sizes = [*((part, (n, width)) for part in block), *((part, (n,)) for part in line)]
        sound = all(part.shape == size and part.dtype == dtype and all_finite(part) for part, size in sizes)
        sound = sound and self.precisions.shape == (width,) and all_finite(self.precisions)
        positive = (self.precisions > 0).all() and (self.multipliers > 0).all()
        keyed = self.keys.dtype == np.uint32 and self.keys.shape in ((0,), (n,))
        return sound and keyed and bool((self.variances >= 0).all() and positive)

    def weighted_squares(self) -> NDArray[np.float64]:
        """Sum over the rows of each component's squared mean, times the row's multiplier."""
        squares: NDArray[np.float64] = np.sum(self.multipliers[:, None] * self.means**2, axis=0, dtype=np.float64)
        return squares

    def squares(self) -> NDArray[np.float64]:
        """Sum over the rows of each component's expected squared distance from its prior mean."""
        _, off = blended((1, self.means), (-1, self.prior_means), each=self.engine.each)
        return off + np.sum(self.variances, axis=0, dtype=np.float64)


@dataclass(frozen=True)
class HalfSweep:
    """Sums over the rows of one side after their solve."""

    loss: float  # expected; its upper bound where the quadratic approximations are bounds and the loss is not square
    halvings: float = 0.0  # number of times that a row's step was halved
    logs: float = 0.0  # half the sum of the log variances
    curvatures: float = 0.0  # of the quadratic approximations
