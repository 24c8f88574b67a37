"""What the pursuit minimises: entrywise problems, a ridge on them, multitask regression, and a user's own objective."""

import numpy as np
import pytest
from helpers import SMOOTH_LOSSES, make_observations
from nonsmooth_cases import EACH_KIND
from reference import Dense, matrix_of, random_point, slopes_of, unit
from scipy.optimize import minimize_scalar
from scipy.sparse.linalg import aslinearoperator

from rankwise import DataError, MultitaskRegression, Observations, Problem, Ridged, SettingError, solve
from rankwise.losses import Logistic, Poisson, Square
from rankwise.model import Factors, Offsets
from rankwise.objectives.multitask import LeastSquares
from rankwise.solvers import GreedyPursuit

every_loss = pytest.mark.parametrize("loss", SMOOTH_LOSSES, ids=repr)
every_weighting = pytest.mark.parametrize("weights", [False, True], ids=["plain", "weighted"])
every_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def accuracy(dtype):
    return 1e-11 if dtype == np.float64 else 2e-5


def mixed_moves(objective, rng):
    """Steps of every kind, in an order no solver would choose; yields after each."""
    yield
    for shrink, weight in ((1.0, 0.8), (0.5, -1.2), (1.0, 0.3)):
        objective.add(shrink, weight, *(unit(rng, size) for size in objective.shape))
        yield
    objective.replace(rng.normal(size=3))
    yield
    for _ in range(7):  # past the eighth column, where the factors grow
        objective.add(0.9, 0.1, *(unit(rng, size) for size in objective.shape))
    yield
    objective.replace(0.3 * rng.normal(size=10))
    yield
    objective.reset()
    yield
    objective.add(0.7, 1.1, *(unit(rng, size) for size in objective.shape))
    yield


@every_loss
@every_weighting
@every_dtype
@pytest.mark.parametrize("ridge", [0.0, 0.6])
def test_value_gradient_norm_and_inner_follow_every_move(loss, weights, dtype, ridge):
    rng = np.random.default_rng(17)
    observations = make_observations(loss, rng, weights=weights)
    f = Dense(observations, loss, ridge)
    objective = Problem(observations, loss, dtype=dtype)
    objective = Ridged(objective, ridge) if ridge else objective
    for _ in mixed_moves(objective, rng):
        X = matrix_of(objective.point)
        G, gradient = f.gradient(X), objective.gradient()
        scale, tol = 1 + np.linalg.norm(G), accuracy(dtype)
        assert objective.value() == pytest.approx(f.value(X), rel=tol, abs=tol * scale)
        np.testing.assert_allclose(gradient @ np.eye(G.shape[1]), G, atol=tol * scale)
        assert gradient.norm == pytest.approx(np.linalg.norm(G), rel=tol, abs=tol * scale)
        assert gradient.inner == pytest.approx(np.sum(G * X), rel=tol, abs=tol * scale)
        u, v, c = *(unit(rng, size) for size in f.shape), np.array([0.6, -0.4])
        along = objective.along(u, v)(c)[0]
        assert along == pytest.approx(f.value(c[0] * X + c[1] * np.outer(u, v)), rel=tol, abs=tol * scale)


