"""Experiments: files that mean what they say, a runner that can be killed, tables whose numbers are right."""

import csv
import io
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from importlib.resources import files

import numpy as np
import pytest
from experiment_cases import METHODS, load, tiny
from helpers import ROOT
from scipy.stats import ttest_rel

from rankwise import Problem, datasets, experiments, report, selection, solvers
from rankwise._errors import DataError, SettingError
from rankwise._version import __version__
from rankwise.experiments import Data, Method, Printed, Split, Store, available, run, summarise
from rankwise.experiments.fit import Part, parts, standardised
from rankwise.report import figures

# Tables 2 and 4 of the paper, as its source has them.
LATEX = {
    "table2": (
        ("epinions", "slashdot"),
        {
            "ais-impute": r"AIS-Impute     & 93.3$\pm$0.1          & 84.2$\pm$0.1          \\ \hline",
            "altmin": r"AltMin       & 93.5$\pm$0.1          & \textbf{84.9$\pm$0.1} \\ \hline",
            "glrl-none": r"GLRL w/o coef upd & 92.4$\pm$0.1          & 82.6$\pm$0.3          \\ \hline",
            "glrl": r"GLRL        & \textbf{93.6$\pm$0.1} & 84.1$\pm$0.4          \\ \hline",
            "eglrl": r"EGLRL       & \textbf{93.6$\pm$0.1} & 84.4$\pm$0.3          \\ \hline",
        },
    ),
    "table4": (
        ("movielens-100k", "movielens-1m", "movielens-10m"),
        {
            "admm": r"ADMM  & \textbf{0.717$\pm$0.004} & ---                      & ---                      \\ \hline",
            "wiberg": r"Wiberg & 0.726$\pm$0.001       & 0.728$\pm$0.006         & 0.715$\pm$0.005        \\ \hline",
            "glrl-literal": r"GLRL  & 0.724$\pm$0.004  & \textbf{0.694$\pm$0.001} & \textbf{0.683$\pm$0.001} \\ \hline",
            "glrl-nonsmooth": r"GLRL & 0.724$\pm$0.004 & \textbf{0.694$\pm$0.001} & \textbf{0.683$\pm$0.001} \\ \hline",
        },
    ),
}
EVERY = pytest.mark.parametrize("name", ["table2", "table4"])


def without_times(summary):
    """All that a table says, less seconds."""
    names = report.columns(summary)
    kept = [k for k, name in enumerate(names) if not name.endswith(" s")]
    return {data: [[row[k] for k in kept] for row in report.cells(summary, data)] for data in summary.rows}


def lines_of(store):
    return [json.loads(line) for line in store.path.read_text().splitlines()]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """An uninterrupted run and its store."""
    store = Store(tmp_path_factory.mktemp("run") / "results.jsonl")
    run(tiny(), store, load=load)
    return tiny(), store


# --- the files


def printed(cell):
    """Numbers of a LaTeX cell, None for a dash."""
    found = re.fullmatch(r"(\\textbf\{)?([\d.]+)\$\\pm\$([\d.]+)\}?", cell.strip())
    return None if found is None else Printed(float(found[2]), float(found[3]), found[1] is not None)


@EVERY
def test_the_paper_s_numbers_are_those_of_its_source(name):
    data, rows = LATEX[name]
    methods = available()[name].methods
    assert [method.name for method in methods if method.paper] == list(rows)
    for method in methods[: len(rows)]:
        cells = rows[method.name].partition(r"\\")[0].split("&")[1:]
        assert len(cells) == len(data)
        assert dict(method.paper) == {
            where: found for where, cell in zip(data, cells, strict=True) if (found := printed(cell))
        }


@EVERY
def test_the_files_name_methods_and_data_that_exist(name):
    experiment = available()[name]
    for data in experiment.data:
        assert data.name in datasets.SOURCES
    for method in experiment.methods:
        for data in experiment.data:
            given = method.settings_on(data.name)
            filled = {
                key: 1.0 if isinstance(value, str) and key not in ("step", "refine", "program") else value
                for key, value in given.items()
            }
            assert isinstance(solvers.get(method.build(filled)), solvers.Solver)
        assert set(method.paper) <= {data.name for data in experiment.data}


