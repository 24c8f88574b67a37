"""Sweeps with a term of all cells: textbook iALS, the reported value, the bound, the same bits, fold-in and files."""

import numpy as np
import pytest
from helpers import targets_for
from numpy.testing import assert_allclose
from sweep_cases import run

from rankwise import (
    Checkpoint,
    Everywhere,
    MatrixCompletion,
    Observations,
    Problem,
    SettingError,
    ShardFolder,
    fold_in,
    load,
    solve,
    write_shards,
)
from rankwise.losses import get as get_loss
from rankwise.observations import shards as cutting
from rankwise.solvers import BayesSweeps, FactorSweeps

SHAPE = (30, 20)
TERM = Everywhere(0.2, row_power=-0.3, col_power=0.2, value=0.1)
PLAIN = Everywhere(0.1)


def clicks(loss="square", seed=0, shape=SHAPE):
    """Two groups of rows that click on columns of their own, mostly."""
    rng = np.random.default_rng(seed)
    own = np.add.outer(np.arange(shape[0]), np.arange(shape[1])) % 2 == 0
    rows, cols = np.nonzero(rng.random(shape) < np.where(own, 0.5, 0.05))
    targets = np.ones(rows.size) if loss == "square" else targets_for(get_loss(loss), rng, rows.size)
    return Observations.from_coo(rows, cols, targets, shape)


def weights_of(entries, term):
    counts = (
        np.bincount(part, minlength=n) for part, n in zip((entries.rows, entries.cols), entries.shape, strict=True)
    )
    return [np.maximum(n, 1.0) ** p for n, p in zip(counts, (term.row_power, term.col_power), strict=True)]


def textbook(entries, term, ridge, U, V):
    """One sweep of weighted least squares, dense: rows given the columns, then columns given the rows."""
    seen = entries.to_sparse().toarray() != 0
    R = entries.to_sparse().toarray()
    r, d = weights_of(entries, term)
    cells = term.weight * np.outer(r, d)
    for k in range(2):
        other = (V, U)[k]
        mask, targets, weights = (part if k == 0 else part.T for part in (seen, R, cells))
        solved = np.array(
            [
                np.linalg.solve(
                    (other.T * (mask[i] + weights[i])) @ other + ridge * np.eye(other.shape[1]),
                    other.T @ (mask[i] * targets[i] + weights[i] * term.value),
                )
                for i in range(len(mask))
            ]
        )
        U, V = (solved, V) if k == 0 else (U, solved)
    return U, V


@pytest.mark.parametrize(("rank", "term"), [(3, TERM), (3, PLAIN), (18, PLAIN)], ids=["powers", "plain", "few entries"])
def test_factors_are_those_of_textbook_ials(rank, term):
    entries, solver = clicks(), FactorSweeps(ridge=0.3, offsets="none")
    problem = Problem(entries, "square", dtype="float64", n_jobs=1, everywhere=term)
    state, _ = run(solver, problem, rank=rank, n_steps=1)
    U, V = state.rows.means.copy(), state.cols.means.copy()
    for step in range(2, 4):
        solver.step(problem, np.random.default_rng(step), state)
        U, V = textbook(entries, term, 0.3, U, V)
        assert_allclose(state.rows.means, U, atol=1e-6)
        assert_allclose(state.cols.means, V, atol=1e-6)


@pytest.mark.parametrize("loss", ["square", "logistic", "poisson", "l1"])
@pytest.mark.parametrize("offsets", ["both", "none", "rows"])
def test_the_value_of_factors_is_f_plus_the_ridge_and_never_rises(loss, offsets):
    entries, solver = clicks(loss), FactorSweeps(ridge=0.3, offsets=offsets, offset_ridge=0.5)
    problem = Problem(entries, loss, dtype="float64", n_jobs=1, everywhere=TERM)
    state, steps = run(solver, problem, n_steps=5)
    values = steps[1:, 1]
    assert (np.diff(values) <= 1e-9 * np.abs(values[1:])).all()
    penalty = sum(0.5 * np.sum(side.precisions * side.means**2) for side in (state.rows, state.cols))
    if problem.smooth:  # the corners of others are rounded
        assert values[-1] == pytest.approx(problem.value() + penalty, rel=1e-9)


@pytest.mark.parametrize("loss", ["square", "logistic", "poisson"])
@pytest.mark.parametrize("offsets", ["both", "none"])
def test_the_bound_of_bayes_never_rises(loss, offsets):
    problem = Problem(clicks(loss), loss, dtype="float64", n_jobs=1, everywhere=TERM)
    _, steps = run(BayesSweeps(offsets, pattern_prior=False), problem, n_steps=12)
    values = steps[1:, 1]
    assert (np.diff(values) <= 1e-9 * np.abs(values[1:])).all()


