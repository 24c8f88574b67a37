"""Entries on their way to the disk: written as they come, with codes for their labels."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import DataError
from ..observations.build import as_indices, as_values, check_weights, refuse_huge
from .numbering import Numbering

Array = NDArray[Any]
LINES = 1 << 21  # records handled at a time


class Spool:
    """A file of records: row, column, value, and perhaps weight.

    Parameters
    ----------
    path : Path
    shape : (n_rows, n_cols) or None
        If given, rows and columns come as numbers; else as labels, which get numbers once all are known.
    """

    def __init__(self, path: Path, shape: tuple[int, int] | None) -> None:
        self.path, self.given = path, shape
        self.shape = (0, 0) if shape is None else shape
        self.labels: tuple[Array | None, Array | None] = (None, None)
        self.n_entries = 0
        self.single = True  # whether float32 holds every value and weight
        self._sides = Numbering("row"), Numbering("column")
        self._number_of: tuple[Array | None, Array | None] = (None, None)
        self.record: np.dtype[Any] = np.dtype([])
        self._file: Any = path.open("xb")

    @property
    def weighted(self) -> bool:
        """Whether entries have weights."""
        return "weight" in (self.record.names or ())

    def add(self, rows: Any, cols: Any, *numbers: Any) -> None:
        """Append entries; values come third and weights, if any, fourth. Weight zero is left out, its labels stay."""
        if len(numbers) not in (1, 2):
            raise DataError("A chunk needs rows, columns and values, and weights if there are any.")
        n = len(rows)
        if len(cols) != n:
            raise DataError(f"There are {n} rows but {len(cols)} columns in a chunk; give pairs.")
        if n == 0:
            return
        kinds = zip(numbers, ("values", "weights"), strict=False)
        found = [as_values(part, n, what, copy=False) for part, what in kinds]
        if len(found) > 1 and found[1].min() < 0:
            check_weights(found[1])
        records = np.empty(n, self._settled(*found))
        parts = self._coded(0, rows), self._coded(1, cols), *found
        for name, part in zip(records.dtype.names or (), parts, strict=True):
            records[name] = part
        if self.weighted:
            records = records[records["weight"] > 0]
        with np.errstate(over="ignore"):
            self.single = self.single and all(bool((part.astype(np.float32) == part).all()) for part in found)
        self.n_entries += records.size
        self._file.write(records.data)

    def _settled(self, values: Array, weights: Array | None = None) -> np.dtype[Any]:
        """What a record is; the first chunk says."""
        fields = [("row", "<u4"), ("col", "<u4"), ("value", values.dtype.newbyteorder("<").str)]
        record = np.dtype(fields if weights is None else [*fields, ("weight", weights.dtype.newbyteorder("<").str)])
        if not self.record.names:
            self.record = record
        if record != self.record:
            raise DataError("The chunks differ in what they hold: all need values of one type, and weights or none.")
        return record

    def _coded(self, side: int, given: Any) -> Array:
        if self.given is None:
            return self._sides[side].encode(np.asarray(given))
        return as_indices(given, self.given[side], ("row", "column")[side])[0]

    def finish(self, as_names: Callable[[Array], Array] | None = None) -> None:
        """All entries have come: number the labels in sorted order. `as_names` says what the labels mean."""
        self._file.close()
        if self.n_entries == 0:
            raise DataError("There are no entries; there is nothing to learn from.")
        if self.given is None:
            rows, cols = (side.finish(as_names) for side in self._sides)
            self.labels, self._number_of = (rows[0], cols[0]), (rows[1], cols[1])
            self.shape = rows[0].size, cols[0].size
        refuse_huge(*self.shape, self.n_entries)

    def records(self) -> Iterator[Array]:
        """The entries in the order they came, with row and column numbers."""
        with self.path.open("rb") as file:
            while (found := np.fromfile(file, self.record, LINES)).size:
                for name, number_of in zip(("row", "col"), self._number_of, strict=True):
                    if number_of is not None:
                        found[name] = number_of[found[name]]
                yield found

    def row_counts(self) -> NDArray[np.int64]:
        """Number of entries of every row."""
        counts = np.zeros(self.shape[0], np.int64)
        for found in self.records():
            counts += np.bincount(found["row"], minlength=counts.size)
        return counts

    def close(self) -> None:
        """Remove the file."""
        self._file.close()
        self.path.unlink(missing_ok=True)
