"""`predict_interval`: coverage that holds under any noise, sharp where it can be, never crossed."""

import pickle
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from helpers import make_observations

import rankwise as rw
from rankwise import MatrixCompletion, Observations, RobustFactorization
from rankwise.datasets import counts, ratings
from rankwise.losses import Logistic, Square
from rankwise.model import save
from rankwise.model.intervals import KEPT, Calibration, Pair, Spread, spread_of
from rankwise.selection import split_entries
from rankwise.storage.archive import seal

SHAPE = (300, 200)
COVERAGES = (0.5, 0.8, 0.95)
NOISES = ("normal", "student", "rows", "columns", "skewed")
every_noise = pytest.mark.parametrize("noise", NOISES)
every_way = pytest.mark.parametrize("by", ["variances", "quantiles"])


@cache
def scales(size):
    """True noise scales of rows or columns."""
    return np.exp(0.7 * np.random.default_rng(size).standard_normal(size))


@cache
def planted(noise, density=0.6):
    """Entries to learn from, to calibrate on and to score: rank 2 plus noise."""
    clean, rng = ratings(*SHAPE, 2, density, noise=0.0, random_state=1).observations, np.random.default_rng(2)
    n, rows, cols = clean.n_observed, clean.rows, clean.cols
    added = {
        "normal": lambda: rng.normal(0, 0.5, n),
        "student": lambda: 0.4 * rng.standard_t(2.5, n),
        "rows": lambda: 0.4 * scales(SHAPE[0])[rows] * rng.standard_normal(n),
        "columns": lambda: 0.4 * scales(SHAPE[1])[cols] * rng.standard_normal(n),
        "skewed": lambda: rng.exponential(0.7, n),
    }[noise]()
    noisy = Observations.from_coo(rows, cols, clean.targets + added, SHAPE)
    rest, test = split_entries(noisy, 0.35, 3)
    return *split_entries(rest, 0.3, 4), test


@cache
def fitted(noise, density=0.6):
    return MatrixCompletion(rank=3, max_iter=8).fit(planted(noise, density)[0])


@cache
def calibrated(noise, by, density=0.6):
    copy = MatrixCompletion(rank=3, max_iter=8)
    copy.__dict__ |= fitted(noise, density).__dict__
    return copy.calibrate(planted(noise, density)[1], by=by)


def covered(estimator, entries, coverage):
    low, high = estimator.predict_interval(entries.rows, entries.cols, coverage=coverage)
    return np.mean((low <= entries.targets) & (entries.targets <= high))


def interval_score(estimator, entries, coverage=0.8):
    """Written out from Gneiting and Raftery (2007), Eq. 43."""
    low, high = estimator.predict_interval(entries.rows, entries.cols, coverage=coverage)
    y, alpha = entries.targets, 1 - coverage
    return np.mean((high - low) + 2 / alpha * (low - y) * (y < low) + 2 / alpha * (y - high) * (y > high))


@every_noise
@every_way
@pytest.mark.parametrize("coverage", COVERAGES)
def test_the_coverage_holds_within_two_points(noise, by, coverage):
    assert covered(calibrated(noise, by), planted(noise)[2], coverage) == pytest.approx(coverage, abs=0.02)


@every_noise
def test_each_end_is_missed_equally_often(noise):
    test = planted(noise)[2]
    low, high = calibrated(noise, "variances").predict_interval(test.rows, test.cols, coverage=0.8)
    assert np.mean(test.targets < low) == pytest.approx(0.1, abs=0.015)
    assert np.mean(test.targets > high) == pytest.approx(0.1, abs=0.015)


