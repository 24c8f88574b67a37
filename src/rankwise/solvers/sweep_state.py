"""State of the factor and Bayesian sweeps between two iterations, and the constant prediction they start from."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from ..losses import Loss
from ..model import Learned, LearnedSide, Offsets
from ..model.odds import OddsCalibration
from ..objectives import PlaneRestriction, Problem
from ..objectives.sides import HalfSweep, RowSettings, Side
from ..penalties import Penalty
from ..spectral import Operator, SparsePlusLowRank, as_operator
from .feature_prior import place_cold
from .held_back import HeldBack
from .row_priors import RowPrior
from .steps import bisect, tilted

FALLING = 0.05  # relative decrease of the loss in a sweep above which no components are pruned
GROWTH = 6  # factor of the rank, counted with the offset, in a growth
STRONG = 0.4  # effect, in standard deviations of the noise, that all components must have for the rank to grow
FLAT = 1e-9  # slope, relative to the usual one, below which the loss of a constant is flat
OFFSETS = {"none": (False, False), "global": (False, False), "rows": (True, False), "columns": (False, True)}
OFFSETS["both"] = (True, True)  # whether rows and columns have offsets


@dataclass
class SweepState:
    """Both sides, and everything that is learned beside them.

    Attributes
    ----------
    rows, cols : Side
    constant : float
        Part of every prediction.
    rank : int
        Number of factors to reach.
    weight : float
        Total weight of the entries; their number if they have no weights.
    loss : Loss
    scale : float
        Factor of the expected loss: one over the noise, where the loss has any.
    curvature : float
        Mean curvature of the entries' quadratic approximations.
    smoothing : float
        Variance that rounds the corners of a nonsmooth loss.
    spread : float
        Mean loss of the best constant, for nonsmooth losses; else zero.
    priors : list of RowPrior
        Those of the rows and of the columns, or none.
    cost, previous_cost : float
        Expected loss after the last sweep and after the one before it.
    baseline : Offsets, optional
        Offsets fitted without factors, if there are any.
    held_back : HeldBack, optional
        Entries that the sweeps leave out until their loss has settled.
    odds : OddsCalibration, optional
        Calibration of the probabilities of signs.
    n_pruned : int
        Number of factors pruned since the rank has grown, or since the start.
    smaller : SweepState, optional
        State before the rank has grown, until the entries held back have decided which one to keep.
    """

    rows: Side
    cols: Side
    constant: float
    rank: int
    weight: float
    loss: Loss
    scale: float = 1.0
    curvature: float = 1.0
    smoothing: float = 0.0
    spread: float = 0.0
    priors: list[RowPrior] = field(default_factory=list)
    cost: float = np.inf
    previous_cost: float = np.inf
    baseline: Offsets | None = None
    held_back: HeldBack | None = None
    odds: OddsCalibration | None = None
    n_pruned: int = 0
    smaller: "SweepState | None" = None

    @property
    def sides(self) -> tuple[tuple[Side, Side], tuple[Side, Side]]:
        """Each side with the other one."""
        return (self.rows, self.cols), (self.cols, self.rows)

    @property
    def moving(self) -> str:
        """Reason why the fit is not settled: the loss of entries held back still falls; empty if it is settled."""
        if self.held_back is None or (not self.is_holding_back and self.is_settled):
            return ""
        return f"the last ones made entries held back likelier by {self.held_back.gain:.2g} nats each"

    @property
    def is_holding_back(self) -> bool:
        """Whether the sweeps leave out some entries."""
        return self.held_back is not None and self.held_back.limit > 0

    @property
    def is_settled(self) -> bool:
        """Whether the loss of entries held back has settled, and that of the others has become steady."""
        return self.held_back is not None and self.held_back.is_settled and self.is_steady

    @property
    def is_steady(self) -> bool:
        """Whether the last sweep lowered the loss by little, so that components without effect can be told."""
        known = np.isfinite(self.previous_cost)
        return bool(known and self.previous_cost - self.cost <= FALLING * abs(self.previous_cost))

    @property
    def n_held_back(self) -> int:
        """Number of sweeps without the entries held back."""
        return 0 if self.held_back is None else self.held_back.n_sweeps

    @property
    def effects(self) -> NDArray[np.float64]:
        """Largest change of a prediction by each factor, in standard deviations of the noise."""
        largest = [side.largest().astype(np.float64) for side, _ in self.sides]
        return np.asarray(largest[0] * largest[1] * np.sqrt(self.scale * self.curvature))

    def hold_back(self, problem: Problem, to_grow: bool = False) -> None:
        """Leave out some entries from now on, if there are enough; more of them `to_grow`."""
        self.held_back = HeldBack.of(problem, self.rows, self.cols, to_grow)
        if self.held_back is not None:
            self.weight -= self.held_back.weight

    def grow(self, most_rank: int) -> bool:
        """Ask for more factors, up to `most_rank` in all, if all factors are strong; return whether they are."""
        rank = min(GROWTH * (self.rank + 1) - 1, most_rank, *(side.means.shape[0] for side, _ in self.sides))
        if self.held_back is None or self.n_pruned or rank <= self.rank or not self.effects.min() >= STRONG:
            return False
        rows, cols, held_back = copy(self.rows), copy(self.cols), copy(self.held_back)
        priors = [copy(prior) for prior in self.priors]
        self.smaller = replace(self, rows=rows, cols=cols, priors=priors, held_back=held_back, smaller=None)
        self.rank = rank
        self.held_back.begin_trial()
        return True

    def settle(self, most_rank: int) -> None:
        """Grow if the fit is settled and the last growth, if any, was of use; else put back what is held back."""
        if not (self.is_holding_back and self.decide_growth() and self.is_settled and self.grow(most_rank)):
            self.put_back()

    def gradient(self, problem: Problem) -> Operator:
        """Gradient at the sides' means; without the entries that are to decide about a growth of the rank."""
        gradient, held = problem.gradient(), self.held_back
        if held is None or self.smaller is None:
            return gradient
        return SparsePlusLowRank(gradient, as_operator(-held.slopes(self.loss, self.constant, self.rows, self.cols)))

    def decide_growth(self) -> bool:
        """Undo a growth of the rank after which entries held back are less likely; return whether there was none."""
        smaller, self.smaller = self.smaller, None
        if smaller is None or not self._is_worse_than(smaller):
            return True
        for one in fields(self):
            setattr(self, one.name, getattr(smaller, one.name))
        return False

    def _is_worse_than(self, other: "SweepState") -> bool:
        """Whether entries held back are less likely than in another state, by more than a standard error."""
        here, there = self.held_back, other.held_back
        return here is not None and there is not None and here.is_worse_than(there)

    def put_back(self) -> bool:
        """Sweep over all entries from now on; return whether some were held back. Signs calibrate probabilities."""
        held = self.held_back
        if held is None or not held.limit:
            return False
        if self.loss.link == "logit":
            predicted = held.predicted(self.constant, self.rows, self.cols)
            variances = self.learned(True).posterior(0.0).variance_at(held.rows, held.cols)
            self.odds = OddsCalibration.if_better(predicted, variances, held.targets > 0, held.weights)
        held.limit = 0
        self.weight += held.weight
        return True

    def measure_curvature(self, half: HalfSweep) -> None:
        """Take the mean curvature from a half sweep, if it has any."""
        if half.curvatures > 0:
            self.curvature = half.curvatures / self.weight

    def measure(self) -> None:
        """Compute the loss of the entries held back, if there are any."""
        if self.held_back is not None and self.held_back.limit:
            self.held_back.measure(self.loss, self.settings(True), self.rows, self.cols)

    def learned(
        self,
        uncertain: bool,
        count_power: float = 0.0,
        penalties: tuple[Penalty | None, Penalty | None] = (None, None),
    ) -> Learned:
        """Both sides, their priors and penalties, for the model."""
        priors: list[Any] = [prior.to_arrays() for prior in self.priors] or [None, None]
        rows, cols = (
            LearnedSide(np.asarray(side.means), np.asarray(side.variances), side.precisions, side.offset, *parts)
            for (side, _), *parts in zip(self.sides, priors, penalties, strict=True)
        )
        return Learned(rows, cols, uncertain, self.smoothing, count_power)

    def learn_priors(self, make: "Callable[[SweepState], list[RowPrior]]") -> None:
        """Improve the prior of each side, once there are factors; `make` makes them."""
        if not self.rows.rank:
            return
        if not self.priors:
            self.priors = make(self)
        for prior, (side, other) in zip(self.priors, self.sides, strict=False):
            prior.improve(side, other)

    def place_cold(self, problem: Problem) -> bool:
        """Move rows and columns that have features and no entries, and the point; return whether there are any."""
        if not self.priors or not problem.features or problem.cells is not None:
            return False
        entries = problem.observations, problem.observations.transposed()
        counts = (each.row_weights() for each in entries)
        sides = zip(self.sides, self.priors, counts, strict=True)
        moved = [place_cold(side, prior, n) for (side, _), prior, n in sides if side.features is not None]
        if any(moved):
            self.place(problem)
        return any(moved)

    def weighted_squares(self, k: int, sums: HalfSweep) -> NDArray[np.float64]:
        """Squares that the ridge of side k multiplies: of distances from prior means, and of the prior's weights."""
        if not self.priors:
            return sums.weighted_squares
        side, _ = self.sides[k]
        means, prior_means = (np.asarray(part, np.float64) for part in (side.means, side.prior_means))
        return np.asarray(side.multipliers) @ (means - prior_means) ** 2 + self.priors[k].penalty(side)

    def settings(self, estimate_variances: bool) -> RowSettings:
        """Settings of the row solves."""
        limit = 0 if self.held_back is None else self.held_back.limit
        return RowSettings(self.constant, self.scale, estimate_variances, self.smoothing, limit)

    def is_sound(self, problem: Problem) -> bool:
        """Return whether the sides fit the problem, and all numbers are finite and positive where needed."""
        rank, positive = self.rows.rank, (self.scale, self.curvature, self.weight)
        numbers = np.array([self.constant, self.smoothing, self.spread, *positive])
        sizes = zip((self.rows, self.cols), (problem.engine, problem.engine_of("columns")), problem.shape, strict=True)
        priors = zip(self.priors, self.sides, strict=True) if self.priors else ()
        return (
            all(side.engine is engine and side.is_sound(n, rank, problem.dtype) for side, engine, n in sizes)
            and all(prior.is_sound(side, other) for prior, (side, other) in priors)
            and not np.isnan([self.cost, self.previous_cost]).any()
            and (self.baseline is None or self.baseline.is_sound(problem.shape))
            and (self.held_back is None or self.held_back.is_sound(problem.shape))
            and (self.odds is None or self.odds.is_sound())
            and (self.smaller is None or (self.held_back is not None and self.smaller.is_sound(problem)))
            and 0 <= rank <= self.rank <= max(rank, min(problem.shape))
            and bool(np.isfinite(numbers).all() and (numbers[1:3] >= 0).all() and (numbers[3:] > 0).all())
        )

    def prune(self, least_effect: float) -> None:
        """Remove factors that move no prediction by `least_effect` standard deviations of the noise, except one.

        Nothing is pruned while the loss still falls: the noise is then overestimated, and factors that emerge late
        would be lost.
        """
        if not self.is_steady or not 0 < self.rows.rank == self.rank:
            return
        effects = self.effects
        retained = effects >= least_effect
        retained[effects.argmax()] = True
        self.narrow(retained)
        self.n_pruned += self.rank - self.rows.rank
        self.rank = self.rows.rank

    def narrow(self, retained: NDArray[np.bool_]) -> None:
        """Remove the factors outside the mask `retained` from both sides."""
        if retained.all():
            return
        for k, (side, _) in enumerate(self.sides):
            places = side.narrow(np.flatnonzero(retained))
            if self.priors:
                self.priors[k].narrow(places)

    def place(self, problem: Problem) -> None:
        """Move the problem's point to the sides' means."""
        offsets: Offsets | None = None
        if self.constant or self.rows.offset or self.cols.offset:
            offsets = Offsets.later(self.constant, partial(_offsets, copy(self.rows), copy(self.cols)))
        problem.place(offsets, *(FactorsOf(side.means, side.rank) for side in (self.rows, self.cols)))


