"""The problem of one row in parts: built-in ones and toys from outside the package, against NumPy and SciPy."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers import rarely
from numba import float64, uint64
from scipy.optimize import minimize

from rankwise import Observations, Problem
from rankwise.engines import Shard
from rankwise.kernels import row_parts
from rankwise.kernels.row_parts import GaussianPrior, RowProblem, SharedQuadratic, SizedPenalty
from rankwise.kernels.row_penalties import PenaltyFormulas
from rankwise.kernels.tile_losses import TILE
from rankwise.objectives.sides import RowSettings
from rankwise.penalties import NonNegative, Penalty

SCALE = 0.8
KINDS = pytest.mark.parametrize("dtype", [np.float64, rarely(np.float32)])
TOLERANCE = {np.float64: 1e-9, np.float32: 2e-3}


class ToyQuadratic(NamedTuple):
    """``b_i * sum(x)**2 / 2 - b_i * x[0]``: S is all ones, and q the first unit vector."""

    strengths: Any


def toy_add(part, i, rhs, diagonal, matrix):
    b, d = float64(part.strengths[i]), uint64(4)
    rhs[0] += b
    for a in range(d):
        diagonal[a] += b
        for c in range(a + uint64(1), d):
            matrix[a, c] += b


def toy_value(part, i, mean, variance):
    total, spread = 0.0, 0.0
    for a in range(mean.size):
        total, spread = total + float64(mean[a]), spread + float64(variance[a])
    return float64(part.strengths[i]) * (0.5 * total * total + 0.5 * spread - float64(mean[0]))


class ToyPrior(NamedTuple):
    """Every row has precisions of its own, and the mean of the row before it."""

    lines: Any  # (n_rows + 1, d)
    precisions: Any  # (n_rows, d)


def toy_row(part, i):
    return part.lines[i], part.precisions[i], 2.0


class LassoFields(NamedTuple):
    """Parameters of `ToyLasso`."""

    size: float
    strength: float


def lasso_value(p, x):
    return p.strength * abs(x)


def lasso_prox(p, z, step):
    return max(abs(z) - step * p.strength, 0.0) * (1.0 if z > 0 else -1.0)


@dataclass(frozen=True)
class ToyLasso(Penalty):
    """``strength * sum(abs(x))``."""

    formulas = PenaltyFormulas(LassoFields, prox=lasso_prox, value=lasso_value)
    strength: float = 1.5


class RidgeFields(NamedTuple):
    """Parameters of `ToyRidge`."""

    size: float
    weight: float


def ridge_prox(p, z, step):
    return z / (1.0 + step * p.weight)


def ridge_value(p, x):
    return 0.5 * p.weight * x * x


@dataclass(frozen=True)
class ToyRidge(Penalty):
    """``weight * sum(x**2) / 2``."""

    formulas = PenaltyFormulas(RidgeFields, prox=ridge_prox, value=ridge_value)
    weight: float = 0.7


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    """The toys join the package's lists as another package's parts would."""
    monkeypatch.setitem(
        row_parts.QUADRATICS, ToyQuadratic, row_parts.QuadraticRules(toy_add, toy_value, ("strengths",))
    )
    monkeypatch.setitem(row_parts.PRIOR_RULES, ToyPrior, row_parts.PriorRules(toy_row, ("lines", "precisions")))


class Rows:
    """Rows with no, few and many entries, given columns; three factors and an offset unless `rank` says otherwise."""

    def __init__(self, loss="square", dtype=np.float64, rank=3, variances=False, weights=True, seed=0):
        rng = np.random.default_rng(seed)
        counts = np.array([0, 1, 2, 5, 9, TILE + 20])
        rows = np.repeat(np.arange(counts.size), counts)
        cols = np.concatenate([np.sort(rng.choice(100, n, replace=False)) for n in counts])
        targets = np.where(rng.random(rows.size) < 0.5, 1.0, -1.0) if loss == "logistic" else rng.normal(size=rows.size)
        weight_of = rng.uniform(0.3, 2.0, rows.size) if weights else None
        self.seen = Observations.from_coo(rows, cols, targets, (counts.size, 100), weights=weight_of)
        self.problem = Problem(self.seen, loss, dtype=dtype, n_jobs=1)
        self.n, self.d = counts.size, rank + 1
        self.side, self.other = self.problem.side("rows"), self.problem.side("columns")
        for side in (self.side, self.other):
            side.widen(rng.normal(0, 0.6, (side.means.shape[0], rank)).astype(dtype), 1.0)
        self.other.means[:, -1] = rng.normal(0, 0.3, 100)
        if variances:
            self.other.variances = rng.uniform(0.05, 0.4, self.other.means.shape).astype(dtype)
            self.side.variances = rng.uniform(0.05, 0.4, self.side.means.shape).astype(dtype)
        self.side.prior_means = rng.normal(0, 0.3, self.side.means.shape).astype(dtype)
        self.side.precisions = rng.uniform(0.5, 2.0, self.d)
        self.side.multipliers = rng.uniform(0.5, 3.0, self.n).astype(dtype)
        self.settings = RowSettings(0.3, SCALE, variances)
        half = rng.normal(size=(self.d, self.d))
        self.S, self.q = half @ half.T, rng.normal(size=self.d)

    def entries(self, i):
        """Regressors, their variances, targets less the base, and weights of row i."""
        of = self.seen.rows == i
        j, rank = self.seen.cols[of], self.d - 1
        F = np.column_stack((self.other.means[j, :rank], np.ones(j.size))).astype(float)
        V = np.column_stack((self.other.variances[j, :rank], np.zeros(j.size))).astype(float)
        weights = np.ones(j.size) if self.seen.weights is None else self.seen.weights[of]
        return F, V, self.seen.targets[of] - 0.3 - self.other.means[j, -1].astype(float), weights

    def system(self, i):
        """Matrix and right-hand side of row i's entries under the square loss, and of its prior."""
        F, V, y, w = self.entries(i)
        own = float(self.side.multipliers[i]) * self.side.precisions
        P = SCALE * (F.T @ (w[:, None] * F) + np.diag(w @ V)) + np.diag(own)
        return P, SCALE * F.T @ (w * y) + own * self.side.prior_means[i]

    def expected_loss(self):
        """Under the square loss, where the rows are now."""
        total = 0.0
        for i in range(self.n):
            F, V, y, w = self.entries(i)
            m, v = self.side.means[i].astype(float), self.side.variances[i].astype(float)
            noise = self.other.variances[self.seen.cols[self.seen.rows == i], -1]
            total += 0.5 * w @ ((F @ m - y) ** 2 + V @ m**2 + (F**2 + V) @ v + noise)
        return total


