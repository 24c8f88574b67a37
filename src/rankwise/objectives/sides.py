"""Rows or columns as one side of a factorization, and the solve of all its rows given the other side."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .._arrays import Array
from .._checks import all_finite
from ..engines import Engine, Shard
from ..kernels.row_parts import NO_KEYS, Absent, GaussianPrior, RowProblem, SharedQuadratic, SideDesign, SizedPenalty
from ..model import Cells, LearnedSide
from ..observations import Features


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
    """Factors of the rows, or of the columns as rows of the transpose; d is the rank, plus one if `offset`.

    Arrays with a line per row may be handles of what the engine's workers keep, and are never changed in place.
    """

    engine: Engine  # shards whose rows these are
    means: Array  # (n, d): factors, then the offset
    variances: Array  # (n, d): zero where they are not estimated
    precisions: Array  # (d,): prior precision of each component: the ridge
    prior_means: Array  # (n, d): prior mean of every row
    multipliers: Array  # (n,): factor of each row's precisions
    offset: bool  # whether this side has offsets
    keys: Array = field(default_factory=lambda: NO_KEYS)  # (n,): by which entries are held back, if any are
    features: Features | None = None  # of the rows, if any are known

    @classmethod
    def empty(
        cls, engine: Engine, size: int, offset: bool, dtype: DTypeLike, features: Features | None = None
    ) -> "Side":
        """A side without factors, and with offsets of zero if it has any."""
        shape = (size, int(offset))
        means, variances, prior_means = (np.zeros(shape, dtype) for _ in range(3))
        parts = engine, means, variances, np.ones(shape[1]), prior_means, np.ones(size, dtype)
        return cls(*parts, offset, features=features)

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
        return np.asarray(self.means)[:, : self.rank]

    @property
    def offsets(self) -> Array:
        """Means of the offsets, shape (n,); zeros without offsets."""
        return np.asarray(self.means)[:, -1] if self.offset else np.zeros(self.means.shape[0], self.means.dtype)

    def widen(self, factors: Array, precision: float, variance: float = 0.0) -> None:
        """Insert more factors before the offset."""
        place, n = self.rank, factors.shape[1]
        self.means, self.variances, self.prior_means = (
            self.engine.run(Shard.insert, part, place, n, new)
            for part, new in ((self.means, factors), (self.variances, variance), (self.prior_means, 0.0))
        )
        self.precisions = np.insert(self.precisions, [place] * n, precision)

    def narrow(self, components: Array) -> Array:
        """Remove all factors but `components`; return the columns that are left, the offset's among them."""
        places = np.append(components, self.rank) if self.offset else components
        self.means, self.variances, self.prior_means = (
            self.engine.run(Shard.select, part, places) for part in (self.means, self.variances, self.prior_means)
        )
        self.precisions = self.precisions[places]
        return places

    def design(self, constant: float, ones: bool, smoothing: float) -> SideDesign:
        """Regressors of the other side's rows; with a column of ones if that side has offsets."""
        return SideDesign(self.means, self.variances, self.keys, self.rank, float(constant), ones, float(smoothing))

    def improve(
        self,
        other: "Side",
        settings: RowSettings,
        shared: Any = None,
        penalty: Any = None,
        cells: Cells | None = None,
    ) -> "HalfSweep":
        """Solve every row given the other side; one pass over the observations.

        The shared quadratic, if any, is of a type that `rankwise.kernels.row_parts` has rules for, and the penalty a
        `rankwise.penalties.Penalty` on the factors. A term of all cells takes the place of the shared quadratic.
        """
        if self.means.shape[1] == 0:
            loss = other.expected_loss(self, settings, None if cells is None else cells.transposed())
            return HalfSweep(np.array([loss, 0.0, 0.0, 0.0, 0.0]))
        self.prior_means, self.multipliers = map(self.engine.kept, (self.prior_means, self.multipliers))
        design = other.design(settings.constant, self.offset, settings.smoothing)
        prior = GaussianPrior(self.prior_means, self.precisions, self.multipliers)
        moments = None if cells is None else other.col_moments(cells, settings.constant)
        if cells is not None:
            matrix, vector = cells.row_quadratic(moments, self.means.shape[1], settings.scale)
            shared = SharedQuadratic(matrix, vector, cells.rows.astype(self.means.dtype))
        if isinstance(shared, SharedQuadratic) and not settings.estimate_variances:
            shared = shared.prepared(design.padded(), prior)
        absent = Absent(self.keys, settings.held_back)
        sized = None if penalty is None else SizedPenalty(penalty, self.rank)
        problem = RowProblem(prior, float(settings.scale), settings.estimate_variances, shared, sized, absent)
        rows, sums = self.engine.run(Shard.solve_rows, design, problem, self.means, self.variances)
        self.means, self.variances = rows
        if cells is None:
            return HalfSweep(sums)
        more = np.zeros_like(sums := np.asarray(sums))
        more[0], more[3] = cells.expected(self.row_moments(cells), moments), cells.total
        return HalfSweep(sums + more)

    def expected_loss(self, other: "Side", settings: RowSettings, cells: Cells | None = None) -> float:
        """Expected loss at both sides as they are, with the term of all cells; one pass over the observations."""
        design = other.design(settings.constant, self.offset, settings.smoothing)
        loss = float(self.engine.run(Shard.expected_loss, design, self.means, self.variances)[0])
        if cells is None:
            return loss
        return loss + cells.expected(self.row_moments(cells), other.col_moments(cells, settings.constant))

    def row_moments(self, cells: Cells) -> Array:
        """Weighted second moments of these rows, see `Cells`."""
        return cells.row_moments(self.factors, np.asarray(self.variances), self.offsets, self.engine.each)

    def col_moments(self, cells: Cells, constant: float) -> Array:
        """Weighted second moments of these rows as the columns of the other side's, see `Cells`."""
        parts = np.asarray(self.means), np.asarray(self.variances)
        return cells.col_moments(*parts, self.offset, constant, self.engine.each)

    def is_sound(self, n: int, rank: int, dtype: DTypeLike) -> bool:
        """Return whether all parts are finite, non-negative where they must be, and of n rows and `rank` factors."""
        width = rank + int(self.offset)
        block, line = (self.means, self.variances, self.prior_means), (self.multipliers,)
        sizes = [*((part, (n, width)) for part in block), *((part, (n,)) for part in line)]
        sound = all(part.shape == size and part.dtype == dtype and all_finite(part) for part, size in sizes)
        sound = sound and self.precisions.shape == (width,) and all_finite(self.precisions)
        positive = (self.precisions > 0).all() and (self.multipliers > 0).all()
        keyed = self.keys.dtype == np.uint32 and self.keys.shape in ((0,), (n,))
        known = self.features is None or self.features.shape[0] == n
        return sound and keyed and known and bool((self.variances >= 0).all() and positive)

    def largest(self) -> Array:
        """Largest absolute value of each factor's means."""
        return np.asarray(self.engine.run(Shard.largest, self.means).max(axis=0)[: self.rank])


