"""Laws that every loss obeys, and what becomes of a user's own."""

import json
import math
from functools import partial
from math import exp
from math import log1p as softly

import numba
import numpy as np
import pytest
from helpers import SMOOTH_LOSSES, make_observations, rarely, targets_for
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

import rankwise as rw
from rankwise import losses
from rankwise.losses.links import response
from rankwise.solvers import GreedyPursuit, solve

ORDERED = [losses.Ordinal(), losses.ProportionalOdds(), losses.Ordinal(3, (-0.7, 1.9)), losses.ProportionalOdds(2)]
EVERY_LOSS = SMOOTH_LOSSES + ORDERED + [kind() for kind in losses.BY_NAME.values() if not kind.smooth]
every_loss = pytest.mark.parametrize("loss", EVERY_LOSS, ids=repr)


def targets_of(loss):
    """A few targets of the loss's domain, the awkward ones included."""
    few = np.unique(targets_for(loss, np.random.default_rng(0), 5))
    return np.unique(np.r_[few, 0.0, 50.0]) if loss.link == "log" else few


def grid(loss, low=-6.0, high=6.0, n=601):
    """All pairs of a fine grid of predictions and a few targets."""
    x, o = np.meshgrid(np.linspace(low, high, n), targets_of(loss))
    return x.ravel(), o.ravel()


def test_every_built_in_loss_is_under_test():
    assert {loss.name for loss in EVERY_LOSS} == set(losses.BY_NAME)
    assert all(losses.get(name) == kind() for name, kind in losses.BY_NAME.items())


@every_loss
def test_slope_is_the_derivative_of_the_value_and_at_a_kink_between_the_two(loss):
    x, o = grid(loss)
    h = 1e-6
    value, slope = loss.value(x, o), loss.slope(x, o)
    left, right = (value - loss.value(x - h, o)) / h, (loss.value(x + h, o) - value) / h
    slack = 1e-8 * (1 + np.abs(value))
    assert np.all((left - slack <= slope) & (slope <= right + slack))
    smooth = right - left < 1e-3
    assert smooth.all() if loss.smooth else smooth.mean() > 0.9


