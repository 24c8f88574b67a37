"""Line 5 of Algorithm 2: what happens to the coefficients when a term joins."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .._checks import is_whole
from .._errors import SettingError
from ..objectives import Objective
from .steps import minimise, solve_quadratic
from .validation import need_share, need_smooth

Array = NDArray[Any]


class Refinement(Protocol):
    """A way to join the term ``weight * outer(u, v)`` to X."""

    def check(self, objective: Objective) -> None:
        """Raise if the objective lacks what this refinement needs."""
        ...

    def __call__(self, objective: Objective, u: Array, v: Array, weight: float) -> int:
        """Join the term; return the number of evaluations of f along directions."""
        ...


@dataclass(frozen=True)
class NoRefinement:
    """Keep every coefficient as it was set: the paper's "GLRL w/o coef upd".

    This and the others take the share `shrinkage` of their step, as in boosting; the paper takes all of it.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.solvers.GreedyPursuit(rw.solvers.NoRefinement(shrinkage=0.5)).refine
    NoRefinement(shrinkage=0.5)
    """

    shrinkage: float = 1.0

    def __post_init__(self) -> None:
        """Check the settings."""
        need_share(self.shrinkage)

    def check(self, objective: Objective) -> None:
        """Any convex objective will do."""

    def __call__(self, objective: Objective, u: Array, v: Array, weight: float) -> int:
        """``X = X + weight u v.T``."""
        objective.add(1.0, self.shrinkage * weight, u, v)
        return 0


@dataclass(frozen=True)
class Economic:
    """Refit two numbers, Eq. 7: a factor for all that was there, and the new term's weight (EGLRL).

    Exact under the square loss (economic R1MP); otherwise at most `max_iter` L-BFGS iterations, started from Line 4's
    point so that Proposition 1 holds. Costs O(n_observed) per evaluation, whatever the rank.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.solvers.GreedyPursuit(rw.solvers.Economic(max_iter=10)).refine
    Economic(max_iter=10, shrinkage=1.0)
    """

    max_iter: int = 5
    shrinkage: float = 1.0

    def __post_init__(self) -> None:
        """Check the settings."""
        need_iterations(self.max_iter, "Economic")
        need_share(self.shrinkage)

    def check(self, objective: Objective) -> None:
        """Needs a smooth objective."""
        need_smooth(objective, 'refine="economic"')

    def __call__(self, objective: Objective, u: Array, v: Array, weight: float) -> int:
        """``X = shrink X + weight u v.T`` with both numbers refitted."""
        phi, start = objective.along(u, v), np.array([1.0, weight])
        if objective.quadratic:
            (shrink, weight), n_evaluations = solve_quadratic(phi, start)
        else:
            scale = np.array([1.0 if objective.point.rank else 0.0, abs(weight)])
            (shrink, weight), n_evaluations = minimise(phi, start, scale, self.max_iter)
        share = self.shrinkage
        objective.add(1.0 - share + share * shrink, share * weight, u, v)  # a share of 1 changes no bit
        return n_evaluations


@dataclass(frozen=True)
class Coefficients:
    """Refit the coefficients of all terms, Eq. 6 (GLRL).

    Exact under the square loss, where it is R1MP; otherwise at most `max_iter` L-BFGS iterations, started from
    Line 4's point so that Proposition 1 holds. Costs O(rank n_observed) per evaluation. The paper needs "fewer than
    five" iterations; one comes closest to its held-out accuracy, and more overfit (benchmarks/bench_lbfgs.py).

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.solvers.GreedyPursuit(rw.solvers.Coefficients(max_iter=5)).refine
    Coefficients(max_iter=5, shrinkage=1.0)
    """

    max_iter: int = 1
    shrinkage: float = 1.0

    def __post_init__(self) -> None:
        """Check the settings."""
        need_iterations(self.max_iter, "Coefficients")
        need_share(self.shrinkage)

    def check(self, objective: Objective) -> None:
        """Needs a smooth objective."""
        need_smooth(objective, 'refine="coefficients"')

    def __call__(self, objective: Objective, u: Array, v: Array, weight: float) -> int:
        """``X = X + weight u v.T``, then all of theta refitted."""
        before = np.append(objective.point.theta, 0.0)
        objective.add(1.0, weight, u, v)
        phi, start = objective.along_terms(), objective.point.theta.copy()
        if objective.quadratic:
            theta, n_evaluations = solve_quadratic(phi, start)
        else:
            theta, n_evaluations = minimise(phi, start, np.full_like(start, abs(weight)), self.max_iter)
        objective.replace(theta if self.shrinkage == 1 else before + self.shrinkage * (theta - before))
        return n_evaluations


def need_iterations(max_iter: Any, name: str) -> None:
    """Raise unless `max_iter` is a whole number of at least one."""
    if not is_whole(max_iter) or max_iter < 1:
        raise SettingError(f"{name} needs max_iter to be an integer of at least 1, got {max_iter!r}.")


BY_NAME: dict[str, type[Any]] = {"none": NoRefinement, "economic": Economic, "coefficients": Coefficients}


def get(refine: Any, shrinkage: float = 1.0) -> Refinement:
    """Return a refinement itself, or the one of that name that takes the share `shrinkage` of its steps."""
    if isinstance(refine, str):
        if refine not in BY_NAME:
            raise SettingError(f"Unknown refinement {refine!r}: use one of {', '.join(BY_NAME)}.")
        named: Refinement = BY_NAME[refine](shrinkage=shrinkage)
        return named
    if not callable(refine) or not hasattr(refine, "check"):
        raise SettingError(f"`refine` must be one of {', '.join(BY_NAME)} or a refinement object, got {refine!r}.")
    if shrinkage != 1:
        raise SettingError(f"`shrinkage` is for named refinements; give {shrinkage!r} to the refinement itself.")
    given: Refinement = refine
    return given