@every_loss
@pytest.mark.parametrize("ridge", [0.0, 0.6])
def test_the_gradient_is_the_slope_of_the_value(loss, ridge):
    rng = np.random.default_rng(18)
    objective = Problem(make_observations(loss, rng), loss, dtype=np.float64)
    objective = Ridged(objective, ridge) if ridge else objective
    random_point(objective, rng)
    u, v = (unit(rng, size) for size in objective.shape)
    slope, h = u @ (objective.gradient() @ v), 1e-6
    objective.add(1.0, h, u, v)
    ahead = objective.value()
    objective.add(1.0, -2 * h, u, v)
    assert (ahead - objective.value()) / (2 * h) == pytest.approx(slope, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("between", ["along_terms", "replace", "reset", "other_direction"])
def test_a_direction_aimed_at_earlier_is_not_mistaken_for_the_current_one(between):
    """Shards keep one direction, and refitting all coefficients uses its place; `add` must aim again."""
    rng, loss = np.random.default_rng(18), Logistic()
    observations = make_observations(loss, rng)
    problem, f = Problem(observations, loss, dtype=np.float64), Dense(observations, loss)
    random_point(problem, rng)
    u, v = (unit(rng, size) for size in problem.shape)
    problem.along(u, v)(np.array([0.5, 2.0]))
    if between == "along_terms":
        problem.along_terms()(rng.normal(size=3))
    elif between == "replace":
        problem.replace(rng.normal(size=3))
    elif between == "reset":
        problem.reset()
    else:
        problem.along(v @ np.ones((v.size, u.size)), v)
    problem.add(1.0, 3.0, u, v)
    assert problem.value() == pytest.approx(f.value(matrix_of(problem.point)), rel=1e-12)


def make_offsets(shape, seed=3):
    rng = np.random.default_rng(seed)
    return Offsets(0.4, *(rng.normal(size=size) for size in shape))


def with_offsets(loss, ridge=0.0, seed=17):
    """An objective with offsets, its dense twin, and the generator that made them."""
    rng = np.random.default_rng(seed)
    observations = make_observations(loss, rng, weights=True)  # weighted only: each way costs a second of compiling
    offsets = make_offsets(observations.shape)
    problem = Problem(observations, loss, dtype=np.float64, offsets=offsets)
    return Ridged(problem, ridge) if ridge else problem, Dense(observations, loss, ridge, offsets.to_dense()), rng


@pytest.mark.parametrize("loss", [*SMOOTH_LOSSES, *EACH_KIND], ids=repr)
@pytest.mark.parametrize("ridge", [0.0, 0.6])
def test_offsets_are_added_to_x_through_every_move(loss, ridge):
    """The ridge is on X alone."""
    objective, f, rng = with_offsets(loss, ridge)
    for _ in mixed_moves(objective, rng):
        X = matrix_of(objective.point)
        G, gradient = f.gradient(X), objective.gradient()
        tolerance = 1e-11 * (1 + np.linalg.norm(G))
        assert objective.value() == pytest.approx(f.value(X), rel=1e-11, abs=tolerance)
        np.testing.assert_allclose(gradient @ np.eye(G.shape[1]), G, atol=tolerance)
        assert gradient.norm == pytest.approx(np.linalg.norm(G), rel=1e-11)
        assert gradient.inner == pytest.approx(np.sum(G * X), rel=1e-11, abs=tolerance)
        u, v, c = *(unit(rng, size) for size in f.shape), np.array([0.6, -0.4])
        value, slopes = objective.along(u, v)(c)
        Y = c[0] * X + c[1] * np.outer(u, v)
        assert value == pytest.approx(f.value(Y), rel=1e-11, abs=tolerance)
        np.testing.assert_allclose(slopes, [np.sum(f.gradient(Y) * D) for D in (X, np.outer(u, v))], atol=tolerance)


@every_loss
def test_with_offsets_plane_and_terms_are_f_and_its_derivatives(loss):
    objective, f, rng = with_offsets(loss)
    X = random_point(objective, rng)
    u, v = (unit(rng, size) for size in f.shape)
    U, V = objective.point.U.copy(), objective.point.V.copy()
    restrictions = (
        (objective.along(u, v), lambda c: f.value(c[0] * X + c[1] * np.outer(u, v)), np.array([0.7, -1.3])),
        (objective.along_terms(), lambda c: f.value((U * c) @ V.T), rng.normal(size=3)),
    )
    for phi, value_at, c in restrictions:
        value, gradient = phi(c)
        scale = 1 + np.abs(gradient).max()
        assert value == pytest.approx(value_at(c), rel=1e-11)
        np.testing.assert_allclose(gradient, slopes_of(value_at, c), atol=1e-6 * scale, rtol=1e-5)
        direction = rng.normal(size=c.size)
        curved = direction @ slopes_of(lambda c, phi=phi: phi(c)[1], c)
        np.testing.assert_allclose(phi.curve(c, direction), curved, atol=2e-5 * scale, rtol=1e-4)


@pytest.mark.parametrize("loss", EACH_KIND, ids=repr)
@pytest.mark.parametrize("ridge", [0.0, 0.6])
def test_with_offsets_the_best_weight_is_the_best(loss, ridge):
    objective, f, rng = with_offsets(loss, ridge)
    X, found = random_point(objective, rng), []
    for _ in range(6):
        u, v = (unit(rng, size) for size in f.shape)
        eta, D = objective.along(u, v).best_weight(), np.outer(u, v)

        def along(eta, D=D):
            return f.value(X + eta * D)

        least = minimize_scalar(along, bounds=(0, 2 * eta + 1), options={"xatol": 1e-12, "maxiter": 500}).fun
        assert along(eta) <= min(least, along(0.0)) * (1 + 1e-9)
        found.append(eta)
    assert max(found) > 0


def test_resetting_goes_back_to_the_given_offsets():
    """Whatever was placed in between, and whether or not the shards have followed there."""
    for given in (None, make_offsets((12, 9))):
        data = make_observations(Square(), np.random.default_rng(18))
        f = Dense(data, Square(), base=0.0 if given is None else given.to_dense())
        problem = Problem(data, Square(), dtype=np.float64, offsets=given)
        U, V = (np.random.default_rng(0).normal(size=(size, 2)) for size in problem.shape)
        for others, seen in ((make_offsets((12, 9), 4), True), (None, True), (given, False), (None, False)):
            problem.place(make_offsets((12, 9), 5), U, V)
            problem.value()
            problem.place(others, U, V)
            if seen:
                problem.value()
            problem.reset()
            assert problem.offsets is given and problem.point.rank == 0
            assert problem.value() == pytest.approx(f.value(np.zeros(f.shape)), rel=1e-12)


@pytest.mark.parametrize("then", ["value", "gradient", "along", "along_terms", "add", "replace", "move"])
@pytest.mark.parametrize("offsets", [None, make_offsets((12, 9))], ids=["none", "some"])
def test_placing_is_moving_and_shifting(then, offsets):
    """`place` lets the shards follow later; whatever is asked for next must not see where they were."""
    loss = Logistic()
    data = make_observations(loss, np.random.default_rng(19))
    rng = np.random.default_rng(0)
    U, V = (rng.normal(size=(size, 2)) for size in data.shape)
    u, v, theta = *(unit(rng, size) for size in data.shape), np.array([0.3, -0.8])
    found = []
    for placed in (True, False):
        problem = Problem(data, loss, dtype=np.float64, offsets=None if placed else offsets)
        random_point(problem, np.random.default_rng(1))
        if placed:
            problem.place(offsets, U, V)
        else:
            problem.move(np.ones(2), U, V)
        asked = {
            "value": lambda p: p.value(),
            "gradient": lambda p: p.gradient() @ v,
            "along": lambda p: p.along(u, v)(np.array([0.5, 2.0]))[1],
            "along_terms": lambda p: p.along_terms()(theta)[1],
            "add": lambda p: p.add(0.5, 2.0, u, v),
            "replace": lambda p: p.replace(theta),
            "move": lambda p: p.move(theta, 2 * U, V),
        }[then](problem)
        found.append((np.asarray(0.0 if asked is None else asked), problem.value(), matrix_of(problem.point)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    base = 0.0 if offsets is None else offsets.to_dense()
    assert found[0][1] == pytest.approx(Dense(data, loss, base=base).value(found[0][2]), rel=1e-12)


@every_dtype
def test_a_pursuit_around_offsets_is_the_pursuit_of_what_they_leave(dtype):
    """For the square loss an offset can as well be taken from the target."""
    data = make_observations(Square(), np.random.default_rng(20), (30, 20))
    offsets = make_offsets(data.shape)
    left = data.targets - offsets.at(data.rows, data.cols)
    rest = Observations.from_coo(data.rows, data.cols, left, data.shape)
    around = solve(Problem(data, Square(), dtype=dtype, offsets=offsets), "glrl", rank=5, held_out=data)
    plain = solve(Problem(rest, Square(), dtype=dtype), "glrl", rank=5, held_out=rest)
    tolerance = 1e-9 if dtype == np.float64 else 1e-3
    np.testing.assert_allclose(around.model.to_dense(), plain.model.to_dense() + offsets.to_dense(), atol=tolerance)
    for column in ("value", "score"):
        np.testing.assert_allclose(around.history.column(column), plain.history.column(column), rtol=tolerance)
    assert around.model.offsets is offsets


def test_offsets_of_another_shape_are_refused():
    with pytest.raises(DataError, match=r"must be for a matrix of shape \(12, 9\), got offsets for \(9, 12\)"):
        Problem(make_observations(Square(), np.random.default_rng(0)), Square(), offsets=make_offsets((9, 12)))


@every_weighting
def test_the_lipschitz_constant_is_the_loss_s_times_the_heaviest_weight_plus_the_ridge(weights):
    for loss in SMOOTH_LOSSES:
        observations = make_observations(loss, np.random.default_rng(0), weights=weights)
        problem = Problem(observations, loss)
        ridged = Ridged(problem, 0.5)
        heaviest = observations.weights.max() if weights else 1.0
        assert (problem.strong_convexity, ridged.strong_convexity) == (0.0, 0.5)
        if loss.lipschitz is None:
            assert problem.lipschitz is None and ridged.lipschitz is None
        else:
            assert problem.lipschitz == pytest.approx(loss.lipschitz * heaviest)
            assert ridged.lipschitz == pytest.approx(loss.lipschitz * heaviest + 0.5)


@pytest.mark.parametrize("ridge", [0.0, -1.0, np.nan, np.inf])
def test_a_ridge_that_is_not_positive_is_refused(ridge):
    problem = Problem(make_observations(Square(), np.random.default_rng(0)), Square())
    with pytest.raises(SettingError, match="ridge"):
        Ridged(problem, ridge)


def test_ridges_add_up():
    rng = np.random.default_rng(19)
    observations = make_observations(Square(), rng)
    once, twice = (
        make(Problem(observations, Square(), dtype=np.float64))
        for make in (lambda f: Ridged(f, 0.5), lambda f: Ridged(Ridged(f, 0.2), 0.3))
    )
    X = random_point(twice, np.random.default_rng(0))
    random_point(once, np.random.default_rng(0))
    assert once.value() == pytest.approx(twice.value(), rel=1e-12)
    np.testing.assert_allclose(once.gradient() @ np.eye(X.shape[1]), twice.gradient() @ np.eye(X.shape[1]), atol=1e-12)
    assert once.gradient().norm == pytest.approx(twice.gradient().norm, rel=1e-12)


def test_a_ridged_pursuit_converges_and_its_alignment_stays_a_ratio():
    """Near the optimum the two parts of the gradient cancel; its norm must not be what is left of rounding."""
    problem = Problem(make_observations(Logistic(), np.random.default_rng(20), (8, 6)), Logistic(), dtype=np.float64)
    result = solve(Ridged(problem, 0.5), GreedyPursuit("coefficients", "dense"), rank=150)
    alignment = result.history.column("alignment")
    f = Dense(problem.observations, Logistic(), 0.5)
    assert result.history[-1].value == pytest.approx(f.value(f.minimiser()), rel=1e-9)
    assert np.all((alignment >= 1 / np.sqrt(6) - 1e-9) & (alignment <= 1 + 1e-9))


@pytest.mark.parametrize("dtype", ["float16", "int64", object, "nonsense", None.__class__])
def test_other_number_types_are_refused(dtype):
    with pytest.raises(SettingError, match="float32 or float64"):
        Problem(make_observations(Square(), np.random.default_rng(0)), Square(), dtype=dtype)


def test_targets_too_large_to_square_are_refused():
    with pytest.raises(DataError, match="too large"):
        Problem(Observations.from_dense([[1e20, 1.0]]), Square())
    Problem(Observations.from_dense([[1e20, 1.0]]), Square(), dtype=np.float64)


def test_targets_outside_the_loss_s_domain_are_refused():
    with pytest.raises(DataError, match="Logistic needs targets"):
        Problem(Observations.from_dense([[0.0, 1.0]]), Logistic())
    with pytest.raises(DataError, match="Poisson needs targets"):
        Problem(Observations.from_dense([[-1.0, 1.0]]), Poisson())


def make_tasks(rng, d=5, n_tasks=7, n=20, truth=None, noise=0.5):
    W = rng.normal(size=(d, n_tasks)) if truth is None else truth
    designs = [rng.normal(size=(n + t, d)) for t in range(n_tasks)]
    return designs, [A @ w + noise * rng.normal(size=A.shape[0]) for A, w in zip(designs, W.T, strict=True)]


def test_multitask_value_and_gradient_are_the_formulas():
    rng = np.random.default_rng(21)
    designs, responses = make_tasks(rng)
    objective = MultitaskRegression(designs, responses)
    for _ in mixed_moves(objective, rng):
        W, gradient = matrix_of(objective.point), objective.gradient()
        residuals = [A @ w - y for A, w, y in zip(designs, W.T, responses, strict=True)]
        G = np.column_stack([A.T @ r for A, r in zip(designs, residuals, strict=True)])
        assert objective.value() == pytest.approx(0.5 * sum(r @ r for r in residuals))
        np.testing.assert_allclose(gradient @ np.eye(7), G, atol=1e-10)
        np.testing.assert_allclose(gradient.rmatvec(np.ones(5)), G.sum(axis=0), atol=1e-10)
        assert gradient.norm == pytest.approx(np.linalg.norm(G))
        assert gradient.inner == pytest.approx(np.sum(G * W), abs=1e-9)


@pytest.mark.parametrize("n", [3, 20], ids=["wide", "tall"])
def test_multitask_constants_are_the_extreme_eigenvalues_of_its_hessian(n):
    designs, responses = make_tasks(np.random.default_rng(22), n=n, n_tasks=4)
    objective = MultitaskRegression(designs, responses)
    eigenvalues = np.concatenate([np.linalg.eigvalsh(A.T @ A) for A in designs])
    assert objective.lipschitz == pytest.approx(eigenvalues.max())
    assert objective.strong_convexity == pytest.approx(eigenvalues.min(), abs=1e-10)


@pytest.mark.parametrize("refine", ["none", "economic", "coefficients"])
def test_multitask_regression_is_solved_to_the_normal_equations(refine):
    designs, responses = make_tasks(np.random.default_rng(23))
    best = [np.linalg.lstsq(A, y, rcond=None)[0] for A, y in zip(designs, responses, strict=True)]
    least = 0.5 * sum(np.sum((A @ w - y) ** 2) for A, w, y in zip(designs, best, responses, strict=True))
    result = solve(MultitaskRegression(designs, responses), GreedyPursuit(refine, "dense"), rank=150)
    assert result.history[-1].value == pytest.approx(least, rel=1e-6)
    np.testing.assert_allclose(result.model.to_dense(), np.column_stack(best), atol=1e-3)


@pytest.mark.parametrize("refine", ["economic", "coefficients"])
def test_ridged_multitask_regression_is_ridge_regression(refine):
    designs, responses = make_tasks(np.random.default_rng(24))
    ridge = 30.0
    best = [np.linalg.solve(A.T @ A + ridge * np.eye(5), A.T @ y) for A, y in zip(designs, responses, strict=True)]
    objective = Ridged(MultitaskRegression(designs, responses), ridge)
    result = solve(objective, GreedyPursuit(refine, "dense"), rank=60)
    np.testing.assert_allclose(result.model.to_dense(), np.column_stack(best), atol=1e-6)


def test_theorem_1_holds_for_multitask_regression():
    """Strongly convex without any ridge, and not entrywise."""
    designs, responses = make_tasks(np.random.default_rng(25))
    objective = MultitaskRegression(designs, responses)
    fits = [np.linalg.lstsq(A, y, rcond=None)[1] for A, y in zip(designs, responses, strict=True)]
    history = solve(objective, GreedyPursuit("none", "dense"), rank=40).history
    gaps = np.r_[history.initial_value, history.column("value")] - 0.5 * np.sum(fits)
    d1 = np.minimum.accumulate(history.column("alignment"))
    rate = 1 - d1**2 * objective.strong_convexity / objective.lipschitz
    assert np.all(gaps[1:] <= rate ** np.arange(1, 41) * gaps[0] + 1e-10)
    assert gaps[-1] < 0.2 * gaps[0]


def test_a_planted_low_rank_w_is_recovered_from_noise_free_tasks():
    rng = np.random.default_rng(26)
    truth = rng.normal(size=(6, 2)) @ rng.normal(size=(2, 15))
    designs, responses = make_tasks(rng, 6, 15, 30, truth, noise=0.0)
    result = solve(MultitaskRegression(designs, responses), GreedyPursuit("coefficients", "dense"), rank=80)
    np.testing.assert_allclose(result.model.to_dense(), truth, atol=1e-6)


MISFITS = {
    "no-task": ([], []),
    "no-response": ([np.ones((3, 2))], []),
    "too-long": ([np.ones((3, 2))], [np.ones(4)]),
    "column": ([np.ones((3, 2))], [np.ones((3, 1))]),
    "vector-design": ([np.ones(3)], [np.ones(3)]),
    "number-design": ([np.float64(3.0)], [np.ones(3)]),
    "widths-differ": ([np.ones((3, 2)), np.ones((3, 4))], [np.ones(3), np.ones(3)]),
    "nan": ([np.full((3, 2), np.nan)], [np.ones(3)]),
    "inf": ([np.ones((3, 2))], [np.full(3, np.inf)]),
    "empty-task": ([np.ones((3, 2)), np.ones((0, 2))], [np.ones(3), np.ones(0)]),
    "no-feature": ([np.ones((3, 0))], [np.ones(3)]),
}


@pytest.mark.parametrize(("designs", "responses"), MISFITS.values(), ids=MISFITS)
def test_tasks_that_do_not_fit_together_are_refused(designs, responses):
    with pytest.raises(DataError):
        MultitaskRegression(designs, responses)


class Nearness:
    """A user's own objective, ``f(X) = ||X - B||_F**2 / 2``, written from the protocol and nothing else."""

    smooth, quadratic, piecewise_linear = True, True, False
    lipschitz = strong_convexity = 1.0

    def __init__(self, B):
        self.B, self.shape, self.point, self.closed = B, B.shape, Factors(B.shape), 0

    def reset(self):
        self.point.clear()

    def value(self):
        return 0.5 * float(np.sum((matrix_of(self.point) - self.B) ** 2))

    def gradient(self):
        X = matrix_of(self.point)
        operator = aslinearoperator(X - self.B)
        operator.norm, operator.inner = float(np.linalg.norm(X - self.B)), float(np.sum((X - self.B) * X))
        return operator

    def along(self, u, v, theta=None):
        assert theta is None
        images = np.column_stack((matrix_of(self.point).ravel(), np.outer(u, v).ravel()))
        return LeastSquares(images, self.B.ravel())

    def along_terms(self):
        images = np.einsum("ik,jk->ijk", self.point.U, self.point.V).reshape(self.B.size, -1)
        return LeastSquares(images, self.B.ravel())

    def add(self, shrink, weight, u, v, theta=None):
        assert theta is None
        self.point.append(shrink, weight, u, v)

    def replace(self, theta):
        self.point.replace(theta)

    def close(self):
        self.closed += 1


@pytest.mark.parametrize("refine", ["none", "economic", "coefficients"])
@pytest.mark.parametrize("oracle", ["dense", "lanczos"])
def test_a_user_s_objective_follows_eckart_and_young(refine, oracle):
    """Nearest to a matrix, seen whole: the pursuit must give the truncated SVD at every rank."""
    B = np.random.default_rng(27).normal(size=(9, 7))
    objective = Nearness(B)
    result = solve(objective, GreedyPursuit(refine, oracle), rank=7)
    left, values, right = np.linalg.svd(B, full_matrices=False)
    for rank in range(1, 8):
        truncated = (left[:, :rank] * values[:rank]) @ right[:rank]
        np.testing.assert_allclose(result.model.to_dense(rank), truncated, atol=1e-9 if oracle == "dense" else 1e-3)
    np.testing.assert_allclose(np.abs(result.model.theta), values, rtol=1e-9 if oracle == "dense" else 1e-6)
    assert objective.closed == 1 and result.model.link == "identity"


def test_a_user_s_objective_can_be_ridged():
    """With a ridge the nearest matrix is ``B / (1 + ridge)``, and its truncations are best at every rank."""
    B = np.random.default_rng(28).normal(size=(9, 7))
    result = solve(Ridged(Nearness(B), 0.25), GreedyPursuit("none", "dense"), rank=7)
    np.testing.assert_allclose(result.model.to_dense(), B / 1.25, atol=1e-9)
