"""Several columns at a time: block singular triplets, block products, and moving to any low-rank matrix."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import SMOOTH_LOSSES, make_observations
from reference import Dense, matrix_of, random_point
from scipy.sparse.linalg import aslinearoperator

from rankwise import Observations, Problem, Ridged
from rankwise.engines.threads import Threads
from rankwise.kernels import pattern
from rankwise.losses import Logistic, Square
from rankwise.spectral import LowRank, Scaled, SparsePlusLowRank, block_svd, tall, widen
from rankwise.spectral.blocks import orthonormal, right_svd

SHAPE = (40, 25)
every_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])
DIGITS = {np.float32: 1e-5, np.float64: 1e-12}


def decaying(rng, shape=SHAPE, rank=None, ratio=0.4):
    """A matrix whose singular values fall by `ratio`, so that a few power iterations see the leading ones."""
    k = min(shape) if rank is None else rank
    left, right = (np.linalg.qr(rng.normal(size=(size, k)))[0] for size in shape)
    return (left * 3 * ratio ** np.arange(k)) @ right.T


def make_problem(loss=None, dtype=np.float64, ridge=0.0, shape=(12, 9), weights=True):
    loss = loss or Square()
    observations = make_observations(loss, np.random.default_rng(3), shape, 0.5, weights)
    problem = Problem(observations, loss, dtype=dtype)
    return (Ridged(problem, ridge) if ridge else problem), Dense(observations, loss, ridge)


def operator_and_matrix(kind):
    """An operator of some kind and the matrix it stands for."""
    rng = np.random.default_rng(0)
    if kind.startswith("gradient"):
        objective, f = make_problem(Logistic(), ridge=0.5 if "ridge" in kind else 0.0, shape=SHAPE)
        X = random_point(objective, rng)
        return objective.gradient(), f.gradient(X)
    dense, sparse = decaying(rng), sp.random_array(SHAPE, density=0.2, rng=rng, format="csr")
    low = np.array([5.0, -2.0, 1.0]), rng.normal(size=(SHAPE[0], 3)), rng.normal(size=(SHAPE[1], 3))
    product = (low[1] * low[0]) @ low[2].T
    return {
        "dense": (dense, dense),
        "operator": (aslinearoperator(dense), dense),
        "sparse": (sparse, sparse.toarray()),
        "low rank": (LowRank(*low), product),
        "sparse plus low rank": (SparsePlusLowRank(sparse, LowRank(*low)), sparse.toarray() + product),
    }[kind]


KINDS = ("dense", "operator", "sparse", "low rank", "sparse plus low rank", "gradient", "gradient with ridge")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 4, 25, 60])
def test_block_triplets_are_those_of_lapack(kind, k):
    operator, matrix = operator_and_matrix(kind)
    start = np.random.default_rng(5).normal(size=(SHAPE[1], k))
    U, s, V, _ = block_svd(operator, start, 500)
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    k = min(k, *SHAPE)
    assert U.shape == (SHAPE[0], k) and s.shape == (k,) and V.shape == (SHAPE[1], k)
    for side in (U, V):
        np.testing.assert_allclose(side.T @ side, np.eye(k), atol=1e-10)
    assert np.all(np.diff(s) <= 0)
    np.testing.assert_allclose(s[: k // 2 + 1], values[: k // 2 + 1], rtol=1e-8, atol=1e-10 * values[0])
    np.testing.assert_allclose(U.T @ matrix @ V, np.diag(s), atol=1e-9 * values[0])
    best = (left[:, :1] * values[:1]) @ right[:1]
    np.testing.assert_allclose((U[:, :1] * s[:1]) @ V[:, :1].T, best, atol=1e-5 * values[0])


@pytest.mark.parametrize("n_iter", [1, 2, 5])
def test_values_are_found_from_below_and_more_iterations_come_closer(n_iter):
    A = decaying(np.random.default_rng(2), ratio=0.8)
    exact = np.linalg.svd(A, compute_uv=False)[:6]
    start = np.random.default_rng(3).normal(size=(SHAPE[1], 6))
    rough, better = (block_svd(A, start, n)[1] for n in (n_iter, n_iter + 1))
    assert np.all(rough <= better + 1e-12) and np.all(better <= exact + 1e-12)
    assert (exact - better).sum() < 0.9 * (exact - rough).sum()


@pytest.mark.parametrize("k", [1, 3, 7])
def test_a_start_that_spans_the_answer_gives_it_at_once(k):
    A = decaying(np.random.default_rng(4), rank=k)
    _, s, V = np.linalg.svd(A, full_matrices=False)
    found = block_svd(A, V[:k].T @ np.random.default_rng(0).normal(size=(k, k)), 1)
    np.testing.assert_allclose(found[1], s[:k], rtol=1e-10)
    np.testing.assert_allclose((found[0] * found[1]) @ found[2].T, A, atol=1e-10)


class Counting(LowRank):
    products = 0

    def _matmat(self, V):
        self.products += V.shape[1]
        return super()._matmat(V)

    def _rmatmat(self, U):
        self.products += U.shape[1]
        return super()._rmatmat(U)


@pytest.mark.parametrize("n_iter", [1, 3, 8])
@pytest.mark.parametrize("k", [1, 5])
def test_products_are_counted_as_they_are_made(n_iter, k):
    rng = np.random.default_rng(6)
    operator = Counting(np.ones(9), *(rng.normal(size=(size, 9)) for size in SHAPE))
    assert block_svd(operator, rng.normal(size=(SHAPE[1], k)), n_iter)[3] == operator.products == (2 * n_iter + 1) * k


@pytest.mark.parametrize("scale", [0.0, 1e-140, 1e-30, 1.0, 1e140])
def test_any_scale_and_any_rank_is_taken(scale):
    A = scale * decaying(np.random.default_rng(7), rank=2)
    U, s, V, _ = block_svd(A, np.random.default_rng(8).normal(size=(SHAPE[1], 5)), 3)
    for side in (U, V):
        np.testing.assert_allclose(side.T @ side, np.eye(5), atol=1e-10)
    np.testing.assert_allclose((U * s) @ V.T, A, atol=1e-9 * scale)


@pytest.mark.parametrize(
    "columns",
    [
        np.random.default_rng(0).normal(size=(30, 6)),
        np.random.default_rng(0).normal(size=(30, 6)) * 10.0 ** np.arange(-12, 12, 4),
        np.repeat(np.random.default_rng(0).normal(size=(30, 3)), 2, axis=1) + 1e-9,
        np.vander(np.linspace(0, 1, 30), 6) @ np.diag([1, 1e-5, 1, 1e-9, 1, 1]),
        np.zeros((30, 2)),
        np.zeros((30, 0)),
    ],
    ids=["random", "scaled", "twins", "ill-conditioned", "zero", "none"],
)
def test_orthonormal_columns_hold_the_given_ones(columns):
    Q = orthonormal(columns) if columns.size else columns
    assert Q.shape == columns.shape
    np.testing.assert_allclose(Q.T @ Q, np.eye(Q.shape[1]), atol=1e-12)
    for column in columns.T:
        assert np.linalg.norm(column - Q @ (Q.T @ column)) <= 1e-8 * np.linalg.norm(column) + 1e-12 * abs(columns).max()


def test_widening_keeps_the_columns_and_adds_random_ones():
    V = np.random.default_rng(0).normal(size=(8, 3))
    wide = widen(V, 5, np.random.default_rng(1))
    assert wide.shape == (8, 5) and np.array_equal(wide[:, :3], V) and np.linalg.matrix_rank(wide) == 5
    assert np.array_equal(widen(V, 2, np.random.default_rng(1)), V)
    assert widen(np.zeros((8, 0)), 2, np.random.default_rng(1)).shape == (8, 2)


@every_dtype
@pytest.mark.parametrize("k", [8, 24])
def test_block_kernels_are_numpy_s_products(dtype, k):
    rng = np.random.default_rng(9)
    G = sp.random_array((30, 20), density=0.3, rng=rng, format="csr").astype(dtype)
    V, U = (rng.normal(size=(size, k)).astype(dtype) for size in (20, 30))
    pattern_of = G.indptr.astype(np.uint64), G.indices.astype(np.uint32), G.data
    rows, cols = np.full((30, k), np.nan), np.ones((20, k))
    pattern.product_block(*pattern_of, V, rows)
    pattern.transposed_block(*pattern_of, U, cols)
    both_rows, both_cols, shift = np.full((30, k), np.nan), np.zeros((20, k)), rng.normal(size=(30, k))
    pattern.gram_block(*pattern_of, V, shift, both_rows, both_cols)
    exact = G.toarray().astype(float)
    np.testing.assert_allclose(rows, exact @ V, rtol=0, atol=1e-13 * k * np.abs(V).max())
    np.testing.assert_allclose(cols - 1.0, exact.T @ U, rtol=0, atol=1e-13 * k * np.abs(U).max())
    np.testing.assert_allclose(both_rows, exact @ V + shift, rtol=0, atol=1e-13 * k * np.abs(V).max())
    np.testing.assert_allclose(both_cols, exact.T @ (exact @ V + shift), rtol=0, atol=1e-12 * k * np.abs(V).max())


@pytest.mark.parametrize("loss", SMOOTH_LOSSES, ids=repr)
@pytest.mark.parametrize("ridge", [0.0, 0.4])
@every_dtype
def test_a_gradient_s_block_products_are_the_dense_gradient_s(loss, ridge, dtype):
    objective, f = make_problem(loss, dtype, ridge)
    rng = np.random.default_rng(10)
    G = f.gradient(random_point(objective, rng))
    gradient = objective.gradient()
    for k in (1, 4):
        V, U = rng.normal(size=(9, k)), rng.normal(size=(12, k))
        np.testing.assert_allclose(gradient.matmat(V), G @ V, atol=10 * DIGITS[dtype] * np.abs(G).max())
        np.testing.assert_allclose(gradient.rmatmat(U), G.T @ U, atol=10 * DIGITS[dtype] * np.abs(G).max())


@pytest.mark.usefixtures("small_shards")
def test_block_products_join_shards_as_single_ones_do():
    rng = np.random.default_rng(11)
    rows, cols = np.nonzero(rng.random((700, 300)) < 0.9)
    problem = Problem(Observations.from_coo(rows, cols, rng.normal(size=rows.size)), Square(), dtype=np.float64)
    assert len(problem.engine.shards) > 1
    gradient = problem.gradient()
    V, U = rng.normal(size=(300, 3)), rng.normal(size=(700, 3))
    np.testing.assert_allclose(gradient.matmat(V), np.column_stack([gradient @ v for v in V.T]), rtol=1e-12)
    np.testing.assert_allclose(gradient.rmatmat(U), np.column_stack([gradient.T @ u for u in U.T]), rtol=1e-12)
    problem.close()


@pytest.mark.parametrize("loss", SMOOTH_LOSSES, ids=repr)
@pytest.mark.parametrize("ridge", [0.0, 0.4])
@every_dtype
def test_a_move_goes_to_the_matrix_whatever_was_there(loss, ridge, dtype):
    objective, f = make_problem(loss, dtype, ridge)
    rng = np.random.default_rng(12)
    for rank in (3, 1, 9, 0, 2):
        theta, U, V = rng.normal(size=rank), rng.normal(size=(12, rank)) / 4, rng.normal(size=(9, rank)) / 4
        random_point(objective, rng)
        objective.move(theta, U, V)
        X = (U * theta) @ V.T
        check(objective, f, X, DIGITS[dtype])
    u, v = rng.normal(size=12) / 4, rng.normal(size=9) / 4
    value, slope = objective.along(u, v)(np.array([0.5, 2.0]))
    assert value == pytest.approx(f.value(0.5 * X + 2 * np.outer(u, v)), rel=10 * DIGITS[dtype])
    there = f.gradient(0.5 * X + 2 * np.outer(u, v))
    np.testing.assert_allclose(slope, [np.sum(there * X), u @ there @ v], rtol=1e-3, atol=1e2 * DIGITS[dtype])
    objective.add(0.5, 2.0, u, v)
    X = 0.5 * X + 2 * np.outer(u, v)
    check(objective, f, X, DIGITS[dtype])
    objective.replace(np.array([1.0, 0.0, -1.0]))
    X = np.outer(U[:, 0], V[:, 0]) - np.outer(u, v)
    check(objective, f, X, DIGITS[dtype])
    terms = np.array([0.3, 0.2, 0.1])
    X = 0.3 * np.outer(U[:, 0], V[:, 0]) + 0.2 * np.outer(U[:, 1], V[:, 1]) + 0.1 * np.outer(u, v)
    assert objective.along_terms()(terms)[0] == pytest.approx(f.value(X), rel=10 * DIGITS[dtype])


def check(objective, f, X, digits):
    np.testing.assert_allclose(matrix_of(objective.point), X, atol=10 * digits)
    assert objective.value() == pytest.approx(f.value(X), rel=10 * digits)
    gradient = objective.gradient()
    np.testing.assert_allclose(gradient.matmat(np.eye(X.shape[1])), f.gradient(X), atol=1e2 * digits)
    assert gradient.norm == pytest.approx(np.linalg.norm(f.gradient(X)), rel=1e2 * digits)
    assert gradient.inner == pytest.approx(np.sum(f.gradient(X) * X), rel=1e3 * digits, abs=1e2 * digits)


def test_inner_products_of_terms_are_those_after_the_move():
    problem, f = make_problem(weights=False)
    rng = np.random.default_rng(13)
    for rank in (4, 2):  # the second must not see what was computed for the first
        theta, U, V = rng.normal(size=rank), rng.normal(size=(12, rank)), rng.normal(size=(9, rank))
        problem.move(theta, U, V)
        terms = np.array([np.outer(u, v)[f.rows, f.cols] for u, v in zip(U.T, V.T, strict=True)])
        np.testing.assert_allclose(problem.along_terms().hessian(), terms @ terms.T, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("width", [5, 16, 19])  # below a register, whole ones, and some more
@pytest.mark.parametrize("n_rows", [0, 1, 7, 8, 9, 40])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tall_products_are_numpy_s_and_threads_change_no_bit(n_rows, width, dtype, monkeypatch):
    monkeypatch.setattr(tall, "ROWS", 8)
    rng = np.random.default_rng(n_rows)
    A, B, C = (rng.standard_normal(shape).astype(dtype) for shape in ((n_rows, width), (n_rows, 3), (width, 4)))
    close = {"rtol": 1e-4, "atol": 1e-5} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-13}
    np.testing.assert_allclose(tall.times(A, C), A @ C, **close)
    np.testing.assert_allclose(tall.inner(A, B), A.T @ B, **close)
    scale, factors = rng.standard_normal(n_rows).astype(dtype), rng.standard_normal(width).astype(dtype)
    terms = (1, A), (factors, np.asfortranarray(2 * A)), (-3, A + 1)
    for n_terms in (1, 2, 3):
        found, squares = tall.blended(*terms[:n_terms], scale=scale)
        wanted = scale[:, None] * sum(by * block for by, block in terms[:n_terms])
        np.testing.assert_allclose(found, wanted, **close)
        np.testing.assert_allclose(squares, np.sum(wanted.astype(float) ** 2, axis=0), **close)
        assert found.dtype == dtype and squares.dtype == np.float64
    for n_jobs in (2, 3):
        engine = Threads([SimpleNamespace(n_blocks=1)] * 3, n_jobs)
        each = engine.each
        assert tall.times(A, C, each).tobytes() == tall.times(A, C).tobytes()
        assert tall.inner(A, B, each).tobytes() == tall.inner(A, B).tobytes()
        for threaded, plain in zip(tall.blended(*terms, each=each), tall.blended(*terms), strict=True):
            assert threaded.tobytes() == plain.tobytes()
        assert tall.times(A, C[:, 0], each).shape == (n_rows,) and tall.inner(A, B[:, 0], each).shape == (width,)
        engine.close()


def test_right_vectors_and_values_are_those_of_the_triplets():
    rng = np.random.default_rng(0)
    A, start = decaying(rng, ratio=0.7), rng.normal(size=(SHAPE[1], 8))
    _, values, vectors, _ = block_svd(A, start, 4)
    s, V = right_svd(A, start, 4)
    np.testing.assert_allclose(s, values, rtol=1e-10)
    np.testing.assert_allclose(np.abs(V), np.abs(vectors), atol=1e-8)


def test_wide_blocks_of_a_scaled_matrix_are_multiplied_by_pieces():
    rng = np.random.default_rng(1)
    A, rows, cols = sp.random_array((50, 400), density=0.1, rng=rng), rng.random(50), rng.random(400)
    scaled, V = (rows[:, None] * A.toarray()) * cols, rng.normal(size=(400, 300))
    np.testing.assert_allclose(Scaled(A, rows, cols).twice(V), scaled.T @ (scaled @ V), atol=1e-12)
