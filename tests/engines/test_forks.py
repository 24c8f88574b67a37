"""Processes that are forked after a fit, or during one, fit themselves; shared files are not changed."""

import os
import signal
import sys
import threading
import time
import traceback

import numpy as np
import pytest
from clusters import some_entries, tiny_shards
from numba.core.compiler_lock import global_compiler_lock

from rankwise import Problem, SettingError, ShardFolder, write_shards
from rankwise.losses import Square

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),  # Python warns of forks beside threads
]


def in_child(work, seconds=30):
    """Exit code of a forked process that calls `work`; negative if it was still running after so many seconds."""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture
def problem(monkeypatch):
    """On two threads, which have run."""
    tiny_shards(monkeypatch)
    made = Problem(some_entries(), Square(), n_jobs=2)
    made.value()
    assert made.engine.pool._pool is not None
    yield made
    made.close()


def gradient(problem):
    """A pass over the entries, summed over shards."""
    return problem.gradient() @ np.ones(problem.shape[1])


def test_a_problem_whose_threads_have_run_is_used_on_both_sides_of_a_fork(problem):
    wanted = gradient(problem)

    def child():
        assert np.array_equal(gradient(problem), wanted)
        problem.close()
        assert np.array_equal(gradient(problem), wanted)

    assert in_child(child) == 0
    assert np.array_equal(gradient(problem), wanted)


def test_a_process_forked_while_another_thread_works_fits_too(problem):
    """A hundred passes are under way in another thread, and one holds the compiler when the process is forked."""
    wanted, compiling = gradient(problem), threading.Event()

    def passes():
        busy = Problem(some_entries(), Square(), n_jobs=2)
        for _ in range(100):
            gradient(busy)
        busy.close()

    def compiles():
        with global_compiler_lock:
            compiling.set()
            time.sleep(0.3)

    def child():
        assert np.array_equal(gradient(Problem(some_entries(), Square(), n_jobs=2)), wanted)
        with global_compiler_lock:
            pass

    others = [threading.Thread(target=work) for work in (passes, compiles)]
    for other in others:
        other.start()
    compiling.wait()
    assert in_child(child) == 0
    for other in others:
        other.join()


def test_a_forked_process_does_not_change_the_files_of_its_parent(tmp_path, monkeypatch):
    tiny_shards(monkeypatch)
    entries = some_entries()
    folder = write_shards([(entries.rows, entries.cols, entries.targets)], tmp_path / "shards", shape=entries.shape)
    problem = Problem(ShardFolder(folder), Square())
    wanted = gradient(problem)

    def child():
        with pytest.raises(SettingError, match="by the process that made it"):
            gradient(problem)
        assert np.array_equal(gradient(Problem(ShardFolder(folder), Square())), wanted)

    assert in_child(child) == 0
    assert np.array_equal(gradient(problem), wanted)
    problem.close()
