"""Going on from a model: in fewer steps, to the same place, with new rows and columns or at a higher rank."""

import numpy as np
import pytest
from helpers import make_observations

from rankwise import Checkpoint, MatrixCompletion, Observations, Problem, SettingError, load, solve
from rankwise.losses import Absolute, Logistic, Square
from rankwise.solvers import AltMin, BayesSweeps, FactorSweeps, GreedyPursuit, NonsmoothPursuit
from rankwise.solvers.resume import places

NOISE = 0.3


def planted(shape=(120, 60), seed=0, share=0.4):
    """Truth of rank 3 with offsets, and a mask of what is seen of it."""
    rng = np.random.default_rng(seed)
    truth = 1.5 + rng.normal(size=(shape[0], 1)) + rng.normal(size=shape[1])
    truth = truth + rng.normal(size=(shape[0], 3)) @ rng.normal(size=(3, shape[1]))
    noisy = truth + NOISE * rng.normal(size=shape)
    return truth, np.where(rng.random(shape) < share, noisy, np.nan)


def error(estimator, truth):
    return float(np.sqrt(np.mean((estimator.model_.to_dense() - truth) ** 2)))


def fits(method, cold, part, rank=3, **options):
    """A fit of everything from nothing, and one of everything after one of a part."""
    settings = {"loss": "square", "rank": rank, "method": method, "dtype": "float64", **options}
    if method == "factors":
        settings |= {"ridge": 0.5}
    warm = MatrixCompletion(**settings, warm_start=True).fit(part)
    return MatrixCompletion(**settings).fit(cold), warm.fit(cold)


@pytest.mark.parametrize("method", ["bayes", "factors"])
@pytest.mark.parametrize("kind", ["entries", "rows", "columns", "both"])
def test_more_data_takes_a_third_of_the_sweeps_and_ends_at_the_same_value(method, kind):
    truth, seen = planted()
    part = np.where(np.random.default_rng(1).random(seen.shape) < 0.9, seen, np.nan)
    if kind in ("rows", "both"):
        part = part[:100]
    if kind in ("columns", "both"):
        part = part[:, :50]
    cold, warm = fits(method, seen, part)
    assert len(warm.history_) <= 4 < len(cold.history_)
    values = [fit.history_[-1].value for fit in (warm, cold)]
    assert values[0] <= values[1] + 0.02 * abs(values[1])
    assert error(warm, truth) < 1.05 * error(cold, truth) < NOISE
    assert warm.model_.shape == seen.shape


@pytest.mark.parametrize("method", ["bayes", "factors"])
def test_more_rank_takes_two_thirds_of_the_sweeps(method):
    truth, seen = planted()
    settings = {"loss": "square", "method": method, "ridge": 0.5 if method == "factors" else None, "tol": 1e-9}
    warm = MatrixCompletion(rank=2, warm_start=True, **settings).fit(seen)
    assert error(warm, truth) > 2 * NOISE
    warm.set_params(rank=3).fit(seen)
    cold = MatrixCompletion(rank=3, **settings).fit(seen)
    assert len(warm.history_) <= 8 < len(cold.history_)
    assert warm.model_.rank == 3 and error(warm, truth) < 1.05 * error(cold, truth) < NOISE
    values = [fit.history_[-1].value for fit in (warm, cold)]
    assert values[0] <= values[1] + 0.02 * abs(values[1])


@pytest.mark.parametrize("solver", [BayesSweeps(), FactorSweeps(ridge=0.5)], ids=repr)
@pytest.mark.parametrize("loss", [Square(), Absolute(), Logistic()], ids=repr)
def test_going_on_passes_less_often_over_the_observations_and_never_uphill(solver, loss):
    problems = [
        Problem(make_observations(loss, np.random.default_rng(2), (40, 30), 0.5), loss, dtype=np.float64)
        for _ in range(3)
    ]
    first = solve(problems[0], solver, rank=3, tol=0)
    found = solve(problems[1], solver, rank=3, tol=0, start=first.model)
    solver.init(problems[2], 3)  # offsets without factors, which both fits need
    assert problems[1].passes - problems[2].passes < 0.6 * (problems[0].passes - problems[2].passes)
    values = found.history.column("value")
    assert np.all(np.diff(values) <= 1e-9 * np.abs(values[:-1]))
    assert values[-1] <= first.history[-1].value


