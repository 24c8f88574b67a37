"""Inexact Wiberg steps: against linear programs, finite differences, the gauge, and data that are hard to fit."""

import numpy as np
import pytest
from helpers import make_observations, outliers
from reference import Dense

from rankwise import Observations, Problem, SettingError, solve
from rankwise.engines import Offsets
from rankwise.losses import Absolute
from rankwise.solvers import Wiberg, wiberg
from rankwise.solvers.wiberg_inexact import (
    FlatEntries,
    InexactState,
    Linearization,
    balanced,
    conjugate_gradients,
    eliminate,
)

every_weighting = pytest.mark.parametrize("weights", [False, True], ids=["plain", "weighted"])
INEXACT = Wiberg("inexact", max_iter=300)


def make_entries(weights=False, density=0.7, shape=(14, 10), seed=0):
    observations = make_observations(Absolute(), np.random.default_rng(seed), shape, density, weights)
    f = Dense(observations, Absolute())
    pattern = observations.indptr.astype(np.int32), observations.indices.astype(np.int32)
    return FlatEntries(shape, *pattern, f.targets, f.weights), f, observations


@every_weighting
def test_sums_over_entries_are_those_of_the_dense_matrix(weights):
    entries, f, _ = make_entries(weights)
    rng = np.random.default_rng(1)
    left, right, values = rng.normal(size=(14, 3)), rng.normal(size=(10, 3)), rng.normal(size=f.rows.size)
    dense = np.zeros((14, 10))
    dense[f.rows, f.cols] = values
    np.testing.assert_allclose(entries.at(left, right), (left @ right.T)[f.rows, f.cols])
    np.testing.assert_allclose(entries.over_rows(values, right), dense @ right, atol=1e-12)
    np.testing.assert_allclose(entries.over_cols(values, left), dense.T @ left, atol=1e-12)


@every_weighting
@pytest.mark.parametrize("rank", [1, 2])
def test_the_linearization_is_the_derivative_of_the_fit_whose_columns_a_linear_program_solves(weights, rank):
    """By central differences of the eliminated l1 fit, the smoothing being near zero."""
    entries, f, _ = make_entries(weights)
    U, D = np.random.default_rng(3).normal(size=(2, 14, rank))

    def predictions(t):
        V, _ = wiberg.best_columns(U + t * D, f.rows, f.cols, f.targets, f.weights, 10)
        return entries.at(U + t * D, V)

    V, _ = wiberg.best_columns(U, f.rows, f.cols, f.targets, f.weights, 10)
    smoothed = entries.reweighted(entries.residual(U, V), 1e-7)
    change = Linearization(entries, U, V, smoothed, 0.0).change(D)
    np.testing.assert_allclose(change, (predictions(1e-6) - predictions(-1e-6)) / 2e-6, atol=1e-3)


@every_weighting
@pytest.mark.parametrize("density", [0.9, 0.3])
def test_changes_within_the_span_of_the_factor_change_no_prediction(weights, density):
    entries, f, _ = make_entries(weights, density)
    rng = np.random.default_rng(4)
    U, V, R = rng.normal(size=(14, 3)), rng.normal(size=(10, 3)), rng.normal(size=(3, 3))
    point = Linearization(entries, U, V, rng.uniform(0.1, 10, f.rows.size), 0.0)
    np.testing.assert_allclose(point.change(U @ R), 0, atol=1e-4)  # columns shorter than the rank lose digits
    assert np.abs(point.change(rng.normal(size=U.shape))).max() > 0.1


@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_the_normal_equations_are_symmetric_and_solved(ridge):
    entries, f, _ = make_entries()
    rng = np.random.default_rng(5)
    U, V, A, B = rng.normal(size=(14, 2)), rng.normal(size=(10, 2)), *rng.normal(size=(2, 14, 2))
    point = Linearization(entries, U, V, rng.uniform(0.1, 10, f.rows.size), ridge)
    assert np.vdot(A, point.normal(B)) == pytest.approx(np.vdot(B, point.normal(A)))
    assert np.vdot(A, point.normal(A)) > 0
    x = conjugate_gradients(lambda x: point.normal(x) + x, A, lambda x: x, 200)
    assert np.linalg.norm(point.normal(x) + x - A) <= 0.02 * np.linalg.norm(A)


@every_weighting
@pytest.mark.parametrize("rank", [1, 3])
def test_eliminated_columns_approach_those_of_the_linear_program(weights, rank):
    """At rank 1 these are weighted medians; some columns are shorter than the rank."""
    entries, f, _ = make_entries(weights, density=0.35)
    U = np.random.default_rng(2).normal(size=(14, rank))
    V = eliminate(entries, U, np.zeros((10, rank)), 0.0, 1e-4, 500)
    _, least = wiberg.best_columns(U, f.rows, f.cols, f.targets, f.weights, 10)
    assert least * (1 - 1e-9) <= f.value(U @ V.T) <= 1.001 * least + 1e-2