def test_the_files_have_the_paper_s_setting():
    link, ratings = available()["table2"], available()["table4"]
    assert (link.split.kind, link.split.parts, link.loss) == ("folds", 10, "logistic")
    assert [data.rank for data in link.data] == [40, 40]
    assert (ratings.split.kind, ratings.split.parts, ratings.split.held_out, ratings.loss) == ("random", 5, 0.5, "l1")
    assert [data.rank for data in ratings.data] == [10, 10, 20]
    assert link.time_limit == ratings.time_limit == 1000
    assert link.quickened().used == 1 and len(link.quickened().data) == 2
    assert [bool(method.paper) for method in link.quickened().methods] == [True] * 5 + [False] * 5  # ours comes last
    assert ratings.on("movielens-1m").quickened().data[0].name == "movielens-1m"


def test_the_digest_changes_with_what_decides_a_result():
    base = tiny()
    others = [
        tiny(loss="square"),
        tiny(standardise=True),
        tiny(split=Split("folds", 4)),
        tiny(split=Split("folds", 3, seed=1)),
    ]
    digests = [one.digest(base.data[0], METHODS[2]) for one in (base, *others)]
    digests.append(base.digest(replace(base.data[0], rank=4), METHODS[2]))
    digests.append(base.digest(base.data[0], replace(METHODS[2], settings={"nuclear_weight": 2.0})))
    assert len(set(digests)) == len(digests)
    assert tiny(used=1, time_limit=3.0).digest(base.data[0], METHODS[2]) == digests[0]


@pytest.mark.parametrize(
    ("change", "damaged", "words"),
    [
        ('loss = "logistic"', "", "missing .* 'loss'"),
        ('scores = ["accuracy", "auc", "macro-f1"]', "", "lacks the entry 'scores'"),
        ('scores = ["accuracy", "auc", "macro-f1"]', 'scores = ["speed"]', "every score must be"),
        ('kind = "folds"', "kid = 1", "unexpected keyword argument 'kid'"),
        ('kind = "folds"', 'kind = "halves"', "kind of a split must be 'folds' or 'random'"),
        ('method = "eglrl"', "", "either a method or a solver"),
        ('method = "eglrl"', 'method = "eglr"', "`method` must be one of .* got 'eglr'"),
        ('method = "eglrl"', 'method = "eglrl"\nsettings = { refine = "none" }', "must name a solver"),
        ('solver = "AISImpute"', 'solver = "AIS"', "unknown solver 'AIS'"),
        ('name = "eglrl"', 'name = "glrl"', "two methods have the same name"),
    ],
)
def test_a_damaged_file_is_refused_in_one_sentence(tmp_path, change, damaged, words):
    text = (files("rankwise.experiments") / "table2.toml").read_text()
    assert text.count(change) == 1
    (tmp_path / "mine.toml").write_text(text.replace(change, damaged))
    with pytest.raises(SettingError, match=words) as error:
        experiments.read(tmp_path / "mine.toml")
    assert "\n" not in str(error.value)


