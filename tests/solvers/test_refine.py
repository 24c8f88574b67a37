"""Lines 4 and 5 of Algorithm 2: restrictions of f to a few coefficients, step lengths, and what minimises them."""

import warnings

import numpy as np
import pytest
from fits import Plain
from helpers import SMOOTH_LOSSES, make_observations
from reference import Dense, matrix_of, random_point, slopes_of, top_pair, unit
from scipy.optimize import brentq

from rankwise import LossError, MultitaskRegression, Observations, Problem, Ridged, SettingError, solve
from rankwise.losses import Logistic, Poisson, Square
from rankwise.objectives.multitask import LeastSquares
from rankwise.solvers import Coefficients, Economic, GreedyPursuit, NoRefinement, refine
from rankwise.solvers.steps import backtrack, first_weight, minimise, solve_quadratic

every_loss = pytest.mark.parametrize("loss", SMOOTH_LOSSES, ids=repr)
every_weighting = pytest.mark.parametrize("weights", [False, True], ids=["plain", "weighted"])
every_ridge = pytest.mark.parametrize("ridge", [0.0, 0.4])


def objective_of(loss, weights=False, ridge=0.0, dtype=np.float64, seed=12, shape=(12, 9)):
    """An objective at a random point of rank three, its dense twin, and that point."""
    rng = np.random.default_rng(seed)
    observations = make_observations(loss, rng, shape, density=0.5, weights=weights)
    objective = Problem(observations, loss, dtype=dtype)
    objective = Ridged(objective, ridge) if ridge else objective
    return objective, Dense(observations, loss, ridge), random_point(objective, rng)


def multitask(seed=13):
    rng = np.random.default_rng(seed)
    A, Y = rng.normal(size=(6, 12, 5)), rng.normal(size=(6, 12))
    objective = MultitaskRegression(list(A), list(Y))

    def value(W):
        return 0.5 * sum(np.sum((a @ w - y) ** 2) for a, w, y in zip(A, W.T, Y, strict=True))

    return objective, value, random_point(objective, rng)


def check_restriction(phi, value_at, points, rng):
    """Values against `value_at`, gradients and Hessian products against central differences of them."""
    for c in points:
        value, gradient = phi(c)
        assert value == pytest.approx(value_at(c), rel=1e-10)
        scale = 1 + np.abs(gradient).max()
        np.testing.assert_allclose(gradient, slopes_of(value_at, c), atol=1e-6 * scale, rtol=1e-5)
        direction = rng.normal(size=c.size)
        curved = phi.curve(c, direction)
        np.testing.assert_allclose(curved, direction @ slopes_of(lambda c: phi(c)[1], c), atol=2e-5 * scale, rtol=1e-4)


@every_loss
@every_weighting
@every_ridge
def test_the_plane_is_f_on_two_coefficients(loss, weights, ridge):
    objective, f, X = objective_of(loss, weights, ridge)
    rng = np.random.default_rng(0)
    u, v = (unit(rng, size) for size in objective.shape)
    points = [np.array([1.0, 0.0]), np.array([0.7, -1.3]), rng.normal(size=2)]
    check_restriction(objective.along(u, v), lambda c: f.value(c[0] * X + c[1] * np.outer(u, v)), points, rng)


@every_loss
@every_weighting
@every_ridge
def test_the_terms_are_f_on_all_coefficients(loss, weights, ridge):
    objective, f, _ = objective_of(loss, weights, ridge)
    rng, point = np.random.default_rng(0), objective.point
    points = [point.theta.copy(), rng.normal(size=3), 5 * rng.normal(size=3)]
    check_restriction(objective.along_terms(), lambda c: f.value((point.U * c) @ point.V.T), points, rng)


