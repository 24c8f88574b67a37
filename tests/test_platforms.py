"""Calls that exist on POSIX systems only are guarded: fits run after they have been taken away."""

import ast
import builtins
import os
import subprocess
import sys

import pytest
from helpers import ROOT

from rankwise.solvers import validation

PACKAGE = ROOT / "src" / "rankwise"
POSIX_MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
POSIX_NAMES = {
    *(
        "chown",
        "chroot",
        "confstr",
        "ctermid",
        "fchdir",
        "fchmod",
        "fchown",
        "fdatasync",
        "fork",
        "forkpty",
        "fpathconf",
    ),
    *("fstatvfs", "getegid", "geteuid", "getgid", "getgroups", "getloadavg", "getpgid", "getpgrp", "getpriority"),
    *("getresuid", "getsid", "getuid", "initgroups", "killpg", "lchown", "lockf", "memfd_create", "mkfifo", "mknod"),
    *("nice", "openpty", "pathconf", "pipe2", "posix_fadvise", "posix_fallocate", "posix_spawn", "pread", "preadv"),
    *("pwrite", "pwritev", "readv", "register_at_fork", "sched_getaffinity", "sched_yield", "sendfile", "setgid"),
    *("setpgid", "setpriority", "setsid", "setuid", "statvfs", "sync", "sysconf", "tcgetpgrp", "ttyname", "uname"),
    *("wait", "wait3", "wait4", "writev", "O_CLOEXEC", "O_DIRECTORY", "O_DSYNC", "O_NOFOLLOW", "O_NONBLOCK", "O_SYNC"),
}
# Where each is used, behind a guard that a test covers by taking the function away.
GUARDED = {
    "engines/disk.py": {"posix_fallocate"},
    "kernels/__init__.py": {"register_at_fork"},
    "kernels/cache.py": {"getuid", "grp", "pwd"},
    "solvers/validation.py": {"sysconf"},
}


def posix_calls(source: str) -> set[str]:
    """Names of POSIX-only functions of `os` and of POSIX-only modules in a file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Name(id="os"), attr=name) if name in POSIX_NAMES:
                names.add(name)
            case ast.Import(names=aliases):
                names |= {alias.name for alias in aliases} & POSIX_MODULES
            case ast.ImportFrom(module="os", names=aliases):
                names |= {alias.name for alias in aliases} & POSIX_NAMES
            case ast.ImportFrom(module=str(module)):
                names |= {module} & POSIX_MODULES
    return names


def test_posix_calls_are_those_with_a_guard():
    calls = {
        path.relative_to(PACKAGE).as_posix(): posix_calls(path.read_text(encoding="utf-8"))
        for path in PACKAGE.rglob("*.py")
    }
    unguarded = {file: names - GUARDED.get(file, set()) for file, names in calls.items()}
    unguarded = {file: names for file, names in unguarded.items() if names}
    assert not unguarded, f"POSIX only: {unguarded}. Guard them, test the guard, and add them to GUARDED."


@pytest.mark.parametrize("source", ["import os\nos.fork()", "from os import fork", "import fcntl", "from pwd import x"])
def test_the_checker_sees_posix_calls(source):
    assert len(posix_calls(source)) == 1


def test_memory_is_unknown_where_the_system_does_not_tell(monkeypatch):
    def missing(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr(builtins, "open", missing)
    monkeypatch.delattr(os, "sysconf")
    assert validation.available_bytes() is None


WITHOUT_POSIX = """
import os, sys
import numba, numpy, scipy.optimize, sklearn.metrics  # they have guards of their own
for name in {names!r}:
    if hasattr(os, name):
        delattr(os, name)
for name in {modules!r}:
    sys.modules[name] = None  # `import` raises ImportError
import rankwise as rw
signs = rw.datasets.signed_network(30, 20, rank=2, density=0.4).observations
estimator = rw.MatrixCompletion("logistic", 2, method="eglrl", checkpoint="checkpoints").fit(signs)
estimator.save("model.rankwise")
print(rw.load("model.rankwise").predict_entries([1], [2]).shape)
"""


def test_a_fit_with_checkpoints_runs_without_posix_calls(tmp_path):
    used = sorted(set().union(*GUARDED.values()))
    source = WITHOUT_POSIX.format(names=used, modules=["fcntl"])
    done = subprocess.run([sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "(1,)"
