"""`rankwise compile`: after it, fits of the default method in other processes compile nothing."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from click.testing import CliRunner
from joblib.externals.loky import get_reusable_executor

import rankwise as rw
from rankwise.cli import compile as compiling
from rankwise.cli import main, options
from rankwise.estimators.planning import resolve_loss
from rankwise.kernels import cache

FIT = """
import scipy.sparse as sp

import rankwise as rw
from rankwise.kernels import cache

planted = rw.datasets.{}(300, 200, rank=3, density=0.2)  # evaluates a matrix of float64, which models are not
compiled = []
cache.KernelCache.save_overload = lambda self, *_: compiled.append(self.name)
seen = planted.observations
matrix = sp.coo_array((seen.targets, (seen.rows.astype(int), seen.cols.astype(int))), seen.shape).tocsr()
model = rw.MatrixCompletion().fit(matrix)
model.predict_entries([0], [0], return_std=True)
model.recommend([0], 1)
print(compiled)
"""


def run(*command, folder):
    done = subprocess.run(
        [sys.executable, *command],
        env=os.environ | {"NUMBA_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def who(name):
    time.sleep(0.3)
    return os.getpid()


@pytest.mark.parametrize(
    ("loss", "maker"), [("logistic", "signed_network"), pytest.param("huber", "ratings", marks=pytest.mark.slow)]
)
def test_a_fit_after_compile_compiles_nothing(loss, maker, tmp_path):
    tmp_path.chmod(0o700)
    text = run("-m", "rankwise", "compile", "--loss", loss, folder=tmp_path)
    (folder,) = tmp_path.glob("rankwise/numba/*")
    assert f"{loss}: " in text and str(folder) in text
    assert run("-c", FIT.format(maker), folder=tmp_path).split() == ["[]"]


def test_losses_after_the_first_are_compiled_in_two_other_processes(monkeypatch):
    names = ["logistic", "bernoulli", "logistic", "bernoulli", "logistic"]
    processes = []
    monkeypatch.setattr(compiling, "usable_cores", lambda: 2)
    monkeypatch.setattr(compiling, "_compile", who)
    monkeypatch.setattr(compiling, "_line", lambda name, process: processes.append(process) or name)
    try:
        done = CliRunner().invoke(main, ["compile", *(part for name in names for part in ("--loss", name))])
    finally:
        get_reusable_executor().shutdown(wait=True)
    assert done.exit_code == 0 and done.stdout.split()[:5] == names, done.output
    first, *others, _ = processes  # the last is the time in all
    assert first == os.getpid() not in others and len(set(others)) <= 2


def test_the_losses_by_default_are_those_that_auto_chooses():
    targets = ([1.0, 2.5, 4.0], [-1.0, 1.0, 1.0], [0.0, 1.0, 1.0])
    entries = (rw.Observations.from_coo([0, 1, 2], [0, 1, 2], np.array(some)) for some in targets)
    assert tuple(resolve_loss("auto", some, "bayes").name for some in entries) == options.AUTO_LOSSES


@pytest.mark.parametrize("name", options.LOSS_CHOICES)
def test_every_loss_has_targets_in_its_domain(name):
    loss = rw.losses.get(name)
    targets = compiling._entries(loss).targets
    assert np.all(loss.in_domain(targets)) and np.unique(targets).size > 1


def test_without_a_private_folder_the_command_says_what_to_do(monkeypatch):
    monkeypatch.setattr(compiling, "cache_folder", lambda: None)
    done = CliRunner().invoke(main, ["compile", "--loss", "logistic"])
    assert done.exit_code == 1 and "NUMBA_CACHE_DIR" in done.stderr
    assert cache.cache_folder() is not None
