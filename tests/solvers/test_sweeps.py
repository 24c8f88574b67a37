"""Sweeps over rows and columns: what they minimise, that it never rises, what they learn, and the same bits always."""

import numpy as np
import pytest
from helpers import make_observations, random_pattern, rarely, targets_for
from loss_cases import BOUNDED, COMPILED, lopsided
from scipy.optimize import minimize_scalar
from sweep_cases import run

from rankwise import MultitaskRegression, Observations, Problem, Ridged, SettingError, fold_in, load, solve
from rankwise.kernels.expected import expected_at, majorised
from rankwise.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Poisson,
    Quantile,
    SmoothHinge,
    Square,
    SquaredHinge,
)
from rankwise.model import Offsets, PriorArrays, save
from rankwise.solvers import BayesSweeps, FactorSweeps, fit_offsets
from rankwise.solvers.row_priors import PRIORS, PatternPrior, RowPrior
from rankwise.solvers.sweep_state import OFFSETS, best_constant
from rankwise.solvers.sweeps import OFFSET_RIDGE

every_loss = pytest.mark.parametrize("loss", COMPILED, ids=repr)
every_kind = pytest.mark.parametrize("kind", OFFSETS)
SWEEPS = [FactorSweeps(), BayesSweeps()]
every_solver = pytest.mark.parametrize("solver", SWEEPS, ids=lambda solver: type(solver).__name__)


def problem_of(loss, seed=0, shape=(25, 18), weights=False, dtype=np.float64, density=0.5):
    return Problem(make_observations(loss, np.random.default_rng(seed), shape, density, weights), loss, dtype=dtype)


def never_rises(found, slack=1e-9):
    """Whether no value is above the one before it at the same rank."""
    ranks, values = found.T
    same = np.diff(ranks) == 0
    assert same.any() and np.isfinite(values).all()
    return bool(np.all(np.diff(values)[same] <= slack * (1 + np.abs(values[:-1])[same])))


@every_loss
@pytest.mark.parametrize("block", [None, 1])
def test_the_value_of_the_factor_sweeps_never_rises(loss, block):
    for seed in range(3):
        solver = FactorSweeps(block=block, ridge=0.5 + seed, count_power=0.5 * seed, smoothing=0.01 * seed)
        assert never_rises(run(solver, problem_of(loss, seed), n_steps=8)[1])


@every_loss
@pytest.mark.parametrize("pattern", [True, False], ids=["pattern", "plain"])
def test_the_bound_never_falls(loss, pattern):
    for seed, block in enumerate((None, 1, 2)):
        solver = BayesSweeps(pattern_prior=pattern, block=block)
        assert never_rises(run(solver, problem_of(loss, seed), n_steps=9)[1])


@every_kind
@pytest.mark.parametrize("loss", [Square(), rarely(Absolute()), Logistic()], ids=repr)
def test_neither_rises_with_any_offsets_and_weights(loss, kind):
    for weights in (False, True):
        for solver in (BayesSweeps(kind), BayesSweeps(kind, 2), FactorSweeps(kind), FactorSweeps(kind, 2)):
            assert never_rises(run(solver, problem_of(loss, 3, weights=weights), n_steps=7)[1])


@pytest.mark.parametrize("loss", [Square(), Absolute(), Logistic(), rarely(Poisson())], ids=repr)
@every_solver
def test_in_single_precision_it_never_rises_by_more_than_rounding(loss, solver):
    problem = problem_of(loss, 4, shape=(60, 50), dtype=np.float32)
    assert never_rises(run(solver, problem, n_steps=12)[1], slack=1e-5)


def dense_of(state):
    rows, cols = state.rows, state.cols
    low_rank = rows.factors.astype(float) @ cols.factors.T
    return state.constant + rows.offsets[:, None].astype(float) + cols.offsets + low_rank


def variances_of(state):
    """Variance of every prediction, factor by factor."""
    total = np.zeros((state.rows.means.shape[0], state.cols.means.shape[0]))
    for k in range(state.rows.rank):
        m, s = state.rows.means[:, k], state.rows.variances[:, k]
        n, t = state.cols.means[:, k], state.cols.variances[:, k]
        # var(xy) = E[x^2] E[y^2] - (E[x] E[y])^2 for independent x and y
        total += np.outer(m**2 + s, n**2 + t) - np.outer(m, n) ** 2
    for side, axis in ((state.rows, 1), (state.cols, 0)):
        if side.offset:
            total += np.expand_dims(side.variances[:, -1], axis)
    return total


WEIGHTINGS = [(loss, False) for loss in COMPILED] + [(loss, True) for loss in (Square(), Logistic())]
WEIGHTINGS.append(rarely(Absolute(), True))


@pytest.mark.parametrize("loss, weights", WEIGHTINGS, ids=str)
def test_the_factor_sweeps_minimise_f_plus_the_ridge(loss, weights):
    solver = FactorSweeps(ridge=0.7, offset_ridge=0.1, count_power=0.5, smoothing=0.2)
    problem = problem_of(loss, 5, weights=weights)
    state, found = run(solver, problem)
    seen, X = problem.observations, dense_of(state)
    w = np.ones(seen.n_observed) if seen.weights is None else seen.weights
    x = X[seen.rows, seen.cols]
    values = [expected_at(loss.formula, a, state.smoothing, float(o))[0] for a, o in zip(x, seen.targets, strict=True)]
    total = float(w @ values)
    for side, of in ((state.rows, seen.rows), (state.cols, seen.cols)):
        counts = np.maximum(np.bincount(of, w, minlength=side.means.shape[0]), 1) ** 0.5
        total += 0.5 * 0.7 * float(counts @ (side.factors**2).sum(axis=1)) + 0.05 * float(counts @ side.offsets**2)
    assert found[-1, 1] == pytest.approx(total, rel=1e-10)
    slope = problem.loss.typical(np.sqrt(np.cov(seen.targets, aweights=w, ddof=0)), order=1)
    level = w @ loss.value(state.constant, seen.targets) / w.sum() / slope
    assert state.smoothing == pytest.approx(0.0 if loss.smooth else (0.2 * level) ** 2, rel=1e-9)
    if loss.smooth:
        assert total - problem.value() == pytest.approx(total - w @ loss.value(x, seen.targets), rel=1e-9)


