"""ADMM for l1 plus nuclear norm: against a generic convex solver, dense matrices, planted outliers; what it refuses."""

from functools import cache

import cvxpy as cp
import numpy as np
import pytest
from helpers import make_observations, outliers
from reference import Dense

from rankwise import LossError, Observations, Problem, Ridged, SettingError, solve
from rankwise.engines import Offsets
from rankwise.losses import Absolute, EpsilonInsensitive, Huber, Quantile, Square
from rankwise.solvers import ADMM, admm, validation

every_weighting = pytest.mark.parametrize("weights", [False, True], ids=["plain", "weighted"])


def make_problem(weights=False, shape=(12, 10), density=0.7, dtype=np.float64, seed=0):
    observations = make_observations(Absolute(), np.random.default_rng(seed), shape, density, weights)
    return Problem(observations, Absolute(), dtype=dtype), Dense(observations, Absolute())


def default_weight(observations):
    """As its docstring says."""
    return np.sqrt(observations.n_observed / np.prod(observations.shape) * max(observations.shape))


@cache
def generic_solve(weights, share):
    """Minimiser and minimum by cvxpy, the nuclear weight being this share of the default."""
    problem, f = make_problem(weights)
    nuclear_weight = share * default_weight(problem.observations)
    observed, size = np.zeros(f.shape), np.zeros(f.shape)
    observed[f.rows, f.cols], size[f.rows, f.cols] = f.targets, f.weights
    X = cp.Variable(f.shape)
    fit = cp.sum(cp.multiply(size, cp.abs(X - observed)))
    program = cp.Problem(cp.Minimize(fit + nuclear_weight * cp.normNuc(X)))
    program.solve(solver="SCS", eps=1e-9, max_iters=200_000)
    assert program.status == "optimal"
    return X.value, program.value, nuclear_weight


@every_weighting
@pytest.mark.parametrize("share", [0.4, 1.0])
@pytest.mark.parametrize("growth", [1.0, 1.2])
def test_the_optimum_is_a_generic_convex_solver_s(weights, share, growth):
    X, value, nuclear_weight = generic_solve(weights, share)
    problem, f = make_problem(weights)
    result = solve(problem, ADMM(nuclear_weight, growth), tol=1e-11, max_iter=5000)
    found = result.model.to_dense()
    assert result.history[-1].value == pytest.approx(value, rel=1e-6)
    assert f.value(found) + nuclear_weight * np.linalg.norm(found, "nuc") == pytest.approx(value, rel=1e-6)
    assert np.linalg.norm(found - X) <= 1e-3 * np.linalg.norm(X)
    assert np.linalg.matrix_rank(X, 1e-3) == np.linalg.matrix_rank(found, 1e-3) > 1


@every_weighting
def test_the_default_run_ends_within_a_percent_of_the_optimum(weights):
    _, value, _ = generic_solve(weights, 1.0)
    result = solve(make_problem(weights)[0], "admm")
    values = result.history.column("value")
    assert result.status.reason == "tol" and abs(values[-1] - values[-2]) <= 1e-4 * values[-1]
    assert value * (1 - 1e-6) <= values[-1] <= 1.01 * value


@every_weighting
def test_the_weight_is_the_square_root_of_density_times_the_longer_side_unless_given(weights):
    problem, _ = make_problem(weights, shape=(9, 14), density=0.4)
    wanted = default_weight(problem.observations)
    assert ADMM().init(problem, 3).nuclear_weight == pytest.approx(wanted)
    assert ADMM(2.5).init(problem, 3).nuclear_weight == 2.5
    named, given = (solve(problem, method).history.column("value") for method in ("admm", ADMM(float(wanted))))
    assert np.array_equal(named, given)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_low_rank_matrix_is_recovered_from_a_tenth_of_gross_outliers(dtype, seed):
    truth, observations = outliers((80, 80), rank=3, density=0.85, seed=seed)
    result = solve(Problem(observations, Absolute(), dtype=dtype), "admm", tol=1e-8)
    assert np.linalg.norm(result.model.to_dense() - truth) <= 1e-3 * np.linalg.norm(truth)
    assert result.model.rank == 3


