"""Row solves: one call minimizes the quadratic of every row, and no call raises a row's objective."""

import math

import numba
import numpy as np
import pytest
from helpers import but_rarely, rarely, targets_for
from loss_cases import BOUNDED, COMPILED, lopsided
from scipy.optimize import minimize

from rankwise import Observations, Problem
from rankwise.kernels.expected import expected_at, majorised
from rankwise.kernels.row_solver import HALVINGS, half_logs
from rankwise.kernels.tile_losses import TILE
from rankwise.losses import Absolute, Hinge, Huber, Logistic, Poisson, SmoothHinge, Square, SquaredHinge
from rankwise.objectives.sides import RowSettings, Side

SMOOTH = [Square(), Huber(0.4), Logistic(), SquaredHinge(), SmoothHinge(), Poisson()]
every_compiled_loss = pytest.mark.parametrize("loss", but_rarely(COMPILED), ids=repr)


class Rows:
    """Rows to solve given columns, and a plain twin of the solve.

    Rows have 0, 1, 2, ... entries up to `longest`, so that every remainder of four occurs, and `heavy` in the last.
    """

    def __init__(self, loss, rank=3, weights=False, heavy=0, dtype=np.float64, seed=0, offset=True, learned=True):
        rng = np.random.default_rng(seed)
        self.loss, self.scale, self.constant, self.smoothing, self.learned = loss, 0.8, 0.3, 0.05, learned
        counts = np.array([0, 1, 2, 3, 4, 5, 6, 9, heavy or 11])
        shape = (counts.size, max(15, heavy + 7))
        rows = np.repeat(np.arange(counts.size), counts)
        cols = np.concatenate([np.sort(rng.choice(shape[1], n, replace=False)) for n in counts])
        weight_of = rng.uniform(0.3, 2.0, rows.size) if weights else None
        self.seen = Observations.from_coo(rows, cols, targets_for(loss, rng, rows.size), shape, weights=weight_of)
        self.problem = Problem(self.seen, loss, dtype=dtype)
        self.mine = self._side(self.problem.engine, shape[0], rank, offset, rng, dtype)
        self.other = self._side(self.problem.engine_of("columns"), shape[1], rank, True, rng, dtype)
        self.mine.prior_means = rng.normal(0, 0.3, self.mine.means.shape).astype(dtype)
        self.mine.precisions = rng.uniform(0.5, 2.0, self.mine.means.shape[1])
        self.mine.multipliers = rng.uniform(0.5, 3.0, shape[0]).astype(dtype)

    def _side(self, engine, size, rank, offset, rng, dtype):
        side = Side.empty(engine, size, offset, dtype)
        side.widen(rng.normal(0, 0.6, (size, rank)).astype(dtype), 1.0)
        side.means = rng.normal(0, 0.6, side.means.shape).astype(dtype)
        side.variances = (rng.uniform(0.05, 0.4, side.means.shape) * self.learned).astype(dtype)
        return side

    def improve(self):
        return self.mine.improve(self.other, self.settings)

    @property
    def settings(self):
        return RowSettings(self.constant, self.scale, self.learned, self.smoothing)

    def entries(self, i):
        """Factors and variances of the columns of row i as it sees them, base, base variance, targets, weights."""
        mine = self.seen.rows == i
        j, rank = self.seen.cols[mine], self.mine.rank
        F, S = self.other.means[j].astype(float), self.other.variances[j].astype(float)
        base, spread = self.constant + F[:, -1], S[:, -1] + self.smoothing
        F, S = F[:, :rank], S[:, :rank]
        if self.mine.offset:
            F, S = np.column_stack((F, np.ones(j.size))), np.column_stack((S, np.zeros(j.size)))
        weights = np.ones(j.size) if self.seen.weights is None else self.seen.weights[mine]
        return F, S, base, spread, self.seen.targets[mine], weights

    def parabolas(self, i, mean, variance):
        """Weighted value, slope and bend of every entry of row i."""
        F, S, base, spread, targets, weights = self.entries(i)
        x, s = base + F @ mean, spread + S @ mean**2 + (F**2 + S) @ variance
        found = [expected_at(self.loss.formula, *map(float, at)) for at in zip(x, s, targets, strict=True)]
        return np.array(found).reshape(-1, 3).T * weights

    def parabolas_at(self, i, mean, variance):
        """Value at a row of the parabolas that touch where row i is now."""
        (F, S, _, _, _, _), now, was = self.entries(i), self.mine.means[i], self.mine.variances[i]
        value, slope, bend = self.parabolas(i, now, was)
        moved = F @ (mean - now)
        wider = S @ (mean**2 - now**2) + (F**2 + S) @ (variance - was)
        return np.sum(value + slope * moved + 0.5 * bend * (moved**2 + wider))

    def objective(self, i, mean, variance):
        off, precisions = mean - self.mine.prior_means[i], self.mine.multipliers[i] * self.mine.precisions
        total = self.scale * self.parabolas(i, mean, variance)[0].sum() + 0.5 * precisions @ (off**2 + variance)
        return total - 0.5 * np.log(variance).sum() if self.learned else total

    def newton(self, i):
        """Minimum of the parabolas, by dense linear algebra."""
        mean, variance = self.mine.means[i].astype(float), self.mine.variances[i].astype(float)
        F, S, *_ = self.entries(i)
        _, slope, bend = self.parabolas(i, mean, variance)
        precisions = self.mine.multipliers[i] * self.mine.precisions
        P = self.scale * (F.T @ (bend[:, None] * F) + np.diag(S.T @ bend)) + np.diag(precisions)
        pull = self.scale * F.T @ (bend * (F @ mean) - slope) + precisions * self.mine.prior_means[i]
        return np.linalg.solve(P, pull), (1 / np.diag(P) if self.learned else np.zeros(mean.size))

    def expected(self, i):
        """Where row i must end, and the halvings it takes."""
        mean, variance = self.mine.means[i].astype(float), self.mine.variances[i].astype(float)
        best, spread = self.newton(i)
        limit = self.objective(i, mean, variance)
        for n in range(HALVINGS):
            there = mean + 0.5**n * (best - mean), variance + 0.5**n * (spread - variance)
            if self.objective(i, *there) <= limit + 1e-12 * abs(limit):
                return *there, n
        return mean, variance, HALVINGS


def check_one_call(rows, rtol=1e-9):
    """One call against the twin: means, variances, and the four sums."""
    wanted = [rows.expected(i) for i in range(rows.seen.shape[0])]
    before = [
        rows.parabolas(i, m, v) for i, (m, v) in enumerate(zip(rows.mine.means, rows.mine.variances, strict=True))
    ]
    bounds = [rows.parabolas_at(i, *w[:2]) for i, w in enumerate(wanted)]
    found = rows.improve()
    np.testing.assert_allclose(rows.mine.means, [w[0] for w in wanted], rtol=rtol, atol=rtol)
    np.testing.assert_allclose(rows.mine.variances, [w[1] for w in wanted], rtol=rtol, atol=rtol)
    assert found.halvings == sum(w[2] for w in wanted)
    losses = [rows.parabolas(i, *w[:2])[0].sum() for i, w in enumerate(wanted)]
    assert found.loss == pytest.approx(sum(bounds if majorised(rows.loss.formula) else losses), rel=rtol)
    assert found.curvatures == pytest.approx(sum(b[2].sum() for b in before), rel=rtol)
    logs = 0.5 * np.log(rows.mine.variances.astype(float)).sum() if rows.learned else 0.0
    assert found.logs == pytest.approx(logs, rel=rtol)


@every_compiled_loss
@pytest.mark.parametrize("learned", [True, False], ids=["learned", "given"])
def test_one_call_minimises_the_parabolas_of_every_row(loss, learned):
    for seed in range(4):
        # second differences of a user's loss leave six digits
        check_one_call(Rows(loss, seed=seed, learned=learned), rtol=1e-5 if loss is lopsided else 1e-8)


@pytest.mark.parametrize("loss", [Square(), Absolute(), Logistic()], ids=repr)
@pytest.mark.parametrize("heavy", [0, TILE, 2 * TILE + 90])
def test_weights_and_rows_of_several_tiles_change_nothing(loss, heavy):
    check_one_call(Rows(loss, weights=True, heavy=heavy, seed=5), rtol=1e-8)
    check_one_call(Rows(loss, weights=True, heavy=heavy, seed=6, rank=9, learned=False), rtol=1e-8)


