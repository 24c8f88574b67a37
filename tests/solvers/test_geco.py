"""GECO: its core, and that refitting it is at least as good as refitting coefficients."""

import numpy as np
import pytest
from core_cases import make_problem, planted
from helpers import SMOOTH_LOSSES, make_observations
from reference import matrix_of, random_point, slopes_of, top_pair, unit

from rankwise import LossError, MultitaskRegression, Observations, Problem, SettingError, solve
from rankwise.losses import Absolute, Logistic, Square
from rankwise.solvers import GECO, Coefficients, GreedyPursuit
from rankwise.solvers.cores import Core

every_loss = pytest.mark.parametrize("loss", SMOOTH_LOSSES, ids=repr)
every_ridge = pytest.mark.parametrize("ridge", [0.0, 0.3])


@every_loss
@every_ridge
def test_the_core_s_value_and_gradient_are_those_of_f(loss, ridge):
    """By central differences of ``C -> f(U C V.T)``."""
    objective, f = make_problem(loss, ridge)
    rng = np.random.default_rng(5)
    random_point(objective, rng, rank=2)
    core = Core(objective, unit(rng, 12), unit(rng, 9))

    def value(c):
        return f.value(core.U @ c.reshape(3, 3) @ core.V.T)

    for _ in range(3):
        c = rng.normal(size=9)
        found, slope = core(c)
        assert found == pytest.approx(value(c), rel=1e-10)
        np.testing.assert_allclose(slope, slopes_of(value, c), rtol=1e-5, atol=1e-6)


