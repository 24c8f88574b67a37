"""Laws of every penalty: descent, constraints, small problems against SciPy and cvxpy, equal bits, files, fold-in."""

from itertools import pairwise

import numpy as np
import pytest
from helpers import rarely
from scipy.optimize import minimize, nnls

import rankwise as rw
from rankwise.penalties import L1, Fixed, NonNegative, NonNegativeL1, OneHot, Ridge, Simplex
from rankwise.solvers import FactorSweeps

N, M, RANK = 30, 20, 3
GIVEN = np.random.default_rng(7).uniform(0.2, 1.0, (N, RANK))


@rw.penalty(value=lambda x: 2.0 * abs(x))
def own_lasso(z, step):
    return max(z - 2.0 * step, 0.0) + min(z + 2.0 * step, 0.0)


@rw.penalty
def between(z, step):
    return min(max(z, -0.5), 0.5)


PENALTIES = [
    Ridge(0.5),
    NonNegative(),
    L1(weight=2.0),
    NonNegativeL1(weight=2.0),
    Simplex(),
    OneHot(),
    Fixed(factors=GIVEN),
    own_lasso,
    between,
]
EVERY_PENALTY = pytest.mark.parametrize("penalty", PENALTIES, ids=repr)


def holds(penalty, factors):
    """Whether factors satisfy the constraint of a penalty."""
    if isinstance(penalty, Fixed):
        return np.array_equal(factors, GIVEN.astype(factors.dtype))
    if isinstance(penalty, OneHot):
        return set(np.unique(factors)) <= {0.0, 1.0} and (factors.sum(axis=1) == 1).all()
    if isinstance(penalty, Simplex):
        return (factors >= 0).all() and np.allclose(factors.sum(axis=1), 1, atol=4 * np.finfo(factors.dtype).eps)
    return (factors >= 0).all() if penalty.nonnegative else penalty is not between or (np.abs(factors) <= 0.5).all()