PURSUITS = [
    (Square(), GreedyPursuit("coefficients")),
    (Logistic(), GreedyPursuit("economic")),
    (Absolute(), NonsmoothPursuit(max_inner_rank=1)),
]


@pytest.mark.parametrize("loss, solver", PURSUITS, ids=repr)
def test_a_pursuit_goes_on_as_if_it_had_never_stopped(loss, solver):
    problem = Problem(make_observations(loss, np.random.default_rng(3), (40, 30), 0.5), loss, dtype=np.float64)
    whole = solve(problem, solver, rank=8)
    half = solve(problem, solver, rank=4).model
    rest = solve(problem, solver, rank=8, start=half)
    assert len(rest.history) == 4 == len(whole.history) - 4
    np.testing.assert_allclose(rest.history.column("value"), whole.history.column("value")[4:], rtol=1e-5)
    np.testing.assert_array_equal(rest.model.path[:4, :4], whole.model.path[:4, :4])
    for rank in (2, 4, 6, 8):
        np.testing.assert_allclose(rest.model.to_dense(rank), whole.model.to_dense(rank), rtol=1e-3, atol=1e-4)


def test_a_pursuit_that_may_rise_still_chooses_its_best():
    problem = Problem(make_observations(Absolute(), np.random.default_rng(4), (40, 30), 0.5), "l1", dtype=np.float64)
    steps = NonsmoothPursuit("paper", step_scale=20.0)
    first = solve(problem, steps, rank=6).model
    assert first.rank < first.longest  # a case where it matters
    found = solve(problem, steps, rank=9, start=first).model

    def value(rank):
        problem.move(found.path[rank - 1, :rank], found.U[:, :rank], found.V[:, :rank])
        return problem.value()

    assert found.longest == 9 and value(found.rank) <= min(value(first.rank), value(6), value(9)) + 1e-9


@pytest.mark.parametrize("method", ["bayes", "factors"])
def test_rows_and_columns_are_matched_by_label(method):
    _, seen = planted((90, 40))
    rows, cols = np.nonzero(~np.isnan(seen))
    names = np.array([f"c{99 - j}" for j in cols])  # sorted the other way round
    labelled = Observations.from_labels(rows, names, seen[rows, cols])
    plain = Observations.from_dense(seen)
    first = (rows >= 10) & (cols < 35)
    part = Observations.from_labels(rows[first], names[first], seen[rows, cols][first])
    settings = {"rank": 3, "method": method, "ridge": 0.5 if method == "factors" else None, "dtype": "float64"}
    by_label = MatrixCompletion("square", **settings, warm_start=True).fit(part).fit(labelled)
    cold = MatrixCompletion("square", **settings).fit(plain)
    found = by_label.predict_entries(rows, names)
    wanted = cold.predict_entries(rows, cols)
    assert len(by_label.history_) < len(cold.history_)
    assert np.sqrt(np.mean((found - wanted) ** 2)) < 0.5 * NOISE
    assert by_label.history_[0].value < cold.history_[0].value  # which it would not be with rows in wrong places


def test_places_of_rows():
    old, new = np.array(["a", "b", "c"]), np.array(["c", "x", "a"])
    assert places(new, old, 3, 3).tolist() == [2, -1, 0]
    assert places(None, old, 4, 3).tolist() == [0, 1, 2, -1]
    assert places(None, None, 2, 3).tolist() == [0, 1]