@every_loss
def test_curvature_is_the_derivative_of_the_slope_away_from_kinks(loss):
    x, o = grid(loss)
    h = 1e-6
    slope = loss.slope(x, o)
    left, right = (slope - loss.slope(x - h, o)) / h, (loss.slope(x + h, o) - slope) / h
    away = (np.abs(left - right) < 1e-2) & (np.abs(left) < 1e4)  # two kinks at one place jump alike on both sides
    assert away.mean() > 0.9
    np.testing.assert_allclose(loss.curvature(x, o)[away], (0.5 * (left + right))[away], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("loss", [*EVERY_LOSS, losses.Huber(1e-3), losses.Huber(40.0)], ids=repr)
@settings(max_examples=60, deadline=None)
@given(x=st.floats(-40, 40), y=st.floats(-40, 40), share=st.floats(0, 1), seed=st.integers(0, 99))
def test_every_loss_is_convex_and_its_slope_supports_it(loss, x, y, share, seed):
    o = targets_for(loss, np.random.default_rng(seed), 1)[0]
    between = share * x + (1 - share) * y
    at_x, at_y, inside = loss.value([x, y, between], o)
    slack = 1e-12 * (1 + abs(at_x) + abs(at_y))
    assert inside <= share * at_x + (1 - share) * at_y + slack
    assert at_y >= at_x + loss.slope(x, o) * (y - x) - slack * (1 + abs(x - y))


@every_loss
def test_the_lipschitz_constant_bounds_the_slope_and_is_reached(loss):
    x, o = (part.reshape(targets_of(loss).size, -1) for part in grid(loss, n=6001))
    steepness = np.abs(np.diff(loss.slope(x, o), axis=1) / np.diff(x, axis=1))
    if loss.lipschitz is None:
        assert steepness.max() > 100  # there is none to declare
    else:
        assert 0.99 * loss.lipschitz <= steepness.max() <= loss.lipschitz * (1 + 1e-9)


@every_loss
def test_only_the_square_loss_is_quadratic(loss):
    curvature = loss.curvature(*grid(loss))
    assert loss.quadratic == bool(curvature.min() == curvature.max() > 0)


@every_loss
@pytest.mark.parametrize("x", [-1e6, -1e3, 1e3, 1e6])
def test_far_out_a_loss_is_finite_or_infinite_but_never_nan(loss, x):
    value, slope, curvature = loss._at(x, targets_of(loss))
    assert not np.isnan([value, slope, curvature]).any()
    assert (value > -np.inf).all()
    assert loss.link == "log" or np.isfinite([value, slope, curvature]).all()


@every_loss
def test_arguments_broadcast_like_numpy(loss):
    x, o = np.linspace(-2, 2, 5)[:, None], targets_of(loss)[None, :]
    for verb in (loss.value, loss.slope, loss.curvature):
        assert verb(x, o).shape == (5, o.size)
        assert verb(x, o)[3, -1] == verb(x[3, 0], o[0, -1])
    assert loss.value(0, targets_of(loss)[0]).shape == ()


KNOWN = [  # value, slope and curvature worked out by hand
    (losses.Square(), 3.0, 1.0, (2.0, 2.0, 1.0)),
    (losses.Logistic(), 0.0, -1.0, (math.log(2), 0.5, 0.25)),
    (losses.Huber(0.5), 3.0, 1.0, (0.875, 0.5, 0.0)),
    (losses.SquaredHinge(), -1.0, 1.0, (2.0, -2.0, 1.0)),
    (losses.SmoothHinge(), -2.0, 1.0, (2.5, -1.0, 0.0)),
    (losses.SmoothHinge(), -0.5, -1.0, (0.125, 0.5, 1.0)),
    (losses.Poisson(), 0.0, 4.0, (1.0, -3.0, 1.0)),
    (losses.Ordinal(3, (0.0, math.log(3))), 0.0, 1.0, (math.log(2) + math.log(4 / 3), -0.25, 0.25 + 3 / 16)),
    (losses.ProportionalOdds(4, (0.0, math.log(3), 9.0)), 0.0, 0.0, (math.log(2), 0.5, 0.25)),
    (losses.OrdinalHinge(4), 1.0, 3.0, (0.5 + 1.5 + 2.5, -3.0, 0.0)),
]


@pytest.mark.parametrize(("loss", "x", "o", "expected"), KNOWN, ids=lambda part: repr(part)[:20])
def test_known_values(loss, x, o, expected):
    np.testing.assert_allclose(loss._at(x, o), expected, rtol=1e-15)


SIGNS = r'needs targets that are -1 or \+1; 2 of 4 are not \(first: 0 at entry 1\)\. For 0 and 1 use "bernoulli", '


@pytest.mark.parametrize(
    ("loss", "targets", "message"),
    [
        (losses.Logistic(), [1, 0, 1, 0], "^Logistic " + SIGNS),
        (losses.SquaredHinge(), [1, 0, 1, 0], "^SquaredHinge " + SIGNS),
        (losses.SmoothHinge(), [1, 0, 1, 0], "^SmoothHinge " + SIGNS),
        (losses.Logistic(), [1, -1, -0.5], r"1 of 3 are not \(first: -0\.5 at entry 2\)"),
        (
            losses.Poisson(),
            [0, 3, 1.5, -2],
            r"^Poisson needs targets that are zero or more; 1 of 4 .*first: -2 at entry 3.*Counts cannot be negative\.",
        ),
        (losses.Poisson(), [1, np.inf], r"1 of 2 are not \(first: inf at entry 1\)"),
        (
            losses.Square(),
            [1, np.nan],
            r"^Square needs targets that are any real number; 1 of 2 .*first: nan at entry 1",
        ),
        (losses.Huber(), [-np.inf], r"^Huber needs .*first: -inf at entry 0"),
        (
            losses.Ordinal(3),
            [0, 2, 3],
            r"^Ordinal needs targets that are whole numbers from 0 to 2; 1 of 3 .*first: 3 at",
        ),
        (losses.OrdinalHinge(3), [0, 1.5], r"1 of 2 are not \(first: 1\.5 at entry 1\)"),
    ],
)
def test_targets_outside_the_domain_are_named(loss, targets, message):
    with pytest.raises(rw.DataError, match=message):
        loss.check_targets(np.array(targets, float))
    if np.isfinite(targets).all():  # a problem asks the same question
        observations = rw.Observations.from_coo(range(len(targets)), [0] * len(targets), targets)
        with pytest.raises(rw.DataError, match=message):
            rw.Problem(observations, loss)


@every_loss
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_targets_in_the_domain_pass(loss, dtype):
    loss.check_targets(targets_of(loss).astype(dtype))


@pytest.mark.parametrize("delta", [0.0, -1.0, np.nan, np.inf, 10**400])
def test_huber_refuses_a_corner_that_is_none(delta):
    with pytest.raises(rw.LossError, match=rf"^Huber needs a finite delta > 0, got {delta!r}\.$"):
        losses.Huber(delta)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((1,), "at least 2 levels, and at most 65536, got 1"),
        ((2.0,), "at most 65536, got 2.0"),
        ((3, (0.0,)), r"3 levels needs 2 finite thresholds, got \(0.0,\)"),
        ((3, (0.0, np.inf)), "2 finite thresholds"),
        ((3, (1.0, 1.0)), "thresholds that rise"),
    ],
)
def test_levels_need_thresholds_between_them(settings, message):
    with pytest.raises(rw.LossError, match=message):
        losses.Ordinal(*settings)