def test_the_loss_of_bayes_is_the_expected_one():
    """The expected loss of squares is that of the means plus the variance of each prediction, over all cells."""
    entries = clicks()
    problem = Problem(entries, "square", dtype="float64", n_jobs=1, everywhere=TERM)
    state, _ = run(BayesSweeps("both", pattern_prior=False), problem, n_steps=3)
    settings = state.settings(True)
    loss = state.cols.expected_loss(state.rows, settings, problem.cells_of("columns"))
    u, v = (side.factors for side in (state.rows, state.cols))
    su, sv = (side.variances[:, :-1] for side in (state.rows, state.cols))
    mean = state.constant + state.rows.offsets[:, None] + state.cols.offsets + u @ v.T
    spread = state.rows.variances[:, -1:] + state.cols.variances[:, -1] + su @ (v**2).T + (u**2 + su) @ sv.T
    r, d = weights_of(entries, TERM)
    at = entries.rows, entries.cols
    expected = 0.5 * np.sum((mean[at] - entries.targets) ** 2 + spread[at])
    expected += 0.5 * TERM.weight * np.sum(np.outer(r, d) * ((mean - TERM.value) ** 2 + spread))
    assert loss == pytest.approx(expected, rel=1e-9)
    assert state.rows.expected_loss(state.cols, settings, problem.cells_of("rows")) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("solver", [FactorSweeps(ridge=0.3, offsets="none"), BayesSweeps(), "eglrl"], ids=str)
def test_same_bits_on_threads_and_from_disk(solver, tmp_path, monkeypatch):
    monkeypatch.setattr(cutting, "MIN_SHARD", 500)
    entries = clicks(shape=(400, 150))
    write_shards([(entries.rows, entries.cols, entries.targets)], tmp_path / "shards", shape=entries.shape)
    given = [(entries, 1), (entries, 2), (ShardFolder(tmp_path / "shards"), 1)]
    models = [
        solve(Problem(part, "square", n_jobs=n, everywhere=TERM), solver, rank=4, max_iter=4).model for part, n in given
    ]
    for model in models[1:]:
        assert all(np.array_equal(getattr(models[0], name), getattr(model, name)) for name in ("path", "U", "V"))


@pytest.mark.parametrize("solver", [FactorSweeps(ridge=0.3), BayesSweeps(pattern_prior=False), "glrl"], ids=str)
def test_a_resumed_run_has_the_bits_of_one_that_was_not_stopped(solver, tmp_path):
    entries = clicks()
    whole = solve(Problem(entries, "square", n_jobs=1, everywhere=TERM), solver, rank=4, max_iter=4).model
    stopped = Problem(entries, "square", n_jobs=1, everywhere=TERM)
    solve(stopped, solver, rank=4, max_iter=2, checkpoint=Checkpoint(tmp_path, every=1))
    again = Problem(entries, "square", n_jobs=1, everywhere=TERM)
    resumed = solve(again, solver, rank=4, max_iter=4, checkpoint=Checkpoint(tmp_path, every=1, resume=True)).model
    assert all(np.array_equal(getattr(whole, name), getattr(resumed, name)) for name in ("path", "U", "V"))


@pytest.mark.parametrize("loss", ["square", "logistic"])
@pytest.mark.parametrize(
    "solver",
    [
        FactorSweeps(ridge=0.5, offsets="none"),
        FactorSweeps(ridge=0.1, count_power=0.5),
        BayesSweeps("none", pattern_prior=False),
    ],
    ids=str,
)
def test_fold_in_gives_training_rows_back(loss, solver, tmp_path):
    entries = clicks(loss)
    problem = Problem(entries, loss, dtype="float64", n_jobs=1, everywhere=TERM)
    model = solve(problem, solver, rank=2, max_iter=400, tol=0.0).model
    model.save(tmp_path / "model")
    folded = fold_in(load(tmp_path / "model"), entries, n_jobs=1)
    assert_allclose(folded.to_dense(), model.to_dense(), atol=2e-4)


def test_fold_in_of_rows_without_entries_does_not_depend_on_other_rows():
    entries = clicks()
    problem = Problem(entries, "square", dtype="float64", n_jobs=1, everywhere=TERM)
    for solver in (FactorSweeps(ridge=0.5), BayesSweeps(pattern_prior=False), "eglrl"):
        model = solve(problem, solver, rank=2, max_iter=5).model
        alone = fold_in(model, np.full((1, SHAPE[1]), np.nan)).to_dense()
        both = np.full((2, SHAPE[1]), np.nan)
        both[1, :3] = 1.0
        assert_allclose(fold_in(model, both).to_dense()[:1], alone, atol=1e-9)


