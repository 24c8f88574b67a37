"""The commands that make and use models: their numbers are the library's and NumPy's, their files appear whole."""

import csv
import gc
import io
import json
import logging
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT, run
from rich.console import Console
from sklearn.metrics import f1_score, roc_auc_score

import rankwise
from rankwise import losses, selection, solvers
from rankwise.cli import main, options, progress
from rankwise.cli.formatting import format_decimals, plural
from rankwise.io import read_file
from rankwise.model import DECODINGS, Offsets, save
from rankwise.observations.labels import LabelIndex
from rankwise.solvers import METHODS, loop
from rankwise.solvers.history import Record

PURSUIT = ("--loss", "square", "--method", "eglrl", "--offsets", "both", "--rank", "3")


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def write(path, observations, places=slice(None)):
    rows, cols = observations.row_labels[observations.rows], observations.col_labels[observations.cols]
    with open(path, "w", encoding="utf-8") as file:
        file.write("who,what,stars\n")
        for row, col, value in list(zip(rows, cols, observations.targets.tolist(), strict=True))[places]:
            file.write(f"{row},{col},{value}\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Ratings of 30 people for 20 things, by name, in a file; signs in another."""
    rng, folder = np.random.default_rng(8), tmp_path_factory.mktemp("files")
    truth = rng.normal(0, 1, (30, 2)) @ rng.normal(0, 1, (2, 20))
    rows, cols = np.nonzero(rng.random(truth.shape) < 0.5)
    values = np.round(3 + truth[rows, cols] + 0.1 * rng.normal(size=rows.size), 2)
    names = np.array([f"person {k:02d}" for k in range(30)])[rows], np.array([f"thing {k}" for k in range(20)])[cols]
    write(folder / "ratings.csv", rankwise.Observations.from_labels(*names, values))
    write(folder / "signs.csv", rankwise.Observations.from_labels(rows + 1, cols + 1, np.sign(values - 3.003)))
    return folder


@pytest.fixture(scope="module")
def model(folder):
    run("fit", folder / "ratings.csv", *PURSUIT, "-o", folder / "model.rankwise")
    return folder / "model.rankwise"


def test_fit_does_what_the_library_does(folder, model):
    observations = read_file(folder / "ratings.csv")
    expected = rankwise.MatrixCompletion("square", 3, method="eglrl", offsets="both", random_state=0)
    expected = expected.fit(observations).model_
    found = rankwise.load(model)
    np.testing.assert_array_equal(found.to_dense(), expected.to_dense())
    np.testing.assert_array_equal(found.row_labels, observations.row_labels)
    assert found.seen is not None and found.facts["n_observed"] == observations.n_observed


def test_fit_tells_people_what_it_guessed_and_what_came_of_it(folder, tmp_path):
    done = run("fit", folder / "ratings.csv", *PURSUIT, "--held-out", 0.2, "-o", tmp_path / "m")
    assert "separated by commas, a header; rows from 'who', columns from 'what', values from 'stars'" in done.stderr
    assert "step 1 of 3: rank 1, objective" in done.stderr and "held out 0." in done.stderr
    for words in ("30 rows x 20 columns", "rank 3", "RMSE", "in units of the values", str(tmp_path / "m")):
        assert words in done.stdout
    assert "\x1b" not in done.output


def test_fit_scores_the_share_that_it_held_out(folder, tmp_path):
    arguments = (*PURSUIT, "--held-out", 0.25, "--seed", 5, "--threads", 1, "--json")
    done = run("fit", folder / "ratings.csv", *arguments, "-o", tmp_path / "m.rankwise")
    found, model = json.loads(done.stdout), rankwise.load(tmp_path / "m.rankwise")
    train, held_out = selection.split_entries(read_file(folder / "ratings.csv"), 0.25, 5)
    errors = model.to_dense()[held_out.rows, held_out.cols] - held_out.targets
    assert found["held_out"]["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-6)
    assert found["held_out"]["mae"] == pytest.approx(np.mean(np.abs(errors)), rel=1e-6)
    assert found["held_out"]["mean_loss"] == pytest.approx(np.mean(errors**2) / 2, rel=1e-6)
    assert found["n_observed"] == train.n_observed and found["shape"] == [30, 20] and found["rank"] == 3
    assert found["bytes"] == (tmp_path / "m.rankwise").stat().st_size and found["status"]["reason"] == "rank"
    assert model.facts["held_out"]["scores"] == found["held_out"]
    given = read_file(folder / "ratings.csv")  # a row has its held-out columns, too, and is not recommended them
    np.testing.assert_array_equal(model.seen.indices, given.indices)
    np.testing.assert_array_equal(model.seen.indptr, given.indptr)


def test_fit_scores_a_file_and_says_what_it_left_out_of_it(folder, tmp_path):
    observations = read_file(folder / "ratings.csv")
    write(tmp_path / "held.csv", observations, slice(0, 40))
    with open(tmp_path / "held.csv", "a") as file:
        file.write("nobody,thing 1,3\nperson 01,nothing,3\n")
    arguments = (*PURSUIT, "--held-out", tmp_path / "held.csv", "--json", "-o", tmp_path / "m.rankwise")
    done = run("fit", folder / "ratings.csv", *arguments)
    assert "held.csv: left out 2 entries whose row or column is not in" in done.stderr
    predicted = rankwise.load(tmp_path / "m.rankwise").to_dense()[observations.rows, observations.cols][:40]
    expected = np.sqrt(np.mean((predicted - observations.targets[:40]) ** 2))
    assert json.loads(done.stdout)["held_out"]["rmse"] == pytest.approx(expected, rel=1e-6)


def test_weights_are_those_of_the_library(folder, tmp_path):
    first, *lines = (folder / "ratings.csv").read_text().splitlines()
    weights = [k % 3 + 1 for k in range(len(lines))]
    text = [f"{first},trust", *(f"{line},{weight}" for line, weight in zip(lines, weights, strict=True))]
    (tmp_path / "w.csv").write_text("\n".join(text))
    arguments = ("--weight", "trust", "--held-out", folder / "ratings.csv")  # which has no such column
    run("fit", tmp_path / "w.csv", *PURSUIT, *arguments, "-o", tmp_path / "m")
    plain = read_file(folder / "ratings.csv")
    observations = rankwise.Observations(
        plain.indptr, plain.indices, plain.targets, plain.shape, np.array(weights, "f4")
    )
    expected = rankwise.MatrixCompletion("square", 3, method="eglrl", offsets="both").fit(observations).model_
    np.testing.assert_array_equal(rankwise.load(tmp_path / "m").to_dense(), expected.to_dense())


def test_nothing_is_written_over_without_force(folder, model, tmp_path):
    target = tmp_path / "m.rankwise"
    target.write_bytes(b"old")
    run("fit", folder / "ratings.csv", *PURSUIT, "-o", target, code=1)
    run("predict", model, folder / "ratings.csv", "-o", target, code=1)
    run("recommend", model, "--all", "-o", target, code=1)
    assert target.read_bytes() == b"old"
    run("predict", model, folder / "ratings.csv", "-o", target, "--force")
    assert target.read_text().startswith("row,column,prediction\n")
    run("fit", folder / "ratings.csv", *PURSUIT, "-o", target, "--force")
    assert rankwise.load(target).rank == 3 and [path.name for path in tmp_path.iterdir()] == ["m.rankwise"]


def test_columns_may_be_given_by_number(folder, model, tmp_path):
    lines = (folder / "ratings.csv").read_text().splitlines()
    turned = [",".join((stars, who, "0", what)) for who, what, stars in (line.split(",") for line in lines)]
    (tmp_path / "turned.csv").write_text("\n".join(turned).replace(",0,", ",when,", 1))
    columns = ("--row", 2, "--col", 4, "--value", 1)
    run("fit", tmp_path / "turned.csv", *PURSUIT, *columns, "-o", tmp_path / "m")
    np.testing.assert_array_equal(rankwise.load(tmp_path / "m").to_dense(), rankwise.load(model).to_dense())


def test_a_first_line_is_an_entry_if_there_is_no_header(tmp_path):
    (tmp_path / "words.csv").write_text("user,item,5\n" + "".join(f"u{k % 7},i{k % 5},{k % 4}\n" for k in range(35)))
    for more, shape in ((("--no-header",), (8, 6)), (("--header",), (7, 5))):
        run("fit", tmp_path / "words.csv", *PURSUIT, *more, "--force", "-o", tmp_path / "m")
        found = rankwise.load(tmp_path / "m")
        assert found.shape == shape and ("user" in found.row_labels) == (more == ("--no-header",))


def test_bad_lines_are_left_out_if_told(folder, model, tmp_path):
    text = (folder / "ratings.csv").read_text()
    (tmp_path / "bad.csv").write_text(text + "person 01,thing 1,good\nperson 01\n")
    run("fit", tmp_path / "bad.csv", *PURSUIT, "-o", tmp_path / "m", code=1)
    done = run("fit", tmp_path / "bad.csv", *PURSUIT, "--skip-bad-lines", "-o", tmp_path / "m")
    assert "left out 2" in done.stderr
    np.testing.assert_array_equal(rankwise.load(tmp_path / "m").to_dense(), rankwise.load(model).to_dense())


def test_a_time_limit_ends_the_fit_with_a_model(folder, tmp_path):
    limit = ("--time-limit", 1e-9, "--json", "-o", tmp_path / "m")
    found = json.loads(run("fit", folder / "ratings.csv", *PURSUIT, *limit).stdout)
    assert found["status"]["reason"] == "time" and found["steps"] == 1 == rankwise.load(tmp_path / "m").rank
    assert "is not in the range" in run("fit", folder / "ratings.csv", "--time-limit", 0, code=2).stderr


def test_the_model_is_named_after_the_file_unless_told(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("stars.csv").write_bytes((folder / "ratings.csv").read_bytes())
    run("fit", "stars.csv", *PURSUIT)
    assert rankwise.load("stars.rankwise").rank == 3


def test_the_command_in_the_file_makes_the_same_model_again(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my stars.csv").write_bytes((folder / "ratings.csv").read_bytes())
    run(
        "fit",
        "my stars.csv",
        "--loss",
        "huber:0.5",
        "--method",
        "glrl-none",
        "--rank",
        2,
        "--no-seen",
        "--header",
        "-o",
        "m",
    )
    command = json.loads(run("info", "m", "--json").stdout)["facts"]["command"]
    first = rankwise.load("m")
    assert first.loss == losses.Huber(0.5) and first.seen is None
    run(*shlex.split(command)[1:], "--force")
    np.testing.assert_array_equal(rankwise.load("m").to_dense(), first.to_dense())
    assert str(tmp_path) not in command


@pytest.mark.parametrize("name", METHODS)
def test_every_method_can_be_named(folder, tmp_path, name):
    loss = "l1" if name in ("admm", "wiberg") else "square"
    few = ("--max-iter", 2) if not METHODS[name].solver.grows else ()
    run("fit", folder / "ratings.csv", "--method", name, "--loss", loss, "--rank", 2, *few, "-o", tmp_path / "m")
    model = rankwise.load(tmp_path / "m")
    assert model.rank <= 2 or name == "admm"  # whose rank follows from the weight of the nuclear norm
    assert model.loss == losses.get(loss) and model.facts["settings"].get("method", "bayes") == name


def test_the_names_that_are_written_out_are_those_of_the_library():
    assert set(options.METHOD_CHOICES) == set(METHODS) and set(options.LOSS_CHOICES) == set(losses.BY_NAME)
    assert set(options.DECODING_CHOICES) == set(DECODINGS)
    numbers = {name: 7 if name in options.ORDINAL else 0.7 for name in options.PARAMETRIC}
    assert all(losses.BY_NAME[name](number) != losses.get(name) for name, number in numbers.items())


def test_labels_and_the_seen_pattern_can_be_left_out(folder, tmp_path):
    run("fit", folder / "ratings.csv", *PURSUIT, "--no-labels", "--no-seen", "-o", tmp_path / "m")
    model = rankwise.load(tmp_path / "m")
    assert model.row_labels is None and model.col_labels is None and model.seen is None
    assert b"person" not in (tmp_path / "m").read_bytes()
    shown = run("info", tmp_path / "m").stdout
    assert "no labels, and no positions of observed entries" in shown
    assert "--include-seen" in run("recommend", tmp_path / "m", 3, code=1).stderr
    assert "Row 3" in run("recommend", tmp_path / "m", 3, "--include-seen").stdout


def test_predict_gives_the_models_predictions_in_the_order_of_the_pairs(model, folder, tmp_path):
    pairs = [("person 07", "thing 3"), ("person 00", "thing 19"), ("person 07", "thing 0")]
    (tmp_path / "pairs.csv").write_text("what,who\n" + "".join(f"{col},{row}\n" for row, col in pairs))
    arguments = ("predict", model, tmp_path / "pairs.csv", "--row", "who", "--col", "what")
    printed = run(*arguments).stdout
    found = rows_of(printed)
    assert [(line["row"], line["column"]) for line in found] == pairs
    expected = rankwise.load(model).predict_entries(*zip(*pairs, strict=True))
    np.testing.assert_allclose([float(line["prediction"]) for line in found], expected, rtol=1e-7)
    run(*arguments, "-o", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == printed
    lower = rankwise.load(model).predict_entries(*zip(*pairs, strict=True), rank=1)
    found = rows_of(run(*arguments, "--rank", 1).stdout)
    np.testing.assert_allclose([float(line["prediction"]) for line in found], lower, rtol=1e-7)


def test_predict_falls_back_on_means_when_told(model, tmp_path):
    (tmp_path / "pairs.csv").write_text("nobody,thing 3\nperson 07,nothing\nnobody,nothing\nperson 01,thing 1\n")
    found = rows_of(run("predict", model, tmp_path / "pairs.csv", "--unknown", "offset").stdout)
    known = rankwise.load(model)
    offsets, col = known.offsets, known.col_labels.tolist().index("thing 3")
    expected = [
        offsets.constant + offsets.cols[col],
        offsets.constant + offsets.rows[7],
        offsets.constant,
        known.predict_entries(["person 01"], ["thing 1"])[0],
    ]
    np.testing.assert_allclose([float(line["prediction"]) for line in found], expected, rtol=1e-6)


def test_unknown_pairs_are_decoded_too(model, tmp_path):
    (tmp_path / "pairs.csv").write_text("person 07,thing 3\nnobody,thing 3\n")
    options = "--unknown", "offset", "--decode", "clip"
    found = rows_of(run("predict", model, tmp_path / "pairs.csv", *options).stdout)
    known = rankwise.load(model)
    wanted = known.predict_entries(["person 07", "nobody"], ["thing 3"] * 2, unknown="offset", decode="clip")
    np.testing.assert_allclose([float(line["prediction"]) for line in found], wanted, rtol=1e-6)


def test_intervals_are_those_of_the_calibrated_model(folder, model, tmp_path):
    run("fit", folder / "ratings.csv", *PURSUIT, "--calibration", 0.2, "-o", tmp_path / "m")
    (tmp_path / "pairs.csv").write_text("person 07,thing 3\nnobody,thing 3\nperson 00,thing 19\n")
    asked = ("predict", tmp_path / "m", tmp_path / "pairs.csv", "--unknown", "offset", "--coverage", 0.7)
    lines = rows_of(run(*asked).stdout)
    wanted = rankwise.load(tmp_path / "m").predict_interval(
        ["person 07", "person 00"], ["thing 3", "thing 19"], coverage=0.7
    )
    for name, ends in zip(("low", "high"), wanted, strict=True):
        np.testing.assert_allclose([float(lines[k][name]) for k in (0, 2)], ends, rtol=1e-6)
        assert lines[1][name] == ""
    refused = run("predict", model, folder / "ratings.csv", "--coverage", 0.7, code=1)
    assert "calibration" in refused.stderr and not refused.stdout


def test_similar_lists_what_the_model_finds(model):
    known = rankwise.load(model)
    for asked, axis, label in (((), "rows", "person 04"), (("--columns",), "columns", "thing 4")):
        labels, cosines = known.similar([label], 3, axis=axis)
        (one,) = json.loads(run("similar", model, label, "-n", 3, "--json", *asked).stdout)["labels"]
        assert [line["label"] for line in one["similar"]] == labels[0].tolist()
        np.testing.assert_allclose([line["cosine"] for line in one["similar"]], cosines[0], rtol=1e-6)
        shown = run("similar", model, label, "-n", 3, *asked).stdout
        assert f"{axis[:-1].capitalize()} {label}" in shown and str(labels[0][2]) in shown
    assert "no row 'thing 4'" in run("similar", model, "thing 4", code=1).stderr


def test_values_that_mean_missing_are_left_out(folder, tmp_path):
    text = (folder / "ratings.csv").read_text()
    (tmp_path / "gaps.csv").write_text(text + "".join(f"nobody {k},thing 1,-99\n" for k in range(400)))
    done = run("fit", tmp_path / "gaps.csv", *PURSUIT, "--missing", -99, "-o", tmp_path / "n")
    assert "left out 400 of" in done.stderr and rankwise.load(tmp_path / "n").shape == (30, 20)


def test_predictions_are_decoded_where_asked(model, folder, tmp_path):
    write(tmp_path / "pairs.csv", read_file(folder / "ratings.csv"))
    plain, clipped = (
        np.array(
            [float(line["prediction"]) for line in rows_of(run("predict", model, tmp_path / "pairs.csv", *how).stdout)]
        )
        for how in ((), ("--decode", "clip"))
    )
    targets = read_file(folder / "ratings.csv").targets
    np.testing.assert_allclose(clipped, np.clip(plain, targets.min(), targets.max()), rtol=1e-6)
    assert (clipped != plain).any()
    refused = run("predict", model, tmp_path / "pairs.csv", "--decode", "probability", code=1)
    assert "probability" in refused.stderr and "logistic" in refused.stderr and not refused.stdout


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_names_are_looked_up_once(model, folder, tmp_path, monkeypatch, command):
    sizes, positions = [], LabelIndex.positions

    def counted(index, wanted):
        sizes.append(len(wanted) if index.labels is not None else 0)
        return positions(index, wanted)

    monkeypatch.setattr(LabelIndex, "positions", counted)
    run(command, model, folder / "ratings.csv")
    assert sum(sizes) == 30 + 20  # different names, not entries


@pytest.mark.slow
def test_output_that_cannot_show_a_letter_escapes_it(tmp_path):
    (tmp_path / "t.csv").write_text("".join(f"Zoë{k % 5},é{k % 3},{k % 4}\n" for k in range(15)), encoding="utf-8")
    run("fit", tmp_path / "t.csv", "--method", "eglrl", "--loss", "square", "--rank", 1, "-o", tmp_path / "m")
    for words, letters in (
        (("predict", "m", "t.csv"), "Zo\\xeb1,\\xe91,"),
        (("recommend", "m", "Zoë1", "--include-seen"), "Row Zo\\xeb1"),
        (("recommend", "m", "--all", "--include-seen"), "Zo\\xeb1,1,\\xe9"),
    ):
        command = [sys.executable, "-m", "rankwise", *words]
        about = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "1"}
        done = subprocess.run(command, cwd=tmp_path, env=about, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 and letters in done.stdout, done.stderr


def test_recommend_gives_the_best_unseen_columns(model, folder):
    known, observations = rankwise.load(model), read_file(folder / "ratings.csv")
    dense, seen = known.to_dense(), observations.to_sparse().toarray() != 0
    found = json.loads(run("recommend", model, "person 04", "person 02", "-n", 4, "--json").stdout)["rows"]
    for one, row in zip(found, (4, 2), strict=True):
        scores = np.where(seen[row], -np.inf, dense[row])
        best = np.argsort(-scores)[:4]
        assert one["row"] == f"person {row:02d}"
        assert [column["column"] for column in one["columns"]] == known.col_labels[best].tolist()
        np.testing.assert_allclose([column["score"] for column in one["columns"]], scores[best], rtol=1e-5)
    (all_of_them,) = json.loads(run("recommend", model, "person 04", "--include-seen", "-n", 1, "--json").stdout)[
        "rows"
    ]
    assert all_of_them["columns"][0]["column"] == known.col_labels[np.argmax(dense[4])]


def test_recommend_for_all_writes_a_line_per_place(model, tmp_path):
    run("recommend", model, "--all", "-n", 30, "-o", tmp_path / "r.csv")
    lines, known = rows_of((tmp_path / "r.csv").read_text()), rankwise.load(model)
    n_unseen = known.shape[0] * known.shape[1] - known.seen.indices.size
    assert len(lines) == n_unseen and lines[0]["place"] == "1"  # all columns but the seen ones, 30 being more than all
    assert {line["row"] for line in lines} == set(known.row_labels.tolist())
    for n in (30, 10**12):  # the second is more than any memory holds
        assert run("recommend", model, "--all", "-n", n).stdout == (tmp_path / "r.csv").read_text()


def test_scores_of_values_in_any_unit_show_three_digits_or_more(folder, tmp_path):
    seen = read_file(folder / "ratings.csv")
    small = rankwise.Observations.from_labels(
        seen.row_labels[seen.rows], seen.col_labels[seen.cols], 1e-7 * seen.targets.astype(float)
    )
    write(tmp_path / "small.csv", small)
    target = tmp_path / "m"
    fitted = run("fit", tmp_path / "small.csv", "-o", target, "--held-out", 0.2, *PURSUIT).stdout
    scored = run("evaluate", target, tmp_path / "small.csv").stdout
    best = run("recommend", target, "person 04", "-n", 3).stdout
    for shown in (fitted, scored, best, run("info", target).stdout):
        assert "e-0" in shown and "0.000 " not in shown and "0.0000" not in shown
    assert [format_decimals(x) for x in (0.0, 0.8673, -12.34567, 0.00961, 3e12)] == [
        *("0.0000", "0.8673", "-12.3457", "0.00961", "3e+12")
    ]


def test_evaluate_gives_numpys_numbers_and_says_what_it_left_out(model, folder, tmp_path):
    observations, known = read_file(folder / "ratings.csv"), rankwise.load(model)
    write(tmp_path / "held.csv", observations, slice(10, 60))
    with open(tmp_path / "held.csv", "a") as file:
        file.write("nobody,thing 1,3\n")
    row, col, targets = (part[10:60] for part in (observations.rows, observations.cols, observations.targets))
    errors = known.to_dense()[row, col] - targets
    found = json.loads(run("evaluate", model, tmp_path / "held.csv", "--json").stdout)
    assert found["scores"]["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-6)
    assert (found["n_scored"], found["n_unknown"], found["rank"]) == (50, 1, 3)
    by_offset = known.offsets.constant + known.offsets.cols[known.col_labels.tolist().index("thing 1")] - 3
    found = json.loads(run("evaluate", model, tmp_path / "held.csv", "--json", "--unknown", "offset").stdout)
    assert found["scores"]["mae"] == pytest.approx(np.mean(np.abs([*errors, by_offset])), rel=1e-5)
    shown = run("evaluate", model, tmp_path / "held.csv", "--rank", 1).stdout
    assert "at rank 1 on 50 entries" in shown and "RMSE" in shown and "lower is better" in shown
    assert "1 entry with a row or column that the model has not seen: left out" in shown
    assert "line 52" in run("evaluate", model, tmp_path / "held.csv", "--unknown", "error", code=1).stderr


def test_evaluate_shows_what_offsets_and_a_constant_reach(model, folder, tmp_path):
    observations, known = read_file(folder / "ratings.csv"), rankwise.load(model)
    write(tmp_path / "held.csv", observations, slice(10, 60))
    row, col, targets = (part[10:60] for part in (observations.rows, observations.cols, observations.targets))
    found = json.loads(run("evaluate", model, tmp_path / "held.csv", "--json").stdout)["baselines"]
    errors = known.offsets.to_dense()[row, col] - targets
    assert found["offsets alone"]["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-6)
    assert found["constant"]["mean_loss"] <= known.loss.value(targets.mean(), targets).mean() + 1e-9
    assert found["constant"]["rmse"] == pytest.approx(np.std(targets), rel=0.02)
    shown = run("evaluate", model, tmp_path / "held.csv").stdout
    assert "offsets alone" in shown and f"{found['constant']['rmse']:.4f}" in shown


def test_scores_beyond_all_numbers_are_null_in_json(tmp_path):
    offsets = Offsets(1000.0, np.zeros(3), np.zeros(2))
    parts = np.ones((1, 1)), np.ones((3, 1)), np.ones((2, 1))
    save(rankwise.LowRankModel(*parts, offsets=offsets, loss=losses.Poisson(), link="log"), tmp_path / "m")
    (tmp_path / "held.csv").write_text("0,1,3\n2,0,1\n")

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    text = run("evaluate", tmp_path / "m", tmp_path / "held.csv", "--json").stdout
    assert set(json.loads(text, parse_constant=refuse)["scores"].values()) == {None}


def test_signs_are_scored_as_signs(folder, tmp_path):
    arguments = ("--method", "eglrl", "--loss", "logistic", "--rank", 2, "-o", tmp_path / "m")
    run("fit", folder / "signs.csv", *arguments)
    observations, model = read_file(folder / "signs.csv"), rankwise.load(tmp_path / "m")
    linked = model.to_dense()[observations.rows, observations.cols]
    scores = json.loads(run("evaluate", tmp_path / "m", folder / "signs.csv", "--json").stdout)["scores"]
    assert scores["accuracy"] == pytest.approx(np.mean(np.sign(linked) == observations.targets))
    assert scores["auc"] == pytest.approx(roc_auc_score(observations.targets, linked))
    assert scores["macro_f1"] == pytest.approx(f1_score(observations.targets, np.sign(linked), average="macro"))
    assert scores["mean_loss"] == pytest.approx(np.mean(np.log1p(np.exp(-linked * observations.targets))), rel=1e-6)
    (tmp_path / "p.csv").write_text("3,4\n1,1\n")
    log_odds = model.to_dense()[[2, 0], [3, 0]]
    for asked, wanted in (((), 1 / (1 + np.exp(-log_odds))), (("--scale", "link"), log_odds)):
        lines = rows_of(run("predict", tmp_path / "m", tmp_path / "p.csv", *asked).stdout)
        np.testing.assert_allclose([float(line["prediction"]) for line in lines], wanted, rtol=1e-6)


def test_0_and_1_are_fitted_and_scored_like_signs(folder, tmp_path):
    text = (folder / "signs.csv").read_text()
    (tmp_path / "ones.csv").write_text(text.replace(",-1.0", ",0").replace(",-1", ",0"))
    scores = []
    for name, file in (("m", folder / "signs.csv"), ("o", tmp_path / "ones.csv")):
        run("fit", file, "--method", "eglrl", "--rank", 2, "-o", tmp_path / name)
        scores.append(json.loads(run("evaluate", tmp_path / name, file, "--json").stdout)["scores"])
    assert scores[0] == scores[1] and set(scores[0]) == {"accuracy", "auc", "macro_f1", "mean_loss"}
    assert rankwise.load(tmp_path / "o").loss == losses.Bernoulli()


def test_labels_match_whether_a_file_writes_them_as_numbers_or_text(folder, tmp_path):
    (tmp_path / "t.csv").write_text("".join(f"{k % 5},{k % 3 if k % 3 else 'x'},{k % 4}\n" for k in range(15)))
    run("fit", tmp_path / "t.csv", "--method", "eglrl", "--loss", "square", "--rank", 1, "-o", tmp_path / "m")
    model = rankwise.load(tmp_path / "m")
    assert model.row_labels.dtype.kind == "i" and model.col_labels.dtype.kind == "U"
    (tmp_path / "p.csv").write_text("3,2\n4,1\n")  # numbers on both sides here
    found = rows_of(run("predict", tmp_path / "m", tmp_path / "p.csv").stdout)
    np.testing.assert_allclose(
        [float(line["prediction"]) for line in found], model.predict_entries([3, 4], ["2", "1"]), rtol=1e-6
    )
    (tmp_path / "p.csv").write_text("three,2\n")
    assert "no row three" in run("predict", tmp_path / "m", tmp_path / "p.csv", code=1).stderr
    assert "no row 'three'" in run("recommend", tmp_path / "m", "three", code=1).stderr


def test_info_says_all_that_matters(model, folder):
    shown = run("info", model).stdout
    for words in ("30 rows x 20 columns", "rank 3; ranks 0 to 3", "offsets and a low-rank part", "square"):
        assert words in shown
    assert (
        "the labels of its rows and columns, and the positions of the observed entries" in shown
        and "rankwise fit" in shown
    )
    found = json.loads(run("info", model, "--json").stdout)
    assert found["shape"] == [30, 20] and found["seen"] and found["labels"] == [True, True]
    assert found["facts"]["history"]["rank"] == [1, 2, 3] and found["bytes"] == model.stat().st_size


def test_info_shows_the_ranks_that_were_tried(folder, tmp_path):
    run("fit", folder / "ratings.csv", "--method", "eglrl", "--loss", "square", "-o", tmp_path / "m")
    shown = run("info", tmp_path / "m").stdout
    assert "Tried on held-out entries" in shown and "held-out loss" in shown
    assert (
        "choosing the rank on held-out entries"
        in run("fit", folder / "ratings.csv", "--method", "eglrl", "--loss", "square", "-o", tmp_path / "n").stderr
    )


def test_info_reads_models_without_a_loss(tmp_path):
    rankwise.LowRankModel(np.eye(1), np.ones((2, 1)), np.ones((3, 1))).save(tmp_path / "m.rankwise")
    shown = run("info", tmp_path / "m.rankwise").stdout
    assert "Loss:      not known" in shown and "rank" in shown


def record(step, **more):
    fields = dict.fromkeys(("sigma", "alignment", "gap"))
    return Record(
        step=step,
        rank=step,
        value=163_174.2,
        wall_seconds=step,
        cpu_seconds=step,
        **fields,
        **more,
        n_products=0,
        n_evaluations=0,
    )


def test_a_terminal_gets_a_bar_with_rank_objective_score_and_time():
    out = Console(file=io.StringIO(), force_terminal=True, width=80, markup=False, highlight=False)
    with progress.FitProgress(40, out=out) as watch:
        for step in (11, 12):
            assert watch(record(step, score=0.25)) is False
            time.sleep(0.3)  # the bar is drawn ten times a second
    text = out.file.getvalue()
    assert (
        "…" not in text
        and "step 12 of 40" in text
        and "rank 12, objective 163,174, held out 0.2500" in text
        and " left" in text
    )


def test_long_runs_without_a_terminal_are_not_told_step_by_step():
    out = Console(file=io.StringIO(), width=140)
    with progress.FitProgress(None, out=out) as watch:
        for step in range(1, 500):
            watch(record(step))
    assert 1 <= len(out.file.getvalue().splitlines()) < 10


def test_only_the_first_long_rehearsal_is_called_compiling(monkeypatch):
    logger, texts = logging.getLogger("rankwise"), []
    problem = rankwise.Problem(rankwise.Observations.from_coo([0], [0], [1.0]), "square")
    monkeypatch.setattr(loop, "SLOW_REHEARSAL", 0.1)
    loop._announce.cache_clear()
    for seconds in (0.0, 0.5, 0.5):
        monkeypatch.setattr(loop, "_rehearsed", set())
        monkeypatch.setattr(loop, "_run", lambda *args, seconds=seconds: time.sleep(seconds))
        out = Console(file=io.StringIO(), width=140)
        with progress.FitProgress(3, out=out):
            loop._rehearse(problem, solvers.AltMin())
            time.sleep(0.2)
        texts.append(out.file.getvalue())
    assert texts == ["", f"{loop.COMPILING}\n", ""]
    assert not logger.handlers or not any(isinstance(one, progress.FitProgress) for one in logger.handlers)


@pytest.mark.parametrize("collects", [True, False])
def test_a_rehearsal_leaves_the_garbage_collector_as_it_was(monkeypatch, collects):
    problem, seen = rankwise.Problem(rankwise.Observations.from_coo([0], [0], [1.0]), "square"), []
    monkeypatch.setattr(loop, "_rehearsed", set())
    monkeypatch.setattr(loop, "_run", lambda *args: seen.append(gc.isenabled()))
    before = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        loop._rehearse(problem, solvers.AltMin())
        assert (seen, gc.isenabled()) == ([False], collects)
    finally:
        (gc.enable if before else gc.disable)()


SLOW = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what a shell starts in the background
from rankwise.cli import main, progress
show = progress.FitProgress.__call__
def slowly(self, record):
    stop = show(self, record)
    time.sleep(0.0 if stop else 0.4)
    return stop or self.stopped
progress.FitProgress.__call__ = slowly
main(sys.argv[1:])
"""


def test_ctrl_c_keeps_the_model_so_far(folder, tmp_path):
    target, whole = tmp_path / "m.rankwise", tmp_path / "whole"
    arguments = ("fit", folder / "ratings.csv", "--method", "eglrl", "--loss", "square", "--rank", 19, "-o")
    command = [sys.executable, "-c", SLOW, *map(str, (*arguments, target))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        told = ""
        while "step 2" not in told and (line := process.stderr.readline()):
            told += line
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0 and "Stopped by Ctrl-C; the model so far is kept." in out, err
    assert "stopping after this step" in err and "Traceback" not in err
    kept = rankwise.load(target)
    assert 2 <= kept.rank <= 4
    run(*arguments, whole)
    np.testing.assert_array_equal(kept.to_dense(), rankwise.load(whole).to_dense(kept.rank))


@pytest.fixture
def interruptible():
    """SIGINT as in a program that a person started; pytest itself may run where it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_before_the_first_step_leaves_nothing(folder, tmp_path, monkeypatch, interruptible):
    def interrupted(*_, **__):
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("it went on")

    monkeypatch.setattr(rankwise.MatrixCompletion, "fit", interrupted)
    done = run("fit", folder / "ratings.csv", *PURSUIT, "-o", tmp_path / "m", code=130)
    assert done.stderr.splitlines()[-1] == "Stopped; nothing was written." and list(tmp_path.iterdir()) == []


def test_ctrl_c_tells_of_checkpoints_and_resume_goes_on_from_them(folder, tmp_path, monkeypatch, interruptible):
    show, kept = progress.FitProgress.__call__, tmp_path / "kept"

    def interrupted(watch, record):
        if record.step == 2:
            raise KeyboardInterrupt
        return show(watch, record)

    fit = ("fit", folder / "ratings.csv", *PURSUIT, "--checkpoint", kept, "--checkpoint-every", 1, "--resume", "-o")
    with monkeypatch.context() as patch:
        patch.setattr(progress.FitProgress, "__call__", interrupted)
        done = run(*fit, tmp_path / "m", code=130)
    told = f"Stopped; no model was written, but --resume continues from the checkpoint in {kept}."
    assert done.stderr.splitlines()[-1] == told and not (tmp_path / "m").exists()
    run(*fit, tmp_path / "m")
    assert rankwise.load(tmp_path / "m").rank == 3


def test_a_second_ctrl_c_stops_at_once(interruptible, capfd):
    with pytest.raises(KeyboardInterrupt), progress.FitProgress(9) as watch:
        assert watch(record(1)) is False
        signal.raise_signal(signal.SIGINT)
        assert watch(record(2)) is True
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert progress.STOPPING in capfd.readouterr().err


def test_the_methods_table_says_what_fits_what():
    found = json.loads(run("methods", "--json").stdout)
    assert found["methods"]["r1mp"]["losses"] == ["square"] and found["methods"]["admm"]["losses"] == ["l1"]
    assert found["methods"]["bayes"]["losses"] == list(losses.BY_NAME) == list(found["losses"])


def test_the_reference_names_every_command_and_exit_code():
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert not [name for name in main.commands if f"| `{name}" not in text]
    codes = [
        line.split()[0] for line in main.epilog.split("Exit codes:")[1].split("\b")[0].splitlines() if line.strip()
    ]
    assert codes == ["0", "1", "2", "130", "143"] and all(f"| {code} |" in text for code in codes)


def test_help_of_every_command_loads_nothing_heavy():
    source = """
import json, sys
from click.testing import CliRunner
from rankwise.cli import main
for name in main.commands:
    assert CliRunner().invoke(main, [name, "--help"]).exit_code == 0, name
print(json.dumps([name for name in ("numba", "sklearn", "scipy", "numpy", "rich", "pandas") if name in sys.modules]))
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(done.stdout) == []


@pytest.mark.parametrize(
    ("words", "offered"), [("--loss hu", "huber"), ("--method eg", "eglrl"), ("--held", "--held-out")]
)
def test_the_shell_completes_names(words, offered):
    typed = f"rankwise fit {words}"
    about = {"_RANKWISE_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    command = [sys.executable, "-c", "from rankwise.cli import main; main(prog_name='rankwise')"]
    done = subprocess.run(command, env=os.environ | about, capture_output=True, text=True, timeout=120)
    assert offered in done.stdout


def test_numbers_of_things_are_said_rightly():
    assert [plural(k, "entry") for k in (0, 1, 2000)] == ["0 entries", "1 entry", "2,000 entries"]
