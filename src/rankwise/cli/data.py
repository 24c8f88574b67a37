"""`rankwise data`: list, describe and fetch the published data sets. What they need loads inside the commands."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from ..datasets import Source

PLAIN_STEP = 10  # percent between two lines of progress where there is no terminal


@click.group()
def data() -> None:
    """List, describe and fetch the published data sets."""


@data.command("list")
def list_sets() -> None:
    """List the data sets and say which are on this machine."""
    from ..datasets import SOURCES, find, folders
    from .tables import console, table

    out = console()
    rows = [
        (name, *_sizes(source), _bytes(source.n_bytes), "yes" if find(source) else "no")
        for name, source in SOURCES.items()
    ]
    table(out, "Data sets", ("name", ">rows", ">columns", ">observed", ">download", "on disk"), rows)
    out.print(f"Looked in {' and '.join(map(str, folders()))}.")


@data.command()
@click.argument("name")
def info(name: str) -> None:
    """Say what a data set is, where it comes from, and on what terms."""
    from ..datasets import find, get
    from .tables import console

    source, out = get(name), console()
    for what, words in _facts(source, find(source)).items():
        out.print(f"{what + ':':<12}{words}")


@data.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Take the licence as read and do not ask.")
def fetch(name: str, yes: bool) -> None:
    """Download a data set from its publisher, into the folder that RANKWISE_DATA names or the user's cache."""
    from ..datasets import download, find, folders, get
    from .tables import console

    source, out = get(name), console()
    there = find(source)
    if there is not None and source.is_sound(there):
        out.print(f"{name} is there already, {_kind(source, there)}: {there}")
        return
    if there is not None:
        out.print(f"{there} is damaged: its checksum is wrong. Fetching it again.")
    _show_terms(source, out)
    if not yes and sys.stdin.isatty():
        click.confirm("Fetch it on these terms?", default=True, abort=True)
    try:
        with _progress(source.published, out) as report:
            path = download(source, folders()[0], report)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"`rankwise data fetch {name}` starts again") from None
    out.print(f"{name} is in {path}; its checksum is right.")


def _sizes(source: "Source") -> tuple[str, str, str]:
    return f"{source.shape[0]:,}", f"{source.shape[1]:,}", f"{source.n_observed:,}"


def _bytes(size: int) -> str:
    from rich.filesize import decimal

    return decimal(size)


def _kind(source: "Source", there: "Path") -> str:
    return "intact" if there.name == source.published else "in a form that the publisher has no checksum of"


def _facts(source: "Source", there: "Path | None") -> dict[str, str]:
    return {
        "Publisher": source.publisher.name,
        "Address": f"{source.address} ({_bytes(source.n_bytes)})",
        "SHA-256": source.sha256,
        "Licence": source.publisher.licence,
        "Citation": source.publisher.citation,
        "Format": f"{source.file}: {source.layout}",
        "Filter": source.filter,
        "Size": "{} x {} with {} observed, after the filter".format(*_sizes(source)),
        "The paper": source.reported,
        "On disk": str(there) if there else "not fetched",
    }


def _show_terms(source: "Source", out: "Console") -> None:
    facts = _facts(source, None)
    for what in ("Publisher", "Address", "Licence", "Citation"):
        out.print(f"{what + ':':<12}{facts[what]}")


@contextmanager
def _progress(title: str, out: "Console") -> Iterator[Callable[[int, int | None], None]]:
    """Something to report bytes to: a bar on a terminal, lines elsewhere."""
    if not out.is_terminal:
        yield _plain_lines(title, out)
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(TextColumn("{task.description}"), *columns, console=out) as bar:
        task = bar.add_task(title, total=None)
        yield lambda n_bytes, total: bar.update(task, completed=n_bytes, total=total)


def _plain_lines(title: str, out: "Console") -> Callable[[int, int | None], None]:
    """One line at the start and one for every tenth; without a known total, for every 10 MB."""
    shown = -1

    def report(n_bytes: int, total: int | None) -> None:
        nonlocal shown
        step = n_bytes * 100 // max(total, 1) // PLAIN_STEP if total is not None else n_bytes // 10_000_000
        if step != shown:
            out.print(f"{title}: {_bytes(n_bytes)}" + ("" if total is None else f" of {_bytes(total)}"))
            shown = step

    return report
