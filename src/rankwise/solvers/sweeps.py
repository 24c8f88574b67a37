"""Factor refinement: offsets first, a greedy start, then sweeps over rows and columns, the ridge given or learned."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from .._checks import is_whole
from .._errors import SettingError
from ..kernels.expected import majorised
from ..kernels.rows import Task
from ..model import Learned, LearnedSide, LowRankModel, Offsets
from ..model.sides import Improved, Side
from ..objectives import Problem
from ..spectral import block_svd
from .base import NamedSolver, Solver
from .history import StepReport
from .intercept import best_level, place_level
from .pattern_prior import PatternPrior
from .resume import laid_out, resumed_side, side_places
from .sweep_state import State
from .validation import NO_OFFSETS, SIDES, Need, need_not_negative, need_positive

Array = NDArray[Any]
OFFSETS = {"none": (False, False), "global": (False, False), "rows": (True, False), "columns": (False, True)}
OFFSETS["both"] = (True, True)
SPARE = 4  # directions beside the wanted ones in the block power iterations of the start
N_POWER = 3
OFFSET_SWEEPS = 3
LEAST_RIDGE = 1e-9
START = 0.1  # variance that new factors start with, in units of what they are thought to have before they are seen
OFFSET_RIDGE = 2.0  # of the offsets before it is learned, in entries: a row's offset is shrunk as if by two more zeros


@dataclass(frozen=True)
class Sweeps(Solver[Problem, State]):
    """What the two refinements share: the start, and the order of things."""

    offsets: str = "both"
    block: int | None = None
    max_iter: int | None = 10
    grows: ClassVar[bool] = False
    keeps_path: ClassVar[bool] = False
    truncates: ClassVar[bool] = True
    uncertain: ClassVar[bool] = False
    state_types: ClassVar[tuple[type, ...]] = (State, Side, PatternPrior)

    @property
    def needs(self) -> tuple[Need, ...]:
        """Observed entries without a ridge and without fixed offsets."""
        return (SIDES, NO_OFFSETS)

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.offsets not in OFFSETS:
            raise SettingError(f"`offsets` must be one of {', '.join(map(repr, OFFSETS))}, got {self.offsets!r}.")
        if self.block is not None and not (is_whole(self.block) and self.block >= 1):
            raise SettingError(f"`block` must be None or an integer of at least 1, got {self.block!r}.")

    def init(self, objective: Problem, rank: int) -> State:
        """Fit the offsets; no factors yet."""
        problem = objective
        problem.reset()
        if self.offsets != "none":  # zeros to begin with, so that one compiled version of the passes is enough
            place_level(problem, 0.0)
        constant = 0.0 if self.offsets == "none" else best_level(problem)
        engines, sizes = (problem.side("rows"), problem.side("columns")), problem.shape
        parts = zip(engines, sizes, OFFSETS[self.offsets], strict=True)
        rows, cols = (Side.empty(*part, problem.dtype) for part in parts)
        state = State(rows, cols, constant, min(rank, *problem.shape), problem.observations.total_weight, problem.loss)
        state.place(problem)
        self._begin(problem, state)
        for _ in range(OFFSET_SWEEPS if any(OFFSETS[self.offsets]) else 1):
            self._sweep(problem, state)
        state.place(problem)
        return state

    def resume(self, objective: Problem, rank: int, start: LowRankModel) -> State:
        """Both sides where the model left them, new rows and columns included; the columns solved for once."""
        problem, learned = objective, self._resumable(start, rank)
        problem.reset()
        wanted = (problem.side("rows"), problem.side("columns")), side_places(problem, start)
        rows, cols = (
            resumed_side(side, place, learned.uncertain, engine, problem.dtype)
            for side, engine, place in zip((learned.rows, learned.cols), *wanted, strict=True)
        )
        constant = 0.0 if start.offsets is None else float(start.offsets.constant)
        if start.offsets is None and self.offsets != "none":  # then its level is zero, or it has none
            place_level(problem, 0.0)
            constant = best_level(problem)
        rank, weight = max(min(rank, *problem.shape), learned.rank), problem.observations.total_weight
        state = State(rows, cols, constant, rank, weight, problem.loss, scale=start.scale)
        self._go_on(problem, state, start)
        live = [np.abs(side.factors).max(axis=0, initial=0.0) > 0 for side in (rows, cols)]
        state.narrow(live[0] & live[1])  # what is zero on a side would stay so
        state.cost = self._improve(state, state.cols, state.rows, learned.uncertain).loss
        state.place(problem)
        return state

    def accepts(self, objective: Problem, state: object) -> bool:
        """Whether the state is one of these sweeps on this problem."""
        if not isinstance(state, State) or state.loss is not objective.loss or not state.is_sound(objective):
            return False
        return (state.rows.offset, state.cols.offset) == OFFSETS[self.offsets]

    def steps_from(self, start: LowRankModel | None, rank: int) -> int | None:
        """A third of the sweeps from nothing at the same rank, two thirds if there are to be more factors."""
        if start is None or self.max_iter is None:
            return self.max_iter
        known = start.learned is not None and is_whole(rank) and rank <= start.learned.rank
        return -(-self.max_iter * (1 if known else 2) // 3)

    def _resumable(self, start: LowRankModel, rank: int) -> Learned:
        """What the model has of its sides; refused unless these sweeps can go on from it."""
        name, learned = type(self).__name__, start.learned
        if learned is None or learned.uncertain != self.uncertain:
            raise SettingError(f"{name} goes on only from a model that it has made; fit anew (warm_start=False).")
        bare = self.offsets == "none" and start.offsets is not None
        if bare or (learned.rows.offset, learned.cols.offset) != OFFSETS[self.offsets]:
            raise SettingError(f"The model has other offsets than offsets={self.offsets!r}; fit anew, or with its own.")
        if rank < learned.rank:
            raise SettingError(
                f"{name} goes on at the model's rank, {learned.rank}, or a higher one, got rank={rank}; for a lower "
                "one ask for predictions with `rank=`, or fit anew."
            )
        return learned

    def step(self, objective: Problem, rng: Generator, state: State) -> StepReport:
        """More factors if there are to be any, then one sweep."""
        n_products = 0
        if state.rows.rank < state.rank:
            block = state.rank if self.block is None else self.block
            n_products = self._grow(objective, rng, state, min(block, state.rank - state.rows.rank))
        value = self._sweep(objective, state)
        state.place(objective)
        return StepReport(n_products=n_products, value=value, settled=state.rows.rank == state.rank)

    def _grow(self, problem: Problem, rng: Generator, state: State, n: int) -> int:
        """Start new factors from the leading triplets of the negative gradient."""
        start = rng.standard_normal((problem.shape[1], min(n + SPARE, *problem.shape)))
        U, s, V, n_products = block_svd(problem.gradient(), start, N_POWER)
        length = held_back(problem, U[:, :n], V[:, :n], s[:n] / state.bend)
        root = np.sqrt(length * s[:n] / state.bend)
        precision, variance = self._first_precision(state)
        state.rows.widen((-U[:, :n] * root).astype(problem.dtype), precision, variance)
        state.cols.widen((V[:, :n] * root).astype(problem.dtype), precision, variance)
        return n_products

    def _learned(self, state: State, count_power: float = 0.0) -> Learned:
        """Both sides, for the model to keep."""
        weights: list[Any] = [pattern.weights for pattern in state.patterns] or [None, None]
        rows, cols = (
            LearnedSide(side.means, side.variances, side.precisions, side.offset, pattern)
            for (side, _), pattern in zip(state.sides, weights, strict=True)
        )
        return Learned(rows, cols, self.uncertain, state.blur, count_power)

    def _improve(self, state: State, side: Side, other: Side, learned: bool) -> Improved:
        found = side.improve(other, state.constant, Task(float(state.scale), learned), state.blur)
        if found.bends > 0:
            state.bend = found.bends / state.weight
        return found

    def _begin(self, problem: Problem, state: State) -> None:
        raise NotImplementedError

    def _go_on(self, problem: Problem, state: State, start: LowRankModel) -> None:
        """Beside the sides, what goes on from a model."""
        raise NotImplementedError

    def _first_precision(self, state: State) -> tuple[float, float]:
        """Precision of new factors before they are seen, and the variance they start with."""
        raise NotImplementedError

    def _sweep(self, problem: Problem, state: State) -> float:
        raise NotImplementedError


@dataclass(frozen=True)
class FactorSweeps(Sweeps):
    """Newton steps on every row and every column by turns, with a given ridge.

    Objective: f plus ``ridge / 2`` times the squared factors of every row and column. Cost per step: O(rank**2
    n_observed + rank**3 (n_rows + n_cols)). Rate: none known, the value never rises. Reference: alternating least
    squares of Hu, Koren and Volinsky, 2008, under any loss.

    Parameters
    ----------
    ridge : float, default=2
        Of the factors.
    offsets : {"both", "none", "global", "rows", "columns"}, default="both"
    offset_ridge : float, default=0.2
    count_power : float, default=0
        A row with n entries has its ridge times ``n**count_power``.
    block : int, optional
        Factors to add at a time, each time from one gradient and before a sweep; by default all at once.
    blur : float, default=0.01
        Corners of nonsmooth losses are rounded over this share of the mean loss of a constant; over half of it at
        first, and half as much each sweep, so that entries at a corner do not hold a row there.

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
    blur: float = 0.01

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        for name in ("ridge", "offset_ridge", "count_power", "blur"):
            need_not_negative(name, getattr(self, name))

    @classmethod
    def methods(cls) -> dict[str, NamedSolver]:
        """Return the sweeps with their default settings."""
        summary = "factors and offsets, any loss, sweeps with a given ridge from a greedy start"
        return {"factors": NamedSolver(cls(), summary)}

    def finish(self, state: State) -> dict[str, Any]:
        """Both sides."""
        return {"learned": self._learned(state, self.count_power), "scale": state.scale}

    def _begin(self, problem: Problem, state: State) -> None:
        if not problem.smooth:
            self._sharpen(state, problem.value() / state.weight)
        for side, _ in state.sides:
            side.precisions = np.full(side.means.shape[1], max(self.offset_ridge, LEAST_RIDGE))
        if self.count_power:
            for side, entries in ((state.rows, problem.observations), (state.cols, problem.observations.transposed())):
                counts = np.maximum(entries.row_weights(), 1.0) ** self.count_power
                side.counts = counts.astype(side.means.dtype)

    def _go_on(self, problem: Problem, state: State, start: LowRankModel) -> None:
        place_level(problem, state.constant)  # where `init` looks at the spread
        self._begin(problem, state)
        state.blur = 64 * (self.blur * state.spread) ** 2  # sharp again after three sweeps
        for side, _ in state.sides:
            side.precisions[: side.rank] = max(self.ridge, LEAST_RIDGE)

    def _first_precision(self, state: State) -> tuple[float, float]:
        return max(self.ridge, LEAST_RIDGE), 0.0

    def _sharpen(self, state: State, spread: float) -> None:
        """Round corners by less than before; the value cannot rise by that."""
        state.spread = spread
        state.blur = max(0.25 * state.blur or (0.5 * spread) ** 2, (self.blur * spread) ** 2)

    def _sweep(self, problem: Problem, state: State) -> float:
        if state.spread:
            self._sharpen(state, state.spread)
        loss = 0.0
        for side, other in state.sides:
            loss = self._improve(state, side, other, learned=False).loss
        if not problem.quadratic and majorised(problem.loss.formula):  # then it is a bound so far
            loss = state.cols.expected_loss(state.rows, state.constant, state.blur)
        squares = (np.sum(side.counts[:, None] * side.means**2, axis=0, dtype=np.float64) for side, _ in state.sides)
        return loss + sum(
            0.5 * float(side.precisions @ found) for (side, _), found in zip(state.sides, squares, strict=True)
        )


