"""`rankwise data`: what it prints is what the sources say, and terms come before bytes."""

import os
import select
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner
from publisher import packed, publishing
from rich.filesize import decimal

from rankwise import datasets
from rankwise.cli import main
from rankwise.datasets.sources import SOURCES

NAMES = ("epinions", "slashdot", "movielens-100k", "movielens-1m", "movielens-10m")
NAME = "movielens-100k"
BODY = packed(NAME, "196\t242\t3\t881250949\n" + "".join(f"7\t{k}\t{k % 5 + 1}\t9\n" for k in range(1, 20_000)))
FETCH = """
import os, signal, sys
os.close(os.open(os.ttyname(0), os.O_RDWR))  # from now on this terminal's Ctrl-C is for us
signal.signal(signal.SIGINT, signal.default_int_handler)
from dataclasses import replace
from rankwise.cli import main
from rankwise.datasets import SOURCES
SOURCES["movielens-100k"] = replace(SOURCES["movielens-100k"], address=sys.argv[1], sha256=sys.argv[2])
main(["data", "fetch", "movielens-100k", *sys.argv[3:]])
"""


@pytest.fixture(autouse=True)
def own_folders(monkeypatch, tmp_path):
    monkeypatch.setenv("RANKWISE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def publisher(monkeypatch):
    with publishing(BODY) as found:
        monkeypatch.setitem(SOURCES, NAME, found.source())
        yield found


def run(*arguments):
    """Exit code, output and errors of a command, run in this process; standard input is no terminal."""
    done = CliRunner().invoke(main, ["data", *arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def on_terminal(publisher, *arguments, answer):
    """Exit code and output of a fetch whose input and output are a terminal."""
    pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")
    ours, theirs = pty.openpty()
    source = publisher.source()
    command = [sys.executable, "-c", FETCH, source.address, source.sha256, *arguments]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "200"}
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with subprocess.Popen(command, **streams, env=environment, start_new_session=True) as running:
        os.close(theirs)
        shown, patience = b"", 0.5
        try:
            while True:
                if select.select([ours], [], [], patience)[0]:
                    if not (piece := os.read(ours, 4096)):
                        break
                    shown += piece
                elif b"these terms?" in shown:  # asked, and waiting: a Ctrl-C just before the wait is not heard,
                    os.write(ours, answer)
                    patience = 60.0  # and a second one would kill an interpreter that is about to end
        except OSError:  # how Linux says that the other side has closed
            pass
    os.close(ours)
    return running.returncode, shown.decode()


def test_every_set_of_the_issue_is_listed_with_its_size():
    code, shown = run("list")
    assert code == 0 and tuple(SOURCES) == NAMES
    for name in NAMES:
        line = next(line for line in shown.splitlines() if line.split()[:1] == [name])
        assert f"{SOURCES[name].n_observed:,}" in line and line.split()[-1] == "no"


@pytest.mark.parametrize("name", NAMES)
def test_info_says_all_that_is_known(name):
    source = SOURCES[name]
    code, shown = run("info", name)
    assert code == 0
    stated = (source.address, source.sha256, source.publisher.licence, source.publisher.citation, source.filter)
    for words in (*stated, source.layout, source.reported, "not downloaded", f"{source.n_observed:,}"):
        assert words in shown
    assert f"{source.shape[0]:,} x {source.shape[1]:,}" in shown


def test_info_on_movielens_1m_owns_up_to_the_papers_other_size():
    assert "3,449 movies" in run("info", "movielens-1m")[1]


def test_list_and_info_say_where_a_set_is(publisher):
    path = datasets.fetch(NAME)
    listed = next(line for line in run("list")[1].splitlines() if NAME in line)
    assert listed.split()[-1] == "yes" and f"On disk:    {path}" in run("info", NAME)[1]


def test_fetch_shows_the_terms_first_and_ends_with_the_file(publisher):
    code, shown = run("fetch", NAME)
    source = SOURCES[NAME]
    assert code == 0 and datasets.find(source).read_bytes() == BODY
    size = decimal(len(BODY))
    steps = (f"ml-100k.zip: 0 bytes of {size}", f"ml-100k.zip: {size} of {size}")
    places = [shown.index(words) for words in (source.publisher.licence, *steps, "is right")]
    assert places == sorted(places)
    assert datasets.load(NAME).n_observed == 20_000


def test_fetch_of_an_intact_set_does_nothing(publisher):
    run("fetch", NAME)
    code, shown = run("fetch", NAME)
    assert code == 0 and "on this machine already, intact" in shown
    assert len(publisher.asked) == 1


def test_a_set_in_another_form_is_left_alone(publisher, tmp_path):
    (tmp_path / "data" / "ml-100k").mkdir(parents=True)
    (tmp_path / "data" / "ml-100k" / "u.data").write_text("196\t242\t3\t881250949\n")
    code, shown = run("fetch", NAME)
    assert code == 0 and "on this machine already" in shown and "no checksum" in shown and "intact" not in shown
    assert publisher.asked == []


def test_a_damaged_set_is_fetched_again(publisher):
    path = datasets.fetch(NAME)
    path.write_bytes(BODY[:-10])
    code, shown = run("fetch", NAME)
    assert code == 0 and f"{path} is damaged" in shown and path.read_bytes() == BODY


def test_a_lost_connection_is_one_sentence_and_no_traceback(publisher):
    publisher.cut = 20_000
    code, shown = run("fetch", NAME)
    assert code == 1 and "Error: Cannot fetch" in shown and "Traceback" not in shown
    publisher.cut = None
    assert run("fetch", NAME)[0] == 0 and datasets.load(NAME).n_observed == 20_000


def test_an_interrupt_says_how_to_start_again(publisher, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(datasets, "download", interrupted)
    code, shown = run("fetch", NAME)
    assert code == 130 and shown.endswith(f"Stopped; `rankwise data fetch {NAME}` starts again.\n")


@pytest.mark.slow
def test_an_interrupt_at_the_question_is_one_too(publisher):
    code, shown = on_terminal(publisher, answer=b"\x03")
    assert code == 130 and "Stopped; nothing was written." in shown and "Aborted" not in shown
    assert publisher.asked == []


@pytest.mark.parametrize("command", ["info", "fetch"])
def test_an_unknown_set_is_answered_with_the_known_ones(command):
    with pytest.raises(click.ClickException, match="movielens-10m"):
        main(["data", command, "netflix"], standalone_mode=False)


@pytest.mark.slow
@pytest.mark.parametrize("answer", [b"n\n", b"y\n"])
def test_a_terminal_is_asked_and_shows_a_bar(publisher, tmp_path, answer):
    code, shown = on_terminal(publisher, answer=answer)
    assert "Download it on these terms?" in shown and SOURCES[NAME].publisher.licence[:30] in shown
    target = SOURCES[NAME].target(tmp_path / "data")
    if answer == b"n\n":
        assert code == 1 and publisher.asked == [] and not target.exists()
    else:
        assert code == 0 and target.read_bytes() == BODY and "━" in shown and "kB" in shown


def test_yes_takes_the_terms_as_read(publisher, tmp_path):
    code, shown = on_terminal(publisher, "--yes", answer=b"")
    assert code == 0 and "Download it on these terms?" not in shown
    assert SOURCES[NAME].target(tmp_path / "data").read_bytes() == BODY