@pytest.mark.parametrize("offset", [True, False], ids=["offset", "no-offset"])
@pytest.mark.parametrize("heavy", [0, 2 * TILE + 90])
def test_under_the_square_loss_one_call_is_bayesian_regression(offset, heavy):
    rows = Rows(Square(), weights=True, heavy=heavy, offset=offset)
    rank, wanted, variances = rows.mine.rank, [], []
    for i in range(rows.seen.shape[0]):
        at = rows.seen.rows == i
        j, targets, w = rows.seen.cols[at], rows.seen.targets[at], rows.seen.weights[at]
        design, noise = rows.other.means[j, :rank], rows.other.variances[j, :rank]
        if offset:
            design, noise = np.pad(design, ((0, 0), (0, 1)), constant_values=1.0), np.pad(noise, ((0, 0), (0, 1)))
        prior = np.diag(rows.mine.precisions * rows.mine.multipliers[i])
        P = prior + rows.scale * (design.T @ np.diag(w) @ design + np.diag(w @ noise))
        left = targets - rows.constant - rows.other.means[j, -1]
        wanted.append(np.linalg.solve(P, prior @ rows.mine.prior_means[i] + rows.scale * design.T @ (w * left)))
        variances.append(1 / np.diag(P))
    assert rows.improve().halvings == 0
    np.testing.assert_allclose(rows.mine.means, wanted, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(rows.mine.variances, variances, rtol=1e-10)
    again = rows.mine.means.copy()
    rows.improve()
    np.testing.assert_allclose(rows.mine.means, again, rtol=1e-10, atol=1e-12)


@every_compiled_loss
@pytest.mark.parametrize("learned", [True, False], ids=["learned", "given"])
def test_no_call_raises_a_row(loss, learned):
    rows = Rows(loss, seed=9, learned=learned)
    n = rows.seen.shape[0]
    before = [rows.objective(i, rows.mine.means[i], rows.mine.variances[i]) for i in range(n)]
    for _ in range(4):
        rows.improve()
        after = [rows.objective(i, rows.mine.means[i], rows.mine.variances[i]) for i in range(n)]
        assert np.all(np.array(after) <= np.array(before) + 1e-11 * (1 + np.abs(before)))
        before = after


@pytest.mark.parametrize("loss", but_rarely(SMOOTH), ids=repr)
def test_given_the_other_side_the_rows_converge_to_scipys_minimum(loss):
    rows = Rows(loss, seed=2, learned=False)
    rows.smoothing = 0.0
    for _ in range(60):
        rows.improve()
    for i in range(rows.seen.shape[0]):
        F, _, base, _, targets, weights = rows.entries(i)
        precisions, around = rows.mine.multipliers[i] * rows.mine.precisions, rows.mine.prior_means[i].astype(float)

        def objective(u, F=F, base=base, targets=targets, weights=weights, precisions=precisions, around=around):
            x = base + F @ u
            value = rows.scale * weights @ loss.value(x, targets) + 0.5 * precisions @ (u - around) ** 2
            return value, rows.scale * F.T @ (weights * loss.slope(x, targets)) + precisions * (u - around)

        best = minimize(objective, around, jac=True, method="BFGS", options={"gtol": 1e-9})
        assert objective(rows.mine.means[i])[0] <= best.fun + 1e-9 * (1 + abs(best.fun))
        np.testing.assert_allclose(rows.mine.means[i], best.x, atol=1e-5)


@pytest.mark.parametrize("learned", [True, False], ids=["learned", "given"])
@pytest.mark.parametrize("loss", [Square(), Hinge(), Poisson()], ids=repr)
def test_a_row_without_entries_ends_at_what_was_thought_of_it(loss, learned):
    rows = Rows(loss, learned=learned)
    rows.improve()
    np.testing.assert_allclose(rows.mine.means[0], rows.mine.prior_means[0], rtol=1e-12)
    wanted = 1 / (rows.mine.multipliers[0] * rows.mine.precisions) if learned else 0.0
    np.testing.assert_allclose(rows.mine.variances[0], wanted, rtol=1e-12)


@pytest.mark.parametrize("loss", [Square(), Absolute(), Logistic(), rarely(Poisson())], ids=repr)
def test_single_precision_follows_double(loss):
    for heavy in (0, 2 * TILE + 90):
        single, double = (Rows(loss, heavy=heavy, seed=3, dtype=dtype) for dtype in (np.float32, np.float64))
        found, wanted = single.improve(), double.improve()
        assert single.mine.means.dtype == single.mine.variances.dtype == np.float32
        np.testing.assert_allclose(single.mine.means, double.mine.means, atol=2e-4)
        np.testing.assert_allclose(single.mine.variances, double.mine.variances, rtol=2e-4)
        assert (found.loss, found.logs, found.curvatures) == pytest.approx(
            (wanted.loss, wanted.logs, wanted.curvatures), rel=2e-4
        )


def far_row(loss, targets, start):
    """One row with one weak factor, seen at `targets`, starting far from its best."""
    rows = Rows(loss, rank=1, offset=False, learned=False)
    rows.seen = Observations.from_coo(np.zeros(len(targets), int), np.arange(len(targets)), targets)
    rows.problem = Problem(rows.seen, loss, dtype=np.float64)
    rows.mine = Side.empty(rows.problem.engine, 1, False, np.float64)
    rows.other = Side.empty(rows.problem.engine_of("columns"), len(targets), True, np.float64)
    rows.mine.widen(np.full((1, 1), start), 1e-6)
    rows.other.widen(np.ones((len(targets), 1)), 1.0)
    rows.scale, rows.constant, rows.smoothing = 1.0, 0.0, 0.0
    return rows


@pytest.mark.parametrize(
    "loss, targets, start, ridge, best",
    [
        (Poisson(), [20.0], -3.0, 1e-6, math.log(20.0)),
        (Logistic(), [1.0, -1.0], 6.0, 1e-6, 0.0),
        rarely(SmoothHinge(), [1.0, -1.0, -1.0], 3.0, 0.01, -1 / 2.01),  # 2 (1 + x) - 1 + 0.01 x = 0
    ],
    ids=["poisson", "logistic", "smooth-hinge"],
)
def test_newton_alone_would_go_uphill_and_is_halved(loss, targets, start, ridge, best):
    rows = far_row(loss, targets, start)
    rows.mine.precisions[:] = ridge
    full, before = rows.newton(0), rows.objective(0, np.array([start]), np.zeros(1))
    assert rows.objective(0, *full) > before
    check_one_call(rows, rtol=1e-7)
    assert rows.objective(0, rows.mine.means[0], np.zeros(1)) < before
    for _ in range(100):
        rows.improve()
    assert rows.mine.means[0, 0] == pytest.approx(best, abs=1e-3)


def test_a_row_that_no_halving_helps_stays_where_it_is():
    rows = far_row(Poisson(), [20.0], -10.0)
    found = rows.improve()
    assert found.halvings == HALVINGS and rows.mine.means[0, 0] == -10.0
    assert found.loss == pytest.approx(math.exp(-10) + 200)


@pytest.mark.parametrize("loss", but_rarely(BOUNDED), ids=repr)
def test_what_is_bounded_is_never_halved(loss):
    for seed in range(10):
        rows = Rows(loss, seed=seed, learned=seed % 2 == 0)
        rows.mine.means *= 10.0 ** (seed - 5)
        rows.scale = 10.0 ** (seed % 5 - 2)
        assert sum(rows.improve().halvings for _ in range(5)) == 0


@every_compiled_loss
def test_the_expected_loss_of_fixed_sides_is_the_sum_over_the_entries(loss):
    rows = Rows(loss, seed=4)
    found = rows.mine.expected_loss(rows.other, rows.settings)
    n = rows.seen.shape[0]
    wanted = sum(rows.parabolas(i, rows.mine.means[i], rows.mine.variances[i])[0].sum() for i in range(n))
    assert found == pytest.approx(wanted, rel=1e-10)


def test_the_expected_loss_knows_weights_and_tiles():
    rows = Rows(Square(), seed=4, weights=True, heavy=2 * TILE + 90)
    found = rows.mine.expected_loss(rows.other, rows.settings)
    n = rows.seen.shape[0]
    wanted = sum(rows.parabolas(i, rows.mine.means[i], rows.mine.variances[i])[0].sum() for i in range(n))
    assert found == pytest.approx(wanted, rel=1e-10)


def test_an_infinite_loss_is_infinite_and_not_undefined():
    """Registers are filled up with entries that weigh nothing, and nothing times infinity is undefined."""
    rows = Rows(Poisson())
    rows.mine.means[:, -1] = 800.0
    assert rows.mine.expected_loss(rows.other, rows.settings) == np.inf


@pytest.mark.parametrize("size", [1, 512, 513, 3000])
def test_half_the_sum_of_the_logarithms_of_any_number_of_variances(size):
    variances = np.random.default_rng(1).uniform(1.5, 2.0, size) * 10.0 ** np.random.default_rng(2).integers(
        -9, 9, size
    )
    inlined = numba.njit(lambda numbers: half_logs(numbers))  # it has no machine code of its own
    assert inlined(variances) == pytest.approx(0.5 * np.log(variances).sum(), rel=1e-12)
