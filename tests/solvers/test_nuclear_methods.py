"""Boosting and the other convex methods against cvxpy, the optimality conditions, and their own certificates."""

import numpy as np
import pytest
from helpers import make_observations
from nuclear_cases import both_losses, cvxpy_minimum, every_share, largest_weight, make_problem, solved, values_of
from reference import Dense
from scipy.sparse import coo_array
from scipy.sparse.linalg import svds

import rankwise as rw
from rankwise import LossError, Observations, Problem, SettingError, loss, solve
from rankwise.losses import Absolute, Huber, Logistic, Poisson, Square
from rankwise.solvers import ActiveSubspace, AISImpute, Boosting, Checkpoint

PENALISED = {"boosting": Boosting, "active-subspace": ActiveSubspace}
every_method = pytest.mark.parametrize("kind", PENALISED.values(), ids=PENALISED)


@pytest.mark.parametrize("loss", [Square(), Logistic()], ids=repr)
def test_the_minimum_is_that_of_a_generic_convex_solver(loss):
    problem, f = make_problem(loss)
    weight = 0.2 * largest_weight(f)
    least = cvxpy_minimum(f, weight)
    for kind in (*PENALISED.values(), AISImpute):
        assert solve(problem, kind(weight), tol=1e-5).history[-1].value == pytest.approx(least, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.5, 0.3, 0.15])
def test_all_end_at_one_value_on_movielens(share):
    """MovieLens 100K without its mean, at a share of the largest useful weight; singular values by ARPACK.

    AIS-Impute stops by its change alone, so that it needs a smaller `tol` for the condition on the gradient.
    """
    try:
        seen = rw.datasets.load("movielens-100k")
    except rw.DataError as error:
        pytest.skip(str(error))
    seen = Observations.from_coo(seen.rows, seen.cols, seen.targets - seen.targets.mean(dtype=float), seen.shape)
    problem = Problem(seen, Square())

    def top_of_gradient(predicted):
        gradient = coo_array((predicted - seen.targets, (seen.rows, seen.cols)), seen.shape, dtype=float)
        return svds(gradient.tocsr(), 1, return_singular_vectors=False)[0]

    weight = share * top_of_gradient(np.zeros(seen.n_observed))
    certified = [solve(problem, kind(weight)) for kind in PENALISED.values()]
    thorough = solve(problem, AISImpute(weight), tol=1e-6)
    results = [*certified, thorough, solve(problem, AISImpute(weight))]
    values = [result.history[-1].value for result in results]
    assert max(values) <= (1 + 1e-3) * min(values)
    for result in (*certified, thorough):
        assert top_of_gradient(result.model.at(seen.rows, seen.cols)) <= 1.01 * weight
    for result in certified:
        assert result.history[-1].gap >= result.history[-1].value - min(values)


@every_method
@both_losses
@every_share
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_the_value_falls_to_the_minimum_and_the_gap_bounds_the_distance(kind, loss, share, ridge):
    problem, f, weight, _, least = solved(loss, ridge, share)
    result = solve(problem, kind(weight))
    values, X = values_of(result), result.model.to_dense()
    assert result.status.reason in ("tol", "converged")
    assert np.all(np.diff(values) <= 0)
    assert least * (1 - 1e-9) <= values[-1] <= least * (1 + 1e-4)
    assert values[-1] == pytest.approx(f.value(X) + weight * np.linalg.norm(X, "nuc"), rel=1e-9)
    assert np.linalg.norm(f.gradient(X), 2) <= 1.01 * weight
    gaps = result.history.column("gap")
    assert np.all(gaps >= values[1:] - least - 1e-9 * least) and gaps[-1] <= 0.01 * least


@every_method
@both_losses
def test_from_the_largest_useful_weight_on_the_solution_is_zero_at_once(kind, loss):
    problem, f = make_problem(loss)
    for share in (1 + 1e-6, 3.0):
        result = solve(problem, kind(share * largest_weight(f)), rank=3)
        assert result.model.rank == 0 and len(result.history) == 1 and result.status.reason == "tol"
        assert result.history[-1].value == result.history.initial_value
        assert result.history[-1].gap <= 1e-4 * result.history.initial_value


