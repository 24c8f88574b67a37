"""Sweeps over rows and columns: offsets first, a greedy start, then row solves with a fixed or a learned ridge."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from .._checks import check_choice, is_whole
from .._errors import SettingError
from ..losses.units import Units
from ..model import LowRankModel, Offsets
from ..model.odds import OddsCalibration
from ..model.ranking import AXES
from ..objectives import Problem
from ..objectives.sides import HalfSweep, Side
from ..penalties import Penalty
from ..spectral import block_svd
from .base import NamedSolver, Solver
from .feature_prior import side_priors
from .held_back import HeldBack
from .history import StepReport
from .marginals import mean_offsets, without_factors
from .resume import restore_priors, resumable_sides, resumed_side, side_places
from .row_priors import PRIORS, RowPrior
from .sweep_state import OFFSETS, SweepState, best_constant, descending_length, place_constant, stored_spread
from .validation import HAS_SIDES, NO_OFFSETS, Need, need_not_negative, need_positive

OVERSAMPLING = 4  # additional directions in the block power iterations that start new factors
N_POWER = 3
OFFSET_SWEEPS = 3
START = 0.1  # variance that new factors start with, in units of their prior variance
OFFSET_RIDGE = 2.0  # ridge of the offsets before it is learned: each is shrunk as if by two more entries of zero


@dataclass(frozen=True)
class Sweeps(Solver[Problem, SweepState]):
    """Base of the two kinds of sweeps: start, warm start and the order of updates."""

    offsets: str = "both"
    block: int | None = None
    max_iter: int | None = 10
    grows: ClassVar[bool] = False
    keeps_path: ClassVar[bool] = False
    uncertain: ClassVar[bool] = False
    state_types: ClassVar[tuple[type, ...]] = (SweepState, Side, Offsets, HeldBack, OddsCalibration, *PRIORS.values())

    @property
    def truncates(self) -> bool:
        """Whether the factors may be rotated into singular vectors."""
        return True

    @property
    def needs(self) -> tuple[Need, ...]:
        """Observed entries without a ridge and without fixed offsets."""
        return (HAS_SIDES, NO_OFFSETS)

    @property
    def has_constant(self) -> bool:
        """Whether the offsets have a constant."""
        return self.offsets != "none"

    def __post_init__(self) -> None:
        check_choice("offsets", self.offsets, OFFSETS)
        if self.block is not None and not (is_whole(self.block) and self.block >= 1):
            raise SettingError(f"`block` must be None or an integer of at least 1, got {self.block!r}.")

    def init(self, objective: Problem, rank: int) -> SweepState:
        """Fit the offsets, without factors."""
        problem = objective
        problem.reset()
        if self.offsets != "none":  # offsets of zero first, so that one compiled version of the passes is enough
            place_constant(problem, 0.0)
        constant = 0.0 if self.offsets == "none" else best_constant(problem)
        rows, cols = map(problem.side, ("rows", "columns"), OFFSETS[self.offsets])
        state = SweepState(rows, cols, constant, min(rank, *problem.shape), problem.total_weight, problem.loss)
        state.place(problem)
        self._begin(problem, state)
        for _ in range(OFFSET_SWEEPS if any(OFFSETS[self.offsets]) else 1):
            self._sweep(problem, state)
        state.place(problem)
        state.baseline = None if problem.offsets is None else mean_offsets(state, problem.offsets)
        return state

    def resume(self, objective: Problem, rank: int, start: LowRankModel) -> SweepState:
        """Start from the sides of a model, with added rows and columns, and solve for the columns once."""
        problem, learned = objective, resumable_sides(self, start, rank)
        baseline = self.init(problem, 1).baseline
        problem.reset()
        engines, numbers = (problem.engine, problem.engine_of("columns")), side_places(problem, start)
        rows, cols = (
            resumed_side(side, places, learned.uncertain, engine, problem.dtype, problem.features.get(axis))
            for axis, side, engine, places in zip(AXES, (learned.rows, learned.cols), engines, numbers, strict=True)
        )
        constant = 0.0 if start.offsets is None else float(start.offsets.constant)
        if start.offsets is None and self.offsets != "none":  # a model without offsets has a constant of zero
            place_constant(problem, 0.0)
            constant = best_constant(problem)
        rank, weight = max(min(rank, *problem.shape), learned.rank), problem.total_weight
        state = SweepState(rows, cols, constant, rank, weight, problem.loss, start.scale, baseline=baseline)
        self._restore(problem, state, start)
        live = [np.abs(side.factors).max(axis=0, initial=0.0) > 0 for side in (rows, cols)]
        state.narrow(live[0] & live[1])  # factors of zero on one side would stay zero
        state.cost = self._improve(problem, state, ("columns",))[0].loss
        state.place(problem)
        return state

    def accepts(self, objective: Problem, state: object) -> bool:
        """Return whether a state restored from a checkpoint is valid for this solver and problem."""
        if not isinstance(state, SweepState) or state.loss is not objective.loss or not state.is_sound(objective):
            return False
        return (state.rows.offset, state.cols.offset) == OFFSETS[self.offsets]

    def steps_from(self, start: LowRankModel | None, rank: int) -> int | None:
        """Default number of sweeps; a third of it after a warm start, two thirds if factors are to be added."""
        if start is None or self.max_iter is None:
            return self.max_iter
        known = start.learned is not None and is_whole(rank) and rank <= start.learned.rank
        return -(-self.max_iter * (1 if known else 2) // 3)

    def step(self, objective: Problem, rng: Generator, state: SweepState) -> StepReport:
        """Add factors if the rank is not reached yet, then run one sweep."""
        n_products = 0
        if state.rows.rank < state.rank:
            block = state.rank if self.block is None else self.block
            n_products = self._grow(objective, rng, state, min(block, state.rank - state.rows.rank))
        value = self._sweep(objective, state)
        state.place(objective)
        return StepReport(n_products=n_products, value=value, settled=state.rows.rank == state.rank)

    def _grow(self, problem: Problem, rng: Generator, state: SweepState, n: int) -> int:
        """Start new factors from the leading triplets of the negative gradient."""
        start = rng.standard_normal((problem.shape[1], min(n + OVERSAMPLING, *problem.shape)))
        U, s, V, n_products = block_svd(state.gradient(problem), start, N_POWER)
        length = descending_length(problem, U[:, :n], V[:, :n], s[:n] / state.curvature)
        root = np.sqrt(length * s[:n] / state.curvature)
        precision, variance = self._first_precision(state)
        state.rows.widen((-U[:, :n] * root).astype(problem.dtype), precision, variance)
        state.cols.widen((V[:, :n] * root).astype(problem.dtype), precision, variance)
        return n_products

    def _improve(self, problem: Problem, state: SweepState, axes: tuple[str, ...] = AXES) -> list[HalfSweep]:
        """Solve the rows, then the columns, before any sum is read: on a cluster this is one round trip."""
        settings, halves = state.settings(self.uncertain), []
        for axis in axes:
            side, other = state.sides[axis == "columns"]
            penalty, cells = self._penalty_of(state, side), problem.cells_of(axis)
            halves.append(side.improve(other, settings, penalty=penalty, cells=cells))
        for half in halves:
            state.measure_curvature(half)
        return halves

    def _penalty_of(self, state: SweepState, side: Side) -> Penalty | None:
        """Penalty of a side beside its ridge, if it has factors."""
        return None

    def make_priors(self, state: SweepState) -> list[RowPrior]:
        """Priors of the rows and of the columns before they are learned; none if their prior means are zero."""
        return side_priors(state.sides)

    def complete(self, objective: Problem, state: SweepState) -> bool:
        """Predict rows and columns without entries from their features; return whether there are any."""
        return state.place_cold(objective)

    def _begin(self, problem: Problem, state: SweepState) -> None:
        raise NotImplementedError

    def _restore(self, problem: Problem, state: SweepState, start: LowRankModel) -> None:
        """Restore everything beside the sides from a model."""
        raise NotImplementedError

    def _first_precision(self, state: SweepState) -> tuple[float, float]:
        """Prior precision of new factors, and the variance they start with."""
        raise NotImplementedError

    def _sweep(self, problem: Problem, state: SweepState) -> float:
        raise NotImplementedError


@dataclass(frozen=True)
class BayesSweeps(Sweeps):
    """Variational Bayes: sweeps that learn the ridge of every component, of the offsets, and the noise.

    Objective: the negative evidence bound of independent normal factors. Cost per step: as `FactorSweeps`, and a few
    passes for the pattern. Rate: none known, no step raises it. Reference: Lim and Teh, KDD Cup 2007 (variational
    Bayes for matrix factorisation), Koren, KDD 2008 (the pattern).

    Every factor and offset has a mean and a variance. A sweep updates those of each row given the columns, then those
    of each column given the rows, and then the precisions and the noise. Components that the data do not support shrink
    to zero.

    Parameters
    ----------
    offsets : {"both", "none", "global", "rows", "columns"}, default="both"
    pattern_prior : bool, default=True
        If True, the prior mean of a row's factors depends on the set of columns observed in that row, as in SVD++, and
        that of a column's factors on its set of rows.
    pattern_ridge : float, default=2
        Ridge of the pattern prior's weights, in units of the rows' own precisions.
    block : int, optional
        Number of factors to add at a time, each time from one gradient and before a sweep; by default all at once.
    start_precision : float, default=10
        Precision of new factors before it is learned, in units of ``sqrt(scale * mean curvature)``.
    least_effect : float, default=0
        Prune components that move no prediction by this many standard deviations of the noise; one always stays.
    most_rank : int, default=0
        Rank up to which the fit may go beyond the requested one, see ``docs/algorithm.md``; only if `hold_back`.
    hold_back : bool, default=False
        If True, some entries, see ``docs/algorithm.md``, are left out until two sweeps no longer make them likelier;
        then a last sweep uses all. `solve` sets it if neither `max_iter` nor `start` is given.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> print(rw.solve(rw.Problem(seen, "square"), rw.solvers.BayesSweeps(), rank=4).status.message)
    Took 10 steps, to rank 4. 2 components without effect were left out: the model has rank 2.
    >>> print(rw.solve(rw.Problem(seen, "square"), rw.solvers.BayesSweeps(least_effect=0.1), rank=4).status.message)
    Took 10 steps, to rank 2.
    """

    uncertain: ClassVar[bool] = True
    most_steps: ClassVar[int] = 60
    pattern_prior: bool = True
    pattern_ridge: float = 2.0
    start_precision: float = 10.0
    least_effect: float = 0.0
    most_rank: int = 0
    hold_back: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        need_positive("pattern_ridge", self.pattern_ridge)
        need_positive("start_precision", self.start_precision)
        need_not_negative("least_effect", self.least_effect)
        need_not_negative("most_rank", self.most_rank)
        if not isinstance(self.pattern_prior, bool | np.bool_):
            raise SettingError(f"`pattern_prior` must be True or False, got {self.pattern_prior!r}.")

    @classmethod
    def methods(cls) -> dict[str, NamedSolver]:
        """Return the sweeps with their default settings."""
        summary = "factors and offsets, any loss, sweeps with a learned ridge from a greedy start"
        return {"bayes": NamedSolver(cls(), summary)}

    def value_at_zero(self, objective: Problem) -> float:
        """Return the part of the negative evidence bound that is due to the unit of the targets."""
        is_density = objective.loss.has_units and objective.loss.log_normaliser(0.5) != 0
        return objective.total_weight * math.log(stored_spread(objective)) if is_density else 0.0

    def original_value(self, value: float, units: Units, weight: float) -> float:
        """Return the negative evidence bound of the targets, whose density is that of stored numbers over the unit."""
        return value + weight * math.log(units.unit)

    def step(self, objective: Problem, rng: Generator, state: SweepState) -> StepReport:
        """Prune components whose effect is below `least_effect`, then run one sweep; the last one has all entries."""
        if self.least_effect:
            state.prune(self.least_effect)
        if self.hold_back and not state.rows.rank:
            state.hold_back(objective, self.most_rank > 0)
        if state.is_settled or state.n_held_back == self.most_steps - 1:
            state.settle(self.most_rank)
        report = super().step(objective, rng, state)
        state.measure()
        return report._replace(moving=state.moving, settled=report.settled and not state.is_holding_back)

    def open_ended(self) -> "BayesSweeps":
        """Return the solver with entries held back, by which it finds out when to stop."""
        return replace(self, hold_back=True)

    def complete(self, objective: Problem, state: SweepState) -> bool:
        """Put back entries that are still held back, and run one more sweep; return whether there were any."""
        state.decide_growth()
        if held_back := state.put_back():
            self._sweep(objective, state)
            state.place(objective)
        return super().complete(objective, state) or held_back

    def finish(self, state: SweepState) -> dict[str, Any]:
        """Both sides, the scale, the posterior and the calibration of signs, for the model."""
        learned = state.learned(self.uncertain)
        noise = float(1 / (state.scale * state.loss.curvature(0.0, 0.0))) if state.loss.quadratic else 0.0
        parts = {"learned": learned, "scale": state.scale, "posterior": learned.posterior(noise)}
        return parts | {"calibration": state.odds} | without_factors(state)

    def _begin(self, problem: Problem, state: SweepState) -> None:
        state.scale = problem.loss.best_scale(max(problem.value() / state.weight, 1e-30))
        if problem.loss.log_normaliser(0.5) != 0:  # a density of its target; not so for signs and ordinal levels
            state.curvature = problem.loss.typical(stored_spread(problem), order=2)
        precision = OFFSET_RIDGE * state.scale * state.curvature
        for side, _ in state.sides:
            side.precisions = np.full(side.means.shape[1], precision)
            side.variances = np.full(side.means.shape, 1.0 / precision, side.means.dtype)

    def _restore(self, problem: Problem, state: SweepState, start: LowRankModel) -> None:
        restore_priors(problem, state, start, self.make_priors, self.pattern_ridge)
        state.odds = start.calibration if isinstance(start.calibration, OddsCalibration) else None

    def make_priors(self, state: SweepState) -> list[RowPrior]:
        """Priors of the rows and of the columns before they are learned; none if their prior means are zero."""
        return side_priors(state.sides, self.pattern_ridge if self.pattern_prior else None)

    def _first_precision(self, state: SweepState) -> tuple[float, float]:
        precision = self.start_precision * float(np.sqrt(state.scale * state.curvature))
        return precision, START / precision

    def _sweep(self, problem: Problem, state: SweepState) -> float:
        state.learn_priors(self.make_priors)
        bound = loss = 0.0
        for k, ((side, _), half) in enumerate(zip(state.sides, self._improve(problem, state), strict=True)):
            loss, n = half.loss, side.means.shape[0]
            squares = half.squares + (state.priors[k].penalty(side) if state.priors else 0.0)
            side.precisions = n / np.maximum(squares, 1e-30)
            bound += 0.5 * n * float(np.sum(1.0 - np.log(side.precisions))) - half.logs
        state.previous_cost, state.cost = state.cost, loss
        state.scale = problem.loss.best_scale(max(loss / state.weight, 1e-30))
        return bound + state.scale * loss + state.weight * problem.loss.log_normaliser(state.scale)
