"""Frank-Wolfe against a generic convex solver, nuclear-norm solutions on the sphere, and its own certificate."""

import numpy as np
import pytest
from helpers import make_observations
from nuclear_cases import both_losses, cvxpy_minimum, every_share, largest_weight, make_problem, solved, values_of
from reference import Dense, top_pair
from scipy.optimize import minimize_scalar

from rankwise import LossError, MultitaskRegression, Observations, Problem, SettingError, solve
from rankwise.losses import Absolute, Logistic, Poisson, Square
from rankwise.solvers import AISImpute, Checkpoint, FrankWolfe
from rankwise.solvers.frank_wolfe import simplex_projection

every_step = pytest.mark.parametrize("corrective", [True, False], ids=["corrective", "plain"])


def on_the_sphere(loss, share, ridge=0.0):
    """A problem, its dense twin, and radius and value of the solution of a nuclear-norm problem."""
    problem, f, weight, X, _ = solved(loss, ridge, share)
    return problem, f, weight, np.linalg.norm(X, "nuc"), f.value(X)


@both_losses
def test_the_minimum_is_that_of_a_generic_convex_solver(loss):
    problem, f = make_problem(loss)
    radius = 0.5 * np.linalg.norm(solved(loss, 0.0, 0.1)[3], "nuc")
    found = solve(problem, FrankWolfe(radius), tol=1e-7).history[-1].value
    assert found == pytest.approx(cvxpy_minimum(f, radius=radius), rel=1e-4)


@every_step
@both_losses
@every_share
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_the_gap_bounds_the_distance_to_the_minimum_over_the_ball(corrective, loss, share, ridge):
    """A solution of ``f + weight ||X||_*`` minimizes f over the ball whose sphere it is on."""
    problem, f, _, radius, least = on_the_sphere(loss, share, ridge)
    result = solve(problem, FrankWolfe(radius, corrective), max_iter=100)
    values, X = values_of(result), result.model.to_dense()
    assert np.all(np.diff(values) <= 0) and values[-1] < values[0]
    assert values[-1] >= least * (1 - 1e-9)
    assert values[-1] == pytest.approx(f.value(X), rel=1e-9)
    assert np.linalg.norm(X, "nuc") <= radius * (1 + 1e-9)
    assert np.all(result.history.column("gap") >= values[1:] - least - 1e-9 * least)


@every_step
@both_losses
def test_the_first_gap_is_the_linear_model_s_decrease_over_the_ball(corrective, loss):
    """At zero it is ``radius ||G||``; what the step gains is subtracted."""
    problem, f, _, radius, _ = on_the_sphere(loss, 0.5)
    first = solve(problem, FrankWolfe(radius, corrective), max_iter=1).history
    assert first[0].gap == pytest.approx(radius * largest_weight(f) - (first.initial_value - first[0].value), rel=1e-4)


@both_losses
@every_share
def test_corrective_steps_reach_the_solution_of_the_penalized_problem(loss, share):
    """Their gradient's top singular value approaches the weight of that problem."""
    problem, f, weight, radius, least = on_the_sphere(loss, share)
    result = solve(problem, FrankWolfe(radius), tol=1e-7)
    assert result.history[-1].value <= least * (1 + 1e-3) and result.history[-1].gap <= 0.01 * least
    assert np.linalg.norm(f.gradient(result.model.to_dense()), 2) == pytest.approx(weight, rel=0.02)
    plain = solve(problem, FrankWolfe(radius, corrective=False), max_iter=len(result.history), tol=0.0)
    assert result.history[-1].value < plain.history[-1].value


@both_losses
def test_plain_steps_meet_the_rate_of_the_theorem(loss):
    """``f - f* <= 2 C / (t + 2)`` with C at most L times the ball's squared diameter, 4 radius**2."""
    problem, _, _, radius, least = on_the_sphere(loss, 0.1)
    values = solve(problem, FrankWolfe(radius, corrective=False), max_iter=60, tol=0.0).history.column("value")
    bound = 8 * problem.lipschitz * radius**2 / (np.arange(1, values.size + 1) + 2)
    assert np.all(values - least <= bound)


def test_a_plain_step_is_the_best_point_between_x_and_the_pair():
    problem, f, _, radius, _ = on_the_sphere(Logistic(), 0.3)
    X = solve(problem, FrankWolfe(radius, corrective=False), max_iter=3, tol=0.0).model.to_dense()
    u, _, v = top_pair(f.gradient(X))
    corner = -radius * np.outer(u, v)
    best = minimize_scalar(lambda g: f.value((1 - g) * X + g * corner), bounds=(0, 1), method="bounded")
    after = solve(problem, FrankWolfe(radius, corrective=False), max_iter=4, tol=0.0).history[-1].value
    assert after == pytest.approx(best.fun, rel=1e-7)


@every_step
def test_a_radius_that_is_too_large_does_not_bind(corrective):
    problem, f = make_problem(Square(), ridge=0.3)
    X = np.zeros(f.shape)
    X[f.rows, f.cols] = f.weights * f.targets / (f.weights + 0.3)  # the minimum over all matrices, entry by entry
    least = f.value(X)
    result = solve(problem, FrankWolfe(1e4, corrective), max_iter=150, tol=0.0)
    assert result.history[-1].value >= least * (1 - 1e-9)
    if corrective:
        assert result.history[-1].value <= least * (1 + 1e-3)
        assert result.model.theta.sum() < 1e3


