"""``rankwise reproduce``: the paper's tables and figures, with the paper's numbers beside ours."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from .. import report
from .._errors import DataError, MissingExtraError, SettingError
from ..experiments import Event, Experiment, Store, Summary, available, find, summarise
from ..experiments import run as run_experiment
from .formatting import console, print_table

ALL = "all"
RESULTS_WIDTH = 160  # characters of a line in a pipe, so that no cell of these tables is wrapped
OUTCOMES = {"time": "out of time", "failed": "failed", "left-out": "left out"}


@dataclass(frozen=True)
class Selection:
    """Options that restrict or change an experiment; None and False leave it as its file has it."""

    data: str | None = None
    folds: int | None = None
    quick: bool = False
    time_limit: float | None = None
    search: bool = False

    def apply(self, experiment: Experiment) -> Experiment:
        """Return the experiment with these options."""
        experiment = experiment if self.data is None else experiment.on(self.data)
        experiment = experiment.quickened() if self.quick else experiment
        if self.folds is not None:
            experiment = experiment.first(self.folds)
        if self.time_limit is not None:
            experiment = experiment.within(self.time_limit)
        return experiment.searched() if self.search else experiment


def run(what: str, selection: Selection, output: Path) -> None:
    """Run the experiment of a table or a figure, or all of them, and write the results into `output`.

    An experiment whose data are missing does not keep the others from running; its `DataError` is raised at the end.
    """
    out = console()
    out.width = out.width if out.is_terminal else RESULTS_WIDTH
    errors = []
    for experiment in selected(what, selection):
        try:
            _reproduce(experiment, what != experiment.figure, output, out)
        except DataError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _reproduce(experiment: Experiment, with_table: bool, output: Path, out: Console) -> None:
    """Run one experiment; write its table, unless only the figures are wanted, and its figures."""
    experiment = experiment if with_table else experiment.first(1)  # curves are stored for the first split
    store = Store(output / f"{experiment.name}-results.jsonl")
    try:
        with progress(out, experiment) as report_event:
            run_experiment(experiment, store, report=report_event)
    except KeyboardInterrupt:
        results = f"finished fits are in {store.path}, and the same command continues from there"
        raise KeyboardInterrupt(results) from None
    if with_table:
        _write_table(summarise(experiment, store), output, out)
    _draw_figures(experiment, store, output, out)


def selected(what: str, selection: Selection) -> list[Experiment]:
    """Return the experiments of that name with the options applied; raise if a name does not exist."""
    if what != ALL:
        return [selection.apply(find(what))]
    chosen = [one for one in available().values() if selection.data in (None, *(data.name for data in one.data))]
    if not chosen:
        names = ", ".join(data.name for one in available().values() for data in one.data)
        raise SettingError(f"No experiment has a data set {selection.data!r}: use one of {names}.")
    return [selection.apply(experiment) for experiment in chosen]


def _write_table(summary: Summary, output: Path, out: Console) -> None:
    """Print the table of each data set, and write them as Markdown and CSV."""
    name = summary.experiment.name
    out.print(f"\n{summary.experiment.title}\n")
    for data in summary.rows:
        print_table(out, report.title_of(summary, data), report.columns(summary), report.cells(summary, data))
    for number, note in enumerate(report.footnotes(summary), 1):
        out.print(f"[{number}] {note}")
    for remark in report.remarks(summary):
        out.print(remark)
    for ending, text in (("md", report.markdown(summary)), ("csv", report.comma_separated(summary))):
        (output / f"{name}.{ending}").write_text(text, encoding="utf-8")
    out.print(f"Table:   {output / name}.md and .csv")


def _draw_figures(experiment: Experiment, store: Store, output: Path, out: Console) -> None:
    try:
        for path in report.draw_figures(experiment, store, output):
            out.print(f"Figure:  {path}")
    except MissingExtraError as error:
        out.print(f"Figures: none. {error}")


@contextmanager
def progress(out: Console, experiment: Experiment) -> Iterator[Callable[[Event], None]]:
    """Yield a function that shows events: by a bar on a terminal, by a line per fit elsewhere."""
    if not out.is_terminal:
        yield lambda event: _print_event(event, experiment, out)
        return
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TextColumn("{task.fields[left]}"), console=out) as bar:
        task = bar.add_task(experiment.name, total=None, left="")

        def show(event: Event) -> None:
            if event.kind in OUTCOMES:
                _print_event(event, experiment, out)
            if event.total:
                place, left = _place(event, experiment), time_left(event)
                bar.update(task, description=place, completed=event.done, total=event.total, left=left)

        yield show


def _print_event(event: Event, experiment: Experiment, out: Console) -> None:
    """Print one line about an event; starts of fits have none."""
    if event.kind == "left-out":
        out.print(f"{event.data} is left out. {event.message}")
    elif event.kind == "search":
        out.print(f"{_place(event, experiment)}: searching the nuclear weight")
    elif event.kind != "start":
        outcome = OUTCOMES.get(event.kind)
        result = f"{event.seconds:.1f} s" if outcome is None else f"{outcome}. {event.message}"
        out.print(f"{_place(event, experiment)}: {result} ({event.done} of {event.total}{time_left(event)})")


def _place(event: Event, experiment: Experiment) -> str:
    part = "fold" if experiment.split.kind == "folds" else "split"
    return f"{event.data}, {part} {event.split + 1}, {event.method}"


def time_left(event: Event) -> str:
    """Return the estimated time to the end as text; empty if it is not known."""
    if event.seconds_left is None or event.done == event.total:
        return ""
    minutes = event.seconds_left / 60
    amount = f"{event.seconds_left:.0f} s" if minutes < 2 else f"{minutes:.0f} min"
    return f", about {amount if minutes < 120 else f'{minutes / 60:.1f} h'} left"
