"""How the predictions in the shards came about, so that a new shard, or a later process, gets the same bits."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engines import Call, Shard
from ..model import Factors

Array = NDArray[Any]


@dataclass(frozen=True)
class Added:
    """One `add`: a term for every number of `theta`, or one plain term."""

    version: int
    shrink: float
    weight: float
    theta: Array | None

    @property
    def n_terms(self) -> int:
        """Terms that joined."""
        return 1 if self.theta is None else self.theta.size


@dataclass
class Journal:
    """The last time that predictions were computed from factors alone, and what was added since.

    The vectors stay where they are, in the point: the terms that were added are its last ones.

    Attributes
    ----------
    version : int
        The step number of the `replace`, or of the `zero` if `theta` is None.
    theta : ndarray or None
        Coefficients of the first terms of the point at that time.
    added : list of Added
    """

    version: int = 0
    theta: Array | None = None
    added: list[Added] = field(default_factory=list)

    def restart(self, version: int, theta: Array | None = None) -> None:
        """Predictions were made from these coefficients, or are zero."""
        self.version, self.theta = version, None if theta is None else theta.copy()
        self.added.clear()

    def add(self, version: int, shrink: float, weight: float, theta: Array | None) -> None:
        """Terms were added to the predictions."""
        self.added.append(Added(version, float(shrink), float(weight), None if theta is None else theta.copy()))

    def calls(self, point: Factors) -> Iterator[Call]:
        """Operations that bring a new shard here, in order."""
        if self.theta is None:
            yield Shard.zero, (self.version,)
        else:
            yield Shard.replace, (self.version, point.pad(self.theta), *point.padded[1:])
        k = 0 if self.theta is None else self.theta.size
        for step in self.added:
            terms: Any = k if step.theta is None else slice(k, k + step.n_terms)
            yield Shard.aim, (*(np.ascontiguousarray(side[:, terms]) for side in (point.U, point.V)), step.theta)
            yield Shard.add, (step.version, step.shrink, step.weight)
            k += step.n_terms