def test_a_ridge_of_zero_is_a_tiny_one():
    state, found = run(FactorSweeps(ridge=0.0, offset_ridge=0.0), problem_of(Square(), 6))
    assert np.all(state.rows.precisions == 1e-9) and never_rises(found)


@pytest.mark.parametrize("loss", [Square(), Logistic()], ids=repr)
def test_many_factor_sweeps_end_where_the_gradient_vanishes(loss):
    problem = problem_of(loss, 7, shape=(12, 10))
    solver = FactorSweeps(ridge=2.0, offset_ridge=0.3)
    state, _ = run(solver, problem, rank=2, n_steps=1500)
    seen, G = problem.observations, np.zeros(problem.shape)
    G[seen.rows, seen.cols] = loss.slope(dense_of(state)[seen.rows, seen.cols], seen.targets)
    U, V = state.rows.factors, state.cols.factors
    assert np.abs(G @ V + 2.0 * U).max() < 1e-4 and np.abs(G.T @ U + 2.0 * V).max() < 1e-4
    assert np.abs(G.sum(axis=1) + 0.3 * state.rows.offsets).max() < 1e-4
    assert np.abs(G.sum(axis=0) + 0.3 * state.cols.offsets).max() < 1e-4


def bound_of(state, loss, seen):
    """The negative evidence bound: expected loss, its normaliser, and the distance of every factor from its prior."""
    x, s = (part[seen.rows, seen.cols] for part in (dense_of(state), variances_of(state)))
    expected = [expected_at(loss.formula, *map(float, at))[0] for at in zip(x, s, seen.targets, strict=True)]
    w = np.ones(seen.n_observed) if seen.weights is None else seen.weights
    total = state.scale * float(w @ expected) + w.sum() * loss.log_normaliser(state.scale)
    for k, side in enumerate((state.rows, state.cols)):
        off2 = (side.means - side.prior_means) ** 2 + side.variances
        total += 0.5 * float(np.sum(side.precisions * off2 - np.log(side.precisions) - np.log(side.variances)))
        if state.priors:
            weights = state.priors[k].weights
            total += 0.5 * state.priors[k].ridge * float(np.sum(side.precisions * weights**2))
    return total


@every_loss
@pytest.mark.parametrize("pattern", [True, False], ids=["pattern", "plain"])
def test_the_value_is_the_negative_bound(loss, pattern):
    problem = problem_of(loss, 8)
    state, found = run(BayesSweeps(pattern_prior=pattern), problem)
    loss = problem.loss  # with its density measured at the targets, if a user wrote it
    bound = bound_of(state, loss, problem.observations)
    assert len(state.priors) == (2 if pattern else 0)
    if not bounded(loss):
        assert found[-1, 1] == pytest.approx(bound, rel=1e-9)
        return
    after, further = run(BayesSweeps(pattern_prior=pattern), problem, n_steps=7)
    assert bound_of(after, loss, problem.observations) <= further[-1, 1] < bound < found[-1, 1]
    assert found[-1, 1] - bound < 0.5 * (found[0, 1] - bound)


def bounded(loss):
    """Whether sweeps have a bound on the expected loss, by its parabolas, and not its value."""
    return majorised(loss.formula) and not loss.quadratic


@every_kind
def test_the_bound_of_the_square_loss_is_that_of_normal_noise(kind):
    problem = problem_of(Square(), 9, weights=True)
    state, found = run(BayesSweeps(kind, pattern_prior=False), problem)
    seen = problem.observations
    x, s = (part[seen.rows, seen.cols] for part in (dense_of(state), variances_of(state)))
    squares = seen.weights @ ((seen.targets - x) ** 2 + s)
    assert state.scale == pytest.approx(seen.total_weight / squares, rel=1e-9)
    total = 0.5 * seen.total_weight * (1 + np.log(2 * np.pi / state.scale))
    for side in (state.rows, state.cols):
        n = side.means.shape[0]
        spread = (side.means**2 + side.variances).mean(axis=0)
        np.testing.assert_allclose(side.precisions, 1 / spread, rtol=1e-9)
        total += 0.5 * n * np.sum(1 + np.log(spread)) - 0.5 * np.log(side.variances).sum()
    assert found[-1, 1] == pytest.approx(total, rel=1e-9)


@every_loss
def test_a_sweep_leaves_every_learned_number_at_its_best(loss):
    problem = problem_of(loss, 10)
    state, _ = run(BayesSweeps(), problem, n_steps=200 if bounded(loss) else 6)
    least = bound_of(state, loss, problem.observations)
    for factor in (0.97, 1.03):
        for side in (state.rows, state.cols):
            for k in range(side.precisions.size):
                before = side.precisions[k]
                side.precisions[k] = factor * before
                assert bound_of(state, loss, problem.observations) >= least
                side.precisions[k] = before
        if loss.log_normaliser(2.0):
            before, state.scale = state.scale, factor * state.scale
            assert bound_of(state, loss, problem.observations) >= least
            state.scale = before


@pytest.mark.parametrize("loss", BOUNDED, ids=repr)
def test_solved_often_enough_the_columns_are_at_their_best(loss):
    problem = problem_of(loss, 11, shape=(12, 8))
    state, _ = run(BayesSweeps(pattern_prior=False), problem, rank=1, n_steps=3)
    for _ in range(300):
        state.cols.improve(state.rows, state.settings(True))
    least = bound_of(state, loss, problem.observations)
    for part in (state.cols.means, state.cols.variances):
        for at in np.ndindex(part.shape):
            before = part[at]
            for other in (before - 0.01 * abs(before), before + 0.01 * abs(before)):
                part[at] = other
                assert bound_of(state, loss, problem.observations) >= least - 1e-6
            part[at] = before


