"""Numbers on our pages are those that the stored results have, to the digits that are shown."""

import json
import re

import pytest
from helpers import ROOT

from rankwise import experiments

METRICS = {"movielens": ("rmse", "mae"), "epinions": ("accuracy_%", "auc"), "slashdot": ("accuracy_%", "auc")}


def stored(benchmark):
    return json.loads((ROOT / f"benchmarks/results/{benchmark}.json").read_text(encoding="utf-8"))["rows"]


def lines(page):
    """The lines of a page's tables, cell by cell."""
    found = (line for line in (ROOT / page).read_text(encoding="utf-8").splitlines() if line.startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in found]


def numbers(*cells):
    return re.findall(r"\d+\.\d+", " ".join(cells))


def assert_shown(shown, expected):
    """Each number shown is the stored one, which may itself be rounded, to the digits that it has."""
    assert len(shown) == len(expected) > 0
    for text, value in zip(shown, expected, strict=True):
        assert abs(float(text) - value) < 0.51 * 10.0 ** -len(text.partition(".")[2]), (text, value)


@pytest.mark.parametrize("page", ["README.md", "docs/choosing.md", "paper/paper.md"])
def test_scores_beside_other_libraries_are_the_stored_ones(page):
    rows = {(row["data"], row["method"]): row for row in stored("bench_accuracy")}
    shown = {}
    for first, *cells in lines(page):
        data = first.partition(",")[0].lower().replace(" ", "-")
        if (data, "libmf") in rows and len(numbers(*cells[1:4])) == 6:
            shown[data] = numbers(*cells[1:4])
    assert set(shown) == {data for data, _ in rows}
    for data, found in shown.items():
        metrics = METRICS[data.partition("-")[0]]
        told = [rows[data, method][metric] for method in ("rankwise", "libmf", "cmfrec") for metric in metrics]
        assert_shown(found, [float(words.partition(" ")[0]) for words in told])


def test_other_pages_have_the_default_s_accuracy_too():
    rows = {row["data"]: row for row in stored("bench_accuracy") if row["method"] == "rankwise"}
    expected = {
        data: [float(rows[data][metric].partition(" ")[0]) for metric in METRICS[data]]
        for data in METRICS
        if data in rows
    }
    (shown,) = (cells[1:] for cells in lines("docs/signed-links.md") if cells[0] == "`MatrixCompletion()`")
    assert_shown(numbers(*shown), [*expected["epinions"], *expected["slashdot"]])
    table = {cells[0].partition(",")[0].lower(): cells[1] for cells in lines("docs/choosing.md") if len(cells) == 6}
    for data, (accuracy, _) in expected.items():
        assert_shown(numbers(table[data]), [accuracy])


def test_scores_of_the_paper_s_methods_are_the_stored_ones():
    signed = {(row["data"], row["method"]): row for row in stored("bench_signed")}
    methods = ("eglrl", "glrl", "glrl-none")
    expected = [signed[data, method] for data in ("epinions", "slashdot") for method in methods]
    shown = [cells for cells in lines("docs/reproduction.md") if cells[2:3] == ["40"]]
    assert_shown(numbers(*(cells[3] for cells in shown)), [row["accuracy_%"] for row in expected])
    assert_shown(numbers(*(cells[4] for cells in shown)), [row["paper_%"] for row in expected])
    nonsmooth = {(row["data"], row["step"], row["max_inner_rank"]): row for row in stored("bench_nonsmooth")}
    ways = (("best x 0.7", 2), ("paper, c2 = 0.05", "none"))
    expected = [nonsmooth[f"movielens-{size}", *way] for size in ("100k", "1m") for way in ways]
    shown = [cells for cells in lines("docs/reproduction.md") if cells[2:3] == ["10"]]
    assert_shown(numbers(*(cells[3] for cells in shown)), [row["MAE"] for row in expected])
    assert_shown(numbers(*(cells[4] for cells in shown)), [row["paper"] for row in expected])


def test_errors_of_decoded_predictions_are_the_stored_ones():
    rows = {row["data"]: row for row in stored("bench_decode")}
    shown = {cells[0].lower().replace(" ", "-"): cells[1:] for cells in lines("docs/predictions.md")}
    for data, row in rows.items():
        assert_shown(numbers(*shown[data]), [row[f"{form}_MAE"] for form in ("link", "round", "median")])


def test_costs_on_planted_data_are_the_stored_ones():
    rows = {row["data"]: row for row in stored("bench_other_data")}
    shown = {cells[0].partition(",")[0]: cells[1:] for cells in lines("docs/choosing.md") if len(cells) == 5}
    names = {
        "rank 60": "rank 60",
        "three ratings per row": "five stars, 3 per row",
        "signs without imbalance": "signs, balanced and sparse",
        "a table of 30 × 20 with 178 entries": "tiny, 30 x 20",
    }
    for name, data in names.items():
        expected = [rows[data][column] for column in ("truth", "offsets", "rankwise", "libmf")]
        assert_shown(numbers(*shown[name]), expected)
    (tails,) = (cells for cells in lines("docs/choosing.md") if cells[0].startswith("heavy tails"))
    assert_shown(numbers(tails[1]), [rows["Student t, 2 degrees"][column] for column in ("rankwise", "libmf", "truth")])
    (robust,) = (k for k, cells in enumerate(lines("docs/robust.md")) if cells[1] == "default")
    costs = [cells[2] for cells in lines("docs/robust.md")[robust : robust + 3]]
    assert_shown(numbers(*costs), [rows["a tenth of outliers"][column] for column in ("rankwise", "libmf", "truth")])


