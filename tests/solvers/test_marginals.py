"""Predictions for rows and columns that were not seen, and at rank 0."""

import os
from itertools import product

import numpy as np
import pytest
from helpers import make_observations
from scipy.special import expit, logit

import rankwise as rw
from rankwise import MatrixCompletion, Observations, Problem, fold_in, load, solve
from rankwise.losses import Absolute, Huber, Logistic, Square
from rankwise.selection import split_entries
from rankwise.solvers import BayesSweeps, FactorSweeps
from rankwise.solvers.marginals import damped_means


def sums_of(groups, values, n):
    return [np.bincount(groups, values**k, n) for k in range(3)]


def test_the_damping_is_the_best_when_every_entry_is_left_out_in_turn():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 12, 90)
    values = rng.normal(0, 0.7, 12)[groups] + rng.normal(2, 1, 90)
    found = damped_means(*sums_of(groups, values, 12))
    n, level = np.bincount(groups, minlength=12), values.mean()

    def error(damping):
        gaps = np.array([(values - level)[(groups == g) & (np.arange(90) != k)].sum() for k, g in enumerate(groups)])
        return np.sum((values - level - gaps / (n[groups] - 1 + damping)) ** 2)

    dampings = np.geomspace(0.01, 100, 400)
    best = dampings[np.argmin([error(damping) for damping in dampings])]
    wanted = level + np.bincount(groups, values - level, 12) / (n + best)
    np.testing.assert_allclose(found, wanted, atol=5e-3)
    np.testing.assert_allclose(damped_means(*sums_of(groups, values + 1e4, 12)), found + 1e4, atol=1e-3)


def held_out_rows(seen, share=0.2, seed=1):
    """Entries of the other rows, and those of some rows, of which the model knows nothing."""
    out = (np.random.default_rng(seed).random(seen.shape[0]) < share)[seen.rows]
    return seen.take(~out), seen.take(out)