@pytest.mark.parametrize("ridge", [0.0, 0.4])
def test_least_squares_restrictions_are_those_of_multitask_regression(ridge):
    objective, value, W = multitask()
    if ridge:
        objective, plain = Ridged(objective, ridge), value
        W = random_point(objective, np.random.default_rng(1))

        def value(W):
            return plain(W) + 0.5 * ridge * np.sum(W * W)

    rng, point = np.random.default_rng(0), objective.point
    u, v = (unit(rng, size) for size in objective.shape)
    along = objective.along(u, v)
    check_restriction(along, lambda c: value(c[0] * W + c[1] * np.outer(u, v)), [rng.normal(size=2)], rng)
    terms = objective.along_terms()
    check_restriction(terms, lambda c: value((point.U * c) @ point.V.T), [rng.normal(size=3)], rng)
    for phi, size in ((along, 2), (terms, 3)):
        np.testing.assert_allclose(phi.hessian() @ np.eye(size), [phi.curve(np.ones(size), e) for e in np.eye(size)])


@every_weighting
@every_ridge
def test_the_hessian_of_a_quadratic_is_its_curvature_everywhere(weights, ridge):
    objective, _, _ = objective_of(Square(), weights, ridge)
    rng = np.random.default_rng(0)
    u, v = (unit(rng, size) for size in objective.shape)
    for phi, size in ((objective.along(u, v), 2), (objective.along_terms(), 3)):
        at_random = [phi.curve(rng.normal(size=size), e) for e in np.eye(size)]
        np.testing.assert_allclose(phi.hessian(), at_random, rtol=1e-11, atol=1e-12)


@every_loss
@every_weighting
@every_ridge
@pytest.mark.parametrize("refinement", [Economic(), Coefficients(), Economic(1), Coefficients(1)], ids=repr)
def test_refining_is_never_worse_than_line_4(loss, weights, ridge, refinement):
    for seed in range(3):
        objective, f, X = objective_of(loss, weights, ridge, seed=seed)
        u, sigma, v = top_pair(f.gradient(X))
        weight, _ = first_weight(objective, u, sigma, v)
        unrefined = f.value(X + weight * np.outer(u, v))
        n_evaluations = refinement(objective, u, v, weight)
        refined = f.value(matrix_of(objective.point))
        assert refined <= unrefined + 1e-12 * abs(unrefined)
        assert refined < unrefined - 1e-6 * abs(unrefined)  # a random point leaves something to gain
        assert refined == pytest.approx(objective.value(), rel=1e-12)
        assert n_evaluations >= 1


@every_weighting
@every_ridge
def test_the_economic_minimum_is_the_least_squares_one(weights, ridge):
    objective, f, X = objective_of(Square(), weights, ridge)
    rng = np.random.default_rng(0)
    D = np.outer(*(u_v := [unit(rng, size) for size in objective.shape]))
    root, where = np.sqrt(f.weights), (f.rows, f.cols)
    pull = np.sqrt(ridge) * np.column_stack((X.ravel(), D.ravel()))
    rows = np.vstack((root[:, None] * np.column_stack((X[where], D[where])), pull))
    wanted = np.r_[root * f.targets, np.zeros(X.size)]
    shrink, weight = np.linalg.lstsq(rows, wanted, rcond=None)[0]
    Economic()(objective, *u_v, 0.1)
    np.testing.assert_allclose(matrix_of(objective.point), shrink * X + weight * D, atol=1e-10)


@every_weighting
def test_solving_a_quadratic_reaches_zero_gradient(weights):
    objective, _, _ = objective_of(Square(), weights)
    phi = objective.along_terms()
    c, _ = solve_quadratic(phi, np.array([3.0, -2.0, 100.0]))
    assert np.abs(phi(c)[1]).max() <= 1e-11


@pytest.mark.parametrize("name", ["none", "economic", "coefficients"])
@pytest.mark.parametrize("unit", [2.0**-40, 2.0**40])
def test_targets_in_other_units_give_the_same_pursuit_in_these_units(name, unit):
    seen = make_observations(Square(), np.random.default_rng(7), (12, 9), density=0.6)
    entries = seen.rows, seen.cols
    plain, scaled = (
        solve(Problem(Observations.from_coo(*entries, c * seen.targets), "square"), GreedyPursuit(name), rank=4).model
        for c in (1.0, unit)
    )
    np.testing.assert_allclose(scaled.to_dense() / unit, plain.to_dense(), rtol=1e-4, atol=1e-5)


