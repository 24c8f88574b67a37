"""`rankwise report`: a page to look at."""

from dataclasses import dataclass
from pathlib import Path

import click

from ..model import load
from ..observations import Observations
from ..report import write_report
from .files import ToldToRead, check_output, check_values, read, reading
from .tables import console, size_of
from .words import command_line


@dataclass(frozen=True, kw_only=True)
class Settings(ToldToRead):
    """What the command was told."""

    model: Path
    data: Path | None
    output: Path | None
    duplicates: str
    no_labels: bool
    force: bool

    @property
    def target(self) -> Path:
        """Where the page goes."""
        return Path(f"{self.model.stem}.html") if self.output is None else self.output


def run(settings: Settings) -> None:
    """Read a model, and entries if there are any, and write the page."""
    target = settings.target
    check_output(target, settings.force)
    model = load(settings.model)
    held_out: Observations | None = None
    if settings.data is not None:
        table = read(settings.data, reading(settings))
        check_values(table, model.loss)
        held_out = table.observations(settings.duplicates)
    command = command_line(click.get_current_context())
    write_report(model, target, held_out, command, labels=not settings.no_labels, force=settings.force)
    console().print(f"Report: {target}, {size_of(target)}; open it in a browser.")