def check_against_numpy(rows, multipliers, shared, rtol):
    """One solve with a shared quadratic is that of the sum of both systems."""
    wanted, diagonals = [], []
    for i in range(rows.n):
        P, rhs = rows.system(i)
        P = P + float(multipliers[i]) * rows.S
        wanted.append(np.linalg.solve(P, rhs + float(multipliers[i]) * rows.q))
        diagonals.append(np.diag(P))
    sums = rows.side.improve(rows.other, rows.settings, shared)
    np.testing.assert_allclose(rows.side.means, wanted, rtol=rtol, atol=rtol)
    if rows.settings.estimate_variances:
        np.testing.assert_allclose(rows.side.variances, 1 / np.array(diagonals), rtol=10 * rtol)
    assert sums.loss == pytest.approx(rows.expected_loss(), rel=10 * rtol)


@KINDS
@pytest.mark.parametrize("variances", [False, True], ids=["numbers", "variances"])
@pytest.mark.parametrize("rank", [3, 11, 23])
def test_a_shared_quadratic_is_added_to_every_row(dtype, variances, rank):
    rows = Rows(dtype=dtype, rank=rank, variances=variances)
    multipliers = np.random.default_rng(1).uniform(0.2, 2.0, rows.n).astype(dtype)
    shared = SharedQuadratic(rows.S, rows.q, multipliers)
    check_against_numpy(rows, multipliers, shared, TOLERANCE[dtype])