@pytest.mark.parametrize("n", [9, 100, 999, KEPT, KEPT + 1, 123_456])
@pytest.mark.parametrize("coverage", [0.1, 0.5, 0.8, 0.99])
def test_the_ends_are_the_order_statistics_that_conformal_prediction_asks_for(n, coverage):
    """A new score falls between the a-th and the b-th of n with the chance (b - a) / (n + 1), whatever its law."""
    calibration = one_row(np.arange(1.0, n + 1))
    if n + 1 < 2 / (1 - coverage) - 1e-9:
        with pytest.raises(rw.SettingError, match=rf"^coverage={coverage:g} needs at least 199 .* there are {n}"):
            calibration.ends(coverage)
        return
    low, high = calibration.ends(coverage)
    spare = 2 / (n + 1) + (2 / KEPT if n > KEPT else 0)
    assert coverage - 1e-12 <= (high - low) / (n + 1) <= coverage + spare
    assert low + high == pytest.approx(n + 1, abs=2 * n / KEPT + 1e-9)


def one_row(targets):
    """Calibration of a 1 x n model of zeros with unit widths."""
    n = targets.size
    model = rw.LowRankModel(np.zeros((0, 0)), np.zeros((1, 0)), np.zeros((n, 0)))
    return Calibration.on(model, Spread(1.0, np.ones(1), np.ones(n)), np.zeros(n, int), np.arange(n), targets)


@every_noise
@every_way
def test_intervals_are_nested_and_never_crossed(noise, by):
    rows, cols = map(np.ravel, np.indices(SHAPE))
    before = None
    for coverage in (0.001, 0.1, 0.5, 0.8, 0.95, 0.999):
        low, high = calibrated(noise, by).predict_interval(rows, cols, coverage=coverage)
        assert np.isfinite(low).all() and np.isfinite(high).all() and (low <= high).all()
        if before is not None:
            assert (low <= before[0]).all() and (high >= before[1]).all()
        before = low, high


def test_fits_that_cross_still_give_intervals():
    data = planted("normal")
    wrong = calibrated("normal", "quantiles").model_.calibration.widths
    crossed = Pair(wrong.upper, wrong.lower, wrong.narrowest)
    test = data[2]
    centre, width = crossed.at(None, test.rows, test.cols)
    assert (wrong.upper.at(test.rows, test.cols) > wrong.lower.at(test.rows, test.cols)).mean() > 0.99
    assert (width >= wrong.narrowest).all() and np.isfinite(centre).all()


# Sharpness.


@pytest.mark.parametrize(("noise", "side"), [("rows", 0), ("columns", 1)])
def test_noisy_rows_and_columns_are_told_from_quiet_ones(noise, side):
    widths = calibrated(noise, "variances").model_.calibration.widths
    found = (widths.row_scales, widths.col_scales)
    assert np.corrcoef(np.log(found[side]), np.log(scales(SHAPE[side])))[0, 1] > 0.95
    assert np.std(found[1 - side]) < 0.1  # the other side's are all one


def test_equal_noise_gives_equal_scales():
    widths = calibrated("normal", "variances").model_.calibration.widths
    for found in (widths.row_scales, widths.col_scales):
        np.testing.assert_allclose(found, 1.0, atol=0.05)


@pytest.mark.parametrize("noise", ["rows", "columns"])
def test_scales_of_rows_and_columns_make_intervals_sharper(noise):
    estimator, (_, held_out, test) = calibrated(noise, "variances"), planted(noise)
    even = Spread(estimator.model_.calibration.widths.noise_variance, *map(np.ones, SHAPE))
    flat = Calibration.on(estimator.model_, even, held_out.rows, held_out.cols, held_out.targets)
    ours, theirs = (
        interval_score(model, test) for model in (estimator.model_, replace(estimator.model_, calibration=flat))
    )
    assert ours < 0.9 * theirs


def test_scales_under_equal_noise_follow_no_chance_for_rows_with_few_entries():
    """Rows of two entries differ a lot by chance; their scales must not."""
    rng = np.random.default_rng(0)
    rows, cols = np.repeat(np.arange(400), 2), rng.permuted(np.tile(np.arange(50), (400, 1)), axis=1)[:, :2].ravel()
    model = rw.LowRankModel(np.zeros((0, 0)), np.zeros((400, 0)), np.zeros((50, 0)))
    targets = rng.standard_normal(800)
    found = spread_of(model, rows, cols, targets)
    raw = np.bincount(rows, np.abs(targets)) / 2
    assert np.std(found.row_scales) < 0.25 * np.std(raw / raw.mean())
    assert found.noise_variance == pytest.approx(1.0, rel=0.2)


