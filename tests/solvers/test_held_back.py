"""Entries held back during the sweeps: they count as absent, the same on every engine, and decide when to stop."""

import numpy as np
import pytest
from fits import Killed, digest, killed_after
from helpers import make_observations

from rankwise import Checkpoint, MatrixCompletion, Observations, Problem, ShardFolder, solve, write_shards
from rankwise.engines import Shard
from rankwise.losses import Absolute, Huber, Logistic, Poisson, Square
from rankwise.model import odds
from rankwise.model.odds import OddsCalibration
from rankwise.selection import split_entries
from rankwise.solvers import BayesSweeps
from rankwise.solvers.held_back import FIRST, MOST, SHARE, SHARE_OF_SIGNS, HeldBack

SWEEPS = BayesSweeps(pattern_prior=False)  # the pattern keeps the entries that are held back
LOSSES = [Square(), Huber(0.7), Logistic(), Poisson(), Absolute()]


def seen_under(loss, shape=(60, 40), density=0.5, seed=0, weights=False):
    rng = np.random.default_rng(seed)
    seen = make_observations(loss, rng, shape, density)
    if not weights:
        return seen
    return Observations.from_coo(
        seen.rows, seen.cols, seen.targets, shape, weights=rng.uniform(0.5, 2, seen.n_observed)
    )


def held_and_others(problem):
    state = SWEEPS.init(problem, 3)
    state.hold_back(problem)
    held, seen = state.held_back, problem.observations
    mask = np.isin(seen.rows * seen.shape[1] + seen.cols, held.rows * seen.shape[1] + held.cols)
    return state, mask


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_sweep_is_that_over_the_other_entries(loss, weights):
    problem = Problem(seen_under(loss, weights=weights), loss, dtype=np.float64, n_jobs=1)
    state, mask = held_and_others(problem)
    assert 20 <= mask.sum() == state.held_back.rows.size
    others = Problem(problem.observations.take(~mask), loss, dtype=np.float64, n_jobs=1)
    twin = SWEEPS.init(others, 3)
    rng = np.random.default_rng(1)
    for one, other in ((state.rows, twin.rows), (state.cols, twin.cols)):
        other.means, other.variances, other.precisions = one.means.copy(), one.variances.copy(), one.precisions.copy()
        factors = rng.normal(0, 0.3, (one.means.shape[0], 3))
        one.widen(factors, 2.0, 0.1)
        other.widen(factors, 2.0, 0.1)
    twin.constant, twin.scale, twin.curvature = state.constant, state.scale, state.curvature
    values = [SWEEPS._sweep(problem, state), SWEEPS._sweep(others, twin)]
    for name in ("means", "variances", "precisions"):
        for one, other in ((state.rows, twin.rows), (state.cols, twin.cols)):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-7, atol=1e-9)
    assert values[0] == pytest.approx(values[1], rel=1e-9) and state.scale == pytest.approx(twin.scale, rel=1e-9)


def test_both_orientations_hold_back_the_same_random_entries():
    problem = Problem(seen_under(Square(), (500, 300), 0.2), Square(), n_jobs=2)
    state, mask = held_and_others(problem)
    held, keys = state.held_back, (state.rows.keys, state.cols.keys)
    found = problem.engine_of("columns").run(Shard.entries_below, np.arange(300), *keys[::-1], held.limit)
    pairs = sorted(zip(found[:, 1], found[:, 0], found[:, 2], strict=True))
    assert pairs == sorted(zip(held.rows, held.cols, held.targets, strict=True))
    wanted = min(SHARE, MOST / mask.size) * mask.size
    assert abs(mask.sum() - wanted) < 5 * np.sqrt(wanted)
    for part, n in ((held.rows, 500), (held.cols, 300)):  # no row or column is chosen more often than by chance
        assert np.bincount(part, minlength=n).max() < 8 + 4 * mask.sum() / n


def test_the_gain_is_the_mean_fall_of_the_loss_in_nats_and_has_its_standard_error():
    problem = Problem(seen_under(Huber(0.7), weights=True), Huber(0.7), dtype=np.float64)
    state, mask = held_and_others(problem)
    seen, losses = problem.observations, []
    for step in range(3):
        SWEEPS.step(problem, np.random.default_rng(step), state)
        predicted = (state.rows.factors @ state.cols.factors.T)[seen.rows[mask], seen.cols[mask]]
        predicted += problem.offsets.at(seen.rows[mask], seen.cols[mask])
        losses.append(Huber(0.7).value(predicted, seen.targets[mask]))
    gains, weights = state.scale * (losses[0] - losses[2]), seen.weights[mask]
    assert state.held_back.gain == pytest.approx(np.average(gains, weights=weights), rel=1e-6)
    spread = np.sqrt(np.sum((weights * (gains - state.held_back.gain)) ** 2)) / weights.sum()
    assert state.held_back.error == pytest.approx(spread, rel=1e-6)


def few_per_row(n=4000, m=120, seed=0):
    """Three entries a row and a strong signal of rank 2, which ten sweeps only begin to find."""
    rng = np.random.default_rng(seed)
    rows, cols = np.repeat(np.arange(n), 4), rng.integers(0, m, 4 * n)
    _, first = np.unique(rows * m + cols, return_index=True)
    rows, cols = rows[first], cols[first]
    X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, m)) / np.sqrt(2)
    noise = 0.4 * rng.normal(size=rows.size)
    return split_entries(Observations.from_coo(rows, cols, X[rows, cols] + noise, (n, m)), 0.1)