def test_errors_of_imputers_are_the_stored_ones():
    methods = ("rankwise", "mean/mode", "KNN", "Iterative", "Iterative, coded")
    rows, errors = stored("bench_tables"), {}
    for row in rows:
        relative = [float(row[method]) / float(row["constant"]) for method in methods]
        errors.setdefault((row["table"], row["column"].partition("_")[0]), []).append(relative)
    page = lines("docs/tables-results.md")
    shown = {tuple(cells[:2]): cells[2:] for cells in page if tuple(cells[:2]) in errors}
    assert set(shown) == set(errors)
    for key, cells in shown.items():
        assert_shown(numbers(*cells), [sum(column) / len(column) for column in zip(*errors[key], strict=True)])
    wins = {cells[0].partition(",")[0].removesuffix(" table"): cells[1:3] for cells in page if cells[1].isdigit()}
    for table in {row["table"] for row in rows}:
        best = [row["best"] == "rankwise" for row in rows if row["table"] == table]
        assert wins[table] == [str(len(best)), str(sum(best))]


def test_ratios_to_other_libraries_are_the_stored_ones():
    rows = {(row["data"], row["method"]): row for row in stored("bench_peers")}
    data = None
    for cells in lines("docs/performance.md"):
        if cells[1:2] in (["LIBMF"], ["cmfrec"]):
            data = {"10⁷ synthetic": "synthetic-1e7"}.get(cells[0], cells[0].lower().replace(" ", "-")) or data
            row = rows.pop((data, cells[1].lower()))
            assert_shown(cells[2:4], [row["to_it / fit"], row["ours / all"]])
    assert not {method for _, method in rows} & {"libmf", "cmfrec"}


def test_growth_is_the_stored_one():
    kinds = {"a step of EGLRL": ("EGLRL step", 4), "a sweep of the default, rank 31": ("sweep", 31)}
    timed = [row for row in stored("bench_scaling") if "ns_per_observation" in row]
    rows = {(row["kind"], row["rank"], row["threads"], row["n_observed"]): row for row in timed}
    shown = [cells for cells in lines("docs/performance.md") if len(cells) == 6 and cells[1] in ("1", "2")]
    assert [cells[0] for cells in shown if cells[0]] == list(kinds)
    kind = None
    for first, threads, *cells in shown:
        kind = kinds.get(first, kind)
        for power, cell in enumerate(cells, 5):
            row = rows.get((*kind, int(threads), 10**power))
            assert cell == ("" if row is None else f"{row['ns_per_observation']:.0f}")


def test_gains_of_a_second_thread_are_the_stored_ones():
    rows = {row["kind"]: row["speedup"] for row in stored("bench_scaling") if "speedup" in row}
    shown = {cells[0]: cells[1:] for cells in lines("docs/performance.md") if len(cells) == 3}
    for name, steps in (("the default", (10, 4)), ("EGLRL", (4, 4))):
        kinds = [
            f"{name}, {n} steps, {data}" for n, data in zip(steps, ("movielens-1m", "1e+07 synthetic"), strict=True)
        ]
        assert_shown(numbers(*shown[name]), [rows[kind] for kind in kinds])


def test_passes_of_lanczos_are_the_stored_ones():
    rows = {(row["data"], row["gradient"], row["oracle"]): row for row in stored("bench_oracle")}
    shown = [cells for cells in lines("docs/performance.md") if len(cells) == 5 and cells[1] in ("1", "8")]
    assert [cells[0] for cells in shown] == ["Epinions", "", "Slashdot", ""]
    data = None
    for first, block, *cells in shown:
        data = first.lower() or data
        for step, cell in zip((0, 10, 30), cells, strict=True):
            assert float(cell) == rows[data, f"after {step} steps", f"lanczos, block of {block}"]["passes_to_30"]


@pytest.mark.parametrize("table", ["table2", "table4"])
def test_the_page_about_the_reproduction_has_the_tables_that_were_made(table):
    assert all(line in lines("docs/reproduction.md") for line in lines(f"docs/reproduction/{table}.md"))


def test_seconds_to_an_accuracy_are_those_of_the_stored_curves():
    results = (ROOT / "docs/reproduction/table2-results.jsonl").read_text(encoding="utf-8").splitlines()
    label_of = {method.name: method.label for method in experiments.find("table2").methods}
    fits = [fit for fit in map(json.loads, results) if "curve" in fit]
    curves = {(fit["data"], label_of[fit["method"]]): fit["curve"] for fit in fits}
    page = lines("docs/reproduction.md")
    (first,) = (k for k, cells in enumerate(page) if cells[1].startswith("Epinions, "))
    goals = [re.fullmatch(r"(\w+), ([\d.]+) %", cell).groups() for cell in page[first][1:]]
    shown = {label: cells for label, *cells in page[first + 2 : first + 2 + len(label_of)]}
    assert set(shown) == set(label_of.values())
    for label, cells in shown.items():
        for (data, goal), cell in zip(goals, cells, strict=True):
            curve = curves[data.lower(), label]
            points = zip(curve["cpu"], curve["testing"], strict=True)
            seconds = next((cpu for cpu, accuracy in points if accuracy >= float(goal)), None)
            assert cell == ("—" if seconds is None else f"{seconds:.1f}"), (label, data, goal)
