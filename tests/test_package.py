"""The package as a whole: imports without side effects, `__all__`, versions and their bounds, the README's examples."""

import ast
import importlib
import inspect
import os
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


IMPORT_EVERYTHING = """
import gc, logging, os, signal, sys, warnings
import numba, scipy, sklearn  # what they change on import is theirs

def state():
    settings = {name: value for name, value in vars(numba.config).items() if name.isupper()}
    loggers = [logging.root.level, *logging.root.handlers]
    return gc.isenabled(), gc.get_threshold(), settings, loggers, signal.getsignal(signal.SIGINT), os.environ.copy()

before = state()
import rankwise
for name in rankwise.__all__:
    getattr(rankwise, name)
from rankwise import kernels
from rankwise.kernels import cache, entrywise, pattern, topk
assert state() == before
compiled = [one for module in (entrywise, pattern, topk) for one in vars(module).values() if hasattr(one, "signatures")]
assert len(compiled) > 20 and not any(kernel.signatures for kernel in compiled)
print(cache.cache_folder.cache_info().currsize)
"""


def test_importing_everything_writes_no_file_compiles_nothing_and_changes_no_global_state(tmp_path):
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir(mode=0o500)
    work.mkdir()
    settings = {name: str(home) for name in ("HOME", "USERPROFILE", "LOCALAPPDATA", "XDG_CACHE_HOME", "TMPDIR")}
    kept = {name: text for name, text in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "RANKWISE_DATA")}
    command = [sys.executable, "-B", "-c", IMPORT_EVERYTHING]
    done = subprocess.run(command, cwd=work, env=kept | settings, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0"]  # no cache folder was asked for
    assert not [*home.rglob("*"), *work.rglob("*")]


def numba_bound() -> tuple[int, int]:
    """First release series of Numba that pyproject.toml excludes."""
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    (numba,) = (line for line in stated if line.startswith("numba"))
    return series(numba.rpartition("<")[2])


def series(release: str) -> tuple[int, int]:
    major, minor, *_ = release.split(".")
    return int(major), int(minor)


def test_numba_is_bounded_by_the_newest_release_that_the_hand_written_instructions_were_tested_with():
    pinned = re.search(r"^numba==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.M)
    assert pinned is not None
    for what, release in (("installed", version("numba")), ("pinned in constraints.txt", pinned[1])):
        assert series(release) < numba_bound(), (
            f"Numba {release} is {what}, beyond the bound in pyproject.toml. kernels/lanes.py emits LLVM instructions "
            "through Numba: run tests/kernels/test_lanes.py with this release, and raise the bound if it passes."
        )
    major, minor = series(pinned[1])
    assert numba_bound() == (major, minor + 1)  # not wider than what was tested


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
    stub = ast.parse((ROOT / "src" / "rankwise" / "__init__.pyi").read_text(encoding="utf-8"))
    (names,) = (node.value for node in stub.body if isinstance(node, ast.Assign))
    assert ast.literal_eval(names) == rankwise.__all__  # what type checkers see
    missing = [name for name in rankwise.__all__ if not hasattr(rankwise, name)]
    assert not missing


def test_public_modules_can_be_imported_by_their_names():
    modules = [name for name in rankwise.__all__ if inspect.ismodule(getattr(rankwise, name))]
    assert {"datasets", "io", "losses", "solvers"} <= set(modules)
    assert all(importlib.import_module(f"rankwise.{name}") is getattr(rankwise, name) for name in modules)


def test_the_version_is_the_same_everywhere():
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.M)
    assert cited is not None
    assert stated == cited[1] == version("rankwise")


def test_workflows_classifiers_and_requires_python_agree_on_the_pythons():
    yaml = pytest.importorskip("yaml", reason="myst-parser brings it")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line) for line in project["classifiers"])
    pythons = [found[1] for found in named if found is not None]
    assert project["requires-python"] == f">={pythons[0]}"
    jobs = [
        job
        for path in sorted((ROOT / ".github/workflows").glob("*.yml"))
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
    ]
    tested = [job["strategy"]["matrix"]["python"] for job in jobs if "strategy" in job]
    assert tested == [pythons, pythons]  # the wheel, and the sources
    steps = [step["with"]["python-version"] for job in jobs for step in job["steps"] if "setup-python" in str(step)]
    assert set(steps) <= {*pythons, "${{ matrix.python }}"}


def test_other_settings_files_can_be_read():
    yaml = pytest.importorskip("yaml", reason="myst-parser brings it")
    forms = [*ROOT.glob(".github/ISSUE_TEMPLATE/*.yml")]
    assert len(forms) == 2
    for path in forms:
        assert {"name", "description", "body"} <= set(yaml.safe_load(path.read_text(encoding="utf-8"))), path
    assert yaml.safe_load((ROOT / ".readthedocs.yaml").read_text(encoding="utf-8"))["version"] == 2


def test_the_conda_recipe_has_the_version_and_the_dependencies_of_pyproject():
    yaml = pytest.importorskip("yaml", reason="myst-parser brings it")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    recipe = yaml.safe_load((ROOT / "packaging/conda/meta.yaml").read_text(encoding="utf-8"))
    assert recipe["package"]["version"] == project["version"]
    python, *packages = [line.replace(" ", "").replace("_", "-") for line in recipe["requirements"]["run"]]
    assert python == "python" + project["requires-python"]
    assert packages == project["dependencies"]


def test_the_paper_is_short_and_cites_what_its_bibliography_has():
    yaml = pytest.importorskip("yaml", reason="myst-parser brings it")
    _, header, text = (ROOT / "paper/paper.md").read_text(encoding="utf-8").split("---\n", 2)
    assert {"title", "tags", "authors", "affiliations", "date", "bibliography"} <= set(yaml.safe_load(header))
    assert len(text.split()) <= 1000
    assert {"# Summary", "# Statement of need", "# References"} <= set(text.splitlines())
    listed = re.findall(r"^@\w+\{(\w+),", (ROOT / "paper/paper.bib").read_text(encoding="utf-8"), re.M)
    assert len(listed) == len(set(listed)) and set(re.findall(r"@(\w+)", text)) == set(listed)


def test_the_readme_has_an_example():
    assert README_EXAMPLES


@pytest.mark.parametrize("example", README_EXAMPLES, ids=lambda text: f"{len(text.splitlines())}-lines")
def test_the_readme_example_runs(example, tmp_path):
    write_ratings(tmp_path)
    run(example, tmp_path)


def test_the_readme_commands_run_and_the_demo_prints_the_table_that_is_shown(tmp_path, monkeypatch):
    write_ratings(tmp_path)
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^rankwise (.*)$", "".join(examples_of("README.md", "sh")), re.M)
    assert [command.split()[0] for command in commands] == ["demo", "fit", "evaluate", "recommend", "predict", "report"]
    printed = {}
    for line in commands:
        done = CliRunner().invoke(main, shlex.split(line, comments=True))
        assert done.exit_code == 0, done.output
        printed[line.split()[0]] = done.output
    assert {"films.rankwise", "films.html"} <= {path.name for path in tmp_path.iterdir()}
    (shown,) = examples_of("README.md", "text")
    scores = [re.findall(r"^ (.*) (\d+) +(\d\.\d+)", text, re.M) for text in (shown, printed["demo"])]
    assert len(scores[0]) == 4 and scores[0] == scores[1]


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) < 700
