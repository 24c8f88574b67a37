"""Formatting of command output: tables and numbers for people, JSON for programs, and the command line itself."""

import json
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from ..losses import Loss
from .terminal import printable

PIPE_WIDTH = 120  # characters; a pipe has no width of its own, and wrapped cells are hard to search


class PlainConsole(Console):
    """A console that prints text as it is, but for control characters, and without wrapping."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, soft_wrap=True, stderr=stderr, width=width)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return text for the terminal; rich calls this for every string, those in tables included."""
        return super().render_str(printable(text), **options)


def console() -> PlainConsole:
    """Return a console for standard output."""
    return PlainConsole(width=None if sys.stdout.isatty() else PIPE_WIDTH)


def print_table(out: Console, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows of text under a title, without lines and colors if `out` is not a terminal.

    A column whose name starts with ``>`` is aligned to the right.
    """
    style = box.SIMPLE_HEAD if out.is_terminal else None
    table = Table(title=title, title_justify="left", title_style="bold", box=style)
    for name in columns:
        table.add_column(name.lstrip(">"), justify="right" if name.startswith(">") else "left")
    for row in rows:
        table.add_row(*row)
    out.print(table)
    if not out.is_terminal:
        out.print()


def file_size(path: Path) -> str:
    """Return the size of a file with a unit: `1.2 MB`."""
    return decimal(path.stat().st_size)


def describe_loss(loss: Loss | None) -> str:
    """Return the name of a loss and its numeric parameters: `huber (delta 1.345)`."""
    if loss is None:
        return "not known"
    numbers = ", ".join(f"{name} {value:.4g}" for name, value in vars(loss).items() if isinstance(value, int | float))
    return loss.name + (f" ({numbers})" if numbers else "")


def format_number(value: float) -> str:
    """Return a number with six significant digits, or rounded to an integer if that has more."""
    return f"{value:,.0f}" if 1e5 <= abs(value) < 1e15 else f"{value:,.6g}"


def format_decimals(value: float, n: int = 4) -> str:
    """Return a number with `n` decimals; with `n` significant digits if it is too small or too large for that."""
    return f"{value:.{n}f}" if value == 0 or 10.0 ** (2 - n) <= abs(value) < 1e9 else f"{value:.{n}g}"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: `1 entry`, `2,000 entries`."""
    nouns = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else nouns}"


def to_json(value: object) -> str:
    """Return JSON, with null for numbers that are not finite, which JSON cannot represent."""
    return json.dumps(json.loads(json.dumps(value, default=str), parse_constant=lambda name: None))


def command_line(ctx: click.Context) -> str:
    """Return the running command with the options that were typed, and file names without their folders."""
    words = ["rankwise", ctx.command.name or ""]
    for param in ctx.command.params:
        value = ctx.params[param.name or ""]
        if ctx.get_parameter_source(param.name or "") != click.core.ParameterSource.COMMANDLINE:
            continue
        if isinstance(param, click.Option):
            names = param.secondary_opts if value is False and param.secondary_opts else param.opts
            words.append(max(names, key=len))
        if not (isinstance(param, click.Option) and param.is_flag):
            words.append(_typed(value))
    return shlex.join(words)


def _typed(value: object) -> str:
    if isinstance(value, Path):
        return value.name
    if isinstance(value, tuple):  # a loss and its number
        return ":".join(f"{part}" for part in value if part is not None)
    return str(value)