@every_solver
def test_fitting_the_transpose_gives_the_transpose(solver):
    rng = np.random.default_rng(12)
    rows, cols = random_pattern(rng, (40, 30), 0.6)
    X = 2 + rng.normal(size=(40, 2)) @ rng.normal(size=(2, 30))
    seen = Observations.from_coo(rows, cols, X[rows, cols] + 0.1 * rng.normal(size=rows.size), X.shape)
    models = [
        solve(Problem(given, "square", dtype="float64"), solver, rank=2, max_iter=400, tol=1e-12).model.to_dense()
        for given in (seen, seen.transposed())
    ]
    np.testing.assert_allclose(models[0], models[1].T, atol=0.02)


@every_solver
def test_new_factors_are_a_newton_step_along_the_leading_pairs_of_the_gradient(solver):
    problem = problem_of(Square(), 13, shape=(30, 12), density=0.9)
    state = solver.init(problem, 4)
    gradient = np.zeros(problem.shape)
    seen = problem.observations
    gradient[seen.rows, seen.cols] = dense_of(state)[seen.rows, seen.cols] - seen.targets
    U, s, Vt = np.linalg.svd(gradient, full_matrices=False)
    n_products = solver._grow(problem, np.random.default_rng(0), state, 3)
    found = state.rows.factors @ state.cols.factors.T
    wanted = -(U[:, :3] * s[:3]) @ Vt[:3]
    assert np.linalg.norm(found - wanted) < 0.2 * np.linalg.norm(wanted)  # three power iterations
    np.testing.assert_allclose(*((side.factors**2).sum(axis=0) for side in (state.rows, state.cols)), rtol=1e-9)
    assert n_products > 0 and state.rows.rank == state.cols.rank == 3
    first = 2.0 if isinstance(solver, FactorSweeps) else 10 * np.sqrt(state.scale)
    np.testing.assert_allclose(state.rows.precisions[:3], first)


def test_the_step_of_new_factors_is_over_the_mean_bend():
    steep, flat = (problem_of(Logistic(), 14), problem_of(Square(), 14))
    for problem in (steep, flat):
        solver = FactorSweeps("global")
        state = solver.init(problem, 1)
        seen, gradient = problem.observations, np.zeros(problem.shape)
        x = dense_of(state)[seen.rows, seen.cols]
        gradient[seen.rows, seen.cols] = problem.loss.slope(x, seen.targets)
        solver._grow(problem, np.random.default_rng(0), state, 1)
        sigma = np.linalg.svd(gradient, compute_uv=False)[0]
        bend = problem.loss.curvature(x, seen.targets).mean() if state.curvature != 1.0 else 1.0
        length = np.linalg.norm(state.rows.factors) * np.linalg.norm(state.cols.factors)
        assert length == pytest.approx(sigma / bend, rel=0.1)


@pytest.mark.parametrize("given", [0.5, 10.0])
def test_new_factors_are_thought_as_precise_as_asked_for(given):
    problem, solver = problem_of(Logistic(), 14), BayesSweeps(start_precision=given)
    state = solver.init(problem, 2)
    solver._grow(problem, np.random.default_rng(0), state, 2)
    unit = np.sqrt(state.scale * state.curvature)
    for side, _ in state.sides:
        np.testing.assert_allclose(side.precisions[:2], given * unit)
        np.testing.assert_allclose(side.variances[:, :2], 0.1 / (given * unit))


@every_solver
@pytest.mark.parametrize("block, ranks", [(None, [5, 5, 5, 5]), (2, [2, 4, 5, 5]), (1, [1, 2, 3, 4])])
def test_a_block_of_factors_joins_before_each_sweep(solver, block, ranks):
    problem = problem_of(Square(), 15)
    found = run(type(solver)(block=block), problem, rank=5, n_steps=4)[1]
    assert found[:, 0].tolist() == ranks
    history = solve(problem, type(solver)(block=block), rank=5, max_iter=4, tol=0.5).history
    assert len(history) >= ranks.index(max(ranks)) + 1  # a small change ends nothing while the rank still grows
    assert history.column("rank").tolist() == ranks[: len(history)]


@every_solver
def test_the_rank_is_at_most_that_of_the_matrix(solver):
    state, _ = run(solver, problem_of(Square(), 16, shape=(9, 4)), rank=30, n_steps=2)
    assert state.rows.rank == state.cols.rank == 4


LEVELS = [*COMPILED, Quantile(0.25)]


@pytest.mark.parametrize("loss", LEVELS, ids=repr)
@pytest.mark.parametrize("shift", [-4.0, 0.0, 4.0])
def test_the_level_is_the_constant_of_least_value(loss, shift):
    rng = np.random.default_rng(17)
    targets = targets_for(loss, rng, 61)
    if isinstance(loss, Poisson):
        targets += abs(shift)
    elif (targets**2 == 1).all():
        targets[:40] = np.sign(shift) or 1.0
    elif loss.domain == "any real number":
        targets += shift
    seen = Observations.from_coo(np.arange(61), np.zeros(61, int), targets)
    level = best_constant(Problem(seen, loss, dtype=np.float64))
    best = minimize_scalar(lambda c: loss.value(c, targets).sum(), bounds=(-12, 12), method="bounded")
    assert loss.value(level, targets).sum() <= best.fun + 1e-6 * (1 + abs(best.fun))


def test_known_levels():
    rng = np.random.default_rng(18)
    for centre in (-3.0, 3.0):
        o, w = rng.normal(centre, 1, 51), rng.uniform(0.5, 2, 51)
        seen = Observations.from_coo(np.arange(51), np.arange(51), o, weights=w)
        assert best_constant(Problem(seen, "square", dtype="float64")) == pytest.approx(w @ o / w.sum(), rel=1e-8)
        plain = Observations.from_coo(np.arange(51), np.arange(51), o)
        assert best_constant(Problem(plain, "l1", dtype="float64")) == pytest.approx(np.median(o))
        found = best_constant(Problem(plain, Quantile(0.9), dtype="float64"))
        assert (o < found).mean() <= 0.9 <= (o <= found).mean()
    zero = Observations.from_coo([0, 0], [0, 1], [-1.0, 1.0])
    assert best_constant(Problem(zero, "square")) == best_constant(Problem(zero, "logistic")) == 0.0


