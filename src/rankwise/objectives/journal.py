"""Journal of the operations that computed the predictions in the shards; replaying it gives the same bits."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from .._arrays import Array
from ..engines import Call, Shard
from ..model import Factors


@dataclass(frozen=True)
class Added:
    """One call of `add`: a term per entry of `theta`, or a single term if `theta` is None."""

    version: int
    shrink: float
    weight: float
    theta: Array | None

    @property
    def n_terms(self) -> int:
        """Number of terms added."""
        return 1 if self.theta is None else self.theta.size


@dataclass
class Journal:
    """The last operation that computed all predictions anew, and the terms added since.

    Vectors are not copied: the terms that were added are the last ones of the current factors.
    """

    version: int = 0  # of the `replace` operation, or of `zero` if `theta` is None
    theta: Array | None = None  # coefficients of the terms at that time, the first ones of the current factors
    added: list[Added] = field(default_factory=list)

    def restart(self, version: int, theta: Array | None = None) -> None:
        """Record that all predictions were computed from these coefficients, or set to zero."""
        self.version, self.theta = version, None if theta is None else theta.copy()
        self.added.clear()

    def add(self, version: int, shrink: float, weight: float, theta: Array | None) -> None:
        """Record that terms were added to the predictions."""
        self.added.append(Added(version, float(shrink), float(weight), None if theta is None else theta.copy()))

    def replay(self, factors: Factors) -> Iterator[Call]:
        """Yield the operations, with their arguments, that give a new shard its predictions."""
        if self.theta is None:
            yield Shard.zero, (self.version,)
        else:
            yield Shard.replace, (self.version, factors.pad(self.theta), *factors.padded[1:])
        k = 0 if self.theta is None else self.theta.size
        for step in self.added:
            terms = k if step.theta is None else slice(k, k + step.n_terms)
            yield Shard.aim, (*(np.ascontiguousarray(side[:, terms]) for side in (factors.U, factors.V)), step.theta)
            yield Shard.add, (step.version, step.shrink, step.weight)
            k += step.n_terms
