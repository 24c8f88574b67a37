"""The solvers by name, as their classes declare them."""

from typing import Any

from .._checks import one_of
from .._errors import SettingError
from .active import ActiveSubspace
from .admm import ADMM
from .altmin import AltMin
from .base import NamedSolver, Solver
from .boosting import Boosting
from .factor_sweeps import FactorSweeps
from .frank_wolfe import FrankWolfe
from .geco import GECO
from .greedy import GreedyPursuit
from .local_search import LocalSearch
from .nonsmooth import NonsmoothPursuit
from .nuclear import AISImpute
from .scaled_svd import ScaledSVD
from .sweeps import BayesSweeps
from .validation import check_needs
from .wiberg import Wiberg

SOLVERS: tuple[type[Solver[Any, Any]], ...] = (
    *(BayesSweeps, FactorSweeps, GreedyPursuit, NonsmoothPursuit),
    *(AISImpute, AltMin, ADMM, Wiberg, GECO, LocalSearch, Boosting, ActiveSubspace, FrankWolfe, ScaledSVD),
)
METHODS: dict[str, NamedSolver] = {name: method for solver in SOLVERS for name, method in solver.methods().items()}


def get(method: str | Solver[Any, Any], objective: object = None) -> Solver[Any, Any]:
    """Return a solver itself, or the one of that name; raise if the objective does not meet its needs.

    Parameters
    ----------
    method : str or Solver
        A name in `METHODS`, or a solver, which may be an instance of your own subclass of `Solver`.
    objective : Objective, optional
        Checked against the needs of the solver.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.solvers.get("eglrl")
    GreedyPursuit(refine='economic', oracle='power', shrinkage=1.0)
    """
    if isinstance(method, str):
        if method not in METHODS:
            raise SettingError(f"`method` must be {one_of(METHODS)}, or a solver, got {method!r}.")
        solver, _, needs = METHODS[method]
        who = f'method="{method}"'
    elif isinstance(method, Solver):
        solver, needs, who = method, (), type(method).__name__
    else:
        raise SettingError(f"`method` must be a name or a solver, got {type(method).__name__}.")
    if objective is not None:
        check_needs(objective, (*solver.needs, *needs), who)
    return solver
