"""AltMin: its half steps, its line search, its start, and what it recovers."""

import numpy as np
import pytest
from helpers import SMOOTH_LOSSES, make_observations
from reference import Dense, slopes_of

from rankwise import LossError, MultitaskRegression, Observations, Problem, Ridged, SettingError, solve
from rankwise.losses import Absolute, Hinge, Huber, Logistic, Square
from rankwise.solvers import AltMin, altmin

every_loss = pytest.mark.parametrize("loss", SMOOTH_LOSSES, ids=repr)
every_ridge = pytest.mark.parametrize("ridge", [0.0, 0.3])


def make_problem(loss, ridge=0.0, shape=(12, 9), density=0.5, dtype=np.float64):
    observations = make_observations(loss, np.random.default_rng(4), shape, density, weights=True)
    problem = Problem(observations, loss, dtype=dtype)
    return (Ridged(problem, ridge) if ridge else problem), Dense(observations, loss, ridge)


def planted(shape=(60, 50), rank=3, density=0.5, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(shape[0], rank)) @ rng.normal(size=(shape[1], rank)).T
    rows, cols = np.nonzero(rng.random(shape) < density)
    return truth, Problem(Observations.from_coo(rows, cols, truth[rows, cols], shape), Square(), dtype=np.float64)


def half_steps(objective, monkeypatch, rank=3):
    """Factors before each half step of one step, and the squared slope and line that the line search was given."""
    seen = []

    def record(phi, value, squared):
        there = phi(np.array([1.0, 0.0]))
        assert value == pytest.approx(there[0], rel=1e-12)
        seen.append((state.U.copy(), state.V.copy(), squared, there))
        return search(phi, value, squared)

    search = altmin.armijo
    monkeypatch.setattr(altmin, "armijo", record)
    solver = AltMin()
    state = solver.init(objective, rank)
    solver.step(objective, None, state)
    return seen, state


@every_loss
@every_ridge
def test_each_half_step_goes_down_the_gradient_in_its_factor(loss, ridge, monkeypatch):
    """By central differences of ``f(U V.T)`` in U, then in V at the new U."""
    objective, f = make_problem(loss, ridge)
    (first, second), after = half_steps(objective, monkeypatch)

    for (U, V, squared, (value, slope)), side in ((first, "U"), (second, "V")):
        if side == "U":
            exact = slopes_of(lambda x, V=V: f.value(x.reshape(-1, 3) @ V.T), U.ravel()).reshape(U.shape)
            moved = second[0] - U
        else:
            exact = slopes_of(lambda x, U=U: f.value(U @ x.reshape(-1, 3).T), V.ravel()).reshape(V.shape)
            moved = after.V - V
        assert value == pytest.approx(f.value(U @ V.T), rel=1e-10)
        assert squared == pytest.approx(np.sum(exact**2), rel=1e-5)
        assert slope[1] == pytest.approx(-squared, rel=1e-8)  # of the line that the search walks
        length = -np.sum(moved * exact) / np.sum(exact**2)
        assert length > 0
        np.testing.assert_allclose(moved, -length * exact, atol=1e-6 * np.abs(moved).max())
    assert np.array_equal(first[1], second[1]) and np.array_equal(second[0], after.U)  # one factor at a time


@every_loss
@every_ridge
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_value_never_rises(loss, ridge, dtype):
    objective, f = make_problem(loss, ridge, dtype=dtype)
    result = solve(objective, "altmin", rank=3, tol=0.0, max_iter=60)
    values = np.r_[result.history.initial_value, result.history.column("value")]
    assert np.all(np.diff(values) <= (1e-12 if dtype == np.float64 else 1e-5) * np.abs(values[1:]))
    assert values[-1] < values[1] < values[0]
    assert f.value(result.model.to_dense()) == pytest.approx(values[-1], rel=1e-10 if dtype == np.float64 else 1e-4)


@every_loss
@every_ridge
def test_every_smooth_loss_runs_to_a_relative_change_of_1e_4(loss, ridge):
    objective, _ = make_problem(loss, ridge, (30, 20))
    result = solve(objective, "altmin", rank=3)
    values = np.r_[result.history.initial_value, result.history.column("value")]
    changes = np.abs(np.diff(values)) / np.abs(values[1:])
    if result.status.reason == "max_iter":
        assert len(result.history) == 500 and "500 steps" in str(result.status)
    else:
        assert result.status.reason == "tol" and "0.0001 of itself" in str(result.status)
        assert changes[-1] <= 1e-4 < changes[:-1].min()
    assert set(result.history.column("rank")) == {3} and np.isfinite(values).all()


@every_loss
@every_ridge
def test_a_converged_run_is_a_stationary_point(loss, ridge):
    """``G V = 0`` and ``G.T U = 0`` for the factors; with a ridge, since signs fit exactly only at infinity."""
    objective, f = make_problem(loss, ridge or 1.0)
    model = solve(objective, "altmin", rank=2, tol=1e-14, max_iter=5000).model
    G, first = f.gradient(model.to_dense()), np.linalg.norm(f.gradient(np.zeros(f.shape)))
    weight = np.sqrt(model.theta)
    assert np.linalg.norm(G @ (model.V * weight)) + np.linalg.norm(G.T @ (model.U * weight)) <= 1e-4 * first


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_noise_free_entries_of_a_low_rank_matrix_are_enough(dtype):
    truth, problem = planted()
    result = solve(Problem(problem.observations, Square(), dtype=dtype), "altmin", rank=3)
    assert np.linalg.norm(result.model.to_dense() - truth) <= 1e-3 * np.linalg.norm(truth)


