"""The rank, the ridge and the loss that are chosen by themselves, and settings that are refused."""

import numpy as np
import pytest
from helpers import make_observations, random_pattern

from rankwise import (
    LossError,
    MatrixCompletion,
    Observations,
    Problem,
    Ridged,
    RobustFactorization,
    SettingError,
    solve,
)
from rankwise.estimators.planning import MAX_FACTORS, RIDGES
from rankwise.losses import Absolute, Huber, Logistic, Square
from rankwise.selection import choose_rank, choose_ridge, split_entries
from rankwise.selection.paths import PATIENCE
from rankwise.solvers import BayesSweeps, FactorSweeps, GreedyPursuit, fit_offsets


def planted(rank=4, seed=0, shape=(90, 70), density=0.6, noise=0.3, level=0.0):
    """Entries of a random matrix of that rank, whose singular values are alike, with noise."""
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.normal(size=(size, rank)))[0] for size in shape)
    X = level + np.sqrt(np.prod(shape)) * U @ V.T
    rows, cols = random_pattern(rng, shape, density)
    return X, Observations.from_coo(rows, cols, X[rows, cols] + noise * rng.normal(size=rows.size), shape)


def square(observations):
    return Problem(observations, "square")


def chosen(seen, method="glrl", longest=40, seed=0):
    return choose_rank(seen, square, method, longest=longest, loss=Square(), random_state=seed)


@pytest.mark.parametrize("rank", [2, 4, 7])
def test_the_planted_rank_is_found(rank):
    # a pursuit reaches a planted matrix in as many steps only if it sees nearly all of it: then its pairs are the SVD's
    choice = chosen(planted(rank, density=0.97, noise=0.5)[1])
    assert rank <= choice.best <= rank + 2


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("method", ["glrl", "eglrl", GreedyPursuit("none", shrinkage=0.5)], ids=str)
def test_the_rank_is_the_smallest_within_one_standard_error_of_the_best(method, seed):
    choice = chosen(planted(3, seed, noise=1.0)[1], method, seed=seed)
    least = min(range(len(choice.scores)), key=lambda k: choice.scores[k])
    limit = choice.scores[least] + choice.deviations[least]
    assert choice.best == min(r for r, s in zip(choice.settings, choice.scores, strict=True) if s <= limit)
    assert choice.settings.tolist() == list(range(1, len(choice.scores) + 1))


def test_some_rank_below_the_best_is_taken_when_it_is_as_good():
    choices = [chosen(planted(3, seed, noise=3.0, density=0.3)[1], "eglrl") for seed in range(6)]
    assert any(choice.best < choice.settings[np.argmin(choice.scores)] for choice in choices)


def test_the_path_ends_when_five_steps_bring_nothing():
    choice = chosen(planted(3, noise=1.0)[1])
    assert len(choice.scores) < 40
    assert len(choice.scores) - 1 - int(np.argmin(choice.scores)) == PATIENCE == 5
    short = chosen(planted(6)[1], longest=3)
    assert short.settings.tolist() == [1, 2, 3]


@pytest.mark.parametrize("seed", [0, 5])
def test_the_scores_are_those_of_the_models_on_a_twentieth_of_the_entries(seed):
    seen = planted(3, noise=1.0)[1]
    choice = chosen(seen, seed=seed)
    train, held_out = split_entries(seen, 0.05, seed)
    model = solve(square(train), "glrl", rank=len(choice.scores), random_state=seed).model
    for k, score, deviation in zip(choice.settings, choice.scores, choice.deviations, strict=True):
        losses = 0.5 * (held_out.targets - model.at(held_out.rows, held_out.cols, int(k))) ** 2
        assert score == pytest.approx(losses.mean(), rel=1e-5)
        assert deviation == pytest.approx(np.std(losses) / np.sqrt(losses.size), rel=1e-5)


def ridged(seen, ridges=(64.0, 8.0, 1.0, 0.125), seed=0, rank=6):
    method = lambda ridge: FactorSweeps(ridge=ridge)  # noqa: E731
    return choose_ridge(seen, square, method, ridges=ridges, rank=rank, loss=Square(), random_state=seed)


@pytest.mark.parametrize("seed", [0, 4])
def test_the_ridge_is_the_best_of_its_path_scored_on_held_out_entries(seed):
    seen = planted(2, noise=1.0, density=0.3)[1]
    choice = ridged(seen, seed=seed)
    assert choice.best == choice.settings[np.argmin(choice.scores)] and isinstance(choice.best, float)
    train, held_out = split_entries(seen, 0.05, seed)
    for ridge, score, deviation in zip(choice.settings, choice.scores, choice.deviations, strict=True):
        model = solve(square(train), FactorSweeps(ridge=float(ridge)), rank=6, random_state=seed).model
        losses = 0.5 * (held_out.targets - model.at(held_out.rows, held_out.cols)) ** 2
        assert score == pytest.approx(losses.mean(), rel=1e-5)
        assert deviation == pytest.approx(losses.std() / np.sqrt(losses.size), rel=1e-5)


