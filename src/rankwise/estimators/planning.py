"""Resolution of an estimator's parameters into a loss, an objective, a solver and a rank."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from .. import losses
from .._checks import check_choice, is_number
from .._errors import SettingError
from ..kernels.lanes import padded
from ..losses import Loss
from ..losses.units import WIDEST, Units
from ..model import Everywhere, LowRankModel
from ..objectives import Objective, Problem
from ..observations import AnyEntries, Features, need_in_memory
from ..selection import Choice, choose_rank, choose_ridge
from ..solvers import BayesSweeps, FactorSweeps, Solver, fit_offsets, get
from ..solvers.sweep_state import OFFSETS
from ..solvers.units import ridged

MAX_CHOSEN_RANK = 100  # largest rank that rank="auto" tries with a pursuit
MAX_FACTORS = 31  # largest rank that rank="auto" starts from with BayesSweeps
MAX_ADDED = 8  # components that a warm start with rank="auto" may add
FACTORS_RANK = 16  # rank="auto" of FactorSweeps
PRUNE_BELOW = 0.1  # least effect, in standard deviations of the noise, of components that rank="auto" keeps
RIDGES = tuple(float(2**k) for k in range(7, -5, -1))  # tried by ridge="auto", times `ridge_units`
Method = str | Solver[Any, Any]
SweepsT = TypeVar("SweepsT", BayesSweeps, FactorSweeps)


class Plan(NamedTuple):
    """Solver and rank of a fit, and the validation scores they were chosen by, if any were."""

    method: Method
    rank: int
    choice: Choice | None = None


@dataclass(frozen=True)
class FitRequest:
    """Parameters of one fit, the loss resolved; `start` is the model of a warm start."""

    loss: Loss
    method: Method
    rank: int | str
    offsets: str
    ridge: float | str | None
    max_iter: int | None
    dtype: DTypeLike
    n_jobs: int | None
    seed: int
    start: LowRankModel | None = None
    everywhere: Everywhere | None = None
    features: Mapping[str, Features] | None = None

    def objective(self, entries: AnyEntries) -> Objective:
        """Return the objective over `entries`.

        Sweeps fit offsets and ridge themselves. For other solvers, the offsets are fitted first and stay fixed, and the
        ridge is added as ``ridge / 2 * ||X||_F**2``.
        """
        solver = get(self.method)
        sweeps = isinstance(solver, BayesSweeps | FactorSweeps)
        offsets = solver.default_offsets if self.offsets == "auto" and not sweeps else self.offsets
        fits_none = offsets == "none" or (sweeps and self.offsets == "auto" and not solver.has_constant)
        loss = self.loss.in_units(Units.of(self.loss, entries, level=not fits_none))
        dtype = np.float64 if solver.compares_values else self.dtype
        options: dict[str, Any] = {"everywhere": self.everywhere, "features": self.features}
        problem = Problem(entries, loss, dtype=dtype, n_jobs=self.n_jobs, **options)
        get(self.method, problem)  # raises if it cannot solve the problem
        if sweeps:
            return problem
        if offsets != "none":
            problem.fix_offsets(fit_offsets(problem, offsets))
        return ridged(problem, float(self.ridge)) if self.ridge else problem

    def plan(self, entries: AnyEntries) -> Plan:
        """Return solver and rank, chosen on held-out entries where the parameters ask for that."""
        solver = get(self.method)
        self._check(solver)
        if isinstance(solver, BayesSweeps):
            return self._plan_bayes(solver, entries)
        if isinstance(solver, FactorSweeps):
            return self._plan_factors(solver, entries)
        if not isinstance(self.rank, str):
            return Plan(self.method, self.rank)
        if not solver.grows:
            raise SettingError(f"`rank` must be an integer with method={self.method!r}, which works at a fixed rank.")
        observations = need_in_memory(entries, 'rank="auto"', "give `rank` as a number")
        choice = choose_rank(
            observations,
            self.objective,
            self.method,
            longest=min(MAX_CHOSEN_RANK, *observations.shape),
            loss=self.loss,
            random_state=self.seed,
        )
        return Plan(self.method, int(choice.best), choice)

    def _check(self, solver: Solver[Any, Any]) -> None:
        """Raise `SettingError` for values that no solver takes, and for settings that a solver object has itself."""
        if self.rank != "auto" if isinstance(self.rank, str) else not self.rank >= 1:
            raise SettingError(f"`rank` must be a positive integer or 'auto', got {self.rank!r}.")
        check_choice("offsets", self.offsets, ("auto", *OFFSETS))
        if isinstance(solver, BayesSweeps) and self.ridge is not None:
            raise SettingError(
                f'`ridge` must be None with method="bayes", which estimates it, got {self.ridge!r}; use '
                'method="factors" for a given ridge.'
            )
        if isinstance(solver, FactorSweeps) and self.method is solver and self.ridge not in (None, "auto"):
            raise SettingError(
                f"`ridge` must be None or 'auto' if `method` is a solver that has `ridge` itself, got {self.ridge!r}; "
                "set it in `FactorSweeps(ridge=...)`."
            )
        sweeps = isinstance(solver, BayesSweeps | FactorSweeps)
        if self.features and not sweeps:
            raise SettingError(
                f'Features of rows and columns require method="bayes" or "factors", got {self.method!r}.'
            )
        if not sweeps and self.ridge is not None and not (is_number(self.ridge) and 0 <= float(self.ridge) < np.inf):
            raise SettingError(f"`ridge` must be a number of at least zero or None, got {self.ridge!r}.")

    def _with_offsets(self, solver: SweepsT) -> SweepsT:
        """Return the solver with the requested offsets; "auto" keeps its own."""
        return solver if self.offsets == "auto" else replace(solver, offsets=self.offsets)

    def _plan_bayes(self, solver: BayesSweeps, entries: AnyEntries) -> Plan:
        """rank="auto" starts from a number of components, prunes those of negligible effect, and may add others."""
        solver = self._with_offsets(solver)
        if not isinstance(self.rank, str):
            return Plan(solver, self.rank)
        solver = replace(solver, least_effect=solver.least_effect or PRUNE_BELOW)
        bound = min(most_factors(entries), *entries.shape)
        if self.start is not None and self.start.learned is not None:
            known = self.start.learned.rank
            bound = max(known, min(bound, known + MAX_ADDED))
        elif bound == MAX_FACTORS:
            solver = replace(solver, most_rank=solver.most_rank or highest_rank(entries))
        return Plan(solver, bound)

    def _plan_factors(self, solver: FactorSweeps, entries: AnyEntries) -> Plan:
        """A ridge that is not given is chosen on held-out entries, or kept from the model of a warm start."""
        rank = min(FACTORS_RANK, *entries.shape) if isinstance(self.rank, str) else self.rank
        unit, offset_unit = ridge_units(self.loss, entries)
        solver = self._with_offsets(solver)
        if isinstance(self.method, str):
            solver = replace(solver, offset_ridge=offset_unit * solver.offset_ridge)
            if self.ridge not in (None, "auto"):
                return Plan(replace(solver, ridge=self.ridge), rank)  # type: ignore[arg-type]
        elif self.ridge is None:
            return Plan(solver, rank)
        if self.start is not None and self.start.learned is not None:
            return Plan(replace(solver, ridge=float(self.start.learned.rows.precisions[0])), rank)
        if self.everywhere is not None:
            raise SettingError(
                "`ridge` must be a number if `everywhere` is given, because observed entries alone do not tell how "
                "absent ones rank; set it, or use ImplicitFactorization for clicks, which chooses it by rankings."
            )
        observations = need_in_memory(entries, 'ridge="auto"', "give `ridge` as a number")
        per_row = observations.n_observed / observations.shape[0]
        choice = choose_ridge(
            observations,
            self.objective,
            lambda ridge: replace(solver, ridge=ridge),
            ridges=[unit * ridge / per_row**solver.count_power for ridge in RIDGES],
            rank=rank,
            loss=self.loss,
            max_iter=self.max_iter,
            random_state=self.seed,
        )
        return Plan(replace(solver, ridge=choice.best), rank, choice)


def resolve_loss(loss: str | Loss, entries: AnyEntries, method: Method, everywhere: Everywhere | None = None) -> Loss:
    """Return the loss object; "auto" depends on the targets and the method.

    With a term of all cells and equal targets, such as those of clicks, it is square, as that of the term. Else it is
    logistic for targets of -1 and +1, Bernoulli for 0 and 1, else Huber's for BayesSweeps, else square.
    Huber's loss becomes linear at 1.345 standard deviations of the targets, where it has 95 % of the efficiency of the
    square loss under normal noise; on MovieLens 1M it lowers RMSE by 0.002 and MAE by 0.003 (docs/constants.md).
    """
    if not (isinstance(loss, str) and loss == "auto"):
        return losses.get(loss)
    facts = entries.target_facts()
    if everywhere is not None and facts.spread == 0:
        return losses.get("square")
    if facts.signs:
        return losses.Logistic()
    if facts.zero_one:
        return losses.Bernoulli()
    if facts.spread == 0 or not isinstance(get(method), BayesSweeps):
        return losses.get("square")
    return losses.Huber(1.345 * facts.spread)


def ridge_units(loss: Loss, entries: AnyEntries) -> tuple[float, float]:
    """Return units of the ridges of factors and of offsets, so that fits do not depend on the unit of the targets.

    With u the standard deviation of the targets: squared factors scale as u and squared offsets as u squared. A loss
    like the square scales as u squared, the piecewise-linear losses as u.
    """
    spread = entries.target_facts().spread if loss.has_units else 0.0
    if not 1 / WIDEST < spread < WIDEST:  # zero, or refused by `Units`
        return 1.0, 1.0
    loss = loss.measured(entries)
    return loss.typical(spread, order=1), loss.typical(spread, order=2)


def most_factors(entries: AnyEntries) -> int:
    """Return an upper bound on the rank: the mean number of entries per row, or per column if there are more columns.

    Rounded up so that with the offset they fill whole SIMD registers of eight numbers; at most 31.
    """
    per_row = entries.n_observed // max(entries.shape)
    return min(MAX_FACTORS, padded(max(per_row, 1)) - 1)


def highest_rank(entries: AnyEntries) -> int:
    """Return a bound on the rank of a fit that adds components: 1.5 times the mean number of entries per row.

    It is that of the longer side, so that the factors need at most a small multiple of the memory of the entries.
    """
    return min(padded(3 * entries.n_observed // (2 * max(entries.shape))) - 1, *entries.shape)
