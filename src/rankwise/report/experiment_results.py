"""Results of an experiment of the paper: tables as text, Markdown and CSV, and figures of score against time."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from ..experiments import SCORES, Data, Estimate, Experiment, Printed, Row, Store, Summary
from .figures import TimePanel, time_curves, times_to_scores

DASH = "—"
STAR, BOLD = "{}*", "**{}**"
TableRow = list[str]
Curves = dict[str, list[float]]


def columns(summary: Summary) -> TableRow:
    """Column headings; those that start with ``>`` are right-aligned."""
    main, *others = (f">{SCORES[name].label}" for name in summary.experiment.scores)
    search = [">search s"] if _searched(summary) else []
    return ["method", main, ">paper", *others, ">rank", ">CPU s", ">wall s", *search, ">splits"]


def cells(summary: Summary, data: str, mark: str = STAR) -> list[TableRow]:
    """Table of a data set, one row of text per method; `mark` formats the best scores."""
    return [_line(summary, row, mark, footnotes(summary)) for row in summary.rows[data]]


def footnotes(summary: Summary) -> list[str]:
    """Notes below the tables; rows refer to them by their number, from one."""
    return list(dict.fromkeys(note for rows in summary.rows.values() for row in rows for note in row.notes))


def remarks(summary: Summary, mark: str = STAR) -> list[str]:
    """Explanation of the numbers, data sets without results, and the machines."""
    experiment, split = summary.experiment, summary.experiment.split
    kind = "folds" if split.kind == "folds" else f"random splits, {split.held_out:.0%} held out"
    best = mark.format("best" if mark == BOLD else "")
    left_out = (
        f"{data.label} is left out: there are no results on it. `rankwise data fetch {data.name}` fetches its file."
        for data in summary.missing
    )
    return [
        f"Mean ± sample deviation over the number of splits in the last column, at most {experiment.used} of "
        f"{split.parts} {kind}, seed {split.seed}; {DASH} no result.",
        f"{best}: the best, or not significantly worse (paired t-test over the splits, 95 %; one split: the best). "
        "Methods with fewer than half of the splits are not compared.",
        "Methods have no offsets and start from zero, as in the paper, except where a note names offsets.",
        "Seconds are the solver's own: compiling, scoring and the search for a setting are left out.",
        *left_out,
        *(f"Machine: {machine}." for machine in summary.machines),
    ]


def title_of(summary: Summary, data: str) -> str:
    """Name of a data set and the rank of its fits."""
    source = next(source for source in summary.experiment.data if source.name == data)
    return f"{source.label}, rank {source.rank}"


def markdown(summary: Summary) -> str:
    """Markdown page with one table per data set."""
    names = columns(summary)
    rule = "|" + "".join("---:|" if name.startswith(">") else "---|" for name in names)
    lines = [f"# {summary.experiment.title}", ""]
    for data in summary.rows:
        lines += [f"## {title_of(summary, data)}", "", _pipes([name.lstrip(">") for name in names]), rule]
        lines += [*(_pipes(row) for row in cells(summary, data, BOLD)), ""]
    lines += [f"{number}. {note}" for number, note in enumerate(footnotes(summary), 1)]
    lines += ["", *(f"- {remark}" for remark in remarks(summary, BOLD))]
    return "\n".join(lines) + "\n"


def comma_separated(summary: Summary) -> str:
    """CSV with one line per data set and method, numbers in full precision; empty where there is no result."""
    out = io.StringIO()
    rows = [_flat(summary, row) for methods in summary.rows.values() for row in methods]
    writer = csv.DictWriter(out, list(rows[0]) if rows else ["data", "method"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _line(summary: Summary, row: Row, mark: str, notes: Sequence[str]) -> TableRow:
    main, *others = (shown(row.scores.get(name), SCORES[name].digits) for name in summary.experiment.scores)
    search = None if row.search_seconds is None else Estimate(row.search_seconds, None)
    return [
        row.label + "".join(f" [{notes.index(note) + 1}]" for note in row.notes),
        mark.format(main) if row.best else main,
        _printed(row.printed, mark),
        *others,
        shown(row.rank, 0),
        shown(row.cpu_seconds, 2),
        shown(row.wall_seconds, 2),
        *([shown(search, 1)] if _searched(summary) else []),
        str(row.splits) if row.splits else DASH,
    ]


def shown(estimate: Estimate | None, digits: int) -> str:
    """Mean ± deviation as text; a dash if there is none."""
    if estimate is None:
        return DASH
    deviation = "" if estimate.deviation is None else f" ± {estimate.deviation:.{digits}f}"
    return f"{estimate.mean:.{digits}f}{deviation}"


def _printed(number: Printed | None, mark: str) -> str:
    """Number printed in the paper, as text."""
    if number is None:
        return DASH
    text = f"{number.mean:g} ± {number.deviation:g}"
    return mark.format(text) if number.best else text


def _searched(summary: Summary) -> bool:
    return any(row.search_seconds is not None for rows in summary.rows.values() for row in rows)


def _pipes(row: Sequence[str]) -> str:
    return "| " + " | ".join(row) + " |"


def _flat(summary: Summary, row: Row) -> dict[str, object]:
    numbers = {name: row.scores.get(name) for name in summary.experiment.scores}
    seconds = {"rank": row.rank, "cpu_seconds": row.cpu_seconds, "wall_seconds": row.wall_seconds}
    line: dict[str, object] = {"data": row.data, "method": row.method, "splits": row.splits, "best": int(row.best)}
    for name, estimate in (numbers | seconds).items():
        line[f"{name}_mean"] = None if estimate is None else estimate.mean
        line[f"{name}_deviation"] = None if estimate is None else estimate.deviation
    line["search_seconds"] = row.search_seconds
    line["paper_mean"] = None if row.printed is None else row.printed.mean
    line["paper_deviation"] = None if row.printed is None else row.printed.deviation
    return line | {"notes": " ".join(row.notes)}


def draw_figures(experiment: Experiment, store: Store, folder: Path) -> list[Path]:
    """Write two figures as PNG and SVG for each data set with results; return the paths written.

    ``figureN-DATA`` has scores against seconds, ``figureN-DATA-times`` the seconds to every held-out score.
    """
    written: list[Path] = []
    for data in experiment.data:
        curves = curves_on(experiment, data, store)
        if curves:
            plain, times = (
                [folder / f"{experiment.figure}-{data.name}{ending}.{kind}" for kind in ("png", "svg")]
                for ending in ("", "-times")
            )
            title, panels = _title(experiment, data), _panels(experiment, curves)
            time_curves(title, panels, plain)
            times_to_scores(f"{title}: time to every score", panels[1:], times, SCORES[experiment.scores[0]].higher)
            written += plain + times
    return written


def curves_on(experiment: Experiment, data: Data, store: Store) -> dict[str, Curves]:
    """Curve of the first split of each method that has one, time-outs included, by label."""
    curve_of = {}
    for method in experiment.methods:
        lines = store.find("fit", data.name, method.name, experiment.digest(data, method))
        curves = [line["curve"] for line in lines if line.get("curve", {}).get("cpu")]
        if curves:
            curve_of[method.label] = curves[-1]
    return curve_of


def _title(experiment: Experiment, data: Data) -> str:
    part = "fold" if experiment.split.kind == "folds" else "split"
    return f"{data.label}, {experiment.loss} loss, rank {data.rank}; first {part}"


def _panels(experiment: Experiment, curves: dict[str, Curves]) -> list[list[TimePanel]]:
    """Panels: training above testing, CPU beside wall seconds."""
    score = SCORES[experiment.scores[0]].label
    return [
        [
            TimePanel(side, f"{clock.upper() if clock == 'cpu' else clock} seconds", score, _lines(curves, clock, side))
            for clock in ("cpu", "wall")
        ]
        for side in ("training", "testing")
    ]


def _lines(curves: dict[str, Curves], clock: str, side: str) -> dict[str, tuple[list[float], list[float]]]:
    return {method: (columns[clock], columns[side]) for method, columns in curves.items()}
