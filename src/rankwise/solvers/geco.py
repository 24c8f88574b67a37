"""Greedy efficient component optimization: a pursuit that refits the whole core between its two bases."""

from dataclasses import dataclass, field
from typing import ClassVar

from numpy.random import Generator

from .. import spectral
from ..objectives import Movable
from .base import NamedSolver, Solver
from .cores import add_pair
from .history import StepReport
from .validation import MOVABLE, SMOOTH, Need, need_count


@dataclass(frozen=True)
class GECO(Solver[Movable, None]):
    """Add the gradient's top singular pair, then refit the rank x rank core between the two orthonormal bases.

    Objective: any smooth f. Cost per step: O(rank n_observed + rank**2 (n_rows + n_cols)) per evaluation. Rate: as
    the pursuit's, since the core contains its coefficients. Reference: Shalev-Shwartz, Gonen and Shamir, ICML 2011.

    Parameters
    ----------
    n_lbfgs : int, default=50
        Largest number of L-BFGS iterations on the core per step.
    oracle : {"power", "lanczos", "dense"} or oracle object, default="power"

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> print(rw.solve(rw.Problem(seen, "square"), rw.solvers.GECO(), rank=2).model.rank)
    2
    """

    n_lbfgs: int = 50
    oracle: str | spectral.Oracle = "power"
    keeps_path: ClassVar[bool] = False
    compares_values: ClassVar[bool] = True
    _oracle: spectral.Oracle = field(init=False, repr=False, compare=False)

    @classmethod
    def methods(cls) -> dict[str, NamedSolver]:
        """Return the method with its default settings."""
        return {"geco": NamedSolver(cls(), "greedy, any smooth loss, the whole core refitted")}

    @property
    def needs(self) -> tuple[Need, ...]:
        """A smooth objective that can move."""
        return (SMOOTH, MOVABLE)

    def __post_init__(self) -> None:
        """Check the settings and replace the oracle's name by an object."""
        need_count("n_lbfgs", self.n_lbfgs)
        object.__setattr__(self, "_oracle", spectral.get(self.oracle))

    def init(self, objective: Movable, rank: int) -> None:
        """X = 0."""
        objective.reset()

    def step(self, objective: Movable, rng: Generator, state: None) -> StepReport:
        """Add one direction to each basis, then refit the core."""
        return add_pair(objective, self._oracle, self.n_lbfgs, rng)
