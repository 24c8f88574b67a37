"""Checkpoints where people meet them: the estimators, the command, the page about them."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from fits import Killed, killed_after
from helpers import examples_of, make_observations, write_ratings
from sklearn.base import clone

import rankwise
from rankwise import Checkpoint, CheckpointError, MatrixCompletion, RobustFactorization, SettingError, solve
from rankwise.cli import main
from rankwise.datasets import ratings
from rankwise.losses import Logistic, Square
from rankwise.solvers import AISImpute, AltMin, BayesSweeps, FactorSweeps, GreedyPursuit

RATINGS = ratings(40, 30, rank=2, density=0.5, random_state=1).observations


def same(one, two):
    """Whether two models have the same bits."""
    parts = [(getattr(model, name) for name in ("path", "U", "V")) for model in (one, two)]
    offsets = [(one.offsets, two.offsets)] if one.offsets is not None else []
    pairs = [
        *zip(*parts, strict=True),
        *((a.rows, b.rows) for a, b in offsets),
        *((a.cols, b.cols) for a, b in offsets),
    ]
    if one.posterior is not None:
        pairs += [(one.posterior.row_variances, two.posterior.row_variances)]
    return all(a.tobytes() == b.tobytes() for a, b in pairs)


ESTIMATORS = {
    "default": MatrixCompletion(rank=4),
    "pursuit of a rank that is chosen": MatrixCompletion("square", method="eglrl", offsets="both"),
    "ridge that is chosen": MatrixCompletion("square", rank=3, method="factors"),
    "robust": RobustFactorization("l1", rank=4, method="glrl-nonsmooth"),
}


@pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS)
def test_an_estimator_goes_on_to_the_same_bits(estimator, tmp_path):
    whole = clone(estimator).fit(RATINGS)
    kept = clone(estimator).set_params(checkpoint=Checkpoint(tmp_path, every=1, resume=True))
    with pytest.raises(Killed):
        kept.fit(RATINGS, callback=killed_after(2))
    steps = []
    resumed = clone(kept).fit(RATINGS, callback=lambda record: steps.append(record.step))
    assert steps[0] == 2 and same(resumed.model_, whole.model_)
    assert resumed.n_iter_ == whole.n_iter_ and resumed.status_ == whole.status_


@pytest.mark.parametrize("kind", [MatrixCompletion, rankwise.SignedLinkPredictor])
def test_estimators_of_pairs_go_on(kind, tmp_path):
    X = np.column_stack((RATINGS.rows, RATINGS.cols))
    y = np.where(RATINGS.targets > RATINGS.targets.mean(), 1, -1)
    whole = kind(rank=3).fit(X, y)
    kind(rank=3, time_limit=1e-9, checkpoint=tmp_path).fit(X, y)  # ends after the first sweep
    resumed = kind(rank=3, checkpoint=Checkpoint(tmp_path, resume=True)).fit(X, y)
    assert same(resumed.model_, whole.model_) and resumed.n_iter_ == whole.n_iter_ > 1


def test_a_folder_is_looked_at_before_anything_is_chosen(tmp_path, monkeypatch):
    MatrixCompletion(rank=2, checkpoint=tmp_path).fit(RATINGS)
    monkeypatch.setattr("rankwise.estimators.planning.choose_ridge", None)
    monkeypatch.setattr("rankwise.estimators.fitting.solve", None)
    with pytest.raises(CheckpointError, match="contains checkpoints of an earlier fit"):
        MatrixCompletion(method="factors", checkpoint=tmp_path).fit(RATINGS)
    with pytest.raises(SettingError, match="3"):
        MatrixCompletion(method="factors", checkpoint=Checkpoint(3)).fit(RATINGS)


def test_further_fits_of_a_calibration_leave_the_checkpoints_alone(tmp_path):
    settings = {"loss": "square", "rank": 2, "max_iter": 3, "calibration": 0.2}
    plain = MatrixCompletion(**settings).fit(RATINGS)
    for resume in (False, True):
        kept = MatrixCompletion(**settings, checkpoint=Checkpoint(tmp_path, resume=resume)).fit(RATINGS)
        assert same(kept.model_, plain.model_)
        np.testing.assert_array_equal(kept.predict_interval([0], [0]), plain.predict_interval([0], [0]))


def test_a_model_does_not_say_where_its_checkpoints_were(tmp_path):
    model = MatrixCompletion(rank=2, checkpoint=Checkpoint(tmp_path / "secret-place", every=2)).fit(RATINGS)
    model.save(tmp_path / "m")
    assert b"secret-place" not in (tmp_path / "m").read_bytes() and "rank" in model.model_.facts["settings"]


SIZES = {  # bytes for m rows and columns, rank r, s bytes a number: as the page has it
    "pursuit": (GreedyPursuit("economic"), Logistic(), lambda m, r, s: m * r * s),
    "geco": ("geco", Square(), lambda m, r, s: m * r * s),
    "altmin": (AltMin(), Logistic(), lambda m, r, s: 2 * m * r * s),
    "ais-impute": (AISImpute(0.5), Square(), lambda m, r, s: m * r * (s + 16)),
    "factors": (FactorSweeps(), Square(), lambda m, r, s: m * s * (4 * r + 6)),
    "bayes": (BayesSweeps(), Square(), lambda m, r, s: m * s * (5 * r + 8)),
}


@pytest.mark.parametrize(("solver", "loss", "size"), SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_checkpoints_are_as_large_as_the_page_says(solver, loss, size, dtype, tmp_path):
    observations = make_observations(loss, np.random.default_rng(0), (2500, 1500), 0.005)
    problem = rankwise.Problem(observations, loss, dtype=dtype)
    found = solve(problem, solver, rank=5, max_iter=5, tol=0.0, checkpoint=tmp_path)
    last = max(tmp_path.glob("step-*.checkpoint")).stat().st_size
    expected = size(4000, problem.point.rank, np.dtype(dtype).itemsize)
    assert len(found.history) >= 4
    assert 0.9 * expected <= last <= 1.03 * expected + 12_000  # the iterate before may have fewer terms


# The command.


@pytest.fixture
def file(tmp_path):
    write_ratings(tmp_path)
    return tmp_path / "ratings.csv"


def command(*words, code=0):
    done = CliRunner().invoke(main, ["fit", *map(str, words)])
    assert done.exit_code == code, done.output
    return done


def test_the_command_goes_on_where_it_was(file, tmp_path):
    out, folder = tmp_path / "out", tmp_path / "kept"
    words = (file, "--rank", 3, "--checkpoint", folder, "--resume", "--checkpoint-every", 2)
    assert (
        f"no checkpoint in {folder} to resume from: starting anew"
        in command(*words, "--time-limit", 1e-9, "-o", out).stderr
    )
    said = command(*words, "-o", out, "--force").stderr
    assert "resuming from step 1" in said and "step 2 of 10 or more" in said and "step 1 of 10" not in said
    command(file, "--rank", 3, "-o", tmp_path / "whole")
    assert same(rankwise.load(out), rankwise.load(tmp_path / "whole"))


def test_the_command_says_what_is_wrong(file, tmp_path):
    folder = tmp_path / "kept"
    words = (file, "-o", tmp_path / "out", "--force", "--rank", 2)
    command(*words, "--checkpoint", folder)
    assert "resume=True" in command(*words, "--checkpoint", folder, code=1).stderr
    assert "name it with --checkpoint" in command(*words, "--resume", code=1).stderr
    other = command(*words, "--loss", "square", "--checkpoint", folder, "--resume", code=1).stderr
    assert "of another fit: loss is 'Square()' and was 'Huber" in other
    last = max(folder.glob("step-*"))
    last.write_bytes(last.read_bytes()[:1000])
    assert f"{last.name} is damaged; using" in command(*words, "--checkpoint", folder, "--resume").stderr


def test_a_command_that_is_killed_goes_on(file, tmp_path):
    """A real process, killed by itself in the middle of a step."""
    source = """