def test_the_ridges_are_tried_until_the_score_rises():
    seen = planted(2, noise=1.0, density=0.3)[1]
    choice = ridged(seen)
    assert choice.settings.tolist() == [64.0, 8.0, 1.0, 0.125][: len(choice.settings)]
    assert np.all(np.diff(choice.scores)[:-1] <= 0) and choice.scores[-1] > choice.scores[-2]
    assert ridged(seen, ridges=(8.0,)).settings.tolist() == [8.0]
    assert ridged(seen, ridges=(8.0, 1e-3, 1e-4)).settings.tolist() == [8.0, 1e-3]


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_ridges_that_leave_no_factor_are_passed_over(seed):
    """There the scores hardly differ, and one may be a little above the one before."""
    rng, seen = np.random.default_rng(seed), planted(2, seed, noise=0.1)[1]
    rows, cols = (rng.normal(size=size) for size in seen.shape)
    targets = seen.targets + rows[seen.rows] + cols[seen.cols]
    entries = Observations.from_coo(seen.rows, seen.cols, targets, seen.shape)
    choice = MatrixCompletion("l1", 2, method="factors", max_iter=5).fit(entries).path_
    assert choice.best <= 8 and choice.scores.min() < 0.5 * choice.scores[0]


@pytest.mark.parametrize("unit", [2.0**-10, 2.0**10])
@pytest.mark.parametrize("loss", ["square", "huber", "l1"])
def test_an_automatic_ridge_has_the_unit_of_the_targets(loss, unit):
    seen = planted(2, noise=0.3, level=1.0)[1]
    found = []
    for c in (1.0, unit):
        entries = Observations.from_coo(seen.rows, seen.cols, c * seen.targets, seen.shape)
        own = Huber(c) if loss == "huber" else loss
        fitted = MatrixCompletion(own, 2, method="factors", dtype="float64", max_iter=5).fit(entries)
        found.append((fitted.path_.best / (1.0 if loss == "l1" else c), fitted.reconstruct() / c))
    assert found[0][0] == found[1][0]
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-6)


def test_a_choice_is_ready_for_a_data_frame():
    choice = chosen(planted(2)[1], longest=4)
    table = choice.to_dict()
    assert list(table) == ["settings", "scores", "deviations"]
    assert table["settings"] == choice.settings.tolist() and table["scores"] == choice.scores.tolist()
    assert all(type(value) in (int, float) for column in table.values() for value in column)


def squares(**settings):
    return MatrixCompletion("square", **settings)


def same(one, two):
    """Whether two estimators learned the same model, to the bit."""
    parts = [
        (est.model_.path, est.model_.U, est.model_.V, *(() if est.offsets_ is None else (est.offsets_.to_dense(),)))
        for est in (one, two)
    ]
    return len(parts[0]) == len(parts[1]) and all(map(np.array_equal, *parts))


@pytest.mark.parametrize("method", ["eglrl", "glrl-none", "glrl"])
def test_an_automatic_rank_is_refitted_on_everything(method):
    seen, settings = planted(3)[1], {"method": method, "offsets": "none"}
    auto = squares(rank="auto", random_state=2, **settings).fit(seen)
    assert auto.model_.rank == auto.path_.best
    assert same(auto, squares(rank=auto.path_.best, random_state=2, **settings).fit(seen))
    longest = min(100, *seen.shape)
    choice = choose_rank(seen, square, method, longest=longest, loss=Square(), random_state=2)
    assert choice.to_dict() == auto.path_.to_dict()


def test_the_robust_estimator_chooses_its_rank_too():
    seen = planted(2)[1]
    auto = RobustFactorization(rank="auto", method="glrl-nonsmooth").fit(seen)
    assert auto.path_.best <= max(auto.path_.settings) and auto.model_.rank <= auto.path_.best + 5
    losses = RobustFactorization(rank=3, method="glrl-nonsmooth", offsets="both", ridge=0.1).fit(seen)
    assert losses.offsets_.rows.any()
    with pytest.raises(SettingError, match="`rank` must be a positive integer or 'auto'"):
        RobustFactorization(rank="best").fit(seen)


def test_an_automatic_rank_knows_the_offsets_and_the_ridge():
    seen = planted(3, level=5.0)[1]
    auto = squares(method="eglrl", offsets="global", ridge=0.5).fit(seen)
    assert auto.offsets_.constant == pytest.approx(seen.targets.mean(), rel=1e-5)
    assert 2 <= auto.path_.best <= 8