def rare(shape=(400, 80), share=0.02, seed=0, density=0.5):
    """Signs with few +1: log-odds of rank 2 with offsets; and their probabilities."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(size=(shape[0], 2)) @ rng.normal(size=(2, shape[1])) + rng.normal(size=shape[1])
    odds += logit(share) - 1.0
    rows, cols = np.nonzero(rng.random(shape) < density)
    signs = np.where(rng.random(rows.size) < expit(odds[rows, cols]), 1.0, -1.0)
    return Observations.from_coo(rows, cols, signs, shape)


def column_means(train, damping):
    n, level = np.bincount(train.cols, minlength=train.shape[1]), train.targets.mean(dtype=float)
    return level + np.bincount(train.cols, train.targets - level, train.shape[1]) / (n + damping)


@pytest.mark.parametrize("kind", ["signs", "numbers"])
def test_an_unseen_row_is_predicted_as_well_as_by_the_best_damped_means(kind):
    seen = rare() if kind == "signs" else rw.datasets.ratings(300, 60, rank=4, density=0.3).observations
    train, test = held_out_rows(seen)
    model = MatrixCompletion(Logistic() if kind == "signs" else Square(), rank=6).fit(train)
    found = model.predict_entries(test.rows, test.cols, unknown="offset")

    def cost(predicted):
        if kind == "numbers":
            return np.mean((predicted - test.targets) ** 2)
        return np.mean(np.logaddexp(0, -test.targets * logit(predicted)))

    means = [column_means(train, damping)[test.cols] for damping in (0.5, 2, 8, 32, 128)]
    best = min(cost((1 + mean) / 2 if kind == "signs" else mean) for mean in means)
    assert cost(found) <= 1.01 * best
    other = MatrixCompletion(Logistic() if kind == "signs" else Square(), rank=6).fit(train.transposed())
    np.testing.assert_allclose(other.predict_entries(test.cols, test.rows, unknown="offset"), found, rtol=1e-4)


@pytest.mark.parametrize("loss", [Square(), Huber(), Logistic(), Absolute()], ids=repr)
def test_unseen_labels_and_rows_without_entries_get_the_same(loss, tmp_path):
    seen = make_observations(loss, np.random.default_rng(2), (20, 15), 0.6)
    seen = seen.take((seen.rows != 7) & (seen.cols != 4))
    model = MatrixCompletion(loss, rank=2, dtype="float64").fit(seen).model_
    unseen = [model.predict_entries([row, 3, row], [2, col, col], unknown="offset") for row, col in ((7, 4), (99, 99))]
    np.testing.assert_array_equal(*unseen)
    model.save(tmp_path / "m.rankwise")
    again = load(tmp_path / "m.rankwise")
    for twin in (again, model.transposed()):
        pairs = ([99, 3, 99], [2, 99, 99]) if twin is again else ([2, 99, 99], [99, 3, 99])
        np.testing.assert_array_equal(twin.predict_entries(*pairs, unknown="offset"), unseen[0])
    assert model.predict_entries([99], [2], unknown="offset", decode="class" if loss.link == "logit" else "clip").size
    empty = fold_in(model, np.full((1, 15), np.nan)).predict_entries([0], [2], unknown="offset")
    np.testing.assert_allclose(empty, unseen[0][:1])


def test_outliers_hardly_move_the_prediction_for_an_unseen_row():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(200, 10))
    values[:4, 0] = 1e6
    model = solve(Problem(Observations.from_dense(values), Huber(1.0)), BayesSweeps(), rank=1, max_iter=2).model
    assert abs(model.marginals.cols[0]) < 0.3


@pytest.mark.parametrize("solver", [BayesSweeps(), FactorSweeps()], ids=lambda solver: type(solver).__name__)
def test_at_rank_0_factors_have_left_nothing_behind(solver):
    seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    short, long = (solve(Problem(seen, "square"), solver, rank=r, max_iter=r).model.to_dense(0) for r in (1, 4))
    np.testing.assert_array_equal(short, long)


def two_way_means(train, dampings):
    """Mean, damped means of the columns, and damped means of the rows of what is left, at all pairs."""
    (n, m), level = train.shape, train.targets.mean(dtype=float)
    counts = np.bincount(train.rows, minlength=n), np.bincount(train.cols, minlength=m)
    cols = np.bincount(train.cols, train.targets - level, m) / (counts[1] + dampings[1])
    rows = np.bincount(train.rows, train.targets - level - cols[train.cols], n) / (counts[0] + dampings[0])
    return level + rows[:, None] + cols


def skewed_ratings(shape=(300, 200), per_row=24, seed=0):
    """Ratings of 1 to 5 with most of them high, so that medians are not means."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(shape[0]), per_row)
    cols = np.concatenate([rng.choice(shape[1], per_row, replace=False) for _ in range(shape[0])])
    level = 3.9 + 0.4 * rng.normal(size=shape[0])[rows] + 0.5 * rng.normal(size=shape[1])[cols]
    stars = np.clip(np.round(level + 1.5 - rng.exponential(1.5, rows.size)), 1, 5)
    return Observations.from_coo(rows, cols, stars, shape)


def assert_rank_0_is_as_good_as_two_way_means(seen, held_out, factor=1.0):
    """With the best of all dampings for the held-out entries, which the model does not know."""
    train, test = split_entries(seen, held_out)
    model = MatrixCompletion(max_iter=1).fit(train).model_
    assert isinstance(model.loss, Huber)
    found = [model.to_dense(0), *(two_way_means(train, pair) for pair in product((2, 4, 8, 16), (1, 2, 4, 8)))]
    errors = [np.sqrt(np.mean((each[test.rows, test.cols] - test.targets) ** 2)) for each in found]
    assert errors[0] < factor * min(errors[1:])