@KINDS
@pytest.mark.parametrize("rank", [11, 23])
def test_rows_with_few_entries_start_from_the_factor_of_s_plus_the_prior(dtype, rank):
    rows = Rows(dtype=dtype, rank=rank)
    shared = SharedQuadratic(rows.S, rows.q, rows.side.multipliers)
    prior = GaussianPrior(rows.side.prior_means, rows.side.precisions, rows.side.multipliers)
    prepared = shared.prepared(rows.other.design(0.3, True, 0.0).padded(), prior)
    assert prepared.factored is not None  # the way that is tested here
    check_against_numpy(rows, rows.side.multipliers, shared, TOLERANCE[dtype])


def test_rows_with_few_entries_need_one_multiplier_and_no_variances():
    plain, uncertain = Rows(rank=11), Rows(rank=11, variances=True)
    prior = GaussianPrior(plain.side.prior_means, plain.side.precisions, plain.side.multipliers)
    designs = [rows.other.design(0.3, True, 0.0).padded() for rows in (plain, uncertain)]
    alike = SharedQuadratic(plain.S, plain.q, plain.side.multipliers)
    assert alike.prepared(designs[0], prior).factored is not None
    assert alike.prepared(designs[1], prior).factored is None
    assert alike._replace(multipliers=np.ones(plain.n)).prepared(designs[0], prior).factored is None
    assert alike.prepared(designs[0], None).factored is None


def solve_with(rows, prior, shared=None, penalty=None, variances=False, times=1):
    """Solve the rows with any prior, or with none; the penalty covers the offset too."""
    problem = RowProblem(prior, SCALE, variances, shared, None if penalty is None else SizedPenalty(penalty, rows.d))
    design = rows.other.design(0.3, True, 0.0).padded()
    for _ in range(times):
        (rows.side.means, rows.side.variances), sums = rows.problem.engine.run(
            Shard.solve_rows, design, problem, rows.side.means, rows.side.variances
        )
    return sums


class Toys:
    """Rows with a toy of each kind, and the system of a row with its quadratic parts."""

    def __init__(self, variances=False):
        self.rows, rng = Rows(variances=variances), np.random.default_rng(2)
        n = self.rows.n
        self.shared = ToyQuadratic(rng.uniform(0.2, 2.0, n))
        self.prior = ToyPrior(rng.normal(size=(n, 4)), rng.uniform(0.5, 2.0, (n, 4)))

    def system(self, i):
        """Matrix and right-hand side with the toy quadratic and the toy prior."""
        rows, b = self.rows, self.shared.strengths[i]
        rows.side.prior_means[i], rows.side.precisions = self.prior.lines[i], self.prior.precisions[i]
        rows.side.multipliers[i] = 2.0
        P, rhs = rows.system(i)
        return P + b, rhs + b * np.eye(4)[0]


@pytest.mark.parametrize("variances", [False, True], ids=["numbers", "variances"])
def test_quadratic_parts_from_outside_are_solved_as_numpy_solves_their_sum(variances):
    toys = Toys(variances)
    rows = toys.rows
    systems = [toys.system(i) for i in range(rows.n)]
    wanted = [np.linalg.solve(P, rhs) for P, rhs in systems]
    sums = solve_with(rows, toys.prior, toys.shared, None, variances)
    np.testing.assert_allclose(rows.side.means, wanted, rtol=1e-9)
    if variances:
        np.testing.assert_allclose(rows.side.variances, [1 / np.diag(P) for P, _ in systems], rtol=1e-9)
    assert sums[0] == pytest.approx(rows.expected_loss(), rel=1e-9)


@pytest.mark.slow  # compiles
def test_rows_without_a_prior_are_least_squares_with_the_shared_quadratic():
    rows = Rows()
    wanted = []
    for i in range(rows.n):
        rows.side.precisions = np.zeros(4)
        P, rhs = rows.system(i)
        wanted.append(np.linalg.solve(P + rows.S, rhs + rows.q))
    sums = solve_with(rows, None, SharedQuadratic(rows.S, rows.q, np.ones(rows.n)))
    np.testing.assert_allclose(rows.side.means, wanted, rtol=1e-8)
    assert sums[0] == pytest.approx(rows.expected_loss(), rel=1e-9)


