"""Conversion of arrays, lists and data frames of two columns to (row, column) pairs of labels."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from .._arrays import Array
from .._errors import DataError, DataTypeError
from .frames import is_frame, read_columns


def as_pairs(data: Any) -> tuple[Array, Array]:
    """Row labels and column labels, each of shape (n,), of an array, list or data frame of two columns."""
    if sp.issparse(data):
        raise DataTypeError("Pairs cannot be sparse; give row and column labels as an array of two columns.")
    columns = columns_of(data)
    if len(columns) != 2:
        shape = f"{len(columns)} feature(s) (shape=({len(columns[0]) if columns else len(data)}, {len(columns)}))"
        wrong = "while a minimum of 2 is required" if len(columns) < 2 else "where two are needed"
        raise DataError(f"Pairs are a row label and a column label: there are {shape} {wrong}.")
    rows, cols = (_label_column(column, which) for column, which in zip(columns, ("row", "column"), strict=True))
    if not rows.size:
        raise DataError("There are 0 pairs (0 samples); at least one is needed.")
    return rows, cols


def columns_of(data: Any) -> list[Array]:
    """Columns of an array, list or data frame, each of shape (n,)."""
    if is_frame(data):
        return read_columns(data)
    if isinstance(data, list | tuple) and data and all(isinstance(pair, list | tuple) for pair in data):
        if len({len(pair) for pair in data}) > 1:
            raise DataError("Pairs of a row and a column are needed; these differ in length.")
        return [_typed(column) for column in zip(*data, strict=True)]  # each column keeps its own type
    array = np.asarray(data)
    if array.ndim != 2:
        raise DataError(
            f"Pairs of a row and a column are needed, got an array of shape {array.shape}. Reshape your data: one "
            "line a pair, two columns."
        )
    return list(array.T)


def _typed(column: tuple[Any, ...]) -> Array:
    """Labels as an array, of objects if only some are text, because NumPy would convert all to text."""
    try:
        return np.array(column, object if len({isinstance(label, str) for label in column}) > 1 else None)
    except ValueError:
        raise DataError("Row and column labels must be text or numbers, got lists that differ in length.") from None


def _label_column(column: Array, which: str) -> Array:
    """Labels of a sortable type; a column of objects is converted to the type of its elements."""
    if column.dtype.kind == "O" and column.size:
        if not all(isinstance(label, str | int | float | np.generic) for label in column):
            kind = next(type(label) for label in column if not isinstance(label, str | int | float | np.generic))
            raise DataTypeError(
                f"A {which} label argument must be a string or a real number, got {kind.__name__}; leave out pairs "
                "without label."
            )
        texts = sum(isinstance(label, str) for label in column)
        if 0 < texts < column.size:
            raise DataError(f"The {which} labels mix text and numbers; make them all one of these.")
        column = np.array(column.tolist())
    if column.dtype.kind == "c":
        raise DataError(f"Complex data not supported: {which} labels must be text or real numbers.")
    if column.dtype.kind == "f" and not np.isfinite(column).all():
        raise DataError(f"Some {which} labels are NaN or infinity; leave those pairs out.")
    return column