@every_kind
@every_solver
def test_each_kind_of_offsets_leaves_the_other_parts_at_zero(solver, kind):
    problem = problem_of(Square(), 19)
    model = solve(problem, type(solver)(kind), rank=2, max_iter=3).model
    if kind == "none":
        assert model.offsets is None
        return
    assert model.offsets.constant == pytest.approx(problem.observations.targets.mean(), rel=1e-6)
    assert bool(model.offsets.rows.any()) == (kind in ("rows", "both"))
    assert bool(model.offsets.cols.any()) == (kind in ("columns", "both"))
    if isinstance(solver, BayesSweeps):
        np.testing.assert_allclose(model.to_dense(rank=0), fit_offsets(problem, kind).to_dense(), rtol=1e-9)


@every_solver
def test_a_row_never_seen_gets_the_level_and_the_offsets_of_the_columns(solver):
    rng = np.random.default_rng(20)
    seen = make_observations(Square(), rng, (20, 15), 0.6)
    seen = seen.take((seen.rows != 7) & (seen.cols != 4))
    model = solve(Problem(seen, "square", dtype="float64"), solver, rank=3).model
    assert model.offsets.rows[7] == 0.0 and model.offsets.cols[4] == 0.0
    everywhere = model.to_dense()
    np.testing.assert_allclose(everywhere[7], model.offsets.constant + model.offsets.cols, atol=1e-10)
    np.testing.assert_allclose(everywhere[:, 4], model.offsets.constant + model.offsets.rows, atol=1e-10)


def planted_offsets(seed=21, noise=0.3):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(0, 1.0, 80), rng.normal(0, 0.5, 60)
    X = 3.0 + a[:, None] + b
    rows, cols = random_pattern(rng, X.shape, 0.5)
    return X, Observations.from_coo(rows, cols, X[rows, cols] + noise * rng.normal(size=rows.size), X.shape)


@pytest.mark.parametrize("loss", [Square(), Huber(), Absolute(), Quantile(0.5), EpsilonInsensitive()], ids=repr)
def test_planted_offsets_are_recovered(loss):
    X, seen = planted_offsets()
    problem = Problem(seen, loss)
    offsets = fit_offsets(problem)
    # a row has 30 entries, so that its offset is known to 0.3 / sqrt(30); corners take more than three sweeps
    assert np.sqrt(np.mean((offsets.to_dense() - X) ** 2)) < (0.12 if loss.smooth else 0.2)
    np.testing.assert_allclose(offsets.at(seen.rows, seen.cols), offsets.to_dense()[seen.rows, seen.cols], rtol=1e-9)
    assert problem.offsets is None and problem.point.rank == 0
    f = loss.value(0.0, seen.targets).sum()
    assert problem.value() == pytest.approx(f, rel=1e-5)


@every_kind
def test_offsets_alone_are_of_the_kind_asked_for(kind):
    _, seen = planted_offsets()
    found = fit_offsets(Problem(seen, "square"), kind)
    if kind == "none":
        assert found is None
    else:
        assert (bool(found.rows.any()), bool(found.cols.any())) == OFFSETS[kind]


def test_the_precision_of_the_offsets_and_the_noise_are_learned():
    _, seen = planted_offsets()
    problem = Problem(seen, "square", dtype="float64")
    state = BayesSweeps().init(problem, 1)
    assert 1 / state.rows.precisions[-1] == pytest.approx(1.0, rel=0.4)
    assert 1 / state.cols.precisions[-1] == pytest.approx(0.25, rel=0.4)
    assert 1 / state.scale == pytest.approx(0.09, rel=0.1)


def in_units(loss, unit):
    """The loss for targets that are written in another unit."""
    own = {Huber: lambda: Huber(unit * loss.delta), EpsilonInsensitive: lambda: EpsilonInsensitive(unit * loss.epsilon)}
    return own.get(type(loss), lambda: loss)()


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**-10, 2.0**20])
@pytest.mark.parametrize("kind", ["both", "none"])
@pytest.mark.parametrize(
    "loss", [Square(), Huber(0.5), Absolute(), Quantile(0.9), rarely(EpsilonInsensitive(0.1))], ids=repr
)
def test_targets_in_other_units_give_the_same_model_in_these_units(loss, kind, unit):
    _, seen = planted(shape=(60, 40))
    found = []
    for c in (1.0, unit):
        entries = Observations.from_coo(seen.rows, seen.cols, c * seen.targets, seen.shape)
        problem = Problem(entries, in_units(loss, c), dtype="float64")
        found.append(solve(problem, BayesSweeps(kind), rank=3, tol=0.0).model.to_dense() / c)
    np.testing.assert_allclose(*found, rtol=0, atol=1e-3 * np.abs(found[0]).max())


def test_before_it_is_learned_the_ridge_of_the_offsets_is_that_of_two_entries():
    _, seen = planted_offsets()
    problem = Problem(seen, "square", dtype="float64")
    solver = BayesSweeps()
    state = solver.init(problem, 1)
    problem.reset()
    solver._begin(problem, state)
    scale = 1 / np.mean(seen.targets**2)
    assert state.scale == pytest.approx(scale)
    np.testing.assert_allclose(state.rows.precisions, OFFSET_RIDGE * scale)


def planted(seed=22, shape=(150, 120), rank=3, density=0.4, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(shape[0], rank)) @ rng.normal(size=(rank, shape[1]))
    rows, cols = random_pattern(rng, shape, density)
    seen = Observations.from_coo(rows, cols, X[rows, cols] + noise * rng.normal(size=rows.size), shape)
    return X, seen


def rmse(X, model):
    return float(np.sqrt(np.mean((X - model.to_dense()) ** 2)))


@pytest.fixture(scope="module")
def noisy():
    X, seen = planted()
    model = solve(Problem(seen, "square"), BayesSweeps(), rank=15, max_iter=40).model
    return X, seen, model