def test_a_weight_counts_as_repetition_in_the_scales():
    rng = np.random.default_rng(1)
    rows, cols, targets = rng.integers(0, 20, 300), rng.integers(0, 10, 300), rng.standard_t(3, 300)
    model = rw.LowRankModel(np.zeros((0, 0)), np.zeros((20, 0)), np.zeros((10, 0)))
    twice = spread_of(model, *(np.concatenate((part, part)) for part in (rows, cols, targets)))
    weighted = spread_of(model, rows, cols, targets, np.full(300, 2.0))
    np.testing.assert_allclose(weighted.row_scales, twice.row_scales, rtol=1e-12)
    np.testing.assert_allclose(weighted.col_scales, twice.col_scales, rtol=1e-12)


@pytest.mark.parametrize(("noise", "density"), [("normal", 0.6), ("rows", 0.6), ("columns", 1.0)])
def test_auto_takes_the_sharper_of_the_two(noise, density):
    _, held_out, test = planted(noise, density)
    scores = {by: interval_score(calibrated(noise, by, density), held_out) for by in ("variances", "quantiles")}
    auto = calibrated(noise, "auto", density)
    about = auto.model_.facts["intervals"]
    assert about["interval_scores"] == pytest.approx(scores) and about["n_entries"] == held_out.n_observed
    assert about["by"] == min(scores, key=scores.get)
    found, wanted = (
        each.predict_interval(test.rows, test.cols) for each in (auto, calibrated(noise, about["by"], density))
    )
    np.testing.assert_array_equal(found, wanted)


def test_either_way_can_be_the_sharper_one():
    choices = {
        calibrated(*case).model_.facts["intervals"]["by"] for case in (("normal", "auto"), ("columns", "auto", 1.0))
    }
    assert choices == {"variances", "quantiles"}


# The estimators.


def test_fit_keeps_a_seeded_share_for_calibration():
    train, _, test = planted("normal")
    data = split_entries(Observations.from_coo(train.rows, train.cols, train.targets, SHAPE), 0.5, 0)[0]
    settings = {"rank": 2, "max_iter": 3, "random_state": 5}
    kept = MatrixCompletion(calibration=0.25, **settings).fit(data)
    part, rest = split_entries(data, 0.25, 5)
    by_hand = MatrixCompletion(**settings).fit(part).calibrate(rest)
    ask = test.rows, test.cols
    np.testing.assert_array_equal(kept.predict_interval(*ask), by_hand.predict_interval(*ask))
    np.testing.assert_array_equal(kept.predict_entries(*ask), by_hand.predict_entries(*ask))
    assert kept.model_.facts["intervals"]["n_entries"] == rest.n_observed == round(0.25 * data.n_observed)
    assert np.array_equal(kept.model_.seen.indices, data.indices)  # the user has seen all of them


@pytest.mark.parametrize(
    "estimator",
    [
        MatrixCompletion("square", rank=3, method="eglrl", calibration=0.3),  # a pursuit of smooth losses only
        RobustFactorization("l1", rank=4, method="glrl-nonsmooth", calibration=0.3),
    ],
    ids=lambda each: type(each).__name__,
)
def test_models_without_variances_have_intervals_too(estimator):
    train, _, test = planted("normal")
    estimator.fit(train)
    assert covered(estimator, test, 0.8) == pytest.approx(0.8, abs=0.02)


def test_pairs_get_the_intervals_of_the_matrix_they_come_from():
    train, _, test = planted("student")
    settings = {"rank": 2, "max_iter": 3, "calibration": 0.3}
    pairs, ask = MatrixCompletion(**settings), (test.rows, test.cols)
    pairs.fit(np.column_stack((train.rows, train.cols)), train.targets)
    assert set(pairs.model_.facts["intervals"]["interval_scores"]) == {"variances", "quantiles"}
    found, wanted = (each.predict_interval(*ask) for each in (pairs, MatrixCompletion(**settings).fit(train)))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@every_way
