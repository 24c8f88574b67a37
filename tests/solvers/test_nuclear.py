"""AIS-Impute and soft-impute against a dense proximal gradient solve, the optimality conditions, and their rates."""

from functools import cache

import numpy as np
import pytest
from helpers import make_observations
from nuclear_cases import largest_weight, make_problem, proximal_solve, solved
from reference import Dense

from rankwise import LossError, MultitaskRegression, Observations, Problem, Ridged, SettingError, solve
from rankwise.losses import Absolute, Huber, Logistic, Poisson, SmoothHinge, Square, SquaredHinge
from rankwise.solvers import AISImpute, get, nuclear, soft_impute

LOSSES = [Square(), Logistic(), Huber(), SquaredHinge(), SmoothHinge()]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
three_losses = pytest.mark.parametrize("loss", LOSSES[:3], ids=repr)
KINDS = {
    "ais-impute": AISImpute,
    "without continuation": lambda weight: AISImpute(weight, continuation=0.0),
    "soft-impute": soft_impute,
}
every_kind = pytest.mark.parametrize("kind", KINDS)
both = pytest.mark.parametrize("method", ["ais-impute", "soft-impute"])


@cache
def converged(loss, ridge, kind):
    """Result of a run to rounding, at 0.3 of the largest useful weight."""
    problem, _, weight, _, _ = solved(loss, ridge, 0.3)
    return solve(problem, KINDS[kind](weight), tol=2e-16, max_iter=5000)


def planted(shape=(60, 50), rank=2, density=0.7, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(shape[0], rank)) @ rng.normal(size=(shape[1], rank)).T
    rows, cols = np.nonzero(rng.random(shape) < density)
    return truth, Problem(Observations.from_coo(rows, cols, truth[rows, cols], shape), Square(), dtype=np.float64)


@every_loss
@pytest.mark.parametrize("ridge", [0.0, 0.3])
@every_kind
def test_the_optimum_is_the_dense_proximal_solve_s(loss, ridge, kind):
    _, f, weight, X, value = solved(loss, ridge, 0.3)
    result = converged(loss, ridge, kind)
    found = result.model.to_dense()
    assert result.history[-1].value == pytest.approx(value, rel=1e-9)
    assert f.value(found) + weight * np.linalg.norm(found, "nuc") == pytest.approx(value, rel=1e-9)
    assert np.linalg.norm(found - X) <= 1e-5 * np.linalg.norm(X)
    assert result.model.rank == np.linalg.matrix_rank(X, 1e-6) > 1


@every_loss
@pytest.mark.parametrize("ridge", [0.0, 0.3])
@every_kind
def test_the_solution_meets_the_optimality_conditions(loss, ridge, kind):
    """``-G / weight`` is a subgradient of the nuclear norm: ``U.T G V = -weight I``, and ``||G|| <= weight``."""
    _, f, weight, _, _ = solved(loss, ridge, 0.3)
    model = converged(loss, ridge, kind).model
    G = f.gradient(model.to_dense())
    np.testing.assert_allclose(model.U.T @ G @ model.V, -weight * np.eye(model.rank), atol=1e-4 * weight)
    np.testing.assert_allclose(G @ model.V, -weight * model.U, atol=1e-4 * weight)
    assert np.linalg.norm(G, 2) <= weight * (1 + 1e-4)
    assert np.all(model.theta > 0)
    for side in (model.U, model.V):
        np.testing.assert_allclose(side.T @ side, np.eye(model.rank), atol=1e-10)


@pytest.mark.slow
@every_loss
@pytest.mark.parametrize("accuracy", [1e-3, 1e-6])
def test_momentum_takes_fewer_steps_to_any_accuracy(loss, accuracy):
    problem, _, weight, _, value = solved(loss, 0.0, 0.1)

    def n_steps(accelerate):
        solver = AISImpute(weight, accelerate=accelerate, continuation=0.0)
        there = {"callback": lambda record: record.value <= (1 + accuracy) * value, "tol": 0.0, "max_iter": 3000}
        result = solve(problem, solver, **there)
        assert result.status.reason == "callback"
        return len(result.history)

    assert n_steps(True) < n_steps(False) * (0.9 if accuracy > 1e-4 else 0.5)


