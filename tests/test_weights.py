"""An entry of weight 2 is the entry twice: for every loss, every solver, in the noise, the scores and the metrics."""

import numpy as np
import pytest
from helpers import make_observations, rarely
from loss_cases import COMPILED

from rankwise import DataError, MatrixCompletion, Observations, Problem, fold_in, selection, solve
from rankwise.losses import Absolute, Huber, Logistic, Square
from rankwise.selection.paths import _Validation
from rankwise.solvers import (
    ADMM,
    GECO,
    AISImpute,
    AltMin,
    BayesSweeps,
    FactorSweeps,
    GreedyPursuit,
    NonsmoothPursuit,
    Wiberg,
    fit_offsets,
)


class Repeated(Observations):
    """Entries that may come more than once, each on its own; what `Observations` refuses, but sums do not mind."""

    def __init__(self, rows, cols, targets, shape):
        order = np.lexsort((cols, rows))
        starts = np.searchsorted(rows[order], np.arange(shape[0] + 1)).astype(np.uint64)
        self.indptr, self.indices, self.targets = starts, cols[order].astype(np.uint32), targets[order]
        self.shape, self.weights, self.row_labels, self.col_labels = shape, None, None, None
        for part in (self.indptr, self.indices, self.targets):
            part.flags.writeable = False  # the kernels are compiled for these

    def transposed(self):
        return Repeated(self.cols, self.rows, self.targets, self.shape[::-1])

    def take_rows(self, rows):
        place = np.full(self.shape[0], -1)
        place[rows] = np.arange(len(rows))
        kept = place[self.rows] >= 0
        return Repeated(place[self.rows][kept], self.cols[kept], self.targets[kept], (len(rows), self.shape[1]))


def pair(loss, seed=0, shape=(14, 11)):
    """The same entries, once with whole weights and once repeated as often."""
    rng = np.random.default_rng(seed)
    plain = make_observations(loss, rng, shape, 0.5)
    times = rng.integers(1, 4, plain.n_observed)
    weighted = Observations.from_coo(plain.rows, plain.cols, plain.targets, shape, weights=times)
    return weighted, Repeated(*(np.repeat(part, times) for part in (plain.rows, plain.cols, plain.targets)), shape)


def problems(loss, seed=0):
    """Both as problems; a cell's curvature is that of all its entries, which a repeated problem does not look for."""
    found = [Problem(each, loss, dtype=np.float64) for each in pair(loss, seed)]
    found[1].lipschitz = found[0].lipschitz
    return found


SMOOTH = [
    GreedyPursuit("coefficients"),
    GreedyPursuit("economic"),
    AltMin(max_iter=3),
    AISImpute(0.5, max_iter=5),
    GECO(),
]
ANY = [
    BayesSweeps(pattern_prior=False),
    BayesSweeps("rows", 1, pattern_prior=False),
    FactorSweeps(count_power=0.5),
    GreedyPursuit("none"),
    NonsmoothPursuit(max_inner_rank=1),
]
FEW = {"Square", "Logistic"}  # every fit here has weights, and kernels of its own
CASES = [(loss, solver) for loss in COMPILED for solver in ANY]
CASES += [(loss, solver) for loss in COMPILED if loss.smooth for solver in SMOOTH if loss.lipschitz is not None]
CASES = [case if type(case[0]).__name__ in FEW else rarely(*case) for case in CASES]


@pytest.mark.parametrize("loss, solver", CASES, ids=lambda part: repr(part)[:60])
def test_a_fit_with_weights_is_the_fit_with_repeated_entries(loss, solver):
    weighted, repeated = (solve(problem, solver, rank=2, max_iter=4) for problem in problems(loss))
    assert len(weighted.history) == len(repeated.history) > 0
    np.testing.assert_allclose(
        weighted.history.column("value"), repeated.history.column("value"), rtol=1e-6, err_msg="values"
    )
    np.testing.assert_allclose(weighted.model.to_dense(), repeated.model.to_dense(), rtol=1e-4, atol=1e-5)
    assert weighted.model.scale == pytest.approx(repeated.model.scale, rel=1e-6)
    if weighted.model.posterior is not None:
        np.testing.assert_allclose(
            weighted.model.posterior.row_variances, repeated.model.posterior.row_variances, rtol=1e-4
        )


