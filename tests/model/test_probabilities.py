"""Probabilities of signs and of ordered levels: calibrated, and the same number wherever they are returned."""

from dataclasses import replace

import numpy as np
import pytest
from loss_cases import ORDERED
from scipy.optimize import brentq
from scipy.special import expit, logit

import rankwise as rw
from rankwise import LowRankModel, MatrixCompletion, Observations, SignedLinkPredictor
from rankwise.losses import BY_NAME, Bernoulli, Logistic, Mixed, Ordinal, OrdinalHinge, ProportionalOdds
from rankwise.losses.base import takes_signs
from rankwise.losses.levels import LevelsLoss
from rankwise.model import Posterior, Targets
from rankwise.model.odds import OddsCalibration, averages

X = np.linspace(-3.0, 4.0, 29) + 0.003  # at no threshold
ROWS, COLS = np.zeros(X.size, int), np.arange(X.size)
LIKELIHOODS = [loss for loss in ORDERED if loss.is_likelihood]


def model(loss, variance=0.0, **parts):
    """One row that predicts X."""
    size, no_shifts = float(np.linalg.norm(X)), (np.zeros((1, 3)), np.zeros((X.size, 3)))
    sides = np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((X.size, 2)), np.tile([0.0, variance], (X.size, 1))
    grid = np.arange(4.0), np.full(4, 0.25), np.array([0.5, 1.5, 2.5])
    targets = Targets(0.0, 3.0, 1.0, 1.0, *grid, 1.0, *no_shifts, np.ones(1), np.ones(X.size))
    parts = {"link": loss.link, "loss": loss, "posterior": Posterior(*sides), "targets": targets} | parts
    return LowRankModel(np.array([[size]]), np.ones((1, 1)), X[:, None] / size, **parts)


def planted(rate, seed=0, shape=(400, 300), density=0.3):
    """Signs drawn from log-odds of rank two plus offsets, and the probability of +1 of every entry."""
    rng = np.random.default_rng(seed)
    low_rank = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    x = low_rank + 0.5 * rng.standard_normal((shape[0], 1)) + 0.5 * rng.standard_normal(shape[1])
    p = expit(x + brentq(lambda shift: expit(x[::9, ::9] + shift).mean() - rate, -15, 15))
    rows, cols = np.nonzero(rng.random(shape) < density)
    signs = np.where(rng.random(rows.size) < p[rows, cols], 1.0, -1.0)
    return Observations.from_coo(rows, cols, signs, shape), p


def largest_gap(probabilities, truth):
    """Largest difference between mean probability and mean truth in a tenth of the entries."""
    tenths = np.array_split(np.argsort(probabilities, kind="stable"), 10)
    return max(abs(probabilities[tenth].mean() - truth[tenth].mean()) for tenth in tenths)


# Signs.


