"""Both sides of a fitted factorization, as plain arrays: what fold-in and warm starts need."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import penalties
from .._arrays import Array
from ..penalties import Penalty
from .posterior import Posterior

FLOATS = (np.float32, np.float64)


@dataclass(frozen=True, eq=False)
class PriorArrays:
    """A learned prior on the rows of a side, as plain arrays; `rankwise.solvers.row_priors` makes an object of it.

    Attributes
    ----------
    kind : str
        Name of the prior's type.
    arrays : dict of str to ndarray of shape (any, width)
        Each has a column for every component of the side, the offset's last, in the units of the factors.
    constants : dict of str to ndarray
        Finite numbers without units.
    """

    kind: str
    arrays: dict[str, Array]
    constants: dict[str, Array] = field(default_factory=dict)

    def part(self, kind: str) -> "PriorArrays":
        """The prior of that kind among those that were joined."""
        arrays, constants = (
            {name.removeprefix(f"{kind}_"): array for name, array in named.items() if name.startswith(f"{kind}_")}
            for named in (self.arrays, self.constants)
        )
        return PriorArrays(kind, arrays, constants)

    @classmethod
    def joined(cls, kind: str, parts: "Sequence[PriorArrays]") -> "PriorArrays":
        """Several priors as one, whose arrays are named after the kinds of the parts."""
        arrays, constants = (
            {f"{part.kind}_{name}": array for part in parts for name, array in getattr(part, field).items()}
            for field in ("arrays", "constants")
        )
        return cls(kind, arrays, constants)


@dataclass(frozen=True, eq=False)
class LearnedSide:
    """The rows, or the columns, after the last sweep.

    Attributes
    ----------
    means, variances : ndarray of shape (n, rank + 1), or (n, rank) without offsets
        Factors, then the offset.
    precisions : ndarray of shape (rank + 1,) or (rank,)
        Prior precision of each component: the ridge.
    offset : bool
        Whether this side has offsets.
    prior : PriorArrays, optional
        Prior mean of the rows; None if it is zero.
    penalty : Penalty, optional
        Penalty or constraint on the factors beside the ridge.
    """

    means: Array
    variances: Array
    precisions: NDArray[np.float64]
    offset: bool
    prior: PriorArrays | None = None
    penalty: Penalty | None = None

    def padded(self, part: Array) -> Array:
        """`part` with a last column of zeros for the offset if this side has none."""
        return part if self.offset else np.ascontiguousarray(np.column_stack((part, np.zeros(len(part), part.dtype))))

    def is_sound(self, n: int, rank: int) -> bool:
        """Return whether all arrays are finite floats of n rows and `rank` factors, and non-negative where needed."""
        width = rank + int(self.offset)
        parts = [(self.means, (n, width)), (self.variances, (n, width)), (self.precisions, (width,))]
        if self.prior is not None:
            parts += [(part, (len(part), width)) for part in self.prior.arrays.values()]
            parts += [(part, part.shape) for part in self.prior.constants.values()]
        sound = all(part.shape == shape and part.dtype in FLOATS and np.isfinite(part).all() for part, shape in parts)
        return sound and bool((self.variances >= 0).all() and (self.precisions > 0).all())


@dataclass(frozen=True, eq=False)
class Learned:
    """Both sides of a fitted factorization, and the settings of their row solves.

    Attributes
    ----------
    rows, cols : LearnedSide
    uncertain : bool
        Whether variances were estimated.
    smoothing : float
        Variance by which corners of a nonsmooth loss are rounded.
    count_power : float
        The precisions of a row whose entries weigh n are multiplied by ``n**count_power``.
    """

    rows: LearnedSide
    cols: LearnedSide
    uncertain: bool
    smoothing: float = 0.0
    count_power: float = 0.0

    @property
    def rank(self) -> int:
        """Number of factors."""
        return int(self.rows.means.shape[1] - self.rows.offset)

    def transposed(self) -> "Learned":
        """Rows and columns exchanged."""
        return replace(self, rows=self.cols, cols=self.rows)

    def posterior(self, noise_variance: float) -> Posterior:
        """Mean-field posterior of all factors and offsets."""
        parts = [side.padded(part) for side in (self.rows, self.cols) for part in (side.means, side.variances)]
        return Posterior(parts[0], parts[1], parts[2], parts[3], noise_variance)

    def to_plain(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Plain values, and arrays by name, for a file; variances only if they were estimated."""
        about: dict[str, Any] = {"uncertain": self.uncertain, "smoothing": self.smoothing}
        about["count_power"] = self.count_power
        arrays: dict[str, Array] = {}
        for name, side in (("rows", self.rows), ("cols", self.cols)):
            about |= {f"{name}_offset": side.offset, f"{name}_prior": None if side.prior is None else side.prior.kind}
            about |= {} if side.penalty is None else {f"{name}_penalty": side.penalty.to_plain()}
            parts = {"means": side.means, "precisions": side.precisions}
            parts |= {"variances": side.variances} if self.uncertain else {}
            if side.prior is not None:
                parts |= {f"prior_{part}": array for part, array in side.prior.arrays.items()}
                parts |= {f"constant_{part}": array for part, array in side.prior.constants.items()}
            arrays |= {f"learned_{name}_{part}": array for part, array in parts.items()}
        return about, arrays

    @classmethod
    def from_plain(cls, about: dict[str, Any], arrays: dict[str, Array]) -> "Learned":
        """Inverse of `to_plain`; removes the arrays it uses from `arrays`."""

        def side(name: str) -> LearnedSide:
            prefix = f"learned_{name}_"
            parts = {key.removeprefix(prefix): arrays.pop(key) for key in list(arrays) if key.startswith(prefix)}
            kind = about[f"{name}_prior"]
            inside, constants = (
                {key.removeprefix(part): parts.pop(key) for key in list(parts) if key.startswith(part)}
                for part in ("prior_", "constant_")
            )
            if kind is not None and not isinstance(kind, str):
                raise ValueError(f"the prior of the {name} has the name {kind!r}")
            parts.setdefault("variances", np.zeros_like(parts["means"]))
            prior = None if kind is None else PriorArrays(kind, inside, constants)
            penalty = penalties.from_plain(about.get(f"{name}_penalty"))
            return LearnedSide(offset=bool(about[f"{name}_offset"]), prior=prior, penalty=penalty, **parts)

        settings = bool(about["uncertain"]), float(about["smoothing"]), float(about["count_power"])
        return cls(side("rows"), side("cols"), *settings)

    def is_sound(self, shape: tuple[int, int]) -> bool:
        """Return whether both sides fit together and to a model of that shape."""
        sides = self.rows.is_sound(shape[0], self.rank) and self.cols.is_sound(shape[1], self.rank)
        return sides and bool(np.isfinite([self.smoothing, self.count_power]).all()) and self.smoothing >= 0
