"""Deliberately broken inputs: each ends in one line that names the file, the place and the cure, not in a traceback."""

import errno
import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers import ROOT

import rankwise.model.files
from rankwise.cli import main

GOOD = "user,item,rating\n" + "".join(f"u{k % 7},i{k % 5},{k % 4 + 1}\n" for k in range(35))
FIT = ("--method", "eglrl", "--loss", "square", "--rank", "2", "-o", "m.rankwise")


def fit(name, *more):
    return ("fit", name, *FIT, *more)


def truncated():
    packed = gzip.compress(("user,item,rating\n" + "".join(f"{k},{k * k % 97},1\n" for k in range(5000))).encode())
    return packed[: len(packed) // 2]


# name: (files to make, command, exit code, what the one line must say)
BROKEN = {
    "no such file": ({}, fit("none.csv"), 1, r"no file at none\.csv"),
    "empty file": ({"e.csv": ""}, fit("e.csv"), 1, r"e\.csv is empty: it has no entries; give it lines"),
    "header and nothing else": ({"h.csv": "user,item,rating\n"}, fit("h.csv"), 1, r"h\.csv has no entries; give it"),
    "no such column": ({"g.csv": GOOD}, fit("g.csv", "--value", "stars"), 1, r"g\.csv, line 1: .*'rating'.*value"),
    "text for a value": (
        {"t.csv": GOOD + "u1,new,good\n"},
        fit("t.csv"),
        1,
        r"t\.csv, line 37: 'good' is not a number.*skip_bad_lines",
    ),
    "a wrong guess": (
        {"q.csv": "5,ann,dune\n4,bob,dune\n3,ann,alien\n"},
        fit("q.csv"),
        1,
        r"q\.csv, line 1: 'dune' is not a number.*values from column 3.*row.*col.*value.*separator",
    ),
    "a short line": ({"s.csv": GOOD + "u1\n"}, fit("s.csv"), 1, r"s\.csv, line 37: 3 columns.*has 1.*skip_bad_lines"),
    "NaN": (
        {"n.csv": GOOD + "u1,new,nan\n"},
        fit("n.csv"),
        1,
        r"n\.csv, line 37: 'nan' is not a finite.*skip_bad_lines",
    ),
    "infinity": (
        {"i.csv": "1,2,3\n2,2,1e999\n"},
        fit("i.csv"),
        1,
        r"i\.csv, line 2: '1e999' is not a finite.*skip_bad_lines",
    ),
    "duplicates": (
        {"d.csv": GOOD + "u0,i0,5\n"},
        fit("d.csv"),
        1,
        r"d\.csv, line 37: row u0, column i0 .*line 2 .*duplicates.*mean.*last",
    ),
    "not text": ({"b.csv": bytes(range(256)) * 4}, fit("b.csv"), 1, r"b\.csv, line 1: .*not text.*give CSV"),
    "an Excel file": (
        {"x.csv": b"PK\x03\x04" + bytes(99)},
        fit("x.csv"),
        1,
        r"x\.csv is .*Excel.*save the table as CSV",
    ),
    "truncated gzip": ({"t.csv.gz": truncated()}, fit("t.csv.gz"), 1, r"t\.csv\.gz cannot be read.*fetch it again"),
    "damaged Parquet": ({"p.parquet": b"PAR1" + bytes(60)}, fit("p.parquet"), 1, r"p\.parquet cannot be read.*again"),
    "one column": ({"o.csv": "one\ntwo\nthree\n"}, fit("o.csv"), 1, r"o\.csv, line 1: .* one column.*separator"),
    "wrong encoding": (
        {"w.csv": (GOOD + "zoë,i1,2\n").encode("latin-1")},
        fit("w.csv"),
        1,
        r"w\.csv, line 37: this is not utf-8; .*encoding.*latin-1",
    ),
    "UTF-16": ({"u.csv": GOOD.encode("utf-16")}, fit("u.csv"), 1, r"u\.csv, line 1: .*encoding.*utf-16"),
    "stars for signs": (
        {"g.csv": GOOD},
        ("fit", "g.csv", "--method", "eglrl", "--loss", "logistic", "-o", "m.rankwise"),
        1,
        r"g\.csv, line 3: the logistic loss needs values that are -1 or \+1, and this one is 2",
    ),
    "output exists": ({"g.csv": GOOD, "m.rankwise": "old"}, fit("g.csv"), 1, r"m\.rankwise exists; .*--force"),
    "no folder for the output": (
        {"g.csv": GOOD},
        ("fit", "g.csv", "-o", "no/m.rankwise"),
        1,
        r"no folder no to write m\.rankwise in; make it first",
    ),
    "a folder for a file": ({"f/g.csv": GOOD}, fit("f"), 1, r"f is a folder; name a file in it"),
    "a method that does not take the loss": (
        {"g.csv": GOOD},
        ("fit", "g.csv", "--method", "r1mp", "--loss", "l1"),
        1,
        r"r1mp.* requires a smooth objective",
    ),
    "a method that needs a rank": (
        {"g.csv": GOOD},
        ("fit", "g.csv", "--method", "altmin", "--loss", "square"),
        1,
        r"`rank` must be an integer with method='altmin'",
    ),
    "damaged model": (
        {"m.rankwise": b"PK\x03\x04 not one"},
        ("info", "m.rankwise"),
        1,
        r"m\.rankwise is not a .*model",
    ),
    "a table for a model": ({"g.csv": GOOD}, ("predict", "g.csv", "g.csv"), 1, r"g\.csv is not a rankwise model"),
    "no such model": ({}, ("recommend", "no.rankwise", "u1"), 1, r"no model file at no\.rankwise"),
    "no such method": ({"g.csv": GOOD}, ("fit", "g.csv", "--method", "svd"), 2, r"'svd' is not one of 'bayes'"),
    "no such loss": ({"g.csv": GOOD}, ("fit", "g.csv", "--loss", "mse"), 2, r"'mse' is not one of 'auto', 'square'"),
    "a rank of zero": ({"g.csv": GOOD}, ("fit", "g.csv", "--rank", "0"), 2, r"--rank.*0 is not in the range"),
    "a share above one": ({"g.csv": GOOD}, ("fit", "g.csv", "--held-out", "10"), 2, r"10 is not a fraction.*or a file"),
    "no such option": ({"g.csv": GOOD}, ("fit", "g.csv", "--colour"), 2, r"[Nn]o such option.*--colour"),
    "nothing to recommend for": ({}, ("recommend", "m.rankwise"), 2, r"Name one or more ROWS.*--all"),
}


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def the_error(done):
    """The one line of an error; what was guessed before may stand above it."""
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert "Traceback" not in done.output and done.stdout == ""
    *above, last = done.stderr.splitlines()
    assert last.startswith("Error: ") and not any(line.startswith("Error") for line in above)
    return last


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("files", "command", "code", "words"), BROKEN.values(), ids=BROKEN)
def test_broken_input_is_answered_with_one_line_and_a_cure(files, command, code, words):
    for name, content in files.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    done = run(*command)
    assert done.exit_code == code, done.output
    assert re.search(words, the_error(done)), done.stderr
    after = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert after == before  # nothing was written


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A small model and the file it was learned from."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "g.csv").write_text(GOOD)
    done = run("fit", folder / "g.csv", *FIT[:-1], folder / "m.rankwise")
    assert done.exit_code == 0, done.output
    return folder / "m.rankwise"


