"""Progress of a fit with ``verbose=1``: a line per step on standard error, or a bar in a notebook."""

import sys
from collections.abc import Callable
from functools import partial
from html import escape
from typing import Any, NamedTuple

from .._checks import check_choice
from ..solvers import Record

Callback = Callable[[Record], bool | None]


class Aim(NamedTuple):
    """Target of a fit: a rank if the solver adds terms (`grows`), else a number of steps; None if unknown.

    With `at_least`, the solver takes more steps where that helps.
    """

    title: str
    grows: bool
    total: int | None
    at_least: bool = False

    def done(self, record: Record) -> int:
        """Return the rank or the number of steps reached."""
        return record.rank if self.grows else record.step

    def describe(self, record: Record) -> str:
        """Describe a step in one line."""
        known = self.total is not None and self.done(record) <= self.total
        of = f" of {self.total}{' or more' if self.at_least else ''}" if known else ""
        step, rank = ("", of) if self.grows else (of, "")
        score = "" if record.score is None else f", held-out loss {record.score:.4g}"
        return (
            f"{self.title} step {record.step}{step}: rank {record.rank}{rank}, value {record.value:.6g}{score}, "
            f"{record.wall_seconds:.2f} s"
        )


def watched(callback: Callback | None, verbose: object, aim: Aim) -> Callback | None:
    """Return a callback that shows progress if `verbose` is 1, then calls `callback`."""
    check_choice("verbose", verbose, (0, 1))
    if not verbose:
        return callback
    show = Bar(aim) if in_notebook() else partial(print_line, aim)

    def both(record: Record) -> bool | None:
        show(record)
        return None if callback is None else callback(record)

    return both


def in_notebook() -> bool:
    """Return whether the code runs in a notebook kernel, which can show HTML."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and hasattr(shell, "kernel")


def print_line(aim: Aim, record: Record) -> None:
    """Write a line about a step to standard error."""
    print(aim.describe(record), file=sys.stderr, flush=True)


class Bar:
    """Progress as an HTML bar in a notebook."""

    def __init__(self, aim: Aim) -> None:
        self.aim = aim
        self.handle: Any = None

    def __call__(self, record: Record) -> None:
        """Update the bar."""
        display = sys.modules["IPython.display"]
        shown = display.HTML(self.html(record))
        if self.handle is None:
            self.handle = display.display(shown, display_id=True)
        else:
            self.handle.update(shown)

    def html(self, record: Record) -> str:
        """Return the HTML of the bar."""
        done, total = self.aim.done(record), self.aim.total
        bar = "" if total is None else f'<progress value="{done}" max="{total}"></progress> '
        return f"<div>{bar}{escape(self.aim.describe(record))}</div>"
