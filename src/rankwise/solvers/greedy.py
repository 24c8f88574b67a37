"""Greedy low-rank learning: Algorithm 2 of the paper, and Algorithm 1 (R1MP) as its square-loss case."""

from dataclasses import dataclass, field

from numpy.random import Generator

from .. import spectral
from ..model import LowRankModel
from ..objectives import Objective
from . import refine as refinements
from .base import NamedSolver, Solver
from .history import StepReport
from .resume import resume_path
from .steps import first_weight
from .validation import QUADRATIC, Need


@dataclass(frozen=True)
class GreedyPursuit(Solver[Objective, None]):
    """Add the gradient's top singular pair, refit coefficients, repeat.

    Objective: any convex f. Cost per step: O(n_observed) without or with economic refinement, O(rank n_observed)
    with all coefficients. Rate: O(1/T), linear if f is strongly convex or the square loss (Theorems 1 to 3).
    Reference: Yao and Kwok, IJCAI 2016; under the square loss Wang et al., ICML 2014.

    Parameters
    ----------
    refine : {"none", "economic", "coefficients"} or refinement object, default="economic"
        Coefficients refitted in line 5: none, the two numbers of Eq. 7, or all, Eq. 6.
    oracle : {"power", "lanczos", "dense"} or oracle object, default="power"
        The paper's rank1SVD; "power" is its 30 power iterations.
    shrinkage : float, default=1
        Fraction of each step that is taken, as in boosting; below 1 the path overfits later. Only for a refinement
        given by name.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> pursuit = rw.solvers.GreedyPursuit("coefficients", oracle="lanczos")
    >>> print(rw.solve(rw.Problem(seen, "square"), pursuit, rank=3).model.rank)
    3
    """

    refine: str | refinements.Refinement = "economic"
    oracle: str | spectral.Oracle = "power"
    shrinkage: float = 1.0
    _refine: refinements.Refinement = field(init=False, repr=False, compare=False)
    _oracle: spectral.Oracle = field(init=False, repr=False, compare=False)

    @classmethod
    def methods(cls) -> dict[str, NamedSolver]:
        """Return the paper's variants: R1MP is GLRL under the square loss."""
        r1mp, glrl = "rank-one matrix pursuit, square loss", "greedy low-rank learning"
        every, two = "all coefficients refitted", "two numbers refitted"
        return {
            "r1mp": NamedSolver(cls("coefficients"), f"{r1mp}, {every}", (QUADRATIC,)),
            "r1mp-economic": NamedSolver(cls("economic"), f"{r1mp}, {two}", (QUADRATIC,)),
            "glrl": NamedSolver(cls("coefficients"), f"{glrl}, any smooth loss, {every}"),
            "eglrl": NamedSolver(cls("economic"), f"{glrl}, any smooth loss, {two}"),
            "glrl-none": NamedSolver(cls("none"), f"{glrl}, any convex loss, nothing refitted"),
        }

    @property
    def needs(self) -> tuple[Need, ...]:
        """Requirements of the refinement."""
        return self._refine.needs

    def __post_init__(self) -> None:
        """Replace names by objects."""
        object.__setattr__(self, "_refine", refinements.get(self.refine, self.shrinkage))
        object.__setattr__(self, "_oracle", spectral.get(self.oracle))

    def init(self, objective: Objective, rank: int) -> None:
        """Line 1: X = 0."""
        objective.reset()

    def resume(self, objective: Objective, rank: int, start: LowRankModel) -> None:
        """Move to the longest model of the path."""
        resume_path(objective, rank, start, type(self).__name__)

    def step(self, objective: Objective, rng: Generator, state: None) -> StepReport:
        """Lines 3 to 5 of Algorithm 2: one more rank-one term."""
        gradient = objective.gradient()
        u, sigma, v, n_products = self._oracle(gradient, rng=rng)  # line 3
        if gradient.norm == 0.0:  # the squares of the entries underflow
            sigma = 0.0
        weight, n_evaluations = first_weight(objective, u, sigma, v) if sigma > 0 else (0.0, 0)  # line 4
        if weight != 0.0:
            n_evaluations += self._refine(objective, u, v, weight)  # line 5
        return StepReport(sigma, gradient.norm, gradient.inner, n_products, n_evaluations, int(weight != 0.0))
