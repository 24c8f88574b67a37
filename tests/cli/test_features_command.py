"""`rankwise fit` with tables of features."""

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from feature_cases import planted_features

import rankwise as rw
from rankwise.cli import main


def files(folder, separator=","):
    data = planted_features(cold=20)
    matrix, seen = data.features["rows"].matrix, data.seen
    kinds = np.array(["w", "x", "y", "z"])[matrix[:, :4].argmax(axis=1)]
    names = [f"p{i:03d}" for i in range(300)]
    table = pd.DataFrame({"age": matrix[:, 4], "name": names, "kind": kinds})
    table.to_csv(folder / "people.csv", index=False, sep=separator)
    entries = pd.DataFrame({"who": np.array(names)[seen.rows], "what": seen.cols, "value": seen.targets})
    entries.to_csv(folder / "entries.csv", index=False)
    return names[:20]


@pytest.mark.parametrize("separator", [",", "\t", ";"])
def test_rows_with_features_alone_are_in_the_model_and_guesses_are_told(tmp_path, separator):
    cold = files(tmp_path, separator)
    options = ["-o", str(tmp_path / "m.rankwise"), "--rank", "3", "--max-iter", "6", "--held-out", "0.1"]
    given = ["fit", str(tmp_path / "entries.csv"), "--row-features", str(tmp_path / "people.csv"), *options]
    result = CliRunner().invoke(main, given)
    assert result.exit_code == 0, result.output
    assert "labels in column 'name', features age, kind" in result.output
    model = rw.load(tmp_path / "m.rankwise")
    assert model.shape == (300, 120) and np.isfinite(model.predict_entries(cold, np.arange(20))).all()
    assert model.effects("rows").feature.tolist() == ["age", "kind=w", "kind=x", "kind=y", "kind=z"]


def test_features_that_cannot_be_read_are_refused(tmp_path):
    files(tmp_path)
    entries = str(tmp_path / "entries.csv")
    for path, sentence in ((tmp_path / "no.csv", "There is no file"), (tmp_path / "entries.csv", "more than once")):
        result = CliRunner().invoke(main, ["fit", entries, "--row-features", str(path), "-o", str(tmp_path / "m")])
        assert result.exit_code != 0 and sentence in result.output + str(result.exception)
