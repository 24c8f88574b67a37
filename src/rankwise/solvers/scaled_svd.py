"""Truncated SVD of the whole matrix, absent entries zero, with weights by powers of the row and column counts."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from .._arrays import Array
from .._checks import all_finite, is_number
from .._errors import SettingError
from ..engines import Shard
from ..objectives import Problem
from ..spectral import Scaled, block_svd, widen
from .altmin import unit_terms
from .base import NamedSolver, Solver
from .history import StepReport
from .validation import HAS_SIDES, NO_OFFSETS, OBSERVED_ONLY, QUADRATIC, Need

N_EXTRA = 16  # columns of the block beyond the rank, so that the last wanted vectors converge too
FIRST_POWER = 2  # block power iterations of the first step, from a random block


class Scales(NamedTuple):
    """Powers of the counts, ``n_i ** -row_power`` and ``n_j ** -col_power``; zero for rows and columns without entries.

    The count of a row or column is the sum of the weights of its entries.
    """

    rows: NDArray[np.float64]
    cols: NDArray[np.float64]

    @classmethod
    def of(cls, problem: Problem, row_power: float, col_power: float) -> "Scales":
        """Return the scales of a problem's observed entries; one pass."""
        rows, cols = (side[:, 0] for side in problem.engine_of("rows").run(Shard.moments, 0.0, 1.0, None))
        return cls(power_of(rows, -row_power), power_of(cols, -col_power))


@dataclass
class ScaledState:
    """Scales, and the right singular vectors after the last step, shape (n_cols, rank + N_EXTRA)."""

    rows: Array
    cols: Array
    right: Array
    rank: int


@dataclass(frozen=True)
class ScaledSVD(Solver[Problem, ScaledState]):
    """Best low-rank approximation of all cells of the matrix, in which absent entries are zeros.

    Objective: ``sum over all cells of n_i**(-2 p) * n_j**(-2 q) * (x_ij - o_ij)**2 / 2``, with o_ij = 0 at absent
    entries, for the numbers of entries n_i and n_j of row i and column j. Its minimum of rank k is ``D_u**p
    SVD_k(D_u**-p R D_i**-q) D_i**q``, with the diagonal matrices of the counts. Powers near one half lower the weight
    of active rows and of popular columns. Cost per step, a block power iteration: O(rank n_observed + rank**2 (n_rows +
    n_cols)). Rate: linear, by the squared ratio of singular values. The history has the objective less its value at
    X = 0.

    Parameters
    ----------
    row_power, col_power : float, default=0.5
        The powers p and q, from 0 to 1. Zero weighs all rows (columns) alike.
    max_iter : int or None, default=8
        Default limit on the number of steps.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> print(rw.solve(rw.Problem(seen, "square"), rw.solvers.ScaledSVD(), rank=3).model.rank)
    3
    """

    row_power: float = 0.5
    col_power: float = 0.5
    max_iter: int | None = 8
    grows: ClassVar[bool] = False
    keeps_path: ClassVar[bool] = False
    default_offsets: ClassVar[str] = "none"  # absent entries are zeros
    state_types: ClassVar[tuple[type, ...]] = (ScaledState,)

    @classmethod
    def methods(cls) -> dict[str, NamedSolver]:
        """Return the method with its default settings."""
        return {"scaled-svd": NamedSolver(cls(), "SVD of the whole matrix, absent entries zero, scaled by counts")}

    @property
    def needs(self) -> tuple[Need, ...]:
        """The square loss of observed entries, without offsets."""
        return (QUADRATIC, HAS_SIDES, NO_OFFSETS, OBSERVED_ONLY)

    def __post_init__(self) -> None:
        for name in ("row_power", "col_power"):
            power = getattr(self, name)
            if not is_number(power) or not 0 <= power <= 1:
                raise SettingError(f"`{name}` must be a number from 0 to 1, got {power!r}.")

    def init(self, objective: Problem, rank: int) -> ScaledState:
        """X = 0, and a random block."""
        objective.reset()
        rank = min(rank, *objective.shape)
        scales = Scales.of(objective, self.row_power, self.col_power)
        return ScaledState(*scales, np.zeros((objective.shape[1], 0)), rank)

    def accepts(self, objective: Problem, state: object) -> bool:
        """Return whether the state is one of this objective."""
        if not isinstance(state, ScaledState):
            return False
        sides = zip((state.rows, state.cols), objective.shape, strict=True)
        sound = all(side.shape == (size,) and all_finite(side) for side, size in sides)
        return sound and state.right.ndim == 2 and state.right.shape[0] == objective.shape[1]

    def step(self, objective: Problem, rng: Generator, state: ScaledState) -> StepReport:
        """One block power iteration on the scaled matrix, then X is set to the scaled approximation."""
        objective.reset()
        width = min(state.rank + N_EXTRA, *objective.shape)
        start = widen(state.right, width, rng)
        matrix = scaled_matrix(objective, Scales(state.rows, state.cols))
        U, s, V, n_products = block_svd(matrix, start, 1 if state.right.size else FIRST_POWER)
        s = s[: state.rank]
        left, right = inverse_of(state.rows)[:, None] * U[:, : s.size], inverse_of(state.cols)[:, None] * V[:, : s.size]
        theta, left, right = unit_terms(left * s, right)
        objective.move(theta, left, right)
        state.right = V
        return StepReport(n_products=n_products, value=-0.5 * float(s @ s))


def scaled_matrix(problem: Problem, scales: Scales) -> Scaled:
    """Return the scaled matrix of targets as an operator; X must be zero, and the loss the square one."""
    return Scaled(problem.gradient(), -scales.rows, scales.cols)


def power_of(counts: Array, power: float) -> NDArray[np.float64]:
    """Return ``counts ** power``, and zero where the count is zero."""
    return np.where(counts > 0, np.maximum(counts, np.finfo(float).tiny) ** power, 0.0)


def inverse_of(scales: Array) -> NDArray[np.float64]:
    """Return ``1 / scales``, and zero where the scale is zero."""
    return np.divide(1.0, scales, out=np.zeros_like(scales), where=scales > 0)
