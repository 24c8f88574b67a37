"""The exact line search of the nonsmooth pursuit: a weighted median of breakpoints, found by selection."""

from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from helpers import make_observations, targets_for
from hypothesis import given, settings
from hypothesis import strategies as st
from nonsmooth_cases import bends, every_kind, every_loss, truth
from reference import matrix_of, random_point, unit
from scipy.optimize import minimize_scalar

import rankwise as rw
from rankwise.engines import weighted_median
from rankwise.kernels import entrywise, piecewise
from rankwise.losses import Absolute, Hinge, Quantile
from rankwise.observations import shards
from rankwise.solvers.steps import bisect

every_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])
weighted_or_not = pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
every_scale = pytest.mark.parametrize("scale", [1e-8, 1e-3, 1.0, 1e3, 1e8])


class Line:
    """f along X + eta D by definition, in NumPy; X and D given at the observed entries."""

    def __init__(self, loss, x, d, o, w=None):
        x, d, o = (np.asarray(part, float) for part in (x, d, o))
        self.loss, self.x, self.d, self.o, self.w = loss, x, d, o, np.ones(o.size) if w is None else w

    def __call__(self, eta):
        return float(self.w @ truth(self.loss, self.x + eta * self.d, self.o))

    def breakpoints(self):
        """Every positive breakpoint, sorted."""
        moving = self.d != 0
        etas = (bends(self.loss, self.o)[:, moving] - self.x[moving]) / self.d[moving]
        return np.unique(etas[etas > 0])

    def least(self):
        """Least value over eta >= 0: by convexity it is at zero or at a breakpoint. O(n**2)."""
        return min(self(eta) for eta in [0.0, *self.breakpoints()])

    def sorted_least(self):
        """The same from sorted breakpoints, where bisection finds the turn. O(n log n)."""
        etas = np.r_[0.0, self.breakpoints()]
        lo, hi = 0, etas.size - 1
        while lo < hi:
            middle = (lo + hi) // 2
            lo, hi = (middle + 1, hi) if self(etas[middle + 1]) < self(etas[middle]) else (lo, middle)
        return self(etas[lo])

    def rounding(self, eta=0.0):
        """What sums of this size cannot tell from zero."""
        return 1e-12 * float(self.w @ (np.abs(self.x) + np.abs(eta * self.d) + np.abs(self.o) + 1))


def aimed(loss, x, d, o, w=None, dtype=np.float64, n_jobs=1):
    """A problem at the row `x` with the row `d` as direction; the same line in NumPy."""
    n, one = len(o), np.ones(1)
    observations = rw.Observations.from_coo(np.zeros(n, int), np.arange(n), o, weights=w)
    problem = rw.Problem(observations, loss, dtype=dtype, n_jobs=n_jobs)
    x, d, o, w = (None if part is None else np.asarray(part, float).astype(dtype) for part in (x, d, o, w))
    problem.add(1.0, 1.0, one, x)
    return problem.along(one, d), Line(loss, x, d, o, w)


def random_line(loss, rng, n=80, scale=1.0, weighted=False, zeros=0.0, **options):
    """A random line that starts anywhere and goes somewhat towards the targets; a share of the direction is zero."""
    x, o = rng.normal(0, 2, n), targets_for(loss, rng, n)
    d = scale * (rng.normal(0, 1, n) + 0.3 * (o - x))
    d[rng.random(n) < zeros] = 0.0
    return aimed(loss, x, d, o, rng.uniform(0.5, 2.0, n) if weighted else None, **options)


@every_loss
@weighted_or_not
@every_dtype
@every_scale
def test_the_best_weight_is_the_best_of_all_breakpoints(loss, weighted, dtype, scale):
    rng = np.random.default_rng(1)
    found = []
    for _ in range(4):
        phi, line = random_line(loss, rng, scale=scale, weighted=weighted, zeros=0.3, dtype=dtype)
        eta = phi.best_weight()
        assert line(eta) <= line.least() + line.rounding(eta)
        assert phi(np.array([1.0, eta]))[0] == pytest.approx(line(eta), abs=line.rounding(eta))
        found.append(eta)
    assert np.any(np.array(found) > 0)


entries = st.tuples(*[st.integers(-40, 40)] * 3, st.integers(1, 3))