def test_unknown_names_are_refused_in_one_sentence(tmp_path):
    with pytest.raises(SettingError, match="use one of 'table2', 'table4', 'figure1', 'figure2', 'all'"):
        experiments.find("table9")
    with pytest.raises(SettingError, match="use 'epinions' or 'slashdot'"):
        experiments.find("figure1").on("netflix")
    with pytest.raises(SettingError, match="10 splits"):
        experiments.find("table2").first(11)
    with pytest.raises(SettingError, match="cannot be read"):
        experiments.read(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("= 3")
    with pytest.raises(SettingError, match="is not TOML"):
        experiments.read(tmp_path / "bad.toml")


# --- one fit


def test_splits_are_standardised_by_the_training_half():
    observations = datasets.ratings(30, 20, rank=2, density=0.4).observations
    experiment = tiny(standardise=True, split=Split("random", 2, 0.5, seed=3), used=2)
    for part, seed in zip(parts(experiment, observations), (3, 4), strict=True):
        train, held_out = experiments.fit.selection.split_entries(observations, 0.5, seed)
        mean, unit = train.targets.mean(dtype=float), train.targets.std(dtype=float)
        np.testing.assert_allclose(part.train.targets, (train.targets - mean) / unit, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(part.held_out.targets, (held_out.targets - mean) / unit, rtol=1e-5, atol=1e-6)
        assert part.unit == pytest.approx(unit)


def test_scores_in_stars_undo_the_standardising():
    observations = datasets.ratings(30, 20, rank=2, density=0.4).observations
    train, held_out = experiments.fit.selection.split_entries(observations, 0.5, 0)
    part = standardised(Part(0, train, held_out))
    zero = np.zeros(held_out.n_observed)
    stars = experiments.SCORES["mabs-stars"](part.held_out.targets, zero, part.unit)
    assert stars == pytest.approx(np.abs(held_out.targets - train.targets.mean()).mean(), rel=1e-5)


def test_the_curve_ends_at_the_table_s_score(finished):
    experiment, store = finished
    for method in experiment.methods[:2]:
        first, *others = store.find("fit", "tiny", method.name, experiment.digest(experiment.data[0], method))
        assert first["curve"]["testing"][-1] == pytest.approx(first["scores"]["accuracy"], abs=1e-9)
        assert 2 <= len(first["curve"]["cpu"]) <= first["steps"] and np.all(np.diff(first["curve"]["wall"]) > 0)
        assert first["curve"]["training"][-1] > 50
        assert not any("curve" in line for line in others)


def test_a_searched_radius_is_the_nuclear_norm_of_the_solution_at_the_searched_weight(tmp_path):
    settings = {"nuclear_weight": "search"}, {"radius": "search"}
    methods = Method("ais", "AIS", "", "AISImpute", settings[0]), Method("fw", "FW", "", "FrankWolfe", settings[1])
    store = Store(tmp_path / "results.jsonl")
    run(tiny(methods=methods).first(1), store, load=load)
    searches = [line for line in store.lines if line["kind"] == "search"]
    (train, _) = next(selection.folds(load("tiny"), 3, 0))
    problem = Problem(train, "logistic")
    solution = solvers.solve(problem, solvers.AISImpute(searches[0]["nuclear_weight"]), tol=1e-7).model
    assert searches[1]["radius"] == searches[0]["radius"] == pytest.approx(solution.theta.sum(), rel=0.03)
    assert [line["status"] for line in store.lines if line["kind"] == "fit"] == ["done", "done"]


def test_the_nuclear_weight_is_searched_once_and_its_seconds_are_apart(finished):
    experiment, store = finished
    (search,) = [line for line in store.lines if line["kind"] == "search"]
    fits = [line for line in store.lines if line["kind"] == "fit" and line["method"] == "ais-impute"]
    assert search["split"] == 0 and search["nuclear_weight"] > 0 and len(fits) == 3
    row = summarise(experiment, store).rows["tiny"][2]
    assert row.search_seconds == search["wall_seconds"]
    assert row.wall_seconds.mean == pytest.approx(np.mean([line["wall_seconds"] for line in fits]))
    assert fits[0]["rank"] <= experiment.data[0].rank + 2


# --- the runner


KILLED = """
import sys, time
sys.path.insert(0, {tests!r})
from experiment_cases import load, tiny
from rankwise.experiments import Store, run
run(tiny(), Store({path!r}), load=load, report=lambda event: time.sleep(0.3))
"""


@pytest.mark.slow
@pytest.mark.parametrize("half", [b"", b'{"kind": "fit", "data": "ti'], ids=["whole", "half-written"])
def test_a_killed_run_continues_and_ends_in_the_same_table(finished, tmp_path, half):
    path = tmp_path / "results.jsonl"
    source = KILLED.format(tests=str(ROOT / "tests"), path=str(path))
    process = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 300  # kernels may have to be compiled
    while not (path.exists() and path.read_bytes().count(b"\n") >= 3) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    with path.open("ab") as file:
        file.write(half)
    before = path.read_bytes().count(b"\n")
    assert 3 <= before < 10
    store, events = Store(path), []
    run(tiny(), store, load=load, report=events.append)
    assert without_times(summarise(tiny(), store)) == without_times(summarise(*finished))
    assert len(lines_of(store)) == len(lines_of(finished[1])) == 10  # nine fits and a search, none made twice
    assert sum(event.kind == "done" for event in events) < 9


def test_a_finished_run_does_nothing_again_and_does_not_load(finished):
    experiment, store = finished
    before = store.path.read_bytes()
    run(experiment, Store(store.path), load=lambda name: pytest.fail("loaded"))
    assert store.path.read_bytes() == before


def test_results_of_other_settings_are_not_reused(finished):
    experiment, store = finished
    other = replace(experiment, split=Split("folds", 3, seed=1))
    assert not summarise(other, store).rows
    assert [data.name for data in summarise(other, store).missing] == ["tiny"]


def test_one_more_score_means_that_the_fits_are_made_again(tmp_path):
    fewer, store = tiny(scores=("accuracy",), methods=METHODS[:2], used=1), Store(tmp_path / "r.jsonl")
    run(fewer, store, load=load)
    more = replace(fewer, scores=("accuracy", "auc"))
    assert not summarise(more, store).rows
    run(more, store, load=load)
    for row, line in zip(summarise(more, store).rows["tiny"], lines_of(store)[2:], strict=True):
        assert {name: score.mean for name, score in row.scores.items()} == line["scores"]
        assert list(row.scores) == ["accuracy", "auc"]
    before = store.path.read_bytes()
    for experiment in (fewer, more):
        run(experiment, Store(store.path), load=lambda name: pytest.fail("loaded"))
    assert store.path.read_bytes() == before


def test_lines_that_are_not_json_are_passed_over(tmp_path):
    (tmp_path / "r.jsonl").write_bytes(b'{"a": 1}\nnot json\n[1]\n{"b": 2}\n{"c"')
    store = Store(tmp_path / "r.jsonl")
    assert store.lines == [{"a": 1}, {"b": 2}]
    store.append({"d": 4})
    assert (tmp_path / "r.jsonl").read_bytes().endswith(b'{"b": 2}\n{"d": 4}\n')


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SettingError, match="choose another"):
        Store(tmp_path / "file" / "results.jsonl")


def test_a_time_out_is_a_dash_for_the_other_splits_until_the_limit_is_longer(tmp_path):
    store, events = Store(tmp_path / "r.jsonl"), []
    slow = tiny(time_limit=1e-9, methods=METHODS[:2])
    run(slow, store, load=load, report=events.append)
    assert [line["split"] for line in store.lines] == [0, 0]
    assert events[-1].kind == "time" and events[-1].done == events[-1].total == 6
    summary = summarise(slow, store)
    (row, _) = report.cells(summary, "tiny")
    assert (
        row[1] == report.experiment_results.DASH
        and row[2] == "93.6 ± 0.1*"
        and row[-1] == report.experiment_results.DASH
    )
    assert report.footnotes(summary)[0] == "EGLRL did not end within 1e-09 s on Tiny."
    run(slow, store, load=lambda name: pytest.fail("loaded"))
    assert len(report.experiment_results.curves_on(slow, slow.data[0], store)) == 2  # one step was made, and is drawn
    patient = tiny(methods=METHODS[:2])
    run(patient, store, load=load)
    assert len(store.lines) == 2 + 6 and all(row.splits == 3 for row in summarise(patient, store).rows["tiny"])


def test_a_method_that_fails_is_a_dash_and_stops_no_other(tmp_path, monkeypatch):
    store, events = Store(tmp_path / "r.jsonl"), []
    broken = Method("wiberg", "Wiberg", method="wiberg")  # refuses the logistic loss
    experiment = tiny(methods=(broken, METHODS[0]))
    run(experiment, store, load=load, report=events.append)
    summary = summarise(experiment, store)
    wiberg, eglrl = summary.rows["tiny"]
    assert not wiberg.scores and eglrl.splits == 3
    assert len(wiberg.notes) == 1 and wiberg.notes[0].startswith("Wiberg on Tiny: ") and "l1" in wiberg.notes[0]
    assert [event.kind for event in events].count("failed") == 1
    run(experiment, store, load=load)  # a failure is tried again, what is done is not
    assert [line["method"] for line in store.lines].count("wiberg") == 2 and len(store.lines) == 5


def test_an_unforeseen_error_does_not_end_the_run(tmp_path, monkeypatch):
    def crash(*_):
        raise FloatingPointError("overflow")

    monkeypatch.setattr(solvers.AISImpute, "step", crash)
    store = Store(tmp_path / "r.jsonl")
    experiment = tiny(methods=(replace(METHODS[2], settings={"nuclear_weight": 2.0}), METHODS[0]))
    run(experiment, store, load=load)
    ais, eglrl = summarise(experiment, store).rows["tiny"]
    assert ais.notes == ("AIS-Impute on Tiny: FloatingPointError: overflow",) and eglrl.splits == 3


def test_a_missing_data_set_is_left_out_with_a_sentence(tmp_path):
    store, events = Store(tmp_path / "r.jsonl"), []
    experiment = tiny(data=(Data("nothing", "Nothing", 3), Data("tiny", "Tiny", 3)), methods=METHODS[:1])
    run(experiment, store, load=load, report=events.append)
    assert events[0].kind == "left-out" and events[0].message == "There is no file of nothing."
    summary = summarise(experiment, store)
    assert list(summary.rows) == ["tiny"] and any("Nothing is left out" in line for line in report.remarks(summary))
    with pytest.raises(DataError, match="no file"):
        run(experiment.on("nothing"), store, load=load)


def test_progress_counts_up_and_estimates_the_rest(tmp_path):
    events = []
    run(tiny(methods=METHODS[:2]), Store(tmp_path / "r.jsonl"), load=load, report=events.append)
    done = [event for event in events if event.kind == "done"]
    assert [event.done for event in done] == [1, 2, 3, 4, 5, 6] and {event.total for event in events} == {6}
    assert events[0].seconds_left is None and done[-1].seconds_left == 0
    assert all(event.seconds_left > 0 for event in done[:-1])


def test_a_fit_that_its_step_limit_cut_off_says_so(tmp_path):
    store = Store(tmp_path / "r.jsonl")
    altmin = Method("altmin", "AltMin", solver="AltMin", settings={"max_iter": 2})
    experiment = tiny(methods=(altmin, METHODS[0]))
    run(experiment, store, load=load)
    cut, whole = summarise(experiment, store).rows["tiny"]
    assert cut.splits == 3 and cut.rank.mean == 3 and whole.notes == ()
    assert cut.notes == ("AltMin on Tiny, 3 of 3 splits: its stopping rule was not met. Took 2 steps, to rank 3.",)


# --- tables


def made_up(tmp_path, scores):
    """Store of a finished experiment with given accuracies by method."""
    experiment = tiny(methods=METHODS[:2], split=Split("folds", len(scores["eglrl"])), used=len(scores["eglrl"]))
    store = Store(tmp_path / "r.jsonl")
    for method in experiment.methods:
        digest = experiment.digest(experiment.data[0], method)
        for split, value in enumerate(scores[method.name]):
            found = {"accuracy": value, "auc": value / 100, "macro-f1": value / 200}
            seconds = {"cpu_seconds": 2.0 + split, "wall_seconds": 1.0 + split, "seconds": 3.0, "machine": "2 cores"}
            key = {"kind": "fit", "data": "tiny", "split": split, "method": method.name, "digest": digest}
            store.append(
                key
                | {"status": "done", "end": "rank", "rank": 3, "message": "", "scores": found, "time_limit": 1000.0}
                | seconds
            )
    return experiment, store


def test_means_and_deviations_are_those_computed_by_hand(tmp_path):
    summary = summarise(*made_up(tmp_path, {"eglrl": [90.0, 92.0, 94.0], "glrl-none": [80.0, 81.0, 85.0]}))
    first, second = summary.rows["tiny"]
    assert (first.scores["accuracy"].mean, first.scores["accuracy"].deviation) == (92.0, 2.0)
    assert second.scores["accuracy"].mean == 82.0
    assert second.scores["accuracy"].deviation == pytest.approx(7**0.5)  # (4 + 1 + 9) / 2
    assert (first.cpu_seconds.mean, first.wall_seconds.mean, first.wall_seconds.deviation) == (3.0, 2.0, 1.0)
    assert report.cells(summary, "tiny") == [
        [
            "EGLRL",
            "92.00 ± 2.00*",
            "93.6 ± 0.1*",
            "0.9200 ± 0.0200",
            "0.4600 ± 0.0100",
            "3 ± 0",
            "3.00 ± 1.00",
            "2.00 ± 1.00",
            "3",
        ],
        [
            "GLRL w/o",
            "82.00 ± 2.65",
            "—",
            "0.8200 ± 0.0265",
            "0.4100 ± 0.0132",
            "3 ± 0",
            "3.00 ± 1.00",
            "2.00 ± 1.00",
            "3",
        ],
    ]


def test_one_split_has_no_deviation_and_sets_only_the_best_apart(tmp_path):
    summary = summarise(*made_up(tmp_path, {"eglrl": [90.0, 91.0], "glrl-none": [80.0, 80.0]}))
    single = replace(summary.experiment, used=1)
    rows = summarise(single, Store(tmp_path / "r.jsonl")).rows["tiny"]
    assert [row.scores["accuracy"].deviation for row in rows] == [None, None]
    assert [row.best for row in rows] == [True, False]


def test_text_markdown_and_csv_agree(finished):
    summary = summarise(*finished)
    text = report.cells(summary, "tiny")
    page = report.markdown(summary)
    body = [line for line in page.splitlines() if line.startswith("| ")][1:]
    split = [[cell.strip() for cell in line.strip("|").split("|")] for line in body]
    assert [[re.sub(r"^\*\*(.*)\*\*$", r"\1*", cell) for cell in line] for line in split] == text
    rows = list(csv.DictReader(io.StringIO(report.comma_separated(summary))))
    assert [row["method"] for row in rows] == ["eglrl", "glrl-none", "ais-impute"]
    for row, cells in zip(rows, text, strict=True):
        mean, deviation = float(row["accuracy_mean"]), float(row["accuracy_deviation"])
        assert cells[1].rstrip("*") == f"{mean:.2f} ± {deviation:.2f}"
        assert cells[1].endswith("*") == (row["best"] == "1")
        assert cells[6] == f"{float(row['cpu_seconds_mean']):.2f} ± {float(row['cpu_seconds_deviation']):.2f}"
    assert rows[0]["paper_mean"] == "93.6" and rows[1]["paper_mean"] == ""


def test_bold_face_follows_the_paired_t_test(tmp_path):
    rng = np.random.default_rng(0)
    kept = set()
    for trial in range(20):
        base = 90 + rng.normal(size=6)
        scores = {"eglrl": list(base + rng.normal(0, 0.3, 6)), "glrl-none": list(base + rng.normal(0.3, 0.3, 6))}
        experiment, store = made_up(tmp_path / str(trial), scores)
        best = max(scores, key=lambda name: np.mean(scores[name]))
        p = ttest_rel(scores["eglrl"], scores["glrl-none"]).pvalue
        found = {row.method for row in summarise(experiment, store).rows["tiny"] if row.best}
        assert found == (set(scores) if p >= 0.05 else {best})
        kept.add(len(found))
    assert kept == {1, 2}


def test_a_method_with_few_of_the_splits_is_not_compared(tmp_path):
    experiment, store = made_up(tmp_path, {"eglrl": [90.0, 91.0, 90.5], "glrl-none": [99.0]})
    assert {row.method: row.best for row in summarise(experiment, store).rows["tiny"]} == {
        "eglrl": True,
        "glrl-none": False,
    }


def test_the_machine_is_described_without_host_or_path(finished):
    words = experiments.describe_machine()
    usable, of, present, cores = words.split()[:4]
    assert (of, cores) == ("of", "cores,") and 1 <= int(usable) <= int(present) == os.cpu_count()
    assert f"numpy {np.__version__}" in words
    page = report.markdown(summarise(*finished))
    assert words in page
    for text in (words, page):
        assert platform.node() not in text.replace("machine", "") or len(platform.node()) < 3
        assert str(finished[1].path.parent) not in text and os.path.expanduser("~") + "/" not in text


def test_a_source_tree_that_is_not_installed_is_described_too(monkeypatch):
    def version(name):
        if name == "rankwise":
            raise PackageNotFoundError(name)
        return "1.2.3"

    monkeypatch.setattr(experiments.runner, "version", version)
    assert f"rankwise {__version__}, numpy 1.2.3" in experiments.describe_machine.__wrapped__()


# --- figures


def test_figures_have_one_line_per_method_in_each_panel(finished, tmp_path):
    experiment, store = finished
    paths = report.draw_figures(experiment, store, tmp_path)
    names = [f"figure0-tiny{ending}.{kind}" for ending in ("", "-times") for kind in ("png", "svg")]
    assert [path.name for path in paths] == names and sorted(names) == sorted(one.name for one in tmp_path.iterdir())
    for (png, svg), n_panels in zip((paths[:2], paths[2:]), (4, 2), strict=True):  # training, testing x CPU, wall
        assert png.read_bytes().startswith(b"\x89PNG") and png.stat().st_size > 10_000
        groups = [node.get("id", "") for node in ET.parse(svg).iter() if node.get("id", "").startswith("curve-")]
        assert sorted(groups) == sorted(f"curve-{k}" for k in range(3) for _ in range(n_panels))


@pytest.mark.parametrize("higher", [True, False])
def test_the_time_to_a_score_is_that_of_the_first_step_that_is_as_good(higher, monkeypatch):
    """Read off the drawn steps, for levels between the scores, against a search through the curve."""
    rng = np.random.default_rng(0)
    curves = {f"m{k}": (np.cumsum(rng.exponential(size=9)), rng.normal(50 + k, 3, size=9)) for k in range(3)}
    drawn = []
    monkeypatch.setattr(figures, "_write", lambda figure, path: drawn.append(figure))
    panel = figures.TimePanel("testing", "CPU seconds", "score", curves)
    figures.times_to_scores("title", [[panel]], ["none.png"], higher)
    lines = {line.get_label(): line for line in drawn[0].axes[0].get_lines()}
    sign = 1 if higher else -1
    for method, (seconds, scores) in curves.items():
        bests, times = lines[method].get_data()
        for level in np.linspace(scores.min(), scores.max(), 50)[1:-1]:
            first = next(k for k in range(9) if sign * scores[k] >= sign * level)
            assert times[next(k for k in range(len(bests)) if sign * bests[k] >= sign * level)] == seconds[first]
    left, right = drawn[0].axes[0].get_xlim()
    assert sign * right > sign * left and lines["m0"].get_drawstyle() == "steps-pre"


def test_there_is_no_figure_without_results(tmp_path):
    assert report.draw_figures(tiny(), Store(tmp_path / "r.jsonl"), tmp_path) == []
    with pytest.raises(SettingError, match="nothing to draw"):
        report.time_curves("none", [], [tmp_path / "none.png"])


# --- the results in the documentation


@EVERY
def test_the_stored_results_of_the_documentation_belong_to_the_files(name, tmp_path):
    path = shutil.copy(ROOT / "docs" / "reproduction" / f"{name}-results.jsonl", tmp_path)
    experiment = available()[name]
    summary = summarise(experiment, Store(path))
    for data, rows in summary.rows.items():
        splits = {row.method: row.splits for row in rows}
        assert splits["rankwise"] == experiment.split.parts, data
        assert not [note for row in rows for note in row.notes if "has not been run" in note]
    assert len(summary.rows) == 2