def test_an_unknown_row_or_column_is_named_with_its_line(model):
    Path("p.csv").write_text("user,item\nu1,i1\nu1,i9\nzed,i1\n")
    done = run("predict", model, "p.csv")
    assert done.exit_code == 1
    words = r"p\.csv, line 3: the model has no column i9 \(2 entries with unknown.*--unknown offset"
    assert re.search(words, the_error(done))


def test_an_unknown_row_to_recommend_for_is_named_beside_known_ones(model):
    done = run("recommend", model, "u1", "zed")
    assert done.exit_code == 1
    assert re.search(r"m\.rankwise has no row 'zed'; its 7 rows are called u0, u1, u2", the_error(done))


def test_a_rank_beyond_the_path_is_refused(model):
    table = model.parent / "g.csv"
    for command in (
        ("recommend", model, "u1"),
        ("recommend", model, "--all"),
        ("evaluate", model, table),
        ("predict", model, table),
    ):
        done = run(*command, "--rank", 9)
        assert done.exit_code == 1 and re.search(r"`rank` must be an integer from 0 to 2, got 9", the_error(done))


def test_a_truncated_model_is_refused(model):
    Path("cut.rankwise").write_bytes(model.read_bytes()[:-200])
    done = run("info", "cut.rankwise")
    assert done.exit_code == 1 and "cut.rankwise" in the_error(done) and "damaged" in the_error(done)