def exact_run(monkeypatch, loss, accelerate, n_steps=200):
    """Gaps to the optimum of a run whose singular value thresholding is exact, and ``L ||X*||_F**2``."""
    monkeypatch.setattr(nuclear, "RANDOM_DIRECTIONS", 100)  # blocks of full size
    problem, _, weight, X, value = solved(loss, 0.0, 0.05)
    solver = AISImpute(weight, accelerate=accelerate, continuation=0.0, n_power=2)
    gaps = solve(problem, solver, tol=0.0, max_iter=n_steps).history.column("value") - value
    return gaps, problem.lipschitz * np.sum(X**2), 1e-11 * abs(value)


def slope_of(gaps):
    """Exponent of T in the gap, fitted over the second half of the steps on a logarithmic scale."""
    first = int(np.sqrt(len(gaps)))
    T = np.arange(1, len(gaps) + 1)
    return np.polyfit(np.log(T[first:]), np.log(gaps[first:]), 1)[0]


@three_losses
def test_ais_impute_keeps_the_accelerated_bound_until_momentum_restarts(loss, monkeypatch, record_property):
    gaps, scale, slack = exact_run(monkeypatch, loss, accelerate=True)
    rises = np.flatnonzero(np.diff(gaps) > 0)
    n = rises[0] + 1 if rises.size else len(gaps)
    T = np.arange(1, n + 1)
    slope = slope_of(gaps[:n])
    record_property("slope", round(slope, 2))
    record_property("steps", int(n))
    assert n >= 20
    assert np.all(gaps[:n] <= 2 * scale / (T + 1) ** 2 + slack)
    assert slope < -1.9


@three_losses
def test_soft_impute_keeps_the_plain_bound_and_never_rises(loss, monkeypatch, record_property):
    gaps, scale, slack = exact_run(monkeypatch, loss, accelerate=False)
    T = np.arange(1, len(gaps) + 1)
    record_property("slope", round(slope_of(gaps), 2))
    assert np.all(np.diff(gaps) <= slack)
    assert np.all(gaps <= scale / (2 * T) + slack)
    accelerated, _, _ = exact_run(monkeypatch, loss, accelerate=True)
    assert accelerated[-1] < 0.1 * gaps[-1]


@every_loss
@every_kind
def test_from_the_largest_useful_weight_on_the_solution_is_zero(loss, kind):
    problem, f = make_problem(loss)
    top = largest_weight(f)
    for share in (1 + 1e-9, 3.0):
        result = solve(problem, KINDS[kind](share * top), rank=3)
        assert result.model.rank == 0 and not result.model.to_dense().any()
        assert result.history[-1].value == result.history.initial_value == pytest.approx(f.value(np.zeros(f.shape)))
        assert result.status.reason == "tol"
    assert solve(problem, KINDS[kind](0.95 * top), rank=3, tol=1e-9).model.rank >= 1


@three_losses
def test_less_weight_gives_a_better_fit_of_larger_norm_and_no_smaller_rank(loss):
    problem, f = make_problem(loss)
    weights = largest_weight(f) * np.array([0.9, 0.6, 0.3, 0.1])
    X = [solve(problem, AISImpute(weight), tol=1e-12, max_iter=3000).model.to_dense() for weight in weights]
    assert np.all(np.diff([np.linalg.norm(x, "nuc") for x in X]) > 0)
    assert np.all(np.diff([f.value(x) for x in X]) < 0)
    assert np.all(np.diff([np.linalg.matrix_rank(x, 1e-6) for x in X]) >= 0)