@pytest.mark.parametrize("loss", [Absolute(), Quantile(0.25), rw.losses.EpsilonInsensitive(0.5)], ids=repr)
@settings(max_examples=150, deadline=None)
@given(entries=st.lists(entries, min_size=1, max_size=12))
def test_breakpoints_that_fall_on_round_numbers_are_not_lost(loss, entries):
    """Binary fractions: they tie, and they meet the edges of the bins to the last bit."""
    x, d, o, w = np.array(entries, float).T / [[16.0], [16.0], [16.0], [1.0]]
    phi, line = aimed(loss, x, d, o, w)
    eta = phi.best_weight()
    assert line(eta) <= line.least() + line.rounding(eta)


@pytest.mark.parametrize("at", [k / 256 for k in (1, 3, 64, 128, 255, 256)] + [1 + 7 / 256, 2.75, 8.0, 64.0, 2.0**-16])
def test_a_breakpoint_on_the_edge_of_a_bin_is_found_exactly(at):
    phi, _ = aimed(Absolute(), [0.0], [1.0], [at])
    assert phi.best_weight() == at


@every_loss
@pytest.mark.parametrize("start", [0.0, 0.3])
def test_no_weight_is_taken_when_the_value_only_rises(loss, start):
    """Away from the targets, from an entry that may sit on its kink: zero, not a small number."""
    o = targets_for(loss, np.random.default_rng(2), 50)
    d = np.sign(o) * np.linspace(0.1, 3, 50)
    if isinstance(loss, Hinge):
        d = -d  # from the margin inwards
    phi, line = aimed(loss, o + start * d, d, o)
    assert line.least() == pytest.approx(line(0.0), abs=line.rounding())
    assert phi.best_weight() == 0.0


def test_a_direction_of_zeros_has_nothing_to_gain():
    phi, _ = aimed(Absolute(), np.ones(5), np.zeros(5), np.zeros(5))
    assert phi.best_weight() == 0.0


@every_loss
@pytest.mark.parametrize("at", [0.7, 0.5, 37.0])
@every_dtype
def test_thousands_of_equal_breakpoints_are_one(loss, at, dtype):
    """More ties than the walk has room for; `at` and its neighbours are where the rest lies."""
    n = 30_000
    etas = np.repeat([at, 0.9 * at, 1.1 * at], [n - 10_000, 5_000, 5_000])
    o = np.where(np.arange(n) % 2, 1.0, -1.0)
    d = o / etas  # from zero, entry k meets its target at etas[k]
    phi, line = aimed(loss, np.zeros(n), d, o, dtype=dtype)
    eta = phi.best_weight()
    assert line(eta) <= line.sorted_least() + line.rounding(eta)


def test_ratings_on_a_grid_meet_in_a_few_points():
    """Whole stars, and a direction of few different values: almost every breakpoint is a tie."""
    rng = np.random.default_rng(3)
    for _ in range(10):
        x, d = rng.integers(-3, 4, (2, 20_000)) / 4
        phi, line = aimed(Absolute(), x, d, rng.integers(1, 6, 20_000))
        eta = phi.best_weight()
        assert line(eta) <= line.sorted_least() + line.rounding(eta)


@weighted_or_not
@every_dtype
@every_scale
def test_a_hinge_that_reaches_zero_stops_there(weighted, dtype, scale):
    """All signs can be had: beyond the last margin the slope is zero but for rounding, and must not be followed."""
    rng = np.random.default_rng(4)
    n = 20_000
    o = rng.choice([-1.0, 1.0], n)
    d = o * rng.uniform(0.01, 1.0, n) * scale
    phi, line = aimed(Hinge(), np.zeros(n), d, o, rng.uniform(0.5, 2, n) if weighted else None, dtype)
    eta = phi.best_weight()
    assert eta == pytest.approx(line.breakpoints()[-1], rel=1e-6)
    assert line(eta) <= 1e-12 * n


@weighted_or_not
@every_dtype
@pytest.mark.parametrize("outward", [1.0, -1.0, 0.0], ids=["outward", "inward", "both"])
def test_a_hinge_that_is_at_zero_stays(weighted, dtype, outward):
    """Every margin has been passed: f is zero, its slope is zero but for rounding, and the best weight is zero."""
    rng = np.random.default_rng(5)
    n = 20_000
    o = rng.choice([-1.0, 1.0], n)
    d = (outward * o if outward else 1.0) * rng.uniform(0.01, 1.0, n)
    phi, line = aimed(Hinge(), 2 * o, d, o, rng.uniform(0.5, 2, n) if weighted else None, dtype)
    eta = phi.best_weight()
    assert line(0.0) == 0.0 and np.isfinite(eta)
    assert line(eta) <= 1e-9