def test_fold_in_to_a_pursuit_minimizes_the_rows_objective():
    """Rows of a pursuit are normal with the covariance of the fitted ones; entries and cells count by the noise."""
    entries = clicks()
    model = solve(Problem(entries, "square", dtype="float64", n_jobs=1, everywhere=PLAIN), "r1mp", rank=3).model
    new = np.full((1, SHAPE[1]), np.nan)
    new[0, [1, 4, 6]] = 1.0
    got = fold_in(model, new).U[0]
    F, mask = model.V * model.theta, ~np.isnan(new[0])
    precision = np.linalg.inv(model.U.T @ model.U / SHAPE[0])
    matrix = precision + model.scale * (F.T * (mask + PLAIN.weight)) @ F
    assert_allclose(got, np.linalg.solve(matrix, model.scale * F.T @ mask), rtol=1e-6)


def test_columns_fold_in_with_the_weights_of_the_rows():
    entries = clicks()
    model = solve(Problem(entries, "square", dtype="float64", n_jobs=1, everywhere=TERM), "r1mp", rank=2).model
    new = np.full((SHAPE[0], 1), np.nan)
    new[[2, 5, 9], 0] = 1.0
    F, mask = model.U * model.theta, ~np.isnan(new[:, 0])
    cells = TERM.weight * weights_of(entries, TERM)[0] * 3**TERM.col_power
    matrix = np.linalg.inv(model.V.T @ model.V / SHAPE[1]) + model.scale * (F.T * (mask + cells)) @ F
    best = np.linalg.solve(matrix, model.scale * F.T @ (mask + cells * TERM.value))
    assert_allclose(fold_in(model, new, axis="columns").V[0], best, rtol=1e-6)


def test_results_do_not_depend_on_the_unit_of_the_targets():
    rng = np.random.default_rng(5)
    entries = clicks()
    stars = rng.normal(3.0, 1.0, entries.n_observed)
    models = []
    for unit in (1.0, 4096.0):
        part = Observations.from_coo(entries.rows, entries.cols, unit * stars, SHAPE)
        term = Everywhere(0.2, value=unit * 2.0)
        problem = Problem(part, "square", dtype="float64", n_jobs=1, everywhere=term)
        models.append(solve(problem, FactorSweeps(ridge=0.4 * unit, offset_ridge=0.2), rank=2, max_iter=5).model)
    assert_allclose(models[1].to_dense() / 4096.0, models[0].to_dense(), rtol=1e-6)


@pytest.mark.parametrize("solver", [FactorSweeps(ridge=0.5), BayesSweeps()], ids=str)
def test_a_warm_start_takes_more_rows(solver):
    model = solve(Problem(clicks(), "square", n_jobs=1, everywhere=TERM), solver, rank=2, max_iter=4).model
    more = Problem(clicks(shape=(34, 20)), "square", n_jobs=1, everywhere=TERM)
    warm = solve(more, solver, rank=2, start=model)
    assert warm.model.shape == (34, 20)
    assert warm.history[-1].value <= warm.history[0].value * (1 + 1e-6)


def test_an_estimator_with_the_term_is_the_solver_and_keeps_it_in_files(tmp_path):
    entries, settings = clicks(), {"rank": 3, "method": "factors", "offsets": "none", "ridge": 0.3, "max_iter": 4}
    fitted = MatrixCompletion("square", everywhere=TERM, **settings).fit(entries)
    fitted.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    solver = FactorSweeps(ridge=0.3, offsets="none")
    model = solve(Problem(entries, "square", everywhere=TERM), solver, rank=3, max_iter=4).model
    assert np.array_equal(fitted.model_.U, model.U) and np.array_equal(loaded.model_.U, model.U)
    assert loaded.everywhere == loaded.model_.cells.everywhere == TERM
    assert np.array_equal(loaded.fit(entries).model_.U, model.U)


def test_a_ridge_is_not_chosen_on_observed_entries_alone_and_equal_targets_have_the_square_loss():
    entries = clicks()
    ones = Observations(entries.indptr, entries.indices, np.ones_like(entries.targets), entries.shape)
    for ridge in (None, "auto"):
        with pytest.raises(SettingError, match="`ridge` must be a number if `everywhere` is given"):
            MatrixCompletion("square", method="factors", ridge=ridge, everywhere=Everywhere(0.1)).fit(ones)
    model = MatrixCompletion(rank=2, method="factors", ridge=0.3, everywhere=Everywhere(0.1)).fit(ones)
    assert model.model_.loss.name == "square"
