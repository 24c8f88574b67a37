"""Frank-Wolfe over the ball of a nuclear norm: one pair per step, with or without a refit of the core."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from .._arrays import Array
from .._checks import check_choice
from ..losses.units import Units
from ..objectives import Movable
from .base import NamedSolver
from .cores import NEGLIGIBLE, Core, compress, proximal_steps
from .duality import Top
from .nuclear import AISImpute
from .penalty import ConvexSolver, PenaltyState
from .steps import Valued, bisect
from .validation import LIPSCHITZ, MOVABLE, SMOOTH, Need, need_count, need_positive

SMALL_GAP = 0.01  # a small change may end the run if the gap is at most this fraction of the decrease since X = 0
COMPRESS = 20  # plain steps after which linearly dependent terms are merged


@dataclass(frozen=True)
class FrankWolfe(ConvexSolver):
    """Move towards the best matrix of rank one on the sphere of the nuclear norm, then refit the core.

    Objective: smooth f subject to ``||X||_* <= radius``. Cost per step: O(n_observed) for a plain step; a corrective
    one O(rank n_observed + rank**2 (n_rows + n_cols)) per projected step. Rate: O(1/T), for a gap of the same order.
    Reference: Jaggi, ICML 2013.

    A step is ``(1 - g) X - g radius u v.T`` for the gradient's top singular pair (u, v), with the best g in [0, 1]. A
    corrective step continues from there with accelerated projected gradient steps on the core between the bases of X
    and the pair. No step raises the value, and `Record.gap` bounds its distance to the minimum over the ball.

    Parameters
    ----------
    radius : float, optional
        Largest nuclear norm of X. By default that of AIS-Impute's solution at the weight for the requested rank, see
        `AISImpute`; the search counts towards the time.
    corrective : bool, default=True
        False takes plain steps: cheaper, and many more of them. Their number of terms grows by one per step, and
        linearly dependent ones are merged every 20 steps, so that the rank may exceed the requested one.
    n_inner : int, default=5
        Projected steps on the core per corrective step.
    max_iter : int or None, default=500
        Default limit on the number of steps.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> result = rw.solve(rw.Problem(seen, "square"), rw.solvers.FrankWolfe(radius=100.0))
    >>> print(round(result.model.theta.sum(), 3))
    100.0
    """

    radius: float | None = None
    corrective: bool = True
    n_inner: int = 5
    max_iter: int | None = 500

    @classmethod
    def methods(cls) -> dict[str, NamedSolver]:
        """Return the method with corrective steps."""
        summary = "nuclear-norm ball, square or logistic loss and the like, one pair per step and the core refitted"
        return {"frank-wolfe": NamedSolver(cls(), summary)}

    @property
    def needs(self) -> tuple[Need, ...]:
        """A smooth objective that can move; a Lipschitz constant for corrective steps and the search for a radius."""
        return (SMOOTH, LIPSCHITZ, MOVABLE) if self.corrective or self.radius is None else (SMOOTH, MOVABLE)

    def __post_init__(self) -> None:
        need_positive("radius", self.radius, optional=True)
        check_choice("corrective", self.corrective, (True, False))
        need_count("n_inner", self.n_inner)

    def in_units(self, units: Units) -> "FrankWolfe":
        """Return the solver with the radius of stored numbers."""
        return self if self.radius is None else replace(self, radius=self.radius / units.unit)

    def init(self, objective: Movable, rank: int) -> PenaltyState:
        """X = 0; search for the radius if it is None."""
        objective.reset()
        most, radius = min(objective.shape), self.radius
        if radius is None:
            radius = float(AISImpute().search(objective, rank)[1].s.sum())
            most = min(rank, most)
        value = objective.value()
        return PenaltyState(0.0, most, value, radius=radius, first=value)

    def bound(self, objective: Movable, state: PenaltyState, top: Top) -> float:
        """Return ``<G, X> + radius sigma``, the largest decrease of f's linear model within the ball."""
        return objective.gradient().inner + state.radius * top.upper

    def is_settled(self, state: PenaltyState, top: Top, bound: float) -> bool:
        """Return whether all but a small part of the possible decrease has been made."""
        return bound <= SMALL_GAP * (state.first - state.value)

    def improve(self, objective: Movable, rng: Generator, state: PenaltyState, top: Top) -> tuple[int, int]:
        """Take the best step towards the pair, then correct the core or merge terms."""
        if self.corrective and objective.point.rank == state.most:
            return 0, self._correct(objective, state, top, 0.0)  # the step would exceed the rank
        share, n_evaluations = bisect(_towards(objective, top, state.radius))
        share = min(share, 1.0)
        if self.corrective:
            return 0, n_evaluations + self._correct(objective, state, top, share)
        objective.add(1.0 - share, -share * state.radius, top.u, top.v)
        point = objective.point
        if point.rank % COMPRESS == 0 or point.rank > min(objective.shape):
            X = compress(point.U * point.theta, point.V)
            objective.move(X.s, X.U, X.V)
        return 0, n_evaluations

    def _correct(self, objective: Movable, state: PenaltyState, top: Top, share: float) -> int:
        """Move to the best core within the ball, from the step of this share; return the number of evaluations."""

        def project(values: Array) -> Array:
            values = np.where(np.arange(values.size) < state.most, values, 0.0)
            return simplex_projection(values, state.radius)

        core = Core(objective, top.u, top.v)
        start = core.start(-share * state.radius, 1.0 - share)
        c, n_evaluations = proximal_steps(core, start, project, 0.0, self.n_inner)
        X = core.iterate(c)
        X = X.leading(int((X.s > NEGLIGIBLE * X.s[0]).sum()))
        objective.move(X.s, X.U, X.V)
        return n_evaluations


def simplex_projection(values: Array, radius: float) -> Array:
    """Return the nearest vector with entries of at least zero and a sum of at most `radius`.

    Parameters
    ----------
    values : ndarray of shape (k,)
        At least zero, in descending order.
    radius : float
    """
    sums = np.cumsum(values)
    if sums[-1] <= radius:
        return values
    shifts = (sums - radius) / np.arange(1, values.size + 1)
    return np.asarray(np.maximum(values - shifts.max(), 0.0))


def _towards(objective: Movable, top: Top, radius: float) -> Valued:
    """Return ``(1, g) -> f((1 - g) X - g radius u v.T)``, with its slope in g."""
    plane = objective.along(-top.u, top.v)

    def value(c: Array) -> tuple[float, Array]:
        share = float(c[1])
        found, slopes = plane(np.array([1.0 - share, share * radius]))
        slope = radius * slopes[1] - slopes[0] if np.isfinite(found) else np.inf
        return found, np.array([0.0, slope])

    return value