@pytest.mark.parametrize("kind", [losses.Ordinal, losses.ProportionalOdds])
def test_thresholds_from_targets_put_the_best_constant_at_zero_with_the_shares_of_the_levels(kind):
    targets = np.repeat([0, 1, 2, 3], [400, 100, 200, 300]).astype(float)
    loss = kind.from_targets(targets)
    best = brentq(lambda x: loss.slope(x, targets).sum(), -5, 5, xtol=1e-13)
    assert best == pytest.approx(0, abs=1e-3)  # half an observation is added to each side
    passed = response("logit", best - np.array(loss.thresholds))
    np.testing.assert_allclose(-np.diff(np.r_[1.0, passed, 0.0]), [0.4, 0.1, 0.2, 0.3], atol=1e-3)


def test_levels_that_never_occur_have_a_place_of_their_own():
    loss = losses.Ordinal.from_targets([0.0, 3.0], levels=6)
    assert loss.levels == 6 and np.all(np.diff(loss.thresholds) > 0) and np.isfinite(loss.thresholds).all()


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ([], "at least two levels"),
        ([-1, 2], "1 of 2 are not .first: -1 at entry 0"),
        ([0, np.nan, 2.5], "2 of 3 are not .first: nan at entry 1"),
        ([0, 1, np.inf], "first: inf at entry 2"),
    ],
    ids=str,
)
def test_thresholds_come_from_levels_only(targets, message):
    with pytest.raises(rw.DataError, match=message):
        losses.Ordinal.from_targets(targets)


@pytest.mark.parametrize("rest", [{}, {"thresholds": None}], ids=str)
@pytest.mark.parametrize("name", ["ordinal", "ordinal-hinge", "proportional-odds"])
def test_plain_values_make_up_no_thresholds(name, rest):
    with pytest.raises(rw.LossError, match=r"thresholds of the loss .* are missing"):
        losses.from_plain({"name": name, "parameters": {"levels": 50} | rest})


def test_proportional_odds_are_the_negative_log_likelihood():
    """The chance of level k is the difference of two logistic functions (McCullagh, 1980)."""
    loss = losses.ProportionalOdds(4, (-1.0, 0.2, 2.0))
    x, edges = np.linspace(-4, 4, 9), np.r_[-np.inf, loss.thresholds, np.inf]
    for level in range(4):
        chance = response("logit", x - edges[level]) - response("logit", x - edges[level + 1])
        gap = loss.value(x, float(level)) + np.log(chance)
        np.testing.assert_allclose(gap, gap[0], atol=1e-12)  # up to a constant