def best_of(P, rhs, strength, signs):
    """SciPy's minimum of ``x P x / 2 - rhs x + strength |x|``, x being the difference of two positive parts."""
    split = np.column_stack((np.eye(4), -np.eye(4)))

    def objective(z):
        x = split @ z
        return 0.5 * x @ P @ x - rhs @ x + strength * z.sum(), split.T @ (P @ x - rhs) + strength

    limits = [(0, None)] * 4 + [(0, None if signs else 0)] * 4
    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 2000}
    return split @ minimize(objective, np.ones(8) * 0.1, jac=True, method="L-BFGS-B", bounds=limits, options=options).x


@pytest.mark.parametrize("penalty", [ToyLasso(), rarely(ToyRidge()), rarely(NonNegative())], ids=repr)
def test_penalties_from_outside_are_solved_by_coordinate_descent(penalty):
    toys = Toys()
    rows = toys.rows
    strength, weight = getattr(penalty, "strength", 0.0), getattr(penalty, "weight", 0.0)
    systems = [(P + weight * np.eye(4), rhs) for P, rhs in map(toys.system, range(rows.n))]
    wanted = [best_of(*system, strength, signs=not penalty.nonnegative) for system in systems]
    rows.side.means = penalty.feasible(rows.side.means)
    sums = solve_with(rows, toys.prior, toys.shared, penalty, times=20)
    np.testing.assert_allclose(rows.side.means, wanted, atol=1e-5)
    assert sums[0] == pytest.approx(rows.expected_loss(), rel=1e-9)
    assert sums[4] == pytest.approx(strength * np.abs(wanted).sum() + weight / 2 * np.sum(np.square(wanted)), abs=1e-4)


@pytest.mark.slow  # compiles
def test_under_newtons_quadratic_all_parts_converge_to_scipys_minimum():
    rows, rng = Rows("logistic", weights=False), np.random.default_rng(3)
    strengths = rng.uniform(0.2, 1.0, rows.n)
    parts = ToyQuadratic(strengths), ToyRidge(weight=0.4)
    for _ in range(40):
        rows.side.improve(rows.other, rows.settings, *parts)
    for i in range(rows.n):
        F, _, _, _ = rows.entries(i)
        of = rows.seen.rows == i
        base, targets = 0.3 + rows.other.means[rows.seen.cols[of], -1], rows.seen.targets[of]
        own = rows.side.multipliers[i] * rows.side.precisions

        def objective(x, i=i, F=F, base=base, targets=targets, own=own):
            off = x - rows.side.prior_means[i]
            value = SCALE * np.logaddexp(0, -targets * (base + F @ x)).sum() + 0.5 * own @ off**2
            return value + strengths[i] * (0.5 * x.sum() ** 2 - x[0]) + 0.2 * x[:3] @ x[:3]

        best = minimize(objective, np.zeros(4), method="BFGS", options={"gtol": 1e-8})
        np.testing.assert_allclose(rows.side.means[i], best.x, atol=1e-5)


def test_arrays_with_a_line_per_row_are_told_apart():
    rows = Rows(rank=11)
    shared = SharedQuadratic(rows.S, rows.q, rows.side.multipliers)
    prior = GaussianPrior(rows.side.prior_means, rows.side.precisions, rows.side.multipliers)
    shared = shared.prepared(rows.other.design(0.3, True, 0.0).padded(), prior)
    cut = RowProblem(prior, 1.0, False, shared).map_arrays(lambda a: a[2:4], lambda a: a)
    assert cut.prior.means.shape == (2, 12) and cut.prior.precisions.shape == (12,)
    assert cut.shared.multipliers.shape == (2,) and cut.shared.matrix is shared.matrix
    assert cut.shared.factored.solved is shared.factored.solved
    toy = ToyPrior(rows.side.prior_means, rows.side.prior_means)
    assert cut.built_in and not RowProblem(toy).built_in