@every_method
@pytest.mark.parametrize("rank", [1, 3])
def test_without_a_weight_the_solution_is_that_of_the_weight_for_the_rank(kind, rank):
    problem, _ = make_problem(Square(), shape=(30, 20), weights=False)
    weight, _ = AISImpute().search(problem, rank)
    model = solve(problem, kind(), rank=rank, tol=1e-7).model
    wanted = solve(problem, AISImpute(weight), tol=1e-10, max_iter=3000).model
    assert model.rank == wanted.rank <= rank
    np.testing.assert_allclose(model.to_dense(), wanted.to_dense(), atol=1e-2 * np.abs(wanted.to_dense()).max())


@every_method
def test_objective_and_weight_scaled_alike_have_one_solution(kind):
    problem, f = make_problem(Huber())
    o, weight = problem.observations, 0.2 * largest_weight(f)
    scaled = Problem(
        Observations.from_coo(o.rows, o.cols, o.targets, o.shape, weights=8 * o.weights), Huber(), dtype=float
    )
    X, Y = (solve(*run).model.to_dense() for run in ((problem, kind(weight)), (scaled, kind(8 * weight))))
    np.testing.assert_allclose(Y, X, atol=1e-4 * np.abs(X).max())


@every_method
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.usefixtures("small_shards")
def test_two_threads_and_a_resumed_run_give_the_same_bits(kind, dtype, tmp_path):
    rng = np.random.default_rng(10)
    truth = rng.normal(size=(300, 3)) @ rng.normal(size=(400, 3)).T
    seen = Observations.from_dense(truth + rng.normal(size=truth.shape))

    def run(n_jobs, **settings):
        problem = Problem(seen, Square(), dtype=dtype, n_jobs=n_jobs)
        assert len(problem.engine.shards) > 1
        result = solve(problem, kind(60.0), **{"max_iter": 4, "tol": 0.0, **settings})
        parts = result.model.path, result.model.U, result.model.V, values_of(result), result.history.column("gap")
        return [part.astype(float).tobytes() for part in parts]

    wanted = run(1)
    assert run(2) == wanted
    run(1, max_iter=2, checkpoint=tmp_path)
    assert run(1, checkpoint=Checkpoint(tmp_path, resume=True)) == wanted


@every_method
def test_what_does_not_fit_is_refused_by_name(kind):
    absolute = Problem(make_observations(Absolute(), np.random.default_rng(0)), Absolute())
    with pytest.raises(LossError, match=rf"{kind.__name__} requires a smooth objective, got .*Absolute\(\)"):
        solve(absolute, kind(1.0))
    counts = Problem(make_observations(Poisson(), np.random.default_rng(0)), Poisson())
    with pytest.raises(LossError, match="requires a known Lipschitz constant"):
        solve(counts, kind(), rank=2)
    for weight in (0, -1.0, np.nan, "large"):
        with pytest.raises(SettingError, match=r"^`nuclear_weight` must .*[^.]\.$"):
            kind(weight)


def test_boosting_needs_no_lipschitz_constant():
    seen = make_observations(Poisson(), np.random.default_rng(2), (20, 15), 0.5)
    problem, f = Problem(seen, Poisson(), dtype=np.float64), Dense(seen, Poisson())
    weight = 0.2 * largest_weight(f)
    result = solve(problem, Boosting(weight))
    X = result.model.to_dense()
    assert np.linalg.norm(f.gradient(X), 2) <= 1.01 * weight
    assert result.history[-1].gap <= 0.01 * abs(result.history[-1].value)
    np.testing.assert_allclose(
        result.model.U.T @ f.gradient(X) @ result.model.V, -weight * np.eye(result.model.rank), atol=0.01 * weight
    )


def test_a_loss_whose_minimum_is_unknown_has_no_gap():
    @loss(smooth=True, lipschitz=1.0)
    def shifted(x, o):
        return 0.5 * (x - o) ** 2 - 1.0

    problem, f = make_problem(Square())
    result = solve(Problem(problem.observations, shifted), Boosting(0.3 * largest_weight(f)))
    assert all(record.gap is None and record.sigma > 0 for record in result.history)
