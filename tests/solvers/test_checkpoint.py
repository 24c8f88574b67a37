"""A fit that goes on from a checkpoint ends with the same bits as one that was never stopped."""

import logging
from itertools import product

import numpy as np
import pytest
from fits import FEW, FITS, STEPS, TIMES, Killed, digest, entries, fit, killed_after, spoil, stopped
from helpers import make_observations

from rankwise import Checkpoint, CheckpointError, Problem, solve
from rankwise.losses import Logistic, Square
from rankwise.solvers import BayesSweeps, GreedyPursuit, checkpoint


@pytest.mark.parametrize("name", FITS)
def test_a_fit_that_was_killed_goes_on_to_the_same_bits(name, tmp_path):
    """Killed after every step there is, each time in a new process's place: a new objective, nothing else."""
    whole = fit(name)
    assert len(whole.history) >= 3
    for k in range(1, len(whole.history) + 1):
        folder = tmp_path / str(k)
        stopped(name, folder, k)
        steps = []
        found = fit(
            name,
            checkpoint=Checkpoint(folder, every=1, resume=True),
            callback=lambda record, to=steps: to.append(record.step),
        )
        assert digest(found) == digest(whole) and steps == list(range(k, len(whole.history) + 1))


@pytest.mark.parametrize("name", ["economic", "coefficients", "nonsmooth", "bayes"])
def test_a_fit_that_is_killed_after_every_step_ends_with_the_same_bits(name, tmp_path):
    whole = fit(name)
    stopped(name, tmp_path, 1)
    for k in range(2, len(whole.history) + 1):
        with pytest.raises(Killed):
            fit(name, checkpoint=Checkpoint(tmp_path, every=1, resume=True), callback=killed_after(k))
    assert digest(fit(name, checkpoint=Checkpoint(tmp_path, every=1, resume=True))) == digest(whole)


def test_among_these_fits_some_leave_factors_out_on_the_way():
    ranks = [record.rank for record in fit("bayes, fading").history]
    assert ranks[0] == 5 and ranks[-1] < 5


def test_digests_tell_fits_apart():
    found = [digest(fit(name, random_state=seed)) for name, seed in product(("economic", "bayes", "altmin"), (0, 1))]
    assert len(set(found)) == 5  # AltMin draws nothing
    assert digest(fit("economic", max_iter=3)) not in found


@pytest.mark.parametrize("name", ["economic", "bayes"])
@pytest.mark.usefixtures("small_shards")
def test_several_shards_on_other_threads_go_on_to_the_same_bits(name, tmp_path):
    rng, loss = np.random.default_rng(1), Square() if name == "bayes" else Logistic()
    observations = make_observations(loss, rng, (1500, 400), 0.25)
    solver = BayesSweeps() if name == "bayes" else GreedyPursuit("economic", FEW)

    def run(n_jobs, **options):
        problem = Problem(observations, loss, n_jobs=n_jobs)
        assert len(problem.engine.shards) > 1
        return solve(problem, solver, rank=3, max_iter=4, tol=0.0, **options)

    whole = run(1)
    with pytest.raises(Killed):
        run(2, checkpoint=Checkpoint(tmp_path, every=1), callback=killed_after(3))
    assert digest(run(3, checkpoint=Checkpoint(tmp_path, every=1, resume=True))) == digest(whole)


def test_an_objective_that_was_used_before_goes_on_to_the_same_bits(tmp_path):
    """Its shards have step numbers of their own, which must not let them pass over the past."""
    stopped("economic", tmp_path, 4)
    problem, solver = FITS["economic"]()
    solve(problem, solver, rank=9)
    resumed = solve(problem, solver, rank=5, max_iter=STEPS, tol=0.0, checkpoint=Checkpoint(tmp_path, resume=True))
    assert digest(resumed) == digest(fit("economic"))


@pytest.mark.parametrize("name", ["economic", "nonsmooth", "bayes"])
def test_a_warm_start_goes_on_to_the_same_bits(name, tmp_path):
    start = fit(name, rank=3).model
    whole = fit(name, rank=6, start=start)
    stopped(name, tmp_path, 2, rank=6, start=start)
    assert digest(fit(name, rank=6, start=start, checkpoint=Checkpoint(tmp_path, resume=True))) == digest(whole)
    with pytest.raises(CheckpointError, match="another fit: start differs"):
        fit(name, rank=6, checkpoint=Checkpoint(tmp_path, resume=True))


def test_scores_of_held_out_entries_go_on(tmp_path):
    held_out = entries(Logistic(), seed=9)
    whole = fit("economic", held_out=held_out)
    stopped("economic", tmp_path, 3, held_out=held_out)
    assert digest(fit("economic", held_out=held_out, checkpoint=Checkpoint(tmp_path, resume=True))) == digest(whole)
    for other in (None, entries(Logistic(), seed=10)):
        with pytest.raises(CheckpointError, match="another fit: held_out differs"):
            fit("economic", held_out=other, checkpoint=Checkpoint(tmp_path, resume=True))


# When checkpoints are written, and which are kept.