def observed(loss="square", seed=0, density=0.7):
    """Targets of the loss's domain around a matrix of low rank, at some entries."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (N, RANK)) @ rng.uniform(0, 1, (RANK, M))
    targets = {
        "logistic": lambda: np.where(X + rng.logistic(size=X.shape) > 0.8, 1.0, -1.0),
        "poisson": lambda: rng.poisson(X).astype(float),
    }.get(loss, lambda: X + 0.1 * rng.normal(size=X.shape))()
    rows, cols = np.nonzero(rng.random(X.shape) < density)
    weights = rng.uniform(0.5, 2.0, rows.size)
    return rw.Observations.from_coo(rows, cols, targets[rows, cols], X.shape, weights=weights)


def fitted(penalty, loss="square", dtype="float64", max_iter=12, seen=None, **settings):
    """Result of a fit with the penalty on the rows."""
    solver = FactorSweeps(rows=penalty, **{"offsets": "columns", **settings})
    problem = rw.Problem(observed(loss) if seen is None else seen, loss, dtype=dtype)
    return rw.solve(problem, solver, rank=RANK, max_iter=max_iter, tol=0.0)


@EVERY_PENALTY
@pytest.mark.parametrize("loss", ["square", "logistic", rarely("poisson"), rarely("l1"), rarely("huber")])
def test_the_value_never_rises_and_the_constraint_holds(penalty, loss):
    result = fitted(penalty, loss)
    values = [record.value for record in result.history]
    smooth = loss != "l1"  # else corners become sharper from sweep to sweep
    assert all(after <= before + 1e-9 * abs(before) for before, after in pairwise(values) if smooth)
    assert holds(penalty, result.model.U)


@pytest.mark.parametrize("penalty", PENALTIES[1:], ids=repr)
def test_the_value_is_that_of_the_loss_the_ridge_and_the_penalty(penalty):
    result = fitted(penalty, offsets="none", ridge=0.3)
    seen, model = observed(), result.model
    U, V = model.U.astype(float), model.V.astype(float)
    loss = 0.5 * seen.weights @ ((U @ V.T)[seen.rows, seen.cols] - seen.targets) ** 2
    ridge = 0.5 * penalty.own_ridge(0.3) * np.sum(U**2) + 0.15 * np.sum(V**2)
    weight = {"L1": 2.0, "NonNegativeL1": 2.0}.get(type(penalty).__name__, 2.0 if penalty is own_lasso else 0.0)
    assert result.history[-1].value == pytest.approx(loss + ridge + weight * np.abs(U).sum(), rel=1e-6)


@EVERY_PENALTY
def test_shaped_factors_are_kept_as_they_are_by_files_and_fold_in(penalty, tmp_path):
    model = fitted(penalty, max_iter=200, offsets="none", ridge=0.1).model
    model.save(tmp_path / "m.rankwise")
    loaded = rw.load(tmp_path / "m.rankwise")
    np.testing.assert_array_equal(loaded.U, model.U)
    if isinstance(penalty, Fixed) or penalty in (own_lasso, between):  # given, or code that no file holds
        with pytest.raises(rw.SettingError):
            rw.fold_in(loaded, observed())
    else:
        folded = rw.fold_in(loaded, observed())
        if not isinstance(penalty, Ridge):
            assert holds(penalty, folded.U)
            np.testing.assert_allclose(folded.U, model.U, atol=2e-3)


@pytest.mark.parametrize("penalty", [NonNegative(), Simplex(), L1(weight=2.0)], ids=repr)
@pytest.mark.parametrize("dtype", ["float64", rarely("float32")])
def test_same_bits_on_one_and_two_threads_and_from_disk(penalty, dtype, tmp_path):
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 1, (700, 3)) @ rng.uniform(0, 1, (3, 120))
    seen = rw.Observations.from_dense(np.where(rng.random(X.shape) < 0.9, X, np.nan))
    rw.write_shards([(seen.rows, seen.cols, seen.targets)], tmp_path / "shards", shape=seen.shape)
    solver = FactorSweeps(rows=penalty, cols="nonnegative", offsets="none")
    places = [(seen, 1), (seen, 2), (rw.ShardFolder(tmp_path / "shards"), 2)]
    problems = [rw.Problem(entries, "square", dtype=dtype, n_jobs=n) for entries, n in places]
    models = [rw.solve(problem, solver, rank=3, max_iter=3).model for problem in problems]
    for other in models[1:]:
        np.testing.assert_array_equal(models[0].U, other.U)
        np.testing.assert_array_equal(models[0].V, other.V)


def regression(penalty, cols, ridge=0.0, loss="square", max_iter=60):
    """Rows with the penalty, given the columns."""
    solver = FactorSweeps(rows=penalty, cols=Fixed(factors=cols), offsets="none", ridge=ridge)
    return rw.solve(rw.Problem(observed(loss), loss, dtype="float64"), solver, rank=RANK, max_iter=max_iter, tol=0.0)


def entries(i, seen):
    """Columns, targets and weights of row i."""
    own = seen.rows == i
    return seen.cols[own], seen.targets[own], seen.weights[own]


COLS = np.random.default_rng(3).normal(size=(M, RANK))


def test_nonnegative_rows_given_the_columns_are_scipys_nnls():
    U = regression(NonNegative(), COLS).model.U
    for i in range(N):
        j, targets, weights = entries(i, observed())
        root = np.sqrt(weights)
        np.testing.assert_allclose(U[i], nnls(root[:, None] * COLS[j], root * targets)[0], atol=1e-6)


def test_rows_given_the_columns_are_least_squares_without_a_penalty():
    U = regression(None, COLS).model.U
    for i in range(N):
        j, targets, weights = entries(i, observed())
        root = np.sqrt(weights)
        wanted = np.linalg.lstsq(root[:, None] * COLS[j], root * targets, rcond=None)[0]
        np.testing.assert_allclose(U[i], wanted, atol=1e-6)


@pytest.mark.parametrize("penalty", [L1(weight=2.0), NonNegativeL1(weight=2.0), Simplex(), own_lasso], ids=repr)
def test_rows_given_the_columns_are_cvxpys_minimum(penalty):
    cvxpy = pytest.importorskip("cvxpy")
    ridge = 0.3
    U = regression(penalty, COLS, ridge).model.U
    for i in range(0, N, 5):
        j, targets, weights = entries(i, observed())
        x = cvxpy.Variable(RANK)
        value = 0.5 * cvxpy.sum_squares(cvxpy.multiply(np.sqrt(weights), COLS[j] @ x - targets))
        value += 0.5 * penalty.own_ridge(ridge) * cvxpy.sum_squares(x)
        value += 0 if isinstance(penalty, Simplex) else 2.0 * cvxpy.norm1(x)
        limits = [x >= 0] if penalty.nonnegative else []
        limits += [cvxpy.sum(x) == 1] if isinstance(penalty, Simplex) else []
        cvxpy.Problem(cvxpy.Minimize(value), limits).solve()
        np.testing.assert_allclose(U[i], x.value, atol=2e-4)


@pytest.mark.parametrize("loss", ["logistic", rarely("poisson")])
def test_nonnegative_rows_under_other_losses_are_scipys_projected_minimum(loss):
    ridge = 0.3
    U = regression(NonNegative(), COLS, ridge, loss).model.U
    at = rw.losses.get(loss)
    for i in range(0, N, 5):
        j, targets, weights = entries(i, observed(loss))

        def value(x, j=j, targets=targets, weights=weights):
            return weights @ at.value(COLS[j] @ x, targets) + 0.5 * ridge * x @ x

        best = minimize(value, np.full(RANK, 0.1), bounds=[(0, None)] * RANK, options={"ftol": 1e-14})
        np.testing.assert_allclose(U[i], best.x, atol=1e-3)


@pytest.mark.parametrize("loss", ["square", "l1"])
def test_one_hot_rows_are_assigned_to_the_nearest_center(loss):
    result = regression(OneHot(), COLS, loss=loss, max_iter=1)
    at = rw.losses.get(loss)
    for i in range(N):
        j, targets, weights = entries(i, observed())
        costs = [weights @ at.value(COLS[j, k], targets) for k in range(RANK)]
        assert result.model.U[i].argmax() == np.argmin(costs)


def test_centers_of_one_hot_rows_are_the_means_of_their_clusters():
    seen = observed()
    model = fitted(OneHot(), offsets="none", ridge=0.0, max_iter=5).model
    cluster = model.U.argmax(axis=1)[seen.rows]
    for k in range(RANK):
        for j in range(M):
            own = (cluster == k) & (seen.cols == j)
            if own.any():
                mean = np.average(seen.targets[own], weights=seen.weights[own])
                assert model.V[j, k] == pytest.approx(mean, rel=1e-6)


def test_a_users_penalty_has_the_minimum_of_the_built_in_one():
    values = [fitted(penalty, max_iter=30).history[-1].value for penalty in (L1(weight=2.0), own_lasso)]
    assert values[0] == pytest.approx(values[1], rel=1e-12)


def test_a_fit_does_not_depend_on_the_unit_of_the_targets():
    seen = observed()
    large = rw.Observations.from_coo(seen.rows, seen.cols, 4.0**8 * seen.targets, seen.shape, weights=seen.weights)
    settings = {"offsets": "none", "ridge": 0.0}
    for penalty in (NonNegative(), Simplex(), OneHot()):
        one, other = (fitted(penalty, seen=entries, **settings).model for entries in (seen, large))
        predictions = [(model.U * model.theta) @ model.V.T for model in (one, other)]
        np.testing.assert_allclose(4.0**8 * predictions[0], predictions[1], rtol=1e-2, atol=100)
        assert holds(penalty, other.U)


def test_several_starts_are_no_worse_than_one():
    values = [fitted(OneHot(), offsets="none", n_init=n).history[-1].value for n in (1, 4)]
    assert values[1] <= values[0]


def test_plain_sweeps_keep_their_bits_with_a_ridge_per_side():
    plain, named = (fitted(p, ridge=0.7).model for p in (None, Ridge(0.7)))
    np.testing.assert_array_equal(plain.U, named.U)


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"rows": "positive"}, "`rows` must be"),
        ({"rows": "onehot"}, "excludes offsets"),
        ({"cols": "nonnegative", "n_init": 0}, "`n_init` must be"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, words):
    with pytest.raises(rw.SettingError, match=words):
        FactorSweeps(**settings)


def test_penalties_that_cannot_be_are_refused():
    with pytest.raises(rw.SettingError, match="`weight` of L1 must be a number"):
        L1(weight=-1.0)
    with pytest.raises(rw.SettingError, match="must be a matrix of finite numbers"):
        Fixed(factors=[1.0, 2.0])
    with pytest.raises(rw.SettingError, match="must return finite numbers"):
        rw.penalty(lambda z, step: np.nan)
    with pytest.raises(rw.SettingError, match="as many rows as"):
        fitted(Fixed(factors=GIVEN[:5]))
