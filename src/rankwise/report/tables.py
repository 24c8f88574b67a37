"""Tables of results as text, Markdown and CSV, all three from the same rows."""

import csv
import io
from collections.abc import Sequence

from ..experiments import SCORES, Estimate, Printed, Row, Summary

DASH = "—"
STAR, BOLD = "{}*", "**{}**"
Cells = list[str]


def columns(summary: Summary) -> Cells:
    """Headings; a column whose name starts with ``>`` is flush right."""
    main, *others = (f">{SCORES[name].label}" for name in summary.experiment.scores)
    search = [">search s"] if _searched(summary) else []
    return ["method", main, ">paper", *others, ">rank", ">CPU s", ">wall s", *search, ">splits"]


def cells(summary: Summary, data: str, mark: str = STAR) -> list[Cells]:
    """One line of text per method on a data set; `mark` sets the best apart."""
    return [_line(summary, row, mark, footnotes(summary)) for row in summary.rows[data]]


def footnotes(summary: Summary) -> list[str]:
    """Sentences below the tables; a row refers to them by their number, from one."""
    return list(dict.fromkeys(note for rows in summary.rows.values() for row in rows for note in row.notes))


def remarks(summary: Summary, mark: str = STAR) -> list[str]:
    """How to read the numbers, what is left out, and what ran it."""
    experiment, split = summary.experiment, summary.experiment.split
    kind = "folds" if split.kind == "folds" else f"random splits, {split.held_out:.0%} held out"
    best = mark.format("best" if mark == BOLD else "")
    left_out = (
        f"{data.label} is left out: there are no results on it. `rankwise data fetch {data.name}` fetches its file."
        for data in summary.missing
    )
    return [
        f"Mean ± sample deviation over {experiment.used} of {split.parts} {kind}, seed {split.seed}; {DASH} no result.",
        f"{best}: the best, or not significantly worse (paired t-test over the splits, 95 %; one split: the best).",
        "Seconds are the solver's own: compiling, scoring and the search for a setting are left out.",
        *left_out,
        *(f"Machine: {machine}." for machine in summary.machines),
    ]


def title_of(summary: Summary, data: str) -> str:
    """The data set's name, and the rank that was learned."""
    found = next(one for one in summary.experiment.data if one.name == data)
    return f"{found.label}, rank {found.rank}"


def markdown(summary: Summary) -> str:
    """A page with one table per data set."""
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
    """One line per data set and method, numbers in full; empty where there is a dash."""
    out = io.StringIO()
    rows = [_flat(summary, row) for found in summary.rows.values() for row in found]
    writer = csv.DictWriter(out, list(rows[0]) if rows else ["data", "method"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _line(summary: Summary, row: Row, mark: str, notes: Sequence[str]) -> Cells:
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
    """Mean and deviation as text."""
    if estimate is None:
        return DASH
    deviation = "" if estimate.deviation is None else f" ± {estimate.deviation:.{digits}f}"
    return f"{estimate.mean:.{digits}f}{deviation}"


def _printed(number: Printed | None, mark: str) -> str:
    """A number of the paper, as it stands there."""
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
    found: dict[str, object] = {"data": row.data, "method": row.method, "splits": row.splits, "best": int(row.best)}
    for name, estimate in (numbers | seconds).items():
        found[f"{name}_mean"] = None if estimate is None else estimate.mean
        found[f"{name}_deviation"] = None if estimate is None else estimate.deviation
    found["search_seconds"] = row.search_seconds
    found["paper_mean"] = None if row.printed is None else row.printed.mean
    found["paper_deviation"] = None if row.printed is None else row.printed.deviation
    return found | {"notes": " ".join(row.notes)}