def test_wiberg_ends_where_no_change_of_the_columns_lowers_the_sum_over_repeated_entries():
    weighted, repeated = pair(Absolute(), 4, (9, 7))
    model = solve(Problem(weighted, "l1", dtype=np.float64), Wiberg(max_iter=5), rank=1).model
    X = model.to_dense()

    def total(scale):
        return np.abs((X * scale)[repeated.rows, repeated.cols] - repeated.targets).sum()

    for j in range(7):
        for step in (0.98, 1.02):
            scale = np.ones(7)
            scale[j] = step
            assert total(np.ones(7)) <= total(scale) + 1e-9


def test_doubling_all_weights_of_admm_doubles_what_the_nuclear_norm_is_weighed_against():
    plain = make_observations(Absolute(), np.random.default_rng(3), (12, 10), 0.7)
    twice = Observations.from_coo(
        plain.rows, plain.cols, plain.targets, plain.shape, weights=np.full(plain.n_observed, 2)
    )
    one = solve(Problem(plain, "l1", dtype=np.float64), ADMM(nuclear_weight=1.5, max_iter=400), rank=10, tol=1e-9)
    two = solve(Problem(twice, "l1", dtype=np.float64), ADMM(nuclear_weight=3.0, max_iter=400), rank=10, tol=1e-9)
    np.testing.assert_allclose(one.model.to_dense(), two.model.to_dense(), atol=1e-3)


