"""Expected loss of an uncertain prediction, its quadratic approximation, and the noise that a loss stands for."""

import math

import numpy as np
import pytest
from helpers import but_rarely, targets_for
from loss_cases import AVERAGED, BOUNDED, COMPILED, LOSSES, lopsided, rounded
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

import rankwise
from rankwise.kernels.expected import expected_at
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

user_absolute = rankwise.loss(lambda x, o: abs(x - o))
user_square = rankwise.loss(lambda x, o: 0.5 * (x - o) * (x - o))
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
            assert found[0] == pytest.approx(float(loss.value(x, o)), abs=2 * SHARP)


@pytest.mark.parametrize(
    "ours, own", [(Absolute(), user_absolute), (Quantile(0.35), lopsided), (Square(), user_square)]
)
def test_a_users_loss_that_may_have_corners_has_the_expected_loss_of_ours(ours, own):
    factor = 2.0 if own is lopsided else 1.0
    for m, s, o in points(own, np.random.default_rng(6)):
        wanted = np.multiply(expected_at(ours.formula, m, s, o), factor)
        np.testing.assert_allclose(expected_at(own.formula, m, s, o), wanted, rtol=1e-6, atol=1e-6)


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