@pytest.mark.parametrize("radius", [0.5, 3.0, 100.0])
def test_the_projection_is_that_of_a_generic_convex_solver(radius):
    cp = pytest.importorskip("cvxpy")
    values = np.sort(np.random.default_rng(0).exponential(size=6))[::-1]
    x = cp.Variable(6)
    cp.Problem(cp.Minimize(cp.sum_squares(x - values)), [x >= 0, cp.sum(x) <= radius]).solve(solver="CLARABEL")
    np.testing.assert_allclose(simplex_projection(values, radius), x.value, atol=1e-5)
    assert simplex_projection(np.zeros(3), radius).tolist() == [0, 0, 0]
    assert simplex_projection(values, 0.0).tolist() == [0] * 6


@pytest.mark.parametrize("rank", [1, 3])
def test_without_a_radius_it_is_that_of_the_weight_for_the_rank(rank):
    problem, _ = make_problem(Square(), shape=(30, 20), weights=False)
    weight, solution = AISImpute().search(problem, rank)
    model = solve(problem, "frank-wolfe", rank=rank, tol=1e-8).model
    wanted = solve(problem, AISImpute(weight), tol=1e-10, max_iter=3000).model
    assert model.rank <= rank and model.theta.sum() <= solution.s.sum() * (1 + 1e-9)
    np.testing.assert_allclose(model.to_dense(), wanted.to_dense(), atol=0.02 * np.abs(wanted.to_dense()).max())


def test_plain_steps_merge_their_terms():
    problem, _, _, radius, _ = on_the_sphere(Square(), 0.1)
    ranks = solve(problem, FrankWolfe(radius, corrective=False), max_iter=60, tol=0.0).history.column("rank")
    assert ranks.max() <= min(problem.shape) and list(ranks[:10]) == list(range(1, 11))


@every_step
def test_two_threads_and_a_resumed_run_give_the_same_bits(corrective, tmp_path):
    rng = np.random.default_rng(10)
    truth = rng.normal(size=(300, 3)) @ rng.normal(size=(400, 3)).T
    seen = Observations.from_dense(truth + rng.normal(size=truth.shape))

    def run(n_jobs, **settings):
        problem = Problem(seen, Square(), n_jobs=n_jobs)
        result = solve(problem, FrankWolfe(800.0, corrective), **{"max_iter": 4, "tol": 0.0, **settings})
        parts = result.model.path, result.model.U, result.model.V, values_of(result), result.history.column("gap")
        return [part.astype(float).tobytes() for part in parts]

    wanted = run(1)
    assert run(2) == wanted
    run(1, max_iter=2, checkpoint=tmp_path)
    assert run(1, checkpoint=Checkpoint(tmp_path, resume=True)) == wanted


@every_step
def test_the_scale_of_the_targets_scales_the_radius(corrective):
    problem, _ = make_problem(Square(), weights=False)
    o = problem.observations
    scaled = Problem(Observations.from_coo(o.rows, o.cols, 2.0**20 * o.targets, o.shape), Square(), dtype=float)
    X, Y = (
        solve(f, FrankWolfe(radius, corrective), max_iter=20).model.to_dense()
        for f, radius in ((problem, 8.0), (scaled, 8.0 * 2.0**20))
    )
    np.testing.assert_allclose(Y / 2.0**20, X, atol=1e-6 * np.abs(X).max())


def test_plain_steps_need_no_lipschitz_constant():
    seen = make_observations(Poisson(), np.random.default_rng(2), (20, 15), 0.5)
    problem, f = Problem(seen, Poisson(), dtype=np.float64), Dense(seen, Poisson())
    for radius in (10.0, 1e4):  # towards the second, exp overflows
        result = solve(problem, FrankWolfe(radius, corrective=False), max_iter=40)
        values, X = values_of(result), result.model.to_dense()
        assert np.isfinite(X).all() and np.all(np.diff(values) <= 0) and values[-1] < values[0]
        assert f.value(X) == pytest.approx(values[-1], rel=1e-9)


def test_what_does_not_fit_is_refused_by_name():
    absolute = Problem(make_observations(Absolute(), np.random.default_rng(0)), Absolute())
    for method in ("frank-wolfe", FrankWolfe(1.0, corrective=False)):
        with pytest.raises(LossError, match=r"requires a smooth objective, got .*Absolute\(\)"):
            solve(absolute, method, rank=2)
    counts = Problem(make_observations(Poisson(), np.random.default_rng(0)), Poisson())
    for solver in (FrankWolfe(1.0), FrankWolfe(corrective=False)):
        with pytest.raises(LossError, match="FrankWolfe requires a known Lipschitz constant"):
            solve(counts, solver, rank=2)
    rng = np.random.default_rng(0)
    tasks = MultitaskRegression(list(rng.normal(size=(4, 8, 3))), list(rng.normal(size=(4, 8))))
    with pytest.raises(SettingError, match=r'method="frank-wolfe" requires .*can move.*, got MultitaskRegression'):
        solve(tasks, "frank-wolfe", rank=2)


@pytest.mark.parametrize(
    "setting",
    [{"radius": 0}, {"radius": -1.0}, {"radius": np.nan}, {"radius": "big"}, {"corrective": "yes"}, {"n_inner": 0}],
    ids=str,
)
def test_bad_settings_are_refused_in_one_sentence(setting):
    (name,) = setting
    with pytest.raises(SettingError, match=rf"^`{name}` must .*[^.]\.$"):
        FrankWolfe(**setting)
