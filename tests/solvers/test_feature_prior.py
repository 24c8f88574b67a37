"""Laws of priors on rows that are regressions on features."""

import numpy as np
import pytest
import scipy.sparse as sp
from clusters import on_cluster, tiny_shards, workers
from feature_cases import held_out_error, planted_features

from rankwise import DataError, Features, Problem, ShardFolder, load, solve, write_shards
from rankwise.objectives.sides import Side
from rankwise.solvers import BayesSweeps, Checkpoint, FactorSweeps, feature_prior
from rankwise.solvers.feature_prior import FeaturePrior, JointPrior, side_priors

SWEEPS = pytest.mark.parametrize("solver", [BayesSweeps(), FactorSweeps(ridge=0.3)], ids=["bayes", "factors"])


def a_side(features, width=4, variance=0.0, seed=0):
    """A side whose rows are random, with prior means of zero."""
    rng, n = np.random.default_rng(seed), features.shape[0]
    side = Side.empty(None, n, True, np.float64, features)
    side.means, side.prior_means = rng.standard_normal((n, width)), np.zeros((n, width))
    side.variances, side.precisions = np.full((n, width), variance), np.ones(width)
    return side


def some_features(n=50, p=6, sparse=False, seed=1):
    matrix = np.random.default_rng(seed).standard_normal((n, p))
    return Features(sp.csr_array(matrix) if sparse else matrix, np.arange(p) // 2)


def bits(model):
    return b"".join(part.tobytes() for part in (model.U, model.V, model.path, model.learned.rows.means))


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("most_dense", [0, 500], ids=["conjugate gradients", "exact"])
def test_weights_are_the_ridge_regression_of_the_rows_on_their_features(monkeypatch, sparse, most_dense):
    monkeypatch.setattr(feature_prior, "MOST_DENSE", most_dense)
    monkeypatch.setattr(FeaturePrior, "_learn_ridges", lambda *args: None)
    features = some_features(sparse=sparse)
    side = a_side(features)
    side.multipliers = np.linspace(0.5, 2.0, 50)
    prior = FeaturePrior.zero(side)
    prior.ridges = np.array([1.0, 3.0, 10.0])
    for _ in range(1 if most_dense else 8):
        prior.improve(side, side)
    F, c = some_features().matrix, side.multipliers[:, None]
    hessian = F.T @ (c * F) + np.diag(prior.ridges[features.groups])
    wanted = np.linalg.solve(hessian, F.T @ (c * side.means))
    np.testing.assert_allclose(prior.weights, wanted, atol=1e-9)
    np.testing.assert_allclose(side.prior_means, F @ wanted, atol=1e-9)
    np.testing.assert_allclose(prior.row_means(side), side.prior_means, atol=1e-9)
    squares = prior.ridges[features.groups] @ wanted**2
    np.testing.assert_allclose(prior.penalty(side), squares)
    if most_dense:  # a posteriori, with the precisions at which the evidence is largest
        left = c[:, 0] @ (side.means - F @ wanted) ** 2 + squares
        variances = np.outer(np.diag(np.linalg.inv(hessian)), left / 50)
        np.testing.assert_allclose(prior.deviations**2, variances, rtol=1e-9)


def test_the_weights_are_settled_where_the_gradient_is_zero_whatever_the_variances(monkeypatch):
    monkeypatch.setattr(FeaturePrior, "_learn_ridges", lambda *args: None)
    side = a_side(some_features(), variance=0.4)
    prior = FeaturePrior.zero(side)
    for _ in range(60):  # Newton's steps with another Hessian, for rows that stay
        side.means[:] = 0.4 * side.prior_means + 0.6 * a_side(side.features).means  # as solves of rows would do
        prior.improve(side, side)
    F, w = side.features.matrix, 0.6
    wanted = np.linalg.solve(
        w * F.T @ F + np.diag(prior.ridges[side.features.groups]), w * F.T @ a_side(side.features).means
    )
    np.testing.assert_allclose(prior.weights, wanted, atol=1e-9)


@SWEEPS
def test_planted_features_are_found_with_the_right_groups(solver):
    data = planted_features()
    fits = [
        solve(Problem(data.seen, "square", features=given), solver, rank=3, max_iter=12).model
        for given in (None, data.features)
    ]
    without, with_features = (held_out_error(fit, data) for fit in fits)
    assert with_features < 0.9 * without
    prior = fits[1].learned.rows.prior
    category, number, useless = (
        prior.part("features").constants["ridges"] if prior.kind == "joint" else prior.constants["ridges"]
    )
    assert useless > 20 * max(category, number)


def test_rows_without_entries_are_at_their_regression():
    data = planted_features(cold=40)
    problem = Problem(data.seen, "square", features=data.features)
    model = solve(problem, BayesSweeps(), rank=3, max_iter=12).model
    errors = (model.to_dense() - data.truth)[:40]
    assert np.sqrt(np.mean(errors**2)) < 0.6 * np.std(data.truth[:40])
    spread = model.posterior.variance_at(np.arange(41), np.zeros(41, int))
    assert spread[:40].min() > spread[40:].max()  # and they are less certain


@pytest.mark.parametrize("most_dense", [0, 500], ids=["conjugate gradients", "exact"])
def test_rows_without_entries_follow_the_regression_that_counts_entries(monkeypatch, most_dense):
    monkeypatch.setattr(feature_prior, "MOST_DENSE", most_dense)
    side, counts = a_side(some_features()), np.arange(50) // 5
    means, prior = side.means.copy(), FeaturePrior.zero(side)
    assert prior.place_cold(side, counts.astype(float))
    F = np.hstack((side.features.matrix, np.ones((50, 1))))
    w, ridges = counts[:, None] / counts[5:].mean(), np.append(prior.ridges[side.features.groups], 1e-6)
    wanted = np.linalg.solve(F.T @ (w * F) + np.diag(ridges), F.T @ (w * means))
    np.testing.assert_allclose(side.means[:5], (F @ wanted)[:5], atol=1e-7)
    np.testing.assert_array_equal(side.means[5:], means[5:])


def test_an_identity_as_features_changes_nothing_but_the_ridge():
    data = planted_features(density=0.3)
    identity = {"rows": Features(sp.eye_array(300), np.zeros(300, int))}
    fits = [
        solve(Problem(data.seen, "square", features=given), BayesSweeps(pattern_prior=False), rank=3, max_iter=20).model
        for given in (None, identity)
    ]
    plain, same = (held_out_error(fit, data) for fit in fits)
    assert abs(same / plain - 1) < 0.02


def test_features_of_noise_cost_nothing():
    data = planted_features(density=0.3)
    noise = np.random.default_rng(5).standard_normal((300, 8))
    for matrix in (noise, sp.csr_array(noise * (np.abs(noise) > 1))):
        fits = [
            solve(Problem(data.seen, "square", features=given), BayesSweeps(), rank=3, max_iter=12).model
            for given in (None, {"rows": Features(matrix)})
        ]
        plain, noisy = (held_out_error(fit, data) for fit in fits)
        assert noisy < 1.01 * plain


@SWEEPS
@pytest.mark.usefixtures("small_shards")
def test_threads_and_shards_on_disk_change_no_bit(solver, tmp_path):
    data = planted_features(shape=(700, 600), density=0.35)
    seen = data.seen
    write_shards([(seen.rows, seen.cols, seen.targets)], tmp_path / "shards", shape=seen.shape)
    given = (data.seen, 1), (data.seen, 2), (ShardFolder(tmp_path / "shards"), 2)
    fits = {
        bits(solve(Problem(seen, "square", n_jobs=n, features=data.features), solver, rank=3, max_iter=3).model)
        for seen, n in given
    }
    assert len(fits) == 1


@pytest.mark.slow
@SWEEPS
def test_a_cluster_changes_no_bit(solver, monkeypatch):
    tiny_shards(monkeypatch)
    data = planted_features()
    with workers(2) as client:
        fits = {
            bits(solve(Problem(seen, "square", features=data.features), solver, rank=3, max_iter=3).model)
            for seen in (data.seen, on_cluster(client, data.seen))
        }
    assert len(fits) == 1


@SWEEPS
def test_a_resumed_fit_has_the_bits_of_one_that_was_not_stopped(solver, tmp_path):
    data = planted_features()
    whole = solve(Problem(data.seen, "square", features=data.features), solver, rank=3, max_iter=6).model
    folder = Checkpoint(tmp_path / "steps", every=1)
    solve(Problem(data.seen, "square", features=data.features), solver, rank=3, max_iter=3, checkpoint=folder)
    again = Checkpoint(tmp_path / "steps", every=1, resume=True)
    resumed = solve(Problem(data.seen, "square", features=data.features), solver, rank=3, max_iter=6, checkpoint=again)
    assert bits(resumed.model) == bits(whole)


@SWEEPS
def test_a_warm_start_goes_on_from_the_weights(solver):
    data = planted_features()
    problem = Problem(data.seen, "square", features=data.features)
    first = solve(problem, solver, rank=3, max_iter=12)
    second = solve(problem, solver, rank=3, max_iter=2, start=first.model)
    assert second.history[-1].value <= first.history[-1].value + 1e-3 * abs(first.history[-1].value)
    plain = solve(Problem(data.seen, "square"), solver, rank=3, max_iter=6).model
    started = solve(problem, solver, rank=3, max_iter=6, start=plain).model  # from a model that has no features
    assert held_out_error(started, data) < 0.95 * held_out_error(plain, data)


@SWEEPS
def test_files_keep_the_weights(solver, tmp_path):
    data = planted_features()
    model = solve(Problem(data.seen, "square", features=data.features), solver, rank=3, max_iter=4).model
    model.save(tmp_path / "m.rankwise")
    again = load(tmp_path / "m.rankwise")
    before, after = (fit.learned.rows.prior for fit in (model, again))
    assert before.kind == after.kind and before.arrays.keys() == after.arrays.keys()
    for name, array in {**before.arrays, **before.constants}.items():
        np.testing.assert_array_equal(array, {**after.arrays, **after.constants}[name])


def test_sides_without_features_and_patterns_have_no_priors():
    data = planted_features()
    assert side_priors([(a_side(data.features["rows"]), None)])[0].kind == "features"
    bare = a_side(data.features["rows"])
    bare.features = None
    assert side_priors([(bare, None), (bare, None)]) == []
    mixed = side_priors([(a_side(data.features["rows"]), None), (bare, None)])
    assert isinstance(mixed[1], JointPrior) and not mixed[1].penalty(bare).any()


def test_features_that_do_not_fit_are_refused():
    data = planted_features()
    with pytest.raises(DataError, match="of all 300 rows"):
        Problem(data.seen, "square", features={"rows": Features(np.ones((3, 2)))})
    with pytest.raises(DataError, match="must be finite"):
        Features([[np.nan]])
    with pytest.raises(DataError, match="two dimensions"):
        Features([1.0])
    with pytest.raises(DataError, match="one for each feature"):
        Features([[1.0, 2.0]], groups=[0])
