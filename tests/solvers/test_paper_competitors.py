"""The methods the paper compares with, each against an independent answer."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array

import rankwise as rw
from rankwise import Observations, Problem, solve
from rankwise.solvers import ADMM, GECO, METHODS, AISImpute, AltMin, Wiberg, soft_impute
from rankwise.solvers.wiberg import l1_program

NAMES = ("ais-impute", "soft-impute", "altmin", "admm", "wiberg", "geco")


def planted(shape=(60, 40), rank=3, density=0.5, outliers=0.0, seed=0):
    """A low-rank matrix, and its observed entries, some of them grossly wrong."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(shape[0], rank)) @ rng.normal(size=(rank, shape[1]))
    wrong = np.where(rng.random(shape) < outliers, rng.choice([-10.0, 10.0], shape), 0.0)
    return truth, np.where(rng.random(shape) < density, truth + wrong, np.nan)


def dense_soft_impute(array, weight, n_iter=2000):
    """Accelerated proximal gradient on the formed matrix."""
    known = ~np.isnan(array)
    X = Y = np.zeros(array.shape)
    momentum = 1.0
    for _ in range(n_iter):
        left, values, right = np.linalg.svd(np.where(known, array, Y), full_matrices=False)
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        new = (left * np.maximum(values - weight, 0)) @ right
        X, Y, momentum = new, new + (momentum - 1) / following * (new - X), following
    return X, 0.5 * np.sum((X - array)[known] ** 2) + weight * np.linalg.norm(X, "nuc")


def error(model, truth):
    return np.linalg.norm(model.to_dense() - truth) / np.linalg.norm(truth)


@pytest.mark.parametrize("weight", [5.0, 1.0])
def test_nuclear_norm_solvers_reach_the_dense_optimum_and_momentum_saves_steps(weight):
    _, array = planted()
    X, least = dense_soft_impute(array, weight)
    problem = Problem(array, "square", dtype="float64")
    solvers = AISImpute(weight, continuation=0.0), soft_impute(weight)
    runs = [solve(problem, solver, tol=1e-13, max_iter=5000) for solver in solvers]
    for run in runs:
        assert run.history[-1].value == pytest.approx(least, rel=1e-8)
        np.testing.assert_allclose(run.model.to_dense(), X, atol=1e-4)
    assert len(runs[0].history) < len(runs[1].history)


@pytest.mark.parametrize(("solver", "rank"), [(AISImpute(1e-3), 10), (AltMin(), 3)], ids=["ais", "altmin"])
def test_noise_free_low_rank_is_recovered(solver, rank):
    truth, array = planted()
    run = solve(Problem(array, "square", dtype="float64"), solver, rank=rank, tol=1e-11, max_iter=2000)
    assert error(run.model, truth) < 1e-3


def test_altmin_never_raises_the_value_and_geco_is_at_least_as_good_as_r1mp():
    _, array = planted(seed=3)
    problem = Problem(array, "square", dtype="float64")
    values = solve(problem, AltMin(), rank=3).history.column("value")
    assert np.all(np.diff(values) <= 1e-12 * values[0])
    geco, r1mp = (solve(problem, method, rank=8).history.column("value") for method in (GECO(), "r1mp"))
    assert np.all(geco <= r1mp * (1 + 1e-9))


def test_admm_finds_the_minimum_of_a_generic_solver():
    _, array = planted((12, 10), 2, 0.7, outliers=0.1)
    known, weight = ~np.isnan(array), 2.0
    X = cp.Variable(array.shape)
    residual = cp.multiply(known, X - np.nan_to_num(array))
    least = cp.Problem(cp.Minimize(cp.sum(cp.abs(residual)) + weight * cp.normNuc(X))).solve(solver=cp.CLARABEL)
    run = solve(Problem(array, "l1", dtype="float64"), ADMM(weight, growth=1.02), rank=10, tol=1e-9)
    assert run.history[-1].value == pytest.approx(least, rel=1e-4)


def test_admm_and_wiberg_see_through_outliers():
    truth, array = planted((60, 60), 2, 0.9, outliers=0.1)
    run = solve(Problem(array, "l1", dtype="float64"), ADMM(), rank=10, tol=1e-8, max_iter=2000)
    assert error(run.model, truth) < 1e-3
    truth, array = planted((40, 30), 2, 0.8, outliers=0.1)  # large enough that a local minimum is not in the way
    run = solve(Problem(array, "l1", dtype="float64"), Wiberg(), rank=2, tol=1e-8)
    values = run.history.column("value")
    assert np.all(np.diff(values) <= 0) and error(run.model, truth) < 1e-3


def test_a_linear_program_of_wiberg_is_the_dense_one():
    rng = np.random.default_rng(2)
    design, targets, weights = rng.normal(size=(30, 4)), rng.normal(size=30), rng.random(30) + 0.1
    for radius in (None, 0.05):
        _, least = l1_program(csr_array(design), targets, weights, radius, None)
        split = np.hstack([design, -design, np.eye(30), -np.eye(30)])  # x = p - q, residual = a - b
        bounds = [(0, radius)] * 8 + [(0, None)] * 60
        dense = linprog(np.r_[np.zeros(8), weights, weights], A_eq=split, b_eq=targets, bounds=bounds)
        assert least == pytest.approx(dense.fun, rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_every_competitor_is_reached_by_name_and_says_what_it_is(name):
    loss = "l1" if name in ("admm", "wiberg") else "square"
    _, array = planted((12, 10), 2, 0.8)
    result = solve(Problem(array, loss), name, rank=2, max_iter=3)
    assert np.isfinite(result.history.column("value")).all() and np.isfinite(result.model.to_dense()).all()
    assert str(result.status).endswith(".")
    for word in ("Objective:", "Cost per step:", "Rate:", "Reference:"):
        assert word in type(METHODS[name].solver).__doc__
    with pytest.raises(rw.SettingError, match="keeps no path"):
        result.model.predict_entries([0], [0], rank=0)
    wrong = Problem(array, "square" if loss == "l1" else "l1")
    with pytest.raises(rw.LossError, match="requires"):
        solve(wrong, name)


def test_what_does_not_fit_into_memory_is_refused_before_any_work():
    rng = np.random.default_rng(0)
    cells = rng.choice(6040 * 3706, 500_000, replace=False)
    half = Observations.from_coo(*np.divmod(cells, 3706), rng.normal(size=cells.size), (6040, 3706))
    with pytest.raises(rw.SettingError, match=r"Wiberg would .* s each"):
        solve(Problem(half, "l1"), Wiberg("exact", memory_limit=24 * 10**9), rank=10)