@every_loss
@every_ridge
def test_the_start_is_the_leading_triplets_scaled_to_the_least_value(loss, ridge):
    objective, f = make_problem(loss, ridge, density=0.9)
    state = AltMin().init(objective, 9)  # all triplets, so that block iterations are exact
    left, values, right = np.linalg.svd(-f.gradient(np.zeros(f.shape)), full_matrices=False)
    D = (left * values) @ right
    found = state.U @ state.V.T
    np.testing.assert_allclose(found, np.sum(found * D) / np.sum(D * D) * D, atol=1e-10 * np.abs(found).max())
    least = min(f.value(weight * D) for weight in np.geomspace(1e-3, 30, 2000))
    assert f.value(found) <= least + 1e-8 * abs(f.value(0 * D))
    np.testing.assert_allclose(state.U.T @ state.U, state.V.T @ state.V, atol=1e-8)  # balanced
    assert objective.value() == pytest.approx(f.value(np.zeros(f.shape)))  # and the run starts from zero


class Line:
    """A function of the step length in the place of f along the gradient."""

    def __init__(self, function, curvature):
        self.function, self.curvature, self.asked = function, curvature, []

    def __call__(self, c):
        self.asked.append(c[1])
        return self.function(c[1]), None

    def curve(self, c, direction):
        return np.array([0.0, self.curvature])


@pytest.mark.parametrize(
    ("function", "curvature"),
    [
        (lambda t: 3 - 2 * t + t**2, 2.0),  # Newton's length is right
        (lambda t: 3 - 2 * t + t**2, 0.01),  # far too long
        (lambda t: 3 - 2 * t + t**2, 0.0),  # no curvature seen
        (lambda t: 3 - 2 * t + 1e6 * t**2, 0.0),  # very short steps only
        (lambda t: np.exp(50 * t) - 52 * t, 0.0),
        (lambda t: -2 * t if t < 1e-3 else np.inf, 0.0),
    ],
)
def test_the_step_length_meets_armijo_s_condition_and_was_halved_only_as_needed(function, curvature):
    line = Line(function, curvature)
    length, n_evaluations = altmin.armijo(line, function(0.0), 2.0)
    first = 2.0 / curvature if curvature else 1.0

    def enough(t):
        return function(t) <= function(0.0) - 1e-4 * t * 2.0

    assert length > 0 and enough(length)
    assert np.log2(first / length) == round(np.log2(first / length))
    assert length == first or not enough(2 * length)
    assert n_evaluations == len(line.asked)


def test_a_line_that_only_rises_gives_no_step():
    assert altmin.armijo(Line(lambda t: 1 + t, 1.0), 1.0, 2.0)[0] == 0.0


def test_terms_have_unit_columns_and_make_the_same_matrix():
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(6, 4)), rng.normal(size=(5, 4)) * [1, 1e-3, 0, 1e3]
    theta, left, right = altmin.unit_terms(U, V)
    np.testing.assert_allclose((left * theta) @ right.T, U @ V.T, rtol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(left, axis=0), 1)
    np.testing.assert_allclose(np.linalg.norm(right, axis=0), [1, 1, 0, 1])
    _, problem = planted()
    model = solve(problem, "altmin", rank=3, max_iter=3).model
    for side in (model.U, model.V):
        np.testing.assert_allclose(np.linalg.norm(side, axis=0), 1, rtol=1e-6)


@pytest.mark.parametrize("loss", [Absolute(), Hinge()], ids=repr)
def test_nonsmooth_losses_are_refused_by_name(loss):
    problem = Problem(make_observations(loss, np.random.default_rng(0)), loss)
    for method in ("altmin", AltMin()):
        with pytest.raises(
            LossError, match=rf"requires a smooth objective, got .*{type(loss).__name__}\(\).*glrl-nonsmooth"
        ):
            solve(problem, method, rank=2)


def test_objectives_that_cannot_move_are_refused_by_name():
    rng = np.random.default_rng(0)
    tasks = MultitaskRegression(list(rng.normal(size=(4, 8, 3))), list(rng.normal(size=(4, 8))))
    with pytest.raises(
        SettingError, match=r'method="altmin" requires .*can move.*, got MultitaskRegression: use .*glrl'
    ):
        solve(tasks, "altmin", rank=2)


def test_targets_that_are_all_zero_end_at_once():
    result = solve(Problem(Observations.from_dense(np.zeros((4, 3))), Huber()), "altmin", rank=2)
    assert result.status.reason == "tol" and len(result.history) == 1 and not result.model.to_dense().any()


def test_separable_signs_end_without_overflow():
    """Their minimum is at infinity."""
    result = solve(Problem(Observations.from_dense(np.ones((4, 3))), Logistic()), "altmin", rank=2)
    assert result.status.reason in ("tol", "max_iter") and np.isfinite(result.model.to_dense()).all()
    assert result.model.to_dense().min() > 1