def steps_in(folder):
    return sorted(int(path.name[5:13]) for path in folder.glob("step-*.checkpoint"))


@pytest.mark.parametrize("every", [1, 2, 3, 100])
def test_the_last_two_are_kept_and_the_last_moment_is_written(every, tmp_path):
    seen = []
    fit(
        "economic",
        checkpoint=Checkpoint(tmp_path, every=every),
        callback=lambda record: seen.append(steps_in(tmp_path)),
    )
    due = [0, *range(every, 5, every)]
    assert seen == [[step for step in due if step < k][-2:] for k in range(1, 6)]
    assert steps_in(tmp_path) == [due[-1], 5]


@pytest.mark.parametrize(("apart", "written"), [(0.0, [4, 5]), (1e9, [0, 5])])
def test_by_default_time_decides(apart, written, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "CHECKPOINT_INTERVAL", apart)
    monkeypatch.setattr(checkpoint, "TIMES_WRITING", 0.0)
    fit("economic", checkpoint=tmp_path)
    assert steps_in(tmp_path) == written


def test_writing_takes_a_small_share_of_the_time(tmp_path, monkeypatch):
    """Whatever writing takes, the next one comes twenty times as long after it."""
    now, taken = [0.0], []

    def write(path, arrays):
        taken.append(now[0])
        now[0] += 100.0

    monkeypatch.setattr(checkpoint, "write_arrays", write)
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now[0])

    def a_minute_later(record):
        now[0] += 60.0

    fit("altmin", max_iter=120, checkpoint=tmp_path, callback=a_minute_later)
    assert len(taken) > 3 and min(np.diff(taken[:-1])) >= 2000.0  # the last one is of the end


def test_without_a_checkpoint_to_go_on_from_a_fit_starts_anew_and_says_so(tmp_path, caplog):
    caplog.set_level(logging.INFO, "rankwise")
    found = fit("economic", checkpoint=Checkpoint(tmp_path / "new" / "folder", resume=True))
    assert digest(found) == digest(fit("economic")) and "to resume from: starting anew" in caplog.text


def test_a_folder_with_checkpoints_is_not_written_over(tmp_path):
    stopped("economic", tmp_path, 3)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(
        CheckpointError, match=r"up to step 2: continue it with .*Checkpoint\(folder, resume=True\)` or --resume, use"
    ):
        fit("economic", checkpoint=tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", ["economic", "altmin", "bayes"])
def test_a_fit_that_ended_takes_no_step_more(name, tmp_path):
    whole = fit(name, checkpoint=tmp_path)
    asked = []
    again = fit(name, checkpoint=Checkpoint(tmp_path, resume=True), callback=asked.append)
    assert digest(again) == digest(whole) and asked == []


@pytest.mark.parametrize("name", ["altmin", "bayes", "factors, corners"])
def test_a_fit_that_ended_goes_on_if_it_may_take_more_steps(name, tmp_path):
    fit(name, max_iter=4, checkpoint=tmp_path)
    assert digest(fit(name, max_iter=7, checkpoint=Checkpoint(tmp_path, resume=True))) == digest(fit(name, max_iter=7))


def test_a_fit_that_a_callback_stopped_goes_on(tmp_path):
    first = fit("economic", checkpoint=tmp_path, callback=lambda record: record.step == 2)
    assert first.status.reason == "callback"
    assert digest(fit("economic", checkpoint=Checkpoint(tmp_path, resume=True))) == digest(fit("economic"))


def test_a_small_change_ends_a_fit_at_the_same_step(tmp_path):
    whole = fit("altmin", max_iter=200, tol=1e-2)
    last = len(whole.history)
    assert whole.status.reason == "tol" and last > 3
    stopped("altmin", tmp_path, last - 1, max_iter=200, tol=1e-2)
    assert digest(fit("altmin", max_iter=200, tol=1e-2, checkpoint=Checkpoint(tmp_path, resume=True))) == digest(whole)
    assert digest(fit("altmin", max_iter=200, tol=1e-2, checkpoint=Checkpoint(tmp_path, resume=True))) == digest(whole)


def test_the_clock_goes_on(tmp_path):
    stopped("economic", tmp_path, 3)
    path = max(tmp_path.glob("step-*"))
    spoil(path, lambda about: about["run"]["fields"].update(seconds={"tuple": [1000.0, 2000.0]}))
    wall, cpu = (fit("economic", checkpoint=Checkpoint(tmp_path, resume=True)).history.column(name) for name in TIMES)
    assert (np.diff(wall) >= 0).all() and wall[1] < 1000.0 <= wall[2] and cpu[1] < 2000.0 <= cpu[2]
    stopped("economic", tmp_path / "other", 3)
    spoil(
        max((tmp_path / "other").glob("step-*")),
        lambda about: about["run"]["fields"].update(seconds={"tuple": [1e3] * 2}),
    )
    limited = fit("economic", checkpoint=Checkpoint(tmp_path / "other", resume=True), time_limit=500.0)
    assert limited.status.reason == "time" and len(limited.history) == 3