def test_the_first_fit_is_from_nothing_and_the_ridge_is_chosen_once():
    _, seen = planted((40, 30))
    plain, warm = (MatrixCompletion("square", 2, method="factors", warm_start=flag).fit(seen) for flag in (False, True))
    np.testing.assert_array_equal(plain.model_.to_dense(), warm.model_.to_dense())
    chosen = warm.path_.best
    warm.fit(seen)
    assert warm.path_ is None and warm.model_.learned.rows.precisions[0] == chosen
    again = plain.fit(seen)
    assert len(again.history_) > len(warm.history_)  # without `warm_start`, from nothing each time


@pytest.mark.parametrize("method", ["bayes", "factors"])
def test_a_loaded_estimator_goes_on_where_it_was_saved(method, tmp_path):
    truth, seen = planted()
    settings = {"method": method, "ridge": 0.5 if method == "factors" else None, "dtype": "float64"}
    fitted = MatrixCompletion("square", 3, warm_start=True, **settings).fit(seen[:100])
    fitted.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.fit(seen).model_.to_dense(), fitted.fit(seen).model_.to_dense())
    assert len(loaded.history_) <= 4 and error(loaded, truth) < NOISE


def test_a_loaded_pursuit_goes_on_to_a_higher_rank(tmp_path):
    _, seen = planted((20, 15))
    fitted = MatrixCompletion("square", 2, method="eglrl").fit(seen)
    fitted.save(tmp_path / "m")
    longer = load(tmp_path / "m").set_params(rank=4, warm_start=True).fit(seen)
    assert len(longer.history_) == 2 and longer.model_.longest == 4
    np.testing.assert_allclose(longer.model_.to_dense(2), fitted.model_.to_dense())


def refusals():
    yield {"rank": 2}, {}, "must be at least the model's, 3, .* got 2"
    yield {"offsets": "rows"}, {}, "offsets='rows' differs from the offsets of the model"
    yield (
        {"method": "factors", "ridge": 1.0},
        {},
        "FactorSweeps can only be warm-started from a model fitted by FactorSweeps",
    )
    yield {"method": "eglrl"}, {}, "from a model fitted by a pursuit"
    yield {"method": "altmin"}, {}, "AltMin cannot be warm-started"
    yield {"loss": "poisson"}, {}, "identity scale and Poisson"
    yield {}, {"method": "eglrl"}, "BayesSweeps can only be warm-started from a model fitted by BayesSweeps"


@pytest.mark.parametrize("then, first, says", list(refusals()), ids=str)
def test_what_cannot_go_on_says_so(then, first, says):
    seen = np.abs(np.round(planted((20, 15))[1]))
    usual = {"loss": "square", "rank": 3}
    estimator = MatrixCompletion(**usual | first, warm_start=True).fit(seen)
    estimator.set_params(**dict.fromkeys(first, "bayes") | then)
    with pytest.raises(SettingError, match=says):
        estimator.fit(seen)


@pytest.mark.parametrize(
    "rank, shape, says",
    [(3, (20, 15), "must be above the 3"), (5, (21, 15), "only be warm-started with the rows and columns")],
)
def test_pursuits_go_on_to_higher_ranks_of_the_same_rows_and_columns(rank, shape, says):
    estimator = MatrixCompletion("square", 3, method="eglrl", warm_start=True).fit(planted((20, 15))[1])
    with pytest.raises(SettingError, match=says):
        estimator.set_params(rank=rank).fit(planted(shape)[1])


def test_a_start_must_be_a_model():
    problem = Problem(make_observations(Square(), np.random.default_rng(0)), "square")
    for method in ("eglrl", "bayes"):
        with pytest.raises(SettingError, match="must be a LowRankModel"):
            solve(problem, method, rank=2, start="model")
    with pytest.raises(SettingError, match="AltMin cannot be warm-started"):
        solve(problem, AltMin(), rank=2, start=solve(problem, rank=2).model)


