"""Standard streams and signals: text without control characters, closed streams, and SIGTERM."""

import io
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TextIO

import click

# Control characters but tab and newline, and those that change the direction of writing.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    r"""Return text with control characters escaped, such as ``\x1b``.

    Labels, facts and names of files come from others, and a terminal obeys the control characters in them.
    """
    return CONTROL.sub(lambda character: character[0].encode("unicode_escape").decode(), text)


def echo(text: str, *, err: bool = False) -> None:
    """Print a line to standard output, or to standard error."""
    click.echo(printable(text), err=err)


class Printable:
    """The part of a stream that a CSV writer uses; escapes control characters if the stream is a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write text; a file or a pipe receives it unchanged."""
        return self.stream.write(printable(text) if self.stream.isatty() else text)


def open_streams() -> None:
    """Replace closed standard streams, which are None, and let no character of a label end a command."""
    sys.stdout, sys.stderr = sys.stdout or _nowhere(), sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _nowhere() -> TextIO:
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


@contextmanager
def unwinding_at_sigterm() -> Iterator[None]:
    """Let SIGTERM raise `SystemExit`, so that temporary files are removed; a second one is ignored meanwhile."""
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _exit(signum: int, frame: FrameType | None) -> None:
    signal.signal(signum, signal.SIG_IGN)
    raise SystemExit(128 + signum)
