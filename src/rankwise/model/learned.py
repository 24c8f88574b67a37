"""What the sweeps of a fit learned of both sides: enough to solve for rows that come later, and to go on from."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .posterior import Posterior

Array = NDArray[Any]
KINDS = (np.float32, np.float64)


@dataclass(frozen=True, eq=False)
class LearnedSide:
    """The rows, or the columns, after the last sweep.

    Attributes
    ----------
    means, variances : ndarray of shape (n, rank + 1), or (n, rank) without offsets
        Factors, then the offset.
    precisions : ndarray of shape (rank + 1,) or (rank,)
        One over the variance that each has before the entries are seen: the ridge.
    offset : bool
        Whether this side has offsets.
    pattern : ndarray of shape (n_other, rank + 1) or (n_other, rank), optional
        What having an entry in each of the other side's rows says of a row, whatever its value.
    """

    means: Array
    variances: Array
    precisions: NDArray[np.float64]
    offset: bool
    pattern: Array | None = None

    def padded(self, part: Array) -> Array:
        """`part` with a last column of zeros where there are no offsets."""
        return part if self.offset else np.ascontiguousarray(np.column_stack((part, np.zeros(len(part), part.dtype))))

    def is_sound(self, n: int, n_other: int, rank: int) -> bool:
        """Whether the sizes fit together, all is finite, no variance is negative and every precision positive."""
        width = rank + int(self.offset)
        parts = [(self.means, (n, width)), (self.variances, (n, width)), (self.precisions, (width,))]
        parts += [] if self.pattern is None else [(self.pattern, (n_other, width))]
        sound = all(part.shape == shape and part.dtype in KINDS and np.isfinite(part).all() for part, shape in parts)
        return sound and bool((self.variances >= 0).all() and (self.precisions > 0).all())


@dataclass(frozen=True, eq=False)
class Learned:
    """Both sides, and what their solves knew beside them.

    Attributes
    ----------
    rows, cols : LearnedSide
    uncertain : bool
        Whether variances are learned.
    blur : float
        Variance by which corners of a nonsmooth loss are rounded.
    count_power : float
        A row whose entries weigh n has its precisions times ``n**count_power``.
    """

    rows: LearnedSide
    cols: LearnedSide
    uncertain: bool
    blur: float = 0.0
    count_power: float = 0.0

    @property
    def rank(self) -> int:
        """Number of factors."""
        return int(self.rows.means.shape[1] - self.rows.offset)

    def transposed(self) -> "Learned":
        """The same with rows and columns exchanged."""
        return replace(self, rows=self.cols, cols=self.rows)

    def posterior(self, noise_variance: float) -> Posterior:
        """How sure the factors and offsets are."""
        parts = [side.padded(part) for side in (self.rows, self.cols) for part in (side.means, side.variances)]
        return Posterior(parts[0], parts[1], parts[2], parts[3], noise_variance)

    def to_plain(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Plain values, and arrays by name, for a file; variances only where they are learned."""
        about = {"uncertain": self.uncertain, "blur": self.blur, "count_power": self.count_power}
        arrays: dict[str, Any] = {}
        for name in ("rows", "cols"):
            side = getattr(self, name)
            about[f"{name}_offset"] = side.offset
            kept = {"means": side.means, "precisions": side.precisions, "pattern": side.pattern}
            kept["variances"] = side.variances if self.uncertain else None
            arrays |= {f"learned_{name}_{part}": found for part, found in kept.items() if found is not None}
        return about, arrays

    @classmethod
    def from_plain(cls, about: dict[str, Any], arrays: dict[str, Array]) -> "Learned":
        """What `to_plain` described; takes its arrays out of `arrays`."""

        def side(name: str) -> LearnedSide:
            names = ("means", "variances", "precisions", "pattern")
            kept: dict[str, Any] = {part: arrays.pop(f"learned_{name}_{part}", None) for part in names}
            if kept["variances"] is None:
                kept["variances"] = np.zeros_like(kept["means"])
            return LearnedSide(offset=bool(about[f"{name}_offset"]), **kept)

        about_solves = bool(about["uncertain"]), float(about["blur"]), float(about["count_power"])
        return cls(side("rows"), side("cols"), *about_solves)

    def is_sound(self, shape: tuple[int, int]) -> bool:
        """Whether both sides fit together and to a model of that shape."""
        sides = self.rows.is_sound(*shape, self.rank) and self.cols.is_sound(*shape[::-1], self.rank)
        return sides and bool(np.isfinite([self.blur, self.count_power]).all()) and self.blur >= 0