def test_a_noiseless_low_rank_matrix_is_recovered():
    X, seen = planted(noise=0.0)
    for solver in (BayesSweeps(), FactorSweeps(ridge=1e-3)):
        model = solve(Problem(seen, "square", dtype="float64"), solver, rank=3, max_iter=60, tol=1e-9).model
        assert rmse(X, model) < 0.01 * X.std()


def test_a_noisy_low_rank_matrix_is_recovered_as_well_as_with_the_best_ridge_and_rank(noisy):
    X, seen, model = noisy
    problem = Problem(seen, "square")
    best = min(rmse(X, solve(problem, FactorSweeps(ridge=r), rank=3, max_iter=40).model) for r in (0.1, 0.3, 1, 3, 10))
    assert rmse(X, model) <= 1.05 * best


def test_components_that_the_data_does_not_support_fade(noisy):
    model = noisy[2]
    values = np.append(model.theta, np.zeros(15))
    assert values[3] < 0.02 * values[2]


def test_what_has_faded_is_left_out_and_no_prediction_tells():
    X, seen = planted()
    solvers = BayesSweeps(least_effect=0.1), BayesSweeps()
    few, whole = (solve(Problem(seen, "square"), solver, rank=15, max_iter=40) for solver in solvers)
    assert few.history[-1].rank == 3 and whole.history[-1].rank == 15
    assert np.abs(few.model.to_dense() - whole.model.to_dense()).max() < 0.1 * 0.5
    assert rmse(X, few.model) == pytest.approx(rmse(X, whole.model), rel=0.02)


@pytest.mark.parametrize("pattern", [True, False], ids=["pattern", "plain"])
@every_kind
def test_the_components_left_out_are_those_that_move_no_prediction_by_a_tenth_of_the_noise(kind, pattern):
    problem = problem_of(Square(), 24)
    state, _ = run(BayesSweeps(kind, pattern_prior=pattern), problem, rank=4, n_steps=1)
    noise = 1 / np.sqrt(state.scale)
    for k, share in enumerate((2.0, 0.099, 0.101, 0.5)):  # one entry, so that it is no matter of averages
        for side, _ in state.sides:
            side.means[:, k] *= 1e-3 / np.abs(side.means[:, k]).max()
            side.means[k, k] = -np.sqrt(share * noise)
    before, left = dense_of(state), [0, 2, 3]
    wanted = [(side.means[:, [*left, 4][: 3 + side.offset]], side.precisions[left]) for side, _ in state.sides]
    weights = [prior.weights[:, left] for prior in state.priors]
    state.previous_cost, state.cost = 1.0, 0.94  # the loss still falls
    state.prune(0.1)
    assert state.rows.rank == 4
    state.cost = 0.96
    state.prune(0.1)
    assert state.rank == state.rows.rank == state.cols.rank == 3 and state.is_sound(problem)
    for (side, _), (means, precisions) in zip(state.sides, wanted, strict=True):
        np.testing.assert_array_equal(side.means, means)
        np.testing.assert_array_equal(side.precisions[:3], precisions)
    for prior, those in zip(state.priors, weights, strict=True):
        np.testing.assert_array_equal(prior.weights[:, :3], those)
    assert 0.098 * noise < np.abs(dense_of(state) - before).max() <= 0.1 * noise
    assert np.isfinite(BayesSweeps(kind, pattern_prior=pattern).step(problem, None, state).value)


def test_the_loss_of_the_last_two_sweeps_is_known():
    problem, solver = problem_of(Square(), 28), BayesSweeps()
    state, _ = run(solver, problem, n_steps=1)
    once = state.cost
    solver.step(problem, None, state)
    assert state.cost != once == state.previous_cost
    assert state.cost == pytest.approx(state.weight / state.scale / 2)


def test_nothing_is_left_out_of_an_exact_matrix_whose_last_factors_come_up_late():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 12)) @ rng.normal(size=(12, 50))
    problem = Problem(Observations.from_dense(X), "square")
    model = solve(problem, BayesSweeps("none", least_effect=0.1), rank=31, max_iter=60).model
    assert rmse(X, model) < 0.01 * X.std()


def test_one_component_stays_however_weak():
    problem = problem_of(Square(), 25)
    state, _ = run(BayesSweeps(), problem, n_steps=1)
    state.rows.means[:, :3] *= [1e-9, 2e-9, 1e-9]
    state.previous_cost = state.cost
    state.cols.means[:, :3] = 1e-9
    strongest = np.abs(state.rows.means[:, :3]).max(axis=0).argmax()
    means = state.rows.means[:, [strongest, 3]]
    state.prune(0.1)
    np.testing.assert_array_equal(state.rows.means, means)


def test_of_factors_that_are_all_zero_one_stays():
    result = solve(
        Problem(Observations.from_dense(np.zeros((30, 20))), "square"), BayesSweeps(least_effect=0.1), rank=9
    )
    assert result.history[-1].rank == 1


def test_factors_yet_to_come_keep_those_there_are():
    problem = problem_of(Square(), 27)
    state, _ = run(BayesSweeps(block=1), problem, rank=4, n_steps=2)
    state.rows.means[:, 0] = 0.0
    state.previous_cost = state.cost
    state.prune(0.1)
    assert state.rows.rank == 2 and state.rank == 4


def test_the_noise_is_learned(noisy):
    assert noisy[2].posterior.noise_variance == pytest.approx(0.25, rel=0.1)
    signs = solve(problem_of(Logistic(), 23), BayesSweeps(), rank=2, max_iter=2).model
    assert signs.posterior.noise_variance == 0.0


def test_standard_deviations_are_calibrated_on_planted_data(noisy):
    X, seen, model = noisy
    rows, cols = np.nonzero(~seen.to_sparse().toarray().astype(bool))
    found, deviation = model.predict_entries(rows, cols, return_std=True)
    assert found.shape == deviation.shape == rows.shape and np.all(deviation > 0)
    scores = (X[rows, cols] - found) / deviation
    # factors that are thought independent are thought a little too sure
    assert 0.9 < scores.var() < 1.6 and abs(scores.mean()) < 0.1
    busy = np.bincount(seen.rows)[rows]
    assert deviation[busy < np.median(busy)].mean() > deviation[busy > np.median(busy)].mean()


