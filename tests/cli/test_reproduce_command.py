"""`rankwise reproduce`: refusals in one line, files where it says, plain lines in a pipe, a bar on a terminal."""

import io
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from click.testing import CliRunner
from experiment_cases import load, tiny
from helpers import ROOT
from rich.console import Console

from rankwise import _extras, experiments
from rankwise.cli import main
from rankwise.cli import reproduce as command
from rankwise.experiments import Event, run
from rankwise.experiments.plan import Data


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def small(monkeypatch):
    """Two tiny experiments in place of the paper's, on data made on the spot."""
    one = tiny(quick={"used": 1, "time_limit": 60.0})
    found = {"tiny": one, "other": replace(one, name="other", figure="figure9", data=(Data("second", "Second", 2),))}
    monkeypatch.setattr(command, "available", lambda: found)
    monkeypatch.setattr(experiments.plan, "available", lambda: found)
    monkeypatch.setattr(command, "run_experiment", lambda *given, report: run(*given, load=load, report=report))
    return found


def made(folder):
    return sorted(path.name for path in folder.iterdir())


FIGURES = [f"figure0-tiny{ending}.{kind}" for ending in ("", "-times") for kind in ("png", "svg")]


def test_a_table_is_printed_and_written_with_its_figures(small, tmp_path):
    done = invoke("reproduce", "tiny", "--output", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert made(tmp_path / "out") == sorted([*FIGURES, "tiny-results.jsonl", "tiny.csv", "tiny.md"])
    text = done.stdout
    assert "Tiny, rank 3" in text and "93.6 ± 0.1" in text and "Machine: " in text and "\x1b" not in text
    assert "Tiny, fold 3, AIS-Impute: " in text and "(9 of 9)" in text and "left)" in text
    for line in (tmp_path / "out" / "tiny.md").read_text().splitlines():
        cells = [cell.strip(" *") for cell in line.split("|")[1:-1]]
        assert all(cell in text for cell in cells if not cell.startswith("---"))


@pytest.mark.slow
def test_quick_runs_one_fold_and_the_whole_run_goes_on_from_it(small, tmp_path):
    assert invoke("reproduce", "tiny", "--quick", "--output", tmp_path).exit_code == 0
    lines = [json.loads(line) for line in (tmp_path / "tiny-results.jsonl").read_text().splitlines()]
    assert [line["split"] for line in lines if line["kind"] == "fit"] == [0, 0, 0]
    done = invoke("reproduce", "tiny", "--folds", 2, "--output", tmp_path)
    assert "fold 1" not in done.stdout and "fold 2" in done.stdout and "2 of 3 folds" in done.stdout


def test_a_figure_runs_the_first_split_and_writes_no_table(small, tmp_path):
    done = invoke("reproduce", "figure0", "--output", tmp_path)
    assert done.exit_code == 0 and made(tmp_path) == sorted([*FIGURES, "tiny-results.jsonl"])
    assert len((tmp_path / "tiny-results.jsonl").read_text().splitlines()) == 4  # three fits and a search


@pytest.mark.slow
def test_all_runs_every_experiment_that_has_the_data(small, tmp_path):
    assert invoke("reproduce", "all", "--quick", "--output", tmp_path / "both").exit_code == 0
    assert {"tiny.md", "other.md", "figure9-second.svg"} <= set(made(tmp_path / "both"))
    assert invoke("reproduce", "all", "--data", "second", "--quick", "--output", tmp_path / "one").exit_code == 0
    assert "other.md" in made(tmp_path / "one") and "tiny.md" not in made(tmp_path / "one")


def test_an_experiment_without_its_data_is_an_error_that_does_not_keep_others_from_running(
    small, tmp_path, monkeypatch
):
    missing = (Data("nothing", "Nothing", 2), Data("nowhere", "Nowhere", 2))
    monkeypatch.setitem(small, "tiny", replace(small["tiny"], data=missing))
    done = invoke("reproduce", "tiny", "--quick", "--output", tmp_path / "one")
    assert done.exit_code == 1 and not (tmp_path / "one" / "tiny.md").exists()
    assert "none of its data sets (nothing, nowhere) is on this machine" in done.stderr
    assert "`rankwise data fetch nothing`" in done.stderr
    done = invoke("reproduce", "all", "--quick", "--output", tmp_path / "all")
    assert done.exit_code == 1 and (tmp_path / "all" / "other.md").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("table9",), "Unknown experiment 'table9': use one of 'table2', 'table4', 'figure1', 'figure2', 'all'."),
        (("table2", "--data", "netflix"), "table2 has no data set 'netflix'"),
        (("all", "--data", "netflix"), "No experiment has a data set 'netflix'"),
        (("table2", "--folds", "11"), "table2 has 10 splits"),
        (("table2", "--folds", "0"), "table2 has 10 splits"),
        (("table4", "--time-limit", "-1"), "positive number of seconds"),
    ],
)
def test_what_does_not_exist_is_refused_in_one_line_before_any_work(tmp_path, arguments, words):
    done = invoke("reproduce", *arguments, "--output", tmp_path / "out")
    assert done.exit_code == 1 and words in done.stderr and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_the_help_names_every_experiment():
    text = invoke("reproduce", "--help").stdout
    for experiment in experiments.available().values():
        assert experiment.name in text and experiment.figure in text