def test_solving_a_singular_quadratic_stays_finite():
    objective, _, _ = objective_of(Square())
    u, v = (unit(np.random.default_rng(0), size) for size in objective.shape)
    for _ in range(2):
        objective.add(1.0, 0.5, u, v)
    phi = objective.along_terms()
    c, _ = solve_quadratic(phi, objective.point.theta.copy())
    assert np.abs(c).max() < 100 and np.abs(phi(c)[1]).max() <= 1e-10


@pytest.mark.parametrize("closeness", [1e-3, 1e-6, 1e-9, 1e-12])
def test_solving_an_ill_conditioned_quadratic_is_never_worse_than_the_start(closeness):
    rng = np.random.default_rng(37)
    for _ in range(20):
        images = np.ones((30, 1)) + closeness * rng.normal(size=(30, 6))
        phi = LeastSquares(images, rng.normal(size=30))
        exact = np.linalg.lstsq(images, phi.responses, rcond=None)[0]
        for start in (exact, exact + rng.normal(size=6)):
            c, _ = solve_quadratic(phi, start)
            assert phi(c)[0] <= phi(start)[0] and np.isfinite(c).all()


@every_loss
@every_weighting
@every_ridge
def test_backtracking_finds_the_least_l_within_a_factor_of_two(loss, weights, ridge):
    objective, f, X = objective_of(loss, weights, ridge)
    u, sigma, v = top_pair(f.gradient(X))
    weight, n_evaluations = backtrack(objective.along(u, v), sigma)
    D, here = np.outer(u, v), f.value(X)

    def excess(length):
        return f.value(X - length * D) - here + 0.5 * sigma * length

    far = 1.0
    while excess(far) < 0:
        far *= 2
    longest = brentq(excess, 1e-9, far)  # sigma over the least L with which Proposition 1 holds
    assert excess(-weight) <= 1e-12 * abs(here)
    assert longest / 2 * (1 - 1e-9) <= -weight <= longest * (1 + 1e-9)
    assert n_evaluations >= 3


@every_loss
@every_ridge
def test_the_first_weight_is_minus_sigma_over_l(loss, ridge):
    objective, f, X = objective_of(loss, ridge=ridge)
    u, sigma, v = top_pair(f.gradient(X))
    if objective.lipschitz is not None:
        assert first_weight(objective, u, sigma, v) == (-sigma / (loss.lipschitz + ridge), 0)
    else:
        assert first_weight(objective, u, sigma, v) == backtrack(objective.along(u, v), sigma)


class Nasty:
    """A restriction made of a formula, for what no loss would do."""

    def __init__(self, value, slope):
        self.value, self.slope = value, slope

    def __call__(self, c):
        with np.errstate(all="ignore"):
            return float(self.value(c)), np.asarray(self.slope(c), float)

    def curve(self, c, direction):
        return np.zeros_like(direction)


def beyond(edge, what):
    """A bowl around 5 that turns into `what` beyond `edge`."""
    return Nasty(
        lambda c: what if np.abs(c).max() > edge else np.sum((c - 5) ** 2),
        lambda c: np.full_like(c, what) if np.abs(c).max() > edge else 2 * (c - 5),
    )