@every_ridge
def test_the_core_starts_at_the_pursuit_s_point_and_moves_to_any_other(ridge):
    objective, _ = make_problem(Square(), ridge)
    rng = np.random.default_rng(6)
    X, u, v = random_point(objective, rng, rank=2), unit(rng, 12), unit(rng, 9)
    core = Core(objective, u, v)
    for side in (core.U, core.V):
        np.testing.assert_allclose(side.T @ side, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(core.U @ core.start(0.7).reshape(3, 3) @ core.V.T, X + 0.7 * np.outer(u, v), atol=1e-12)
    C = rng.normal(size=(3, 3))
    core.move(C.ravel())
    np.testing.assert_allclose(matrix_of(objective.point), core.U @ C @ core.V.T, atol=1e-12)


@every_loss
@every_ridge
def test_bases_are_orthonormal_and_ranks_come_one_by_one(loss, ridge):
    objective, f = make_problem(loss, ridge)
    result = solve(objective, "geco", rank=5)
    model, n = result.model, len(result.history)
    assert result.status.reason == ("rank" if n == 5 else "optimal") and n >= 3  # hinges may fit exactly before
    assert list(result.history.column("rank")) == list(range(1, n + 1))
    for side in (model.U, model.V):
        np.testing.assert_allclose(side.T @ side, np.eye(n), atol=1e-10)
    assert np.all(model.theta >= 0) and np.all(np.diff(model.theta) <= 0)
    assert f.value(model.to_dense()) == pytest.approx(result.history[-1].value, rel=1e-10, abs=1e-12)


@every_loss
@every_ridge
def test_every_step_descends_as_proposition_1_promises(loss, ridge):
    """The core contains the pursuit's point, so GECO's value falls at least as far."""
    objective, f = make_problem(loss, ridge)
    history = solve(objective, GECO(oracle="dense"), rank=6).history
    values = np.r_[history.initial_value, history.column("value")]
    bound = 0.0 if objective.lipschitz is None else history.column("sigma") ** 2 / (2 * objective.lipschitz)
    assert np.all(values[1:] <= values[:-1] - bound + 1e-10 * abs(values[0]))
    assert history[0].sigma == pytest.approx(np.linalg.norm(f.gradient(np.zeros(f.shape)), 2))


@every_ridge
def test_a_step_is_at_least_as_good_as_refitting_all_coefficients_of_the_same_terms(ridge):
    """The coefficients of X's singular terms and of the new pair are cores too: R1MP's step, from the same point."""
    objective, f = make_problem(Square(), ridge, (20, 15))
    for rank in range(1, 6):
        model = solve(objective, GECO(oracle="dense", n_lbfgs=200), rank=rank).model
        u, _, v = top_pair(f.gradient(model.to_dense()))
        left, right = np.column_stack((model.U, u)), np.column_stack((model.V, v))
        terms = np.einsum("ik,jk->kij", left, right)
        seen = terms[:, f.rows, f.cols]
        hessian = (seen * f.weights) @ seen.T + ridge * np.einsum("kij,lij->kl", terms, terms)
        theta = np.linalg.solve(hessian, (seen * f.weights) @ f.targets)
        refitted = f.value(np.tensordot(theta, terms, 1))
        core = solve(objective, GECO(oracle="dense", n_lbfgs=200), rank=rank + 1).history[-1].value
        assert core <= refitted * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_the_value_is_at_most_that_of_r1mp_at_every_rank(seed):
    """No theorem, since the two paths part at rank 2; so it is on planted data, half observed."""
    problem = planted(Square(), seed)
    core = solve(problem, GECO(oracle="dense", n_lbfgs=100), rank=8).history.column("value")
    coefficients = solve(problem, GreedyPursuit("coefficients", "dense"), rank=8).history.column("value")
    assert np.all(core <= coefficients * (1 + 1e-9))
    assert core[-1] < 0.99 * coefficients[-1]


@pytest.mark.parametrize("seed", range(3))
def test_the_value_is_at_most_that_of_glrl_at_every_rank(seed):
    problem = planted(Logistic(), seed)
    core = solve(problem, GECO(oracle="dense", n_lbfgs=200), rank=6).history.column("value")
    coefficients = solve(problem, GreedyPursuit(Coefficients(200), "dense"), rank=6).history.column("value")
    assert np.all(core <= coefficients * (1 + 1e-9))
    assert core[-1] < 0.99 * coefficients[-1]


def test_more_iterations_on_the_core_fit_better():
    problem = planted(Logistic(), 0)
    values = [solve(problem, GECO(n_lbfgs=n), rank=4).history[-1].value for n in (1, 5, 50)]
    assert values[0] > values[1] > values[2]


def test_smaller_ranks_are_not_kept_and_are_refused_with_what_to_do():
    model = solve(planted(Square(), 0), "geco", rank=3).model
    for rank in (0, 1, 2):
        with pytest.raises(SettingError, match=f"GECO keeps no path, so rank={rank} is not known; fit again"):
            model.predict_entries([0], [0], rank=rank)
    assert model.predict_entries([1], [2], rank=3)[0] == pytest.approx(model.to_dense()[1, 2])


@pytest.mark.parametrize("shape", [(1, 1), (1, 6), (6, 1), (4, 3)], ids=str)
def test_the_largest_rank_of_the_shape_is_the_last(shape):
    rng = np.random.default_rng(7)
    result = solve(Problem(Observations.from_dense(rng.normal(size=shape)), Square()), "geco", rank=50)
    assert result.status.reason == "rank" and "largest of this shape" in str(result.status)
    assert result.model.rank == len(result.history) == min(shape)


def test_targets_that_are_all_zero_are_optimal_at_once():
    result = solve(Problem(Observations.from_dense(np.zeros((4, 3))), Square()), "geco", rank=2)
    assert result.status.reason == "optimal" and result.model.rank == 0


@pytest.mark.parametrize("n_lbfgs", [0, -1, 1.5, True, "many", None])
def test_bad_settings_are_refused_in_one_sentence(n_lbfgs):
    with pytest.raises(SettingError, match=r"^`n_lbfgs` must .*[^.]\.$"):
        GECO(n_lbfgs)


def test_what_does_not_fit_is_refused_by_name():
    problem = Problem(make_observations(Absolute(), np.random.default_rng(0)), Absolute())
    for method in ("geco", GECO()):
        with pytest.raises(LossError, match=r"requires a smooth objective, got .*Absolute\(\)"):
            solve(problem, method, rank=2)
    rng = np.random.default_rng(0)
    tasks = MultitaskRegression(list(rng.normal(size=(4, 8, 3))), list(rng.normal(size=(4, 8))))
    with pytest.raises(SettingError, match=r'method="geco" requires .*can move.*, got MultitaskRegression'):
        solve(tasks, "geco", rank=2)
