"""Line 5 of Algorithm 2: which coefficients are refitted when a term is added."""

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from .._arrays import Array
from .._checks import one_of
from .._errors import SettingError
from ..objectives import Objective
from .steps import minimise, solve_quadratic
from .validation import SMOOTH, Need, need_count, need_share


@runtime_checkable
class Refinement(Protocol):
    """Adds the term ``weight * outer(u, v)`` to X and refits coefficients."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """Requirements on the objective."""

    def __call__(self, objective: Objective, u: Array, v: Array, weight: float) -> int:
        """Add the term; return the number of evaluations of f along directions."""


@dataclass(frozen=True)
class NoRefinement:
    """Refit no coefficient: the paper's "GLRL w/o coef upd".

    Parameters
    ----------
    shrinkage : float, default=1
        Fraction of each step that is taken, as in boosting; 1 as in the paper.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.solvers.GreedyPursuit(rw.solvers.NoRefinement(shrinkage=0.5)).refine
    NoRefinement(shrinkage=0.5)
    """

    needs: ClassVar[tuple[Need, ...]] = ()
    shrinkage: float = 1.0

    def __post_init__(self) -> None:
        need_share(self.shrinkage)

    def __call__(self, objective: Objective, u: Array, v: Array, weight: float) -> int:
        """Set ``X = X + weight u v.T``."""
        objective.add(1.0, self.shrinkage * weight, u, v)
        return 0


@dataclass(frozen=True)
class Economic:
    """Refit two numbers, Eq. 7: a common factor of all earlier terms, and the new term's weight (EGLRL).

    Exact under the square loss (economic R1MP); otherwise at most `max_iter` L-BFGS iterations, started from line 4's
    point so that Proposition 1 holds. Costs O(n_observed) per evaluation, at any rank.

    Parameters
    ----------
    max_iter : int, default=5
    shrinkage : float, default=1
        Fraction of each step that is taken, as in boosting; 1 as in the paper.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.solvers.GreedyPursuit(rw.solvers.Economic(max_iter=10)).refine
    Economic(max_iter=10, shrinkage=1.0)
    """

    needs: ClassVar[tuple[Need, ...]] = (SMOOTH,)
    max_iter: int = 5
    shrinkage: float = 1.0

    def __post_init__(self) -> None:
        need_count("max_iter", self.max_iter)
        need_share(self.shrinkage)

    def __call__(self, objective: Objective, u: Array, v: Array, weight: float) -> int:
        """Set ``X = shrink X + weight u v.T`` with both numbers refitted."""
        phi, start = objective.along(u, v), np.array([1.0, weight])
        if objective.quadratic:
            (shrink, weight), n_evaluations = solve_quadratic(phi, start)
        else:
            scale = np.array([1.0 if objective.point.rank else 0.0, abs(weight)])
            (shrink, weight), n_evaluations = minimise(phi, start, scale, self.max_iter)
        share = self.shrinkage
        objective.add(1.0 - share + share * shrink, share * weight, u, v)  # exact for a share of 1
        return n_evaluations


@dataclass(frozen=True)
class Coefficients:
    """Refit the coefficients of all terms, Eq. 6 (GLRL).

    Exact under the square loss, where it is R1MP; otherwise at most `max_iter` L-BFGS iterations, started from
    line 4's point so that Proposition 1 holds. Costs O(rank n_observed) per evaluation.

    Parameters
    ----------
    max_iter : int, default=1
        The paper uses "fewer than five" iterations; one comes closest to its held-out accuracy, and more overfit
        (benchmarks/bench_lbfgs.py).
    shrinkage : float, default=1
        Fraction of each step that is taken, as in boosting; 1 as in the paper.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.solvers.GreedyPursuit(rw.solvers.Coefficients(max_iter=5)).refine
    Coefficients(max_iter=5, shrinkage=1.0)
    """

    needs: ClassVar[tuple[Need, ...]] = (SMOOTH,)
    max_iter: int = 1
    shrinkage: float = 1.0

    def __post_init__(self) -> None:
        need_count("max_iter", self.max_iter)
        need_share(self.shrinkage)

    def __call__(self, objective: Objective, u: Array, v: Array, weight: float) -> int:
        """Set ``X = X + weight u v.T``, then refit all of theta."""
        before = np.append(objective.point.theta, 0.0)
        objective.add(1.0, weight, u, v)
        phi, start = objective.along_terms(), objective.point.theta.copy()
        if objective.quadratic:
            theta, n_evaluations = solve_quadratic(phi, start)
        else:
            theta, n_evaluations = minimise(phi, start, np.full_like(start, abs(weight)), self.max_iter)
        objective.replace(theta if self.shrinkage == 1 else before + self.shrinkage * (theta - before))
        return n_evaluations


REFINEMENTS: dict[str, type[NoRefinement | Economic | Coefficients]] = {
    "none": NoRefinement,
    "economic": Economic,
    "coefficients": Coefficients,
}


def get(refine: str | Refinement, shrinkage: float = 1.0) -> Refinement:
    """Return a refinement itself, or the one of that name with this `shrinkage`."""
    if isinstance(refine, str) and refine in REFINEMENTS:
        return REFINEMENTS[refine](shrinkage=shrinkage)
    if not isinstance(refine, Refinement):
        raise SettingError(f"`refine` must be {one_of(REFINEMENTS)}, or a refinement object, got {refine!r}.")
    if shrinkage != 1:
        raise SettingError(
            f"`shrinkage` applies to a refinement given by name, got {shrinkage!r} beside {refine!r}; give it to the "
            "refinement object."
        )
    return refine
