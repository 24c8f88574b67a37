"""A fit as it is watched: a bar on a terminal, lines elsewhere, and Ctrl-C as a wish to stop after the running step."""

import logging
import os
import signal
import threading
import time
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ..solvers.history import Record
from .words import decimals, number

LONG = 1.0  # seconds of silence after which a line is due
FEW = 40  # steps that are worth a line each
STOPPING = "stopping after this step; Ctrl-C again stops at once and keeps no model"


class Watch(logging.Handler):
    """Callback of a fit; use it in a `with`.

    Parameters
    ----------
    total : int, optional
        Steps that the fit will take, if that is known.
    time_limit : float, optional
        Seconds after which it stops.
    out : Console, optional
        Standard error by default, so that standard output has results only.
    """

    def __init__(self, total: int | None = None, time_limit: float | None = None, out: Console | None = None) -> None:
        super().__init__(logging.DEBUG)
        self.total, self.time_limit = total, time_limit
        self.out = out or Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        self.stopped, self.n_steps = False, 0
        self._bar: Progress | None = None
        self._task: Any = None
        self._told = 0.0
        self._before: Any = None
        self._level = logging.NOTSET

    def __enter__(self) -> "Watch":
        """Start watching."""
        logger = logging.getLogger("rankwise")
        self._level = logger.level
        logger.setLevel(logging.DEBUG)
        logger.addHandler(self)
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
            self._before = signal.signal(signal.SIGINT, self._interrupted)
        if self.out.is_terminal:
            looks = TextColumn("{task.description}"), BarColumn(10), TextColumn("{task.fields[about]}")
            left = TimeRemainingColumn(compact=True), TextColumn("left")
            self._bar = Progress(*looks, *left, console=self.out)  # all of it fits into 80 characters
            self._task = self._bar.add_task("starting", total=self.total or self.time_limit, about="")
            self._bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        """Leave everything as it was."""
        if self._bar is not None:
            self._bar.stop()
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        logger = logging.getLogger("rankwise")
        logger.removeHandler(self)
        logger.setLevel(self._level)

    def __call__(self, record: Record) -> bool:
        """Show a step; true if the fit shall stop here."""
        self.n_steps = record.step
        if self._bar is not None:
            done = record.step if self.total else record.wall_seconds
            words = "stopping" if self.stopped else self._step(record)
            self._bar.update(self._task, description=words, completed=done, about=about(record))
        elif (self.total or FEW + 1) <= FEW or record.step == 1 or time.monotonic() - self._told > LONG:
            self._say(f"{self._step(record)}: {about(record)}, {record.wall_seconds:.1f} s")
        return self.stopped

    def emit(self, record: logging.LogRecord) -> None:
        """Hear from the loop what it does beside its steps."""
        if getattr(record, "phase", None) in ("compiling", "choosing", "checkpoint"):
            self._say(record.getMessage())

    def _step(self, record: Record) -> str:
        return f"step {record.step}" + (f" of {self.total}" if self.total else "")

    def _say(self, words: str) -> None:
        self._told = time.monotonic()
        self.out.print(words)

    def _interrupted(self, signum: int, frame: FrameType | None) -> None:
        if self.stopped or not self.n_steps:  # nothing to keep before the first step
            raise KeyboardInterrupt
        self.stopped = True
        if self._bar is None:
            os.write(2, f"\n{STOPPING}\n".encode())  # a buffered stream may be in the middle of a line
        else:
            self._bar.update(self._task, description="stopping")
            self._say(STOPPING)


def about(record: Record) -> str:
    """A step in words."""
    score = "" if record.score is None else f", held out {decimals(record.score)}"
    return f"rank {record.rank}, objective {number(record.value)}{score}"
