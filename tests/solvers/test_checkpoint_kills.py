"""kill -9 at any moment, and the fit goes on to the same bits.

Run as a script, this file is a host that compiles once and then forks children, which are killed: by themselves at
their n-th call of the file system, so that every moment of writing a checkpoint has its turn, or from outside at random
times.
"""

import io
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from fits import digest, fit
from helpers import ROOT, make_observations

from rankwise import Checkpoint, Problem, ShardFolder, _files, solve, write_shards
from rankwise.losses import Logistic, Square
from rankwise.solvers import BayesSweeps, GreedyPursuit

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork"),
]
KINDS = {"open", "write", "fsync", "replace", "unlink", "step"}
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # hundreds of files, each waited for
NAMES = ("coefficients", "ridge", "nonsmooth", "geco", "altmin", "ais-impute", "factors", "bayes, block by block")


def ask(*what):
    """What the host says of some kills, one line for each."""
    command, env = (
        [sys.executable, "-W", "error", __file__, *map(str, what)],
        {
            **os.environ,
            "OPENBLAS_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT / "tests"))),
        },
    )
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(lines, n_kills):
    """Every fit was killed and ended with the bits of the one that was not, its folder in order."""
    wrong = [line for line in lines if not (line["killed"] and line["same"] and line["left"] == 2)]
    assert len(lines) == n_kills and not wrong


def test_killed_at_every_call_of_the_file_system():
    n = ask("count", "economic")[0]["n"]
    lines = ask("calls", "economic", *range(1, n + 1))
    check(lines, n)
    assert n > 100 and {line["at"] for line in lines} == KINDS


@pytest.mark.parametrize("name", NAMES)
def test_killed_at_some_calls_of_the_file_system(name):
    n = ask("count", name)[0]["n"]
    check(ask("calls", name, *random.Random(name).sample(range(1, n + 1), 20)), 20)


@pytest.mark.parametrize("name", ["economic", "bayes", "economic, from disk", "bayes, from disk"])
def test_killed_from_outside_at_random_times_on_two_threads(name):
    lines = ask("times", name, 20)
    check(lines, 20)
    assert len({line["at"] for line in lines}) > 3  # they went on from different steps


@pytest.mark.parametrize("name", ["economic", "bayes"])
def test_killed_again_and_again(name):
    (line,) = ask("again", name)
    assert line["same"] and line["kills"] >= 20


# The host, and its children.

count, chosen = 0, 0  # moments so far, and the one that is the last


class Counted(io.BufferedRandom):
    """A file whose writes are moments."""

    def write(self, content):
        tick("write")
        return super().write(content)


def tick(kind):
    """One more moment."""
    global count
    count += 1
    if count == chosen:
        os.write(2, kind.encode())
        os.kill(os.getpid(), signal.SIGKILL)


def watch_the_file_system():
    """Moments are before and after each call, and before each write."""
    for module, kind in ((os, "fsync"), (os, "replace"), (Path, "unlink")):
        real = getattr(module, kind)

        def counted(*args, real=real, kind=kind, **options):
            tick(kind)
            found = real(*args, **options)
            tick(kind)
            return found

        setattr(module, kind, counted)

    def opened(path, mode):
        tick("open")
        file = Counted(io.FileIO(path, "x+"))
        tick("open")
        return file

    _files.open = opened


def short_fit(name, folder=None):
    kept = {"checkpoint": Checkpoint(folder, every=1, resume=True)} if folder else {}
    return digest(fit(name, callback=lambda record: tick("step"), **kept))


def long_fit(name, folder=None, n_jobs=2):
    """A fit of some tenths of a second, on several shards; without a folder always in memory."""
    loss, solver = (Square(), BayesSweeps()) if "bayes" in name else (Logistic(), GreedyPursuit("economic"))
    observations = make_observations(loss, np.random.default_rng(2), (1500, 400), 0.25)
    if "disk" in name and folder:
        shards = Path(ROOM.name, name)
        if not shards.exists():
            entries = observations.rows, observations.cols, observations.targets
            write_shards([entries], shards, shape=observations.shape)
        observations = ShardFolder(shards)
    kept = {"checkpoint": Checkpoint(folder, every=1, resume=True)} if folder else {}
    return digest(solve(Problem(observations, loss, n_jobs=n_jobs), solver, rank=8, max_iter=10, tol=0.0, **kept))


def forked(work, at=0, seconds=None):
    """Do something in a child that is killed at a moment or after some seconds; whether it was, and at what."""
    global count, chosen
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write, 2)
        count, chosen = 0, at
        work()
        os._exit(0)
    os.close(write)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    with os.fdopen(read) as said:
        return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, said.read()


def left_in(folder):
    """Files beside the lock."""
    return len(os.listdir(folder)) - 1


def by_calls(name, *moments):
    whole = short_fit(name)
    for at in moments:
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            killed, kind = forked(lambda folder=folder: short_fit(name, folder), int(at))
            yield {"at": kind, "killed": killed, "same": short_fit(name, folder) == whole, "left": left_in(folder)}


def by_times(name, n):
    whole, rng = long_fit(name), random.Random(name)
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        begun = time.perf_counter()
        long_fit(name, folder)
        seconds = time.perf_counter() - begun
    n_killed = 0
    while n_killed < int(n):
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            killed, _ = forked(lambda folder=folder: long_fit(name, folder), seconds=rng.uniform(0.02, seconds))
            at = max((path.name for path in Path(folder).glob("step-*")), default="")
            same = long_fit(name, folder, n_jobs=1) == whole
            if killed:  # it may have been done sooner than the one that was timed
                n_killed += 1
                yield {"at": at, "killed": killed, "same": same, "left": left_in(folder)}


def again_and_again(name):
    whole, rng, kills, killed = short_fit(name), random.Random(name), 0, True
    (moments,) = (found["n"] for found in number_of_moments(name))
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        while killed:  # at first so soon that hardly a checkpoint is written, then late enough to come to an end
            soon = rng.randint(1, moments // 10 if kills < 20 else moments // 2)
            killed = forked(lambda: short_fit(name, folder), soon)[0]
            kills += killed
        yield {"kills": kills, "same": short_fit(name, folder) == whole}


def number_of_moments(name):
    global count
    short_fit(name)  # compiles, and opens the cache of the kernels, which touches files too
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        count = 0
        short_fit(name, folder)
        yield {"n": count}


if __name__ == "__main__":
    ROOM = tempfile.TemporaryDirectory(dir=MEMORY)  # for shards on disk
    what, name, *wanted = sys.argv[1:]
    if what != "times":
        watch_the_file_system()
    works = {"calls": by_calls, "times": by_times, "again": again_and_again, "count": number_of_moments}
    for found in works[what](name, *wanted):
        print(json.dumps(found), flush=True)
    ROOM.cleanup()