def unseen_pairs(seen):
    """Rows and columns of entries without an observation, 100,000 at most."""
    unseen = np.ones(seen.shape, bool)
    unseen[seen.rows, seen.cols] = False
    at = np.flatnonzero(unseen)
    return np.divmod(at[:: -(-at.size // 100_000)], seen.shape[1])


@pytest.mark.parametrize("settings", [{}, {"calibration": 0.2}], ids=["default", "set aside"])
@pytest.mark.parametrize("rate", [0.01, 0.5])
def test_probabilities_are_within_two_points_in_every_tenth(rate, settings):
    seen, truth = planted(rate, shape=(600, 400))
    rows, cols = unseen_pairs(seen)
    fitted = MatrixCompletion("logistic", **settings).fit(seen).model_
    assert largest_gap(fitted.predict_entries(rows, cols), truth[rows, cols]) < 0.02


def test_a_fit_calibrates_where_averages_over_the_posterior_are_off():
    seen, truth = planted(0.01, shape=(2000, 1500), density=0.03)  # few signs a row: the averages are too large
    rows, cols = unseen_pairs(seen)
    fitted = MatrixCompletion("logistic").fit(seen).model_
    averages = replace(fitted, calibration=None).predict_entries(rows, cols)
    assert (
        largest_gap(averages, truth[rows, cols])
        > 0.02
        > largest_gap(fitted.predict_entries(rows, cols), truth[rows, cols])
    )
    assert fitted.facts["probabilities"]["n_entries"] == fitted.calibration.n_entries > 10_000


def test_folded_in_rows_have_the_calibration_of_the_model_and_a_warm_start_keeps_it():
    seen, truth = planted(0.02, shape=(1200, 900), density=0.05)
    new = np.arange(seen.shape[0]) >= 1000
    fitted = MatrixCompletion("logistic", warm_start=True).fit(seen.take(~new[seen.rows]))
    odds = fitted.model_.calibration
    rest = seen.take(new[seen.rows])
    folded = rw.fold_in(fitted.model_, rest)
    assert odds is not None and folded.calibration == odds
    assert rw.fold_in(fitted.model_.transposed(), rest.transposed(), axis="columns").calibration == odds
    rows, cols = (part[unseen_pairs(seen)[0] >= 1000] for part in unseen_pairs(seen))
    models = folded, replace(folded, calibration=None)
    gaps = [largest_gap(each.predict_entries(rows, cols), truth[rows, cols]) for each in models]
    assert gaps[0] < min(0.02, gaps[1])
    assert fitted.fit(seen.take(~new[seen.rows])).model_.calibration == odds


def test_a_calibration_must_be_worth_its_three_numbers():
    rng = np.random.default_rng(0)
    x, variances, weights = 2 * rng.standard_normal(20_000), rng.exponential(1.0, 20_000), np.ones(20_000)
    fine, off = (rng.random(x.size) < p for p in (averages(x, variances), expit(x - 0.5)))
    assert OddsCalibration.if_better(x, variances, fine, weights) is None
    assert OddsCalibration.if_better(x, variances, off, weights) == OddsCalibration.on(x, variances, off, weights)
    assert OddsCalibration.if_better(x, variances, off, 1e-3 * weights) is None


def test_the_calibration_finds_the_numbers_that_made_the_signs():
    rng = np.random.default_rng(0)
    x, variances = 2 * rng.standard_normal(200_000), rng.exponential(2.0, 200_000)
    true = OddsCalibration(-0.4, 0.8, 0.6, 0)
    found = OddsCalibration.on(x, variances, rng.random(x.size) < true.at(x, variances))
    np.testing.assert_allclose(
        [found.intercept, found.slope, found.width], [true.intercept, true.slope, true.width], atol=0.1
    )
    doubled = OddsCalibration.on(x[:500], variances[:500], x[:500] > 1, np.full(500, 2.0))
    twice = OddsCalibration.on(*(np.tile(part[:500], 2) for part in (x, variances, x > 1)))
    np.testing.assert_allclose(doubled.at(x, variances), twice.at(x, variances), atol=1e-3)


def test_without_entries_or_with_one_sign_a_calibration_stays_near_the_average_over_the_posterior():
    variances = np.full(X.size, 0.5)
    start = OddsCalibration.on(X[:0], X[:0], X[:0] > 0)
    averages = model(Logistic(), 0.5).predict_entries(ROWS, COLS)
    np.testing.assert_allclose(start.at(X, variances), averages, atol=0.01)
    alike = OddsCalibration.on(X[-3:], variances[-3:], np.ones(3, bool))
    assert np.abs(alike.at(X, variances) - averages).max() < 0.05


@pytest.mark.parametrize("loss", [Logistic(), Bernoulli()], ids=repr)
@pytest.mark.parametrize("calibration", [None, OddsCalibration(-0.3, 0.8, 0.2, 9)], ids=["averaged", "calibrated"])
def test_a_probability_is_one_number_wherever_it_is_returned(loss, calibration):
    one = model(loss, 0.7, calibration=calibration)
    wanted = one.predict_entries(ROWS, COLS, decode="probability")
    np.testing.assert_array_equal(one.predict_entries(ROWS, COLS), wanted)
    np.testing.assert_allclose(one.reconstruct()[0], wanted, rtol=1e-12)
    np.testing.assert_array_equal(one.transposed().predict_entries(COLS, ROWS), wanted)
    targets = Observations.from_coo(ROWS, COLS, np.ones(X.size), (1, X.size))
    worst = one.residuals(targets, X.size)
    np.testing.assert_allclose(worst.predictions, wanted[worst.cols], rtol=1e-12)
    classes = one.predict_entries(ROWS, COLS, decode="class")
    np.testing.assert_array_equal(classes == 1, wanted > 0.5)


def test_estimators_return_that_number_and_files_store_the_calibration(tmp_path):
    seen, _ = planted(0.4, shape=(60, 50))
    pairs = np.column_stack((seen.rows, seen.cols))
    for kind in (MatrixCompletion(rank=2, calibration=0.2), SignedLinkPredictor(rank=2, calibration=0.2)):
        fitted = kind.fit(pairs, seen.targets)
        assert fitted.model_.facts["probabilities"]["n_entries"] == fitted.model_.calibration.n_entries > 0
        second = fitted.predict_proba(pairs)[:, 1]
        np.testing.assert_array_equal(second, fitted.predict_entries(*pairs.T))
        np.testing.assert_array_equal(fitted.predict(pairs) > 0, second > 0.5)
        fitted.save(tmp_path / "m.rankwise")
        np.testing.assert_array_equal(rw.load(tmp_path / "m.rankwise").predict_proba(pairs)[:, 1], second)


# Ordered levels.


@pytest.mark.parametrize("variance", [0.0, 0.8])
@pytest.mark.parametrize("loss", LIKELIHOODS, ids=repr)
def test_levels_have_the_odds_of_their_thresholds(loss, variance):
    above = np.mean([expit(X[:, None] + side * np.sqrt(variance) - np.array(loss.thresholds)) for side in (-1, 1)], 0)
    chances = -np.diff(np.column_stack((np.ones(X.size), above, np.zeros(X.size))), axis=1)
    one, levels = model(loss, variance), np.arange(loss.levels)
    ask = {how: one.predict_entries(ROWS, COLS, decode=how) for how in ("mean", "clip", "round", "median", "class")}
    np.testing.assert_allclose(ask["mean"], chances @ levels, rtol=1e-12)
    np.testing.assert_array_equal(ask["clip"], ask["mean"])
    np.testing.assert_array_equal(ask["round"], np.rint(ask["mean"]))
    np.testing.assert_array_equal(ask["median"], (np.cumsum(chances, axis=1) < 0.5 - 1e-12).sum(axis=1))
    np.testing.assert_array_equal(ask["class"], levels[np.argmax(chances, axis=1)])
    np.testing.assert_allclose(loss.exceedances(X, variance), above, rtol=1e-12)


def test_proportional_odds_is_the_likelihood_that_it_minimizes():
    loss = ProportionalOdds(4, (-1.0, 0.3, 2.0))
    chances = -np.diff(loss.exceedances(X), axis=1, prepend=1.0, append=0.0)
    constants = np.log(chances) + np.array([loss.value(X, level) for level in range(4)]).T
    np.testing.assert_allclose(constants, np.tile(constants[:1], (X.size, 1)), atol=1e-12)


@pytest.mark.parametrize("kind", [Ordinal, ProportionalOdds, OrdinalHinge])
def test_a_fit_of_stars_predicts_stars(kind):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((80, 2)) @ rng.standard_normal((2, 60)) * 1.5
    levels = (x[..., None] + logit(rng.random((80, 60, 1))) > np.array([-2.0, -0.5, 0.5, 2.0])).sum(axis=2)
    rows, cols = np.nonzero(rng.random(levels.shape) < 0.7)
    pairs, stars = np.column_stack((rows, cols)), levels[rows, cols].astype(float)
    train, test = np.arange(rows.size) % 5 > 0, np.arange(rows.size) % 5 == 0
    fitted = MatrixCompletion(kind.from_targets(stars), rank=3).fit(pairs[train], stars[train])
    predicted = fitted.predict(pairs[test])
    assert np.sqrt(np.mean((predicted - stars[test]) ** 2)) < 0.9 * stars[test].std()
    if kind is OrdinalHinge:
        assert not hasattr(fitted, "predict_proba")
        return
    chances = fitted.predict_proba(pairs[test])
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    np.testing.assert_allclose(chances @ np.arange(5), predicted, rtol=1e-12)
    np.testing.assert_allclose(chances.mean(axis=0), np.bincount(stars[test].astype(int)) / test.sum(), atol=0.1)


# Every loss decodes, or refuses by name.


@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("how", ["clip", "round", "mean", "median", "class", "probability"])
def test_every_loss_decodes_into_the_units_of_its_targets_or_refuses(name, how):
    kind = BY_NAME[name]
    loss = kind(4) if issubclass(kind, LevelsLoss) else kind()
    try:
        found = model(loss, 0.3).predict_entries(ROWS, COLS, decode=how)
    except rw.SettingError as error:
        assert how in str(error)
        likelihood = loss.link == "logit" or not (takes_signs(loss) or isinstance(loss, OrdinalHinge))
        assert how == "probability" or (takes_signs(loss) and how in ("clip", "round")) or not likelihood
        assert how != "class" or not takes_signs(loss)
        return
    low, high = (-1.0, 1.0) if takes_signs(loss) and loss.link != "logit" else (-1.0 if takes_signs(loss) else 0.0, 3.0)
    assert np.isfinite(found).all() and found.min() >= low and found.max() <= high
    assert (np.diff(found) >= 0).all()  # a higher prediction is never decoded into a lower one


def test_a_loss_without_a_likelihood_says_so():
    with pytest.raises(rw.LossError, match=r"^OrdinalHinge is no likelihood"):
        OrdinalHinge(3).exceedances(X)
    with pytest.raises(rw.SettingError, match=r"^decode='mean' needs a likelihood, which OrdinalHinge is not"):
        model(OrdinalHinge(4)).predict_entries(ROWS, COLS, decode="mean")
    assert not isinstance(Mixed([Logistic()], [0], [1.0]), LevelsLoss)