@every_kind
def test_the_standard_deviation_is_that_of_the_product_of_independent_factors(kind):
    problem = problem_of(Square(), 24)
    solver = BayesSweeps(kind)
    state, _ = run(solver, problem)
    found = np.sqrt(variances_of(state))
    rows, cols = (part.ravel() for part in np.indices(problem.shape))
    posterior = solver.finish(state)["posterior"]
    np.testing.assert_allclose(np.sqrt(posterior.variance_at(rows, cols)), found.ravel(), rtol=1e-10)
    assert posterior.row_means.shape == (problem.shape[0], 4) and posterior.col_variances.shape == (problem.shape[1], 4)
    rng = np.random.default_rng(0)
    sides = (posterior.row_means, posterior.row_variances), (posterior.col_means, posterior.col_variances)
    draws = [rng.normal(means[0], np.sqrt(variances[0]), (200_000, 4)) for means, variances in sides]
    sampled = (draws[0][:, :3] * draws[1][:, :3]).sum(axis=1) + draws[0][:, 3] + draws[1][:, 3]
    assert sampled.std() == pytest.approx(found[0, 0], rel=0.02)


def test_standard_deviations_are_refused_where_they_are_not_known(noisy):
    model = noisy[2]
    with pytest.raises(SettingError, match="full rank"):
        model.predict_entries([0], [0], rank=1, return_std=True)
    assert len(model.predict_entries([0], [0], rank=model.rank, return_std=True)) == 2
    plain = solve(problem_of(Square(), 25), FactorSweeps(), rank=2, max_iter=2).model
    with pytest.raises(SettingError, match="posterior variances"):
        plain.predict_entries([0], [0], return_std=True)


class Pattern:
    """A pattern prior on random rows, and the regression it stands for, dense."""

    def __init__(self, side=0, ridge=2.0, seed=26):
        rng = np.random.default_rng(seed)
        problem = problem_of(Square(), seed, shape=(20, 12), density=0.3)
        sides = [problem.side("rows"), problem.side("columns")]
        for part in sides:
            part.widen(rng.normal(size=(part.means.shape[0], 2)), 1.0)
            part.means[:, -1] = rng.normal(size=part.means.shape[0])
        self.side, self.other, self.ridge = sides[side], sides[1 - side], ridge
        self.prior = PatternPrior.zero(sides[side], sides[1 - side], ridge)
        seen = problem.observations.to_sparse().toarray() != 0
        seen = seen if side == 0 else seen.T
        self.design = seen / np.sqrt(np.maximum(seen.sum(axis=1, keepdims=True), 1))

    def improve(self, n_steps):
        self.prior.improve(self.side, self.other, n_steps)

    def quadratic(self):
        left = self.side.means - self.design @ self.prior.weights
        return 0.5 * np.sum(left**2, axis=0) + 0.5 * self.ridge * np.sum(self.prior.weights**2, axis=0)


@pytest.mark.parametrize("side", [0, 1], ids=["rows", "columns"])
def test_the_pattern_prior_converges_to_the_ridge_regression_on_the_pattern(side):
    given = Pattern(side)
    values = [given.quadratic()]
    for _ in range(60):
        given.improve(2)
        values.append(given.quadratic())
        np.testing.assert_allclose(given.side.prior_means, given.design @ given.prior.weights, atol=1e-10)
    assert np.all(np.diff(values, axis=0) <= 1e-12) and np.all(values[1] < values[0])
    tall = np.vstack((given.design, np.sqrt(given.ridge) * np.eye(given.design.shape[1])))
    wanted = np.vstack((given.side.means, np.zeros((given.design.shape[1], 3))))
    exact = np.linalg.lstsq(tall, wanted, rcond=None)[0]
    np.testing.assert_allclose(given.prior.weights, exact, atol=1e-8)
    np.testing.assert_allclose(given.prior.penalty(given.side), given.ridge * (exact**2).sum(axis=0), rtol=1e-6)


def test_n_conjugate_gradient_steps_are_the_best_in_their_krylov_space():
    given = Pattern()
    A = given.design.T @ given.design + given.ridge * np.eye(given.design.shape[1])
    b = given.design.T @ given.side.means
    given.improve(3)
    for k in range(3):
        basis = np.column_stack([np.linalg.matrix_power(A, p) @ b[:, k] for p in range(3)])
        best = basis @ np.linalg.solve(basis.T @ A @ basis, basis.T @ b[:, k])
        np.testing.assert_allclose(given.prior.weights[:, k], best, rtol=1e-8, atol=1e-10)


def test_rows_that_are_zero_leave_the_pattern_prior_at_zero():
    given = Pattern()
    given.side.means[:] = 0.0
    given.improve(2)
    assert not given.prior.weights.any() and not given.side.prior_means.any()


@every_kind
@pytest.mark.parametrize("block", [None, 1, 2])
def test_what_a_row_is_thought_to_be_is_what_the_weights_of_its_pattern_say(kind, block):
    problem = problem_of(Square(), 27)
    state, _ = run(BayesSweeps(kind, block), problem, rank=4, n_steps=7)
    seen = problem.observations.to_sparse().toarray() != 0
    for side, pattern, design in zip((state.rows, state.cols), state.priors, (seen, seen.T), strict=True):
        design = design / np.sqrt(np.maximum(design.sum(axis=1, keepdims=True), 1))
        np.testing.assert_allclose(side.prior_means, design @ pattern.weights, atol=1e-10)


def test_patterns_are_looked_at_once_there_are_factors():
    assert not run(BayesSweeps(), problem_of(Square(), 28), n_steps=0)[0].priors
    state = run(BayesSweeps(pattern_ridge=5.0), problem_of(Square(), 28), n_steps=1)[0]
    assert [pattern.ridge for pattern in state.priors] == [5.0, 5.0]
    assert state.rows.prior_means.any() and state.cols.prior_means.any()
    assert not run(BayesSweeps(pattern_prior=False), problem_of(Square(), 28), n_steps=3)[0].rows.prior_means.any()