def fading(seed, n=200, m=150, rank=12, noise=0.003):
    """Factors of which each is little more than half as strong as the one before."""
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, rank)) * 0.6 ** np.arange(rank)) @ rng.normal(size=(rank, m))
    rows, cols = np.nonzero(rng.random(X.shape) < 0.5)
    return X, Observations.from_coo(rows, cols, X[rows, cols] + noise * rng.normal(size=rows.size), X.shape)


@pytest.mark.parametrize("seed", [0, 1])
def test_factors_that_come_up_late_are_not_lost_when_going_on(seed):
    X, seen = fading(seed)
    settings = {"loss": "square", "offsets": "none", "max_iter": 30}
    cold = MatrixCompletion(**settings).fit(seen)
    warm = MatrixCompletion(**settings, warm_start=True).fit(fading(5, rank=6)[1]).fit(seen)
    errors = [np.sqrt(np.mean((fit.model_.to_dense() - X) ** 2)) for fit in (cold, warm)]
    assert errors[1] < 1.5 * errors[0]


def test_going_on_with_the_same_entries_finds_few_factors_again():
    _, seen = fading(0, rank=3, noise=0.3)
    fit = MatrixCompletion("square", warm_start=True).fit(seen)
    assert fit.history_[-1].rank == 3
    assert fit.fit(seen).history_[0].rank <= 3 + 8


@pytest.mark.parametrize("settings", [{}, {"rank": 2}, {"rank": 2, "method": "factors", "ridge": 0.01}], ids=str)
def test_factors_that_were_zero_are_learned(settings):
    X = np.outer(np.arange(1.0, 31), np.linspace(-1, 1, 20))
    fit = MatrixCompletion("square", warm_start=True, max_iter=10, **settings).fit(np.ones((30, 20)))
    assert np.abs(fit.fit(X).model_.to_dense() - X).mean() < 0.01 * np.abs(X).mean()


@pytest.mark.parametrize("method", ["bayes", "factors"])
def test_going_on_with_fewer_columns_than_factors(method, tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 20))
    settings = {"loss": "square", "rank": 10, "method": method, "warm_start": True}
    settings |= {"ridge": 1.0} if method == "factors" else {}
    whole = MatrixCompletion(**settings).fit(X).fit(X[:, :5])
    assert np.isfinite(whole.model_.to_dense()).all() and whole.model_.rank <= 5
    again = MatrixCompletion(**settings).fit(X)
    again.set_params(max_iter=2, checkpoint=Checkpoint(tmp_path, every=1)).fit(X[:, :5])
    start = MatrixCompletion(**settings).fit(X)
    resumed = start.set_params(checkpoint=Checkpoint(tmp_path, every=1, resume=True)).fit(X[:, :5])
    np.testing.assert_array_equal(resumed.model_.to_dense(), whole.model_.to_dense())


@pytest.mark.parametrize("solver", [BayesSweeps, FactorSweeps])
def test_a_level_is_found_or_refused_where_there_was_none(solver):
    seen = Observations.from_dense(5 + np.random.default_rng(0).normal(size=(20, 15)))
    bare, level = (solve(Problem(seen, "square"), solver(kind), rank=1).model for kind in ("none", "global"))
    found = solve(Problem(seen, "square"), solver("global"), rank=1, start=bare).model
    assert found.offsets.constant == pytest.approx(seen.targets.mean())
    with pytest.raises(SettingError, match="differs from the offsets"):
        solve(Problem(seen, "square"), solver("none"), rank=1, start=level)


def test_a_step_that_diverges_leaves_nothing_of_itself():
    rng = np.random.default_rng(0)
    seen = Observations.from_dense(rng.poisson(1e14, size=(20, 15)).astype(float))
    result = solve(Problem(seen, "poisson"), BayesSweeps("none"), rank=3)
    assert result.status.reason == "diverged"
    assert result.model.learned is None and result.model.posterior is None
    assert np.isfinite(result.model.to_dense()).all()
