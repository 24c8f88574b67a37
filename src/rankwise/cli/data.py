"""``rankwise data``: list, describe and download the published data sets; heavy imports happen in the commands."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from ..datasets import Source

PERCENT = 10  # between two lines of progress, if the output is not a terminal
MEGABYTES = 10  # between two lines, if the size of the download is not known


@click.group()
def data() -> None:
    """List, describe and download the published data sets."""


@data.command("list")
def list_sets() -> None:
    """List the data sets, and whether each is on this machine."""
    from ..datasets import SOURCES, find, folders
    from .formatting import console, print_table

    out = console()
    rows = [
        (name, *_sizes(source), _bytes(source.n_bytes), "yes" if find(source) else "no")
        for name, source in SOURCES.items()
    ]
    print_table(out, "Data sets", ("name", ">rows", ">columns", ">observed", ">download", "on disk"), rows)
    out.print(f"Searched {' and '.join(map(str, folders()))}.")


@data.command()
@click.argument("name")
def info(name: str) -> None:
    """Describe a data set: its publisher, licence, format and size."""
    from ..datasets import find, get
    from .formatting import console

    source, out = get(name), console()
    for topic, text in _facts(source, find(source)).items():
        out.print(f"{topic + ':':<12}{text}")


@data.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Accept the licence without being asked.")
def fetch(name: str, yes: bool) -> None:
    """Download a data set from its publisher to the folder RANKWISE_DATA, or to the user's cache folder."""
    from ..datasets import download, find, folders, get
    from .formatting import console

    source, out = get(name), console()
    existing = find(source)
    if existing is not None and source.is_sound(existing):
        out.print(f"{name} is on this machine already, {_integrity(source, existing)}: {existing}")
        return
    if existing is not None:
        out.print(f"{existing} is damaged: its checksum is wrong. Downloading it again.")
    _show_terms(source, out)
    if not yes and sys.stdin.isatty():
        click.confirm("Download it on these terms?", default=True, abort=True)
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


def _integrity(source: "Source", path: "Path") -> str:
    return "intact" if path.name == source.published else "in a form that the publisher has no checksum of"


def _facts(source: "Source", path: "Path | None") -> dict[str, str]:
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
        "On disk": str(path) if path else "not downloaded",
    }


def _show_terms(source: "Source", out: "Console") -> None:
    facts = _facts(source, None)
    for topic in ("Publisher", "Address", "Licence", "Citation"):
        out.print(f"{topic + ':':<12}{facts[topic]}")


@contextmanager
def _progress(title: str, out: "Console") -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function of the bytes received and in all that shows a bar on a terminal, and lines elsewhere."""
    if not out.is_terminal:
        yield _plain_lines(title, out)
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(TextColumn("{task.description}"), *columns, console=out) as bar:
        task = bar.add_task(title, total=None)
        yield lambda n_bytes, total: bar.update(task, completed=n_bytes, total=total)


def _plain_lines(title: str, out: "Console") -> Callable[[int, int | None], None]:
    """Return a function that prints a line at the start and after every `PERCENT`, or every `MEGABYTES`."""
    shown = -1

    def report(n_bytes: int, total: int | None) -> None:
        nonlocal shown
        step = n_bytes * 100 // max(total, 1) // PERCENT if total is not None else n_bytes // (MEGABYTES * 1_000_000)
        if step != shown:
            out.print(f"{title}: {_bytes(n_bytes)}" + ("" if total is None else f" of {_bytes(total)}"))
            shown = step

    return report
