"""`rankwise reproduce`: the paper's tables and figures, with its numbers beside ours."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from .. import report
from .._errors import MissingExtraError, SettingError
from ..experiments import Event, Experiment, Store, Summary, available, find, run, summarise
from .tables import console, table

ALL = "all"
WIDE = 160  # characters of a line in a pipe, so that no cell of these tables is wrapped
Tell = Callable[[Event], None]
WORDS = {"time": "out of time", "failed": "failed", "left-out": "left out"}


@dataclass(frozen=True)
class Choice:
    """What a run is narrowed to; None and False mean as the experiment's file has it."""

    data: str | None = None
    folds: int | None = None
    quick: bool = False
    time_limit: float | None = None
    search: bool = False

    def narrow(self, experiment: Experiment) -> Experiment:
        """The experiment with these options."""
        found = experiment if self.data is None else experiment.on(self.data)
        found = found.quickened() if self.quick else found
        if self.folds is not None:
            found = found.first(self.folds)
        if self.time_limit is not None:
            found = found.within(self.time_limit)
        return found.searched() if self.search else found


def reproduce(what: str, choice: Choice, output: Path) -> None:
    """Run a table, a figure or all of them, and write what came of it into `output`."""
    out = console()
    out.width = out.width if out.is_terminal else WIDE
    for experiment in chosen(what, choice):
        with_table = what != experiment.figure
        experiment = experiment if with_table else experiment.first(1)  # curves are kept on the first split
        store = Store(output / f"{experiment.name}-results.jsonl")
        try:
            with progress(out, experiment) as tell:
                run(experiment, store, tell=tell)
        except KeyboardInterrupt:
            kept = f"what is done is in {store.path}, and the same command continues from there"
            raise KeyboardInterrupt(kept) from None
        if with_table:
            _table(summarise(experiment, store), output, out)
        _figures(experiment, store, output, out)


def chosen(what: str, choice: Choice) -> list[Experiment]:
    """The experiments that are asked for, narrowed; refused before any work if a name does not exist."""
    if what != ALL:
        return [choice.narrow(find(what))]
    named = [one for one in available().values() if choice.data in (None, *(data.name for data in one.data))]
    if not named:
        names = ", ".join(data.name for one in available().values() for data in one.data)
        raise SettingError(f"No experiment has a data set {choice.data!r}: use one of {names}.")
    return [choice.narrow(experiment) for experiment in named]


def _table(summary: Summary, output: Path, out: Console) -> None:
    """Print the tables and write them as Markdown and CSV."""
    name = summary.experiment.name
    out.print(f"\n{summary.experiment.title}\n")
    for data in summary.rows:
        table(out, report.title_of(summary, data), report.columns(summary), report.cells(summary, data))
    for number, note in enumerate(report.footnotes(summary), 1):
        out.print(f"[{number}] {note}")
    for remark in report.remarks(summary):
        out.print(remark)
    for ending, text in (("md", report.markdown(summary)), ("csv", report.comma_separated(summary))):
        (output / f"{name}.{ending}").write_text(text, encoding="utf-8")
    out.print(f"Table:   {output / name}.md and .csv")


def _figures(experiment: Experiment, store: Store, output: Path, out: Console) -> None:
    try:
        for path in report.draw_figures(experiment, store, output):
            out.print(f"Figure:  {path}")
    except MissingExtraError as error:
        out.print(f"Figures: none. {error}")


@contextmanager
def progress(out: Console, experiment: Experiment) -> Iterator[Tell]:
    """A bar on a terminal, a line per fit elsewhere."""
    if not out.is_terminal:
        yield lambda event: _say(event, experiment, out)
        return
    looks = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*looks, TextColumn("{task.fields[left]}"), console=out) as bar:
        task = bar.add_task(experiment.name, total=None, left="")

        def tell(event: Event) -> None:
            if event.kind in WORDS:
                _say(event, experiment, out)
            if event.total:
                left = time_left(event)
                bar.update(task, description=_at(event, experiment), completed=event.done, total=event.total, left=left)

        yield tell


def _say(event: Event, experiment: Experiment, out: Console) -> None:
    """One line on what has happened; starts are silent."""
    if event.kind == "left-out":
        out.print(f"{event.data} is left out. {event.message}")
    elif event.kind == "search":
        out.print(f"{_at(event, experiment)}: looking for the nuclear weight")
    elif event.kind != "start":
        word = WORDS.get(event.kind)
        came = f"{event.seconds:.1f} s" if word is None else f"{word}. {event.message}"
        out.print(f"{_at(event, experiment)}: {came} ({event.done} of {event.total}{time_left(event)})")


def _at(event: Event, experiment: Experiment) -> str:
    part = "fold" if experiment.split.kind == "folds" else "split"
    return f"{event.data}, {part} {event.split + 1}, {event.method}"


def time_left(event: Event) -> str:
    """Estimate in words."""
    if event.seconds_left is None or event.done == event.total:
        return ""
    minutes = event.seconds_left / 60
    amount = f"{event.seconds_left:.0f} s" if minutes < 2 else f"{minutes:.0f} min"
    return f", about {amount if minutes < 120 else f'{minutes / 60:.1f} h'} left"
