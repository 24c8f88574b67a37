"""Tables for people on a terminal, and the same without colours and lines for files and pipes."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

PIPED_WIDTH = 120  # a pipe has no width of its own, and wrapped cells are hard to search


def console() -> Console:
    """Standard output as it is now."""
    width = None if sys.stdout.isatty() else PIPED_WIDTH
    return Console(highlight=False, markup=False, soft_wrap=True, width=width)


def table(
    out: Console, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, last: Sequence[str] = ()
) -> None:
    """Print rows of text under a title; a column whose name starts with ``>`` is flush right.

    The row `last`, if any, is set apart below the others.
    """
    plain = not out.is_terminal
    found = Table(title=title, title_justify="left", title_style="bold", box=None if plain else box.SIMPLE_HEAD)
    for name in columns:
        found.add_column(name.lstrip(">"), justify="right" if name.startswith(">") else "left")
    for row in rows:
        found.add_row(*row)
    if last:
        found.add_section()
        found.add_row(*last, style="bold")
    out.print(found)
    if plain:
        out.print()


def size_of(path: Path) -> str:
    """Size of a file in words."""
    return decimal(path.stat().st_size)
