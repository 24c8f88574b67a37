"""``rankwise report``: an HTML page about a model."""

from dataclasses import dataclass
from pathlib import Path

import click

from ..io import Reading
from ..model import load
from ..observations import Observations
from ..report import write_report
from .clicks import read_clicks
from .files import check_output, check_values, read
from .formatting import command_line, console, file_size


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Reading):
    """Arguments of the command, those of the reader among them."""

    model: Path
    data: Path | None
    output: Path | None
    duplicates: str
    no_labels: bool
    force: bool

    @property
    def target(self) -> Path:
        """File to write the page to."""
        return Path(f"{self.model.stem}.html") if self.output is None else self.output


def run(options: ReportOptions) -> None:
    """Read a model, and held-out entries if a file is given, and write the page."""
    target = options.target
    check_output(target, options.force, options.model, options.data)
    model = load(options.model)
    held_out: Observations | None = None
    if options.data is not None:
        if model.ranks_clicks:
            held_out = read_clicks(options.data, options)[1]
        else:
            table = read(options.data, options)
            check_values(table, model.loss)
            held_out = table.observations(options.duplicates)
    command = command_line(click.get_current_context())
    write_report(model, target, held_out, command, labels=not options.no_labels, force=options.force)
    console().print(f"Report: {target}, {file_size(target)}; open it in a browser.")