def test_a_folder_without_permission_is_refused_before_the_fit(monkeypatch):
    Path("locked").mkdir(mode=0o500)
    Path("g.csv").write_text(GOOD)
    if os.geteuid() == 0:  # nothing is forbidden to root
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "locked")
    done = run("fit", "g.csv", "-o", "locked/m.rankwise")
    assert done.exit_code == 1 and "locked cannot be written to; choose another place" in the_error(done)


def test_force_replaces_files_only(model):
    os.mkfifo("pipe")
    Path("folder").mkdir()
    for name, words in (("pipe", "pipe is a device or a pipe"), ("folder", "folder is a folder")):
        for command in (
            ("fit", model.parent / "g.csv"),
            ("predict", model, model.parent / "g.csv"),
            ("recommend", model, "--all"),
            ("report", model),
        ):
            done = run(*command, "--force", "-o", name)
            assert done.exit_code == 1 and words in the_error(done)
    assert Path("pipe").is_fifo() and not any(Path("folder").iterdir())


def test_an_input_is_never_overwritten(model):
    """Neither under its own name, nor through a link, nor as a part of a folder."""
    table = model.parent / "g.csv"
    assert run("shards", table, "-o", "shards").exit_code == 0
    Path("soft").symlink_to(table)
    Path("hard").hardlink_to(model)
    before = {path: path.read_bytes() for path in (table, model, *Path("shards").iterdir())}
    for output, *command in (
        (table, "fit", table),
        ("soft", "fit", table),
        (table, "fit", "soft"),
        (table, "fit", table, "--held-out", "soft"),
        ("shards/manifest.json", "fit", "shards"),
        (model, "predict", model, table),
        (table, "predict", model, table),
        ("hard", "recommend", model, "--all"),
        (model, "report", model),
        ("soft", "report", model, "--data", table),
    ):
        done = run(*command, "--force", "-o", output)
        assert done.exit_code == 1 and f"{output} is an input of this command" in the_error(done)
    assert all(path.read_bytes() == content for path, content in before.items())
    assert Path("soft").is_symlink() and Path("hard").samefile(model)


def test_a_name_that_is_no_plain_number_is_not_a_row_of_that_number(model):
    Path("n.csv").write_text("".join(f"{k % 8},{k % 5},{k % 4}\n" for k in range(40)))
    assert run(*fit("n.csv")).exit_code == 0
    for name in ("007", "1_0", "+7", "٧", "7.0"):
        assert f"no row {name!r}" in the_error(run("recommend", "m.rankwise", "7", name))
        Path("p.csv").write_text(f"7,1\n{name},1\nx,1\n")
        assert f"p.csv, line 2: the model has no row {name} (2 entries" in the_error(
            run("predict", "m.rankwise", "p.csv")
        )
    assert run("recommend", "m.rankwise", "7").exit_code == 0


def test_repeats_in_held_out_entries_are_named_too():
    Path("g.csv").write_text(GOOD)
    Path("h.csv").write_text("user,item,rating\nu1,i1,2\nu2,i1,2\nu1,i1,3\n")
    done = run(*fit("g.csv", "--held-out", "h.csv"))
    assert done.exit_code == 1 and re.search(r"h\.csv, line 4: .*line 2.*duplicates.*mean", the_error(done))


def test_a_full_disk_is_one_line(monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "m.rankwise")

    Path("g.csv").write_text(GOOD)
    monkeypatch.setattr(rankwise.model.files.np, "savez", full)
    done = run(*fit("g.csv"))
    assert done.exit_code == 1 and "m.rankwise: No space left on device" in the_error(done)
    assert [path.name for path in Path().iterdir()] == ["g.csv"]


def test_the_output_is_checked_before_anything_is_read():
    Path("m.rankwise").write_text("old")
    done = run("fit", "no-such-file.csv", *FIT)
    assert done.exit_code == 1 and "m.rankwise exists" in the_error(done)


SHARDS_THEN_SIGNAL = """
import os, signal
from rankwise.cli import main
from rankwise.storage import sharding

def killed(*_):
    os.kill(os.getpid(), signal.SIGTERM)

sharding._distribute = killed
main(["shards", "g.csv", "-o", "shards"])
"""


def test_a_terminated_command_leaves_no_temporary_files():
    Path("g.csv").write_text(GOOD)
    env = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", SHARDS_THEN_SIGNAL]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 143 and "Traceback" not in done.stderr, done.stderr
    assert os.listdir() == ["g.csv"]