def test_the_transpose_has_the_same_intervals_and_keeps_them_in_a_file(by, tmp_path):
    model, ask = calibrated("rows", by).model_, planted("rows")[2]
    save(model.transposed(), tmp_path / "m.rankwise")
    for turned in (model.transposed(), rw.load(tmp_path / "m.rankwise")):
        found = turned.predict_interval(ask.cols, ask.rows)
        np.testing.assert_allclose(found, model.predict_interval(ask.rows, ask.cols), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axis", ["rows", "columns"])
def test_rows_that_came_later_have_no_intervals_of_other_rows(axis):
    model = calibrated("normal", "variances").model_
    with refused("no calibrated intervals"):
        rw.fold_in(model, planted("normal")[2], axis=axis).predict_interval([0], [0])


def test_intervals_of_counts_are_not_below_zero():
    train, test = split_entries(counts(150, 100, 2, 0.7, 1.0).observations, 0.4, 0)
    found = MatrixCompletion("poisson", rank=3, calibration=0.4, max_iter=6).fit(train)
    low, high = found.predict_interval(test.rows, test.cols, coverage=0.8)
    assert (low >= 0).all() and (high >= low).all()
    assert 0.78 <= covered(found, test, 0.8) <= 0.86  # counts lie on a grid, so a little more is covered


def test_ends_can_be_kept_within_the_scale():
    estimator, test = calibrated("student", "variances"), planted("student")[2]
    seen = planted("student")[0].targets
    free = estimator.predict_interval(test.rows, test.cols, coverage=0.99)
    kept = estimator.predict_interval(test.rows, test.cols, coverage=0.99, clip=True)
    for end, wanted in zip(kept, free, strict=True):
        np.testing.assert_array_equal(end, np.clip(wanted, seen.min(), seen.max()))


def test_rows_are_asked_for_by_label():
    rng = np.random.default_rng(0)
    names = np.array([f"r{k}" for k in range(30)])[::-1], np.array([f"c{k}" for k in range(20)])
    data = make_observations(Square(), rng, (30, 20), 0.8)
    named = Observations.from_coo(data.rows, data.cols, data.targets, data.shape, labels=names)
    settings = {"rank": 1, "max_iter": 2, "calibration": 0.3}
    by_name, by_number = (MatrixCompletion(**settings).fit(each) for each in (named, data))
    rows, cols = rng.integers(0, 30, 9), rng.integers(0, 20, 9)
    wanted = by_number.predict_interval(rows, cols)
    np.testing.assert_array_equal(by_name.predict_interval(names[0][rows], names[1][cols]), wanted)


@every_way
def test_a_saved_model_keeps_its_intervals(by, tmp_path):
    estimator, test = calibrated("rows", by), planted("rows")[2]
    estimator.save(tmp_path / "m.rankwise")
    loaded = rw.load(tmp_path / "m.rankwise")
    for coverage in COVERAGES:
        wanted = estimator.predict_interval(test.rows, test.cols, coverage=coverage)
        np.testing.assert_array_equal(loaded.predict_interval(test.rows, test.cols, coverage=coverage), wanted)
    again = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(again.predict_interval(test.rows, test.cols, coverage=coverage), wanted)


@pytest.mark.parametrize("part", ["scores", "n_entries", "row_scales", "noise_variance"])
def test_a_file_with_damaged_intervals_is_refused(part, tmp_path):
    estimator = calibrated("rows", "variances")
    path = tmp_path / "m.rankwise"
    estimator.save(path)
    with np.load(path) as file:
        arrays = dict(file)
    arrays[f"calibration_{part}"] = -1 * arrays[f"calibration_{part}"]
    with path.open("w+b") as file:
        np.savez(file, **arrays)
        seal(file)
    with pytest.raises(rw.ModelFileError, match="damaged: its parts do not fit together"):
        rw.load(path)


def test_constant_data_gives_finite_intervals():
    data = Observations.from_coo(*np.divmod(np.arange(200), 10), np.full(200, 3.0))
    low, high = MatrixCompletion(rank=1, calibration=0.4, max_iter=2).fit(data).predict_interval([0, 1], [0, 1])
    np.testing.assert_allclose([low, high], 3.0, atol=1e-5)


# Refusals, one sentence each.


def refused(match, error=rw.SettingError):
    return pytest.raises(error, match=match)


def test_rows_without_any_entry_have_intervals_beside_rows_with_one():
    rng = np.random.default_rng(8)
    rows, cols = np.arange(40), rng.integers(0, 4, 40)
    train = Observations.from_coo(rows, cols, rng.normal(size=40) * rng.exponential(size=40), (50, 4))
    held_out = Observations.from_coo(rows[:20], (cols[:20] + 1) % 4, rng.normal(size=20), (50, 4))
    found = MatrixCompletion("square", rank=1).fit(train).calibrate(held_out, by="variances")
    ends = found.predict_interval(np.arange(50), np.zeros(50, int), coverage=0.5)
    assert np.isfinite(ends).all()


def test_what_has_no_interval_says_so():
    fit = MatrixCompletion(rank=1, max_iter=1)
    with refused("not fitted yet", rw.NotFittedError):
        fit.predict_interval([0], [0])
    data = make_observations(Square(), np.random.default_rng(0), (20, 10), 0.5)
    with refused(r"^This model has no calibrated intervals: fit with calibration=0.1, or call .*`calibrate`"):
        fit.fit(data).predict_interval([0], [0])
    signs = make_observations(Logistic(), np.random.default_rng(0), (20, 10), 0.5)
    with refused('^Signs have no interval, and this loss has no probabilities either; use loss="logistic"'):
        MatrixCompletion("hinge", time_limit=-1.0, calibration=0.2).fit(signs)  # before any other work
    for act in (
        lambda: MatrixCompletion("logistic", rank=1, calibration=0.2).fit(signs).predict_interval([0], [0]),
        lambda: MatrixCompletion(rank=1, method="eglrl").fit(signs).predict_interval([0], [0]),
    ):
        with refused("^Signs have no interval; .*decode='probability'"):
            act()


@pytest.mark.parametrize("coverage", [0, 1, 1.5, -0.1, "most", None, True])
def test_coverage_is_a_share(coverage):
    with refused("^`coverage` must be above 0 and below 1, got "):
        calibrated("normal", "variances").predict_interval([0], [0], coverage=coverage)
    with refused("^`coverage` must be above 0 and below 1, got "):
        fitted("normal").calibrate(planted("normal")[1], coverage=coverage)


@pytest.mark.parametrize("share", [1.0, -0.1, "some", None, True])
def test_calibration_is_a_share(share):
    with refused("calibration.* must be .*[gG]ot "):
        MatrixCompletion(calibration=share).fit(planted("normal")[0])


def test_entries_that_were_learned_from_are_no_calibration():
    train, held_out, _ = planted("normal")
    with refused(rf"^{train.n_observed} of the {train.n_observed} held-out entries were given to `fit`", rw.DataError):
        fitted("normal").calibrate(train)
    with refused("^`by` must be one of 'auto', 'variances', 'quantiles', got 'magic'"):
        fitted("normal").calibrate(held_out, by="magic")


def test_after_a_pickle_only_the_variances_are_left():
    again = pickle.loads(pickle.dumps(fitted("normal")))
    _, held_out, test = planted("normal")
    with refused('^by="quantiles" needs the training entries, which are not part of a pickle or a file'):
        again.calibrate(held_out, by="quantiles")
    assert covered(again.calibrate(held_out), test, 0.8) == pytest.approx(0.8, abs=0.02)


@every_way
def test_a_model_with_more_rows_than_were_calibrated_says_so(by, tmp_path):
    model = calibrated("normal", by).model_
    parts = ("offsets", "baseline", "marginals", "posterior", "learned", "seen")
    grown = replace(model, U=np.vstack((model.U, model.U[:1])), **dict.fromkeys(parts))
    save(grown, tmp_path / "m.rankwise")
    for each in (grown, rw.load(tmp_path / "m.rankwise")):
        with refused("calibrate again"):
            each.predict_interval([300], [0])
