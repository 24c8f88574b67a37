"""Growth of the rank during the sweeps: as far as entries held back allow, with the same bits on every engine."""

import numpy as np
import pytest
from fits import Killed, digest, killed_after

from rankwise import Checkpoint, MatrixCompletion, Observations, Problem, ShardFolder, solve, write_shards
from rankwise.losses import Huber, Square
from rankwise.solvers import BayesSweeps, sweep_state
from rankwise.solvers.held_back import HeldBack

GROWING = BayesSweeps(least_effect=0.1, most_rank=63)


def planted(rank, shape=(150, 120), density=0.9, noise=0.3, seed=0):
    """Factors of equal size and normal noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(shape[0], rank)) @ rng.normal(size=(rank, shape[1])) / np.sqrt(rank)
    rows, cols = np.nonzero(rng.random(shape) < density)
    return Observations.from_coo(rows, cols, X[rows, cols] + noise * rng.normal(size=rows.size), shape)


def ranks(result):
    return result.history.column("rank").tolist()


@pytest.mark.parametrize(
    "rank, shape", [(3, (150, 120)), (30, (300, 250)), pytest.param(120, (600, 500), marks=pytest.mark.slow)]
)
def test_a_planted_rank_is_found_within_a_tenth(rank, shape):
    found = MatrixCompletion("square").fit(planted(rank, shape))
    assert abs(found.model_.rank - rank) <= 0.1 * rank


def test_the_rank_grows_beyond_its_start_and_not_beyond_its_bound():
    seen = planted(20)
    grown, bounded = (
        solve(Problem(seen, "square"), BayesSweeps(least_effect=0.1, most_rank=most), rank=7) for most in (63, 15)
    )
    assert ranks(grown)[0] == 7 and max(ranks(grown)) == 47 and 18 <= grown.model.rank <= 22
    assert max(ranks(bounded)) == bounded.model.rank == 15 and "at `rank`" not in str(bounded.status)
    assert max(ranks(solve(Problem(seen, "square"), GROWING, rank=7, max_iter=12))) == 7  # nothing is held back


def test_sweeps_at_one_rank_never_raise_the_bound():
    result = solve(Problem(planted(20), "square", dtype="float64"), GROWING, rank=7)
    values, widths = result.history.column("value"), np.array(ranks(result))
    same = np.flatnonzero(np.diff(widths[:-1]) == 0)  # the last sweep has more entries
    assert same.size > 10 and (np.diff(values)[same] <= 1e-9 * np.abs(values[same])).all()


def test_a_growth_that_is_undone_leaves_no_trace(monkeypatch):
    monkeypatch.setattr(sweep_state, "STRONG", 0.0)
    monkeypatch.setattr(HeldBack, "is_worse_than", lambda self, before: True)
    seen = planted(3, noise=1.0, density=0.5)
    tried, fixed = (solve(Problem(seen, "square"), BayesSweeps(most_rank=most), rank=3) for most in (63, 0))
    assert max(ranks(tried)) == 23 and ranks(tried)[-1] == 3 == max(ranks(fixed))
    assert np.array_equal(tried.model.to_dense(), fixed.model.to_dense()) and tried.model.scale == fixed.model.scale


@pytest.mark.parametrize("shift, worse", [(-0.01, False), (0.01, False), (0.05, True)])
def test_losses_are_worse_if_their_mean_rises_by_more_than_a_standard_error(shift, worse):
    rng = np.random.default_rng(0)
    gains = rng.normal(size=2000)
    before, after = (
        HeldBack(1, np.zeros(2000, int), np.zeros(2000, int), np.zeros(2000), np.ones(2000), [losses])
        for losses in (np.zeros(2000), shift + gains - gains.mean())
    )
    assert after.is_worse_than(before) == worse  # the standard error is 1 / sqrt(2000), which is 0.022


def test_weak_components_are_not_joined_by_others():
    seen = planted(3, noise=1.0, density=0.5)
    assert max(ranks(solve(Problem(seen, "square"), BayesSweeps(most_rank=63), rank=7))) == 7


@pytest.mark.parametrize("loss", [Square(), Huber(0.7)], ids=repr)
def test_new_components_start_from_the_gradient_without_the_entries_that_decide(loss):
    problem = Problem(planted(5, (40, 30)), loss, dtype=np.float64)
    state = BayesSweeps().init(problem, 2)
    state.hold_back(problem)
    BayesSweeps().step(problem, np.random.default_rng(0), state)
    state.smaller, held, seen = state, state.held_back, problem.observations
    predicted = state.rows.factors @ state.cols.factors.T + problem.offsets.at(*np.indices(seen.shape))
    slopes = np.zeros(seen.shape)
    slopes[seen.rows, seen.cols] = loss.slope(predicted[seen.rows, seen.cols], seen.targets)
    slopes[held.rows, held.cols] = 0.0
    np.testing.assert_allclose(state.gradient(problem).matmat(np.eye(seen.shape[1])), slopes, atol=1e-10)


def test_a_fit_that_is_stopped_in_a_growth_keeps_the_likelier_state():
    def stop(record):
        return record.rank > 7

    seen = planted(20)
    stopped = solve(Problem(seen, "square"), GROWING, rank=7, callback=stop)
    assert stopped.status.reason == "callback" and stopped.model.rank in (7, 47)
    assert np.isfinite(stopped.model.to_dense()).all()


@pytest.fixture(scope="module")
def grown():
    """A fit whose rank grows at step 10."""
    result = solve(Problem(planted(20), "square", n_jobs=1), GROWING, rank=7)
    assert ranks(result)[8:10] == [7, 47]
    return result


def test_a_growth_has_the_same_bits_on_two_threads_and_from_disk(grown, tmp_path):
    seen = planted(20)
    folder = write_shards([(seen.rows, seen.cols, seen.targets)], tmp_path / "shards", shape=seen.shape)
    for entries in (seen, ShardFolder(folder)):
        assert digest(solve(Problem(entries, "square", n_jobs=2), GROWING, rank=7)) == digest(grown)


@pytest.mark.parametrize("after", [9, 10, 11, 14])
def test_a_fit_that_is_killed_in_a_growth_goes_on_to_the_same_bits(grown, after, tmp_path):
    def fit(**options):
        return solve(Problem(planted(20), "square"), GROWING, rank=7, **options)

    with pytest.raises(Killed):
        fit(checkpoint=Checkpoint(tmp_path, every=1), callback=killed_after(after))
    assert digest(fit(checkpoint=Checkpoint(tmp_path, every=1, resume=True))) == digest(grown)


def test_a_warm_start_from_a_grown_model_keeps_its_rank():
    seen = planted(20)
    fitted = MatrixCompletion("square", method=GROWING, rank=7, warm_start=True).fit(seen)
    rank = fitted.model_.rank
    assert rank > 7 and fitted.set_params(rank="auto").fit(seen).model_.rank >= 0.9 * rank
