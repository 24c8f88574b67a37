"""What factor and Bayesian sweeps carry from one to the next."""

from dataclasses import dataclass, field

import numpy as np

from ..losses import Loss
from ..model import Offsets
from ..model.sides import Side
from ..objectives import Problem
from .pattern_prior import PatternPrior


@dataclass
class State:
    """Both sides, and what is learned beside them."""

    rows: Side
    cols: Side
    constant: float
    rank: int
    weight: float  # of all entries: their number, unless some count more than others
    loss: Loss
    scale: float = 1.0
    bend: float = 1.0
    blur: float = 0.0
    spread: float = 0.0
    step: int = 0
    patterns: list[PatternPrior] = field(default_factory=list)

    @property
    def sides(self) -> tuple[tuple[Side, Side], tuple[Side, Side]]:
        """Each side with its other."""
        return (self.rows, self.cols), (self.cols, self.rows)

    def is_sound(self, problem: Problem) -> bool:
        """Whether the sides are of the problem's shape, and what is learned beside them is finite and positive."""
        rank, given = self.rows.rank, (self.scale, self.bend, self.weight)
        numbers = np.array([self.constant, self.blur, self.spread, *given])
        sizes = zip((self.rows, self.cols), (problem.engine, problem.across), problem.shape, strict=True)
        patterns = zip(self.patterns, self.sides, strict=True) if self.patterns else ()
        return (
            all(side.engine is engine and side.is_sound(n, rank, problem.dtype) for side, engine, n in sizes)
            and all(p.side is side and p.other is other and p.is_sound() for p, (side, other) in patterns)
            and 0 <= rank <= self.rank <= min(problem.shape)
            and bool(np.isfinite(numbers).all() and (numbers[1:3] >= 0).all() and (numbers[3:] > 0).all())
        )

    def place(self, problem: Problem) -> None:
        """Move the problem to where the sides are."""
        offsets: Offsets | None = None
        if self.constant or self.rows.offset or self.cols.offset:
            offsets = Offsets(self.constant, self.rows.offsets, self.cols.offsets)
        problem.place(offsets, self.rows.factors, self.cols.factors)
