"""Downloads end whole and checked, or not at all: over slow, cut, wrong and missing connections. No real network."""

import os
import signal
import socket
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from publisher import packed, publishing

from rankwise import RankwiseError, datasets
from rankwise.datasets.sources import SOURCES

PUBLISHED = Path(os.environ.get("RANKWISE_DATA") or "nowhere")  # as it is before a test sets its own
BODY = np.random.default_rng(0).bytes(300_000)
OTHER = np.random.default_rng(1).bytes(300_000)
RATINGS = "1{0}122{0}5{0}838985046\n1{0}185{0}4.5{0}838983525\n7{0}122{0}0.5{0}838983392\n"
EDGES = "# Directed graph\n1\t4\t-1\n1\t5\t1\n2\t4\t1\n2\t5\t1\n3\t5\t-1\n"
TEXTS = {name: EDGES for name in ("epinions", "slashdot")} | {
    "movielens-100k": RATINGS.format("\t"),
    "movielens-1m": RATINGS.format("::"),
    "movielens-10m": RATINGS.format("::"),
}
FETCH = """
import sys
from dataclasses import replace
from rankwise.cli import main
from rankwise.datasets import SOURCES
SOURCES["movielens-100k"] = replace(SOURCES["movielens-100k"], address=sys.argv[1], sha256=sys.argv[2])
main(["data", "fetch", "movielens-100k"])
"""


@pytest.fixture(autouse=True)
def own_folders(monkeypatch, tmp_path):
    """Data folder and cache of the test's own; no proxy between us and the server."""
    monkeypatch.setenv("RANKWISE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")


def refusal(source, folder, **options):
    """The sentence that a download ends with; nothing may be under the final name."""
    with pytest.raises(RankwiseError) as caught:
        datasets.download(source, folder, **options)
    assert not source.target(folder).exists() and not list(folder.glob("*/[!.]*"))
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("length", ["known", "chunked", "none"])
def test_a_download_has_the_published_bytes_and_leaves_no_part(tmp_path, length):
    with publishing(BODY, length=length) as publisher:
        path = datasets.download(publisher.source(), tmp_path)
    assert path == tmp_path / "ml-100k" / "ml-100k.zip" and path.read_bytes() == BODY
    assert {*os.listdir(path.parent)} - {f".{path.name}.lock"} == {path.name}
    assert len(publisher.asked) == 1


@pytest.mark.parametrize("name", TEXTS)
def test_every_set_is_fetched_and_loaded_as_its_publisher_packs_it(monkeypatch, name):
    with publishing(packed(name, TEXTS[name])) as publisher:
        monkeypatch.setitem(SOURCES, name, publisher.source(name))
        path = datasets.fetch(name)
        assert datasets.fetch(name) == path and len(publisher.asked) == 1
    found = datasets.load(name)
    rows, cols = found.row_labels[found.rows].tolist(), found.col_labels[found.cols].tolist()
    entries = list(zip(rows, cols, found.targets.tolist(), strict=True))
    if "movielens" in name:
        assert entries == [(1, 122, 5), (1, 185, 4.5), (7, 122, 0.5)]
    else:  # row 3 has one entry and is filtered out
        assert entries == [(1, 4, -1), (1, 5, 1), (2, 4, 1), (2, 5, 1)]


@pytest.mark.parametrize("length", ["known", "chunked"])
def test_after_a_lost_connection_nothing_is_left_and_the_next_call_succeeds(tmp_path, length):
    with publishing(BODY, cut=150_000, length=length) as publisher:
        source = publisher.source()
        sentence = refusal(source, tmp_path)
        assert source.address in sentence and str(source.target(tmp_path)) in sentence
        publisher.cut = None
        assert datasets.download(source, tmp_path).read_bytes() == BODY


@pytest.mark.parametrize("served", [OTHER, BODY[:-1], BODY + b"x", b""], ids=["other", "short", "long", "empty"])
def test_wrong_bytes_are_deleted(tmp_path, served):
    with publishing(BODY) as publisher:
        source, publisher.body = publisher.source(), served
        assert "checksum" in refusal(source, tmp_path)


@pytest.mark.parametrize("status", [403, 404, 500])
def test_a_refusal_by_the_publisher_says_which_file_to_put_where(tmp_path, status):
    with publishing(BODY, status=status) as publisher:
        sentence = refusal(publisher.source(), tmp_path)
    assert f"HTTP status {status}" in sentence
    assert f"ml-100k.zip by other means and put it at {tmp_path / 'ml-100k' / 'ml-100k.zip'}" in sentence


def test_without_a_network_the_sentence_says_which_file_to_put_where(tmp_path):
    with publishing(BODY) as publisher:
        source = publisher.source()  # by now the server is gone, and its port refuses
    sentence = refusal(source, tmp_path)
    assert "refused" in sentence and f"put it at {tmp_path / 'ml-100k' / 'ml-100k.zip'}" in sentence