@every_loss
@every_scale
def test_the_weight_is_inverse_to_the_direction(loss, scale):
    rng = np.random.default_rng(6)
    x, d, o = rng.normal(0, 2, 101), rng.normal(size=101), targets_for(loss, rng, 101)
    d = d if aimed(loss, x, d, o)[0].best_weight() > 0 else -d  # one of the two goes down
    one, other = (aimed(loss, x, factor * d, o)[0].best_weight() for factor in (1.0, scale))
    assert one > 0 and other * scale == pytest.approx(one, rel=1e-9)


# Whole matrices: shards, threads, ridges, several terms.


@pytest.fixture(scope="module")
def pattern():
    """Entries of a 500 x 600 matrix, enough for several shards."""
    rng = np.random.default_rng(7)
    return np.nonzero(rng.random((500, 600)) < 0.7)


@patch.object(shards, "MIN_SHARD", 1 << 15)
def large(loss, pattern, weighted=False, dtype=np.float32, n_jobs=1, terms=1):
    """A problem on several shards, at a random point and aimed at a random direction of `terms` terms."""
    rng = np.random.default_rng(8)
    rows, cols = pattern
    weights = rng.uniform(0.5, 2, rows.size) if weighted else None
    observations = rw.Observations.from_coo(rows, cols, targets_for(loss, rng, rows.size), weights=weights)
    problem = rw.Problem(observations, loss, dtype=dtype, n_jobs=n_jobs)
    assert len(problem.engine.shards) > 2
    random_point(problem, rng)
    U, V = (np.column_stack([unit(rng, size) for _ in range(terms)]) for size in problem.shape)
    scales = rng.normal(0, 30.0, terms)
    return problem, U, V, scales


def as_line(problem, U, V, scales):
    """The line of a problem from its shards' predictions and the factors of the direction."""
    rows, cols, observations = problem.observations.rows, problem.observations.cols, problem.observations
    x = np.concatenate([shard.predicted for shard in problem.engine.shards])
    D = (U.astype(problem.dtype).astype(float) * scales) @ V.astype(problem.dtype).astype(float).T
    weights = observations.weights
    o, w = (
        None if part is None else part.astype(problem.dtype).astype(float) for part in (observations.targets, weights)
    )
    return Line(problem.loss, x, D[rows, cols].astype(problem.dtype), o, w)


@every_kind
@every_dtype
@pytest.mark.parametrize(("weighted", "terms"), [(False, 1), (True, 3)])
def test_shards_and_several_terms_make_one_line(loss, weighted, terms, dtype, pattern):
    problem, U, V, scales = large(loss, pattern, weighted, dtype, terms=terms)
    for sign in (1, -1):
        line = as_line(problem, U, V, sign * scales)
        eta = problem.along(U, V, sign * scales).best_weight()
        slack = line.rounding(eta) * (1 if dtype == np.float64 else 1e4)  # the last bit of D is the kernel's own
        assert line(eta) <= line.sorted_least() + slack
    assert problem.along(U, V, -scales).best_weight() + problem.along(U, V, scales).best_weight() > 0


@every_kind
@every_dtype
def test_threads_do_not_change_a_bit(loss, dtype, pattern):
    found = set()
    for n_jobs in (1, 2, 4):
        problem, *direction = large(loss, pattern, True, dtype, n_jobs, terms=2)
        found.add(problem.along(*direction).best_weight())
        found.add(problem.along(*direction).best_weight())
        problem.close()
    assert len(found) == 1


def ridged_least(line, tilt, curvature):
    """Least value of the line plus a parabola: on each piece, its end or the parabola's own turn."""
    etas = np.r_[0.0, line.breakpoints()]
    etas = np.r_[etas, 2 * etas[-1] + 1]
    candidates = [*etas[:-1]]
    for a, b in pairwise(etas):
        slope = (line(b) - line(a)) / (b - a)
        candidates.append(np.clip(-(slope + tilt) / curvature, a, b if b < etas[-1] else np.inf))
    return min(line(eta) + tilt * eta + 0.5 * curvature * eta**2 for eta in candidates)


