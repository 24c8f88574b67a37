"""The examples run from a folder of their own, draw their picture, and show what their pages say they show."""

import json
import os
import re
import runpy
import subprocess
import sys

import numpy as np
import pytest
from helpers import ROOT

from rankwise import datasets

plt = pytest.importorskip("matplotlib.pyplot", reason="pip install 'rankwise[plots]' brings matplotlib")
pytest.importorskip("pandas", reason="pip install 'rankwise[io]' brings pandas")

# tests/test_demo.py has the demo, whose picture is on no page.
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py") if path.stem != "demo")
IN_PROCESS = [name for name in EXAMPLES if name != "cluster"]  # whose processes import it, so it runs as a program
SLOW = {"multilabel", "own_loss"}  # ten fits; kernels of a loss of one's own are not kept between processes


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder to run in."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    plt.close("all")


@pytest.fixture
def no_data(folder, monkeypatch):
    """No published data set on this machine, so that the examples make theirs."""
    for name in (datasets.VARIABLE, "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(folder))
    return folder


def run(name):
    found = runpy.run_path(str(ROOT / "examples" / f"{name}.py"))
    assert_drawn(name)
    return found


def assert_drawn(name):
    with open(f"{name}.png", "rb") as file:
        assert file.read(4) == b"\x89PNG"


def numbers_of(page, pattern):
    """Numbers that a page quotes from an example."""
    quoted = re.search(pattern, (ROOT / "docs" / page).read_text(encoding="utf-8"), re.S)
    return [float(number.strip("*")) for number in quoted.groups()]


def movies(found):
    assert found["errors"][-1] < found["errors"][0]
    assert (found["low"] <= found["stars"]).all() and (found["stars"] <= np.maximum(found["high"], 5)).all()


def trust(found):
    guess, averaged = (found["log_loss"](found["trusted"], chance) for chance in found["probabilities"].values())
    constant = found["log_loss"](found["trusted"], np.full(found["trusted"].size, found["trusted"].mean()))
    assert guess < constant and averaged < min(constant, 1.01 * guess)


def outliers(found):
    error = {name: np.abs(image - found["clean"])[found["ruined"]].mean() for name, image in found["images"].items()}
    assert error["l1 loss"] < 0.8 * error["square loss"] < error["as given"]
    assert error["pursuit, Huber's loss"] < error["square loss"] < error["pursuit, l1 loss"]
    said = numbers_of("robust.md", r"Off by (\S+) of 16 .* off by (\S+) after the square loss and by (\S+) after")
    np.testing.assert_allclose(said, [error[name] for name in ("as given", "square loss", "l1 loss")], atol=0.1)
    assert found["ruined"][found["worst"].rows, found["worst"].cols].mean() > 0.99


def table(found):
    assert max(found["shares"].values()) < 1.0
    assert np.mean(list(found["shares"].values())) < 0.7


def intervals(found):
    assert abs(found["inside"][~found["seen"]].mean() - 0.8) < 0.04
    assert abs(found["covered"].mean() - 0.8) < 0.02


def own_loss(found):
    cost = [
        found["shelf"].value(each, found["demand"])[found["unseen"]].mean()
        for each in (found["careful"], found["plain"])
    ]
    assert cost[0] < 0.9 * cost[1]


def multilabel(found):
    rows = r"\| low rank, logistic \| (\S+) \| (\S+) \| (\S+) \|\n\| low rank, hinge \| (\S+) \| (\S+) \| (\S+) \|"
    np.testing.assert_allclose(
        numbers_of("multilabel.md", rows), np.concatenate(list(found["means"].values())[:2]), atol=0.02
    )
    micro, _, hamming = np.transpose(list(found["means"].values()))  # logistic, hinge, regressions, no topic
    assert micro[1] > micro[2] > micro[3]
    assert hamming[0] < hamming[2] and hamming[1] < hamming[2]


def clicks(found):
    truth, ours, plain, popular = (shares[found["sizes"].index(20)] for shares in found["recall"].values())
    assert truth > ours > 1.2 * popular and ours > 0.98 * plain
    said = numbers_of(
        "clicks.md", r"(\S+) % of the held-out clicks.* (\S+) % by a plain SVD, (\S+) % by the .* (\S+) % by"
    )
    np.testing.assert_allclose(said, 100 * np.array([ours, plain, popular, truth]), atol=2)


SHOWN = {each.__name__: each for each in (clicks, intervals, movies, multilabel, outliers, own_loss, table, trust)}


@pytest.mark.parametrize("name", [pytest.param(x, marks=pytest.mark.slow) if x in SLOW else x for x in IN_PROCESS])
def test_an_example_shows_what_it_says(name, no_data):
    SHOWN[name](run(name))


@pytest.mark.slow
@pytest.mark.parametrize("name, data", [("movies", "movielens-100k"), ("trust", "slashdot")])
def test_an_example_shows_it_on_real_data(name, data, folder):
    if datasets.find(datasets.get(data)) is None:
        pytest.skip(f"{data} is not on this machine")
    SHOWN[name](run(name))


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_short_and_its_picture_is_on_a_page(name):
    source = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 80
    assert (ROOT / f"docs/pictures/{name}.png").stat().st_size < 150_000
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")]
    assert any(re.search(rf"\(pictures/{name}\.png\)", page) for page in pages)
    assert any(re.search(rf"literalinclude\}} \.\./examples/{name}\.py", page) for page in pages)


@pytest.mark.slow
def test_the_cluster_s_example_loses_a_worker_and_no_bit(folder):
    pytest.importorskip("distributed", reason="pip install 'rankwise[dask]' brings Dask")
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "cluster.py"],
        capture_output=True,
        text=True,
        env=os.environ | {"MPLBACKEND": "Agg"},
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "a worker is killed" in done.stdout and "the same bits: True" in done.stdout
    assert_drawn("cluster")


def test_the_notebook_runs_and_shows_what_it_says(folder):
    """Stored outputs are refreshed by ``jupyter execute --inplace examples/tour.ipynb``."""
    cells = json.loads((ROOT / "examples/tour.ipynb").read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    found = {}
    for cell in code:
        exec("".join(cell["source"]), found)
    assert found["planted"].noise < found["error"] < 0.7 * found["baseline"]
    assert abs(found["covered"] - 0.8) < 0.05
    assert found["restored"].get_params() == found["model"].get_params()
    printed = "".join("".join(output.get("text", "")) for cell in code for output in cell["outputs"])
    assert f"RMSE {found['error']:.3f}" in printed  # the outputs are those of this code