def test_a_server_that_says_nothing_is_given_up(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent, publishing(BODY) as publisher:
        publisher.port = silent.getsockname()[1]
        assert "timed out" in refusal(publisher.source(), tmp_path, timeout=0.2)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "ml-100k").write_text("a file where a folder should be")
    with publishing(BODY) as publisher:
        assert str(tmp_path / "ml-100k") in refusal(publisher.source(), tmp_path)
    assert publisher.asked == []


def test_a_full_disk_is_named(tmp_path):
    resource = pytest.importorskip("resource", reason="this system cannot limit the size of files")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with publishing(BODY) as publisher:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))  # files cannot grow beyond this
        try:
            sentence = refusal(publisher.source(), tmp_path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert str(tmp_path / "ml-100k") in sentence and "make room" in sentence


@pytest.mark.parametrize("length", ["known", "none"])
def test_progress_runs_from_zero_to_the_whole(tmp_path, length):
    reports, total = [], 300_000 if length == "known" else None
    with publishing(BODY, length=length) as publisher:
        datasets.download(publisher.source(), tmp_path, lambda *report: reports.append(report))
    assert reports[0] == (0, total) and reports[-1][0] >= 300_000 and {report[1] for report in reports} == {total}
    assert all(before[0] <= after[0] for before, after in pairwise(reports)) and len(reports) > 5


def test_an_interrupt_leaves_nothing(tmp_path):
    def stop_half_way(n_bytes, total):
        if n_bytes > total / 2:
            raise KeyboardInterrupt

    with publishing(BODY) as publisher:
        source = publisher.source()
        with pytest.raises(KeyboardInterrupt):
            datasets.download(source, tmp_path, stop_half_way)
        assert not list(tmp_path.glob("ml-100k/[!.]*"))
        assert datasets.download(source, tmp_path).read_bytes() == BODY


def test_fetch_leaves_what_is_intact_and_replaces_what_is_damaged(monkeypatch):
    with publishing(BODY) as publisher:
        monkeypatch.setitem(SOURCES, "movielens-100k", publisher.source())
        path = datasets.fetch("movielens-100k")
        path.write_bytes(OTHER)
        assert datasets.fetch("movielens-100k") == path and path.read_bytes() == BODY
        assert datasets.fetch("movielens-100k") == path
    assert len(publisher.asked) == 2


def test_downloads_go_to_the_named_folder_or_the_cache_and_both_are_searched(monkeypatch, tmp_path):
    body = packed("movielens-100k", TEXTS["movielens-100k"])
    with publishing(body) as publisher:
        monkeypatch.setitem(SOURCES, "movielens-100k", publisher.source())
        monkeypatch.delenv("RANKWISE_DATA")
        cached = datasets.fetch("movielens-100k")
        assert cached == tmp_path / "cache" / "rankwise" / "data" / "ml-100k" / "ml-100k.zip"
        monkeypatch.setenv("RANKWISE_DATA", str(tmp_path / "data"))
        assert datasets.fetch("movielens-100k") == cached and datasets.load("movielens-100k").n_observed == 3
        cached.unlink()
        assert datasets.fetch("movielens-100k") == tmp_path / "data" / "ml-100k" / "ml-100k.zip"
    assert len(publisher.asked) == 2


@pytest.mark.slow
def test_a_killed_download_leaves_no_wrong_file_and_the_next_ends_with_the_right_bytes(tmp_path):
    with publishing(BODY, pause=0.05) as publisher:
        source = publisher.source()
        target = source.target(tmp_path / "data")
        command = [sys.executable, "-c", FETCH, source.address, source.sha256]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as killed:
            while killed.poll() is None and publisher.sent < 50_000:
                time.sleep(0.01)
            killed.send_signal(signal.SIGKILL)
        assert killed.returncode == -signal.SIGKILL and not target.exists()
        publisher.pause = 0.0
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert target.read_bytes() == BODY


@pytest.mark.slow
def test_two_processes_that_fetch_the_same_set_fetch_it_once(tmp_path):
    with publishing(BODY, pause=0.02) as publisher:
        source = publisher.source()
        command = [sys.executable, "-c", FETCH, source.address, source.sha256]
        both = [subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) for _ in range(2)]
        said = [process.communicate(timeout=240)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert all(b"its checksum is right" in words or b"is on this machine already, intact" in words for words in said)
    path = source.target(tmp_path / "data")
    assert path.read_bytes() == BODY and {*os.listdir(path.parent)} - {f".{path.name}.lock"} == {path.name}
    assert len(publisher.asked) == 1


@pytest.mark.parametrize("name", SOURCES)
def test_the_checksums_and_sizes_are_those_of_the_published_files(name):
    path = SOURCES[name].target(PUBLISHED)
    if not path.is_file():
        pytest.skip(f"{SOURCES[name].published} is not in RANKWISE_DATA")
    assert SOURCES[name].matches(path) and path.stat().st_size == SOURCES[name].n_bytes
