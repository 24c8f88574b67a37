"""Tables that are not text: Parquet and Matrix Market."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.io
from numpy.typing import NDArray

from .._errors import DataError, SettingError
from .._extras import require
from ..observations.build import refuse_huge
from .sides import Side
from .styles import ROLES, SAID, Reading, describe, place

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
        columns = parquet.read_table(where, columns=_wanted(names, places, where))
    found = {role: columns.column(k).combine_chunks() for k, role in enumerate(places)}
    whole, gaps = _complete(found, where, how), _Gaps(where)
    if not whole.any():
        raise DataError(f"{where} has no entries; give it rows of a row label, a column label and a value.")
    gaps.add(whole)
    notes, kept = gaps.settled(how), np.flatnonzero(whole)
    row_side, col_side = (_side(found[role].take(arrow.array(kept)), where, role) for role in ("row", "col"))
    numbers = [found[role].to_numpy(zero_copy_only=False)[kept].astype(np.float32) for role in how.roles[2:]]
    said = f"{where}: Parquet; {describe(places, names, len(names))}."
    values, weights = (*numbers, None, None)[:2]
    return row_side, col_side, values, weights, (said, *notes), lambda entry: f"row {kept[entry] + 1}"


def parquet_chunks(where: str, how: Reading, notes: list[str]) -> Iterator[tuple[Array, ...]]:
    """Labels of rows and columns, values and perhaps weights of a Parquet file, a million lines at a time."""
    parquet = require("pyarrow.parquet", "io")
    gaps = _Gaps(where)
    with _parquet(where), parquet.ParquetFile(where) as file:
        names = file.schema_arrow.names
        places = place(names, len(names), how, where)
        notes.append(f"{where}: Parquet; {describe(places, names, len(names))}.")
        wanted = _wanted(names, places, where)
        for batch in file.iter_batches(BATCH, columns=wanted):
            found = {role: batch.column(name) for role, name in zip(places, wanted, strict=True)}
            whole = _complete(found, where, how)
            gaps.add(whole)
            if gaps.count and not how.skip_bad_lines:
                continue  # what is left to do is counting
            kept = require("pyarrow", "io").array(np.flatnonzero(whole))
            sides = [_side(found[role].take(kept), where, role).labels for role in ("row", "col")]
            numbers = (found[role].to_numpy(zero_copy_only=False)[whole].astype(np.float32) for role in how.roles[2:])
            yield (*sides, *numbers)
    notes += gaps.settled(how)


def _wanted(names: list[str], places: dict[str, int], where: str) -> list[str]:
    """Names of the columns to read; Parquet finds columns by name only."""
    wanted = [names[at] for at in places.values()]
    twice = next((name for name in wanted if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{where} has {names.count(twice)} columns named {twice!r}; rename all but one.")
    return wanted


@contextmanager
def _parquet(where: str) -> Iterator[None]:
    """Say in a sentence what is wrong with a file."""
    arrow = require("pyarrow", "io")
    try:
        yield
    except (arrow.ArrowException, OSError) as error:
        raise DataError(f"{where} cannot be read as Parquet ({str(error).splitlines()[0]}); write it again.") from None


def _complete(found: dict[str, Any], where: str, how: Reading) -> Array:
    """Which rows have everything that is needed."""
    gaps = [column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False) for column in found.values()]
    whole: Array = ~np.any(gaps, 0)
    for role in how.roles[2:]:
        try:
            numbers = found[role].to_numpy(zero_copy_only=False).astype(float)
        except (TypeError, ValueError):
            raise DataError(
                f"{where}: the column for the {role} holds {found[role].type}, not numbers; set `{role}`."
            ) from None
        whole &= np.abs(numbers) <= np.finfo(np.float32).max
    return whole


@dataclass
class _Gaps:
    """Rows of a file that lack something: how many, and the first, counted from 1."""

    where: str
    count: int = 0
    first: int = 0
    n_rows: int = 0  # looked at

    def add(self, whole: Array) -> None:
        """Look at the next rows."""
        bad = np.flatnonzero(~whole)
        if bad.size and not self.count:
            self.first = self.n_rows + int(bad[0]) + 1
        self.count += bad.size
        self.n_rows += whole.size

    def settled(self, how: Reading) -> tuple[str, ...]:
        """What was left out in words, when all rows have been looked at; refuses the file if none may be."""
        if self.count and not how.skip_bad_lines:
            raise DataError(
                f"{self.where}, row {self.first}: a label or value is missing or not finite. {self.count:,} such rows "
                "in all; correct the file, or leave such rows out with skip_bad_lines=True."
            )
        said = f"left out {self.count:,} rows with a label or value missing, the first is row {self.first}"
        return (f"{self.where}: {said}.",) if self.count else ()


def _side(column: Any, where: str, role: str) -> Side:
    """Labels of one side: those that entries have, not all that a dictionary column may hold."""
    try:
        coded = column.dictionary_encode()
        coded = coded.combine_chunks() if hasattr(coded, "combine_chunks") else coded
        names = _names(coded.dictionary.to_numpy(zero_copy_only=False))
    except (NotImplementedError, UnicodeDecodeError):
        names = np.zeros(0, object)
    if names.dtype.kind not in KINDS:
        raise DataError(f"{where}: the {SAID[role]} labels are {column.type}; use text or numbers.")
    codes = coded.indices.to_numpy(zero_copy_only=False)
    used = np.zeros(names.size, bool)
    used[codes] = True
    return Side.of(names[used], (np.cumsum(used) - 1)[codes])


def _names(given: Array) -> Array:
    """Labels as NumPy can sort them; bytes are taken for UTF-8."""
    if given.dtype.kind not in "OT":
        return given
    return np.array([name.decode() if isinstance(name, bytes) else str(name) for name in given.tolist()], str)


def read_matrix_market(where: str, how: Reading) -> Parts:
    """Entries of a Matrix Market file, for `Table`; labels are row and column numbers from 1, as in the file."""
    asked = next((role for role in ROLES if getattr(how, role) is not None), None)
    if asked is not None:
        raise SettingError(f"{where}: a Matrix Market file has no columns to choose from; leave out `{asked}`.")
    try:
        matrix, kind = scipy.io.mmread(where), scipy.io.mminfo(where)[4]
    except (ValueError, OSError, OverflowError, MemoryError) as error:
        raise DataError(f"{where} cannot be read as Matrix Market ({error}); correct it or write it again.") from None
    if kind in ("pattern", "complex") and not how.pairs:
        raise DataError(f"{where}, line 1: the values are {kind}; real or integer ones are needed.")
    dense = isinstance(matrix, np.ndarray)
    rows, cols = np.indices(matrix.shape).reshape(2, -1) if dense else matrix.coords
    if not rows.size:
        raise DataError(f"{where} has no entries; there is nothing to learn from.")
    refuse_huge(matrix.shape[0], matrix.shape[1], rows.size)
    values = None if how.pairs else (matrix.ravel() if dense else matrix.data).astype(np.float32)
    if values is not None and not np.isfinite(values).all():
        k = int(np.argmin(np.isfinite(values)))
        at = f"row {rows[k] + 1}, column {cols[k] + 1}"
        raise DataError(f"{where}: the value at {at} is not finite; leave unknown entries out of the file.")
    row_side, col_side = (
        Side(np.arange(1, size + 1), at.astype(np.int64)) for size, at in zip(matrix.shape, (rows, cols), strict=True)
    )
    said = f"{where}: Matrix Market; rows and columns are called by their numbers, from 1."
    return row_side, col_side, values, None, (said,), lambda entry: f"entry {entry + 1}"
