"""Rows and columns as two sides of one factorisation: each is solved given the other."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import all_finite
from ..engines import Engine, Shard
from ..kernels.lanes import pad_columns, padded
from ..kernels.rows import Given, Prior, Task
from ..spectral.tall import blended
from .learned import LearnedSide

Array = NDArray[Any]


@dataclass
class Side:
    """Factors of the rows, or of the columns as rows of the transpose.

    Attributes
    ----------
    engine : Engine
        Shards whose rows these are.
    means, variances : ndarray of shape (n, rank + 1), or (n, rank) without offsets
        Factors, then the offset; variances are zero where none are learned.
    precisions : ndarray of shape (rank + 1,) or (rank,)
        One over the variance that a component has before the entries are seen: the ridge.
    around : ndarray of shape (n, rank + 1) or (n, rank)
        Mean of every row before its entries are seen.
    counts : ndarray of shape (n,)
        Factor of each row's precisions.
    offset : bool
        Whether this side has offsets.
    """

    engine: Engine
    means: Array
    variances: Array
    precisions: Array
    around: Array
    counts: Array
    offset: bool

    @classmethod
    def empty(cls, engine: Engine, size: int, offset: bool, dtype: Any) -> "Side":
        """No factors yet, offsets of zero."""
        shape = (size, int(offset))
        means, variances, around = (np.zeros(shape, dtype) for _ in range(3))
        return cls(engine, means, variances, np.ones(shape[1]), around, np.ones(size, dtype), offset)

    @classmethod
    def known(cls, learned: LearnedSide, engine: Engine) -> "Side":
        """A side that was learned before, its rows around zero until their pattern is looked at."""
        around, counts = np.zeros_like(learned.means), np.ones(learned.means.shape[0], learned.means.dtype)
        return cls(engine, learned.means, learned.variances, learned.precisions, around, counts, learned.offset)

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
        """Means of the offsets, shape (n,); zeros if there are none."""
        return self.means[:, -1] if self.offset else np.zeros(self.means.shape[0], self.means.dtype)

    def widen(self, factors: Array, precision: float, variance: float = 0.0) -> None:
        """Put more factors before the offset."""
        places = [self.rank] * factors.shape[1]
        self.means, self.variances, self.around = (
            np.ascontiguousarray(np.insert(part, places, new, axis=1))
            for part, new in ((self.means, factors), (self.variances, variance), (self.around, 0.0))
        )
        self.precisions = np.insert(self.precisions, places, precision)

    def narrow(self, components: Array) -> Array:
        """Leave all other factors out; returns the places that are left, the offset's among them."""
        places = np.append(components, self.rank) if self.offset else components
        self.means, self.variances, self.around = (
            np.ascontiguousarray(part[:, places]) for part in (self.means, self.variances, self.around)
        )
        self.precisions = self.precisions[places]
        return places

    def given(self, constant: float, ones: bool, blur: float) -> Given:
        """What the other side sees; `ones` if it has offsets, `blur` is added to every variance."""
        dtype, size = self.means.dtype, self.means.shape[0]
        factors, variances = (np.zeros((size, padded(self.rank + int(ones))), dtype) for _ in range(2))
        factors[:, : self.rank], variances[:, : self.rank] = self.factors, self.variances[:, : self.rank]
        if ones:
            factors[:, self.rank] = 1.0
        spread = self.variances[:, -1] if self.offset else np.zeros(size, dtype)
        return Given(factors, variances, (constant + self.offsets).astype(dtype), (spread + blur).astype(dtype))

    def improve(self, other: "Side", constant: float, task: Task, blur: float) -> "Improved":
        """Solve every row given the other side; one pass over the observations."""
        if self.means.shape[1] == 0:
            return Improved(other.expected_loss(self, constant, blur))
        given = other.given(constant, self.offset, blur)
        prior = Prior(self.around, self.precisions, self.counts)
        found, sums = self.engine.run(Shard.solve_rows, given, prior, task, self.means, self.variances)
        self.means, self.variances = found
        return Improved(*sums)

    def expected_loss(self, other: "Side", constant: float, blur: float) -> float:
        """Where both sides are; one pass over the observations."""
        given = other.given(constant, self.offset, blur)
        return float(self.engine.run(Shard.expected_loss, given, self.means, self.variances)[0])

    def is_sound(self, n: int, rank: int, dtype: Any) -> bool:
        """Whether there are that many rows and factors, all is finite, and nothing negative that must not be."""
        width = rank + int(self.offset)
        block, line = (self.means, self.variances, self.around), (self.counts,)
        sizes = [*((part, (n, width)) for part in block), *((part, (n,)) for part in line)]
        sound = all(part.shape == size and part.dtype == dtype and all_finite(part) for part, size in sizes)
        sound = sound and self.precisions.shape == (width,) and all_finite(self.precisions)
        return sound and bool((self.variances >= 0).all() and (self.precisions > 0).all() and (self.counts > 0).all())

    def squares(self) -> NDArray[np.float64]:
        """Sum over the rows of each component's expected squared distance from where it was thought to be."""
        _, off = blended((1, self.means), (-1, self.around), each=self.engine.each)
        return off + np.sum(self.variances, axis=0, dtype=np.float64)


def spread(engine: Engine, lengths: Array, weights: Array) -> Array:
    """``lengths[i]`` times the sum of ``weights[j]`` over the columns j of row i's entries, for every row."""
    return lengths[:, None] * gathered(engine, np.asarray(weights, lengths.dtype))


def gathered(engine: Engine, block: Array) -> Array:
    """Sum of ``block[j]`` over the columns j of row i's entries, for every row."""
    return engine.run(Shard.gather, pad_columns(block, block.dtype), block.shape[1])


def lengths_of(engine: Engine, n_other: int, dtype: Any) -> Array:
    """``n_i**-0.5`` of every row with n_i entries, one for rows without any."""
    counts = gathered(engine, np.ones((n_other, 1), dtype))[:, 0]
    return (1.0 / np.sqrt(np.maximum(counts, 1.0))).astype(dtype)


@dataclass(frozen=True)
class Improved:
    """What a half sweep says: expected loss, steps halved, half the sum of log variances, sum of the bends.

    The loss is that of the parabolas where these lie above it: the square loss itself, a bound for others.
    """

    loss: float
    halvings: float = 0.0
    logs: float = 0.0
    bends: float = 0.0
