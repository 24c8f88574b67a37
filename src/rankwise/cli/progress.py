"""Progress of a fit: a bar on a terminal, lines elsewhere; Ctrl-C stops the fit after the current step."""

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
from .formatting import PlainConsole, format_decimals, format_number

INTERVAL = 1.0  # seconds between two lines, if there are many steps
SHORT_RUN = 40  # number of steps up to which each has a line
PHASES = ("compiling", "choosing", "checkpoint")  # log records of the solver loop that are shown
STOPPING = "stopping after this step; Ctrl-C again stops at once and keeps no model"


class FitProgress(logging.Handler):
    """Callback of a fit, and context manager around it."""

    def __init__(
        self,
        total: int | None = None,
        time_limit: float | None = None,
        out: Console | None = None,
        at_least: bool = False,
    ) -> None:
        super().__init__(logging.DEBUG)
        self.total, self.time_limit = total, time_limit  # steps and seconds, if they are known
        self.of = f" of {total}{' or more' if at_least else ''}"
        self.out = out or PlainConsole(stderr=True)  # standard output holds results only
        self.stopped = False  # whether Ctrl-C was pressed
        self.n_steps = 0
        self._bar: Progress | None = None
        self._task: Any = None
        self._printed = 0.0
        self._sigint: Any = None
        self._level = logging.NOTSET

    def __enter__(self) -> "FitProgress":
        """Start the bar, and handle log records and SIGINT."""
        logger = logging.getLogger("rankwise")
        self._level = logger.level
        logger.setLevel(logging.DEBUG)
        logger.addHandler(self)
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
            self._sigint = signal.signal(signal.SIGINT, self._interrupt)
        if self.out.is_terminal:
            columns = TextColumn("{task.description}"), BarColumn(10), TextColumn("{task.fields[state]}")
            remaining = TimeRemainingColumn(compact=True), TextColumn("left")
            self._bar = Progress(*columns, *remaining, console=self.out)  # fits into 80 characters
            self._task = self._bar.add_task("starting", total=self.total or self.time_limit, state="")
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the bar, and restore the logger and the handler of SIGINT."""
        if self._bar is not None:
            self._bar.stop()
        if self._sigint is not None:
            signal.signal(signal.SIGINT, self._sigint)
        logger = logging.getLogger("rankwise")
        logger.removeHandler(self)
        logger.setLevel(self._level)

    def __call__(self, record: Record) -> bool:
        """Show a step; return whether the fit shall stop."""
        self.n_steps = record.step
        if self._bar is not None:
            completed = record.step if self.total else record.wall_seconds
            description = "stopping" if self.stopped else self._step(record)
            self._bar.update(self._task, description=description, completed=completed, state=describe(record))
        elif (
            (self.total or SHORT_RUN + 1) <= SHORT_RUN
            or record.step == 1
            or time.monotonic() - self._printed > INTERVAL
        ):
            self._print(f"{self._step(record)}: {describe(record)}, {record.wall_seconds:.1f} s")
        return self.stopped

    def emit(self, record: logging.LogRecord) -> None:
        """Print log records on what the solver loop does between steps."""
        if record.__dict__.get("phase") in PHASES:
            self._print(record.getMessage())

    def _step(self, record: Record) -> str:
        known = self.total and record.step <= self.total
        return f"step {record.step}" + (self.of if known else "")

    def _print(self, line: str) -> None:
        self._printed = time.monotonic()
        self.out.print(line)

    def _interrupt(self, signum: int, frame: FrameType | None) -> None:
        if self.stopped or not self.n_steps:  # there is no model to keep before the first step has ended
            raise KeyboardInterrupt
        self.stopped = True
        if self._bar is None:
            os.write(2, f"\n{STOPPING}\n".encode())  # a buffered stream may be in the middle of a line
        else:
            self._bar.update(self._task, description="stopping")
            self._print(STOPPING)


def describe(record: Record) -> str:
    """Return the rank, the objective and the validation score of a step as text."""
    score = "" if record.score is None else f", held out {format_decimals(record.score)}"
    return f"rank {record.rank}, objective {format_number(record.value)}{score}"
