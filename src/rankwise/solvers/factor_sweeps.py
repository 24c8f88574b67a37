"""Sweeps with a fixed ridge, and with penalties on the factors of rows and columns."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from .. import penalties
from .._arrays import Array
from .._checks import is_whole
from .._errors import SettingError
from ..kernels.expected import majorised
from ..losses.units import UNCHANGED, Units
from ..model import LowRankModel
from ..objectives import Problem
from ..objectives.sides import Side
from ..penalties import Penalty
from .base import NamedSolver
from .marginals import without_factors
from .resume import restore_priors
from .shapes import Penalties, check_penalties, given_rank, needs_of, penalties_in_units, shaped_start
from .sweep_state import OFFSETS, SweepState, place_constant, stored_spread
from .sweeps import Sweeps
from .validation import Need, need_not_negative

LEAST_RIDGE = 1e-9
TRIAL_SWEEPS = 5  # after which the best of several starts is chosen


@dataclass(frozen=True)
class FactorSweeps(Sweeps):
    """Alternating Newton steps on every row and every column, with a fixed ridge and factors of a wanted shape.

    Objective: f plus ``ridge / 2`` times the squared factors of every row and column, plus the penalties.
    Cost per step: O(rank**2 n_observed + rank**3 (n_rows + n_cols)). Rate: none known, the value never rises.
    Reference: alternating least squares of Hu, Koren and Volinsky, 2008, under any loss; generalized low-rank models
    of Udell, Horn, Zadeh and Boyd, 2016.

    Parameters
    ----------
    ridge : float, default=2
        Ridge of the factors.
    offsets : {"both", "none", "global", "rows", "columns"}, default="both"
    offset_ridge : float, default=0.2
    count_power : float, default=0
        The ridge of a row with n entries is multiplied by ``n**count_power``; n includes the weights of the row's cells
        if these count (`Everywhere`).
    block : int, optional
        Number of factors to add at a time, each time from one gradient and before a sweep; by default all at once.
    smoothing : float, default=0.01
        Corners of nonsmooth losses are rounded over this fraction of the mean loss of the best constant. The first
        sweep uses one half, and each sweep halves it, because a row may get stuck at a corner.
    rows, cols : str or Penalty, optional
        Penalty or constraint on the factors of the rows and of the columns: a name such as "nonnegative" or an object
        of `rankwise.penalties`. The model then has the factors as they are, and one rank.
    n_init : int, default=1
        With a penalty: number of starts, of which the best after a few sweeps is used.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> print(rw.solve(rw.Problem(seen, "square"), rw.solvers.FactorSweeps(ridge=1.0), rank=2).model.rank)
    2
    """

    ridge: float = 2.0
    offset_ridge: float = 0.2
    count_power: float = 0.0
    smoothing: float = 0.01
    rows: str | Penalty | None = None
    cols: str | Penalty | None = None
    n_init: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("ridge", "offset_ridge", "count_power", "smoothing"):
            need_not_negative(name, getattr(self, name))
        if not (is_whole(self.n_init) and self.n_init >= 1):
            raise SettingError(f"`n_init` must be an integer of at least 1, got {self.n_init!r}.")
        check_penalties(self.penalties, OFFSETS[self.offsets])

    @property
    def penalties(self) -> Penalties:
        """Penalties of the rows and of the columns, None for the ridge alone."""
        rows, cols = penalties.get(self.rows, "rows"), penalties.get(self.cols, "cols")
        return rows, cols

    @property
    def shaped(self) -> bool:
        """Whether a side has a penalty beside the ridge, so that the factors must not be rotated."""
        return any(each is not None and each.formulas is not None for each in self.penalties)

    @property
    def truncates(self) -> bool:
        """Whether the factors may be rotated into singular vectors."""
        return not self.shaped

    @property
    def converts_units(self) -> bool:
        """Whether the penalties can be converted to units in which the targets are stored."""
        return penalties.allow_units(self.penalties)

    @property
    def ridges(self) -> tuple[float, float]:
        """Ridge of the rows and of the columns."""
        rows, cols = (self.ridge if each is None else each.own_ridge(self.ridge) for each in self.penalties)
        return rows, cols

    @property
    def needs(self) -> tuple[Need, ...]:
        """Observed entries without a ridge and without fixed offsets, and as many rows as given factors have."""
        return (*super().needs, *needs_of(self.penalties))

    @classmethod
    def methods(cls) -> dict[str, NamedSolver]:
        """Return the sweeps with their default settings."""
        summary = "factors and offsets, any loss, sweeps with a given ridge from a greedy start"
        return {"factors": NamedSolver(cls(), summary)}

    def in_units(self, units: Units) -> "FactorSweeps":
        """Return the solver with the ridges of stored numbers."""
        offset_ridge = self.offset_ridge * units.unit**2 / units.size
        ridge = self.ridge * units.unit / units.size
        if self.penalties == (None, None) or units == UNCHANGED:
            return replace(self, ridge=ridge, offset_ridge=offset_ridge)
        rows, cols = penalties_in_units(self.penalties, self.ridge, units)
        return replace(self, rows=rows, cols=cols, ridge=ridge, offset_ridge=offset_ridge)

    def init(self, objective: Problem, rank: int) -> SweepState:
        """Fit the offsets, without factors."""
        return super().init(objective, given_rank(self.penalties, rank))

    def complete(self, objective: Problem, state: SweepState) -> bool:
        """Predict rows and columns without entries from their features, unless a penalty restricts the factors."""
        return not self.shaped and super().complete(objective, state)

    def finish(self, state: SweepState) -> dict[str, Any]:
        """Both sides and the scale, for the model."""
        learned = state.learned(self.uncertain, self.count_power, self.penalties)
        return {"learned": learned, "scale": state.scale, **without_factors(state)}

    def _begin(self, problem: Problem, state: SweepState) -> None:
        if not problem.smooth:
            self._sharpen(state, problem.value() / state.weight / problem.loss.typical(stored_spread(problem), order=1))
        for side, _ in state.sides:
            side.precisions = np.full(side.means.shape[1], max(self.offset_ridge, LEAST_RIDGE))
        if self.count_power:
            for side, axis in ((state.rows, "rows"), (state.cols, "columns")):
                counts = np.maximum(problem.row_weights(axis), 1.0) ** self.count_power
                side.multipliers = counts.astype(side.means.dtype)

    def _restore(self, problem: Problem, state: SweepState, start: LowRankModel) -> None:
        place_constant(problem, state.constant)  # `_begin` measures the mean loss there
        self._begin(problem, state)
        state.smoothing = 64 * (self.smoothing * state.spread) ** 2  # down to its last value after three sweeps
        for (side, _), ridge, penalty in zip(state.sides, self.ridges, self.penalties, strict=True):
            side.precisions[: side.rank] = max(ridge, LEAST_RIDGE)
            if penalty is not None:  # added rows are zero
                means = np.array(side.means)
                means[:, : side.rank] = penalty.feasible(side.factors)
                side.means = means
        restore_priors(problem, state, start, self.make_priors)

    def _first_precision(self, state: SweepState) -> tuple[float, float]:
        return max(self.ridge, LEAST_RIDGE), 0.0

    def _penalty_of(self, state: SweepState, side: Side) -> Penalty | None:
        penalty = self.penalties[side is state.cols]
        return penalty if side.rank and penalty is not None and penalty.formulas is not None else None

    def _grow(self, problem: Problem, rng: Generator, state: SweepState, n: int) -> int:
        """Start new factors; with a penalty from the best of a few starts that satisfy it."""
        if not self.shaped:
            n_products = super()._grow(problem, rng, state, n)
            for (side, _), ridge in zip(state.sides, self.ridges, strict=True):
                side.precisions[: side.rank] = max(ridge, LEAST_RIDGE)
            return n_products
        n = state.rank - state.rows.rank  # all at once: `block` is for factors that may have any sign
        starts = (shaped_start(problem, rng, n, self.penalties, k) for k in range(self.n_init))
        tried = [self._tried(problem, state, start) for start in starts]
        _, state.rows, state.cols = min(tried, key=lambda start: start[0])
        return 0

    def _tried(self, problem: Problem, state: SweepState, factors: tuple[Array, Array]) -> tuple[float, Side, Side]:
        """Value and sides after a few sweeps from these factors; after none if there is one start."""
        trial = replace(state, rows=replace(state.rows), cols=replace(state.cols))
        for (side, _), block, ridge in zip(trial.sides, factors, self.ridges, strict=True):
            side.widen(block, max(ridge, LEAST_RIDGE))
        if self.penalties[0] is not None and self.penalties[0].fixes_scale:
            self._improve(problem, trial, ("columns",))
        value = 0.0
        for _ in range(TRIAL_SWEEPS if self.n_init > 1 else 0):
            value = self._sweep(problem, trial)
        return value, trial.rows, trial.cols

    def _sharpen(self, state: SweepState, spread: float) -> None:
        """Halve the width over which corners are rounded; this cannot raise the value."""
        state.spread = spread
        state.smoothing = max(0.25 * state.smoothing or (0.5 * spread) ** 2, (self.smoothing * spread) ** 2)

    def _sweep(self, problem: Problem, state: SweepState) -> float:
        if state.spread:
            self._sharpen(state, state.spread)
        state.learn_priors(self.make_priors)
        loss = penalty = 0.0
        for k, ((side, _), half) in enumerate(zip(state.sides, self._improve(problem, state), strict=True)):
            ridge = 0.5 * float(side.precisions @ state.weighted_squares(k, half))
            loss, penalty = half.loss, penalty + ridge + half.penalties
        if not problem.quadratic and majorised(problem.loss.formula):  # then `loss` is only an upper bound
            loss = state.cols.expected_loss(state.rows, state.settings(self.uncertain), problem.cells_of("columns"))
        return loss + penalty
