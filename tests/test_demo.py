"""The program of `make demo`: it writes a model and a picture, and its scores come near those of the planted truth."""

import runpy
import sys

import numpy as np
import pytest
from helpers import ROOT

import rankwise as rw

plt = pytest.importorskip("matplotlib.pyplot", reason="pip install 'rankwise[plots]' brings matplotlib")


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Folder and variables of one run of the demo."""
    folder = tmp_path_factory.mktemp("demo") / "made" / "here"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["demo.py", str(folder)])
        variables = runpy.run_path(str(ROOT / "examples" / "demo.py"))
    plt.close("all")
    return folder, variables


def test_the_demo_writes_a_model_and_a_picture(demo):
    folder, _ = demo
    assert sorted(path.name for path in folder.iterdir()) == ["demo.rankwise", "rank_path.png"]
    header = (folder / "rank_path.png").read_bytes()[:24]
    width, height = (int.from_bytes(header[k : k + 4], "big") for k in (16, 20))
    assert header.startswith(b"\x89PNG") and (width, height) == (1560, 660)


def test_the_demo_model_loads_and_predicts_at_every_rank(demo):
    model = rw.load(demo[0] / "demo.rankwise")
    for rank in (0, 1, 4, 10):
        chances = model.predict_entries([0, 7, 1499], [0, 9, 999], rank=rank, scale="response")
        assert np.all((chances >= 0) & (chances <= 1))


def test_the_demo_comes_near_the_truth_at_the_planted_rank(demo):
    scores, truths = demo[1]["scores"], demo[1]["truths"]
    for method in ("eglrl", "glrl"):
        accuracy, truth = scores["Signed network", method], truths["Signed network"]
        assert np.all(np.diff(accuracy[:4]) > 0)
        assert truth - 0.08 < accuracy[3] < truth
        assert max(accuracy) - accuracy[3] < 0.02
    rmse, truth = scores["Ratings", "r1mp"], truths["Ratings"]
    assert np.all(np.diff(rmse[:5]) < 0)
    assert truth < min(rmse) <= rmse[4] < 1.25 * truth