@pytest.mark.parametrize("given", [None, "auto"])
def test_an_automatic_ridge_is_refitted_on_everything(given):
    seen = planted(3, noise=1.0)[1]
    auto = squares(method="factors", rank=4, ridge=given).fit(seen)
    settings, ridges = auto.path_.settings, seen.targets.std() * np.array(RIDGES)
    assert auto.path_.best in settings
    np.testing.assert_allclose(settings, ridges[: settings.size], rtol=1e-12)
    assert list(RIDGES) == sorted(RIDGES, reverse=True)
    assert same(auto, squares(method="factors", rank=4, ridge=auto.path_.best).fit(seen))


def test_the_default_is_the_learned_refinement_from_its_cap_down_to_the_planted_rank():
    seen = planted(3)[1]
    default = squares().fit(seen)
    ranks = default.history_.column("rank").tolist()
    assert (ranks[0], ranks[-1]) == (MAX_FACTORS, 3) and ranks == sorted(ranks, reverse=True)
    assert same(default, squares(method="bayes").fit(seen))
    by_hand = solve(Problem(seen, "square"), BayesSweeps(least_effect=0.1), rank=MAX_FACTORS).model
    assert np.array_equal(by_hand.to_dense(), default.model_.to_dense())
    assert default.theta_.size == default.model_.rank and default.n_features_in_ == seen.shape[1]
    assert default.U_.shape == (seen.shape[0], default.theta_.size)
    assert default.offsets_ is default.model_.offsets and default.offsets_.rows.any() and default.offsets_.cols.any()


@pytest.mark.parametrize(
    ("settings", "solver"),
    [
        ({"offsets": "columns"}, BayesSweeps("columns")),
        ({"method": BayesSweeps(pattern_prior=False)}, BayesSweeps(pattern_prior=False)),
        ({"method": BayesSweeps(block=2)}, BayesSweeps(block=2)),
    ],
    ids=str,
)
def test_settings_of_bayes_reach_the_solver(settings, solver):
    seen = planted(3, level=3.0)[1]
    found = squares(rank=4, max_iter=3, **settings).fit(seen)
    by_hand = solve(Problem(seen, "square"), solver, rank=4, max_iter=3).model
    assert np.array_equal(by_hand.to_dense(), found.model_.to_dense())
    assert not same(found, squares(rank=4, max_iter=3).fit(seen))


def test_settings_of_the_factor_sweeps_reach_them():
    seen = planted(3, level=3.0)[1]
    found = squares(method=FactorSweeps("rows", 3, ridge=1.5), max_iter=4).fit(seen)
    by_hand = solve(Problem(seen, "square"), FactorSweeps("rows", 3, ridge=1.5), rank=16, max_iter=4).model
    assert np.array_equal(by_hand.to_dense(), found.model_.to_dense())
    assert found.history_.column("rank").tolist() == [3, 6, 9, 12]
    named = squares(method="factors", ridge=1.5, offsets="rows", rank=5).fit(seen)
    assert same(named, squares(method=FactorSweeps("rows", ridge=1.5), rank=5).fit(seen))


def test_a_pursuit_starts_from_offsets_that_it_leaves_alone():
    seen = planted(3, level=3.0)[1]
    plain = squares(method="eglrl", rank=2, offsets="none").fit(seen)
    assert plain.offsets_ is None
    pursuit = GreedyPursuit("economic", shrinkage=0.5)
    found = squares(method=pursuit, rank=2, offsets="both", ridge=0.2).fit(seen)
    offsets = fit_offsets(Problem(seen, "square"))
    assert np.array_equal(found.offsets_.to_dense(), offsets.to_dense())
    objective = Ridged(Problem(seen, "square", offsets=offsets), 0.2)
    by_hand = solve(objective, pursuit, rank=2).model
    assert np.array_equal(by_hand.to_dense(), found.model_.to_dense())


