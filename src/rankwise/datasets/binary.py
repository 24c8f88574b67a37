"""Tables that are not text: Parquet and Matrix Market."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.io
from numpy.typing import NDArray

from .._errors import DataError
from .._extras import require
from .sides import Side
from .styles import SAID, Reading, describe, place

Array = NDArray[Any]
Parts = tuple[Side, Side, Array | None, Array | None, tuple[str, ...], Callable[[int], str]]
BATCH = 1 << 20  # lines of a Parquet file that are read at a time
KINDS = "biufUM"  # of labels: what NumPy can sort and a model file can keep


def read_parquet(where: str, how: Reading) -> Parts:
    """Entries of a Parquet file, for `Table`."""
    parquet, arrow = require("pyarrow.parquet", "io"), require("pyarrow", "io")
    with _parquet(where):
        names = parquet.read_schema(where).names
        places = place(names, len(names), how, where)
        columns = parquet.read_table(where, columns=[names[at] for at in places.values()])
    found = {role: columns.column(k).combine_chunks() for k, role in enumerate(places)}
    whole, notes = _complete(found, where, how)
    kept = np.flatnonzero(whole)
    row_side, col_side = (_side(found[role].take(arrow.array(kept)), where, role) for role in ("row", "col"))
    numbers = [found[role].to_numpy(zero_copy_only=False)[kept].astype(np.float32) for role in how.roles[2:]]
    said = f"{where}: Parquet; {describe(places, names, len(names))}."
    values, weights = (*numbers, None, None)[:2]
    return row_side, col_side, values, weights, (said, *notes), lambda entry: f"row {kept[entry] + 1}"


def parquet_chunks(where: str, how: Reading, notes: list[str]) -> Iterator[tuple[Array, ...]]:
    """Labels of rows and columns, values and perhaps weights of a Parquet file, a million lines at a time."""
    parquet = require("pyarrow.parquet", "io")
    before = 0
    with _parquet(where), parquet.ParquetFile(where) as file:
        names = file.schema_arrow.names
        places = place(names, len(names), how, where)
        notes.append(f"{where}: Parquet; {describe(places, names, len(names))}.")
        wanted = [names[at] for at in places.values()]
        for batch in file.iter_batches(BATCH, columns=wanted):
            found = {role: batch.column(name) for role, name in zip(places, wanted, strict=True)}
            whole, said = _complete(found, where, how, before)
            notes += said
            before += batch.num_rows
            kept = require("pyarrow", "io").array(np.flatnonzero(whole))
            sides = [_side(found[role].take(kept), where, role).labels for role in ("row", "col")]
            numbers = (found[role].to_numpy(zero_copy_only=False)[whole].astype(np.float32) for role in how.roles[2:])
            yield (*sides, *numbers)


@contextmanager
def _parquet(where: str) -> Iterator[None]:
    """Say in a sentence what is wrong with a file."""
    arrow = require("pyarrow", "io")
    try:
        yield
    except (arrow.ArrowException, OSError) as error:
        raise DataError(f"{where} cannot be read as Parquet ({str(error).splitlines()[0]}); write it again.") from None


def _complete(
    found: dict[str, Any], where: str, how: Reading, before: int | None = None
) -> tuple[Array, tuple[str, ...]]:
    """Which rows have everything that is needed; refuses the others, or leaves them out and says so.

    `before` is the number of rows that came before, if these are some of many.
    """
    whole = ~np.any([column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False) for column in found.values()], 0)
    for role in how.roles[2:]:
        try:
            numbers = found[role].to_numpy(zero_copy_only=False).astype(float)
        except (TypeError, ValueError):
            raise DataError(
                f"{where}: the column for the {role} holds {found[role].type}, not numbers; set `{role}`."
            ) from None
        whole &= np.abs(numbers) <= np.finfo(np.float32).max
    bad = np.flatnonzero(~whole)
    if before is None and not whole.any():
        raise DataError(f"{where} has no entries; give it rows of a row label, a column label and a value.")
    if not bad.size:
        return whole, ()
    bad += before or 0
    if not how.skip_bad_lines:
        raise DataError(
            f"{where}, row {bad[0] + 1}: a label or value is missing or not finite. {bad.size:,} such rows in all; "
            "correct the file, or leave such rows out with skip_bad_lines=True."
        )
    return whole, (
        f"{where}: left out {bad.size:,} rows with a label or value missing, the first is row {bad[0] + 1}.",
    )


def _side(column: Any, where: str, role: str) -> Side:
    coded = column.dictionary_encode()
    coded = coded.combine_chunks() if hasattr(coded, "combine_chunks") else coded
    names = coded.dictionary.to_numpy(zero_copy_only=False)
    names = names.astype(str) if names.dtype.kind in "OT" else names
    if names.dtype.kind not in KINDS:
        raise DataError(f"{where}: the {SAID[role]} labels are {column.type}; use text or numbers.")
    return Side.of(names, coded.indices.to_numpy(zero_copy_only=False))


def read_matrix_market(where: str, how: Reading) -> Parts:
    """Entries of a Matrix Market file, for `Table`; labels are row and column numbers from 1, as in the file."""
    try:
        matrix, kind = scipy.io.mmread(where), scipy.io.mminfo(where)[4]
    except (ValueError, OSError, OverflowError) as error:
        raise DataError(f"{where} cannot be read as Matrix Market ({error}); correct it or write it again.") from None
    if kind in ("pattern", "complex"):
        raise DataError(f"{where}, line 1: the values are {kind}; real or integer ones are needed.")
    dense = isinstance(matrix, np.ndarray)
    rows, cols = np.indices(matrix.shape).reshape(2, -1) if dense else matrix.coords
    values = (matrix.ravel() if dense else matrix.data).astype(np.float32)
    if not np.isfinite(values).all():
        k = int(np.argmin(np.isfinite(values)))
        at = f"row {rows[k] + 1}, column {cols[k] + 1}"
        raise DataError(f"{where}: the value at {at} is not finite; leave unknown entries out of the file.")
    if not values.size:
        raise DataError(f"{where} has no entries; there is nothing to learn from.")
    row_side, col_side = (
        Side(np.arange(1, size + 1), at.astype(np.int64)) for size, at in zip(matrix.shape, (rows, cols), strict=True)
    )
    said = f"{where}: Matrix Market; rows and columns are called by their numbers, from 1."
    return row_side, col_side, None if how.pairs else values, None, (said,), lambda entry: f"entry {entry + 1}"