def pattern_errors(informative, seed=29):
    """Error without and with the pattern prior, where the rows' factors are, or are not, a function of the pattern."""
    rng = np.random.default_rng(seed)
    shape, rank = (400, 80), 3
    taste = rng.normal(size=(shape[1], rank))
    kind = rng.normal(size=(shape[0], rank))
    seen = rng.random(shape) < 0.12 * np.exp(kind @ taste.T - 1.5).clip(0.2, 5)
    seen[np.arange(shape[0]), rng.integers(shape[1], size=shape[0])] = True
    U = kind if informative else rng.normal(size=kind.shape)
    X = U @ rng.normal(size=(rank, shape[1]))
    rows, cols = np.nonzero(seen)
    observations = Observations.from_coo(rows, cols, X[rows, cols] + 0.7 * rng.normal(size=rows.size), shape)
    return [
        rmse(X, solve(Problem(observations, "square"), BayesSweeps(pattern_prior=on), rank=6, max_iter=20).model)
        for on in (False, True)
    ]


def test_where_the_pattern_tells_it_helps_and_where_it_does_not_it_costs_little():
    without, with_it = pattern_errors(informative=True)
    assert with_it < 0.93 * without
    without, with_it = pattern_errors(informative=False)
    assert with_it < 1.05 * without


def bits(model):
    posterior = () if model.posterior is None else vars(model.posterior).values()
    parts = (model.path, model.U, model.V, model.offsets.rows, model.offsets.cols, *posterior)
    return b"".join(np.asarray(part).tobytes() for part in parts)


@every_solver
def test_held_out_entries_change_no_bit(solver):
    rng = np.random.default_rng(30)
    seen = make_observations(Square(), rng, (30, 20), 0.4)
    free = np.argwhere(seen.to_sparse().toarray() == 0)
    found = set()
    for k in range(3):
        rows, cols = free[rng.choice(len(free), 40, replace=False)].T
        held_out = Observations.from_coo(rows, cols, 100 * rng.normal(size=40), seen.shape) if k else None
        found.add(bits(solve(Problem(seen, "square"), solver, rank=3, held_out=held_out).model))
    assert len(found) == 1


@every_solver
@pytest.mark.usefixtures("small_shards")
def test_threads_and_repeats_change_no_bit(solver):
    rng = np.random.default_rng(31)
    rows, cols = random_pattern(rng, (700, 600), 0.35)
    seen = Observations.from_coo(rows, cols, rng.normal(size=rows.size), (700, 600))
    found = set()
    for n_jobs in (1, 2, 2):
        problem = Problem(seen, "square", n_jobs=n_jobs)
        assert len(problem.engine.shards) >= 2 and len(problem.engine_of("columns").shards) >= 2
        found.add(bits(solve(problem, solver, rank=3, max_iter=3).model))
    assert len(found) == 1


def test_threads_leave_the_same_components_out():
    _, seen = planted(shape=(700, 600))
    solver = BayesSweeps(least_effect=0.1)
    found = [solve(Problem(seen, "square", n_jobs=n_jobs), solver, rank=7, max_iter=5) for n_jobs in (1, 2)]
    assert found[0].history[-1].rank < 7 and bits(found[0].model) == bits(found[1].model)


@every_solver
def test_other_objectives_are_refused(solver):
    rng = np.random.default_rng(32)
    problem, name = problem_of(Square(), 32), type(solver).__name__
    with pytest.raises(SettingError, match=f"{name} requires a sum of losses over observed entries.*, got Ridged"):
        solve(Ridged(problem, 1.0), solver, rank=2)
    regression = MultitaskRegression(list(rng.normal(size=(3, 5, 4))), list(rng.normal(size=(3, 5))))
    with pytest.raises(SettingError, match=f"{name} requires a sum of losses.*, got MultitaskRegression"):
        solve(regression, solver, rank=2)
    shifted = Problem(problem.observations, "square", offsets=Offsets.zero(problem.shape))
    with pytest.raises(SettingError, match=f"{name} requires an objective without fixed offsets"):
        solve(shifted, solver, rank=2)


@pytest.mark.parametrize(
    "settings, sentence",
    [
        ({"offsets": "all"}, "`offsets` must be one of"),
        ({"block": 0}, "`block` must be None or an integer"),
        ({"block": 1.5}, "`block` must be None or an integer"),
        ({"block": True}, "`block` must be None or an integer"),
    ],
    ids=str,
)
@every_solver
def test_settings_that_both_refuse(solver, settings, sentence):
    with pytest.raises(SettingError, match=sentence):
        type(solver)(**settings)


AT_LEAST_ZERO = [(FactorSweeps, name) for name in ("ridge", "offset_ridge", "count_power", "smoothing")]


@pytest.mark.parametrize(("kind", "name"), [*AT_LEAST_ZERO, (BayesSweeps, "least_effect")])
@pytest.mark.parametrize("given", [-1.0, np.inf, np.nan, "much", True, 10**400])
def test_numbers_of_at_least_zero_that_are_refused(kind, name, given):
    with pytest.raises(SettingError, match=f"`{name}` must be a number of at least zero"):
        kind(**{name: given})


@pytest.mark.parametrize("name", ["pattern_ridge", "start_precision"])
@pytest.mark.parametrize("given", [0.0, -1.0, np.inf, np.nan, "much", True])
def test_settings_that_the_bayes_sweeps_refuse(name, given):
    with pytest.raises(SettingError, match=f"`{name}` must be a positive number"):
        BayesSweeps(**{name: given})


def test_a_pattern_prior_is_wanted_or_not():
    with pytest.raises(SettingError, match="`pattern_prior` must be True or False"):
        BayesSweeps(pattern_prior="yes")


class KeptFactors(FactorSweeps):
    """Sweeps whose factors have a meaning of their own and must not be rotated."""

    truncates = False