def test_a_fit_goes_on_while_entries_held_back_become_likelier_and_says_so_if_it_is_cut_short(monkeypatch):
    train, test = few_per_row()

    def error(model):
        return np.sqrt(np.mean((model.predict_entries(test.rows, test.cols) - test.targets) ** 2))

    ten, free = (MatrixCompletion("square", max_iter=max_iter).fit(train) for max_iter in (10, None))
    assert ten.n_iter_ == 10 < free.n_iter_ <= 60 and error(free) < 0.98 * error(ten)
    assert "not settled" not in free.status_.message
    monkeypatch.setattr(BayesSweeps, "most_steps", 12)
    cut = MatrixCompletion("square").fit(train)
    assert cut.n_iter_ == 12 and "not settled" in cut.status_.message and error(cut) < error(ten)
    limited = MatrixCompletion("square", method=BayesSweeps(hold_back=True), max_iter=9).fit(train)
    assert limited.n_iter_ == 9 and "not settled" in limited.status_.message


def settled_problem(seed=3, signs=False):
    """Targets of noise about offsets, or their signs: ten sweeps are enough."""
    rng = np.random.default_rng(seed)
    targets = rng.normal(size=(80, 1)) + rng.normal(size=(1, 60)) + rng.normal(size=(80, 60))
    targets = np.where(targets > 0, 1.0, -1.0) if signs else targets
    return Observations.from_dense(np.where(rng.random(targets.shape) < 0.6, targets, np.nan))


def test_noise_takes_ten_sweeps_and_whenever_a_fit_ends_all_entries_are_in_it():
    seen = settled_problem()
    whole = solve(Problem(seen, "square"), BayesSweeps(), rank=3)
    assert len(whole.history) == FIRST + 1
    stopped = solve(Problem(seen, "square"), BayesSweeps(), rank=3, callback=lambda record: record.step == FIRST)
    np.testing.assert_array_equal(stopped.model.to_dense(), whole.model.to_dense())


@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize("k", [1, FIRST - 1, FIRST])
def test_a_fit_that_was_killed_goes_on_to_the_same_bits_and_number_of_sweeps(k, signs, tmp_path, monkeypatch):
    monkeypatch.setattr(odds, "LEAST_EVIDENCE", -np.inf)
    seen = settled_problem(signs=signs)

    def run(**options):
        return solve(Problem(seen, "logistic" if signs else "square"), BayesSweeps(), rank=3, **options)

    with pytest.raises(Killed):
        run(checkpoint=Checkpoint(tmp_path, every=1), callback=killed_after(k))
    whole = run()
    resumed = run(checkpoint=Checkpoint(tmp_path, every=1, resume=True))
    assert digest(resumed) == digest(whole) and resumed.model.calibration == whole.model.calibration
    assert (whole.model.calibration is not None) == signs


@pytest.mark.parametrize("signs", [False, True])
def test_disk_and_threads_hold_back_the_same(signs, tmp_path, monkeypatch):
    monkeypatch.setattr(odds, "LEAST_EVIDENCE", -np.inf)
    seen, loss = settled_problem(signs=signs), "logistic" if signs else "square"
    folder = write_shards([(seen.rows, seen.cols, seen.targets)], tmp_path / "shards", shape=seen.shape)
    places = (seen, 1), (seen, 2), (ShardFolder(folder), 2)
    runs = [solve(Problem(part, loss, n_jobs=n), BayesSweeps(), rank=3) for part, n in places]
    assert len({digest(run) for run in runs}) == 1
    assert len({run.model.calibration for run in runs}) == 1


def test_probabilities_are_calibrated_on_entries_that_the_sweeps_have_not_used(monkeypatch):
    monkeypatch.setattr(odds, "LEAST_EVIDENCE", -np.inf)
    problem = Problem(settled_problem(signs=True), Logistic(), dtype=np.float64)
    state, mask = held_and_others(problem)
    for step in range(3):
        SWEEPS.step(problem, np.random.default_rng(step), state)
    held = problem.observations.take(mask)
    rows, cols = held.rows, held.cols
    x = (state.rows.factors @ state.cols.factors.T)[rows, cols] + problem.offsets.at(rows, cols)
    U, V = (np.column_stack((side.factors, np.ones(len(side.means)))) for side in (state.rows, state.cols))
    R, C = state.rows.variances, state.cols.variances
    variances = (R @ V.T**2 + U**2 @ C.T + R[:, :-1] @ C[:, :-1].T)[rows, cols]
    wanted = OddsCalibration.on(x, variances, held.targets > 0)
    assert abs(mask.sum() - SHARE_OF_SIGNS * mask.size) < 5 * np.sqrt(0.2 * mask.size) and state.odds is None
    assert state.put_back() and state.odds.n_entries == mask.sum()
    np.testing.assert_allclose(state.odds.at(x, variances), wanted.at(x, variances), atol=1e-4)


def test_nothing_is_held_back_of_few_entries():
    problem = Problem(seen_under(Square(), (12, 9)), Square())
    state = BayesSweeps(hold_back=True).init(problem, 2)
    assert HeldBack.of(problem, state.rows, state.cols) is None
    assert len(solve(problem, BayesSweeps(), rank=2, tol=0.0).history) == 10
