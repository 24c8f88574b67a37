"""Local search: never above the pursuit that it starts from, exact at planted ranks, and an end that says why."""

import numpy as np
import pytest
from core_cases import make_problem, planted
from helpers import SMOOTH_LOSSES, make_observations
from reference import Dense

from rankwise import LossError, MultitaskRegression, Observations, Problem, SettingError, solve
from rankwise.losses import Absolute, Huber, Logistic, Square
from rankwise.solvers import GECO, AISImpute, Checkpoint, GreedyPursuit, LocalSearch, NonsmoothPursuit

PURSUITS = {
    "geco": GECO(),
    "glrl": GreedyPursuit("coefficients"),
    "eglrl": GreedyPursuit("economic"),
    "glrl-none": GreedyPursuit("none"),
    "glrl-nonsmooth": NonsmoothPursuit(),
}
every_pursuit = pytest.mark.parametrize("pursuit", PURSUITS.values(), ids=PURSUITS)
three_losses = pytest.mark.parametrize("loss", [Square(), Logistic(), Huber()], ids=repr)


@every_pursuit
@three_losses
def test_the_value_is_never_above_that_of_the_pursuit(pursuit, loss):
    for seed, rank in ((0, 2), (1, 4), (2, 6)):
        problem = planted(loss, seed)
        wanted = solve(problem, pursuit, rank=rank)
        result = solve(problem, LocalSearch(pursuit), rank=rank)
        assert result.model.rank == rank and result.history[-1].value <= wanted.history[-1].value
        grown = result.history.column("value")[: len(wanted.history)]
        np.testing.assert_array_equal(grown, wanted.history.column("value"))


@pytest.mark.parametrize("loss", SMOOTH_LOSSES, ids=repr)
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_it_never_ends_above_geco_at_any_rank_under_any_smooth_loss(loss, ridge):
    objective, f = make_problem(loss, ridge)
    for rank in (1, 2, 4):
        wanted = solve(objective, "geco", rank=rank).history[-1].value
        result = solve(objective, "local-search", rank=rank)
        assert result.history[-1].value <= wanted and np.isfinite(result.model.to_dense()).all()
        assert f.value(result.model.to_dense()) == pytest.approx(result.history[-1].value, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_exchanges_find_a_planted_matrix_that_the_pursuit_misses(seed):
    """Half of a matrix of rank 5 without noise: the value falls below a fifth of GECO's."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(40, 5)) @ rng.normal(size=(30, 5)).T
    rows, cols = np.nonzero(rng.random(truth.shape) < 0.6)
    problem = Problem(Observations.from_coo(rows, cols, truth[rows, cols], truth.shape), Square(), dtype=np.float64)
    value = solve(problem, "geco", rank=5).history[-1].value
    assert solve(problem, "local-search", rank=5, tol=0.0).history[-1].value < 0.2 * value


def test_no_step_raises_the_value_and_the_rank_stays():
    history = solve(planted(Square(), 0), "local-search", rank=5, tol=0.0).history
    values, ranks = history.column("value"), history.column("rank")
    assert np.all(np.diff(values) <= 0) and len(history) > 10
    assert list(ranks[:5]) == [1, 2, 3, 4, 5] and set(ranks[5:]) == {5}


def test_the_end_is_a_point_that_no_exchange_improves():
    result = solve(planted(Logistic(), 1), "local-search", rank=3, tol=0.0)
    assert result.status.reason == "converged" and "No exchange lowers the value at rank 3" in str(result.status)
    assert result.history[-1].value == result.history[-2].value


@pytest.mark.parametrize("polish", [1, 3])
def test_polish_is_the_number_of_exchanges(polish):
    problem = planted(Square(), 0)
    result = solve(problem, LocalSearch(GreedyPursuit("coefficients"), polish), rank=5)
    assert len(result.history) == 5 + polish and result.status.reason == "polish"
    assert f"Made {polish} exchange" in str(result.status)
    values = result.history.column("value")
    assert np.all(values[5:] < values[4:-1])


def test_the_sigma_of_an_exchange_is_that_of_the_gradient_before_it():
    problem = planted(Square(), 0)
    before = solve(problem, LocalSearch(GECO(oracle="dense"), 2, oracle="dense"), rank=4).model.to_dense()
    after = solve(problem, LocalSearch(GECO(oracle="dense"), 3, oracle="dense"), rank=4).history[-1]
    f = Dense(problem.observations, Square())
    assert after.sigma == pytest.approx(np.linalg.norm(f.gradient(before), 2), rel=1e-9)


@pytest.mark.parametrize("pursuit", [GECO(), GreedyPursuit(), NonsmoothPursuit()], ids=lambda one: type(one).__name__)
def test_a_resumed_run_gives_the_same_bits(pursuit, tmp_path):
    solver, problem = LocalSearch(pursuit), planted(Square(), 0)

    def run(**settings):
        result = solve(problem, solver, rank=4, **{"max_iter": 7, "tol": 0.0, **settings})
        return [part.tobytes() for part in (result.model.path, result.model.U, result.history.column("value"))]

    wanted = run()
    for steps in (2, 5):
        run(max_iter=steps, checkpoint=tmp_path / str(steps))
        assert run(checkpoint=Checkpoint(tmp_path / str(steps), resume=True)) == wanted


def test_what_does_not_fit_is_refused_by_name():
    problem = Problem(make_observations(Absolute(), np.random.default_rng(0)), Absolute())
    for method in ("local-search", LocalSearch(NonsmoothPursuit())):
        with pytest.raises(LossError, match=r"requires a smooth objective, got .*Absolute\(\)"):
            solve(problem, method, rank=2)
    rng = np.random.default_rng(0)
    tasks = MultitaskRegression(list(rng.normal(size=(4, 8, 3))), list(rng.normal(size=(4, 8))))
    with pytest.raises(SettingError, match=r'method="local-search" requires .*can move.*, got MultitaskRegression'):
        solve(tasks, "local-search", rank=2)


@pytest.mark.parametrize(
    "setting",
    [{"pursuit": "geco"}, {"pursuit": AISImpute()}, {"polish": 0}, {"polish": 1.5}, {"n_lbfgs": 0}, {"oracle": "qr"}],
    ids=str,
)
def test_bad_settings_are_refused_in_one_sentence(setting):
    (name,) = setting
    with pytest.raises(SettingError, match=rf"^`{name}` must .*[^.]\.$"):
        LocalSearch(**setting)