@every_kind
@weighted_or_not
@pytest.mark.parametrize("curvature", [1e-6, 1.0, 30.0, 1e6])
@pytest.mark.parametrize("tilt", [-40.0, 0.0, 7.0])
def test_a_parabola_may_be_added(loss, weighted, tilt, curvature):
    rng = np.random.default_rng(9)
    for _ in range(3):
        phi, line = random_line(loss, rng, 80, weighted=weighted)

        def ridged(eta, line=line):
            return line(eta) + tilt * eta + 0.5 * curvature * eta**2

        eta = phi.best_weight(tilt, curvature)
        slack = 1e-11 * (ridged(0.0) + abs(tilt * eta) + curvature * eta**2 + line.rounding(eta))
        assert ridged(eta) <= ridged_least(line, tilt, curvature) + slack
        far = 2 * eta + 1
        assert ridged(eta) <= minimize_scalar(ridged, bounds=(0, far), options={"xatol": 1e-12}).fun + slack


@every_loss
@weighted_or_not
@pytest.mark.parametrize("ridge", [1e-3, 0.3, 20.0])
@pytest.mark.parametrize("terms", [1, 3])
def test_the_ridge_of_an_objective_is_part_of_the_line(loss, weighted, ridge, terms):
    rng = np.random.default_rng(10)
    observations = make_observations(loss, rng, weights=weighted)
    objective = rw.Ridged(rw.Problem(observations, loss, dtype=np.float64), ridge)
    X = random_point(objective, rng)
    U, V = (np.column_stack([unit(rng, size) for _ in range(terms)]) for size in objective.shape)
    for scales in (rng.normal(0, 3, terms), rng.normal(0, 3, terms)):
        D = (U * scales) @ V.T
        weights = np.ones(observations.n_observed) if observations.weights is None else observations.weights

        def f(eta, D=D, weights=weights):
            Y = X + eta * D
            fit = truth(loss, Y[observations.rows, observations.cols], observations.targets)
            return float(weights @ fit + 0.5 * ridge * np.sum(Y * Y))

        eta = objective.along(U, V, scales).best_weight()
        least = minimize_scalar(f, bounds=(0, 2 * eta + 1), options={"xatol": 1e-12, "maxiter": 500}).fun
        assert f(eta) <= min(least, f(0.0)) * (1 + 1e-9)


# The kernels below it.


@every_loss
@weighted_or_not
@every_dtype
@pytest.mark.parametrize(("lo", "hi"), [(0.0, 1.0), (0.5, 0.75), (3.0, 400.0), (0.0, 1e300)], ids=str)
def test_breakpoints_are_binned_as_numpy_bins_them(loss, weighted, dtype, lo, hi):
    _, line = random_line(loss, np.random.default_rng(11), 500, weighted=weighted, zeros=0.1, dtype=dtype)
    moving = line.d != 0
    x, d, o, w = line.x[moving], line.d[moving], line.o[moving], line.w[moving]
    etas = (bends(loss, o) - x) / d
    h = 1e-6
    jump_of = np.array([truth(loss, z + h, o) + truth(loss, z - h, o) - 2 * truth(loss, z, o) for z in bends(loss, o)])
    if loss == rw.losses.EpsilonInsensitive(0.0):  # two kinks at one place share the jump
        jump_of /= 2
    jump_of *= w * np.abs(d) / h
    inside = (etas > lo) & (etas <= hi)

    jumps, counts = np.zeros((2, 64))
    arrays = line.x.astype(dtype), None, line.d.astype(dtype), line.o.astype(dtype)
    weights = line.w.astype(dtype) if weighted else None
    slope = piecewise.breakpoints(loss.formula, entrywise.SearchLine(*arrays, weights), lo, hi, jumps, counts)
    total = np.sum(w * np.abs(d))
    gone = [-1, 1] @ np.array([truth(loss, x + (lo + eta) * d, o) @ w for eta in (0.0, h)]) / h
    assert slope == pytest.approx(gone, abs=1e-6 * total * max(1.0, lo))
    edges = np.linspace(lo, hi, 65)
    np.testing.assert_array_equal(counts, np.histogram(etas[inside], edges)[0])
    expected = np.histogram(etas[inside], edges, weights=jump_of[inside])[0]
    np.testing.assert_allclose(jumps, expected, atol=1e-7 * total)

    found = np.zeros((2, 1200))
    n, again = piecewise.breakpoints_between(loss.formula, entrywise.SearchLine(*arrays, weights), lo, hi, *found)
    assert again == pytest.approx(slope, abs=1e-12 * total)
    n = int(n)
    order = np.argsort(found[0, :n])
    assert n == np.count_nonzero(inside) == counts.sum()
    np.testing.assert_allclose(found[0, :n][order], np.sort(etas[inside]), rtol=1e-10)
    np.testing.assert_allclose(found[1, :n][order], jump_of[inside][np.argsort(etas[inside])], atol=1e-7 * total)


