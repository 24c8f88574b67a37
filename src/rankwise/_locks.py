"""Locks on files and folders, which keep apart those who write to one place: in other processes and in this one."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows: there, nobody is kept apart
    fcntl = None  # type: ignore[assignment]

LOCKS = fcntl is not None


def is_taken(opened: int, wait: bool = False) -> bool:
    """Whether another has the lock of what `opened` describes; if not, it is held until `release` or the process ends.

    With `wait` it is waited for. What lies on a file system without locks is taken by nobody.
    """
    if fcntl is not None:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError as error:
            return error.errno in (errno.EACCES, errno.EAGAIN)
    return False


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Wait until nobody else is in here with this folder."""
    if not LOCKS:
        yield
        return
    place = os.open(folder, os.O_RDONLY)
    try:
        is_taken(place, wait=True)
        yield
    finally:
        release(place)


def release(opened: int) -> None:
    """Give the lock back, also if a process that was forked meanwhile has it open too, and close."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(opened, fcntl.LOCK_UN)
    os.close(opened)
