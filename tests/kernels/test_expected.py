"""The loss of an uncertain prediction as a parabola, the noise that a loss stands for, and the row solves on them."""

import math

import numpy as np
import pytest
from helpers import but_rarely, rarely, targets_for
from loss_cases import AVERAGED, BOUNDED, COMPILED, LOSSES, lopsided, rounded
from scipy.integrate import quad
from scipy.optimize import minimize, minimize_scalar

from rankwise import Observations, Problem
from rankwise.engines import Shard
from rankwise.kernels.expected import expected_at, majorised
from rankwise.kernels.rows import HALVINGS, TILE, Task
from rankwise.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Poisson,
    Quantile,
    SmoothHinge,
    Square,
    SquaredHinge,
)
from rankwise.model.sides import Side

SMOOTH = [Square(), Huber(0.4), Logistic(), SquaredHinge(), SmoothHinge(), Poisson()]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
every_compiled_loss = pytest.mark.parametrize("loss", but_rarely(COMPILED), ids=repr)
every_bounded_loss = pytest.mark.parametrize("loss", BOUNDED, ids=repr)
every_averaged_loss = pytest.mark.parametrize("loss", AVERAGED, ids=repr)
SHARP = 1e-6  # a corner may count as rounded by this much


def points(loss, rng, n=40, least=0.0):
    """Means, variances and targets, no kink of the loss within 0.02 of the mean or of a standard deviation from it."""
    found = []
    while len(found) < n:
        o = float(targets_for(loss, rng, 1)[0])
        m, s = float(rng.uniform(-3, 3)), float(rng.choice([0.0, 0.1, 1.0, 4.0]) * rng.uniform(0.5, 2)) + least
        ends = np.array([m, m - math.sqrt(s), m + math.sqrt(s)])
        kinks = [o, o - 1, o + 1, o - 0.4, o + 0.4, o - 0.3, o + 0.3, 0.0, -0.5, 0.5, 1.5, 2.5]
        if all(np.abs(ends - kink).min() > 0.02 for kink in kinks):
            found.append((m, s, o))
    return found


def value(loss, m, s, o):
    return expected_at(loss.formula, m, s, o)[0]


@every_loss
def test_the_slope_is_the_derivative_in_the_mean(loss):
    h = 1e-5
    for m, s, o in points(loss, np.random.default_rng(0)):
        slope = expected_at(loss.formula, m, s, o)[1]
        difference = (value(loss, m + h, s, o) - value(loss, m - h, s, o)) / (2 * h)
        assert slope == pytest.approx(difference, rel=1e-5, abs=1e-6)


@every_loss
def test_half_the_weight_is_the_derivative_in_the_variance(loss):
    for m, s, o in points(loss, np.random.default_rng(1)):
        weight = expected_at(loss.formula, m, s, o)[2]
        h = 1e-5 if s else 1e-7  # at zero, one-sided
        difference = (value(loss, m, s + h, o) - value(loss, m, s - h if s else 0.0, o)) / (2 * h if s else h)
        # the differences are of values near one, and those of the losses by users of differences again
        assert weight / 2 == pytest.approx(difference, rel=2e-4, abs=2e-6 / (1 if s else 1e-1))


@every_averaged_loss
@pytest.mark.parametrize("s", [0.0, 2.5e-7], ids=["certain", "nearly"])
def test_where_the_prediction_is_certain_the_weight_is_the_curvature(loss, s):
    for m, _, o in points(loss, np.random.default_rng(2)):
        weight = expected_at(loss.formula, m, s, o)[2]
        assert weight == pytest.approx(float(loss.curvature(m, o)), rel=1e-5, abs=2e-5)


@every_loss
def test_without_variance_it_is_the_loss(loss):
    for m, _, o in points(loss, np.random.default_rng(3)):
        found, slope, _ = expected_at(loss.formula, m, 0.0, o)
        assert found == pytest.approx(float(loss.value(m, o)), abs=SHARP)
        assert slope == pytest.approx(float(loss.slope(m, o)), abs=1e-6)


@every_loss
def test_even_at_a_kink_everything_is_finite_and_near_the_loss(loss):
    for o in np.unique(targets_for(loss, np.random.default_rng(4), 5)):
        for x in (0.0, o, o - 0.3, o + 0.3, o + 1.0):
            found = expected_at(loss.formula, float(x), 0.0, float(o))
            assert np.isfinite(found).all() and found[2] >= -1e-6  # rounding of slopes by differences
            # a corner of a user's loss is looked at from 1e-4 away on either side
            assert found[0] == pytest.approx(float(loss.value(x, o)), abs=1e-4 if loss is lopsided else 2 * SHARP)


def mean_loss(loss, m, s, o):
    """Average of the loss over a normal prediction, on a fine grid."""
    z = np.linspace(-9, 9, 20001)
    density = np.exp(-0.5 * z * z)
    return float(loss.value(m + math.sqrt(s) * z, o) @ density / density.sum())


@every_bounded_loss
def test_what_is_bounded_lies_above_the_average_over_a_normal_prediction(loss):
    for m, s, o in points(loss, np.random.default_rng(5)):
        assert value(loss, m, s, o) >= mean_loss(loss, m, s, o) - 1e-6


def test_the_square_is_the_average():
    for m, s, o in points(Square(), np.random.default_rng(5)):
        assert value(Square(), m, s, o) == pytest.approx(mean_loss(Square(), m, s, o), rel=1e-9)


@every_bounded_loss
def test_the_parabola_of_what_is_bounded_lies_above_it_everywhere(loss):
    rng = np.random.default_rng(6)
    for m, s, o in points(loss, rng):
        here, slope, weight = expected_at(loss.formula, m, s, o)
        for step in rng.normal(0, 2, 25):
            there = float(rng.choice([0.0, s, rng.uniform(0, 6)]))
            above = here + slope * step + 0.5 * weight * (step * step + there - s)
            assert above >= value(loss, m + step, there, o) - 1e-9 * (1 + abs(above))


@every_averaged_loss
def test_what_is_averaged_is_the_mean_of_two_points(loss):
    for m, s, o in points(loss, np.random.default_rng(7)):
        ends = loss.value([m - math.sqrt(s), m + math.sqrt(s)], o)
        assert value(loss, m, s, o) == pytest.approx(float(ends.mean()), rel=1e-12)


@pytest.mark.parametrize("loss", [Logistic(), Poisson(), rounded], ids=repr)
def test_two_points_are_exact_up_to_the_third_moment(loss):
    errors = []
    for s in (0.04, 0.01):
        errors.append(max(abs(value(loss, m, s, o) - mean_loss(loss, m, s, o)) for m in (-1, 0.3) for o in (-1.0, 1.0)))
    assert errors[1] <= errors[0] / 12  # the fourth moment: 16 times less at a quarter of the variance


DENSITIES = [Square(), Huber(0.3), Huber(1.0), Huber(4.0), Absolute(), Quantile(0.5), Quantile(0.9)]
DENSITIES += [EpsilonInsensitive(0.0), EpsilonInsensitive(0.1), EpsilonInsensitive(2.0)]
every_density = pytest.mark.parametrize("loss", DENSITIES, ids=repr)


@every_density
@pytest.mark.parametrize("scale", [0.02, 0.7, 1.0, 30.0])
def test_the_normaliser_is_the_integral_over_the_targets(loss, scale):
    kinks = [k for k in (getattr(loss, "delta", 0.0), getattr(loss, "epsilon", 0.0)) if k]

    def density(o):
        return math.exp(-scale * float(loss.value(0.0, o)))

    total = 0.0
    for lo, hi in zip([0.0, *kinks], [*kinks, np.inf], strict=True):
        total += quad(density, lo, hi)[0] + quad(lambda o: density(-o), lo, hi)[0]
    assert loss.log_normaliser(scale) == pytest.approx(math.log(total), abs=1e-7)


