"""`rankwise recommend`: the best columns of rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from .._errors import DataError
from ..model import LowRankModel, load
from .files import check_output, shown, writing
from .tables import console, table
from .words import in_json

BATCH = 1000  # rows ranked at once
Best = tuple[Any, list[tuple[Any, float]]]


@dataclass(frozen=True)
class Settings:
    """What the command was told."""

    model: Path
    rows: tuple[str, ...]
    count: int
    include_seen: bool
    rank: int | None
    every: bool
    output: Path | None
    force: bool
    as_json: bool


def run(settings: Settings) -> None:
    """Rank the columns of some rows or of all, and print or write the best."""
    if bool(settings.rows) == settings.every:
        raise click.UsageError("Name one or more ROWS, or ask for all of them with --all.")
    if settings.as_json and settings.output is not None:
        raise click.UsageError("--json goes to standard output, and --output writes CSV; leave out one of them.")
    check_output(settings.output, settings.force)
    model = load(settings.model)
    model.coefficients(settings.rank)  # refuses a rank that the model does not have, before anything is written
    if model.seen is None and not settings.include_seen:
        raise DataError(f"{settings.model} does not say which entries were seen; rank all columns with --include-seen.")
    found = best(model, wanted_rows(model, settings), settings)
    if settings.output is not None or (settings.every and not settings.as_json):
        _write(found, settings)
    elif settings.as_json:
        click.echo(in_json({"model": str(settings.model), "rows": [_plain(*one) for one in found]}))
    else:
        _show(found)


def wanted_rows(model: LowRankModel, settings: Settings) -> Any:
    """Labels of the rows that were asked for; refused if the model does not have one."""
    if settings.every:
        return model.row_index.names
    given = model.row_index.cast(np.array(settings.rows))
    unknown = np.flatnonzero(model.row_index.positions(given) < 0)
    if unknown.size:
        names = model.row_index.names
        raise DataError(
            f"{settings.model} has no row {settings.rows[unknown[0]]!r}; "
            f"its {model.shape[0]:,} rows are called {', '.join(map(str, names[:3]))} and so on."
        )
    return given


def best(model: LowRankModel, rows: Any, settings: Settings) -> Iterator[Best]:
    """Each row's label with its best columns and their scores."""
    n = min(settings.count, model.shape[1])  # what is beyond would be padding
    for start in range(0, len(rows), BATCH):
        part = rows[start : start + BATCH]
        labels, scores = model.recommend(part, n, exclude_seen=not settings.include_seen, rank=settings.rank)
        for row, names, found in zip(part.tolist(), labels.tolist(), scores.tolist(), strict=True):
            yield row, [(name, score) for name, score in zip(names, found, strict=True) if score > -np.inf]


def _write(found: Iterator[Best], settings: Settings) -> None:
    with writing(settings.output) as file:
        file.writerow(("row", "place", "column", "score"))
        for row, columns in found:
            scores = shown(score for _, score in columns)
            file.writerows((row, k + 1, columns[k][0], scores[k]) for k in range(len(columns)))


def _plain(row: Any, columns: list[tuple[Any, float]]) -> dict[str, Any]:
    return {"row": row, "columns": [{"column": name, "score": score} for name, score in columns]}


def _show(found: Iterator[Best]) -> None:
    out = console()
    for row, columns in found:
        small = max((abs(score) for _, score in columns), default=1.0) < 0.1  # three decimals would show little of it
        lines = [
            (str(k), str(name), f"{score:.4g}" if small else f"{score:.3f}")
            for k, (name, score) in enumerate(columns, 1)
        ]
        table(out, f"Row {row}", (">place", "column", ">score"), lines)
        if not columns:
            out.print("  No column is left: this row has seen all of them.")
