"""`RobustFactorization`: which losses, which solver, and nothing of its own on top."""

import numpy as np
import pytest
from helpers import make_observations
from sklearn.base import clone

import rankwise as rw
from rankwise import MatrixCompletion, Observations, Problem, Ridged, RobustFactorization, losses
from rankwise._errors import NotFittedError
from rankwise.losses import Absolute, EpsilonInsensitive, Huber, Quantile
from rankwise.solvers import BayesSweeps, GreedyPursuit, NonsmoothPursuit, fit_offsets, solve

NONSMOOTH = ["l1", "quantile", "epsilon-insensitive", Absolute(), Quantile(0.9), EpsilonInsensitive(0.5)]
ROBUST = [*NONSMOOTH, "huber", Huber(0.3)]


@pytest.fixture(scope="module")
def observations():
    return make_observations(Absolute(), np.random.default_rng(1), (30, 20))


def with_level(observations, loss, **options):
    """The problem that a pursuit of an estimator solves: with the best constant as its level."""
    problem = Problem(observations, loss, **options)
    problem.fix_offsets(fit_offsets(problem, "global"))
    return problem


def pursuit(loss):
    """The paper's method for a loss."""
    return "eglrl" if losses.get(loss).smooth else "glrl-nonsmooth"


def bits(model):
    return [part.tobytes() for part in (model.path, model.U, model.V)]


@pytest.mark.parametrize("loss", ROBUST, ids=repr)
@pytest.mark.parametrize("ridge", [0.0, 0.4])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_fit_is_the_solver_s_run_bit_for_bit(loss, ridge, dtype, observations):
    method = pursuit(loss)
    fit = RobustFactorization(loss, rank=5, method=method, ridge=ridge, dtype=dtype, random_state=3).fit(observations)
    problem = with_level(observations, loss, dtype=dtype)
    solver = GreedyPursuit("economic") if problem.smooth else NonsmoothPursuit()
    run = solve(Ridged(problem, ridge) if ridge else problem, solver, rank=5, random_state=3)
    assert bits(fit.model_) == bits(run.model) and fit.model_.chosen == run.model.chosen
    assert fit.history_.column("value").tolist() == run.history.column("value").tolist()
    assert str(fit.status_) == str(run.status) == "Reached rank 5."


@pytest.mark.parametrize(("limit", "reason"), [({"tol": 1e9}, "tol"), ({"time_limit": 1e-9}, "time")])
def test_a_fit_stops_where_it_is_told_to(limit, reason, observations):
    fit = RobustFactorization(rank=5, method="glrl-nonsmooth", n_jobs=1, **limit).fit(observations)
    assert fit.status_.reason.startswith(reason) and fit.n_iter_ < 5


@pytest.mark.parametrize("loss", NONSMOOTH, ids=repr)
@pytest.mark.parametrize(
    ("settings", "solver"),
    [
        ({"method": "glrl-none"}, GreedyPursuit("none")),
        ({"method": NonsmoothPursuit("paper")}, NonsmoothPursuit("paper")),
        ({"method": NonsmoothPursuit(shrinkage=0.3)}, NonsmoothPursuit(shrinkage=0.3)),
    ],
    ids=str,
)
def test_settings_reach_the_solver(loss, settings, solver, observations):
    fit = RobustFactorization(loss, rank=4, **settings).fit(observations)
    assert bits(fit.model_) == bits(solve(with_level(observations, loss), solver, rank=4).model)
    assert bits(fit.model_) != bits(RobustFactorization(loss, rank=4, method="glrl-nonsmooth").fit(observations).model_)


@pytest.mark.parametrize("loss", ["l1", "huber"])
def test_it_is_matrix_completion_that_adds_one_component_at_a_time(loss, observations):
    robust = RobustFactorization(loss, rank=4).fit(observations)
    general = MatrixCompletion(loss, rank=4, method=BayesSweeps(block=1, max_iter=15)).fit(observations)
    assert bits(robust.model_) == bits(general.model_) and robust.offsets_.rows.any() and robust.offsets_.cols.any()
    assert not RobustFactorization(loss, rank=4, offsets="rows").fit(observations).offsets_.cols.any()


