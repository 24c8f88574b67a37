"""New rows: the row solve of the fit, for rows that came later; at every rank, under every loss, for every model."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from helpers import examples_of, make_observations
from loss_cases import COMPILED, lopsided
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sweep_cases import run

from rankwise import (
    DataError,
    LossError,
    MatrixCompletion,
    ModelFileError,
    Observations,
    Problem,
    SettingError,
    fold_in,
    load,
    solve,
)
from rankwise.losses import Absolute, Huber, Logistic, Poisson, Square
from rankwise.model import PriorArrays, save
from rankwise.solvers import AltMin, BayesSweeps, FactorSweeps, GreedyPursuit, NonsmoothPursuit

every_loss = pytest.mark.parametrize("loss", COMPILED, ids=repr)
SHAPE = (25, 18)


def problem_of(loss, seed=0, weights=False, shape=SHAPE):
    return Problem(make_observations(loss, np.random.default_rng(seed), shape, 0.5, weights), loss, dtype=np.float64)


def fitted(loss=None, solver=None, rank=3, seed=0, **options):
    loss = Square() if loss is None else loss
    return solve(problem_of(loss, seed), solver or BayesSweeps(), rank=rank, max_iter=6, tol=0, **options).model


@every_loss
@pytest.mark.parametrize(
    "solver", [BayesSweeps(), FactorSweeps(count_power=0.5)], ids=lambda solver: type(solver).__name__
)
def test_the_rows_of_the_fit_get_what_its_next_row_solves_give_them(loss, solver):
    problem = problem_of(loss, 1)
    model = solve(problem, solver, rank=3, max_iter=5, tol=0).model
    state, _ = run(solver, problem, rank=3, n_steps=5)
    np.testing.assert_array_equal(model.learned.rows.means, state.rows.means)  # the same fit
    for _ in range(1 if loss.quadratic else 400):
        state.rows.improve(state.cols, state.settings(solver.uncertain))
    found = fold_in(model, problem.observations).learned.rows
    wanted, side = row_objective(state, solver.uncertain), state.rows
    means, variances, side.means, side.variances = side.means, side.variances, found.means, found.variances
    slack = 0.02 if loss is lopsided else 1e-6  # whose corners are not rounded: Newton's steps may end at one
    assert row_objective(state, solver.uncertain) <= wanted + slack * abs(wanted)
    if loss is not lopsided:
        slack = 1e-9 if loss.quadratic else 1e-6 if loss.smooth else 1e-3
        np.testing.assert_allclose(found.means, means, rtol=slack, atol=slack)
        np.testing.assert_allclose(found.variances, variances, rtol=10 * slack, atol=slack)


def test_a_ridge_of_next_to_nothing_is_no_reason_to_stop_early():
    model = fitted(Huber(0.4), FactorSweeps(ridge=0.0, offset_ridge=0.0), rank=2)
    x = np.random.default_rng(5).normal(size=(1, SHAPE[1]))
    cols = model.learned.cols.means

    def loss(row):
        return Huber(0.4).value(model.offsets.constant + cols[:, 2] + row[2] + cols[:, :2] @ row[:2], x[0]).sum()

    found = fold_in(model, x).learned.rows.means[0]
    assert loss(found) <= minimize(loss, found * 0, method="BFGS").fun + 1e-6


def row_objective(state, uncertain):
    """What the row solves lower: scaled expected loss, distance from the prior, and minus half the log variances."""
    rows = state.rows
    total = state.scale * rows.expected_loss(state.cols, state.settings(uncertain))
    off = rows.multipliers[:, None] * rows.precisions * ((rows.means - rows.prior_means) ** 2 + rows.variances)
    return total + 0.5 * off.sum() - (0.5 * np.log(rows.variances).sum() if uncertain else 0.0)


@pytest.mark.parametrize("solver", [BayesSweeps(), FactorSweeps()], ids=lambda solver: type(solver).__name__)
def test_the_model_of_the_rows_is_what_was_solved_for(solver):
    model = fitted(Huber(0.4), solver)
    found = fold_in(model, make_observations(Huber(0.4), np.random.default_rng(3), (7, SHAPE[1]), 0.6))
    rows, cols = found.learned.rows.means, found.learned.cols.means
    wanted = found.offsets.constant + rows[:, 3:] + cols[:, 3] + rows[:, :3] @ cols[:, :3].T
    np.testing.assert_allclose(found.to_dense(), wanted, atol=2e-3)  # but for components that have faded


def test_a_row_is_the_ridge_regression_on_the_columns_factors():
    model = fitted(solver=FactorSweeps(ridge=0.8, offset_ridge=0.3))
    row = np.full((1, SHAPE[1]), np.nan)
    row[0, [1, 4, 5, 9]] = [2.0, -1.0, 0.5, 3.0]
    seen = ~np.isnan(row[0])
    cols = model.learned.cols
    design = np.column_stack((cols.means[seen, :3], np.ones(4)))
    rest = row[0, seen] - model.offsets.constant - cols.means[seen, 3]
    wanted = np.linalg.solve(design.T @ design + np.diag([0.8] * 3 + [0.3]), design.T @ rest)
    found = fold_in(model, row)
    np.testing.assert_allclose(found.learned.rows.means[0], wanted, rtol=1e-9)
    assert found.offsets.rows[0] == pytest.approx(wanted[3])


TERMS = [
    (Square(), GreedyPursuit("coefficients")),
    (Logistic(), GreedyPursuit("economic")),
    (Poisson(), GreedyPursuit()),
]
TERMS += [(Absolute(), NonsmoothPursuit())]


@pytest.mark.parametrize("loss, solver", TERMS, ids=repr)
def test_rows_of_a_pursuit_are_the_likeliest_if_they_spread_as_the_fitted_ones(loss, solver):
    model = fitted(loss, solver, rank=4, seed=2)
    new = make_observations(loss, np.random.default_rng(8), (3, SHAPE[1]), 0.6)
    found = fold_in(model, new)
    terms = model.V[:, : model.rank] * model.theta
    values, vectors = np.linalg.eigh(model.U.T @ model.U / SHAPE[0])
    root = vectors * np.sqrt(values)

    def penalised(z, i):
        x = terms @ (root @ z)[: model.rank]
        mine = new.rows == i
        return model.scale * loss.value(x[new.cols[mine]], new.targets[mine]).sum() + 0.5 * z @ z

    for i in range(3):
        z = np.linalg.solve(root, found.U[i])
        best = min((minimize(penalised, start, (i,), method="Powell") for start in (z, z * 0)), key=lambda r: r.fun)
        assert penalised(z, i) <= best.fun + (1e-6 if loss.smooth else 0.02) * (1 + abs(best.fun))


def test_a_pursuit_with_offsets_solves_for_those_of_the_new_rows():
    rng = np.random.default_rng(3)
    truth = rng.normal(size=(60, 1)) * 3 + rng.normal(size=20) + rng.normal(size=(60, 2)) @ rng.normal(size=(2, 20))
    estimator = MatrixCompletion("square", 2, method="glrl", offsets="both", dtype="float64").fit(truth[:50])
    found = estimator.fold_in(truth[50:])
    assert np.abs(found.to_dense() - truth[50:]).mean() < 0.25 * np.abs(truth[50:] - truth[:50].mean(axis=0)).mean()
    assert np.corrcoef(found.offsets.rows, truth[50:].mean(axis=1))[0, 1] > 0.95
    np.testing.assert_array_equal(found.offsets.cols, estimator.offsets_.cols)


MODELS = [BayesSweeps(), BayesSweeps("none"), FactorSweeps(), GreedyPursuit(), NonsmoothPursuit(), AltMin(max_iter=5)]
every_model = pytest.mark.parametrize("solver", MODELS, ids=lambda solver: repr(solver)[:30])


@every_model
def test_a_row_without_any_entry_gets_the_offsets(solver):
    model = fitted(solver=solver)
    offsets = np.zeros(SHAPE[1]) if model.offsets is None else model.offsets.constant + model.offsets.cols
    new = np.full((3, SHAPE[1]), np.nan)
    for nothing in (new, sp.csr_array((3, SHAPE[1]))):
        np.testing.assert_array_equal(fold_in(model, nothing).to_dense(), np.tile(offsets, (3, 1)))
    new[1, 2] = 1.5
    found = fold_in(model, new).to_dense()
    np.testing.assert_allclose(found[[0, 2]], np.tile(offsets, (2, 1)), rtol=1e-12)
    assert np.abs(found[1] - offsets).max() > 1e-3


@every_model
def test_new_columns_are_new_rows_of_the_transpose(solver):
    model = fitted(solver=solver)
    new = make_observations(Square(), np.random.default_rng(5), (SHAPE[0], 4), 0.5)
    found = fold_in(model, new, axis="columns")
    wanted = fold_in(model.transposed(), new.transposed())
    assert found.shape == (SHAPE[0], 4)
    np.testing.assert_allclose(found.to_dense(), wanted.to_dense().T, rtol=1e-12)
    np.testing.assert_array_equal(found.seen.indices, new.indices)


@every_model
@pytest.mark.parametrize("loss", [Square(), Huber(0.4)], ids=repr)
def test_a_row_gets_the_same_alone_or_with_others(loss, solver):
    model = fitted(loss, solver)
    new = make_observations(loss, np.random.default_rng(6), (9, SHAPE[1]), 0.4)
    together = fold_in(model, new)
    for i in np.unique(new.rows):
        alone = fold_in(model, new.take_rows([i]))
        if together.learned is not None:
            np.testing.assert_array_equal(alone.learned.rows.means[0], together.learned.rows.means[i])
        np.testing.assert_allclose(alone.U[0], together.U[i], rtol=1e-12)  # BLAS has another order for one row


@pytest.mark.usefixtures("small_shards")
def test_threads_change_no_bit():
    model = fitted(Huber(0.4))
    rng = np.random.default_rng(7)
    new = np.where(rng.random((9000, SHAPE[1])) < 0.9, rng.normal(size=(9000, SHAPE[1])), np.nan)
    assert Observations.from_dense(new).cuts().size > 2
    np.testing.assert_array_equal(fold_in(model, new, n_jobs=1).U, fold_in(model, new, n_jobs=2).U)


def test_any_rank_of_the_path_works_for_new_rows():
    problem = problem_of(Square(), 9)
    model = solve(problem, FactorSweeps(ridge=1.0), rank=3, max_iter=2000, tol=0).model
    found = fold_in(model, problem.observations)
    for rank in range(1, 4):  # rank 0 of the model has offsets of its own
        np.testing.assert_allclose(found.to_dense(rank), model.to_dense(rank), atol=2e-3)
    for factors, terms, whole in (
        (found.row_factors(2), model.V, found.to_dense(2) - found.offsets.to_dense()),
        (model.col_factors(2), model.U, (model.to_dense(2) - model.offsets.to_dense()).T),
    ):
        np.testing.assert_allclose(factors @ terms[:, :2].T, whole, atol=1e-12)
    pursuit = fitted(solver=GreedyPursuit("coefficients"))
    rows = fold_in(pursuit, problem.observations)
    assert np.array_equal(rows.path, pursuit.path) and rows.to_dense(1).shape == SHAPE


def test_new_rows_of_a_planted_matrix_are_found():
    rng = np.random.default_rng(10)
    truth = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 30)) + 2 * rng.normal(size=30)
    noisy = np.where(rng.random(truth.shape) < 0.6, truth + 0.1 * rng.normal(size=truth.shape), np.nan)
    estimator = MatrixCompletion("square", 5).fit(noisy[:300])
    folded = estimator.fold_in(noisy[300:])
    assert np.sqrt(np.mean((folded.to_dense() - truth[300:]) ** 2)) < 0.12
    predicted, deviation = folded.predict_entries([0, 1], [2, 3], return_std=True)
    assert predicted.shape == (2,) and (deviation > 0).all() and (deviation < 0.3).all()
    unsure = estimator.fold_in(np.full((1, 30), np.nan)).predict_entries([0], [2], return_std=True)[1]
    assert unsure[0] > 5 * deviation[0]


def labelled(seed=0):
    rng = np.random.default_rng(seed)
    rows, cols = np.nonzero(rng.random((12, 6)) < 0.7)
    names = np.array(["ant", "bee", "cat", "dog", "eel", "fox"])[cols]
    return Observations.from_labels([f"r{i}" for i in rows], names, rng.normal(size=rows.size))


def test_columns_are_matched_by_label():
    model = MatrixCompletion("square", 2).fit(labelled()).model_
    new = Observations.from_labels(["x", "x", "y"], ["eel", "bee", "ant"], [1.0, 2.0, -1.0])
    found = fold_in(model, new)
    plain = np.full((2, 6), np.nan)
    plain[0, [4, 1]], plain[1, 0] = (1.0, 2.0), -1.0
    np.testing.assert_array_equal(found.to_dense(), fold_in(model, plain).to_dense())
    assert found.predict_entries(["y"], ["fox"]) == found.at(np.array([1]), np.array([5]))
    turned = Observations.from_labels(["r3", "r1"], ["new", "new"], [1.0, 2.0])
    assert fold_in(model, turned, axis="columns").predict_entries(["r2"], ["new"]).shape == (1,)


EMPTY = {
    "list": [[np.nan] * 6] * 2,
    "masked": np.ma.masked_all((2, 6)),
    "objects": np.full((2, 6), None),
    "sparse": sp.csr_array((2, 6)),
    "wide frame": pd.DataFrame(np.full((2, 6), np.nan), columns=["ant", "bee", "cat", "dog", "eel", "fox"]),
    "some columns": pd.DataFrame({"fox": [None, None], "bee": [np.nan, np.nan]}, dtype=float),
}


@pytest.mark.parametrize("new", EMPTY.values(), ids=EMPTY)
def test_rows_without_any_entry_are_the_same_in_every_form(new):
    model = MatrixCompletion("square", 2).fit(labelled()).model_
    wanted = fold_in(model, np.full((2, 6), np.nan)).to_dense()
    np.testing.assert_array_equal(fold_in(model, new).to_dense(), wanted)


def test_rows_without_any_entry_keep_their_labels(tmp_path):
    model = MatrixCompletion("square", 2).fit(labelled()).model_
    new = pd.DataFrame({"who": ["x", "y"], "fox": [np.nan, np.nan]})
    for found in (fold_in(model, new.set_index("who")), fold_in(model, new, row="who")):
        assert found.recommend("y", 2)[0].size == 2 and found.row_labels.tolist() == ["x", "y"]
    save(found, tmp_path / "m")
    assert load(tmp_path / "m").recommend(["x", "y"], 6)[0].tolist() == found.recommend(["x", "y"], 6)[0].tolist()
    turned = new.set_index("who").rename(index={"x": "r1", "y": "r2"})
    assert fold_in(model, turned, axis="columns").col_labels.tolist() == ["fox"]
    with pytest.raises(DataError, match=r"1 column labels are unknown .*'gnu'"):
        fold_in(model, new.rename(columns={"fox": "gnu"}), row="who")
    with pytest.raises(DataError, match="row label 'x' is given more than once"):
        fold_in(model, new.assign(who="x"), row="who")


def bad_inputs():
    nan = np.full((2, 6), np.nan)
    infinite = nan.copy()
    infinite[0, 1] = np.inf
    unknown = Observations.from_labels(["x", "x"], ["bee", "gnu"], [1.0, 2.0])
    yield unknown, {}, DataError, r"1 column labels are unknown to the model \(first: 'gnu'\); leave them out"
    yield Observations.from_labels(["q"], ["x"], [1.0]), {"axis": "columns"}, DataError, r"1 row labels .* 'q'"
    yield nan[:, :5], {}, DataError, "The new rows have 5 columns but the model has 6"
    yield np.ones((2, 7)), {}, DataError, "The new rows have 7 columns but the model has 6"
    yield np.ones((5, 1)), {"axis": "columns"}, DataError, "The new columns have 5 rows but the model has 12"
    yield infinite, {}, DataError, "not finite"
    yield np.full((1, 6), 1e30), {}, DataError, "too large"
    yield np.ones(6), {}, DataError, "two-dimensional"
    yield nan, {"axis": "cols"}, SettingError, "`axis` must be 'rows' or 'columns'"
    yield np.ones((1, 6)), {"loss": "logistics"}, LossError, "Unknown loss"
    yield np.full((1, 6), 2.0), {"loss": "logistic"}, DataError, "-1 or"
    yield np.ones((1, 6)), {"n_jobs": 0}, SettingError, "n_jobs"
    yield "rows.csv", {}, DataError, "Cannot read observations"


@pytest.mark.parametrize("new, options, error, says", list(bad_inputs()), ids=lambda part: str(part)[:20])
def test_what_cannot_be_folded_in_gets_a_sentence(new, options, error, says):
    model = MatrixCompletion("square", 2).fit(labelled()).model_
    with pytest.raises(error, match=says):
        fold_in(model, new, **options)


@pytest.mark.parametrize("solver", [BayesSweeps("columns"), FactorSweeps(), GreedyPursuit()], ids=repr)
def test_a_model_from_a_file_folds_in_the_same_bits(solver, tmp_path):
    model = fitted(Huber(0.4), solver)
    save(model, tmp_path / "m.rankwise")
    again, new = load(tmp_path / "m.rankwise"), make_observations(Huber(0.4), np.random.default_rng(1), (4, SHAPE[1]))
    np.testing.assert_array_equal(fold_in(again, new).to_dense(), fold_in(model, new).to_dense())
    save(fold_in(model, new), tmp_path / "n.rankwise")
    np.testing.assert_array_equal(load(tmp_path / "n.rankwise").to_dense(), fold_in(model, new).to_dense())
    if model.posterior is not None:
        np.testing.assert_array_equal(again.posterior.col_variances, model.posterior.col_variances)


def harms():
    yield "precisions", lambda part: -part
    yield "means", lambda part: part[:-1]
    yield "variances", lambda part: part * np.nan
    yield "prior", lambda part: PriorArrays(part.kind, {"weights": part.arrays["weights"].astype(int)})


@pytest.mark.parametrize("name, harm", list(harms()), ids=[name for name, _ in harms()])
def test_a_file_whose_sides_do_not_fit_is_damaged(name, harm, tmp_path):
    model = fitted()
    rows = replace(model.learned.rows, **{name: harm(getattr(model.learned.rows, name))})
    save(replace(model, learned=replace(model.learned, rows=rows)), tmp_path / "m.rankwise")
    with pytest.raises(ModelFileError, match="do not fit together"):
        load(tmp_path / "m.rankwise")


@pytest.mark.slow  # compiles
def test_a_loss_of_ones_own_must_be_given_with_a_model_from_a_file(tmp_path):
    model = fitted(lopsided)
    new = make_observations(lopsided, np.random.default_rng(1), (4, SHAPE[1]))
    save(model, tmp_path / "m.rankwise")
    again = load(tmp_path / "m.rankwise")
    with pytest.raises(LossError, match="pass `loss=`"):
        fold_in(again, new)
    np.testing.assert_array_equal(fold_in(again, new, loss=lopsided).to_dense(), fold_in(model, new).to_dense())


def test_a_model_that_lacks_what_was_known_of_rows_says_so():
    model = replace(fitted(), learned=None)
    with pytest.raises(SettingError, match="fit the model again"):
        fold_in(model, np.ones((1, SHAPE[1])))


def test_a_folded_model_can_fold_in_the_other_side():
    model = fitted()
    rows = fold_in(model, make_observations(Square(), np.random.default_rng(2), (7, SHAPE[1]), 0.6))
    both = fold_in(rows, make_observations(Square(), np.random.default_rng(3), (7, 5), 0.6), axis="columns")
    assert both.shape == (7, 5) and np.isfinite(both.to_dense()).all()


def test_factors_of_rows_feed_a_pipeline():
    rng = np.random.default_rng(11)
    group = rng.integers(0, 2, 200)
    X = np.where(group[:, None], 1.0, -1.0) * rng.normal(size=(1, 40)) + rng.normal(size=(200, 40))
    X[rng.random(X.shape) < 0.5] = np.nan
    model = make_pipeline(MatrixCompletion("square", 3), LogisticRegression()).fit(X[:150], group[:150])
    assert model.score(X[150:], group[150:]) > 0.9
    estimator = model[0]
    assert estimator.transform(X).shape == (200, estimator.model_.rank)
    assert len(estimator.get_feature_names_out()) == estimator.model_.rank
    np.testing.assert_array_equal(estimator.transform(sp.csr_array((2, 40))), np.zeros((2, estimator.model_.rank)))


def test_factors_of_a_wide_frame_after_a_fit_to_a_long_one_go_by_label():
    seen = labelled()
    long = pd.DataFrame({"who": seen.row_labels[seen.rows], "what": seen.col_labels[seen.cols], "stars": seen.targets})
    estimator = MatrixCompletion("square", 2).fit(long, row="who", col="what", value="stars")
    wide = long.pivot(index="who", columns="what", values="stars")
    found = estimator.transform(wide)
    np.testing.assert_array_equal(found, estimator.transform(wide[wide.columns[::-1]]))  # and no warning
    np.testing.assert_array_equal(found, estimator.fold_in(seen).row_factors())


def test_a_long_data_frame_is_folded_in_by_the_names_of_its_columns():
    rng = np.random.default_rng(12)
    table = pd.DataFrame({"who": np.repeat(np.arange(40), 6), "what": np.tile(list("abcdef"), 40)})
    table["stars"] = rng.normal(size=240)
    names = {"row": "who", "col": "what", "value": "stars"}
    estimator = MatrixCompletion("square", 2).fit(table, **names)
    new = pd.DataFrame({"who": ["me", "me"], "what": ["d", "b"], "stars": [2.0, -1.0]})
    wide = pd.DataFrame([[-1.0, 2.0]], index=["me"], columns=["b", "d"])
    np.testing.assert_array_equal(estimator.fold_in(new, **names).to_dense(), estimator.fold_in(wide).to_dense())
    turned = estimator.fold_in(pd.DataFrame({"who": [3], "what": ["z"], "stars": [1.0]}), axis="columns", **names)
    assert turned.shape == (40, 1) and turned.col_labels.tolist() == ["z"]


def test_the_example_of_the_page_on_new_data_runs(capsys):
    (example,) = examples_of("docs/new-data.md")
    exec(example, {})
    error, steps, *_ = capsys.readouterr().out.split()
    assert float(error) < 0.2 and int(steps) <= 4


def test_a_fit_that_goes_on_from_a_model_says_how_many_steps_it_has(capsys):
    seen = problem_of(Square()).observations
    estimator = MatrixCompletion("square", rank=2, tol=0, warm_start=True).fit(seen)
    estimator.set_params(verbose=1).fit(seen)
    n = len(estimator.history_)
    assert f"step {n} of {n}:" in capsys.readouterr().err.splitlines()[-1]
