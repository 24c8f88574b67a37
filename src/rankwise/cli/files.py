"""Files that commands read and write: checked before the work, and written completely or not at all."""

import csv
import math
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .._arrays import Array
from .._errors import DataError
from .._files import check_replaceable, replacing
from ..io import EntryTable, LabelColumn, Reading, read_table
from ..losses import Loss
from ..model import LowRankModel
from ..observations import LabelIndex
from .formatting import plural
from .terminal import Printable, echo


def check_output(path: Path | None, force: bool, *inputs: object) -> None:
    """Raise if the output file cannot be written, is one of the inputs, or exists and `force` is not set.

    Inputs that are not paths, such as a fraction to hold out, are ignored.
    """
    if path is None or str(path) == "-":
        return
    check_replaceable(path)
    if path.exists() and any(isinstance(given, Path) and _contains(given, path) for given in inputs):
        raise DataError(f"{path} is an input of this command, which --force does not overwrite; choose another name.")
    if path.exists() and not force:
        raise DataError(f"{path} exists; choose another name, or overwrite it with --force.")
    if not path.parent.is_dir():
        raise DataError(f"There is no folder {path.parent} to write {path.name} in; make it first.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise DataError(f"The folder {path.parent} cannot be written to; choose another place.")


def _contains(given: Path, path: Path) -> bool:
    """Return whether an existing `path` is the file `given`, also through links, or lies in that folder."""
    folders = path.resolve().parents if given.is_dir() else ()
    return given.exists() and any(os.path.samefile(given, place) for place in (path, *folders))


def read(path: Path, reading: Reading) -> EntryTable:
    """Read a table; print guesses about its format and the number of skipped lines to standard error."""
    table = read_table(path, reading)
    for note in table.notes:
        echo(note, err=True)
    return table


def check_values(table: EntryTable, loss: Loss | None) -> None:
    """Raise if a value is outside of the domain of the loss, and name its line."""
    if loss is None or table.values is None:
        return
    wrong = np.flatnonzero(~loss.in_domain(table.values))
    if wrong.size:
        k = int(wrong[0])
        raise DataError(
            f"{table.path}, {table.line_of(k)}: the {loss.name} loss needs values that are {loss.domain}, and this one "
            f"is {table.values[k]:g} ({wrong.size:,} of {table.size:,} are not). {loss.domain.remedy}"
        )


def positions(column: LabelColumn, index: LabelIndex) -> Array:
    """Return the position in `index` of each entry's row or column, -1 for unknown labels."""
    return index.positions(index.cast(column.names))[column.codes]


def entry_positions(table: EntryTable, model: LowRankModel) -> tuple[Array, Array]:
    """Return the row and column numbers in the model of a table's entries, -1 for unknown labels."""
    return positions(table.rows, model.row_index), positions(table.cols, model.col_index)


def check_known(table: EntryTable, rows: Array, cols: Array, remedy: str) -> None:
    """Raise for the first entry of a table whose row or column number is -1."""
    unknown = np.flatnonzero((rows < 0) | (cols < 0))
    if unknown.size:
        k = int(unknown[0])
        which, side = ("row", table.rows) if rows[k] < 0 else ("column", table.cols)
        label = side.names[side.codes[k]]
        raise DataError(
            f"{table.path}, {table.line_of(k)}: the model has no {which} {label!s} "
            f"({plural(int(unknown.size), 'entry')} with unknown rows or columns in all). {remedy}"
        )


def predictions_at(model: LowRankModel, rows: Array, cols: Array, unknown: str, **options: Any) -> Array:
    """Return predictions at row and column numbers; where one is -1, the shrunk mean of the other side."""
    numbered = replace(model, row_labels=None, col_labels=None)
    return np.asarray(numbered.predict_entries(rows, cols, unknown=unknown, **options))


@contextmanager
def csv_writer(path: Path | None) -> Iterator[Any]:
    """Open a CSV writer to standard output, or to a file that appears when all is written."""
    if path is None or str(path) == "-":
        yield csv.writer(Printable(sys.stdout), lineterminator="\n")
        return
    with replacing(path, "w", encoding="utf-8", newline="") as file:
        yield csv.writer(file, lineterminator="\n")


def csv_numbers(numbers: Iterable[float]) -> list[str]:
    """Return numbers as text for CSV, with the digits that float32 factors have; nothing for NaN."""
    return ["" if math.isnan(number) else f"{number:.8g}" for number in numbers]