NASTY = {
    "nan-beyond-2": beyond(2, np.nan),
    "inf-beyond-2": beyond(2, np.inf),
    "minus-inf-beyond-2": beyond(2, -np.inf),
    "nan-everywhere-but-here": beyond(1 + 1e-12, np.nan),
    "nan-gradient-beyond-2": Nasty(lambda c: np.sum((c - 5) ** 2), lambda c: 2 * (c - 5) + 0 / (np.abs(c).max() < 2)),
    "unbounded-linear": Nasty(lambda c: -np.sum(c), lambda c: -np.ones_like(c)),
    "unbounded-separable": Nasty(lambda c: np.logaddexp(0, -c).sum(), lambda c: -1 / (1 + np.exp(c))),
    "exponential": Nasty(lambda c: np.sum(np.exp(50 * c) - 60 * c), lambda c: 50 * np.exp(50 * c) - 60),
    "cliff-beyond-2": Nasty(lambda c: np.sum((c - 5) ** 2) + 1e3 * (np.abs(c).max() > 2), lambda c: 2 * (c - 5)),
    "saw": Nasty(lambda c: np.sum((c - 5) ** 2 + 40 * np.sin(9 * c)), lambda c: 2 * (c - 5) + 360 * np.cos(9 * c)),
    "wrong-gradient": Nasty(lambda c: np.sum((c - 5) ** 2), lambda c: -2 * (c - 5)),
    "flat": Nasty(lambda c: 3.0, lambda c: np.zeros_like(c)),
    "cancelling-slopes": Nasty(lambda c: (c[0] - c[1]) * 1e3 + c @ c, lambda c: np.array([1e3, -1e3]) + 2 * c),
    "huge": Nasty(lambda c: 1e250 * np.sum((c - 5) ** 2), lambda c: 2e250 * (c - 5)),
    "tiny": Nasty(lambda c: 1e-250 * np.sum((c - 5) ** 2), lambda c: 2e-250 * (c - 5)),
}


@pytest.mark.parametrize("phi", NASTY.values(), ids=NASTY)
@pytest.mark.parametrize("scale", [1.0, 1e-8, 1e8], ids="scale={:g}".format)
@pytest.mark.parametrize("max_iter", [1, 5, 50])
def test_minimise_returns_the_best_point_it_saw_and_one_where_f_is_finite(phi, scale, max_iter):
    seen = []

    def spied(c):
        value, gradient = phi(c)
        seen.append(value if np.isfinite(value) and np.isfinite(gradient).all() else np.inf)
        return value, gradient

    start = np.array([1.0, -1.0])
    c, n_evaluations = minimise(spied, start, np.full(2, scale), max_iter)
    value, gradient = phi(c)
    assert np.isfinite(c).all() and np.isfinite(value) and np.isfinite(gradient).all()
    assert value == min(seen) <= phi(start)[0] and n_evaluations == len(seen)


@pytest.mark.parametrize("name", ["nan-beyond-2", "inf-beyond-2", "exponential", "cancelling-slopes", "huge", "tiny"])
def test_minimise_gains_something_where_there_is_something_to_gain(name):
    start = np.array([1.0, -1.0])
    c, _ = minimise(NASTY[name], start, np.ones(2), 20)
    assert NASTY[name](c)[0] < NASTY[name](start)[0]


@pytest.mark.parametrize("name", ["nan-beyond-2", "inf-beyond-2", "flat", "wrong-gradient", "unbounded-linear"])
def test_backtracking_along_a_nasty_restriction_is_finite(name):
    def tilt(c):
        return np.array([1.0, 1.0 + c[1]])  # from (shrink, weight) to the two coordinates

    nasty = NASTY[name]
    phi = Nasty(lambda c: nasty(tilt(c))[0], lambda c: nasty(tilt(c))[1])
    weight, _ = backtrack(phi, 8.0)
    assert np.isfinite(weight) and phi(np.array([1.0, weight]))[0] <= phi(np.array([1.0, 0.0]))[0]


def test_backtracking_takes_no_step_where_none_lowers_f():
    """At a kink: f rises on both sides, though only by less than rounding shows if the step is short enough."""
    phi = Nasty(lambda c: 1.0 + abs(c[1]), lambda c: np.array([0.0, 1.0]))
    assert backtrack(phi, 1.0)[0] == 0.0


