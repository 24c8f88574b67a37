"""Standard streams of commands: control characters are escaped; closed streams and signals end a command cleanly."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from report_cases import random_model

import rankwise as rw
from rankwise.cli import main
from rankwise.cli.terminal import Printable, printable, unwinding_at_sigterm
from rankwise.model import save

EVIL = ["\x1b]0;owned\x07", "\x9b31mred", "back\x08space", "\rover", "\x7f", "\u202etxt.exe", "a\x00b"]


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def model():
    """A file with control characters in all of its texts."""
    labels = tuple(np.array([f"{k}{EVIL[k % len(EVIL)]}" for k in range(size)]) for size in (30, 20))
    texts = dict.fromkeys(("estimator", "solver", "loss", "status", "command"), EVIL[0])
    facts = texts | {"settings": {EVIL[1]: EVIL[2]}, "held_out": {"n": 3, "scores": {EVIL[3]: 1.0}}}
    save(random_model(labels=labels, facts=facts), "m.rankwise")
    return Path("m.rankwise")


def controls(text):
    return {character for character in text if printable(character) != character}


def test_every_control_character_but_tab_and_newline_is_escaped():
    codes = {*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)} - {9, 10}
    assert {code for code in range(0x3000) if printable(chr(code)) != chr(code)} == codes
    assert printable("\x1b[31m\x9b\u202e é 漢字 😀\n") == "\\x1b[31m\\x9b\\u202e é 漢字 😀\n"


def test_labels_and_facts_from_a_file_reach_the_terminal_escaped(model):
    Path("p.csv").write_bytes(b"row,col\n\x1b]0;x,1\n")
    os.rename("p.csv", "p\x1b[2J.csv")
    row = f"0{EVIL[0]}"
    for arguments, code in (
        (["info", model], 0),
        (["recommend", model, row], 0),
        (["recommend", model, "\x1b[2J"], 1),
        (["predict", model, "p\x1b[2J.csv"], 1),
        (["fit", "no\x1b[2J.csv"], 1),
        (["info", "no\x1b[2J.rankwise"], 1),
    ):
        done = CliRunner().invoke(main, list(map(str, arguments)), color=True)
        assert done.exit_code == code, done.output
        assert not controls(done.output) and "\\x1b" in done.output


def test_programs_receive_labels_unchanged_and_terminals_do_not(model, capsys):
    label = f"0{EVIL[0]}"
    done = CliRunner().invoke(main, ["recommend", str(model), label, "--json"])
    assert json.loads(done.stdout)["rows"][0]["row"] == label
    for terminal in (False, True):
        stream = io.StringIO()
        stream.isatty = lambda answer=terminal: answer
        Printable(stream).write(label)
        assert stream.getvalue() == (printable(label) if terminal else label)


ODD = [
    None,
    True,
    -1,
    1.5,
    10**400,
    "x",
    [],
    {},
    [None],
    [[1]],
    {"a": 1},
    {"value": 3},
    {"value": [1], "wall_seconds": ["x"]},
]
ODD += [{"value": [1], "wall_seconds": [1, 2]}, {"settings": [1], "scores": [1], "deviations": [], "best": 1}]
ODD += [
    {"settings": [2**70], "scores": [1], "deviations": [1], "best": 1},
    {"n": "x", "scores": {}},
    {"n": 1, "scores": {"a": "b"}},
]
ODD += [{"settings": [1], "scores": [1], "deviations": [1], "best": float("nan")}]
NAMES = ["estimator", "settings", "solver", "loss", "status", "command", "n_observed", "seconds", "compile_seconds"]


@pytest.mark.parametrize("name", [*NAMES, "history", "path", "held_out"])
def test_facts_of_any_type_are_shown_or_left_out(name):
    facts = {"estimator": "MatrixCompletion", "n_observed": 9, "seconds": 1.0}
    for odd in ODD:
        model = random_model(facts=facts | {name: odd})
        save(model, "m.rankwise")
        for arguments in (["info"], ["info", "--json"], ["report", "--force"]):
            done = CliRunner().invoke(main, [arguments[0], "m.rankwise", *arguments[1:]])
            assert done.exit_code == 0, (odd, done.output, done.exception)
        assert "9 entries" in CliRunner().invoke(main, ["info", "m.rankwise"]).stdout or name == "n_observed"
        assert model._repr_html_()


def shell(command):
    """Run a command line of the shell in which `rankwise` is this one."""
    program = f'"{sys.executable}" -m rankwise'
    done = subprocess.run(
        ["sh", "-c", command.replace("rankwise ", f"{program} ", 1)], capture_output=True, text=True, timeout=120
    )
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr, done.stderr
    return done


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="a shell of POSIX")
def test_closed_and_full_streams_end_without_a_traceback(model):
    done = shell("rankwise info m.rankwise >&-")
    assert (done.returncode, done.stderr) == (0, "")
    assert shell("rankwise recommend m.rankwise --all --include-seen | head -1").stdout == "row,place,column,score\n"
    done = shell("rankwise info m.rankwise >/dev/full")
    assert done.returncode == 1 and "No space left" in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_sigterm_removes_the_folder_of_unfinished_shards(tmp_path):
    def chunks():
        yield [0, 1], [1, 0], [1.0, 2.0]
        assert len(list(tmp_path.iterdir())) == 1  # the hidden folder
        os.kill(os.getpid(), signal.SIGTERM)
        yield [0], [0], [1.0]

    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with pytest.raises(SystemExit) as caught, unwinding_at_sigterm():
            rw.write_shards(chunks(), tmp_path / "shards", shape=(2, 2))
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
    assert caught.value.code == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []
