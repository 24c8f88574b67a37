"""Greedy low-rank learning for smooth objectives: Algorithm 2 of the paper, and Algorithm 1 as its square-loss case."""

from dataclasses import dataclass, field
from typing import Any

from numpy.random import Generator

from .. import spectral
from ..model import LowRankModel
from ..objectives import Objective
from . import refine as refinements
from .base import Solver
from .history import StepReport
from .resume import resume_path
from .steps import first_weight


@dataclass(frozen=True)
class GreedyPursuit(Solver):
    """Add the gradient's top singular pair, refit coefficients, repeat.

    Objective: any convex f. Cost per step: O(n_observed) without or with economic refinement, O(rank n_observed)
    with all coefficients. Rate: O(1/T), linear if f is strongly convex or the square loss (Theorems 1 to 3).
    Reference: Yao and Kwok, IJCAI 2016; under the square loss Wang et al., ICML 2014.

    Parameters
    ----------
    refine : {"none", "economic", "coefficients"} or refinement object, default="economic"
        Line 5: nothing, the two numbers of Eq. 7, or all coefficients, Eq. 6.
    oracle : {"power", "lanczos", "dense"} or oracle object, default="power"
        The paper's rank1SVD; "power" is its 30 power iterations.
    shrinkage : float, default=1
        Share of every step that is taken, as in boosting; below 1 the path overfits later. For a named refinement.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> pursuit = rw.solvers.GreedyPursuit("coefficients", oracle="lanczos")
    >>> print(rw.solve(rw.Problem(seen, "square"), pursuit, rank=3).model.rank)
    3
    """

    refine: Any = "economic"
    oracle: Any = "power"
    shrinkage: float = 1.0
    _refine: Any = field(init=False, repr=False, compare=False)
    _oracle: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Turn names into objects."""
        object.__setattr__(self, "_refine", refinements.get(self.refine, self.shrinkage))
        object.__setattr__(self, "_oracle", spectral.get(self.oracle))

    def init(self, objective: Objective, rank: int) -> None:
        """Line 1: X = 0; before it, refuse an objective that the refinement cannot take."""
        self._refine.check(objective)
        objective.reset()

    def resume(self, objective: Objective, rank: int, start: LowRankModel) -> None:
        """The end of the path so far."""
        self._refine.check(objective)
        resume_path(objective, rank, start, type(self).__name__)

    def step(self, objective: Objective, rng: Generator, state: None) -> StepReport:
        """Lines 3 to 5: one more rank-one term."""
        gradient = objective.gradient()
        u, sigma, v, n_products = self._oracle(gradient, rng=rng)
        if gradient.norm == 0.0:  # what is left of it vanishes in its own square
            sigma = 0.0
        weight, tried = first_weight(objective, u, sigma, v) if sigma > 0 else (0.0, 0)
        if weight != 0.0:
            tried += self._refine(objective, u, v, weight)
        return StepReport(sigma, gradient.norm, gradient.inner, n_products, tried, int(weight != 0.0))
