"""Wiberg: its linear programs, its derivative, and that it stops where it should."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from helpers import make_observations, outliers
from reference import Dense
from scipy.optimize import linprog

from rankwise import LossError, Observations, Problem, Ridged, SettingError, solve
from rankwise.losses import Absolute, Huber, Quantile, Square
from rankwise.solvers import Wiberg, wiberg

every_weighting = pytest.mark.parametrize("weights", [False, True], ids=["plain", "weighted"])


def make_problem(weights=False, shape=(14, 10), density=0.7, dtype=np.float64, seed=0):
    observations = make_observations(Absolute(), np.random.default_rng(seed), shape, density, weights)
    return Problem(observations, Absolute(), dtype=dtype), Dense(observations, Absolute())


def dense_program(design, targets, weights, radius):
    """The textbook program: minimise weights.t with ``-t <= targets - design x <= t``."""
    n, k = design.shape
    constraints = np.block([[design, -np.eye(n)], [-design, -np.eye(n)]])
    limits = [(None if radius is None else -radius, radius)] * k + [(0, None)] * n
    cost, bound = np.concatenate((np.zeros(k), weights)), np.concatenate((targets, -targets))
    return linprog(cost, A_ub=constraints, b_ub=bound, bounds=limits, method="highs-ds").fun


def generic_program(design, targets, weights, radius):
    x = cp.Variable(design.shape[1])
    limits = [] if radius is None else [cp.abs(x) <= radius]
    program = cp.Problem(cp.Minimize(weights @ cp.abs(targets - design @ x)), limits)
    return program.solve(solver="CLARABEL")


@every_weighting
@pytest.mark.parametrize("radius", [None, 1e-3, 0.1, 10.0])
@pytest.mark.parametrize("size", [(40, 7), (7, 7), (5, 9)], ids=str)
@pytest.mark.parametrize("density", [1.0, 0.3])
def test_the_linear_program_is_the_dense_one_s_and_a_generic_solver_s(weights, radius, size, density):
    rng = np.random.default_rng(1)
    design, targets = rng.normal(size=size) * (rng.random(size) < density), rng.normal(size=size[0])
    sizes = rng.uniform(0.5, 2.0, size[0]) if weights else np.ones(size[0])
    x, value = wiberg.l1_program(sp.csr_array(design), targets, sizes, radius, None)
    assert value == pytest.approx(sizes @ np.abs(targets - design @ x), rel=1e-12)
    assert radius is None or np.abs(x).max() <= radius * (1 + 1e-9)
    assert value == pytest.approx(dense_program(design, targets, sizes, radius), rel=1e-7, abs=1e-8)
    assert value == pytest.approx(generic_program(design, targets, sizes, radius), rel=1e-6, abs=1e-6)


@every_weighting
@pytest.mark.parametrize("rank", [1, 2, 4])
def test_the_best_columns_are_those_of_a_program_for_each_column(weights, rank):
    """Some columns have fewer entries than the rank, and some have none."""
    _, f = make_problem(weights, density=0.35)
    U = np.random.default_rng(2).normal(size=(14, rank))
    V, value = wiberg.best_columns(U, f.rows, f.cols, f.targets, f.weights, 10)
    per_column = np.bincount(f.cols, minlength=10)
    assert per_column.min() < 4 < per_column.max()
    total = 0.0
    for j in range(10):
        own = f.cols == j
        least = dense_program(U[f.rows[own]], f.targets[own], f.weights[own], None) if own.any() else 0.0
        residual = np.abs(f.targets[own] - U[f.rows[own]] @ V[j])
        assert f.weights[own] @ residual == pytest.approx(least, rel=1e-7, abs=1e-8)
        assert np.sum(residual < 1e-7) >= min(rank, own.sum())  # a vertex: as many exact fits as unknowns
        total += least
    assert value == pytest.approx(total, rel=1e-7) == pytest.approx(f.value(U @ V.T))


@every_weighting
@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("density", [0.8, 0.25])
def test_the_derivative_is_that_of_the_predictions_with_v_following(weights, rank, density):
    """By central differences, V being solved for again at each; columns may have fewer entries than the rank."""
    _, f = make_problem(weights, density=density)
    U = np.random.default_rng(3).normal(size=(14, rank))
    data = f.rows, f.cols, f.targets, f.weights, 10

    def predictions(x):
        U = x.reshape(14, rank)
        V, _ = wiberg.best_columns(U, *data)
        return np.sum(U[f.rows] * V[f.cols], axis=1)

    V, value = wiberg.best_columns(U, *data)
    jacobian = wiberg.wiberg_jacobian(wiberg.WibergState(*data[:4], U, V, value, 1.0)).toarray()
    h = 1e-6
    for k, e in enumerate(h * np.eye(U.size)):
        slope = (predictions(U.ravel() + e) - predictions(U.ravel() - e)) / (2 * h)
        np.testing.assert_allclose(jacobian[:, k], slope, atol=1e-4)


@every_weighting
@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("density", [0.9, 0.3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_value_never_rises_and_is_that_of_the_model(weights, rank, density, dtype):
    problem, f = make_problem(weights, density=density, dtype=dtype)
    result = solve(problem, "wiberg", rank=rank, tol=0.0, max_iter=15)
    values = np.r_[result.history.initial_value, result.history.column("value")]
    assert np.all(np.diff(values[1:]) <= 0) and values[-1] < values[0]
    X = result.model.to_dense()
    assert f.value(X) == pytest.approx(values[-1], rel=1e-9 if dtype == np.float64 else 1e-4, abs=1e-3)
    for side in (result.model.U, result.model.V):
        assert np.allclose(np.linalg.norm(side, axis=0), 1, atol=1e-5) and side.shape[1] == rank


@pytest.mark.parametrize("seed", range(4))
def test_a_low_rank_matrix_is_recovered_from_a_tenth_of_gross_outliers(seed):
    truth, observations = outliers(density=0.9, seed=seed)
    result = solve(Problem(observations, Absolute()), "wiberg", rank=2)
    assert result.status.reason == "tol" and len(result.history) > 2
    assert np.linalg.norm(result.model.to_dense() - truth) <= 1e-3 * np.linalg.norm(truth)


def test_a_stationary_value_ends_the_run():
    problem, _ = make_problem(shape=(6, 5))
    result = solve(problem, "wiberg", rank=1, tol=0.0)
    assert result.status.reason == "converged" and "stationary" in str(result.status)
    assert solve(problem, Wiberg(radius=1e-3), rank=1, tol=0.0, max_iter=2).status.reason == "max_iter"


@pytest.mark.parametrize("rank", [5, 50])
def test_a_rank_that_fits_everything_fits_everything(rank):
    problem, _ = make_problem(shape=(7, 5))
    result = solve(problem, "wiberg", rank=rank)
    assert result.history[-1].value == pytest.approx(0, abs=1e-8) and result.model.rank == 5


def half_of_movielens_1m():
    """As many entries in as many rows and columns; nothing else of it matters here."""
    cells = np.unique(np.random.default_rng(0).integers(0, 6040 * 3706, 510_000))[:500_000]
    return Observations.from_coo(*np.divmod(cells, 3706), np.ones(cells.size), (6040, 3706))


def test_half_of_movielens_1m_is_refused_before_any_work(monkeypatch):
    problem = Problem(half_of_movielens_1m(), Absolute(), n_jobs=1)
    for solver in (Wiberg("exact"), Wiberg("exact", memory_limit=16 * 10**9)):
        with pytest.raises(SettingError, match=r"programs with 5\.5e\+07 nonzeros, about .* s each.*set program="):
            solve(problem, solver, rank=10)
    monkeypatch.setattr(wiberg, "linprog", None)
    monkeypatch.setattr(wiberg, "block_svd", None)
    with pytest.raises(SettingError, match=r"Wiberg requires about 22\.\d GB .*, and 16\.0 GB are available"):
        Wiberg("exact", memory_limit=16 * 10**9).init(problem, 10)
    with pytest.raises(SettingError, match="or limit them with `program_seconds`"):
        Wiberg("exact", memory_limit=10**12).init(problem, 10)
    with pytest.raises(TypeError):  # what is not refused goes to work
        Wiberg("exact", memory_limit=10**12, program_seconds=1.0).init(problem, 10)


def test_a_program_that_runs_out_of_time_leaves_the_best_so_far():
    _, observations = outliers((60, 40))
    problem = Problem(observations, Absolute(), dtype=np.float64)
    result = solve(problem, Wiberg(program_seconds=1e-9), rank=2)
    assert result.status.reason == "time" and "best so far" in str(result.status)
    assert len(result.history) == 1 and result.model.rank == 2
    value = Dense(observations, Absolute()).value(result.model.to_dense())
    assert result.history[-1].value == pytest.approx(value, rel=1e-9)


def test_a_program_that_runs_out_of_time_midway_leaves_what_was_reached(monkeypatch):
    _, observations = outliers()
    problem = Problem(observations, Absolute(), dtype=np.float64)
    whole = solve(problem, "wiberg", rank=2).history.column("value")
    solving, calls = wiberg.l1_program, []

    def until_the_sixth(*arguments):
        calls.append(arguments)
        return solving(*arguments) if len(calls) <= 6 else (None, np.inf)

    monkeypatch.setattr(wiberg, "l1_program", until_the_sixth)
    result = solve(problem, "wiberg", rank=2)  # one program for the start, two for each step; the seventh fails
    assert result.status.reason == "time" and len(result.history) == 3
    assert np.array_equal(result.history.column("value"), [whole[0], whole[1], whole[1]])


def test_the_run_ends_at_the_time_limit():
    _, observations = outliers()
    result = solve(Problem(observations, Absolute()), "wiberg", rank=2, time_limit=1e-9)
    assert result.status.reason == "time" and len(result.history) == 1 and result.model.rank == 2


def test_rows_and_columns_without_entries_stay_finite():
    rng = np.random.default_rng(5)
    rows, cols = np.repeat([1, 2, 4, 7], 3), np.tile([0, 3, 5], 4)
    observations = Observations.from_coo(rows, cols, rng.normal(size=12), (9, 8))
    result = solve(Problem(observations, Absolute()), "wiberg", rank=2)
    assert np.isfinite(result.model.to_dense()).all()
    assert result.history[-1].value < np.abs(observations.targets).sum()


@pytest.mark.parametrize("loss", [Square(), Huber(), Quantile(0.3)], ids=repr)
def test_other_losses_are_refused_by_name(loss):
    problem = Problem(make_observations(loss, np.random.default_rng(0)), loss)
    with pytest.raises(
        LossError,
        match=f'method="wiberg" requires the l1 loss without a ridge, got Problem with loss {type(loss).__name__}',
    ):
        solve(problem, "wiberg")
    with pytest.raises(LossError, match='method="wiberg" requires the l1 loss without a ridge, got Ridged'):
        solve(Ridged(make_problem()[0], 0.1), "wiberg")


@pytest.mark.parametrize("name", ["radius", "program_seconds", "memory_limit"])
@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf, True, "1"])
def test_bad_settings_are_refused_in_one_sentence(name, value):
    with pytest.raises(SettingError, match=f"^`{name}` must .*[^.]\\.$"):
        Wiberg(**{name: value})


@pytest.mark.parametrize("rank", [2, 3])
def test_a_matrix_that_is_fitted_exactly_ends_the_run(rank, monkeypatch):
    rng = np.random.default_rng(0)
    exact, solving = rng.normal(size=(12, 2)) @ rng.normal(size=(2, 10)), wiberg.l1_program

    def not_of_rounding_errors(design, targets, *settings):
        assert np.abs(targets).max() > 1e-10  # HiGHS may never end
        return solving(design, targets, *settings)

    monkeypatch.setattr(wiberg, "l1_program", not_of_rounding_errors)
    result = solve(Problem(Observations.from_dense(exact), "l1", dtype=np.float64), "wiberg", rank=rank)
    assert result.status.reason == "converged"
    np.testing.assert_allclose(result.model.to_dense(), exact, atol=1e-12)
