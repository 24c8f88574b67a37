"""``rankwise recommend`` and ``similar``: the best columns of rows, and the rows or columns most similar to others."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from .._arrays import Array
from .._errors import DataError
from ..model import LowRankModel, load
from ..observations import LabelIndex
from .files import check_output, csv_numbers, csv_writer
from .formatting import console, print_table, to_json
from .terminal import echo

RANKED_ROWS = 1000  # rows ranked at once
RankedRow = tuple[object, list[tuple[object, float]]]  # label of a row, and its best columns with their scores


@dataclass(frozen=True)
class RecommendOptions:
    """Arguments of the command."""

    model: Path
    rows: tuple[str, ...]
    count: int
    include_seen: bool
    rank: int | None
    risk: float | None
    every: bool
    output: Path | None
    force: bool
    as_json: bool


def run(options: RecommendOptions) -> None:
    """Rank the columns of some rows or of all rows, and print or write the best."""
    if bool(options.rows) == options.every:
        raise click.UsageError("Name one or more ROWS, or ask for all of them with --all.")
    if options.as_json and options.output is not None:
        raise click.UsageError("--json goes to standard output, and --output writes CSV; leave out one of them.")
    check_output(options.output, options.force, options.model)
    model = load(options.model)
    model.coefficients(options.rank)  # raises for a rank that the model does not have, before anything is written
    if model.seen is None and not options.include_seen:
        raise DataError(f"{options.model} does not hold the observed entries; rank all columns with --include-seen.")
    rows = model.row_index.names if options.every else find_labels(model.row_index, options.rows, options.model)
    ranked = rank_columns(model, rows, options)
    if options.output is not None or (options.every and not options.as_json):
        _write(ranked, options)
    elif options.as_json:
        echo(to_json({"model": str(options.model), "rows": [_to_dict(*row) for row in ranked]}))
    else:
        show(ranked, "row", "column")


def find_labels(index: LabelIndex, labels: tuple[str, ...], path: Path) -> Array:
    """Return labels from the command line in the type of the model's; raise if the model does not have one of them."""
    requested = index.cast(np.array(labels))
    unknown = np.flatnonzero(index.positions(requested) < 0)
    if unknown.size:
        raise DataError(
            f"{path} has no {index.axis} {labels[unknown[0]]!r}; "
            f"its {index.size:,} {index.axis}s are called {', '.join(map(str, index.names[:3]))} and so on."
        )
    return requested


def rank_columns(model: LowRankModel, rows: Array, options: RecommendOptions) -> Iterator[RankedRow]:
    """Yield the label of each row with its best columns and their scores."""
    n = min(options.count, model.shape[1])  # more would be padding
    risk = "auto" if options.risk is None else options.risk
    for start in range(0, len(rows), RANKED_ROWS):
        part = rows[start : start + RANKED_ROWS]
        labels, scores = model.recommend(part, n, exclude_seen=not options.include_seen, rank=options.rank, risk=risk)
        yield from best_of(part, labels, scores)


def best_of(rows: Array, labels: Array, scores: Array) -> Iterator[RankedRow]:
    """Yield each row with its labels and their scores, without the padding."""
    for row, names, row_scores in zip(rows.tolist(), labels.tolist(), scores.tolist(), strict=True):
        yield row, [(name, score) for name, score in zip(names, row_scores, strict=True) if score > -np.inf]


def _write(ranked: Iterator[RankedRow], options: RecommendOptions) -> None:
    with csv_writer(options.output) as file:
        file.writerow(("row", "place", "column", "score"))
        for row, columns in ranked:
            scores = csv_numbers(score for _, score in columns)
            file.writerows((row, k + 1, columns[k][0], scores[k]) for k in range(len(columns)))


def _to_dict(row: object, columns: list[tuple[object, float]]) -> dict[str, object]:
    return {"row": row, "columns": [{"column": name, "score": score} for name, score in columns]}


def show(ranked: Iterable[RankedRow], axis: str, listed: str) -> None:
    """Print a table for each row (or column): the `listed` labels and their scores."""
    out = console()
    for row, columns in ranked:
        small = max((abs(score) for _, score in columns), default=1.0) < 0.1  # three decimals would show too few digits
        lines = [
            (str(k), str(name), f"{score:.4g}" if small else f"{score:.3f}")
            for k, (name, score) in enumerate(columns, 1)
        ]
        print_table(out, f"{axis.capitalize()} {row}", (">place", listed, ">score"), lines)
        if not columns:
            out.print("  No column is left: this row has entries in all of them.")


@dataclass(frozen=True)
class SimilarOptions:
    """Arguments of the command."""

    model: Path
    labels: tuple[str, ...]
    count: int
    columns: bool
    rank: int | None
    as_json: bool


def run_similar(options: SimilarOptions) -> None:
    """Read a model, and print the most similar rows or columns with their cosines."""
    model = load(options.model)
    index = model.col_index if options.columns else model.row_index
    labels = find_labels(index, options.labels, options.model)
    n = min(options.count, index.size)  # more would be padding
    names, cosines = model.similar(labels, n, axis=f"{index.axis}s", rank=options.rank)
    ranked = list(best_of(labels, names, cosines))
    if not options.as_json:
        show(ranked, index.axis, index.axis)
        return
    similar = [
        {"label": label, "similar": [{"label": name, "cosine": cosine} for name, cosine in best]}
        for label, best in ranked
    ]
    echo(to_json({"model": str(options.model), "axis": f"{index.axis}s", "labels": similar}))