@pytest.mark.parametrize("loss", [loss if type(loss).__name__ in FEW else rarely(loss) for loss in COMPILED], ids=repr)
def test_value_gradient_and_offsets_count_repeated_entries(loss):
    weighted, repeated = problems(loss, 1)
    rng = np.random.default_rng(2)
    U, V = rng.normal(size=(14, 2)), rng.normal(size=(11, 2))
    for problem in (weighted, repeated):
        problem.move(np.ones(2), U, V)
    assert weighted.value() == pytest.approx(repeated.value(), rel=1e-12)
    v = rng.normal(size=11)
    np.testing.assert_allclose(weighted.gradient().matvec(v), repeated.gradient().matvec(v), rtol=1e-10, atol=1e-12)
    for problem in (weighted, repeated):
        problem.reset()
    found, wanted = (fit_offsets(problem) for problem in (weighted, repeated))
    np.testing.assert_allclose(found.to_dense(), wanted.to_dense(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("loss", [Square(), Logistic(), rarely(Absolute())], ids=repr)
def test_new_rows_count_their_repeated_entries(loss):
    model = solve(problems(loss, 2)[0], BayesSweeps(pattern_prior=False), rank=2).model
    found, wanted = (fold_in(model, new) for new in pair(loss, 7))
    np.testing.assert_allclose(found.to_dense(), wanted.to_dense(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("solver", [*ANY, *SMOOTH, BayesSweeps()], ids=lambda solver: repr(solver)[:60])
def test_an_entry_of_weight_zero_is_not_there(solver):
    loss = Square()
    plain = make_observations(loss, np.random.default_rng(4), (14, 11), 0.5)
    weights = np.random.default_rng(5).integers(0, 2, plain.n_observed)
    masked = Observations.from_coo(plain.rows, plain.cols, plain.targets, plain.shape, weights=weights)
    kept = weights > 0
    parts = (part[kept] for part in (plain.rows, plain.cols, plain.targets))
    without = Observations.from_coo(*parts, plain.shape, weights=weights[kept])
    models = [solve(Problem(each, loss, dtype=np.float64), solver, rank=2).model for each in (masked, without)]
    assert np.array_equal(models[0].to_dense(), models[1].to_dense())
    assert models[0].seen.indices.size == np.count_nonzero(weights)


def test_which_entries_a_row_has_does_not_depend_on_how_often():
    weighted, _ = pair(Square(), 3)
    plain = Observations.from_coo(weighted.rows, weighted.cols, weighted.targets, weighted.shape)
    lengths = []
    for seen in (weighted, plain):
        problem, solver = Problem(seen, "square", dtype=np.float64), BayesSweeps()
        state = solver.init(problem, 2)
        for step in (1, 2):
            solver.step(problem, np.random.default_rng(step), state)
        lengths.append(state.priors[0].lengths)
    assert np.array_equal(*lengths)


def test_the_default_estimator_counts_repeated_entries():
    loss = Huber(1.345 * float(np.std(pair(Square(), 6)[1].targets)))
    found, wanted = (
        MatrixCompletion(rank=2, method=BayesSweeps(pattern_prior=False), dtype="float64").fit(each)
        for each in pair(Square(), 6)
    )
    assert found.model_.loss.delta == pytest.approx(loss.delta) == wanted.model_.loss.delta
    np.testing.assert_allclose(found.model_.to_dense(), wanted.model_.to_dense(), rtol=1e-5, atol=1e-6)


def test_validation_scores_count_repeated_entries():
    weighted, repeated = pair(Square(), 8)
    found, wanted = _Validation(Square(), weighted), _Validation(Square(), repeated)
    for score, seen in ((found, weighted), (wanted, repeated)):
        score(seen.targets, 0.1 * seen.rows - 0.2 * seen.cols)
    np.testing.assert_allclose(found.scores, wanted.scores, rtol=1e-12)
    each = Square().value(0.1 * repeated.rows - 0.2 * repeated.cols, repeated.targets)
    np.testing.assert_allclose(found.scores[0], (each.mean(), each.std() / np.sqrt(each.size)), rtol=1e-12)


METRICS = ("sign_accuracy", "auc", "macro_f1", "mean_absolute_error", "root_mean_squared_error")


@pytest.mark.parametrize("name", METRICS)
def test_metrics_count_repeated_entries(name):
    rng = np.random.default_rng(9)
    for _ in range(5):
        targets, predicted = rng.choice([-1.0, 1.0], 40), np.round(rng.normal(size=40), 1)
        times = rng.integers(0, 4, 40)
        metric = getattr(selection, name)
        found = metric(targets, predicted, weights=times)
        assert found == pytest.approx(metric(np.repeat(targets, times), np.repeat(predicted, times)), rel=1e-12)
        assert metric(targets, predicted) == pytest.approx(metric(targets, predicted, weights=np.full(40, 3.0)))


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("weights, says", [([1, -1], "negative"), ([0, 0], "zero"), ([1], "give one per entry")])
def test_metrics_refuse_weights_that_count_nothing(name, weights, says):
    with pytest.raises(Exception, match=says):
        getattr(selection, name)([1, -1], [0.5, 0.2], weights=weights)


def test_the_auc_refuses_one_sign_without_weight():
    with pytest.raises(Exception, match="weight zero"):
        selection.auc([1, -1], [0.5, 0.2], weights=[1, 0])


@pytest.mark.parametrize("weights", [[1e300, 1.0, 1.0], [5e-324] * 3, [1.0, 1e-30, 1.0]])
def test_weights_beyond_arithmetic_are_refused_by_name(weights):
    with pytest.raises(DataError, match=r"weight .* at entry \d is out of range"):
        Observations.from_coo([0, 0, 1], [0, 1, 1], [1.0, 2.0, 3.0], weights=weights)


def test_light_weights_are_named_in_a_warning(caplog):
    plain = make_observations(Square(), np.random.default_rng(4), (14, 11), 0.5)
    for factor, warned in ((1.0, False), (1e-3, True)):
        weights = np.full(plain.n_observed, factor)
        light = Observations.from_coo(plain.rows, plain.cols, plain.targets, plain.shape, weights=weights)
        caplog.clear()
        MatrixCompletion("square", rank=1, max_iter=1).fit(light)
        assert ("mean weight is 0.001" in caplog.text) is warned
