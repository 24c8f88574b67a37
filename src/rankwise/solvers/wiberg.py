"""l1 factorization by the Wiberg method: V is a function of U, which linear programs or least squares update."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator
from scipy.optimize import linprog

from .._arrays import Array
from .._checks import one_of
from .._errors import SettingError
from ..objectives import Problem
from ..observations import Observations, need_in_memory
from ..spectral import block_svd
from .admm import targets_to_fit
from .altmin import unit_terms
from .base import NamedSolver, Solver
from .history import StepReport
from .validation import ANOTHER, IN_MEMORY, L1_LOSS, OBSERVED_ONLY, Need, need_memory, need_not_negative, need_positive
from .wiberg_inexact import EXACT, FlatEntries, InexactState

BYTES_PER_NONZERO = 400  # HiGHS took 180 to 310 per nonzero of the constraints, growing with their number
SECONDS_PER_NONZERO = 2e-8  # and per row: 0.2 s at 5e4 nonzeros in 300 rows, 160 s at 1.4e6 in 4000
BYTES_PER_ENTRY = 120  # of an inexact step
AUTO_SECONDS = 1.0  # longest estimated time of a linear program for which program="auto" is exact
PROGRAMS = ("auto", "exact", "inexact")
MAX_SECONDS = 3600.0  # longest estimated time of a linear program without a time limit


@dataclass
class WibergState:
    """The factors, the entries they fit, and the radius of the trust region."""

    rows: Array
    cols: Array
    targets: Array
    weights: Array
    U: Array
    V: Array
    value: float
    radius: float

    def residual(self) -> Array:
        """Return targets minus predictions, shape (n_observed,)."""
        return np.asarray(self.targets - np.einsum("kr,kr->k", self.U[self.rows], self.V[self.cols]))


@dataclass(frozen=True)
class Wiberg(Solver[Problem, WibergState | InexactState]):
    """Linearize the residuals as a function of U alone, with V optimal for it, and minimize their l1 norm over U.

    Objective: ``sum over observed |U V.T - O| + ridge / 2 (||U||^2 + ||V||^2)``. Cost per step: a linear program in
    n_rows rank + n_observed variables, and one in n_cols rank + n_observed; inexact, 20 products of O(rank n_observed)
    and four sums of O(rank**2 n_observed). Rate: not known; the value never rises. Reference: Eriksson and van den
    Hengel, PAMI 2012.

    Parameters
    ----------
    program : {"auto", "exact", "inexact"}, default="auto"
        How the linearized problem is solved. "exact": as a linear program. "inexact": absolute residuals are smoothed
        and replaced by weighted squares; damped normal equations are solved by conjugate gradients, and a step is taken
        only if it lowers the value, which is not smoothed. "auto" is exact if a linear program takes about a second or
        less and there is no ridge.
    ridge : float, default=0
        Weight of the squared norms of the factors, for the inexact program. Without a ridge, predictions in columns
        with few more entries than the rank can be far outside the range of the targets.
    radius : float, default=1
        First trust region of the exact program: the largest change of an entry of U, relative to U's largest entry.
    program_seconds : float, optional
        Time limit of one linear program, after which the best point so far is returned. Without it, programs that
        are estimated to take more than an hour raise an error.
    memory_limit : int, optional
        Bytes that may be used; by default the memory that is available.
    max_iter : int, default=100
        Default limit on the number of steps.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.corrupted(8, 6, rank=1, density=0.9).observations
    >>> result = rw.solve(rw.Problem(seen, "l1"), rw.solvers.Wiberg(), rank=1, max_iter=5)
    >>> print(result.history[-1].value <= result.history.initial_value)
    True
    """

    program: str = "auto"
    ridge: float = 0.0
    radius: float = 1.0
    program_seconds: float | None = None
    memory_limit: int | None = None
    max_iter: int | None = 100
    grows: ClassVar[bool] = False
    keeps_path: ClassVar[bool] = False
    checkpoints: ClassVar[bool] = False  # they would hold every observed value

    @classmethod
    def methods(cls) -> dict[str, NamedSolver]:
        """Return the method with its default settings."""
        return {"wiberg": NamedSolver(cls(), "two factors, l1 loss, one eliminated")}

    @property
    def needs(self) -> tuple[Need, ...]:
        """The l1 loss on entries in memory."""
        return (OBSERVED_ONLY, L1_LOSS, IN_MEMORY)

    def __post_init__(self) -> None:
        if self.program not in PROGRAMS:
            raise SettingError(f"`program` must be {one_of(PROGRAMS)}, got {self.program!r}.")
        need_not_negative("ridge", self.ridge)
        if self.ridge and self.program == "exact":
            raise SettingError(f'`ridge` must be 0 with program="exact", got {self.ridge!r}: use program="inexact".')
        need_positive("radius", self.radius)
        need_positive("program_seconds", self.program_seconds, optional=True)
        need_positive("memory_limit", self.memory_limit, optional=True)

    def init(self, objective: Problem, rank: int) -> WibergState | InexactState:
        """Set U to the leading singular vectors of the observed matrix, and V to the optimum for it."""
        observations = need_in_memory(objective.observations, "Wiberg", ANOTHER)
        rank = min(rank, *observations.shape)
        exact = self._check_size(observations, rank)
        objective.reset()
        targets = targets_to_fit(objective, observations)
        weights = np.ones(targets.size) if observations.weights is None else observations.weights.astype(float)
        integers = np.int32 if targets.size < 2**31 else np.int64  # SciPy copies the pattern if they differ
        pattern = observations.indptr.astype(integers), observations.indices.astype(integers)
        entries = FlatEntries(observations.shape, *pattern, targets, weights)
        start = np.random.default_rng(0).standard_normal((observations.shape[1], rank))
        U, s, V, _ = block_svd(sp.csr_array((targets, pattern[1], pattern[0]), shape=observations.shape), start, 10)
        if not exact:
            return InexactState.begun(entries, self.ridge, U, V * s)
        rows, cols, radius = observations.rows, observations.cols, self.radius * float(np.abs(U).max())
        state = WibergState(rows, cols, targets, weights, U, V * s, np.inf, radius)
        state.value = float(weights @ np.abs(state.residual()))
        self._improve(state, U)
        return state

    def _check_size(self, observations: Observations, rank: int) -> bool:
        """Return whether the program is exact; raise if memory is too small, or it would take more than an hour."""
        nonzeros = observations.n_observed * (rank**2.0 + rank)
        seconds = SECONDS_PER_NONZERO * nonzeros * observations.shape[0] * rank
        if self.program == "inexact" or (self.program == "auto" and (self.ridge or seconds > AUTO_SECONDS)):
            n_bytes = BYTES_PER_ENTRY * observations.n_observed + 32.0 * sum(observations.shape) * rank**2
            need_memory(n_bytes, "Wiberg", "residuals and blocks", f"{ANOTHER} or fewer entries", self.memory_limit)
            return False
        size = f"linear programs with {nonzeros:.2g} nonzeros, about {seconds:.2g} s each"
        instead = f'set program="inexact", {ANOTHER} or fewer entries'
        need_memory(BYTES_PER_NONZERO * nonzeros, "Wiberg", size, instead, self.memory_limit)
        if seconds > MAX_SECONDS and self.program_seconds is None:
            raise SettingError(f"Wiberg would need {size}: {instead}, or limit them with `program_seconds`.")
        return True

    def step(self, objective: Problem, rng: Generator, state: WibergState | InexactState) -> StepReport:
        """Update U, and V for it, if that lowers the value."""
        before = state.value
        if isinstance(state, InexactState):
            stop, settled = state.move(), state.settled
        else:
            stop, settled = self._move(state), True
        objective.move(*unit_terms(state.U, state.V))
        return StepReport(value=state.value, settled=settled and state.value < before, stop=stop)

    def _move(self, state: WibergState) -> tuple[str, str] | None:
        """Solve a linear program for U and one for V; adapt the trust region to the accuracy of the first.

        Return a reason and a message if the run is to stop.
        """
        if state.value <= EXACT * float(state.weights @ np.abs(state.targets)):
            return "converged", "The fit is exact."
        unsolved = ("time", "A linear program reached `program_seconds`; the model is the best so far.")
        jacobian, before = wiberg_jacobian(state), state.value
        change, predicted = l1_program(jacobian, state.residual(), state.weights, state.radius, self.program_seconds)
        if change is None:
            return unsolved
        value = self._improve(state, _as_large(state.U + change.reshape(state.U.shape), state.U))
        if value is None:
            return unsolved
        gained = (before - value) / max(before - predicted, 1e-300)
        state.radius *= 2.0 if gained > 0.75 else (1.0 if gained > 0.25 else 0.25)
        stationary = state.radius < 1e-9 or before - predicted <= 1e-12 * before
        if value >= before and stationary:
            return "converged", "No linear program finds a better point; the value is stationary."
        return None

    def _improve(self, state: WibergState, U: Array) -> float | None:
        """Set `U` and the best V for it if that lowers the value; return the value, None at the time limit."""
        data = state.rows, state.cols, state.targets, state.weights
        V, value = best_columns(U, *data, state.V.shape[0], self.program_seconds)
        if V is not None and value < state.value:
            state.U, state.V, state.value = U, V, value
        return None if V is None else value


def best_columns(
    U: Array, rows: Array, cols: Array, targets: Array, weights: Array, n_cols: int, seconds: float | None = None
) -> tuple[Array | None, float]:
    """Return V that minimizes the weighted l1 residual for fixed U, None at the time limit, and that minimum."""
    rank, n = U.shape[1], targets.size
    where = np.repeat(np.arange(n), rank), (cols[:, None] * rank + np.arange(rank)).ravel()
    design = sp.csr_array((U[rows].ravel(), where), shape=(n, n_cols * rank))
    V, value = l1_program(design, targets, weights, None, seconds)
    return (None if V is None else V.reshape(n_cols, rank)), value


def l1_program(
    design: Any, targets: Array, weights: Array, radius: float | None, seconds: float | None
) -> tuple[Array | None, float]:
    """Minimize ``sum weights |targets - design x|`` over ``|x| <= radius``; return x and the minimum.

    HiGHS solves the dual, which has one row per unknown instead of two per entry, in a thirtieth of the time: maximize
    ``targets.y - radius sum(a + b)`` subject to ``design.T y = a - b``, ``|y| <= weights`` and ``a, b >= 0``; x are its
    multipliers. The tolerances of HiGHS are absolute, so targets and design are scaled to one. x is None if the time
    limit is reached.
    """
    k = design.shape[1]
    height, width = (float(np.abs(part).max()) or 1.0 for part in (targets, design))
    constraints, cost, limits = design.T / width, -targets / height, np.column_stack((-weights, weights))
    if radius is not None:
        eye = sp.eye_array(k)
        constraints = sp.hstack((constraints, -eye, eye), format="csc")
        cost = np.concatenate((cost, np.full(2 * k, radius * width / height)))
        limits = np.concatenate((limits, np.tile((0.0, np.inf), (2 * k, 1))))
    options = {} if seconds is None else {"time_limit": seconds}
    for method in ("highs-ipm", "highs-ds"):  # the second is slower and solves the few programs that the first cannot
        program = linprog(cost, A_eq=constraints, b_eq=np.zeros(k), bounds=limits, method=method, options=options)
        if program.status == 0:
            x = -height / width * program.eqlin.marginals
            return x, float(weights @ np.abs(targets - design @ x))
        if program.status == 1:  # out of time
            break
    return None, np.inf


def wiberg_jacobian(state: WibergState) -> Any:
    """Return the derivative of the predictions with respect to U, with V remaining optimal.

    At the optimum of column j as many residuals are zero as V has entries; with B those rows, ``v = U_B^-1 o_B`` and
    so ``dv = -U_B^-1 dU_B v``: the prediction at (i, j) changes by ``du_i v_j - u_i U_B^-1 dU_B v_j``.
    """
    U, V, rank = state.U, state.V, state.U.shape[1]
    residual = np.abs(state.residual())
    own = np.arange(state.targets.size)
    parts = [(np.repeat(own, rank), (state.rows[:, None] * rank + np.arange(rank)).ravel(), V[state.cols].ravel())]
    by_column = np.argsort(state.cols, kind="stable")
    ends = np.searchsorted(state.cols[by_column], np.arange(V.shape[0] + 1))
    for j in range(V.shape[0]):
        entries = by_column[ends[j] : ends[j + 1]]
        if entries.size == 0:
            continue
        basis = state.rows[_basis(U[state.rows[entries]], residual[entries], entries, rank)]
        coordinates = U[state.rows[entries]] @ np.linalg.pinv(U[basis])  # (entries, basis)
        values = -coordinates[:, :, None] * V[j]
        columns = np.broadcast_to(basis[:, None] * rank + np.arange(rank), values.shape)
        parts.append((np.repeat(entries, basis.size * rank), columns.ravel(), values.ravel()))
    row, col, value = (np.concatenate(piece) for piece in zip(*parts, strict=True))
    return sp.csr_array((value, (row, col)), shape=(state.targets.size, U.size))


def _as_large(U: Array, old: Array) -> Array:
    """Return `U` with columns scaled to the largest entries of `old`, as the trust region is relative to them."""
    now, before = (np.abs(side).max(axis=0) for side in (U, old))
    return np.asarray(U * np.divide(before, now, out=np.ones_like(now), where=(now > 0) & (before > 0)))


def _basis(rows_of_U: Array, residual: Array, entries: Array, rank: int) -> Array:
    """Return entries of a column with the smallest residuals whose rows of U are linearly independent."""
    chosen: list[int] = []
    span = np.zeros((0, rows_of_U.shape[1]))
    for k in np.argsort(residual, kind="stable"):
        rest = rows_of_U[k] - span.T @ (span @ rows_of_U[k])
        length = float(np.linalg.norm(rest))
        if length > 1e-8 * max(float(np.linalg.norm(rows_of_U[k])), 1e-300):
            chosen.append(int(entries[k]))
            span = np.vstack((span, rest / length))
            if len(chosen) == rank:
                break
    return np.array(chosen, dtype=np.int64)
