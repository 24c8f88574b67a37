"""`rankwise demo`: errors between those of the planted matrix and of a constant, and files only if asked for."""

import re

import numpy as np
import pytest
from click.testing import CliRunner

import rankwise as rw
from rankwise.cli import demo, main


@pytest.fixture
def small(tmp_path, monkeypatch):
    """An empty working folder, and smaller data."""

    def smaller(n_users, n_items, **settings):
        return rw.datasets.ratings(200, 150, **settings | {"density": 0.4})

    monkeypatch.setattr(demo, "ratings", smaller)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_demo_ranks_the_methods_above_the_planted_matrix_and_writes_nothing(small):
    done = CliRunner().invoke(main, ["demo"])
    assert done.exit_code == 0, done.output
    errors = {name: float(error) for name, error in re.findall(r"^ *(.+?)  +\d+  +(\d\.\d{4})", done.stdout, re.M)}
    assert set(errors) == {"r1mp", "altmin", "bayes", "planted matrix"}
    assert errors["planted matrix"] == pytest.approx(0.5, abs=0.03)  # the noise
    assert all(errors["planted matrix"] < errors[method] < 1.0 for method in demo.LOSSES)  # a constant: sqrt(1 + 0.25)
    assert errors["bayes"] < 1.2 * errors["planted matrix"]  # six entries per parameter: about sqrt(1 + 1 / 5)
    assert not list(small.iterdir())


def test_the_files_of_the_demo_give_the_error_that_it_printed(small):
    done = CliRunner().invoke(main, ["demo", "-o", "made"])
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in (small / "made").iterdir()) == ["demo.rankwise", "held_out.csv"]
    users, items, stars = np.loadtxt(small / "made/held_out.csv", delimiter=",", skiprows=1).T
    predictions = rw.load(small / "made/demo.rankwise").predict_entries(users.astype(int), items.astype(int))
    assert f"{np.sqrt(np.mean((predictions - stars) ** 2)):.4f}" in done.stdout
    again = CliRunner().invoke(main, ["demo", "-o", "made"])
    assert again.exit_code == 1 and "--force" in again.stderr
