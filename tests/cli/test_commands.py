"""Help that imports nothing heavy, and the list of methods and losses."""

import json
import subprocess
import sys

from click.testing import CliRunner

import rankwise
from rankwise.cli import main
from rankwise.engines import Shard
from rankwise.solvers import METHODS


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_help_loads_neither_numba_nor_scikit_learn():
    source = """
import json, sys
from click.testing import CliRunner
from rankwise.cli import main
for arguments in (["--help"], ["--version"]):
    assert CliRunner().invoke(main, arguments).exit_code == 0
print(json.dumps([name for name in ("numba", "sklearn", "scipy", "matplotlib", "numpy") if name in sys.modules]))
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(done.stdout) == []


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "rankwise", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split()[-1] == rankwise.__version__ and done.stdout.startswith("rankwise")


def test_methods_lists_every_method_and_loss():
    text = invoke("methods").stdout
    about, fits = (part.splitlines() for part in text.split("Losses that each method supports\n"))
    named = {line.split()[0]: line for line in about if line.strip()}
    taken = {line.split()[0]: line.split()[1:] for line in fits if line.strip()}
    assert set(METHODS) | set(rankwise.losses.BY_NAME) <= set(named)
    assert "0.25" in named["logistic"] and "-1 or +1" in named["logistic"]
    assert "none" in named["poisson"] and named["altmin"].split()[-2:] == ["a", "number"]
    assert all("factors and offsets" in named[name] and "auto" in named[name] for name in ("bayes", "factors"))
    assert set(METHODS) <= set(taken) and taken["method"] == list(rankwise.losses.BY_NAME)
    n = len(rankwise.losses.BY_NAME)
    assert taken["r1mp"] == ["yes"] + (n - 1) * ["-"] and taken["bayes"] == taken["glrl-none"] == n * ["yes"]


def test_listing_the_methods_learns_nothing(monkeypatch):
    """Row solves of all losses would take minutes to compile."""

    def work(*arrays):
        raise AssertionError("a factor was learned")

    monkeypatch.setattr(Shard, "solve_rows", work)
    monkeypatch.setattr(Shard, "expected_loss", work)
    assert invoke("methods").exit_code == 0
