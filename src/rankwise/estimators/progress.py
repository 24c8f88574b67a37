"""A fit that says how far it is: a line per step, or a bar in a notebook."""

import sys
from collections.abc import Callable
from html import escape
from typing import Any, NamedTuple

from .._errors import SettingError
from ..solvers import Record

Callback = Callable[[Record], bool | None]


class Aim(NamedTuple):
    """Where a fit is going: a rank, or a number of steps."""

    title: str
    grows: bool
    total: int | None

    def done(self, record: Record) -> int:
        """How far it is."""
        return record.rank if self.grows else record.step

    def in_words(self, record: Record) -> str:
        """One step in a line."""
        of = "" if self.total is None else f" of {self.total}"
        step, rank = ("", of) if self.grows else (of, "")
        score = "" if record.score is None else f", held-out loss {record.score:.4g}"
        return (
            f"{self.title} step {record.step}{step}: rank {record.rank}{rank}, value {record.value:.6g}{score}, "
            f"{record.wall_seconds:.2f} s"
        )


def watched(callback: Callback | None, verbose: Any, aim: Aim) -> Callback | None:
    """The callback, with progress shown before it if `verbose` is 1."""
    if verbose not in (0, 1):
        raise SettingError(f"`verbose` must be 0 or 1, got {verbose!r}.")
    if not verbose:
        return callback
    show: Any = Bar(aim) if in_notebook() else Lines(aim)

    def both(record: Record) -> bool | None:
        show(record)
        return None if callback is None else callback(record)

    return both


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this: one that can show HTML."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and hasattr(shell, "kernel")


class Lines:
    """A line per step on standard error."""

    def __init__(self, aim: Aim) -> None:
        self.aim = aim

    def __call__(self, record: Record) -> None:
        """Say one step."""
        sys.stderr.write(f"{self.aim.in_words(record)}\n")
        sys.stderr.flush()


class Bar:
    """A bar in a notebook that moves with every step."""

    def __init__(self, aim: Aim) -> None:
        self.aim = aim
        self.handle: Any = None

    def __call__(self, record: Record) -> None:
        """Move to this step."""
        display = sys.modules["IPython.display"]
        shown = display.HTML(self.html(record))
        if self.handle is None:
            self.handle = display.display(shown, display_id=True)
        else:
            self.handle.update(shown)

    def html(self, record: Record) -> str:
        """The bar after this step."""
        done, total = self.aim.done(record), self.aim.total
        bar = "" if total is None else f'<progress value="{done}" max="{total}"></progress> '
        return f"<div>{bar}{escape(self.aim.in_words(record))}</div>"