@every_density
@pytest.mark.parametrize("mean", [1e-4, 0.03, 0.5, 2.0, 40.0])
def test_the_best_scale_makes_the_mean_loss_likeliest(loss, mean):
    def unlikeliness(t):
        return math.exp(t) * mean + loss.log_normaliser(math.exp(t))

    centre = -math.log(mean)
    best = minimize_scalar(unlikeliness, bounds=(centre - 6, centre + 6), method="bounded", options={"xatol": 1e-9})
    found = math.log(loss.best_scale(mean))
    assert unlikeliness(found) <= best.fun + 1e-9
    assert found == pytest.approx(best.x, abs=2e-5)


@pytest.mark.parametrize("loss", [Logistic(), Poisson(), Hinge(), SquaredHinge(), SmoothHinge(), rounded], ids=repr)
def test_a_loss_that_is_no_density_of_its_target_keeps_the_scale_one(loss):
    assert loss.log_normaliser(0.3) == 0.0 and loss.best_scale(0.3) == 1.0


class Rows:
    """Rows to solve given columns, and a plain twin of the solve.

    Rows have 0, 1, 2, ... entries up to `longest`, so that every remainder of four occurs, and `heavy` in the last.
    """

    def __init__(self, loss, rank=3, weights=False, heavy=0, dtype=np.float64, seed=0, offset=True, learned=True):
        rng = np.random.default_rng(seed)
        self.loss, self.scale, self.constant, self.blur, self.learned = loss, 0.8, 0.3, 0.05, learned
        counts = np.array([0, 1, 2, 3, 4, 5, 6, 9, heavy or 11])
        shape = (counts.size, max(15, heavy + 7))
        rows = np.repeat(np.arange(counts.size), counts)
        cols = np.concatenate([np.sort(rng.choice(shape[1], n, replace=False)) for n in counts])
        weight_of = rng.uniform(0.3, 2.0, rows.size) if weights else None
        self.seen = Observations.from_coo(rows, cols, targets_for(loss, rng, rows.size), shape, weights=weight_of)
        self.problem = Problem(self.seen, loss, dtype=dtype)
        self.mine = self._side(self.problem.engine, shape[0], rank, offset, rng, dtype)
        self.other = self._side(self.problem.side("columns"), shape[1], rank, True, rng, dtype)
        self.mine.around = rng.normal(0, 0.3, self.mine.means.shape).astype(dtype)
        self.mine.precisions = rng.uniform(0.5, 2.0, self.mine.means.shape[1])
        self.mine.counts = rng.uniform(0.5, 3.0, shape[0]).astype(dtype)

    def _side(self, engine, size, rank, offset, rng, dtype):
        side = Side.empty(engine, size, offset, dtype)
        side.widen(rng.normal(0, 0.6, (size, rank)).astype(dtype), 1.0)
        side.means = rng.normal(0, 0.6, side.means.shape).astype(dtype)
        side.variances = (rng.uniform(0.05, 0.4, side.means.shape) * self.learned).astype(dtype)
        return side

    def improve(self):
        return self.mine.improve(self.other, self.constant, Task(self.scale, self.learned), self.blur)

    def entries(self, i):
        """Factors and variances of the columns of row i as it sees them, base, base variance, targets, weights."""
        mine = self.seen.rows == i
        j, rank = self.seen.cols[mine], self.mine.rank
        F, S = self.other.means[j].astype(float), self.other.variances[j].astype(float)
        base, spread = self.constant + F[:, -1], S[:, -1] + self.blur
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
        off, precisions = mean - self.mine.around[i], self.mine.counts[i] * self.mine.precisions
        total = self.scale * self.parabolas(i, mean, variance)[0].sum() + 0.5 * precisions @ (off**2 + variance)
        return total - 0.5 * np.log(variance).sum() if self.learned else total

    def newton(self, i):
        """Minimum of the parabolas, by dense linear algebra."""
        mean, variance = self.mine.means[i].astype(float), self.mine.variances[i].astype(float)
        F, S, *_ = self.entries(i)
        _, slope, bend = self.parabolas(i, mean, variance)
        precisions = self.mine.counts[i] * self.mine.precisions
        P = self.scale * (F.T @ (bend[:, None] * F) + np.diag(S.T @ bend)) + np.diag(precisions)
        pull = self.scale * F.T @ (bend * (F @ mean) - slope) + precisions * self.mine.around[i]
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
    assert found.bends == pytest.approx(sum(b[2].sum() for b in before), rel=rtol)
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
        prior = np.diag(rows.mine.precisions * rows.mine.counts[i])
        P = prior + rows.scale * (design.T @ np.diag(w) @ design + np.diag(w @ noise))
        left = targets - rows.constant - rows.other.means[j, -1]
        wanted.append(np.linalg.solve(P, prior @ rows.mine.around[i] + rows.scale * design.T @ (w * left)))
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
    rows.blur = 0.0
    for _ in range(60):
        rows.improve()
    for i in range(rows.seen.shape[0]):
        F, _, base, _, targets, weights = rows.entries(i)
        precisions, around = rows.mine.counts[i] * rows.mine.precisions, rows.mine.around[i].astype(float)

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
    np.testing.assert_allclose(rows.mine.means[0], rows.mine.around[0], rtol=1e-12)
    wanted = 1 / (rows.mine.counts[0] * rows.mine.precisions) if learned else 0.0
    np.testing.assert_allclose(rows.mine.variances[0], wanted, rtol=1e-12)