@three_losses
@pytest.mark.parametrize("rank", [1, 3, 5])
@both
def test_the_search_finds_the_smallest_weight_whose_solution_has_the_rank(loss, rank, method):
    problem, f = make_problem(loss, shape=(30, 20), weights=False)
    weight = get(method).init(problem, rank).weight

    def rank_at(weight):
        return np.linalg.matrix_rank(proximal_solve(f, problem.lipschitz, weight, 500)[0], 1e-6)

    assert 1e-4 * largest_weight(f) < weight < largest_weight(f)
    assert rank_at(weight) <= rank < rank_at(0.9 * weight)
    model = solve(problem, method, rank=rank).model
    assert 1 <= model.rank <= rank


@both
@pytest.mark.parametrize("rank", [15, 99])
def test_the_search_ends_at_the_floor_if_no_weight_has_too_large_a_rank(method, rank):
    problem, f = make_problem(Square())
    weight = get(method).init(problem, rank).weight
    assert weight == pytest.approx(1e-4 * largest_weight(f), rel=1e-3)


@both
def test_the_search_ends_at_the_floor_if_the_entries_are_noise_free(method):
    _, problem = planted()
    weight = get(method).init(problem, 2).weight
    assert weight == pytest.approx(1e-4 * largest_weight(Dense(problem.observations, Square())), rel=1e-3)


@both
def test_noise_free_entries_of_a_low_rank_matrix_are_enough(method):
    truth, problem = planted()
    result = solve(problem, method, rank=2, tol=1e-10, max_iter=5000)
    assert np.linalg.norm(result.model.to_dense() - truth) <= 1e-3 * np.linalg.norm(truth)
    assert result.model.rank == 2


def test_the_weight_falls_by_the_factor_and_only_then_may_the_run_end():
    """With a tolerance that any step meets, the run ends when the weight is within 1 % of the wanted one."""
    problem, f = make_problem(Square())
    top = largest_weight(f)
    for factor in (0.3, 0.7, 0.9):
        excess = (top - 0.1 * top) / (0.1 * top)
        n_steps = int(np.ceil(np.log(0.01 / excess) / np.log(factor)))
        result = solve(problem, AISImpute(0.1 * top, continuation=factor), tol=1e6)
        assert result.status.reason == "tol" and len(result.history) == n_steps
    assert len(solve(problem, AISImpute(0.1 * top, continuation=0.0), tol=1e6).history) == 1


def test_the_run_ends_at_a_relative_change_of_1e_4():
    problem, _, weight, _, _ = solved(Square(), 0.0, 0.1)
    for solver in (AISImpute(weight, continuation=0.0), soft_impute(weight)):
        result = solve(problem, solver)
        changes = np.abs(np.diff(result.history.column("value"))) / result.history.column("value")[1:]
        assert result.status.reason == "tol" and "0.0001" in str(result.status)
        assert changes[-1] <= 1e-4 < changes[:-1].min()


@both
@pytest.mark.parametrize("loss", [Poisson(), Absolute()], ids=repr)
def test_losses_without_what_it_takes_are_refused_by_name(method, loss):
    problem = Problem(make_observations(loss, np.random.default_rng(0)), loss)
    needed = "a known Lipschitz constant" if loss.smooth else "a smooth objective"
    for solver in (method, AISImpute(), soft_impute(1.0)):
        with pytest.raises(LossError, match=rf"requires {needed}.*, got .*{type(loss).__name__}\(\).*: use .*glrl"):
            solve(problem, solver, rank=2)


def test_objectives_that_cannot_move_are_refused_by_name():
    rng = np.random.default_rng(0)
    tasks = MultitaskRegression(list(rng.normal(size=(4, 8, 3))), list(rng.normal(size=(4, 8))))
    for objective in (tasks, Ridged(tasks, 0.1)):
        with pytest.raises(
            SettingError, match=rf"AISImpute requires .*can move.*, got {type(objective).__name__}: use .*glrl"
        ):
            solve(objective, AISImpute(1.0), rank=2)
