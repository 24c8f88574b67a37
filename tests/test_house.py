"""What the front door promises: a light import, a true `__all__`, one version, a README that runs."""

import importlib
import inspect
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers import ROOT, examples_of, write_ratings

import rankwise
from rankwise.cli import main

README_EXAMPLES = examples_of("README.md")


def run(source: str, cwd: Path) -> str:
    """Standard output of `source` in a fresh interpreter; a failure shows what it wrote to standard error."""
    done = subprocess.run([sys.executable, "-c", source], cwd=cwd, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_leaves_numba_unloaded(tmp_path):
    assert run("import sys, rankwise; print('numba' in sys.modules)", tmp_path).split() == ["False"]


def test_help_leaves_numba_unloaded(tmp_path):
    source = """
import sys
from rankwise.cli import main
sys.argv = ["rankwise", "--help"]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
print("numba" in sys.modules)
"""
    assert run(source, tmp_path).split()[-1] == "False"


def test_all_is_sorted_and_every_name_resolves():
    assert list(rankwise.__all__) == sorted(set(rankwise.__all__))
    missing = [name for name in rankwise.__all__ if not hasattr(rankwise, name)]
    assert not missing


def test_public_modules_can_be_imported_by_their_names():
    found = {name for name in rankwise.__all__ if inspect.ismodule(getattr(rankwise, name))}
    assert found == set(rankwise._MODULES)
    assert all(importlib.import_module(f"rankwise.{name}") is getattr(rankwise, name) for name in found)


def test_the_version_is_the_same_everywhere():
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.M)
    assert cited is not None
    assert stated == cited[1] == version("rankwise")


def test_the_readme_has_an_example():
    assert README_EXAMPLES


@pytest.mark.parametrize("example", README_EXAMPLES, ids=lambda text: f"{len(text.splitlines())}-lines")
def test_the_readme_example_runs(example, tmp_path):
    write_ratings(tmp_path)
    run(example, tmp_path)


def test_the_readme_commands_run(tmp_path, monkeypatch):
    write_ratings(tmp_path)
    monkeypatch.chdir(tmp_path)
    _, commands = examples_of("README.md", "sh")  # the first installs
    for line in commands.splitlines():
        done = CliRunner().invoke(main, shlex.split(line, comments=True)[1:])
        assert done.exit_code == 0, done.output
    assert {"films.rankwise", "films.html"} <= {path.name for path in tmp_path.iterdir()}
