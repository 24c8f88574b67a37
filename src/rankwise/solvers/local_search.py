"""Local search: a pursuit to the wanted rank, then exchanges of components that lower the value."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from .. import spectral
from .._errors import SettingError
from ..losses.units import Units
from ..objectives import Movable
from .base import NamedSolver, Solver
from .cores import Core, Iterate, add_pair
from .geco import GECO
from .history import StepReport
from .nonsmooth import NonsmoothState
from .steps import minimise
from .validation import MOVABLE, SMOOTH, Need, need_count

LOWER = 1e-7  # smallest relative decrease of the value for which an exchange is kept


@dataclass
class LocalState:
    """State of a local search between two steps."""

    rank: int  # the wanted one
    pursuit: Any  # state of the pursuit
    n_swaps: int = 0  # exchanges kept


@dataclass(frozen=True)
class LocalSearch(Solver[Movable, LocalState]):
    """Run a pursuit to the wanted rank, then exchange components for the gradient's top pair while the value falls.

    Objective: any smooth f. Cost per step: O(rank n_observed + rank**2 (n_rows + n_cols)) per evaluation. Rate: with a
    restricted condition number k, the value is within e of the best one of rank r from a rank of O(r k log(1/e)) on.
    Reference: Axiotis and Sviridenko, ICML 2021.

    An exchange adds the gradient's top singular pair and refits the core of rank + 1, then removes the smallest
    component and refits again; one that does not lower the value is undone and ends the run. So the value is never
    above the pursuit's own at this rank. The paper removes first and adds then, which is kept less often.

    Parameters
    ----------
    pursuit : solver that grows, default=GECO()
        `GreedyPursuit`, `GECO` or `NonsmoothPursuit`, with their settings.
    polish : int, optional
        Largest number of exchanges after the pursuit. By default as many as lower the value, to `tol` of `solve`.
    n_lbfgs : int, default=50
        Largest number of L-BFGS iterations per refit of the core.
    oracle : {"power", "lanczos", "dense"} or oracle object, default="power"
    max_iter : int or None, default=1000
        Default limit on the number of steps, those of the pursuit included.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=4, density=0.5).observations
    >>> problem = rw.Problem(seen, "square")
    >>> glrl = rw.solvers.GreedyPursuit("coefficients")
    >>> polished = rw.solve(problem, rw.solvers.LocalSearch(glrl, polish=3), rank=4)
    >>> print(polished.history[-1].value < rw.solve(problem, glrl, rank=4).history[-1].value)
    True
    """

    pursuit: Solver[Any, Any] = field(default_factory=GECO)
    polish: int | None = None
    n_lbfgs: int = 50
    oracle: str | spectral.Oracle = "power"
    max_iter: int | None = 1000
    grows: ClassVar[bool] = False
    keeps_path: ClassVar[bool] = False
    compares_values: ClassVar[bool] = True
    state_types: ClassVar[tuple[type, ...]] = (LocalState, NonsmoothState)
    _oracle: spectral.Oracle = field(init=False, repr=False, compare=False)

    @classmethod
    def methods(cls) -> dict[str, NamedSolver]:
        """Return the search from GECO's point."""
        return {"local-search": NamedSolver(cls(), "GECO, then components exchanged while the value falls")}

    @property
    def needs(self) -> tuple[Need, ...]:
        """A smooth objective that can move, and what the pursuit needs."""
        return (SMOOTH, MOVABLE, *self.pursuit.needs)

    def __post_init__(self) -> None:
        """Check the settings and replace the oracle's name by an object."""
        if not (isinstance(self.pursuit, Solver) and self.pursuit.grows):
            raise SettingError(f"`pursuit` must be a pursuit such as GECO() or GreedyPursuit(), got {self.pursuit!r}.")
        need_count("polish", self.polish, optional=True)
        need_count("n_lbfgs", self.n_lbfgs)
        object.__setattr__(self, "_oracle", spectral.get(self.oracle))

    def in_units(self, units: Units) -> "LocalSearch":
        """Return the solver with its pursuit's parameters in stored units."""
        return replace(self, pursuit=self.pursuit.in_units(units))

    def init(self, objective: Movable, rank: int) -> LocalState:
        """Start the pursuit."""
        return LocalState(rank, self.pursuit.init(objective, rank))

    def accepts(self, objective: Movable, state: object) -> bool:
        """Return whether the state is one of this search."""
        if not isinstance(state, LocalState) or not (state.rank >= 1 and state.n_swaps >= 0):
            return False
        return self.pursuit.accepts(objective, state.pursuit)

    def step(self, objective: Movable, rng: Generator, state: LocalState) -> StepReport:
        """Grow by a step of the pursuit, or exchange a component."""
        if objective.point.rank < state.rank:
            return self.pursuit.step(objective, rng, state.pursuit)._replace(settled=False)
        return self._exchange(objective, rng, state)

    def _exchange(self, objective: Movable, rng: Generator, state: LocalState) -> StepReport:
        """Add the top pair, remove the smallest component of the refitted core, and refit; undo it if not lower."""
        before, value = Iterate.of(objective), objective.value()
        report = add_pair(objective, self._oracle, self.n_lbfgs, rng)
        if report.inner_rank == 0:
            return report
        X = Iterate.of(objective).leading(before.s.size)
        objective.move(X.s, X.U, X.V)
        core = Core(objective, X.U[:, :0], X.V[:, :0])
        start = core.start(np.zeros(0))
        c, used = minimise(core, start, np.full_like(start, X.s[-1]), self.n_lbfgs)
        core.move(c)
        report = report._replace(n_evaluations=report.n_evaluations + used, stop=None)
        if value - LOWER * abs(value) <= objective.value() < np.inf:
            objective.move(before.s, before.U, before.V)
            stop = ("converged", f"No exchange lowers the value at rank {before.s.size}.")
            return report._replace(settled=False, stop=stop)
        state.n_swaps += 1
        if state.n_swaps == self.polish:
            return report._replace(stop=("polish", f"Made {self.polish} exchanges at rank {before.s.size}."))
        return report
