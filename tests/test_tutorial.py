"""What docs/tutorial.md shows runs from top to bottom on any file of ratings: its commands, then its Python."""

import re
import shlex

import numpy as np
import pytest
from click.testing import CliRunner
from helpers import ROOT, examples_of, write_ratings

from rankwise.cli import main

plt = pytest.importorskip("matplotlib.pyplot", reason="pip install 'rankwise[plots]' brings matplotlib")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The files that the tutorial reads, in the folder that the test runs in."""
    write_ratings(tmp_path)
    (tmp_path / "pictures").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_tutorial_runs(folder):
    commands = re.findall(r"^\$ rankwise (.*)$", "".join(examples_of("docs/tutorial.md", "console")), re.M)
    assert [command.split()[0] for command in commands] == ["fit", "evaluate", "recommend", "predict", "report"]
    for command in commands:
        done = CliRunner().invoke(main, shlex.split(command))
        assert done.exit_code == 0, done.output
    names = {}
    exec("\n".join(examples_of("docs/tutorial.md")), names)
    plt.close("all")
    ratings, held_out = names["ratings"], names["held_out"]
    assert not set(ratings["film"][ratings["user"] == 42]) & set(names["model"].recommend(42, 3)[0])
    assert not {"Toy Story (1995)", "Babe (1995)", "Matrix, The (1999)"} & set(names["films"])  # those of "me"
    entries = held_out.row_labels[held_out.rows], held_out.col_labels[held_out.cols]
    errors = names["fitted"].predict_entries(*entries) - held_out.targets
    assert np.sqrt(np.mean(errors**2)) < 0.7 * held_out.targets.std()
    assert {path.name for path in (folder / "pictures").iterdir()} == {"fit.png", "films.png"}


def test_the_pages_pictures_are_there_and_small():
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    shown = set(re.findall(r"\((pictures/[^\s)]+)\)", pages))
    assert shown == {f"pictures/{path.name}" for path in (ROOT / "docs/pictures").iterdir()}
    assert all((ROOT / "docs" / name).stat().st_size < 150_000 for name in shown)


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))])
def test_links_to_our_own_files_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / page).read_text(encoding="utf-8"))
    assert not [link for link in links if not ((ROOT / page).parent / link).exists()]
