"""Active subspace selection: proximal steps in the span of X and of its own proximal gradient step."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from .._arrays import Array
from ..objectives import Movable
from ..spectral import LowRank, SparsePlusLowRank, as_operator, block_svd
from .base import NamedSolver
from .cores import NEGLIGIBLE, Core, proximal_steps
from .duality import Top
from .nuclear import start_block
from .penalty import NuclearNormSolver, PenaltyState
from .validation import LIPSCHITZ, MOVABLE, SMOOTH, Need, need_count


@dataclass(frozen=True)
class ActiveSubspace(NuclearNormSolver):
    """Select the subspace of a proximal gradient step, then solve the problem restricted to it and to X's own.

    Objective: smooth f plus ``nuclear_weight * ||X||_*``. Cost per step: O(rank n_observed + rank**2 (n_rows +
    n_cols)) per power iteration and per proximal step. Rate: O(1/T), as each step is at least as good as a proximal
    gradient step, and faster once the subspace settles. Reference: Hsieh and Olsen, ICML 2014.

    The bases contain X and the leading singular vectors of ``X - G / L``, for the gradient G and its Lipschitz constant
    L; the core between them is found by accelerated proximal steps, where the paper has a second-order method. No step
    raises the value, and `Record.gap` bounds its distance to the minimum.

    Parameters
    ----------
    nuclear_weight : float, optional
        The paper's lambda. By default the one for the requested rank, see `AISImpute`; the search counts towards the
        time.
    n_inner : int, default=20
        Proximal steps on the core per step.
    n_power : int, default=2
        Block power iterations per step, started from X's right vectors, the gradient's top one and a few random ones.
    max_iter : int or None, default=500
        Default limit on the number of steps.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> result = rw.solve(rw.Problem(seen, "square"), rw.solvers.ActiveSubspace(nuclear_weight=5.0))
    >>> print(result.model.rank)  # it follows from the weight
    2
    """

    nuclear_weight: float | None = None
    n_inner: int = 20
    n_power: int = 2
    max_iter: int | None = 500

    @classmethod
    def methods(cls) -> dict[str, NamedSolver]:
        """Return the method with its default settings."""
        summary = "nuclear norm, square or logistic loss and the like, solved in small subspaces"
        return {"active-subspace": NamedSolver(cls(), summary)}

    @property
    def needs(self) -> tuple[Need, ...]:
        """A smooth objective with a known Lipschitz constant that can move."""
        return (SMOOTH, LIPSCHITZ, MOVABLE)

    def __post_init__(self) -> None:
        super().__post_init__()
        need_count("n_inner", self.n_inner)
        need_count("n_power", self.n_power)

    def improve(self, objective: Movable, rng: Generator, state: PenaltyState, top: Top) -> tuple[int, int]:
        """Select the subspace and solve the core."""
        point, gradient = objective.point, as_operator(objective.gradient())
        threshold = state.weight / float(objective.lipschitz or 1.0)
        here = LowRank(point.theta, point.U, point.V, gradient.each)
        target = SparsePlusLowRank(-threshold / state.weight * gradient, here)
        V = np.column_stack((point.V.astype(np.float64), top.v))  # a few iterations alone may miss a new direction
        start = start_block(V, min(objective.shape), rng)
        left, values, right, n_products = block_svd(target, start, self.n_power)
        selected = values > threshold
        if not selected.any():
            objective.move(np.zeros(0), left[:, :0], right[:, :0])  # the proximal step is zero
            return n_products, 0

        def shrink(values: Array) -> Array:
            shrunk = np.maximum(values - threshold, 0.0)
            shrunk[state.most :] = 0.0
            return shrunk

        core = Core(objective, left[:, selected], right[:, selected])
        own = core.start(np.zeros(int(selected.sum())))
        c, n_evaluations = proximal_steps(core, own, shrink, state.weight, self.n_inner)
        X = core.iterate(c)
        X = X.leading(int((X.s > NEGLIGIBLE * X.s[0]).sum()))
        objective.move(X.s, X.U, X.V)
        return n_products, n_evaluations
