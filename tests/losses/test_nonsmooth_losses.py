"""Laws of the piecewise-linear losses, and what smooth-only options say when they meet one."""

import numpy as np
import pytest
from helpers import SMOOTH_LOSSES, make_observations, targets_for
from nonsmooth_cases import EACH_KIND, NONSMOOTH, bends, every_loss, truth

import rankwise as rw
from rankwise.engines import Shard
from rankwise.kernels import formulas
from rankwise.losses import SIGNS, Absolute, EpsilonInsensitive, Hinge, Quantile
from rankwise.solvers import METHODS, NonsmoothPursuit, solve
from rankwise.solvers.validation import SMOOTH
from rankwise.spectral import PowerMethod


def targets_of(loss):
    """Binary fractions, so that a kink is hit to the last bit."""
    return np.array([-1.0, 1.0]) if loss.domain == SIGNS else np.array([-3.0, -0.5, 0.0, 1.25, 40.0])


def test_every_loss_that_is_not_smooth_is_under_test_and_declares_itself():
    assert {Absolute, Quantile, Hinge, EpsilonInsensitive} <= {type(loss) for loss in EACH_KIND}
    for loss in NONSMOOTH:
        assert (loss.smooth, loss.piecewise_linear, loss.quadratic, loss.lipschitz) == (False, True, False, None)
    assert not any(loss.piecewise_linear for loss in SMOOTH_LOSSES)


@every_loss
def test_value_is_the_definition(loss):
    rng = np.random.default_rng(1)
    o = targets_for(loss, rng, 2000)
    x = np.r_[o[:100], rng.normal(0, 3, 1900)]
    np.testing.assert_allclose(loss.value(x, o), truth(loss, x, o), rtol=1e-14, atol=1e-15)


@every_loss
def test_slope_is_a_subgradient_everywhere_and_at_the_kinks(loss):
    """Between the one-sided differences; off the kinks these agree, so it is the derivative."""
    h, o = 2.0**-24, targets_of(loss)
    x = np.r_[np.linspace(-4, 4, 257)[:, None] + 0 * o, bends(loss, o), bends(loss, o) + 2 * h, bends(loss, o) - 2 * h]
    here = truth(loss, x, o)
    left, right = (here - truth(loss, x - h, o)) / h, (truth(loss, x + h, o) - here) / h
    slack = 1e-7 * (1 + here)
    assert np.all((left - slack <= loss.slope(x, o)) & (loss.slope(x, o) <= right + slack))
    kinked = right - left > 1e-4 + slack
    n_kinks = 1 if loss == EpsilonInsensitive(0.0) else len(bends(loss, o))  # at width zero the two are one
    assert all(np.unique(x[kinked[:, k], k]).size == n_kinks for k in range(o.size))
    assert not loss.curvature(x, o).any()


@every_loss
def test_the_slope_supports_the_loss_which_makes_it_convex(loss):
    o = targets_of(loss)[:, None, None]
    x, y = np.meshgrid(np.linspace(-5, 5, 81), np.r_[np.linspace(-5, 5, 81), -1e4, 1e4])
    support = truth(loss, x, o) + loss.slope(x, o) * (y - x)
    assert np.all(truth(loss, y, o) >= support - 1e-11 * (1 + np.abs(support)))


@every_loss
def test_kinks_rebuild_the_loss(loss):
    """Slope far left, and what it gains at each kink: that is all of a piecewise-linear loss but its height."""
    x, far = np.linspace(-60, 60, 4001), -100.0
    for o in targets_of(loss):
        steep, *kinks = formulas.kinks_at(loss.formula, o)
        rebuilt = truth(loss, far, o) + steep * (x - far)
        for place, jump in zip(kinks[::2], kinks[1::2], strict=True):
            assert jump >= 0 and (jump == 0 or place in bends(loss, o))
            rebuilt += jump * np.maximum(0.0, x - place)
        np.testing.assert_allclose(rebuilt, truth(loss, x, o), atol=1e-12 * 160)