@dataclass(frozen=True)
class BayesSweeps(Sweeps):
    """The same sweeps with the ridge of every component, of the offsets, and the noise learned from the data.

    Objective: the negative evidence bound of independent normal factors. Cost per step: as `FactorSweeps`, and a few
    passes for the pattern. Rate: none known, no step raises it. Reference: Lim and Teh, KDD Cup 2007 (variational
    Bayes for matrix factorisation), Koren, KDD 2008 (the pattern).

    Every factor and offset has a mean and a variance. A sweep finds the best ones of each row given the columns, then
    the other way round; then the precisions and the noise that make them likeliest. Components that the data does
    not support fade out.

    Parameters
    ----------
    offsets : {"both", "none", "global", "rows", "columns"}, default="both"
    pattern_prior : bool, default=True
        Whether the columns in which a row has entries say something of its factors, and the other way round.
    pattern_ridge : float, default=2
        Ridge of what the pattern says, in units of the rows' own precisions.
    block : int, optional
        Factors to add at a time, each time from one gradient and before a sweep; by default all at once.
    start_precision : float, default=10
        Precision of new factors before it is learned, in units of ``sqrt(scale * mean weight of the parabolas)``.
    least_effect : float, default=0
        Leave components out once they move no prediction by so many standard deviations of the noise, but for one.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> print(rw.solve(rw.Problem(seen, "square"), rw.solvers.BayesSweeps(), rank=4).status.message)
    Took 10 steps, to rank 4.
    >>> print(rw.solve(rw.Problem(seen, "square"), rw.solvers.BayesSweeps(least_effect=0.1), rank=4).status.message)
    Took 10 steps, to rank 2.
    """

    uncertain: ClassVar[bool] = True
    pattern_prior: bool = True
    pattern_ridge: float = 2.0
    start_precision: float = 10.0
    least_effect: float = 0.0

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        need_positive("pattern_ridge", self.pattern_ridge)
        need_positive("start_precision", self.start_precision)
        need_not_negative("least_effect", self.least_effect)
        if not isinstance(self.pattern_prior, bool | np.bool_):
            raise SettingError(f"`pattern_prior` must be True or False, got {self.pattern_prior!r}.")

    @classmethod
    def methods(cls) -> dict[str, NamedSolver]:
        """Return the sweeps with their default settings."""
        summary = "factors and offsets, any loss, sweeps with a learned ridge from a greedy start"
        return {"bayes": NamedSolver(cls(), summary)}

    def step(self, objective: Problem, rng: Generator, state: State) -> StepReport:
        """The same without the components that have faded, if they are to be left out."""
        if self.least_effect:
            state.leave_out_faded(self.least_effect)
        return super().step(objective, rng, state)

    def finish(self, state: State) -> dict[str, Any]:
        """How sure the factors are."""
        learned = self._learned(state)
        noise = float(1 / state.scale) if state.loss.quadratic else 0.0
        return {"learned": learned, "scale": state.scale, "posterior": learned.posterior(noise)}

    def _begin(self, problem: Problem, state: State) -> None:
        state.scale = problem.loss.best_scale(max(problem.value() / state.weight, 1e-30))
        has_unit = problem.loss.log_normaliser(0.5) != 0  # a density of its target, which signs and levels have not
        if problem.piecewise_linear and has_unit:
            state.bend = 1.0 / (problem.observations.target_facts().spread or 1.0)
        precision = OFFSET_RIDGE * state.scale * state.bend
        for side, _ in state.sides:
            side.precisions = np.full(side.means.shape[1], precision)
            side.variances[:] = 1.0 / precision

    def _go_on(self, problem: Problem, state: State, start: LowRankModel) -> None:
        if not self.pattern_prior:
            return
        state.patterns = [PatternPrior.zero(side, other, self.pattern_ridge) for side, other in state.sides]
        learned = start.learned
        old = (None, None) if learned is None else (learned.rows.pattern, learned.cols.pattern)
        for pattern, weights, place in zip(state.patterns, old, side_places(problem, start)[::-1], strict=True):
            if weights is not None:
                pattern.start(laid_out(weights, place, 0.0, problem.dtype))

    def _first_precision(self, state: State) -> tuple[float, float]:
        precision = self.start_precision * float(np.sqrt(state.scale * state.bend))
        return precision, START / precision

    def _sweep(self, problem: Problem, state: State) -> float:
        self._learn_patterns(state)
        bound = loss = 0.0
        for k, (side, other) in enumerate(state.sides):
            found = self._improve(state, side, other, learned=True)
            loss = found.loss
            squares = side.squares() + (state.patterns[k].squares() if state.patterns else 0.0)
            n = side.means.shape[0]
            side.precisions = n / np.maximum(squares, 1e-30)
            bound += 0.5 * n * float(np.sum(1.0 - np.log(side.precisions))) - found.logs
        state.cost_before, state.cost = state.cost, loss
        state.scale = problem.loss.best_scale(max(loss / state.weight, 1e-30))
        return bound + state.scale * loss + state.weight * problem.loss.log_normaliser(state.scale)

    def _learn_patterns(self, state: State) -> None:
        """Once there are factors, look at what the pattern says of each side."""
        if not self.pattern_prior or not state.rows.rank:
            return
        if not state.patterns:
            state.patterns = [PatternPrior.zero(side, other, self.pattern_ridge) for side, other in state.sides]
        for pattern in state.patterns:
            pattern.improve(2)


def held_back(problem: Problem, U: Array, V: Array, s: Array) -> float:
    """Length, one or a half of that and so on, of the step ``-U diag(s) V.T`` that does not raise the value."""
    phi, length = problem.along(U, V, -s), 1.0
    value = problem.value()
    while length > 1e-9 and not phi(np.array([1.0, length]))[0] <= value:
        length *= 0.5
    return length


def fit_offsets(problem: Problem, offsets: str = "both") -> Offsets | None:
    """The offsets alone, their ridge learned; three sweeps.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.Observations.from_dense([[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]])
    >>> print(round(rw.solvers.fit_offsets(rw.Problem(seen, "square")).constant, 2))
    2.5
    """
    solver = BayesSweeps(offsets)
    solver.init(problem, 1)
    found = problem.offsets
    problem.reset()
    return found
