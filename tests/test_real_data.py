"""The signed networks of the paper, with its filter: sizes, sign accuracy of EGLRL at rank 40, and probabilities."""

import gzip
import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from rankwise import MatrixCompletion, Observations

DATA = os.environ.get("RANKWISE_DATA")
pytestmark = pytest.mark.skipif(
    not DATA, reason="RANKWISE_DATA is not set; point it to a folder with signed/soc-sign-*.txt.gz"
)

NETWORKS = {  # file, shape and observations after the paper's filter (its Table 1), and the accuracy to reach
    "epinions": ("soc-sign-epinions.txt.gz", (42470, 40700), 752865, 0.925),
    "slashdot": ("soc-sign-Slashdot090221.txt.gz", (30670, 39196), 505986, 0.835),
}
every_network = pytest.mark.parametrize("name", NETWORKS)


@cache
def read(name):
    """Rows with two observations or more, then columns with two of the remaining ones or more; one pass each."""
    file = Path(DATA) / "signed" / NETWORKS[name][0]
    with gzip.open(file, "rt") as lines:
        rows, cols, signs = np.loadtxt(lines, dtype=np.int64, comments="#").T
    for side in ("rows", "cols"):
        ids = rows if side == "rows" else cols
        keep = np.bincount(ids)[ids] >= 2
        if side == "rows":
            n_rows = np.unique(ids[keep]).size
        rows, cols, signs = rows[keep], cols[keep], signs[keep]
    observations = Observations.from_labels(rows, cols, signs.astype(float))
    return observations, (n_rows, observations.shape[1])


@cache
def fit(name):
    """90 % to learn from, 10 % held out, seed 0; the paper's settings."""
    observations, _ = read(name)
    held_out = np.random.default_rng(0).random(observations.n_observed) < 0.1
    model = MatrixCompletion("logistic", rank=40, method="eglrl", offsets="none", dtype="float32")
    return model.fit(observations.take(~held_out)), observations.take(held_out)


@every_network
def test_the_filter_gives_the_paper_s_sizes(name):
    _, shape, n_observed, _ = NETWORKS[name]
    observations, filtered_shape = read(name)
    assert filtered_shape == shape and observations.n_observed == n_observed


@pytest.mark.slow
@every_network
def test_eglrl_predicts_signs_as_well_as_the_paper(name):
    fitted, test = fit(name)
    model = fitted.model_
    accuracy = np.mean(np.where(model.at(test.rows, test.cols) > 0, 1, -1) == test.targets)
    assert accuracy >= NETWORKS[name][3]
    assert model.rank == 40 and np.isfinite(model.path).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@every_network
def test_probabilities_of_held_out_signs_are_within_two_points_in_every_tenth(name, seed):
    observations, _ = read(name)
    held_out = np.random.default_rng(seed).random(observations.n_observed) < 0.2
    test = observations.take(held_out)
    model = MatrixCompletion(random_state=seed).fit(observations.take(~held_out)).model_
    pairs = observations.row_labels[test.rows], observations.col_labels[test.cols]
    chances = model.predict_entries(*pairs, decode="probability", unknown="offset")
    tenths = np.array_split(np.argsort(chances, kind="stable"), 10)
    assert max(abs(chances[tenth].mean() - np.mean(test.targets[tenth] > 0)) for tenth in tenths) < 0.02


@pytest.mark.slow
@every_network
def test_the_first_ranks_already_beat_the_majority(name):
    fitted, test = fit(name)
    majority = np.mean(test.targets > 0)
    accuracy = np.mean((fitted.model_.at(test.rows, test.cols, rank=5) > 0) == (test.targets > 0))
    assert accuracy > majority + 0.02