@pytest.mark.parametrize("q", [0.05, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("n", [7, 200])
def test_the_quantile_loss_is_least_at_the_quantile(q, n):
    targets = np.random.default_rng(2).standard_cauchy(n)
    total = [Quantile(q).value(x, targets).sum() for x in targets]
    quantile = np.quantile(targets, q, method="inverted_cdf")
    assert Quantile(q).value(quantile, targets).sum() == pytest.approx(min(total), rel=1e-13)


def test_special_cases_agree():
    rng = np.random.default_rng(3)
    x, o = rng.normal(size=(2, 1000))
    for ours, l1 in ((2 * Quantile(0.5)._at(x, o), Absolute()), (EpsilonInsensitive(0.0)._at(x, o), Absolute())):
        np.testing.assert_allclose(ours, l1._at(x, o), rtol=1e-15)
    signs = np.sign(o)
    inside = signs * x < 1
    np.testing.assert_allclose(Hinge().value(x, signs), inside * Absolute().value(x, signs), rtol=1e-14)


@pytest.mark.parametrize("q", [0.0, 1.0, -0.1, 1.5, np.nan, np.inf])
def test_quantile_refuses_what_is_no_quantile(q):
    with pytest.raises(rw.LossError, match=rf"^Quantile needs 0 < q < 1, got {q!r}\.$"):
        Quantile(q)


@pytest.mark.parametrize("epsilon", [-1e-9, np.nan, np.inf])
def test_epsilon_insensitive_refuses_what_is_no_width(epsilon):
    with pytest.raises(rw.LossError, match=rf"^EpsilonInsensitive needs a finite epsilon >= 0, got {epsilon!r}\.$"):
        EpsilonInsensitive(epsilon)


@every_loss
def test_targets_outside_the_domain_are_named(loss):
    sound = targets_of(loss)
    loss.check_targets(sound)
    for wrong in [np.nan, np.inf] + [0.0, 2.0] * (loss.domain == SIGNS):
        with pytest.raises(
            rw.DataError, match=rf"^{type(loss).__name__} needs .*1 of {sound.size + 1} .*first: {wrong:g}"
        ):
            loss.check_targets(np.r_[sound, wrong])


def test_zeros_and_ones_are_told_how_to_become_signs():
    observations = rw.Observations.from_dense(np.eye(3))
    with pytest.raises(rw.DataError, match=r"^Hinge needs targets that are -1 or \+1; 6 of 9.*`2 \* y - 1`"):
        rw.Problem(observations, "hinge")


# A user's own.


@pytest.fixture(scope="module")
def tilted():
    @rw.loss
    def tilted(x, o):
        return max(2.0 * (o - x), 0.5 * (x - o), 0.0)

    return tilted


def test_a_users_nonsmooth_loss_goes_through_matrix_completion_to_the_nonsmooth_pursuit(tilted):
    observations = make_observations(Absolute(), np.random.default_rng(4))
    settings = {"method": "glrl-nonsmooth", "offsets": "none", "dtype": "float64"}
    fit = rw.MatrixCompletion(tilted, rank=6, **settings).fit(observations)
    run = solve(rw.Problem(observations, tilted, dtype="float64"), NonsmoothPursuit(), rank=6)
    predicted = fit.predict_entries(observations.rows, observations.cols)
    value = tilted.value(predicted, observations.targets).sum()
    assert np.array_equal(fit.model_.path, run.model.path) and fit.history_.column("inner_rank").max() == 2
    assert value == pytest.approx(fit.history_.column("value").min(), rel=1e-12)
    assert value < 0.7 * tilted.value(0.0, observations.targets).sum()


# Smooth-only options.

SMOOTH_ONLY = [name for name, method in METHODS.items() if SMOOTH in method.solver.needs]


def test_the_paper_s_smooth_methods_are_among_the_smooth_only_ones():
    assert {"glrl", "eglrl", "r1mp", "r1mp-economic"} <= set(SMOOTH_ONLY)


@pytest.fixture
def no_work(monkeypatch):
    """Any pass over the observations or search for a singular pair fails the test."""

    def work(*args, **kwargs):
        raise AssertionError("work was done before the refusal")

    for verb in ("evaluate", "gram", "product", "aim", "zero"):
        monkeypatch.setattr(Shard, verb, work)
    monkeypatch.setattr(PowerMethod, "__call__", work)


@pytest.mark.parametrize("method", SMOOTH_ONLY)
@pytest.mark.parametrize("loss", [*EACH_KIND, None], ids=repr)
def test_a_smooth_only_option_is_refused_by_name_before_any_work_with_what_to_use(loss, method, tilted, no_work):
    loss = loss or tilted
    observations = make_observations(loss, np.random.default_rng(5))
    with pytest.raises(rw.LossError) as refusal:
        rw.MatrixCompletion(loss, rank=3, method=method).fit(observations)
    refused, _, advice = str(refusal.value).partition(" use ")
    assert f'method="{method}"' in refused and repr(loss) in refused
    assert "glrl-nonsmooth" in advice and not {"glrl", "eglrl"} & set(advice.split('"'))


@pytest.mark.parametrize("ridge", [0.0, 0.5])
@pytest.mark.parametrize("option", [{"method": "glrl-none"}, {"method": "glrl-nonsmooth"}], ids=str)
@every_loss
def test_what_the_refusals_recommend_works(loss, option, ridge):
    observations = make_observations(loss, np.random.default_rng(6))
    # from zero, because a level puts most entries on one side of the kink of an extreme quantile: see docs/robust.md
    fit = rw.MatrixCompletion(loss, rank=3, ridge=ridge, offsets="none", **option).fit(observations)
    assert fit.history_[-1].value < 0.97 * fit.history_.initial_value
    assert option.get("method", "glrl-none") in METHODS