@every_loss
def test_a_built_in_loss_survives_plain_values(loss):
    assert losses.from_plain(json.loads(json.dumps(losses.to_plain(loss)))) == loss


def test_the_median_level_counts_the_thresholds_below():
    np.testing.assert_array_equal(losses.Ordinal(4).median([-3.0, 0.4, 0.6, 2.0, 9.0]), [0, 0, 1, 2, 3])


@pytest.mark.parametrize("wanted", ["squared", "Square", None, 3, losses.Square])
def test_an_unknown_loss_is_answered_with_the_known_ones(wanted):
    with pytest.raises(rw.LossError, match=r"Unknown loss .*'square', 'logistic'.*'poisson'.*@rankwise.loss"):
        losses.get(wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_response_undoes_the_link(dtype):
    x = np.linspace(-5, 5, 11, dtype=dtype)
    np.testing.assert_array_equal(response("identity", x), x)
    chance, rate = response("logit", x), response("log", x)
    assert chance.dtype == rate.dtype == dtype
    np.testing.assert_allclose(np.log(chance / (1 - chance)), x, rtol=0, atol=3e4 * np.finfo(dtype).eps)
    np.testing.assert_allclose(np.log(rate), x, rtol=0, atol=10 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_response_stays_finite_and_in_range_at_any_prediction(dtype):
    x = np.array([-1e6, -1e3, 1e3, 1e6], dtype)
    np.testing.assert_array_equal(response("logit", x), [0, 0, 1, 1])
    assert (response("log", x) >= 0).all()
    assert np.isfinite(response("log", x)).all()


@pytest.mark.parametrize("name", ["square", "logistic", "poisson"])
def test_response_at_the_minimum_is_the_mean_of_the_targets(name):
    """What makes a link the right one: where the summed slope is zero, the response is the targets' mean."""
    loss = losses.get(name)
    targets = np.repeat(targets_of(loss), 1 + np.arange(targets_of(loss).size))
    best = brentq(lambda x: loss.slope(x, targets).sum(), -20, 20, xtol=1e-13)
    mean = (targets == 1).mean() if loss.link == "logit" else targets.mean()
    assert response(loss.link, np.array([best]))[0] == pytest.approx(mean, abs=1e-9)


# A user's own loss.


def copies():
    """Each built-in loss written again by a user, with the smooth facts that the built-in one declares."""
    square = rw.loss(lambda x, o: 0.5 * (x - o) ** 2, smooth=True, lipschitz=1.0)

    @rw.loss(smooth=True, lipschitz=0.25, slope=lambda x, o: -o / (1 + np.exp(x * o)))
    def logistic(x, o):
        return max(-x * o, 0.0) + math.log1p(exp(-abs(x * o)))

    def clipped(x, o):
        return min(max(x - o, -1.0), 1.0)

    @rw.loss(smooth=True, lipschitz=1.0, slope=clipped, curvature=lambda x, o: 1.0 if abs(x - o) <= 1.0 else 0.0)
    def huber(x, o):
        r = abs(x - o)
        return 0.5 * r * r if r <= 1.0 else r - 0.5

    @rw.loss(smooth=True, lipschitz=1.0)
    def squared_hinge(x, o):
        return 0.5 * max(0.0, 1.0 - x * o) ** 2

    @rw.loss(smooth=True, lipschitz=1.0)
    def smooth_hinge(x, o):
        z = x * o
        if z >= 1.0:
            return 0.0
        return 0.5 - z if z <= 0.0 else 0.5 * (1.0 - z) ** 2

    @rw.loss(smooth=True)
    def poisson(x, o):
        return np.exp(x) - o * x

    built_in = ("square", "logistic", "huber", "squared-hinge", "smooth-hinge", "poisson")
    return list(zip(built_in, (square, logistic, huber, squared_hinge, smooth_hinge, poisson), strict=True))


COPIES = copies()
every_copy = pytest.mark.parametrize(("name", "copy"), COPIES, ids=[name for name, _ in COPIES])


def observed(loss, **options):
    return make_observations(loss, np.random.default_rng(7), **options)


FITTED = [rarely(*case) if "hinge" in case[0] else case for case in COPIES]


@pytest.mark.parametrize(("name", "copy"), FITTED, ids=[name for name, _ in COPIES])
def test_a_users_copy_of_a_loss_fits_as_the_built_in_one(name, copy):
    built_in = losses.get(name)
    observations = observed(built_in)
    fits = [solve(rw.Problem(observations, loss, dtype="float64", n_jobs=1), rank=3) for loss in (built_in, copy)]
    values, twins = ([record.value for record in fit.history] for fit in fits)
    assert values[-1] < 0.9 * fits[0].history.initial_value
    np.testing.assert_allclose(twins, values, rtol=1e-6)


@every_copy
def test_missing_derivatives_are_central_differences(name, copy):
    built_in = losses.get(name)
    x, o = grid(built_in, -3.01, 3.01, n=87)
    value, slope, curvature = copy._at(x, o)
    away = np.abs(built_in.slope(x + 1e-3, o) + built_in.slope(x - 1e-3, o) - 2 * built_in.slope(x, o)) < 1e-4
    assert away.mean() > 0.8
    scale = 1 + np.abs(value)
    assert np.all(np.abs(value - built_in.value(x, o)) <= 1e-14 * scale)
    assert np.all((np.abs(slope - built_in.slope(x, o)) / scale)[away] <= 1e-9)
    # The best second difference of doubles is off by about the root of their precision, 1.5e-8, times the value.
    assert np.all((np.abs(curvature - built_in.curvature(x, o)) / scale)[away] <= 1e-6)


def test_the_decorator_works_with_and_without_arguments():
    @rw.loss
    def plain(x, o):
        """Docstring of the user."""
        return abs(x - o)

    @rw.loss()
    def empty(x, o):
        return abs(x - o)

    made = rw.loss(lambda x, o: (x - o) ** 2, smooth=True, lipschitz=2.0)
    assert (plain.smooth, plain.lipschitz, plain.quadratic) == (empty.smooth, empty.lipschitz, empty.quadratic)
    assert (plain.smooth, plain.lipschitz) == (False, None)
    assert (made.smooth, made.lipschitz) == (True, 2.0)
    assert plain.__doc__ == "Docstring of the user."
    assert repr(plain) == "CustomLoss(plain, smooth=False, lipschitz=None)"
    assert losses.get(plain) is plain


def with_default(x, o, power=1.5):
    return abs(x - o) ** power


def with_imported_names(x, o):
    return softly(exp(x)) + np.log(1.0 + math.exp(o)) - math.log(2.0) + np.log1p(exp(-x))


def closure(scale, shift):
    return lambda x, o: scale * abs(x - o - shift)


@numba.njit
def already_compiled(x, o):
    return abs(x - o)


def calls_a_compiled_one(x, o):
    return 2.0 * already_compiled(x, o)


FORMS = {
    "lambda": (lambda x, o: max(0.9 * (o - x), 0.1 * (x - o)), lambda x, o: np.maximum(0.9 * (o - x), 0.1 * (x - o))),
    "default": (with_default, lambda x, o: np.abs(x - o) ** 1.5),
    "closure": (closure(2.0, 0.25), lambda x, o: 2 * np.abs(x - o - 0.25)),
    "imported names": (
        with_imported_names,
        lambda x, o: np.logaddexp(0, x) + np.logaddexp(0, o) - np.log(2) + np.logaddexp(0, -x),
    ),
    "compiled": (already_compiled, lambda x, o: np.abs(x - o)),
    "calls compiled": (calls_a_compiled_one, lambda x, o: 2 * np.abs(x - o)),
}


@pytest.mark.parametrize(("function", "expected"), FORMS.values(), ids=FORMS)
def test_the_forms_a_function_may_take(function, expected):
    x, o = np.linspace(-2, 2, 9), np.linspace(0, 3, 9)
    made = rw.loss(function)
    np.testing.assert_allclose(made.value(x, o), expected(x, o), rtol=1e-14)
    np.testing.assert_array_equal(made(x, o), made.value(x, o))


FACTOR = 2.0


def test_values_from_outside_the_function_are_fixed_when_it_is_first_used(monkeypatch):
    factor = 2.0
    by_closure = rw.loss(lambda x, o: factor * abs(x - o))
    by_global = rw.loss(lambda x, o: FACTOR * abs(x - o))
    factor = 3.0
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert (by_closure.value(1, 0), by_global.value(1, 0)) == (3.0, 3.0)  # not fixed by the decorator
    factor = 4.0
    monkeypatch.setitem(globals(), "FACTOR", 4.0)
    assert (by_closure.value(1, 0), by_global.value(1, 0)) == (3.0, 3.0)  # fixed since


def test_losses_with_the_same_function_name_do_not_share_code():
    @rw.loss(smooth=True)
    def f(x, o):
        return 0.5 * (x - o) ** 2

    first = f
    observations = observed(losses.Square())
    values = [solve(rw.Problem(observations, first, dtype="float64"), rank=2).history[-1].value]

    @rw.loss(smooth=True)
    def f(x, o):
        return 1.5 * (x - o) ** 2

    values.append(solve(rw.Problem(observations, f, dtype="float64"), rank=2).history[-1].value)
    by_closure = [rw.loss(closure(scale, 0.0)) for scale in (1.0, 2.0)]
    assert values[1] == pytest.approx(3 * values[0], rel=1e-6)
    assert (first.value(2, 0), f.value(2, 0)) == (2.0, 6.0)
    assert [loss.value(2, 0) for loss in by_closure] == [2.0, 4.0]


def test_counts_up_to_thousands_are_no_reason_to_refuse_an_exponential_loss():
    _, poisson = COPIES[-1]
    poisson.check_targets(np.array([0.0, 1.0, 17.0, 800.0, 5000.0]))


REFUSED = {
    "not convex": (lambda x, o: -((x - o) ** 2), {}, "has a slope that decreases, so it is not convex,"),
    "hardly not convex": (lambda x, o: (x - o) ** 2 - 0.2 * x**4, {}, "not convex"),
    "wrong sign": (lambda x, o: (x - o) ** 2, {"slope": lambda x, o: 2 * (o - x)}, "slope that does not fit"),
    "off by a tenth": (lambda x, o: (x - o) ** 2, {"slope": lambda x, o: 2.2 * (x - o)}, "slope that does not fit"),
    "too steep": (lambda x, o: (x - o) ** 2, {"smooth": True, "lipschitz": 1.9}, "faster than lipschitz=1.9 allows"),
    "not finite": (lambda x, o: -math.log(x), {}, "is not finite"),
    "slope not finite": (lambda x, o: abs(x - o), {"slope": lambda x, o: (x - o) / x}, "slope that is not finite"),
}


@pytest.mark.parametrize(("function", "options", "what"), REFUSED.values(), ids=REFUSED)
def test_a_loss_that_is_not_what_it_declares_is_refused_at_a_point(function, options, what):
    targets = np.array([-1.0, 0.0, 2.0])
    loss = rw.loss(function, **options)
    sentence = rf"^The loss `<lambda>` .*{what}.*near x = \S+ for target \S+ \(value .*, slope .* there\)\.$"
    with pytest.raises(rw.LossError, match=sentence):
        loss.check_targets(targets)
    with pytest.raises(rw.LossError, match=what):
        rw.Problem(rw.Observations.from_coo([0, 1, 2], [0, 1, 2], targets), loss)


def test_the_point_in_the_refusal_is_a_point_of_the_fault():
    loss = rw.loss(lambda x, o: (x - o) ** 2 if x < 1.5 else (1.5 - o) ** 2 - (x - 1.5))
    with pytest.raises(rw.LossError, match=r"near x = 1\.5\d* for target -1 ") as caught:
        loss.check_targets(np.array([-1.0]))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "function",
    [lambda x, o: undefined(x), lambda x, o: {}[x], lambda x: x, lambda x, o: "text", lambda x, o: open("x")],  # noqa: F821, SIM115
    ids=["unknown name", "not arithmetic", "one argument", "text", "no numbers"],
)
def test_a_function_that_cannot_be_compiled_is_refused_in_one_line(function):
    with pytest.raises(
        rw.LossError, match=r"^The loss `<lambda>` cannot be compiled: .*Use plain arithmetic"
    ) as caught:
        rw.loss(function).check_targets(np.array([1.0]))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wrong", ["square", 3.0, math.hypot, partial(pow, 2.0)], ids=repr)
def test_what_is_no_python_function_is_refused(wrong):
    with pytest.raises(rw.LossError):
        rw.loss(wrong).check_targets(np.array([1.0]))


@pytest.mark.parametrize("lipschitz", [0.0, -1.0, np.nan, np.inf])
def test_a_lipschitz_constant_must_be_a_positive_number(lipschitz):
    with pytest.raises(rw.LossError, match=rf"`lipschitz` must be a positive number, got {lipschitz!r}; leave it out"):
        rw.loss(lambda x, o: (x - o) ** 2, smooth=True, lipschitz=lipschitz)


def test_a_lipschitz_constant_needs_a_smooth_loss():
    with pytest.raises(rw.LossError, match="needs `smooth=True`"):
        rw.loss(lambda x, o: (x - o) ** 2, lipschitz=2.0)


def test_targets_of_a_custom_loss_must_be_finite():
    with pytest.raises(rw.DataError, match="first: nan at entry 1"):
        rw.loss(lambda x, o: abs(x - o)).check_targets(np.array([1.0, np.nan]))


@pytest.fixture(scope="module")
def pinball():
    @rw.loss
    def pinball(x, o):
        return max(0.9 * (o - x), 0.1 * (x - o))

    return pinball


@pytest.mark.parametrize("weights", [False, True])
def test_a_nonsmooth_loss_fits_without_refinement(pinball, weights):
    problem = rw.Problem(observed(losses.Square(), weights=weights), pinball, dtype="float64")
    values = [record.value for record in solve(problem, GreedyPursuit("none"), rank=3).history]
    assert len(values) == 3
    assert np.all(np.diff([problem.observations.n_observed * 1e3, *values]) < 0)


# Row solves of a user's loss are compiled anew in each process, which takes their time.
@pytest.mark.parametrize("method", [pytest.param("bayes", marks=pytest.mark.slow), "glrl-nonsmooth"])
def test_matrix_completion_takes_a_nonsmooth_loss(pinball, method):
    observations = observed(losses.Square())
    fit = rw.MatrixCompletion(loss=pinball, rank=3, method=method).fit(observations)
    predicted = fit.predict_entries(observations.rows, observations.cols)
    start, end = (pinball.value(x, observations.targets).sum() for x in (0.0, predicted))
    assert end < start
    if method == "glrl-nonsmooth":  # the other's value is a bound, not the loss
        assert fit.history_[-1].value == pytest.approx(end, rel=1e-5)


@pytest.mark.parametrize("refine", ["economic", "coefficients"])
def test_refinements_refuse_a_nonsmooth_loss_by_name(pinball, refine):
    sentence = r'GreedyPursuit requires a smooth objective, got .*CustomLoss\(pinball.*"glrl-none"'
    with pytest.raises(rw.LossError, match=sentence):
        solve(rw.Problem(observed(losses.Square()), pinball), GreedyPursuit(refine), rank=2)
    with pytest.raises(rw.LossError, match=sentence):
        rw.MatrixCompletion(loss=pinball, method=GreedyPursuit(refine), rank=2).fit(observed(losses.Square()))
