"""Read entries from Parquet files, in batches."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .._arrays import Array
from .._errors import DataError
from ..observations.frames import encode_arrow
from ..observations.labels import EncodedLabels, text_array
from .dialect import SAID, Reading, describe, place
from .label_column import Columns, EntryBatch
from .text import FIRST_LINES, MAX_FLOAT32

PARQUET_ROWS = 1 << 20  # rows read at a time
PARQUET_LABEL_KINDS = "biufUM"  # NumPy kinds of labels: those that can be sorted and stored in a model file


def _first_rows(where: str) -> tuple[list[str], list[list[str]]]:
    """Names of the columns, and their first values as text, nulls left out."""
    with pq.ParquetFile(where) as file:
        names = file.schema_arrow.names
        for table in file.iter_batches(FIRST_LINES):
            return names, [_texts(column) for column in table.columns]
    return names, [[] for _ in names]


def _texts(column: pa.Array) -> list[str]:
    """Values as text, nulls left out; none if Python cannot hold them, such as dates far away."""
    try:
        return [str(value) for value in column.drop_null().to_pylist()]
    except (ValueError, OverflowError, TypeError, NotImplementedError):  # pyarrow's errors are among these
        return []


class ParquetFile:
    """A Parquet file of entries."""

    def __init__(self, where: str, how: Reading) -> None:
        self.where, self.how = where, how
        self._incomplete: list[int] = []  # rows without a label or a finite value, counted from 0
        with self._errors():
            names, first = _first_rows(where)
        columns = place(names, first, how, where)
        self.names = [names[at] for at in columns.values()]
        repeated = next((name for name in self.names if names.count(name) > 1), None)
        if repeated is not None:
            raise DataError(f"{where} has {names.count(repeated)} columns named {repeated!r}; rename all but one.")
        self.notes = [f"{where}: Parquet; {describe(columns, names, len(names), how)}."]  # later, also rows left out

    def read(self) -> Columns:
        """Read all entries."""
        batches = list(self.batches())
        if not batches:
            raise DataError(f"{self.where} has no entries; give it rows of a row label, a column label and a value.")
        return Columns.of(batches)

    def batches(self) -> Iterator[EntryBatch]:
        """Read the entries of up to a million rows at a time."""
        n_rows = 0
        with self._errors(), pq.ParquetFile(self.where) as file:
            for table in file.iter_batches(PARQUET_ROWS, columns=self.names):
                complete = self._is_complete(table)
                self._incomplete += (n_rows + np.flatnonzero(~complete)).tolist()
                n_rows += complete.size
                if complete.any() and (self.how.skip_bad_lines or not self._incomplete):
                    yield self._batch(table.filter(pa.array(complete)))
        self._check_complete()

    def line_of(self, entry: int) -> tuple[str, str]:
        """Row of an entry in words, such as "row 7"; the text is empty."""
        row = entry
        for incomplete in self._incomplete:
            row += incomplete <= row
        return f"row {row + 1}", ""

    def _batch(self, table: pa.RecordBatch) -> EntryBatch:
        rows, cols = (self._labels(table.column(k), which) for k, which in enumerate(("row", "column")))
        numbers = (column.to_numpy(zero_copy_only=False) for column in table.columns[2:])
        return EntryBatch(rows, cols, tuple(column.astype(np.float32) for column in numbers))

    def _labels(self, column: pa.Array, which: str) -> EncodedLabels:
        """Labels of a column; bytes are decoded as UTF-8."""
        try:
            values, codes = encode_arrow(column)
            names = values.to_numpy(zero_copy_only=False)
            if names.dtype.kind in "OT":
                texts = [name.decode() if isinstance(name, bytes) else str(name) for name in names]
                names = text_array(texts, which)
        except (NotImplementedError, UnicodeDecodeError):
            names = np.zeros(0, object)
        if names.dtype.kind not in PARQUET_LABEL_KINDS:
            raise DataError(f"{self.where}: the {which} labels are {column.type}; use text or numbers.")
        return EncodedLabels(names, codes)

    def _is_complete(self, table: pa.RecordBatch) -> Array:
        """Mask of the rows without null and with finite numbers, shape (n_rows,)."""
        missing = [column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False) for column in table.columns]
        complete: Array = ~np.any(missing, 0)
        for role, column in zip(self.how.roles[2:], table.columns[2:], strict=True):
            try:
                numbers = column.to_numpy(zero_copy_only=False).astype(float)
            except (TypeError, ValueError):
                raise DataError(
                    f"{self.where}: the column for the {SAID[role]} holds {column.type}, not numbers; set `{role}`."
                ) from None
            complete &= np.abs(numbers) <= MAX_FLOAT32
        return complete

    def _check_complete(self) -> None:
        """Raise for incomplete rows, or note that they were left out."""
        if not self._incomplete:
            return
        n, first = len(self._incomplete), self._incomplete[0] + 1
        if not self.how.skip_bad_lines:
            raise DataError(
                f"{self.where}, row {first}: a label or value is missing or not finite. {n:,} such rows in all; "
                "correct the file, or leave such rows out with skip_bad_lines=True."
            )
        note = f"left out {n:,} rows with a label or value missing, the first is row {first}"
        self.notes.append(f"{self.where}: {note}.")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise `DataError` where pyarrow cannot read the file."""
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0]
            raise DataError(f"{self.where} cannot be read as Parquet ({reason}); write it again.") from None
