"""What factor and Bayesian sweeps carry from one to the next."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..losses import Loss
from ..model import Offsets
from ..model.sides import Side
from ..objectives import Problem
from .pattern_prior import PatternPrior

FALLING = 0.05  # share of the loss that a sweep takes away while it still falls


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
    patterns: list[PatternPrior] = field(default_factory=list)
    cost: float = np.inf  # expected loss after the last sweep
    cost_before: float = np.inf

    @property
    def sides(self) -> tuple[tuple[Side, Side], tuple[Side, Side]]:
        """Each side with its other."""
        return (self.rows, self.cols), (self.cols, self.rows)

    def is_sound(self, problem: Problem) -> bool:
        """Whether the sides are of the problem's shape, and what is learned beside them is finite and positive."""
        rank, given = self.rows.rank, (self.scale, self.bend, self.weight)
        numbers = np.array([self.constant, self.blur, self.spread, *given])
        sizes = zip((self.rows, self.cols), (problem.side("rows"), problem.side("columns")), problem.shape, strict=True)
        patterns = zip(self.patterns, self.sides, strict=True) if self.patterns else ()
        return (
            all(side.engine is engine and side.is_sound(n, rank, problem.dtype) for side, engine, n in sizes)
            and all(p.side is side and p.other is other and p.is_sound() for p, (side, other) in patterns)
            and not np.isnan([self.cost, self.cost_before]).any()
            and 0 <= rank <= self.rank <= max(rank, min(problem.shape))
            and bool(np.isfinite(numbers).all() and (numbers[1:3] >= 0).all() and (numbers[3:] > 0).all())
        )

    def leave_out_faded(self, least: float) -> None:
        """Go on without factors that move no prediction by `least` times the noise's spread, but for the strongest.

        While the loss still falls, the noise is overrated, and factors that come up late would be lost.
        """
        known = np.isfinite(self.cost_before)
        steady = known and self.cost_before - self.cost <= FALLING * abs(self.cost_before)
        if not steady or not 0 < self.rows.rank == self.rank:
            return
        tops = [np.maximum(side.factors.max(axis=0), -side.factors.min(axis=0)) for side, _ in self.sides]
        moves = tops[0].astype(np.float64) * tops[1] * np.sqrt(self.scale * self.bend)
        kept = moves >= least
        kept[moves.argmax()] = True
        self.narrow(kept)
        self.rank = self.rows.rank

    def narrow(self, kept: NDArray[np.bool_]) -> None:
        """Leave factors out on both sides."""
        if kept.all():
            return
        for k, (side, _) in enumerate(self.sides):
            places = side.narrow(np.flatnonzero(kept))
            if self.patterns:
                self.patterns[k].weights = np.ascontiguousarray(self.patterns[k].weights[:, places])

    def place(self, problem: Problem) -> None:
        """Move the problem to where the sides are."""
        offsets: Offsets | None = None
        if self.constant or self.rows.offset or self.cols.offset:
            offsets = Offsets(self.constant, self.rows.offsets, self.cols.offsets)
        problem.place(offsets, self.rows.factors, self.cols.factors)
