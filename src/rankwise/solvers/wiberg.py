"""l1 factorisation by the Wiberg method: V is a function of U, and linear programs move U."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.optimize import linprog

from ..objectives import Problem
from ..observations import Observations
from .base import Solver
from .history import StepReport
from .memory import refuse_if_too_large
from .needs import need_l1

Array = NDArray[Any]
BYTES_PER_NONZERO = 400  # what HiGHS took per nonzero of the constraints, presolve and factorisation included


@dataclass
class State:
    """The factors, the entries they fit, and the trust region."""

    rows: Array
    cols: Array
    targets: Array
    weights: Array
    U: Array
    V: Array
    value: float
    radius: float


@dataclass(frozen=True)
class Wiberg(Solver):
    """Linearise the residuals as a function of U alone, V being optimal for it, and solve a linear program.

    Objective: ``sum over observed |U V.T - O|``. Cost per step: a linear program in n_rows rank + n_observed
    variables, and one in n_cols rank + n_observed. Rate: not known; the value never rises. Reference: Eriksson and
    van den Hengel, PAMI 2012.

    Parameters
    ----------
    radius : float, default=1
        First trust region: the largest change of an entry of U, relative to U's largest entry.
    program_seconds : float, optional
        Time limit of one linear program; the best point so far is kept when it runs out.
    memory_limit : int, optional
        Bytes that may be used; by default what the system has available.
    """

    radius: float = 1.0
    program_seconds: float | None = None
    memory_limit: int | None = None
    max_iter: int | None = 100
    grows: ClassVar[bool] = False
    keeps_path: ClassVar[bool] = False

    def init(self, objective: Problem, rank: int) -> State:
        """U from the leading singular vectors of the observed matrix, V optimal for it."""
        observations = need_l1(objective, "Wiberg").observations
        nonzeros = observations.n_observed * (2.0 * (rank**2 + rank) + 4)
        seconds = 1e-9 * nonzeros**1.5
        refuse_if_too_large(
            BYTES_PER_NONZERO * nonzeros,
            "Wiberg",
            f"linear programs with {nonzeros:.2g} nonzeros, about {seconds:.2g} s each",
            'use method="glrl-nonsmooth" or fewer entries',
            self.memory_limit,
        )
        objective.reset()
        return self._start(observations, min(rank, *observations.shape))

    def _start(self, observations: Observations, rank: int) -> State:
        rows, cols, targets = observations.rows, observations.cols, observations.targets.astype(float)
        weights = np.ones(targets.size) if observations.weights is None else observations.weights.astype(float)
        filled = sp.csr_array((targets, (rows, cols)), shape=observations.shape)
        U = np.linalg.svd(filled.toarray(), full_matrices=False)[0][:, :rank]
        V, value = best_columns(U, rows, cols, targets, weights, observations.shape[1], self.program_seconds)
        return State(rows, cols, targets, weights, U, V, value, self.radius * float(np.abs(U).max()))

    def step(self, objective: Problem, rng: Generator, state: State) -> StepReport:
        """One linear program for U, one for V; the trust region follows how well the first foresaw the second."""
        stop, before = None, state.value
        jacobian = wiberg_jacobian(state)
        residual = state.targets - np.einsum("kr,kr->k", state.U[state.rows], state.V[state.cols])
        change, foreseen = l1_program(jacobian, residual, state.weights, state.radius, self.program_seconds)
        if change is None:
            stop = ("time", "A linear program ran out of time; the model is the best so far.")
        else:
            U = state.U + change.reshape(state.U.shape)
            U /= np.maximum(np.abs(U).max(axis=0), 1e-12) / np.abs(state.U).max(axis=0)
            data = state.rows, state.cols, state.targets, state.weights
            V, value = best_columns(U, *data, state.V.shape[0], self.program_seconds)
            gained = (state.value - value) / max(state.value - foreseen, 1e-300)
            state.radius *= 2.0 if gained > 0.75 else (1.0 if gained > 0.25 else 0.25)
            if value < state.value:
                state.U, state.V, state.value = U, V, value
            elif state.radius < 1e-9 or state.value - foreseen <= 1e-12 * state.value:
                stop = ("converged", "No linear program finds a better point; the value is stationary.")
        objective.move(np.ones(state.U.shape[1]), state.U, state.V)
        return StepReport(value=state.value, settled=state.value < before, stop=stop)


def best_columns(
    U: Array, rows: Array, cols: Array, targets: Array, weights: Array, n_cols: int, seconds: float | None = None
) -> tuple[Array, float]:
    """V that minimises the weighted l1 residual for a given U, and that minimum: one linear program."""
    rank, n = U.shape[1], targets.size
    where = np.repeat(np.arange(n), rank), (cols[:, None] * rank + np.arange(rank)).ravel()
    design = sp.csr_array((U[rows].ravel(), where), shape=(n, n_cols * rank))
    found, value = l1_program(design, targets, weights, None, seconds)
    if found is None:
        return np.zeros((n_cols, rank)), np.inf
    return found.reshape(n_cols, rank), value


def l1_program(
    design: Any, targets: Array, weights: Array, radius: float | None, seconds: float | None
) -> tuple[Array | None, float]:
    """Minimise ``sum weights |targets - design x|`` with every x within `radius`; the point and the minimum.

    Variables x and a bound t per entry: minimise weights.t with ``-t <= targets - design x <= t``.
    """
    n, k = design.shape
    eye = sp.eye_array(n, format="csr")
    constraints = sp.block_array([[design, -eye], [-design, -eye]], format="csr")
    limits = [(None if radius is None else -radius, radius)] * k + [(0, None)] * n
    done = linprog(
        np.concatenate((np.zeros(k), weights)),
        A_ub=constraints,
        b_ub=np.concatenate((targets, -targets)),
        bounds=limits,
        method="highs",
        options={} if seconds is None else {"time_limit": seconds},
    )
    if done.x is None:
        return None, np.inf
    x = done.x[:k]
    return x, float(weights @ np.abs(targets - design @ x))


def wiberg_jacobian(state: State) -> Any:
    """Derivative of the predictions with respect to U, V following so as to stay optimal.

    At the optimum of column j as many residuals are zero as V has entries; with B those rows, ``v = U_B^-1 o_B`` and
    so ``dv = -U_B^-1 dU_B v``: the prediction at (i, j) changes by ``du_i v_j - u_i U_B^-1 dU_B v_j``.
    """
    U, V, rank = state.U, state.V, state.U.shape[1]
    residual = np.abs(state.targets - np.einsum("kr,kr->k", U[state.rows], V[state.cols]))
    own = np.arange(state.targets.size)
    parts = [(np.repeat(own, rank), (state.rows[:, None] * rank + np.arange(rank)).ravel(), V[state.cols].ravel())]
    by_column = np.argsort(state.cols, kind="stable")
    ends = np.searchsorted(state.cols[by_column], np.arange(V.shape[0] + 1))
    for j in range(V.shape[0]):
        entries = by_column[ends[j] : ends[j + 1]]
        if entries.size == 0:
            continue
        basis = state.rows[_basis(U[state.rows[entries]], residual[entries], entries, rank)]
        pull = U[state.rows[entries]] @ np.linalg.pinv(U[basis])  # (entries, basis)
        values = -pull[:, :, None] * V[j]
        columns = np.broadcast_to(basis[:, None] * rank + np.arange(rank), values.shape)
        parts.append((np.repeat(entries, basis.size * rank), columns.ravel(), values.ravel()))
    row, col, value = (np.concatenate(piece) for piece in zip(*parts, strict=True))
    return sp.csr_array((value, (row, col)), shape=(state.targets.size, U.size))


def _basis(rows_of_U: Array, residual: Array, entries: Array, rank: int) -> Array:
    """Entries of the column whose residuals are zero and whose rows of U are independent, smallest residuals first."""
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