def test_factors_that_must_not_be_rotated_are_kept_as_they_are():
    problem = problem_of(Square(), 36)
    solver = KeptFactors(ridge=0.5)
    model = solve(problem, solver, rank=3, max_iter=4, tol=0).model
    state, _ = run(solver, problem, n_steps=4)
    np.testing.assert_array_equal(model.U, state.rows.factors)
    np.testing.assert_array_equal(model.V, state.cols.factors)
    np.testing.assert_array_equal(model.theta, np.ones(3))
    rotated = solve(problem, FactorSweeps(ridge=0.5), rank=3, max_iter=4, tol=0).model
    np.testing.assert_allclose(model.to_dense(), rotated.to_dense(), atol=1e-3)  # but for negligible components
    np.testing.assert_allclose(rotated.U.T @ rotated.U, np.eye(rotated.rank), atol=1e-9)
    with pytest.raises(SettingError, match="keeps no path"):
        model.predict_entries([0], [0], rank=1)
    folded, wanted = (fold_in(fitted, problem.observations) for fitted in (model, rotated))
    np.testing.assert_array_equal(folded.U, folded.learned.rows.means[:, :3])
    np.testing.assert_allclose(folded.to_dense(), wanted.to_dense(), atol=1e-3)


class MeanPrior:
    """Every row is thought to be like the mean of all rows: a prior from outside the package."""

    kind = "mean"

    def __init__(self, mean):
        self.mean = mean

    @classmethod
    def from_arrays(cls, saved, ridge):
        return cls(saved.arrays["mean"][0])

    def to_arrays(self):
        return PriorArrays(self.kind, {"mean": self.mean[None]})

    def improve(self, side, other):
        self.mean = side.means.mean(axis=0)
        side.prior_means = np.tile(self.mean, (side.means.shape[0], 1))

    def penalty(self, side):
        return np.zeros(self.mean.size)

    def row_means(self, side):
        return np.tile(self.mean, (side.means.shape[0], 1))

    def narrow(self, places):
        self.mean = self.mean[places]

    def renumber(self, places, dtype):
        self.mean = self.mean.astype(dtype)

    def is_sound(self, side, other):
        return self.mean.shape == side.means.shape[1:]


class MeanSweeps(BayesSweeps):
    """Bayesian sweeps with the toy prior on both sides."""

    def make_priors(self, state):
        return [MeanPrior(np.zeros(side.means.shape[1])) for side, _ in state.sides]


def test_a_prior_from_outside_is_learned_saved_folded_in_and_started_from(monkeypatch, tmp_path):
    monkeypatch.setitem(PRIORS, "mean", MeanPrior)
    problem = problem_of(Square(), 37)
    model = solve(problem, MeanSweeps(), rank=2, max_iter=6, tol=0).model
    assert model.learned.rows.prior.kind == "mean" and isinstance(MeanPrior(np.zeros(3)), RowPrior)
    save(model, tmp_path / "m.rankwise")
    again, nothing = load(tmp_path / "m.rankwise"), np.full((2, problem.shape[1]), np.nan)
    nothing[1, 0] = 1.0
    folded = fold_in(again, nothing)
    np.testing.assert_allclose(folded.learned.rows.means[0], model.learned.rows.prior.arrays["mean"][0], rtol=1e-6)
    value = solve(problem, MeanSweeps(), rank=2, max_iter=6, tol=0).history[-1].value
    assert solve(problem, MeanSweeps(), rank=2, max_iter=2, tol=0, start=again).history[-1].value <= value
    monkeypatch.delitem(PRIORS, "mean")
    with pytest.raises(SettingError, match="row prior of type 'mean'"):
        fold_in(again, nothing)


SIGNS = [Square(), Logistic(), SquaredHinge(), SmoothHinge(), Hinge()]


@pytest.mark.parametrize("loss", SIGNS, ids=repr)
def test_planted_signs_are_learned_by_every_loss_of_signs(loss):
    rng = np.random.default_rng(33)
    X = rng.normal(size=(120, 2)) @ rng.normal(size=(2, 90))
    rows, cols = random_pattern(rng, X.shape, 0.4)
    seen = Observations.from_coo(rows, cols, np.sign(X[rows, cols] + 0.3 * rng.normal(size=rows.size)), X.shape)
    for solver in (FactorSweeps("none"), FactorSweeps(), BayesSweeps("none"), BayesSweeps()):
        model = solve(Problem(seen, loss, dtype="float64"), solver, rank=4).model
        assert np.mean(np.sign(model.to_dense()) == np.sign(X)) > 0.85


@every_kind
@every_solver
def test_planted_counts_of_very_different_sizes_are_learned(solver, kind):
    rng = np.random.default_rng(34)
    rates = np.exp(rng.normal(0, 2, (40, 1)) + rng.normal(0, 2, 30))
    seen = Observations.from_dense(rng.poisson(rates).astype(float))
    result = solve(Problem(seen, "poisson", dtype="float64"), type(solver)(kind), rank=2)
    assert result.status.reason != "diverged"
    found = np.exp(result.model.to_dense())
    assert np.median(np.abs(found - rates)[rates > 5] / rates[rates > 5]) < 0.5


def test_offsets_of_counts_are_no_worse_than_their_level():
    rng = np.random.default_rng(35)
    rates = np.ones((40, 30))
    rates[3] = 5000.0
    seen = Observations.from_dense(rng.poisson(rates).astype(float))
    problem = Problem(seen, "poisson", dtype="float64")
    level = best_constant(problem)
    found = fit_offsets(problem).at(seen.rows, seen.cols)
    assert Poisson().value(found, seen.targets).sum() <= Poisson().value(level, seen.targets).sum()


@pytest.mark.slow
@pytest.mark.parametrize(("ridge", "share"), [(0.0, 0.15), (1.0, 0.05)])
def test_a_users_loss_with_corners_is_learned_nearly_as_its_built_in_twin(ridge, share):
    """It has no parabola of its own, only two points: without a ridge its sweeps end some percent higher."""
    seen = problem_of(Square(), 35, shape=(40, 30), density=0.8).observations
    values = [
        solve(Problem(seen, loss, dtype="float64"), FactorSweeps(ridge=r, offset_ridge=r), rank=2).history[-1].value * k
        for loss, r, k in ((lopsided, ridge, 1), (Quantile(0.35), ridge / 2, 2))
    ]
    assert values[0] <= (1 + share) * values[1]