class FactorsOf:
    """The factors of a side as an array, made when it is needed from means that may be elsewhere."""

    def __init__(self, means: Array, rank: int) -> None:
        self.means, self.shape = means, (means.shape[0], rank)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.means, dtype)[:, : self.shape[1]]


def _offsets(rows: Side, cols: Side) -> tuple[Array, Array]:
    return rows.offsets, cols.offsets


def stored_spread(problem: Problem) -> float:
    """Standard deviation of the targets as stored; 1 if they are equal."""
    return problem.observations.target_facts().spread / problem.loss.units.unit or 1.0


def place_constant(problem: Problem, constant: float) -> None:
    """Move the problem's point to the same prediction at every entry."""
    no_factors = (np.zeros((size, 0), problem.dtype) for size in problem.shape)
    problem.place(replace(Offsets.zero(problem.shape, problem.dtype), constant=constant), *no_factors)


def best_constant(problem: Problem) -> float:
    """Constant prediction of least value, for a problem at X = 0 without offsets; the middle one if there are several.

    A median of an even number of targets, for example, is any number between two of them.
    """
    ones = [np.ones(size, problem.dtype) for size in problem.shape]
    constant = 0.0
    for sign in (1.0, -1.0):
        nearest, middle = _least(problem, problem.along(sign * ones[0], ones[1]))
        constant += sign * middle
        if nearest > 0:
            break
    return constant


def _least(problem: Problem, phi: PlaneRestriction) -> tuple[float, float]:
    """Smallest weight >= 0 of least value, and the middle of all of them if they are near each other."""

    def least(tilt: float) -> float:
        return phi.best_weight(tilt) if problem.piecewise_linear else bisect(tilted(phi, tilt))[0]

    nearest = least(0.0)
    if problem.smooth or not problem.loss.has_units:
        return nearest, nearest
    spread = stored_spread(problem)
    farthest = least(-FLAT * problem.observations.total_weight * problem.loss.typical(spread, order=1))
    return nearest, 0.5 * (nearest + farthest) if farthest - nearest < spread else nearest


def descending_length(problem: Problem, U: Array, V: Array, s: Array) -> float:
    """Factor 1, 1/2, 1/4, ... of the step ``-U diag(s) V.T`` with which it does not raise the value."""
    phi, length = problem.along(U, V, -s), 1.0
    value = problem.value()
    while length > 1e-9 and not phi(np.array([1.0, length]))[0] <= value:
        length *= 0.5
    return length