@pytest.mark.parametrize("seed", [0, 1])
def test_rank_0_of_the_default_is_as_good_as_two_way_means(seed):
    assert_rank_0_is_as_good_as_two_way_means(skewed_ratings(seed=seed), 0.3, 1.0025)


@pytest.mark.slow
@pytest.mark.skipif("RANKWISE_DATA" not in os.environ, reason="RANKWISE_DATA is not set")
@pytest.mark.parametrize("name", ["movielens-100k", "movielens-1m"])
def test_rank_0_of_real_ratings_is_as_good_as_two_way_means(name):
    assert_rank_0_is_as_good_as_two_way_means(rw.datasets.load(name), 0.5)


@pytest.mark.parametrize("offsets", ["global", "rows", "columns"])
def test_rank_0_has_the_offsets_that_were_asked_for(offsets):
    model = MatrixCompletion(Huber(1.0), offsets=offsets, max_iter=1).fit(skewed_ratings((60, 40), 20)).model_
    varies = [np.ptp(part) > 0 for part in (model.baseline.rows, model.baseline.cols)]
    assert varies == [offsets == "rows", offsets == "columns"]


@pytest.mark.parametrize("share", [0.01, 0.5])
def test_probabilities_have_the_right_mean_and_deciles(share):
    train, test = split_entries(rare((900, 160), share, density=0.7), 0.3)
    model = rw.SignedLinkPredictor(rank=4).fit(np.column_stack((train.rows, train.cols)), train.targets)
    found = model.predict_proba(np.column_stack((test.rows, test.cols)))[:, 1]
    np.testing.assert_allclose(found, model.predict_entries(test.rows, test.cols, decode="probability"), rtol=1e-12)
    wanted = np.mean(test.targets > 0)
    assert found.mean() == pytest.approx(wanted, rel=0.15)
    for part in np.array_split(np.argsort(found), 10):
        assert found[part].mean() == pytest.approx(np.mean(test.targets[part] > 0), abs=0.02)


@pytest.mark.slow
@pytest.mark.skipif("RANKWISE_DATA" not in os.environ, reason="RANKWISE_DATA is not set")
@pytest.mark.parametrize("name", ["movielens-100k", "slashdot"])
def test_unseen_rows_of_real_data_are_predicted_as_well_as_by_damped_means(name):
    data = rw.datasets.load(name)
    whole = Observations.from_coo(data.rows, data.cols, data.targets, data.shape)  # numbers are the labels
    for seen in (whole, whole.transposed()):
        train, test = held_out_rows(seen, 0.1)
        known = np.isin(test.cols, train.cols)
        model = MatrixCompletion().fit(train)
        assert model.n_iter_ in (10, 11)
        link = model.predict_entries(test.rows, test.cols, scale="link", unknown="offset")
        costs = []
        for damping in (1, 2, 3, 5, 8, 12):
            mean = column_means(train, damping)[test.cols]
            costs.append(np.logaddexp(0, -test.targets * logit((1 + mean) / 2)) if name == "slashdot" else mean)
        if name == "slashdot":
            found, wanted = np.logaddexp(0, -test.targets * link), [each[known].mean() for each in costs]
            assert found[known].mean() < 1.002 * min(wanted)
        else:
            rmse = [np.sqrt(np.mean((each - test.targets) ** 2)) for each in (link, *costs)]
            assert rmse[0] < 1.002 * min(rmse[1:])


def test_zeros_and_ones_have_the_marginals_of_signs():
    signs = rare(shape=(60, 20), share=0.1)
    yes = Observations.from_coo(signs.rows, signs.cols, (signs.targets + 1) / 2, signs.shape)
    one, other = (MatrixCompletion(rank=2, max_iter=2).fit(seen).model_.marginals for seen in (signs, yes))
    for name in ("rows", "cols", "constant"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-6)
    assert expit(other.constant) == pytest.approx(yes.targets.mean(), rel=1e-6)