@every_weighting
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_history_holds_the_objective_of_the_matrix_at_each_step(weights, dtype):
    problem, f = make_problem(weights, dtype=dtype)
    result = solve(problem, ADMM(1.5), tol=0.0, max_iter=30)
    assert result.history.initial_value == pytest.approx(f.value(np.zeros(f.shape)), rel=1e-6)
    assert list(result.history.column("step")) == list(range(1, 31))
    for n_steps in (1, 7, 30):
        model = solve(problem, ADMM(1.5), tol=0.0, max_iter=n_steps).model
        X = model.to_dense()
        wanted = f.value(X) + 1.5 * np.linalg.norm(X, "nuc")
        assert result.history[n_steps - 1].value == pytest.approx(wanted, rel=1e-9 if dtype == np.float64 else 1e-5)
        assert result.history[n_steps - 1].rank == model.rank


@every_weighting
def test_the_run_ends_only_when_the_penalty_has_stopped_growing(weights):
    """A tolerance that any step meets ends the run once the penalty is three times its start."""
    problem, _ = make_problem(weights)
    for growth in (1.05, 1.2, 2.0):
        n_steps = int(np.ceil(np.log(3) / np.log(growth))) + 1
        assert len(solve(problem, ADMM(growth=growth), tol=1e6).history) == n_steps
    assert len(solve(problem, ADMM(growth=1.0), tol=1e6).history) == 1


def dense_iterates(f, nuclear_weight, growth, n_steps):
    """Yield X after each step of ADMM on dense matrices, whose error is free where nothing is observed."""
    observed, weights = np.zeros(f.shape), np.zeros(f.shape)
    observed[f.rows, f.cols], weights[f.rows, f.cols] = f.targets, f.weights
    penalty = first = 1.25 * nuclear_weight / np.linalg.norm(observed, 2)
    error, multiplier = np.zeros(f.shape), np.zeros(f.shape)
    for _ in range(n_steps):
        left, values, right = np.linalg.svd(observed - error + multiplier / penalty, full_matrices=False)
        X = (left * np.maximum(values - nuclear_weight / penalty, 0)) @ right
        rest = observed - X + multiplier / penalty
        error = np.sign(rest) * np.maximum(np.abs(rest) - weights / penalty, 0)
        multiplier += penalty * (observed - X - error)
        penalty = min(growth * penalty, 3 * first)
        yield X


@every_weighting
@pytest.mark.parametrize(("dense_size", "accuracy"), [(250_000, 1e-9), (0, 1e-6)], ids=["exact", "partial"])
def test_the_iterates_are_those_of_dense_matrices(monkeypatch, weights, dense_size, accuracy):
    monkeypatch.setattr(admm, "DENSE_SIZE", dense_size)
    monkeypatch.setattr(admm, "N_STEP_POWER", 100)  # so that the partial decomposition is accurate
    problem, f = make_problem(weights, shape=(30, 24), density=0.5)
    solver = ADMM(2.5, growth=1.1)
    state, rng = solver.init(problem, 3), np.random.default_rng(0)
    ranks = set()
    for X in dense_iterates(f, 2.5, 1.1, 20):
        solver.step(problem, rng, state)
        found = (state.now.U * state.now.s) @ state.now.V.T
        assert np.linalg.norm(found - X) <= accuracy * np.linalg.norm(X)
        ranks.add(state.now.s.size)
    assert len(ranks) > 2 and max(ranks) > 10  # wider than the first block


@every_weighting
def test_partial_decompositions_end_at_the_value_of_exact_ones(monkeypatch, weights):
    problem, _ = make_problem(weights, shape=(60, 50), density=0.5)
    exact = solve(problem, "admm", tol=1e-7)
    monkeypatch.setattr(admm, "DENSE_SIZE", 0)
    partial = solve(problem, "admm", tol=1e-7)
    assert partial.history[-1].value == pytest.approx(exact.history[-1].value, rel=1e-4)
    assert partial.model.rank == exact.model.rank > 5


@every_weighting
@pytest.mark.parametrize("dense_size", [250_000, 0], ids=["exact", "partial"])
def test_the_gap_bounds_the_distance_to_the_minimum_and_vanishes(monkeypatch, weights, dense_size):
    monkeypatch.setattr(admm, "DENSE_SIZE", dense_size)
    _, value, nuclear_weight = generic_solve(weights, 0.4)
    history = solve(make_problem(weights)[0], ADMM(nuclear_weight), tol=1e-10, max_iter=3000).history
    distances = history.column("value") - value
    assert np.all(history.column("gap") >= distances - 1e-5 * value)
    assert history[-1].gap <= 1e-4 * value < history[0].gap