class HalfSweep(NamedTuple):
    """Sums over the rows of one side after their solve, which a cluster may still have to compute when they are read.

    Attributes
    ----------
    sums : ndarray of shape (5 + 2 d,)
        Or what NumPy makes one of.
    """

    sums: Any

    @property
    def loss(self) -> float:
        """Expected loss; its upper bound where the quadratic approximations are bounds and the loss is not square."""
        return self._number(0)

    @property
    def halvings(self) -> float:
        """Number of times that a row's step was halved."""
        return self._number(1)

    @property
    def logs(self) -> float:
        """Half the sum of the log variances."""
        return self._number(2)

    @property
    def curvatures(self) -> float:
        """Sum of the curvatures of the quadratic approximations."""
        return self._number(3)

    @property
    def penalties(self) -> float:
        """Sum of the penalties."""
        return self._number(4)

    @property
    def squares(self) -> NDArray[np.float64]:
        """Expected squared distances of each component from its prior mean, shape (d,)."""
        return np.split(np.asarray(self.sums)[5:], 2)[0]

    @property
    def weighted_squares(self) -> NDArray[np.float64]:
        """Squared means of each component, times the rows' multipliers, shape (d,)."""
        return np.split(np.asarray(self.sums)[5:], 2)[1]

    def _number(self, place: int) -> float:
        return float(np.asarray(self.sums)[place])
