"""The report's page before a browser sees it: what it holds, what it leaves out, what it refuses."""

import base64
import json
import os
import re
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from report_cases import HOSTILE, held_out_of, random_model

import rankwise as rw
from rankwise.cli import main
from rankwise.model import Offsets, save
from rankwise.report import compact, contents, write_report
from rankwise.report.compact import as_script
from rankwise.report.held_out import edges_of, match
from rankwise.selection import mean_absolute_error, root_mean_squared_error


def contents_in(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="contents">(.*?)</script>', text, re.S)[1])


def unpacked(text, kind):
    return np.frombuffer(base64.b64decode(text), kind)


def test_scores_and_examples_at_every_rank_are_those_of_numpy(tmp_path):
    model = random_model()
    held = held_out_of(model)
    write_report(model, tmp_path / "report.html", held)
    found = contents_in(tmp_path / "report.html")["ranks"]
    assert found["ranks"] == [0, 1, 2, 3, 4] and found["chosen"] == 4
    rmse, mae, loss = (score["values"] for score in found["scores"])
    for rank in found["ranks"]:
        dense = model.to_dense(rank)
        predicted = dense[held.rows, held.cols]
        assert rmse[rank] == pytest.approx(root_mean_squared_error(held.targets, predicted), rel=1e-5)
        assert mae[rank] == pytest.approx(mean_absolute_error(held.targets, predicted), rel=1e-5)
        assert loss[rank] == pytest.approx(0.5 * rmse[rank] ** 2, rel=1e-4)
        examples = found["examples"]
        places = tuple(np.array(examples[side], int) for side in ("rows", "cols"))
        np.testing.assert_allclose(examples["predicted"][rank], dense[places], rtol=1e-5)


def test_the_embedded_model_predicts_like_the_model_at_every_rank():
    model = random_model((40, 25), 5)
    names = [str(k) for k in range(40)], [str(k) for k in range(25)]
    found = compact.embed(model, *names)
    U, V = (
        unpacked(found[side]["numbers"], "<i2").reshape(-1, 5) * np.array(found[side]["steps"]) for side in ("U", "V")
    )
    path = unpacked(found["path"], "<f4").reshape(5, 5)
    offsets = unpacked(found["row_offsets"], "<f4")[:, None] + unpacked(found["col_offsets"], "<f4")
    for rank in range(1, 6):
        dense = (U[:, :rank] * path[rank - 1, :rank]) @ V[:, :rank].T + found["constant"] + offsets
        np.testing.assert_allclose(dense, model.to_dense(rank), atol=1e-3)


def test_the_embedded_seen_entries_are_the_models():
    model = random_model()
    found = compact.embed(model, [str(k) for k in range(30)], [str(k) for k in range(20)])
    np.testing.assert_array_equal(unpacked(found["seen"]["places"], "<u2"), model.seen.indices)
    np.testing.assert_array_equal(np.cumsum(unpacked(found["seen"]["counts"], "<u4")), model.seen.indptr[1:])


@pytest.mark.parametrize("budget", [100, 700, 1500, 10_000])
def test_a_small_budget_keeps_the_most_active(budget):
    model = random_model((60, 50), 3)
    found = compact.embed(model, [str(k) for k in range(60)], [str(k) for k in range(50)], budget)
    for side, counts in zip(("rows", "cols"), compact.seen_counts(model), strict=True):
        kept = np.array(found[side], int)
        left_out = np.setdiff1d(np.arange(counts.size), kept)
        assert np.all(np.diff(kept) > 0)
        assert not left_out.size or counts[left_out].max() <= counts[kept].min()
    heavy = [found[side]["numbers"] for side in ("U", "V")] + [*found["seen"].values()]
    assert sum(map(len, heavy)) <= 4 / 3 * max(budget, 300) + 16
    assert unpacked(found["seen"]["places"], "<u2").max(initial=0) < len(found["cols"])


@given(st.text())
def test_no_text_breaks_out_of_the_script(text):
    script = as_script({"label": text, text: [text]})
    assert json.loads(script) == {"label": text, text: [text]}
    assert script.isascii() and not set("<>&") & set(script)


@pytest.mark.parametrize("label", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_label_changes_nothing_outside_the_data(label, tmp_path):
    names = np.array([label, *(f"row {k}" for k in range(29))], object)
    labels = names, np.array([f"{label} {k}" for k in range(20)], object)
    write_report(random_model(labels=labels), tmp_path / "hostile.html")
    write_report(random_model(), tmp_path / "tame.html")
    hostile, tame = (
        re.sub(r'id="contents">.*?</script>', "", (tmp_path / name).read_text(encoding="utf-8"), flags=re.S)
        for name in ("hostile.html", "tame.html")
    )
    assert hostile == tame
    assert label in contents_in(tmp_path / "hostile.html")["model"]["rows"]


@pytest.mark.parametrize("sign", ["漢", "<", "😀", '"'])
def test_the_budget_counts_bytes_as_the_page_has_them(sign):
    model = random_model((60, 50), 3)
    names = [sign * 20 + str(k) for k in range(60)]
    whole = compact.embed(model, names, names[:50])
    found = compact.embed(model, names, names[:50], 8000)
    assert len(whole["rows"]) == 60 and 1 < len(found["rows"]) < 60
    frame = len(as_script(found | {"rows": [], "cols": [], "U": "", "V": "", "seen": ""}))
    assert len(as_script(found)) <= 4 / 3 * 8000 + frame + 300


def test_labels_are_left_out_if_asked_for(tmp_path):
    names = np.array([f"Zaphod {k}" for k in range(30)]), np.array([f"film {k}" for k in range(20)])
    model = random_model(labels=names)
    write_report(model, tmp_path / "named.html", held_out_of(model))
    write_report(model, tmp_path / "bare.html", held_out_of(model), labels=False)
    named, bare = ((tmp_path / f"{name}.html").read_text(encoding="utf-8") for name in ("named", "bare"))
    assert "Zaphod 7" in named and "film 7" in named
    assert "Zaphod" not in bare and "film" not in bare
    one, other = (contents_in(tmp_path / f"{name}.html")["ranks"]["scores"] for name in ("named", "bare"))
    assert one == other  # the held-out entries still find their rows


def test_nothing_is_overwritten_unless_forced(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("mine")
    with pytest.raises(rw.SettingError, match="--force"):
        write_report(random_model(), path)
    assert path.read_text() == "mine"
    write_report(random_model(), path, force=True)
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_what_is_no_file_is_not_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name, words in (("folder", "is a folder; name a file in it"), ("pipe", "a pipe.*choose another name")):
        with pytest.raises(rw.DataError, match=words):
            write_report(random_model(), tmp_path / name, force=True)
        with pytest.raises(rw.DataError, match=words):
            save(random_model(), tmp_path / name)
    assert (tmp_path / "pipe").is_fifo() and len(list(tmp_path.iterdir())) == 2


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(rw.SettingError, match="no folder"):
        write_report(random_model(), tmp_path / "nowhere" / "report.html")


def test_a_model_gives_the_same_page_again(tmp_path):
    model = random_model()
    for name in ("one", "two"):
        write_report(model, tmp_path / name, held_out_of(model))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_entries_of_unknown_rows_are_left_out_and_counted():
    names = np.array([f"r{k}" for k in range(30)]), np.array([f"c{k}" for k in range(20)])
    model = random_model(labels=names)
    held = rw.Observations.from_labels(["r3", "stranger", "r4"], ["c1", "c2", "nothing"], [1.0, 2.0, 3.0])
    found = match(model, held)
    assert (found.rows.tolist(), found.cols.tolist(), found.n_unknown) == ([3], [1], 2)


def test_entries_on_disk_are_refused_in_a_sentence(tmp_path):
    model = random_model()
    folder = rw.write_shards([([0, 1], [0, 1], [1.0, 2.0])], tmp_path / "shards", shape=model.shape)
    with pytest.raises(rw.SettingError, match=r"requires the entries in memory, and these are in a ShardFolder: give"):
        write_report(model, tmp_path / "report.html", rw.ShardFolder(folder))
    assert not (tmp_path / "report.html").exists()


def test_numbers_and_their_text_are_the_same_names():
    names = np.arange(100, 130), np.arange(200, 220)
    held = rw.Observations.from_labels(["105", "130 and more"], ["203", "204"], [1.0, 2.0])
    found = match(random_model(labels=names), held)
    assert (found.rows.tolist(), found.cols.tolist(), found.n_unknown) == ([5], [3], 1)


def test_held_out_entries_that_were_learned_from_are_told(tmp_path):
    model = random_model()
    rows = np.repeat(np.arange(30), np.diff(model.seen.indptr.astype(int)))
    seen = rw.Observations.from_coo(rows, model.seen.indices, np.ones(rows.size), model.shape)
    assert match(model, seen).n_seen == rows.size
    assert match(model, held_out_of(model)).n_seen == 0
    write_report(model, tmp_path / "report.html", seen)
    assert "too good" in dict(contents_in(tmp_path / "report.html")["about"])["Scored on"]


@pytest.mark.parametrize("name", ["logistic", "hinge", "poisson", "l1"])
def test_every_kind_of_targets_has_its_scores_and_its_residuals(name):
    loss = rw.losses.get(name)
    model = replace(random_model(), loss=loss, link=loss.link)
    held = held_out_of(random_model())
    signs, of_signs = np.sign(held.targets - 3), name in ("logistic", "hinge")
    targets = {"logistic": signs, "hinge": signs, "poisson": held.targets.round()}
    held = rw.Observations.from_coo(held.rows, held.cols, targets.get(name, held.targets), model.shape)
    found = contents.contents_of(model, match(model, held), [])
    titles = {score["title"] for score in found["ranks"]["scores"]}
    assert ("accuracy" in titles) == of_signs and ("RMSE" in titles) == (not of_signs)
    linked = model.to_dense()[held.rows, held.cols]
    far = {"poisson": np.exp(linked) - held.targets, "l1": linked - held.targets}.get(name, linked * held.targets)
    np.testing.assert_allclose(np.array(found["residuals"]["edges"])[[0, -1]], [far.min(), far.max()], rtol=1e-5)
    assert (found["reliability"] is not None) == (name == "logistic")


ULP = np.nextafter(3.0, 4.0)
HUGE = np.finfo(np.float64).max
NARROW = {
    "one ulp apart": [3.0, ULP, ULP],
    "one ulp apart below zero": [-3.0, -ULP],
    "zeros": [0.0, 0.0],
    "the smallest": [0.0, 5e-324],
    "all the same": [0.1] * 100,
    "the largest there is": [HUGE] * 30,
    "six digits the same": [1e6, 1e6 + 1e-3],
    "wide": [-2.0, 5.0, 1.0],
}


@pytest.mark.parametrize("numbers", NARROW.values(), ids=NARROW)
def test_a_histogram_counts_all_numbers_in_bins_that_six_digits_tell_apart(numbers):
    edges = edges_of(np.array(numbers))
    assert 6 <= edges.size <= 41 and np.all(np.isfinite(edges))
    assert np.all(np.diff(contents.short(edges)) > 0)
    assert np.histogram(numbers, edges)[0].sum() == len(numbers)


def test_offsets_that_differ_by_one_bit_have_a_page(tmp_path):
    rows = np.where(np.arange(30) % 2, 3.0, ULP)
    write_report(replace(random_model(), offsets=Offsets(0.0, rows, np.zeros(20))), tmp_path / "report.html")
    (found,) = contents_in(tmp_path / "report.html")["offsets"]
    assert sum(found["counts"]) == 30


def test_predictions_beyond_all_numbers_have_a_page(tmp_path):
    offsets = Offsets(1000.0, np.zeros(30), np.zeros(20))
    model = replace(random_model(), loss=rw.losses.Poisson(), link="log", offsets=offsets)
    held = rw.Observations.from_coo([0, 1, 2], [0, 1, 2], [1.0, 2.0, 3.0], model.shape)
    write_report(model, tmp_path / "report.html", held)
    found = contents_in(tmp_path / "report.html")
    assert sum(found["residuals"]["counts"]) == 3 and found["ranks"]["scores"][0]["values"] == [None] * 5


def test_components_name_the_strongest_and_multiply_to_what_they_add():
    model = random_model()
    found = contents.contents_of(model, None, [])["components"]
    for k, component in enumerate(found):
        rows, cols = (np.array(component[side]["names"], int) for side in ("rows", "cols"))
        assert set(rows) == set(np.argsort(-np.abs(model.U[:, k]))[: rows.size])
        added = np.outer(component["rows"]["numbers"], component["cols"]["numbers"])
        np.testing.assert_allclose(added, model.theta[k] * np.outer(model.U[rows, k], model.V[cols, k]), rtol=1e-4)


def test_the_way_to_get_it_again_is_told(tmp_path):
    facts = {"estimator": "MatrixCompletion", "settings": {"loss": "Huber(delta=0.5)", "refine": "factors", "rank": 4}}
    write_report(random_model(facts=facts), tmp_path / "a.html", command="rankwise report m -o a.html")
    assert contents_in(tmp_path / "a.html")["commands"] == [
        "rankwise.MatrixCompletion(loss=Huber(delta=0.5), refine='factors', rank=4).fit(X)",
        "rankwise report m -o a.html",
    ]
    write_report(random_model(facts=facts | {"command": "rankwise fit x.csv"}), tmp_path / "b.html")
    assert contents_in(tmp_path / "b.html")["commands"] == ["rankwise fit x.csv"]


def test_the_page_asks_for_nothing_outside_itself(tmp_path):
    write_report(random_model(), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?!data:)\w""", text)
    assert "default-src 'none'" in text and "Leon Sorokin" in text


@pytest.fixture
def command(tmp_path, monkeypatch):
    """A folder with a saved model and a file of held-out entries, and a way to run `rankwise report` there."""
    monkeypatch.chdir(tmp_path)
    model = random_model(labels=(np.array([f"Zaphod {k}" for k in range(30)]), np.arange(100, 120)))
    save(model, "m.rankwise")
    held = held_out_of(model)
    lines = zip(model.row_labels[held.rows], model.col_labels[held.cols], held.targets, strict=True)
    text = "".join(f"{row},{col},{value}\n" for row, col, value in lines)
    (tmp_path / "held.csv").write_text("who,what,stars\n" + text)
    return lambda *words: CliRunner().invoke(main, ["report", *words], prog_name="rankwise")


def test_the_command_writes_the_page_and_says_where(command, tmp_path):
    done = command("m.rankwise", "--data", "held.csv", "-o", "out.html", "--row", "who", "--col", "what")
    assert done.exit_code == 0, done.output
    assert "out.html" in done.stdout
    found = contents_in(tmp_path / "out.html")
    told = "rankwise report m.rankwise --data held.csv --output out.html --row who --col what"
    assert found["commands"] == [told]
    assert [score["title"] for score in found["ranks"]["scores"]] == ["RMSE", "MAE", "mean loss"]
    assert found["ranks"]["examples"]["rows"][0].startswith("Zaphod")


def test_the_command_leaves_labels_out_and_overwrites_only_if_told(command, tmp_path):
    assert command("m.rankwise", "--no-labels").exit_code == 0
    before = (tmp_path / "m.html").read_text(encoding="utf-8")
    assert "Zaphod" not in before
    again = command("m.rankwise")
    assert again.exit_code == 1 and "--force" in again.stderr and len(again.stderr.splitlines()) == 1
    assert (tmp_path / "m.html").read_text(encoding="utf-8") == before
    assert command("m.rankwise", "--force").exit_code == 0
    assert "Zaphod" in (tmp_path / "m.html").read_text(encoding="utf-8")


def test_scores_weigh_all_entries_alike_so_no_weight_is_taken(command):
    for name in ("report", "evaluate", "predict"):
        assert "--weight" not in CliRunner().invoke(main, [name, "--help"]).output
    done = command("m.rankwise", "--data", "held.csv", "--weight", "stars")
    assert done.exit_code == 2 and "--weight" in done.stderr


def test_repeats_are_merged_by_the_command_if_told(command, tmp_path):
    (tmp_path / "twice.csv").write_text("who,what,stars\nZaphod 1,101,2\nZaphod 1,101,4\nZaphod 2,103,3\n")
    assert command("m.rankwise", "--data", "twice.csv").exit_code == 1
    done = command("m.rankwise", "--data", "twice.csv", "--duplicates", "mean")
    assert done.exit_code == 0, done.output
    assert contents_in(tmp_path / "m.html")["ranks"]["examples"]["targets"] == [3.0, 3.0]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nothing.rankwise"], "no model file"),
        (["held.csv"], "not a rankwise model"),
        (["m.rankwise", "--data", "nothing.csv"], "nothing.csv"),
        (["m.rankwise", "-o", "nowhere/x.html"], "nowhere"),
        (["m.rankwise", "-o", ".", "--force"], "is a folder; name a file in it"),
    ],
)
def test_the_command_refuses_in_one_line(command, words, told):
    done = command(*words)
    assert done.exit_code == 1 and told in done.stderr and len(done.stderr.splitlines()) == 1


def test_fit_evaluate_and_report_score_a_row_without_entries_alike(tmp_path, monkeypatch):
    """Entries of a row and a column that are known by their labels only."""
    monkeypatch.chdir(tmp_path)
    seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    test = (seen.rows == 3) | (seen.cols == 7) | (np.arange(seen.n_observed) % 9 == 0)
    for name, some in (("train", ~test), ("test", test)):
        table = np.column_stack((seen.rows[some], seen.cols[some], seen.targets[some]))
        np.savetxt(f"{name}.csv", table, "%d,%d,%.6f", header="user,item,rating", comments="")
    call = CliRunner().invoke
    fitted = json.loads(call(main, ["fit", "train.csv", "--held-out", "test.csv", "-o", "m", "--json"]).stdout)
    args = ["evaluate", "m", "test.csv", "--json", "--unknown", "skip"]
    scores = json.loads(call(main, args).stdout)["scores"]
    assert call(main, ["report", "m", "--data", "test.csv", "-o", "m.html"]).exit_code == 0
    shown = {each["title"]: each["values"][-1] for each in contents_in(tmp_path / "m.html")["ranks"]["scores"]}
    assert [scores["rmse"], scores["mae"]] == pytest.approx([shown["RMSE"], shown["MAE"]], rel=1e-5)
    assert fitted["held_out"] == pytest.approx(scores, rel=1e-6)