@pytest.mark.parametrize("dense_size", [250_000, 0], ids=["exact", "partial"])
def test_the_minimum_is_zero_from_the_top_singular_value_of_the_signs(monkeypatch, dense_size):
    """Zero is the minimum where a subgradient of the l1 part at zero, which is unique, has norm at most the weight."""
    monkeypatch.setattr(admm, "DENSE_SIZE", dense_size)
    problem, f = make_problem()
    signs = np.zeros(f.shape)
    signs[f.rows, f.cols] = np.sign(f.targets)
    top = np.linalg.norm(signs, 2)
    above, below = (solve(problem, ADMM(share * top), tol=1e-9, max_iter=2000) for share in (1.02, 0.95))
    assert above.model.rank == 0 and above.history[-1].gap <= 1e-6 * above.history[-1].value
    assert below.model.rank > 0


def test_a_matrix_that_would_not_fit_into_memory_is_fitted():
    """Two entries of 40,000 x 40,000, 12.8 GB if it were dense: a small weight reproduces both."""
    n = 40_000
    problem = Problem(Observations.from_coo([0, n - 1], [n - 1, 0], [1.0, 2.0]), Absolute(), dtype=np.float64)
    model = solve(problem, ADMM(0.1), tol=1e-9).model
    assert model.rank == 2
    np.testing.assert_allclose(model.predict_entries([0, n - 1, 5], [n - 1, 0, 5]), [1.0, 2.0, 0.0], atol=1e-6)


def test_available_memory_is_a_plausible_number_of_bytes():
    available = validation.available_bytes()
    assert available is None or 10**6 < available < 10**15


@pytest.mark.parametrize("loss", [Square(), Huber(), Quantile(0.3), EpsilonInsensitive()], ids=repr)
def test_other_losses_are_refused_by_name(loss):
    problem = Problem(make_observations(loss, np.random.default_rng(0)), loss)
    with pytest.raises(
        LossError,
        match=rf'method="admm" requires the l1 loss without a ridge, got Problem with loss {type(loss).__name__}.*l1',
    ):
        solve(problem, "admm")


def test_a_ridge_is_refused_by_name():
    with pytest.raises(LossError, match='method="admm" requires the l1 loss without a ridge, got Ridged'):
        solve(Ridged(make_problem()[0], 0.1), "admm")


@pytest.mark.parametrize(
    "setting",
    [
        *({"nuclear_weight": value} for value in (0, -1.0, np.nan, np.inf, True, "1")),
        *({"growth": value} for value in (0.9, 0, np.nan, np.inf, None, "fast")),
    ],
    ids=str,
)
def test_bad_settings_are_refused_in_one_sentence(setting):
    (name,) = setting
    with pytest.raises(SettingError, match=f"^`{name}` must .*[^.]\\.$"):
        ADMM(**setting)


def test_targets_that_are_all_zero_end_at_zero():
    result = solve(Problem(Observations.from_dense(np.zeros((4, 3))), Absolute()), "admm")
    assert result.model.rank == 0 and result.history[-1].value == 0 and result.status.reason == "tol"


@pytest.mark.parametrize("method", ["admm", "wiberg"])
def test_offsets_are_subtracted_from_the_targets(method):
    rng = np.random.default_rng(2)
    targets = rng.integers(-4, 5, size=(8, 6)).astype(float)
    offsets = Offsets(2.0, rng.integers(-3, 4, 8).astype(float), np.arange(6.0))
    options = {"dtype": np.float64}
    shifted = Problem(Observations.from_dense(targets + offsets.to_dense()), Absolute(), offsets=offsets, **options)
    wanted = solve(Problem(Observations.from_dense(targets), Absolute(), **options), method, rank=2, max_iter=5)
    found = solve(shifted, method, rank=2, max_iter=5)
    np.testing.assert_array_equal(found.model.to_dense(), wanted.model.to_dense() + offsets.to_dense())
    np.testing.assert_allclose(found.history.column("value"), wanted.history.column("value"))


def test_a_rank_above_the_requested_one_is_stated():
    X = np.random.default_rng(0).normal(size=(12, 9))
    result = solve(Problem(X, "l1"), ADMM(nuclear_weight=0.5, max_iter=30), rank=2)
    assert result.model.rank > 2
    assert f"The model has rank {result.model.rank}: this method does not keep it at `rank`=2." in result.status.message
