"""Greedy low-rank learning for nonsmooth objectives: Algorithm 3 of the paper."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from .. import spectral
from .._arrays import Array
from .._checks import check_choice, is_number
from .._errors import SettingError
from ..model import LowRankModel
from ..objectives import Entrywise, Gradient, Objective
from ..spectral import LowRank, SparsePlusLowRank
from .base import NamedSolver, Solver
from .history import StepReport
from .resume import resume_path
from .steps import bisect
from .validation import need_count, need_positive, need_share

STEP_RULES = ("best", "paper")


class Captured(NamedTuple):
    """The sum h of the leading singular triplets of a subgradient g, negated."""

    theta: Array  # (i,): ``-h = U diag(theta) V.T``
    U: Array  # (n_rows, i)
    V: Array  # (n_cols, i)
    residual: float  # ``||g - h||_F**2``
    n_products: int


@dataclass
class NonsmoothState:
    """State of Algorithm 3 between two steps: the wanted rank, steps made, and the last residual."""

    rank: int
    step: int = 0
    residual: float | None = None


class NonsmoothPursuit(Solver[Objective, NonsmoothState]):
    """Add leading singular triplets of a subgradient until its residual has fallen, and step along them.

    Objective: any convex f. Cost per step: O(i n_observed + i**2 (n_rows + n_cols)) for i inner triplets. Rate:
    O(1/sqrt(T)), O(log(T)/T) if f is strongly convex (Theorems 4 and 5, with ``step="paper"``). Reference: Yao and
    Kwok, IJCAI 2016.

    Theorem 5 as printed is wrong in three places: the sign of its 2 b1 b3 term, an inverted 1/eta, and a sum of
    1/sqrt(t) that is at most 2 sqrt(T). Corrected, it bounds the best iterate's distance to the minimum by
    (b3**2 / (2 c2) + c2 b1**2) / sqrt(T) + 2 b1 b3 / ((1 - sqrt(nu)) T); both theorems are tested at every T. They
    bound the best iterate, which the model predicts with; later iterates are on its path.

    The paper does not define ``||g_0 - h_0||`` in the first step; ``||g_1||`` is used, the residual of no triplet. Line
    8 lets the inner rank grow without bound on long runs; it is limited by `max_inner_rank` and by the remaining rank.

    Parameters
    ----------
    step : {"best", "paper"}, default="best"
        "best" is `shrinkage` times the step to the minimum of f along the captured part (a weighted median for
        piecewise linear losses); "paper" is Eq. 10, ``step_scale / t`` if f is strongly convex and otherwise
        ``step_scale / sqrt(t)``.
    step_scale : float, optional
        The paper's c1 or c2, for ``step="paper"``. By default ``2 / strong_convexity`` (Theorem 4 needs more than
        ``1 / strong_convexity``) or 0.05 as printed, which hardly moves on real ratings.
    shrinkage : float, default=0.7
        Fraction of the best step that is taken. Shorter steps overfit later: 0.7 helps where entries are few (MovieLens
        100K, Epinions), 1 where they are many (MovieLens 1M); see benchmarks/bench_nonsmooth.py.
    keep_ratio : float, default=0.99
        The paper's nu: ``||g_t - h_t||**2`` must fall by this factor from step to step.
    max_inner_rank : int or None, default=2
        Largest number of triplets in one step; the paper observes 1 or 2 in practice. None leaves it to line 8.
    oracle : {"power", "lanczos", "dense"} or oracle object, default="power"

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.corrupted(40, 30, rank=2, density=0.5).observations
    >>> pursuit = rw.solvers.NonsmoothPursuit(max_inner_rank=1)
    >>> print(rw.solve(rw.Problem(seen, "l1"), pursuit, rank=3).model.rank)
    3
    """

    descends: ClassVar[bool] = False
    state_types: ClassVar[tuple[type, ...]] = (NonsmoothState,)

    @classmethod
    def methods(cls) -> dict[str, NamedSolver]:
        """Return the pursuit with its default settings."""
        summary = "greedy low-rank learning, any convex loss, best step along several pairs"
        return {"glrl-nonsmooth": NamedSolver(cls(), summary)}

    def __init__(
        self,
        step: str = "best",
        *,
        step_scale: float | None = None,
        shrinkage: float = 0.7,
        keep_ratio: float = 0.99,
        max_inner_rank: int | None = 2,
        oracle: str | spectral.Oracle = "power",
    ) -> None:
        self.step_rule, self.step_scale, self.shrinkage = step, step_scale, shrinkage
        self.keep_ratio, self.max_inner_rank, self.oracle = keep_ratio, max_inner_rank, oracle
        check_choice("step", step, STEP_RULES)
        if not is_number(keep_ratio) or not 0 < keep_ratio < 1:
            raise SettingError(f"`keep_ratio` must be between 0 and 1, got {keep_ratio!r}.")
        need_share(shrinkage)
        need_positive("step_scale", step_scale, optional=True)
        need_count("max_inner_rank", max_inner_rank, optional=True)
        self._oracle = spectral.get(oracle)

    def __repr__(self) -> str:
        """Return the settings."""
        return (
            f"NonsmoothPursuit({self.step_rule!r}, step_scale={self.step_scale}, shrinkage={self.shrinkage}, "
            f"keep_ratio={self.keep_ratio}, max_inner_rank={self.max_inner_rank}, oracle={self.oracle!r})"
        )

    def init(self, objective: Objective, rank: int) -> NonsmoothState:
        """Line 1: X = 0."""
        objective.reset()
        return NonsmoothState(rank)

    def resume(self, objective: Objective, rank: int, start: LowRankModel) -> NonsmoothState:
        """Move to the longest model of the path; every term counts as a step made."""
        resume_path(objective, rank, start, type(self).__name__)
        return NonsmoothState(rank, step=start.longest)

    def accepts(self, objective: Objective, state: object) -> bool:
        """Return whether the step count and the residual are not negative."""
        return isinstance(state, NonsmoothState) and state.step >= 0 and (state.residual is None or state.residual >= 0)

    def step(self, objective: Objective, rng: Generator, state: NonsmoothState) -> StepReport:
        """Lines 3 to 12 of Algorithm 3: one more step along the captured part of a subgradient."""
        state.step += 1
        subgradient = objective.gradient()
        captured = self._capture(subgradient, rng, state, state.rank - objective.point.rank)
        state.residual = captured.residual
        eta, n_evaluations = self._step_size(objective, captured, state.step)
        if eta > 0:
            objective.add(1.0, eta, captured.U, captured.V, captured.theta)
        sigma = -float(captured.theta[0]) if captured.theta.size else 0.0
        joined = captured.theta.size if eta > 0 else 0
        return StepReport(sigma, subgradient.norm, subgradient.inner, captured.n_products, n_evaluations, joined)

    def _capture(self, subgradient: Gradient, rng: Generator, state: NonsmoothState, room: int) -> Captured:
        """Lines 5 to 11: add triplets until the residual has fallen; each lowers it by exactly sigma**2."""
        shape, residual, n_products = subgradient.shape, subgradient.norm**2, 0
        enough = self.keep_ratio * (residual if state.residual is None else state.residual)
        s, U, V = np.zeros(0), np.zeros((shape[0], 0)), np.zeros((shape[1], 0))
        for _ in range(min(room, *shape, self.max_inner_rank or room)):
            left = SparsePlusLowRank(subgradient, LowRank(-s, U, V)) if s.size else subgradient
            u, sigma, v, used = self._oracle(left, rng=rng)
            n_products += used
            if sigma <= 1e-12 * subgradient.norm:
                break
            s, U, V = np.append(s, sigma), np.column_stack((U, u)), np.column_stack((V, v))
            residual = max(residual - sigma**2, 0.0)
            if residual <= enough:
                break
        return Captured(-s, U, V, residual, n_products)

    def _step_size(self, objective: Objective, captured: Captured, t: int) -> tuple[float, int]:
        """Return the step size of line 3, or of the best step, and the number of evaluations of f."""
        if captured.theta.size == 0:
            return 0.0, 0
        if self.step_rule == "paper":
            if objective.strong_convexity > 0:
                return (self.step_scale or 2.0 / objective.strong_convexity) / t, 0
            return (self.step_scale or 0.05) / t**0.5, 0
        phi = objective.along(captured.U, captured.V, captured.theta)
        if objective.piecewise_linear:
            before = _passes(objective)
            return self.shrinkage * phi.best_weight(), _passes(objective) - before
        eta, n_evaluations = bisect(phi)
        return self.shrinkage * eta, n_evaluations


def _passes(objective: Objective) -> int:
    return objective.passes if isinstance(objective, Entrywise) else 0