def video(seed, n_frames=60, size=(16, 20), noise=0.01):
    """Frames x pixels in [0, 1], and the background: a picture under changing light; two boxes pass in front of it."""
    rng, (height, width) = np.random.default_rng(seed), size
    y, x = np.mgrid[:height, :width]
    picture = 0.4 + 0.2 * np.sin(x / 4) + 0.15 * np.cos(y / 3) + 0.1 * rng.standard_normal(size)
    t = np.linspace(0, 1, n_frames)
    light = np.outer(np.sin(2 * np.pi * t), picture + 0.3) + np.outer(np.cos(3 * np.pi * t), x / width)
    background = picture.ravel() + 0.05 * light
    frames = (background + noise * rng.standard_normal(background.shape)).reshape(n_frames, height, width)
    for top, speed, grey in ((1, 0.7, 0.95), (9, -0.4, 0.05)):
        for k in range(n_frames):
            left = int(speed * k) % width
            frames[k, top : top + 5, np.arange(left, left + 5) % width] = grey
    return frames.reshape(n_frames, -1), background


@pytest.mark.parametrize("seed", [0, 1])
def test_the_background_of_a_video_is_found_better_than_by_a_median_of_every_pixel(seed):
    frames, background = video(seed)

    def error(guess):
        return np.abs(guess - background).mean()

    found = error(RobustFactorization().fit(frames).reconstruct())
    assert found < 0.5 * error(np.median(frames, axis=0))
    assert found < 1.05 * error(MatrixCompletion("l1").fit(frames).reconstruct())


@pytest.mark.parametrize("loss", ["l1", "huber"])
@pytest.mark.parametrize("offsets", ["global", "rows", "columns", "both"])
def test_offsets_are_fitted_first_and_left_alone(loss, offsets, observations):
    fit = RobustFactorization(loss, rank=4, method=pursuit(loss), offsets=offsets).fit(observations)
    wanted = fit_offsets(Problem(observations, loss), offsets)
    assert np.array_equal(fit.offsets_.to_dense(), wanted.to_dense())
    problem = Problem(observations, loss, offsets=wanted)
    solver = GreedyPursuit("economic") if problem.smooth else NonsmoothPursuit()
    assert bits(fit.model_) == bits(solve(problem, solver, rank=4).model)
    assert (wanted.rows.any(), wanted.cols.any()) == (offsets in ("rows", "both"), offsets in ("columns", "both"))


@pytest.mark.parametrize("loss", ["l1", "huber"])
def test_rank_auto_is_chosen_on_held_out_entries(loss, observations):
    fit = RobustFactorization(loss, rank="auto", method=pursuit(loss)).fit(observations)
    best = RobustFactorization(loss, rank=fit.path_.best, method=pursuit(loss)).fit(observations)
    assert bits(fit.model_) == bits(best.model_)
    assert fit.path_.scores.size == fit.path_.settings.size and fit.path_.best in fit.path_.settings


@pytest.mark.parametrize(
    "loss", ["square", "logistic", "hinge", "squared-hinge", "smooth-hinge", "poisson", rw.losses.Square()], ids=repr
)
def test_losses_that_are_not_robust_are_refused_by_name(loss, observations):
    with pytest.raises(rw.LossError) as refusal:
        RobustFactorization(loss).fit(observations)
    sentence = str(refusal.value)
    assert repr(loss) in sentence and "MatrixCompletion" in sentence
    assert all(f'"{name}"' in sentence for name in ("l1", "huber", "quantile", "epsilon-insensitive"))


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ({"loss": "median"}, rw.LossError),
        ({"offsets": "sideways"}, rw.SettingError),
        ({"ridge": -1.0}, rw.SettingError),
        ({"rank": 0}, rw.SettingError),
        ({"method": "newton"}, rw.SettingError),
        ({"dtype": "float16"}, rw.SettingError),
        ({"random_state": "seed"}, rw.SettingError),
    ],
    ids=str,
)
@pytest.mark.parametrize("loss", ["l1", "huber"])
def test_bad_settings_are_refused_whatever_the_loss(loss, setting, error, observations):
    with pytest.raises(error, match=str(*setting.values())):
        RobustFactorization(**{"loss": loss, **setting}).fit(observations)