import os, signal, sys
from rankwise.cli import main
from rankwise.solvers import BayesSweeps
step, steps = BayesSweeps.step, []
def killed(self, objective, rng, state):
    if objective.shape[0] > 10:  # not in the rehearsal
        steps.append(1)
    if len(steps) > 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, objective, rng, state)
BayesSweeps.step = killed
main(sys.argv[1:])
"""
    words = [
        "fit",
        file,
        "--rank",
        3,
        "-o",
        tmp_path / "out",
        "--checkpoint",
        tmp_path / "kept",
        "--checkpoint-every",
        1,
    ]
    done = subprocess.run([sys.executable, "-c", source, *map(str, words)], capture_output=True, timeout=240)
    assert done.returncode == -signal.SIGKILL and not (tmp_path / "out").exists()
    assert "resuming from step 5" in command(*words[1:], "--resume").stderr
    command(file, "--rank", 3, "-o", tmp_path / "whole")
    assert same(rankwise.load(tmp_path / "out"), rankwise.load(tmp_path / "whole"))


def test_the_page_about_long_fits_runs_and_runs_again(tmp_path, monkeypatch):
    write_ratings(tmp_path)
    monkeypatch.chdir(tmp_path)
    (example,) = examples_of("docs/long-fits.md", "py")
    first, second = {}, {}
    for names in (first, second):
        exec(example, names)
    assert same(first["estimator"].model_, second["estimator"].model_) and len(os.listdir("checkpoints")) == 3
    (shown,) = examples_of("docs/long-fits.md", "sh")
    assert "resuming from step 10" in command(*shown.split()[2:]).stderr  # the same fit
    assert same(rankwise.load("ratings.rankwise"), first["estimator"].model_)


def test_the_facts_of_a_fit_that_went_on_are_of_all_of_it(file, tmp_path):
    words = (
        file,
        "--rank",
        3,
        "--checkpoint",
        tmp_path / "kept",
        "--resume",
        "--json",
        "--force",
        "-o",
        tmp_path / "out",
    )
    command(*words, "--max-iter", 5)
    found = json.loads(command(*words).stdout)
    steps = rankwise.load(tmp_path / "out").facts["history"]
    assert found["steps"] == len(steps["step"]) == 10 and sorted(steps["wall_seconds"]) == steps["wall_seconds"]