def test_an_interval_is_open_below_and_closed_above():
    """A breakpoint at lo belongs to the slope, one at hi to the last bin; nothing is counted twice or never."""
    line = entrywise.SearchLine(np.zeros(4), None, np.ones(4), np.array([1.0, 2.0, 3.0, 4.0]), None)
    jumps, counts = np.zeros((2, 2))
    slope = piecewise.breakpoints(Absolute().formula, line, 1.0, 3.0, jumps, counts)
    assert (slope, list(jumps), list(counts)) == (-2.0, [0.0, 4.0], [0.0, 2.0])
    found = np.zeros((2, 9))
    assert piecewise.breakpoints_between(Absolute().formula, line, 1.0, 3.0, *found)[0] == 2
    assert sorted(found[0, :2]) == [2.0, 3.0]


def test_no_more_breakpoints_are_written_than_there_is_room_for():
    n = 50
    found = np.full((2, 8), -1.0)
    line = entrywise.SearchLine(np.zeros(n), None, np.ones(n), np.arange(1.0, n + 1), None)
    assert piecewise.breakpoints_between(Absolute().formula, line, 0.0, 99.0, *found[:, :5])[0] == 5
    assert np.all(found[:, 5:] == -1.0)


def test_selection_passes_over_the_data_a_few_times_only(pattern, monkeypatch):
    """Not a sort: a round or two after the bracket, whatever the size."""
    problem, U, V, scales = large(Absolute(), pattern, terms=2)
    passes, seen = [], weighted_median._round
    monkeypatch.setattr(weighted_median, "_round", lambda *args: passes.append(args) or seen(*args))
    etas = [problem.along(U, V, sign * scales).best_weight() for sign in (1, -1)]
    assert max(etas) > 0 and 1 <= len(passes) <= 10


# The search for losses without kinks to list.


@every_loss
@every_scale
def test_bisection_agrees_with_the_exact_search(loss, scale):
    rng = np.random.default_rng(12)
    for _ in range(5):
        phi, line = random_line(loss, rng, scale=scale)
        exact, (near, n_evaluations) = phi.best_weight(), bisect(phi)
        slack = line.rounding(exact) + 1e-8 * exact * np.sum(np.abs(line.d))
        assert abs(line(near) - line(exact)) <= slack and n_evaluations <= 80
        assert near > 0 or exact == 0


@pytest.mark.parametrize("target", [1e-8, 1.0, 1e8])
def test_bisection_reaches_the_minimum_of_a_parabola(target):
    problem = rw.Problem(rw.Observations.from_coo([0], [0], [target]), "square", dtype=np.float64)
    weight, _ = bisect(problem.along(np.ones(1), np.ones(1)))
    assert weight == pytest.approx(target, rel=2e-9)
    assert bisect(problem.along(np.ones(1), -np.ones(1))) == (0.0, 1)


def test_bisection_ends_at_a_minimum_that_is_almost_zero():
    class Almost:
        def __call__(self, c):
            return 0.0, np.array([0.0, -1.0 if c[1] < 1e-200 else 1.0])

    weight, n_evaluations = bisect(Almost())
    assert 0 <= weight < 1e-20 and n_evaluations < 200


def test_the_point_and_the_direction_are_left_alone():
    rng = np.random.default_rng(13)
    problem = rw.Problem(make_observations(Absolute(), rng), Absolute(), dtype=np.float64)
    X = random_point(problem, rng)
    value, direction = problem.value(), [unit(rng, size) for size in problem.shape]
    assert problem.along(*direction).best_weight() == problem.along(*direction).best_weight()
    assert problem.value() == value and np.array_equal(matrix_of(problem.point), X)
