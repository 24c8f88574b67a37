"""The ways to find a top singular pair, against LAPACK and ARPACK, on every operator the package has."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import SMOOTH_LOSSES, make_observations
from reference import Dense, random_point, top_pair
from scipy.sparse.linalg import LinearOperator, aslinearoperator, svds

from rankwise import MultitaskRegression, Problem, Ridged, SettingError, spectral
from rankwise.spectral import DenseSVD, Lanczos, LowRank, Operator, PowerMethod, SparsePlusLowRank, as_operator

ORACLES = [PowerMethod(1000), Lanczos(tol=1e-9), DenseSVD()]
ITERATIVE = [PowerMethod(), Lanczos(), Lanczos(block=3)]


def dense():
    A = np.random.default_rng(1).normal(size=(14, 9))
    return A, A


def sparse():
    A = sp.random_array((40, 25), density=0.2, rng=np.random.default_rng(2), format="csr")
    return A, A.toarray()


def low_rank(dtype=np.float64):
    rng = np.random.default_rng(3)
    U, V, theta = rng.normal(size=(20, 3)).astype(dtype), rng.normal(size=(30, 3)).astype(dtype), rng.normal(size=3)
    return LowRank(theta, U, V), (U.astype(float) * theta) @ V.T.astype(float)


def sparse_plus_low_rank():
    L, dense_L = low_rank()
    S = sp.random_array((20, 30), density=0.3, rng=np.random.default_rng(4), format="csr")
    return SparsePlusLowRank(S, L), S.toarray() + dense_L


def multitask():
    rng = np.random.default_rng(5)
    A, Y = rng.normal(size=(6, 12, 5)), rng.normal(size=(6, 12))
    objective = MultitaskRegression(list(A), list(Y))
    W = random_point(objective, rng)
    return objective.gradient(), np.column_stack([a.T @ (a @ w - y) for a, w, y in zip(A, W.T, Y, strict=True)])


def entrywise(loss, ridge=0.0, weights=False):
    def make():
        rng = np.random.default_rng(6)
        observations = make_observations(loss, rng, weights=weights)
        objective = Problem(observations, loss, dtype=np.float64)
        objective = Ridged(objective, ridge) if ridge else objective
        X = random_point(objective, rng)
        return objective.gradient(), Dense(observations, loss, ridge).gradient(X)

    return make


OPERATORS = {
    "dense": dense,
    "sparse": sparse,
    "low-rank": low_rank,
    "sparse-plus-low-rank": sparse_plus_low_rank,
    "multitask": multitask,
    **{f"{loss!r}": entrywise(loss) for loss in SMOOTH_LOSSES},
    **{f"{loss!r}-weighted": entrywise(loss, weights=True) for loss in SMOOTH_LOSSES},
    **{f"{loss!r}-ridged": entrywise(loss, ridge=0.7) for loss in SMOOTH_LOSSES},
}
every_operator = pytest.mark.parametrize("make", OPERATORS.values(), ids=OPERATORS)


def orthonormal(rng, rows, cols):
    return np.linalg.qr(rng.normal(size=(rows, cols)))[0]


def with_spectrum(values, shape, seed=7):
    rng = np.random.default_rng(seed)
    return (orthonormal(rng, shape[0], len(values)) * values) @ orthonormal(rng, shape[1], len(values)).T


EDGES = {
    "one-row": np.arange(1.0, 6.0)[None, :],
    "one-column": np.arange(-3.0, 2.0)[:, None],
    "one-by-one": np.array([[-2.5]]),
    "rank-one": np.outer([1.0, -2.0, 0.0], [3.0, 4.0]),
    "one-entry": np.eye(1, 12, 7).T @ np.eye(1, 5, 2),
    "identity": np.eye(8),
    "tie-at-the-top": with_spectrum([2.0, 2.0, 1.0], (9, 7)),
    "reflected-tie": np.diag([3.0, -3.0, 1.0]),
    "wide": with_spectrum([5.0, 1.0], (2, 60)),
    "tall": with_spectrum([5.0, 1.0], (60, 2)),
    "ill-conditioned": with_spectrum(10.0 ** -np.arange(0.0, 18.0, 2.0), (12, 9)),
}


def check_triplet(triplet, A, tol):
    """Unit vectors, sigma = u.T A v, the residual law, and sigma against LAPACK."""
    u, sigma, v, n_products = triplet
    top = np.linalg.norm(A, 2)
    assert abs(np.linalg.norm(u) - 1) < 1e-12 and abs(np.linalg.norm(v) - 1) < 1e-12
    assert sigma == pytest.approx(u @ A @ v, rel=1e-12)
    assert sigma == pytest.approx(top, rel=max(tol**2, 1e-12))
    assert np.linalg.norm(A @ v - sigma * u) <= tol * sigma
    assert np.linalg.norm(A.T @ u - sigma * v) <= tol * sigma
    assert n_products >= 1


@every_operator
def test_products_are_those_of_the_dense_matrix(make):
    operator, A = make()
    operator = aslinearoperator(operator)
    rng = np.random.default_rng(0)
    v, u = rng.normal(size=A.shape[1]), rng.normal(size=A.shape[0])
    np.testing.assert_allclose(operator @ v, A @ v, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(operator.rmatvec(u), A.T @ u, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(operator @ np.eye(A.shape[1]), A, rtol=1e-11, atol=1e-11)


@every_operator
def test_gram_is_the_two_products_in_one(make):
    operator, A = make()
    operator, rng = as_operator(operator), np.random.default_rng(0)
    v, shift = rng.normal(size=A.shape[1]), rng.normal(size=A.shape[0])
    for added in (None, shift):
        z, w = operator.gram(v, added)
        wanted = A @ v + (0 if added is None else added)
        np.testing.assert_allclose(z, wanted, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(w, A.T @ wanted, rtol=1e-11, atol=1e-11)
    assert operator.twice(v).tobytes() == operator.gram(v)[1].tobytes()


def test_the_adjoint_of_a_low_rank_operator_is_its_transpose():
    operator, A = low_rank()
    np.testing.assert_allclose(operator.H @ np.eye(A.shape[0]), A.T, atol=1e-12)


def test_float32_factors_are_not_copied_and_cost_float32_accuracy():
    operator, A = low_rank(np.float32)
    v = np.random.default_rng(0).normal(size=A.shape[1])
    assert operator.U.dtype == np.float32 and (operator @ v).dtype == np.float64
    np.testing.assert_allclose(operator @ v, A @ v, rtol=1e-5, atol=1e-5)


@every_operator
@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
def test_every_oracle_finds_the_top_triplet_of_every_operator(oracle, make):
    operator, A = make()
    triplet = oracle(operator, rng=np.random.default_rng(0))
    check_triplet(triplet, A, tol=1e-8)
    u, _, v = top_pair(A)
    assert abs(triplet.u @ u) == pytest.approx(1, abs=1e-8) and abs(triplet.v @ v) == pytest.approx(1, abs=1e-8)
    known = svds(aslinearoperator(operator), k=1, random_state=0)[1][0]
    assert triplet.sigma == pytest.approx(known, rel=1e-9)


@pytest.mark.parametrize("A", EDGES.values(), ids=EDGES)
@pytest.mark.parametrize("oracle", [*ORACLES, *ITERATIVE], ids=repr)
def test_edge_matrices_do_not_break_an_oracle(oracle, A):
    for seed in range(3):
        check_triplet(oracle(A, rng=np.random.default_rng(seed)), A, tol=1e-5)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (6, 4)])
@pytest.mark.parametrize("oracle", [*ORACLES, *ITERATIVE], ids=repr)
def test_a_zero_matrix_has_sigma_zero_and_u_zero(oracle, shape):
    u, sigma, v, _ = oracle(np.zeros(shape), rng=np.random.default_rng(0))
    assert sigma == 0.0 and not u.any() and np.linalg.norm(v) == pytest.approx(1)


@pytest.mark.parametrize("scale", [1e-150, 1e-120, 1e-90, 1e-30, 1e30, 1e90, 1e120, 1e150])
@pytest.mark.parametrize("oracle", [PowerMethod(300), Lanczos(), DenseSVD()], ids=repr)
def test_sigma_scales_with_the_matrix(oracle, scale):
    A = with_spectrum([3.0, 1.0, 0.5], (6, 5))
    plain, scaled = (oracle(s * A, rng=np.random.default_rng(0)) for s in (1.0, scale))
    assert scaled.sigma / scale == pytest.approx(plain.sigma, rel=1e-10)
    assert abs(scaled.v @ plain.v) == pytest.approx(1, abs=1e-10)


@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-10])
@pytest.mark.parametrize(
    "values",
    [
        np.r_[1.0, 1.0 - 1e-9, np.linspace(0.9, 0.1, 100)],
        np.linspace(1.0, 0.99, 120),
        1.0 - 1e-4 * np.arange(120.0),
        np.r_[np.ones(60), np.linspace(0.999, 0.0, 60)],
    ],
    ids=["two-nearly-equal", "crowded", "arithmetic", "sixty-equal"],
)
def test_lanczos_meets_its_tolerance_at_tiny_gaps(values, tol):
    A = with_spectrum(values, (160, 130))
    u, sigma, v, _ = Lanczos(tol=tol)(A, rng=np.random.default_rng(0))
    assert np.linalg.norm(A.T @ u - sigma * v) <= tol * sigma * 1.01 + 1e-13
    assert (1 - tol) * values[0] <= sigma <= values[0] * (1 + 1e-12)


class Counted(LinearOperator):
    """A matrix that counts its products."""

    def __init__(self, A):
        super().__init__(A.dtype, A.shape)
        self.A, self.n = A, 0

    def _matvec(self, v):
        self.n += 1
        return self.A @ v

    def _rmatvec(self, u):
        self.n += 1
        return self.A.T @ u


class CountedFused(Counted, Operator):
    def gram(self, v, shift=None):
        self.n += 2 * v[0].size
        z = self.A @ v if shift is None else self.A @ v + shift
        return z, self.A.T @ z


@pytest.mark.parametrize("A", [*EDGES.values(), np.zeros((4, 3)), dense()[1]], ids=[*EDGES, "zero", "dense"])
@pytest.mark.parametrize("kind", [Counted, CountedFused])
@pytest.mark.parametrize("oracle", [*ORACLES, *ITERATIVE, Lanczos(tol=1e-9, block=1, max_blocks=2)], ids=repr)
def test_the_number_of_products_is_what_was_done(oracle, kind, A):
    operator = kind(A)
    assert oracle(operator, rng=np.random.default_rng(0)).n_products == operator.n


def test_thirty_power_iterations_cost_sixty_one_products():
    assert PowerMethod()(dense()[0], rng=np.random.default_rng(0)).n_products == 2 * 30 + 1


@every_operator
def test_sigma_is_never_overestimated_and_grows_with_the_iterations(make):
    operator, A = make()
    top = np.linalg.norm(A, 2) * (1 + 1e-12)
    for seed in range(3):
        found = [PowerMethod(n)(operator, rng=np.random.default_rng(seed)).sigma for n in range(1, 9)]
        assert max(found) <= top
        assert all(later >= earlier * (1 - 1e-12) for earlier, later in pairwise(found))
        assert Lanczos(tol=0.1)(operator, rng=np.random.default_rng(seed)).sigma <= top


@pytest.mark.parametrize("oracle", [PowerMethod(2), Lanczos(tol=0.3)], ids=repr)
def test_the_generator_alone_decides_the_start(oracle):
    A = dense()[0]
    first, again, other = (oracle(A, rng=np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first.v, again.v) and not np.array_equal(first.v, other.v)


MOVES = {
    "add": lambda objective, u, v: objective.add(1.0, 0.1, u, v),
    "replace": lambda objective, u, v: objective.replace(np.zeros(objective.point.rank)),
    "reset": lambda objective, u, v: objective.reset(),
    "scratch": lambda objective, u, v: objective.along_terms()(objective.point.theta),
}


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_a_gradient_taken_before_a_move_refuses_to_answer(move, ridge):
    rng, loss = np.random.default_rng(0), SMOOTH_LOSSES[0]
    objective = Problem(make_observations(loss, rng), loss)
    objective = Ridged(objective, ridge) if ridge else objective
    random_point(objective, rng)
    gradient = objective.gradient()
    u, v = np.ones(gradient.shape[0]), np.ones(gradient.shape[1])
    gradient.matvec(v)
    move(objective, u, v)
    for ask in (lambda: gradient.matvec(v), lambda: gradient.rmatvec(u), lambda: gradient.gram(v)):
        with pytest.raises(RuntimeError, match="X has changed since"):
            ask()


def test_names_give_oracles_and_objects_pass_through():
    assert {name: spectral.get(name) for name in spectral.ORACLES} == {
        "power": PowerMethod(30),
        "lanczos": Lanczos(),
        "dense": DenseSVD(),
    }
    mine = Lanczos(tol=0.5)
    assert spectral.get(mine) is mine


@pytest.mark.parametrize("oracle", ["arpack", None, 3])
def test_what_is_no_oracle_is_refused(oracle):
    with pytest.raises(SettingError, match="racle"):
        spectral.get(oracle)


@pytest.mark.parametrize(
    "make",
    [
        lambda: PowerMethod(0),
        lambda: PowerMethod(2.5),
        lambda: PowerMethod(True),
        lambda: Lanczos(tol="0.1"),
        lambda: Lanczos(tol=0.0),
        lambda: Lanczos(tol=np.nan),
        lambda: Lanczos(max_blocks=1),
        lambda: Lanczos(max_blocks=2.5),
        lambda: Lanczos(max_restarts=-1),
        lambda: Lanczos(block=0),
    ],
    ids=[
        "no-iterations",
        "half-an-iteration",
        "true-iterations",
        "tol-text",
        "tol-0",
        "tol-nan",
        "basis-1",
        "basis-2.5",
        "restarts--1",
        "block-0",
    ],
)
def test_settings_that_find_nothing_are_refused(make):
    with pytest.raises(SettingError, match=r"must be|requires"):
        make()


@pytest.mark.parametrize("decay", [0.25, 0.5, 1.0])
def test_a_quarter_of_the_passes_does_what_thirty_power_iterations_do(decay):
    values = np.arange(1.0, 201.0) ** -decay
    operator = CountedFused(with_spectrum(values, (260, 230)))
    by_power = PowerMethod()(operator, rng=np.random.default_rng(1)).sigma
    for block in (1, 8):
        found = Lanczos(tol=0.01, block=block)(operator, rng=np.random.default_rng(1))
        assert found.n_products / (2 * block) <= 30 / 4
        assert values[0] - found.sigma <= max(values[0] - by_power, 1e-4 * values[0])


def test_lanczos_restarts_as_often_as_it_may():
    A = np.diag(np.linspace(1.0, 1.01, 200))  # too crowded for a few blocks
    found = [Lanczos(1e-12, max_blocks=3, max_restarts=n)(A, rng=np.random.default_rng(0)) for n in (0, 1, 5)]
    once = found[0].n_products
    assert [each.n_products for each in found] == [once, 2 * once, 6 * once]
    assert found[0].sigma < found[1].sigma < found[2].sigma < 1.01
