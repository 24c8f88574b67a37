"""Algorithm 1: under the square loss the pursuit is rank-one matrix pursuit, as a plain NumPy version computes it."""

import numpy as np
import pytest
from helpers import make_observations
from reference import top_pair

from rankwise import LossError, MatrixCompletion, MultitaskRegression, Problem, SettingError, solve
from rankwise.losses import Huber, Logistic, Square
from rankwise.solvers import GreedyPursuit, get

RANK = 12
SHAPES = [(40, 30), (13, 50), (60, 7)]
VARIANTS = ("coefficients", "economic")
METHODS = ("r1mp", "r1mp-economic", "glrl", "eglrl", "glrl-none")


def plain_r1mp(observations, economic, rank):
    """Wang et al., Algorithms 1 and 2, with a dense SVD and `lstsq`; the matrix at each rank."""
    where = (observations.rows, observations.cols)
    w = np.ones(observations.n_observed) if observations.weights is None else observations.weights
    X, columns, terms, found = np.zeros(observations.shape), [], [], []
    for _ in range(rank):
        residual = np.zeros(observations.shape)
        residual[where] = w * (observations.targets - X[where])
        u, _, v = top_pair(residual)
        if economic:
            terms, columns = [X, np.outer(u, v)], [X[where], np.outer(u, v)[where]]
        else:
            terms, columns = [*terms, np.outer(u, v)], [*columns, np.outer(u, v)[where]]
        root = np.sqrt(w)
        theta = np.linalg.lstsq(root[:, None] * np.column_stack(columns), root * observations.targets, rcond=None)[0]
        X = np.tensordot(theta, np.array(terms), axes=1)
        found.append(X)
    return found


def make(shape, weights=False, seed=9):
    return make_observations(Square(), np.random.default_rng(seed), shape, density=0.5, weights=weights)


def exact(observations, refine, rank=RANK):
    problem = Problem(observations, Square(), dtype=np.float64)
    return problem, solve(problem, GreedyPursuit(refine, "dense"), rank=rank)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("weights", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("refine", VARIANTS)
def test_the_pursuit_is_r1mp_at_every_rank(shape, weights, refine):
    observations = make(shape, weights)
    _, result = exact(observations, refine)
    for rank, wanted in enumerate(plain_r1mp(observations, refine == "economic", RANK), start=1):
        np.testing.assert_allclose(result.model.to_dense(rank), wanted, rtol=0, atol=1e-8 * np.abs(wanted).max())


@pytest.mark.parametrize("refine", VARIANTS)
def test_the_iterative_oracle_gives_the_same_r1mp(refine):
    observations = make((40, 30))
    problem = Problem(observations, Square(), dtype=np.float64)
    result = solve(problem, GreedyPursuit(refine, "lanczos"), rank=4)
    wanted = plain_r1mp(observations, refine == "economic", 4)[-1]
    np.testing.assert_allclose(result.model.to_dense(), wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize("weights", [False, True], ids=["plain", "weighted"])
def test_the_residual_is_orthogonal_to_every_chosen_term(weights):
    observations = make((40, 30), weights)
    problem, result = exact(observations, "coefficients")
    G = problem.gradient() @ np.eye(30)
    against = np.einsum("ik,ij,jk->k", result.model.U, G, result.model.V)
    assert np.abs(against).max() <= 1e-10 * np.linalg.norm(G)


@pytest.mark.parametrize("weights", [False, True], ids=["plain", "weighted"])
def test_the_economic_residual_is_orthogonal_to_the_estimate_and_the_new_term(weights):
    observations = make((40, 30), weights)
    problem, result = exact(observations, "economic")
    G = problem.gradient() @ np.eye(30)
    u, v = result.model.U[:, -1], result.model.V[:, -1]
    for term in (np.outer(u, v), result.model.to_dense()):
        assert abs(np.sum(G * term)) <= 1e-10 * np.linalg.norm(G) * np.linalg.norm(term)


def test_refitting_more_is_never_worse_at_the_first_two_ranks():
    """Beyond two ranks the variants have chosen different terms; up to there the spaces they search are nested."""
    values = {refine: exact(make((40, 30)), refine, 2)[1].history.column("value") for refine in ("none", *VARIANTS)}
    assert np.all(values["coefficients"] <= values["economic"] * (1 + 1e-12))
    assert np.all(values["economic"] <= values["none"] * (1 + 1e-12))


@pytest.mark.parametrize("refine", VARIANTS)
def test_a_planted_matrix_seen_whole_is_recovered_at_its_rank(refine):
    rng = np.random.default_rng(10)
    truth = rng.normal(size=(20, 3)) @ rng.normal(size=(3, 15))
    solver = GreedyPursuit(refine, "dense")
    fitted = MatrixCompletion(rank=3, method=solver, offsets="none", dtype="float64").fit(truth)
    np.testing.assert_allclose(fitted.model_.to_dense(), truth, atol=1e-10)


@pytest.mark.parametrize("method", ["r1mp", "r1mp-economic"])
@pytest.mark.parametrize("loss", [Logistic(), Huber()], ids=repr)
def test_r1mp_refuses_other_losses_by_name(method, loss):
    problem = Problem(make_observations(loss, np.random.default_rng(0)), loss)
    with pytest.raises(
        LossError, match=rf'method="{method}" requires the square loss, got Problem with loss {type(loss).__name__}'
    ):
        solve(problem, method, rank=1)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_runs_by_name_as_its_solver(method):
    problem = Problem(make((12, 9)), Square(), dtype=np.float64)
    by_name = solve(problem, method, rank=3).model
    by_object = solve(problem, get(method), rank=3).model
    assert np.array_equal(by_name.path, by_object.path) and np.array_equal(by_name.U, by_object.U)


def test_names_tell_the_variants_apart():
    problem = Problem(make((12, 9)), Square(), dtype=np.float64)
    found = {name: solve(problem, name, rank=4).history[-1].value for name in METHODS}
    assert found["r1mp"] == found["glrl"] and found["r1mp-economic"] == found["eglrl"]
    assert found["glrl"] < found["eglrl"] < found["glrl-none"]


def test_r1mp_takes_any_quadratic_objective():
    rng = np.random.default_rng(11)
    tasks = MultitaskRegression(list(rng.normal(size=(4, 8, 3))), list(rng.normal(size=(4, 8))))
    assert solve(tasks, "r1mp", rank=2).model.rank == 2


@pytest.mark.parametrize("method", ["R1MP", "greedy", 3, None])
def test_unknown_methods_are_refused(method):
    with pytest.raises(SettingError, match="ethod"):
        solve(Problem(make((12, 9)), Square()), method, rank=1)