def test_it_is_a_scikit_learn_estimator(observations):
    settings = {"loss": Quantile(0.9), "rank": 4, "ridge": 0.1, "method": NonsmoothPursuit("paper"), "n_jobs": 1}
    estimator = RobustFactorization(**settings)
    assert settings.items() <= estimator.get_params().items()
    copy = clone(estimator.fit(observations))
    assert str(copy.get_params()) == str(estimator.get_params()) and not hasattr(copy, "model_")
    assert bits(copy.fit(observations).model_) == bits(estimator.model_)
    assert copy.set_params(rank=2).fit(observations).model_.longest == 2
    assert "Quantile(q=0.9)" in repr(copy)


@pytest.mark.parametrize("loss", ["l1", "huber"])
def test_what_is_stored_is_the_model(loss, observations):
    fit = RobustFactorization(loss, rank=6, method=pursuit(loss)).fit(observations)
    assert fit.fit(observations) is fit and fit.n_features_in_ == 20
    rank = fit.model_.rank
    assert fit.theta_.shape == (rank,) and fit.U_.shape == (30, rank) and fit.V_.shape == (20, rank)
    assert len(fit.history_) >= 3 and fit.history_[-1].rank == 6 == fit.model_.longest
    rows, cols = observations.rows, observations.cols
    predicted = fit.predict_entries(rows, cols)
    low_rank = ((fit.U_ * fit.theta_) @ fit.V_.T)[rows, cols]
    np.testing.assert_allclose(predicted, low_rank + fit.offsets_.at(rows, cols), rtol=1e-4, atol=1e-5)
    value = Problem(observations, loss).loss.value(predicted, observations.targets).sum()
    assert value == pytest.approx(fit.history_.column("value").min(), rel=1e-5)
    assert np.array_equal(fit.predict_entries(rows, cols, rank=2), fit.model_.predict_entries(rows, cols, rank=2))


def test_the_best_iterate_is_what_is_stored(observations):
    """Long steps overshoot: what follows the best iterate is on the path, not in the attributes."""
    method = NonsmoothPursuit("paper", step_scale=10.0)
    fit = RobustFactorization(rank=4, method=method, offsets="none").fit(observations)
    assert 0 < fit.theta_.size == fit.model_.rank < fit.model_.longest == 4


@pytest.mark.parametrize("loss", ["l1", "huber"])
def test_a_saved_model_predicts_the_same(loss, observations, tmp_path):
    fit = RobustFactorization(loss, rank=4).fit(observations)
    fit.save(tmp_path / "robust.npz")
    rows, cols = observations.rows, observations.cols
    assert np.array_equal(rw.load(tmp_path / "robust.npz").predict_entries(rows, cols), fit.predict_entries(rows, cols))


def test_before_a_fit_there_is_nothing_to_predict_or_save(tmp_path):
    for use in (lambda fit: fit.predict_entries([0], [0]), lambda fit: fit.save(tmp_path / "none.npz")):
        with pytest.raises(NotFittedError, match="RobustFactorization is not fitted yet"):
            use(RobustFactorization())


def test_every_kind_of_input_is_taken(observations):
    dense = np.full((30, 20), np.nan)
    dense[observations.rows, observations.cols] = observations.targets
    fits = [RobustFactorization(rank=3).fit(X) for X in (observations, dense, observations.to_sparse())]
    assert bits(fits[0].model_) == bits(fits[1].model_) == bits(fits[2].model_)


def test_labels_find_their_rows_and_columns():
    users, items = ["ann", "ann", "bob", "eve"], ["tea", "rye", "tea", "rye"]
    observations = Observations.from_labels(users, items, [1.0, 2.0, 3.0, 4.0])
    fit = RobustFactorization(rank=2).fit(observations)
    order = {"ann": 0, "bob": 1, "eve": 2}
    expected = fit.model_.to_dense()[[order[user] for user in users], [int(item == "tea") for item in items]]
    np.testing.assert_allclose(fit.predict_entries(users, items), expected, rtol=1e-6)