@pytest.mark.slow
def test_search_finds_a_stored_weight_again(small, tmp_path, monkeypatch):
    stored = replace(small["tiny"].methods[2], settings={}, settings_for={"tiny": {"nuclear_weight": 1e6}})
    monkeypatch.setitem(small, "tiny", replace(small["tiny"], methods=(stored,)))
    weights = {}
    for more in ((), ("--search",)):
        assert invoke("reproduce", "tiny", "--quick", *more, "--output", tmp_path / f"{len(more)}").exit_code == 0
        lines = (tmp_path / f"{len(more)}" / "tiny-results.jsonl").read_text().splitlines()
        weights[more] = [json.loads(line)["nuclear_weight"] for line in lines if "nuclear_weight" in line]
    assert weights[()] == [] and len(weights["--search",]) == 1 and 0 < weights["--search",][0] < 1e6


def test_search_leaves_no_stored_weight():
    for experiment in experiments.available().values():
        for method in command.Selection(search=True).apply(experiment).methods:
            for data in experiment.data:
                found = method.settings_on(data.name)
                assert all(found.get(name, "search") == "search" for name in ("nuclear_weight", "radius"))


INTERRUPTED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what a shell starts in the background
sys.path.insert(0, {tests!r})
import time
from experiment_cases import load, tiny
from rankwise.cli import main, reproduce
from rankwise.experiments import run
reproduce.find = lambda name: tiny()
slowly = lambda report: lambda event: (report(event), time.sleep(1.0))
reproduce.run_experiment = lambda *given, report: run(*given, load=load, report=slowly(report))
main(["reproduce", "tiny", "--output", {folder!r}])
"""


@pytest.mark.slow
def test_ctrl_c_says_how_to_continue(tmp_path):
    source = INTERRUPTED.format(tests=str(ROOT / "tests"), folder=str(tmp_path))
    process = subprocess.Popen(
        [sys.executable, "-c", source], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline, path = time.monotonic() + 300, tmp_path / "tiny-results.jsonl"
    while not (path.exists() and path.read_bytes().count(b"\n") >= 2) and time.monotonic() < deadline:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in err
    assert f"Stopped; finished fits are in {path}, and the same command continues from there.\n" in err


def test_a_terminal_gets_a_bar_and_still_sees_failures():
    out = Console(file=io.StringIO(), force_terminal=True, width=200, markup=False, highlight=False)
    with command.progress(out, tiny()) as report:
        report(Event("start", "Tiny", "EGLRL", 0, 0, 6))
        report(Event("failed", "Tiny", "EGLRL", 0, 3, 6, 1.0, 90.0, "It would not."))
    text = out.file.getvalue()
    assert "3/6" in text and "about 90 s left" in text and "failed. It would not." in text


@pytest.mark.parametrize(("seconds", "words"), [(5, "5 s"), (119, "119 s"), (600, "10 min"), (9000, "2.5 h")])
def test_the_time_left_is_told_in_fitting_units(seconds, words):
    assert command.time_left(Event("done", "a", done=1, total=2, seconds_left=seconds)) == f", about {words} left"
    assert command.time_left(Event("done", "a", done=2, total=2, seconds_left=0.0)) == ""


def test_without_matplotlib_the_table_is_written_all_the_same(small, tmp_path, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name="matplotlib")

    monkeypatch.setattr(_extras.importlib, "import_module", missing)
    done = invoke("reproduce", "tiny", "--quick", "--output", tmp_path)
    assert done.exit_code == 0 and "Figures: none." in done.stdout and "rankwise[plots]" in done.stdout
    assert made(tmp_path) == ["tiny-results.jsonl", "tiny.csv", "tiny.md"]