@pytest.mark.parametrize("loss", [Square(), Absolute(), Logistic(), rarely(Poisson())], ids=repr)
def test_single_precision_follows_double(loss):
    for heavy in (0, 2 * TILE + 90):
        single, double = (Rows(loss, heavy=heavy, seed=3, dtype=dtype) for dtype in (np.float32, np.float64))
        found, wanted = single.improve(), double.improve()
        assert single.mine.means.dtype == single.mine.variances.dtype == np.float32
        np.testing.assert_allclose(single.mine.means, double.mine.means, atol=2e-4)
        np.testing.assert_allclose(single.mine.variances, double.mine.variances, rtol=2e-4)
        assert (found.loss, found.logs, found.bends) == pytest.approx(
            (wanted.loss, wanted.logs, wanted.bends), rel=2e-4
        )


def far_row(loss, targets, start):
    """One row with one weak factor, seen at `targets`, starting far from its best."""
    rows = Rows(loss, rank=1, offset=False, learned=False)
    rows.seen = Observations.from_coo(np.zeros(len(targets), int), np.arange(len(targets)), targets)
    rows.problem = Problem(rows.seen, loss, dtype=np.float64)
    rows.mine = Side.empty(rows.problem.engine, 1, False, np.float64)
    rows.other = Side.empty(rows.problem.side("columns"), len(targets), True, np.float64)
    rows.mine.widen(np.full((1, 1), start), 1e-6)
    rows.other.widen(np.ones((len(targets), 1)), 1.0)
    rows.scale, rows.constant, rows.blur = 1.0, 0.0, 0.0
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
    given = rows.other.given(rows.constant, rows.mine.offset, rows.blur)
    found = rows.problem.engine.run(Shard.expected_loss, given, rows.mine.means, rows.mine.variances)
    n = rows.seen.shape[0]
    wanted = sum(rows.parabolas(i, rows.mine.means[i], rows.mine.variances[i])[0].sum() for i in range(n))
    assert found[0] == pytest.approx(wanted, rel=1e-10)


def test_the_expected_loss_knows_weights_and_tiles():
    rows = Rows(Square(), seed=4, weights=True, heavy=2 * TILE + 90)
    given = rows.other.given(rows.constant, rows.mine.offset, rows.blur)
    found = rows.problem.engine.run(Shard.expected_loss, given, rows.mine.means, rows.mine.variances)
    n = rows.seen.shape[0]
    wanted = sum(rows.parabolas(i, rows.mine.means[i], rows.mine.variances[i])[0].sum() for i in range(n))
    assert found[0] == pytest.approx(wanted, rel=1e-10)


def test_an_infinite_loss_is_infinite_and_not_undefined():
    """Registers are filled up with entries that weigh nothing, and nothing times infinity is undefined."""
    rows = Rows(Poisson())
    rows.mine.means[:, -1] = 800.0
    assert rows.mine.expected_loss(rows.other, rows.constant, rows.blur) == np.inf
