"""Files that commands read and write: checked before the work, told in words, never half written."""

import csv
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from .._errors import DataError
from .._files import check_replaceable, replacing
from ..io import EntryTable, LabelColumn, Reading, read_table
from ..losses import Loss
from ..model import LowRankModel
from ..observations import LabelIndex
from .words import plural

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class ToldToRead:
    """How a command was told to read a file of entries or pairs."""

    row: str | None
    col: str | None
    value: str | None = None
    weight: str | None = None
    separator: str | None
    header: bool | None
    encoding: str
    skip_bad_lines: bool


def check_output(path: Path | None, force: bool) -> None:
    """Refuse a place where nothing can be written, or where something is and must stay."""
    if path is None or str(path) == "-":
        return
    check_replaceable(path)
    if path.exists() and not force:
        raise DataError(f"{path} exists; choose another name, or write over it with --force.")
    if not path.parent.is_dir():
        raise DataError(f"There is no folder {path.parent} to write {path.name} in; make it first.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise DataError(f"The folder {path.parent} cannot be written to; choose another place.")


def reading(settings: ToldToRead, pairs: bool = False) -> Reading:
    """How to read a file, as a command was told."""
    given = {field.name: getattr(settings, field.name) for field in fields(ToldToRead)}
    return Reading(**given, pairs=pairs)


def read(path: Path, how: Reading) -> EntryTable:
    """Read a table and say, on standard error, what was guessed and left out."""
    table = read_table(path, how)
    for note in table.notes:
        click.echo(note, err=True)
    return table


def check_values(table: EntryTable, loss: Loss | None) -> None:
    """Refuse values that the loss does not take, naming the first one's line."""
    if loss is None or table.values is None:
        return
    wrong = np.flatnonzero(~loss.in_domain(table.values))
    if wrong.size:
        k = int(wrong[0])
        raise DataError(
            f"{table.path}, {table.line_of(k)}: the {loss.name} loss needs values that are {loss.domain}, and this one "
            f"is {table.values[k]:g} ({wrong.size:,} of {table.size:,} are not). {loss.domain.remedy}"
        )


def known(side: LabelColumn, index: LabelIndex) -> Array:
    """Position in `index` of each entry's row or column, -1 where it is unknown."""
    return index.positions(index.cast(side.names))[side.codes]


def places(table: EntryTable, model: LowRankModel) -> tuple[Array, Array]:
    """Row and column numbers in the model of a table's entries, -1 where they are unknown."""
    return known(table.rows, model.row_index), known(table.cols, model.col_index)


def refuse_unknown(table: EntryTable, rows: Array, cols: Array, cure: str) -> None:
    """Raise for the first entry of a table whose row or column is unknown to the model."""
    unknown = np.flatnonzero((rows < 0) | (cols < 0))
    if unknown.size:
        k = int(unknown[0])
        which, side = ("row", table.rows) if rows[k] < 0 else ("column", table.cols)
        label = side.names[side.codes[k]]
        raise DataError(
            f"{table.path}, {table.line_of(k)}: the model has no {which} {label!s} "
            f"({plural(int(unknown.size), 'entry')} with unknown rows or columns in all). {cure}"
        )


def predicted(model: LowRankModel, rows: Array, cols: Array, **options: Any) -> Array:
    """Predictions at row and column numbers; where one is -1, for unknown, by what is known of the other."""
    numbered = replace(model, row_labels=None, col_labels=None)
    return np.asarray(numbered.predict_entries(rows, cols, unknown="offset", **options))


@contextmanager
def writing(path: Path | None) -> Iterator[Any]:
    """A CSV writer on a file that appears when all is written, or on standard output."""
    if path is None or str(path) == "-":
        yield csv.writer(sys.stdout, lineterminator="\n")
        return
    with replacing(path, "w", encoding="utf-8", newline="") as file:
        yield csv.writer(file, lineterminator="\n")


def shown(numbers: Iterable[float]) -> list[str]:
    """Numbers for a CSV, with the digits that float32 factors have."""
    return [f"{number:.8g}" for number in numbers]
