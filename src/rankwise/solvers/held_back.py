"""Entries held back during the sweeps: their loss decides when to stop, and signs calibrate probabilities."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from .._arrays import Array
from ..engines import Shard
from ..losses import Loss
from ..objectives import Problem
from ..objectives.sides import RowSettings, Side

SHARE, MOST = 0.05, 1000  # of the entries, and number of entries, at most
SHARE_TO_GROW = 0.01  # of the entries at least, where they also decide about a higher rank
SHARE_OF_SIGNS, MOST_SIGNS = 0.2, 20_000  # where probabilities are calibrated: decile means need thousands of signs
FEWEST = 20  # with fewer entries their loss says nothing, and none are held back
FIRST = 9  # number of sweeps after which the loss is compared for the first time
TRIAL = 4  # number of sweeps at a higher rank after which the loss is compared again
LAG = 2  # sweeps between the two losses that are compared, because those of networks alternate
LEAST_GAIN = 0.002  # nats per entry in `LAG` sweeps: below it more sweeps are not worth their time


@dataclass
class HeldBack:
    """Entries that count as absent until `limit` is zero, and their losses after the last sweeps without them.

    They are those at which the keys of row and column, added modulo 2**32, are below `limit`: the same entries on every
    engine, and nothing to store with the shards.

    Attributes
    ----------
    limit : int
    rows, cols : ndarray of int
    targets : ndarray
        As stored.
    weights : ndarray
    losses : list of ndarray
        One array for each of the last ``LAG + 1`` sweeps.
    n_sweeps : int
    first : int
        Number of sweeps after which the loss is compared.
    gain, error : float
        Nats by which the last `LAG` sweeps have made an entry likelier, and the standard error of this mean.
    """

    limit: int
    rows: NDArray[np.int64]
    cols: NDArray[np.int64]
    targets: NDArray[np.float64]
    weights: NDArray[np.float64]
    losses: list[NDArray[np.float64]] = field(default_factory=list)
    n_sweeps: int = 0
    first: int = FIRST
    gain: float = np.inf
    error: float = 0.0

    @classmethod
    def of(cls, problem: Problem, rows: Side, cols: Side, to_grow: bool = False) -> "HeldBack | None":
        """Give both sides their keys and return the entries to hold back, more `to_grow`; None if they are too few."""
        n_observed, sized = problem.observations.n_observed, zip((rows, cols), problem.shape, strict=True)
        rows.keys, cols.keys = (side.engine.kept(_keys(n, k)) for k, (side, n) in enumerate(sized))
        share, most = (SHARE_OF_SIGNS, MOST_SIGNS) if problem.loss.link == "logit" else (SHARE, MOST)
        limit = int(min(share, max(most / n_observed, SHARE_TO_GROW if to_grow else 0.0)) * 2**32)
        numbers = np.arange(problem.shape[0])
        found = problem.engine.run(Shard.entries_below, numbers, rows.keys, cols.keys, limit)
        if len(found) < FEWEST:
            return None
        numbers = found[:, :2].astype(np.int64)
        return cls(limit, numbers[:, 0], numbers[:, 1], found[:, 2].copy(), found[:, 3].copy())

    @property
    def weight(self) -> float:
        """Total weight of the entries."""
        return float(self.weights.sum())

    @property
    def is_settled(self) -> bool:
        """Whether the last sweeps gained less than `LEAST_GAIN`, or less than a standard error."""
        return self.n_sweeps >= self.first and not self.gain >= max(LEAST_GAIN, self.error)

    def measure(self, loss: Loss, settings: RowSettings, rows: Side, cols: Side) -> None:
        """Compute the losses at the sides' means, and the gain."""
        predicted = self.predicted(settings.constant, rows, cols)
        self.losses = [*self.losses[-LAG:], np.asarray(loss.value(predicted, self.targets), np.float64)]
        self.n_sweeps += 1
        if len(self.losses) > LAG:
            self.gain, self.error = self.mean_and_error(settings.scale * (self.losses[0] - self.losses[-1]))

    def mean_and_error(self, gains: NDArray[np.float64]) -> tuple[float, float]:
        """Weighted mean of a number per entry, and its standard error."""
        mean = float(np.average(gains, weights=self.weights))
        return mean, float(np.linalg.norm(self.weights * (gains - mean))) / self.weight

    def is_worse_than(self, before: "HeldBack") -> bool:
        """Whether the last losses are above those of the same entries `before`, by more than a standard error."""
        if not self.losses:
            return False
        gain, error = self.mean_and_error(before.losses[-1] - self.losses[-1])
        return gain < -error

    def begin_trial(self) -> None:
        """Compare losses of sweeps from now on only, after `TRIAL` of them."""
        self.losses, self.gain, self.error, self.first = [], np.inf, 0.0, self.n_sweeps + TRIAL

    def slopes(self, loss: Loss, constant: float, rows: Side, cols: Side) -> csr_array:
        """Their part of the gradient, a sparse matrix of the problem's shape."""
        slopes = self.weights * np.asarray(loss.slope(self.predicted(constant, rows, cols), self.targets), np.float64)
        return csr_array((slopes, (self.rows, self.cols)), (rows.means.shape[0], cols.means.shape[0]))

    def predicted(self, constant: float, rows: Side, cols: Side) -> NDArray[np.float64]:
        """Predictions at the entries, on the link scale."""
        left, right = rows.means[self.rows], cols.means[self.cols]
        products = np.einsum("ij,ij->i", left[:, : rows.rank], right[:, : cols.rank], dtype=np.float64)
        offsets = (means[:, -1] if side.offset else 0.0 for side, means in ((rows, left), (cols, right)))
        return np.asarray(constant + sum(offsets) + products)

    def is_sound(self, shape: tuple[int, int]) -> bool:
        """Return whether all numbers are those of entries of a matrix of this shape."""
        parts: list[Array] = [self.rows, self.cols, self.targets, self.weights]
        sizes = len({part.size for part in parts}) == 1 and self.rows.size > 0
        inside = all(part.min() >= 0 and part.max() < n for part, n in zip(parts[:2], shape, strict=True) if sizes)
        return sizes and inside and bool((self.weights > 0).all()) and 0 <= self.limit < 2**32


def _keys(size: int, k: int) -> NDArray[np.uint32]:
    """Uniform random keys, the same in every fit; O(size)."""
    numbers = np.arange(size, dtype=np.uint64) + np.uint64(k + 1) * np.uint64(2**40)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # the finalizer of splitmix64
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return (numbers >> np.uint64(32)).astype(np.uint32)
