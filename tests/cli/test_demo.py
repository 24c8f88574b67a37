"""The command: quick help, one-line errors, and a demo that does the whole job."""

import json
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

import rankwise
from rankwise import _extras, datasets
from rankwise._errors import MissingExtraError
from rankwise.cli import main
from rankwise.engines import Shard
from rankwise.report import Panel, rank_path

PNG = b"\x89PNG\r\n\x1a\n"


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Folder and printed text of one run of the demo."""
    folder = tmp_path_factory.mktemp("demo") / "made" / "here"
    done = invoke("demo", "--output", folder, "--seed", 1, "--threads", 1)
    assert done.exit_code == 0, done.output
    return folder, done.stdout


def png_size(path):
    header = path.read_bytes()[:24]
    assert header.startswith(PNG)
    return int.from_bytes(header[16:20], "big"), int.from_bytes(header[20:24], "big")


def scores(text, title, column):
    """Numbers of one column of a printed table, and that of its last line, the truth."""
    lines = text[text.index(title) :].splitlines()[2:]
    table = [line.split() for line in lines[: lines.index("")]]
    return [float(row[column]) for row in table[:-1]], float(table[-1][-1])


def test_the_demo_writes_a_model_and_a_picture_and_says_where(demo):
    folder, text = demo
    assert sorted(path.name for path in folder.iterdir()) == ["demo.rankwise", "rank_path.png"]
    assert all(str(path) in text for path in folder.iterdir())
    assert "compiling" in text and "\x1b" not in text  # plain when piped


def test_the_demo_model_loads_and_predicts_at_every_rank(demo):
    model = rankwise.load(demo[0] / "demo.rankwise")
    planted = datasets.signed_network(1500, 1000, rank=4, density=0.2, flip=0.05, random_state=1)
    assert model.shape == planted.observations.shape and model.rank == 10
    for rank in (0, 1, 4, 10):
        chances = model.predict_entries([0, 7, 1499], [0, 9, 999], rank=rank, scale="response")
        assert np.all((chances >= 0) & (chances <= 1))


def test_the_demo_picture_has_two_panels_side_by_side(demo):
    width, height = png_size(demo[0] / "rank_path.png")
    assert 1200 <= width <= 2000 and 500 <= height <= 1000


def test_the_demo_comes_near_the_truth_at_the_planted_rank(demo):
    for column in (2, 4):  # EGLRL and GLRL, % of signs
        accuracy, truth = scores(demo[1], "Signed network", column)
        assert np.all(np.diff(accuracy[:4]) > 0)
        assert truth - 8 < accuracy[3] < truth
        assert max(accuracy) - accuracy[3] < 2
    rmse, truth = scores(demo[1], "Ratings", -1)
    assert np.all(np.diff(rmse[:5]) < 0)
    assert truth < min(rmse) <= rmse[4] < 1.25 * truth


def test_help_loads_neither_numba_nor_scikit_learn():
    source = """
import json, sys
from click.testing import CliRunner
from rankwise.cli import main
for arguments in (["--help"], ["--version"], ["demo", "--help"]):
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
    about, fits = (part.splitlines() for part in text.split("Which method takes which loss\n"))
    named = {line.split()[0]: line for line in about if line.strip()}
    taken = {line.split()[0]: line.split()[1:] for line in fits if line.strip()}
    assert set(rankwise.solvers.METHODS) | set(rankwise.losses.BY_NAME) <= set(named)
    assert "0.25" in named["logistic"] and "-1 or +1" in named["logistic"]
    assert "none" in named["poisson"] and named["altmin"].split()[-2:] == ["a", "number"]
    assert all("factors and offsets" in named[name] and "auto" in named[name] for name in ("bayes", "factors"))
    assert set(rankwise.solvers.METHODS) <= set(taken) and taken["method"] == list(rankwise.losses.BY_NAME)
    n = len(rankwise.losses.BY_NAME)
    assert taken["r1mp"] == ["yes"] + (n - 1) * ["-"] and taken["bayes"] == taken["glrl-none"] == n * ["yes"]


def test_listing_the_methods_learns_nothing(monkeypatch):
    """Row solves of all losses would take minutes to compile."""

    def work(*arrays):
        raise AssertionError("a factor was learned")

    monkeypatch.setattr(Shard, "solve_rows", work)
    monkeypatch.setattr(Shard, "expected_loss", work)
    assert invoke("methods").exit_code == 0


def test_an_error_is_one_line_and_no_traceback(tmp_path):
    (tmp_path / "file").touch()
    done = invoke("demo", "--output", tmp_path / "file" / "folder")
    assert done.exit_code == 1
    assert len(done.stderr.splitlines()) == 1 and "choose another --output" in done.stderr
    assert done.stdout == ""


def test_without_matplotlib_everything_but_the_picture_works(tmp_path, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name="matplotlib")

    monkeypatch.setattr(_extras.importlib, "import_module", missing)
    with pytest.raises(MissingExtraError, match=r"rankwise\[plots\]"):
        rank_path([Panel("one", "score", {"a": [1.0]}, 1.0, 1)], tmp_path / "one.png")
    done = invoke("demo", "--output", tmp_path, "--threads", 1)
    assert done.exit_code == 0 and "rankwise[plots]" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["demo.rankwise"]


@pytest.mark.parametrize("n_panels", [1, 2])
@pytest.mark.parametrize("n_methods", [1, 3, 8])
def test_pictures_of_any_number_of_lines_are_written_whole(tmp_path, n_panels, n_methods):
    curves = {f"method {k}": np.linspace(0.5, 0.9 - 0.01 * k, 5) for k in range(n_methods)}
    panel = Panel("a title", "accuracy, %", curves, 0.95, 3)
    rank_path([panel] * n_panels, tmp_path / "picture.png")
    width, height = png_size(tmp_path / "picture.png")
    assert width == 780 * n_panels and height == 660
    assert [path.name for path in tmp_path.iterdir()] == ["picture.png"]


def test_a_failed_picture_leaves_the_old_one(tmp_path):
    path = tmp_path / "picture.png"
    path.write_bytes(b"old")
    with pytest.raises(ValueError):
        rank_path([Panel("bad", "score", {"a": [[[1.0]]]}, 1.0, 1)], path)
    assert path.read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 1