def test_balanced_factors_have_the_same_product_and_the_least_norm():
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(9, 3)), 5 * rng.normal(size=(7, 3))
    left, right = balanced(U, V)
    np.testing.assert_allclose(left @ right.T, U @ V.T)
    least = np.linalg.norm(U @ V.T, "nuc")
    assert 0.5 * (np.vdot(left, left) + np.vdot(right, right)) == pytest.approx(least)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rank", [2, 3])
def test_the_value_is_within_half_a_percent_of_the_linear_programs(seed, rank):
    """On planted matrices with gross outliers, where both reach the same minimum."""
    _, observations = outliers((40, 30), rank=rank, density=0.8, seed=seed)
    values = [
        solve(Problem(observations, "l1", dtype=np.float64), Wiberg(program), rank=rank, tol=1e-6).history[-1].value
        for program in ("exact", "inexact")
    ]
    assert values[1] <= 1.005 * values[0]


@every_weighting
@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("density", [0.9, 0.2])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_the_value_never_rises_and_is_that_of_the_model(weights, rank, density, ridge):
    """At a density of 0.2, rows are empty or shorter than the rank."""
    _, f, observations = make_entries(weights, density)
    result = solve(Problem(observations, "l1", dtype=np.float64), Wiberg("inexact", ridge), rank=rank, tol=0.0)
    values, X = result.history.column("value"), result.model.to_dense()
    assert np.all(np.diff(values) <= 0) and np.isfinite(X).all()
    penalty = ridge * np.linalg.norm(X, "nuc")
    assert values[-1] == pytest.approx(f.value(X) + penalty, rel=1e-7, abs=1e-7)


def test_targets_of_zero_and_exact_fits_end_the_run():
    zero = Observations.from_dense(np.zeros((5, 4)))
    assert not solve(Problem(zero, "l1"), INEXACT, rank=2).model.to_dense().any()
    rng = np.random.default_rng(0)
    exact = rng.normal(size=(12, 2)) @ rng.normal(size=(2, 10))
    exact[3] = 0.0
    result = solve(Problem(Observations.from_dense(exact), "l1", dtype=np.float64), INEXACT, rank=2, tol=0.0)
    np.testing.assert_allclose(result.model.to_dense(), exact, atol=1e-6)


def test_offsets_are_subtracted_from_the_targets():
    rng = np.random.default_rng(2)
    targets = rng.integers(-4, 5, size=(8, 6)).astype(float)
    offsets = Offsets(2.0, rng.integers(-3, 4, 8).astype(float), np.arange(6.0))
    shifted = Problem(Observations.from_dense(targets + offsets.to_dense()), "l1", offsets=offsets, dtype=np.float64)
    wanted = solve(Problem(Observations.from_dense(targets), "l1", dtype=np.float64), INEXACT, rank=2, max_iter=5)
    found = solve(shifted, INEXACT, rank=2, max_iter=5)
    np.testing.assert_array_equal(found.model.to_dense(), wanted.model.to_dense() + offsets.to_dense())


def test_auto_is_exact_where_a_linear_program_is_short_and_there_is_no_ridge():
    small, large = (
        Problem(make_observations(Absolute(), np.random.default_rng(0), shape, 0.5), "l1")
        for shape in ((14, 10), (300, 200))
    )
    assert isinstance(Wiberg().init(small, 2), wiberg.WibergState)
    assert isinstance(Wiberg(ridge=0.1).init(small, 2), wiberg.InexactState)
    assert isinstance(Wiberg().init(large, 5), wiberg.InexactState)


def test_settings_that_do_not_exist_are_refused_by_name():
    with pytest.raises(SettingError, match=r"`program` must be .*got 'simplex'"):
        Wiberg("simplex")
    with pytest.raises(SettingError, match="`ridge` must be a number of at least zero"):
        Wiberg(ridge=-1.0)
    with pytest.raises(SettingError, match='`ridge` must be 0 with program="exact"'):
        Wiberg("exact", ridge=1.0)
    problem = Problem(make_observations(Absolute(), np.random.default_rng(0)), "l1")
    with pytest.raises(SettingError, match=r"Wiberg requires about .* use method="):
        solve(problem, Wiberg("inexact", memory_limit=100), rank=2)


def test_a_run_that_stalls_does_not_claim_convergence(monkeypatch):
    monkeypatch.setattr(InexactState, "accept", lambda *_: False)  # as if no step lowered the value
    _, _, observations = make_entries()
    status = solve(Problem(observations, Absolute()), INEXACT, rank=2).status
    assert status.reason == "no-descent" and "No step lowers the value at the final smoothing" in str(status)