def test_signs_are_learned_by_the_logistic_loss_and_all_else_by_hubers():
    rng = np.random.default_rng(0)
    signs = make_observations(Logistic(), rng, (20, 15), 0.5)
    ones = Observations.from_coo(signs.rows, signs.cols, np.ones(signs.n_observed), signs.shape)
    numbers = make_observations(Square(), rng, (20, 15), 0.5)
    some = Observations.from_coo(signs.rows, signs.cols, np.r_[signs.targets[:-1], 2.0], signs.shape)
    zeros = Observations.from_coo(signs.rows, signs.cols, np.r_[signs.targets[:-1], 0.0], signs.shape)
    kinds = [(signs, "logistic"), (ones, "square")]  # all alike: no spread, so no place to turn linear
    kinds += [(seen, Huber(1.345 * float(np.std(seen.targets)))) for seen in (numbers, some, zeros)]
    for seen, loss in kinds:
        plain = "logistic" if loss == "logistic" else "square"  # for the paper's pursuits
        for settings, wanted in (({"max_iter": 2}, loss), ({"method": "glrl-none"}, plain)):
            auto = MatrixCompletion(rank=2, **settings).fit(seen)
            assert same(auto, MatrixCompletion(wanted, rank=2, **settings).fit(seen))
            assert auto.model_.link == ("logit" if loss == "logistic" else "identity")
    minus = Observations.from_coo(signs.rows, signs.cols, -np.ones(signs.n_observed), signs.shape)
    assert MatrixCompletion(rank=1, method="glrl-none").fit(minus).model_.link == "logit"


REFUSED = [
    ({"ridge": 1.0}, '`ridge` must be None with method="bayes", which estimates it, got 1.0'),
    ({"ridge": "auto"}, '`ridge` must be None with method="bayes"'),
    ({"method": BayesSweeps(), "ridge": 1.0}, '`ridge` must be None with method="bayes"'),
    ({"method": FactorSweeps(), "ridge": 1.0}, "`ridge` must be None or 'auto' if `method` is a solver that has"),
    ({"method": "altmin"}, "`rank` must be an integer with method='altmin'"),
    ({"method": "no-such"}, "no-such"),
    ({"method": "eglrl", "ridge": "auto"}, "`ridge` must be a number of at least zero"),
    ({"method": "eglrl", "ridge": -1.0}, "`ridge` must be a number of at least zero"),
    ({"method": "eglrl", "ridge": np.inf}, "`ridge` must be a number of at least zero"),
    ({"method": "eglrl", "offsets": "all"}, "`offsets` must be one of"),
    ({"method": "eglrl", "rank": "best"}, "`rank` must be a positive integer or 'auto'"),
    ({"rank": "best"}, "`rank` must be a positive integer"),
    ({"rank": 0}, "`rank` must be a positive integer"),
    ({"offsets": "all"}, "`offsets` must be one of"),
    ({"method": "factors", "ridge": -1.0}, "`ridge` must be a number of at least zero"),
    ({"method": "factors", "ridge": "some"}, "`ridge` must be a number of at least zero"),
    ({"method": None}, "The 'method' parameter of MatrixCompletion must be"),
    ({"max_iter": 1.5}, "The 'max_iter' parameter of MatrixCompletion must be"),
]


@pytest.mark.parametrize("settings, sentence", REFUSED, ids=str)
def test_settings_that_contradict_each_other_are_refused_in_one_sentence(settings, sentence):
    with pytest.raises(SettingError, match=sentence) as caught:
        MatrixCompletion(**settings).fit(planted(2)[1])
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


def test_a_pursuit_with_refitted_coefficients_refuses_a_loss_with_corners():
    with pytest.raises(LossError, match="smooth"):
        MatrixCompletion(Absolute(), method="eglrl", rank=2).fit(planted(2)[1])


def test_an_automatic_rank_of_entries_that_are_all_zero_is_zero():
    found = MatrixCompletion("square", method="eglrl").fit(np.zeros((10, 8)))
    assert not found.model_.to_dense().any()


@pytest.mark.parametrize(
    "shape, n, most", [((40, 30), 40, 7), ((30, 40), 320, 7), ((40, 30), 360, 15), ((30, 40), 1200, 31)]
)
def test_the_default_has_about_as_many_factors_as_the_longer_side_has_entries(shape, n, most):
    rng = np.random.default_rng(0)
    at = rng.choice(shape[0] * shape[1], n, replace=False)
    seen = Observations.from_coo(at // shape[1], at % shape[1], rng.normal(size=n), shape)
    found = squares(max_iter=1).fit(seen)
    assert found.history_.column("rank").tolist() == [min(most, *shape)]
    assert n / max(shape) <= most + 1 or most == MAX_FACTORS
    assert found.set_params(warm_start=True).fit(seen).history_[-1].rank <= min(most, *shape)


def test_a_rank_that_is_given_is_kept():
    assert squares(rank=9).fit(planted(3)[1]).history_.column("rank").tolist() == [9] * 10


def test_going_on_with_few_entries_keeps_the_factors_that_there_are():
    seen = planted(10, density=1.0)[1]
    known = squares(warm_start=True, offsets="none").fit(seen.take(seen.rows < 80))
    assert known.history_[-1].rank == 10
    assert known.fit(seen.take(np.arange(seen.n_observed) % 10 == 0)).history_[0].rank == 10  # for 7 if it were new