def rank_one_signs():
    """A weight that grows without end fits them ever better."""
    rng = np.random.default_rng(14)
    signs = np.sign(np.outer(rng.normal(size=60), rng.normal(size=40)))
    return Observations.from_dense(np.where(rng.random((60, 40)) < 0.3, signs, np.nan))


def few_signs():
    """So few that any signs are separable: the value falls to the smallest numbers there are."""
    return make_observations(Logistic(), np.random.default_rng(8), density=0.5)


@pytest.mark.parametrize("make", [rank_one_signs, few_signs])
@pytest.mark.parametrize("oracle", ["power", "dense"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["none", "economic", "coefficients", Economic(200), Coefficients(200)], ids=str)
def test_separable_signs_never_overflow(make, oracle, dtype, name):
    problem = Problem(make(), Logistic(), dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = solve(problem, GreedyPursuit(name, oracle), rank=50)
    values = np.r_[result.history.initial_value, result.history.column("value")]
    for part in (values, result.history.column("alignment"), result.history.column("gap"), result.model.path):
        assert np.isfinite(part).all()
    assert np.isfinite(result.model.U).all() and np.isfinite(result.model.V).all()
    assert np.all(np.diff(values) <= 1e-6 * values[0]) and values[-1] < 0.1 * values[0]


def counts_up_to_ten_thousand(shape):
    rng = np.random.default_rng(15)
    rates = np.exp(rng.uniform(0, np.log(1e4), shape[0]))
    counts = rng.poisson(np.tile(rates[:, None], shape[1])).astype(float)
    assert counts.max() > 5e3
    return Observations.from_dense(np.where(rng.random(shape) < 0.7, counts, np.nan))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["none", "economic", "coefficients"])
@every_ridge
def test_large_counts_descend_without_overflow(dtype, name, ridge):
    problem = Problem(counts_up_to_ten_thousand((50, 30)), Poisson(), dtype=dtype)
    result = solve(Ridged(problem, ridge) if ridge else problem, GreedyPursuit(name), rank=20)
    values = np.r_[result.history.initial_value, result.history.column("value")]
    assert np.isfinite(values).all() and np.isfinite(result.model.path).all()
    assert np.all(np.diff(values) <= 1e-6 * np.abs(values[1:])) and values[-1] < values[0] - 1e5


@pytest.mark.usefixtures("small_shards")
def test_looking_where_rates_overflow_is_quiet_on_several_shards():
    """A line search may look there; the shards then answer with infinities of both signs, and the sum must not warn."""
    problem = Problem(counts_up_to_ten_thousand((500, 400)), Poisson())
    assert len(problem.engine.shards) > 1
    ones = np.ones(400)
    problem.add(1.0, 1.0, np.where(np.arange(500) < 250, 1.0, -1.0), ones)
    value, gradient = problem.along(np.ones(500), ones)(np.array([1.0, 1e3]))
    assert value == np.inf and not np.isfinite(gradient).all()


@every_loss
@every_ridge
@pytest.mark.parametrize("share", [0.1, 0.7])
@pytest.mark.parametrize("kind", [NoRefinement, Economic, Coefficients])
def test_a_share_of_a_step_lands_that_far_between_before_and_after(loss, ridge, share, kind):
    objective, f, X = objective_of(loss, ridge=ridge)
    u, sigma, v = top_pair(f.gradient(X))
    weight, _ = first_weight(objective, u, sigma, v)
    kind()(objective, u, v, weight)
    full = matrix_of(objective.point)
    objective, _, _ = objective_of(loss, ridge=ridge)
    kind(shrinkage=share)(objective, u, v, weight)
    np.testing.assert_allclose(matrix_of(objective.point), X + share * (full - X), atol=1e-12 * np.abs(full).max())
    assert objective.value() == pytest.approx(f.value(matrix_of(objective.point)), rel=1e-10)


def unshrunk(name, objective, u, v, weight):
    """The paper's refinements, before there was a share: all of the step."""
    if name == "none":
        return objective.add(1.0, weight, u, v)
    if name == "coefficients":
        objective.add(1.0, weight, u, v)
        phi, start, scale, max_iter = objective.along_terms(), objective.point.theta.copy(), abs(weight), 1
        scale = np.full_like(start, scale)
    else:
        phi, start, max_iter = objective.along(u, v), np.array([1.0, weight]), 5
        scale = np.array([1.0 if objective.point.rank else 0.0, abs(weight)])
    found = solve_quadratic(phi, start) if objective.quadratic else minimise(phi, start, scale, max_iter)
    return objective.add(*found[0], u, v) if name == "economic" else objective.replace(found[0])


@every_loss
@every_ridge
@pytest.mark.parametrize("name", refine.REFINEMENTS)
def test_a_share_of_one_is_the_step_of_the_paper_bit_for_bit(loss, ridge, name):
    twin, _, _ = objective_of(loss, ridge=ridge)
    objective, _, _ = objective_of(loss, ridge=ridge)
    for seed in range(4):
        u, v = (unit(np.random.default_rng(seed), size) for size in objective.shape)
        unshrunk(name, twin, u, v, 0.3)
        refine.get(name, 1.0)(objective, u, v, 0.3)
        assert objective.point.theta.tobytes() == twin.point.theta.tobytes()
        assert objective.value() == twin.value()


@pytest.mark.parametrize("name", refine.REFINEMENTS)
def test_a_pursuit_shrinks_its_named_refinement_and_still_descends(name):
    observations = make_observations(Logistic(), np.random.default_rng(9), (30, 20))
    runs = [
        solve(Problem(observations, Logistic(), dtype=np.float64), solver, rank=6)
        for solver in (
            GreedyPursuit(name, shrinkage=0.3),
            GreedyPursuit(refine.REFINEMENTS[name](shrinkage=0.3)),
            GreedyPursuit(name, shrinkage=1.0),
            GreedyPursuit(name),
        )
    ]
    shrunk, by_object, whole, default = (run.history.column("value") for run in runs)
    assert np.array_equal(shrunk, by_object) and np.array_equal(whole, default)
    assert np.all(np.diff(np.r_[runs[0].history.initial_value, shrunk]) < 0) and shrunk[-1] > whole[-1]


@pytest.mark.parametrize("share", [0, 0.0, -0.5, 1.0001, np.nan, np.inf, True, None, "half"], ids=repr)
def test_shares_that_are_none_are_refused(share):
    for make in (
        NoRefinement,
        Economic,
        Coefficients,
        lambda shrinkage: GreedyPursuit("economic", shrinkage=shrinkage),
    ):
        with pytest.raises(SettingError, match="`shrinkage` must be above 0 and at most 1, got"):
            make(shrinkage=share)


def test_a_share_beside_a_refinement_object_is_not_ignored():
    with pytest.raises(SettingError, match=r"applies to a refinement given by name, got 0\.5 beside Economic"):
        GreedyPursuit(Economic(), shrinkage=0.5)


def test_names_give_refinements_and_objects_pass_through():
    assert {name: refine.get(name) for name in refine.REFINEMENTS} == {
        "none": NoRefinement(),
        "economic": Economic(),
        "coefficients": Coefficients(),
    }
    mine = Economic(max_iter=50)
    assert refine.get(mine) is mine


@pytest.mark.parametrize("name", ["all", "", None, 3, print])
def test_what_is_no_refinement_is_refused(name):
    with pytest.raises(SettingError, match="efine"):
        GreedyPursuit(name)


@pytest.mark.parametrize("name", ["economic", "coefficients"])
def test_a_refinement_needs_a_smooth_objective_and_says_so(name):
    objective = Plain(objective_of(Square())[0])
    objective.smooth = False
    with pytest.raises(LossError, match="GreedyPursuit requires a smooth objective, got Plain"):
        solve(objective, GreedyPursuit(name), rank=1)
    assert solve(objective, GreedyPursuit("none"), rank=1).model.rank == 1
