"""Temporary file of entries as they come, with codes in place of their labels."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from .._errors import DataError
from ..observations.build import as_indices, as_values, check_weights, refuse_huge
from ..observations.labels import MIXED, numbered

LINES = 1 << 21  # records read at a time
NO_ENTRIES = "There are no entries."


class Numbering:
    """Codes for labels that come in chunks: every new label gets the next one."""

    def __init__(self, which: str) -> None:
        self.which = which  # "row" or "column", for error messages
        self.names: Array | None = None  # sorted labels
        self.codes = np.zeros(0, np.uint32)  # of these labels

    def encode(self, labels: Any) -> NDArray[np.uint32]:
        """Return the code of each label of a chunk."""
        names, places = numbered(labels, self.which)
        if self.names is None:
            self.names = names[:0]
        kinds = {self.names.dtype.kind, names.dtype.kind}
        if kinds == {"i", "u"} and all(part.max(initial=0) < 2**63 for part in (self.names, names)):
            self.names, names = self.names.astype(np.int64), names.astype(np.int64)  # NumPy would join them as floats
        elif len(kinds) > 1 and kinds & {"i", "u"}:
            raise DataError(MIXED.format(self.which))
        at = np.searchsorted(self.names, names)
        known = at < self.names.size
        known[known] = self.names[at[known]] == names[known]
        new = ~known
        if new.any():
            if self.names.size + int(new.sum()) >= 2**32:
                raise DataError(
                    f"The number of {self.which}s must be less than 2**32, which a 32-bit index can number."
                )
            fresh = np.arange(self.codes.size, self.codes.size + int(new.sum()), dtype=np.uint32)
            merged = np.concatenate(
                (self.names, names[new])
            )  # concatenated first, so that text is as wide as the longest
            order = np.argsort(merged, kind="stable")
            self.names, self.codes = merged[order], np.concatenate((self.codes, fresh))[order]
            at = np.searchsorted(self.names, names)
        codes: NDArray[np.uint32] = self.codes[at][places]
        return codes

    def finish(self, as_names: Callable[[Array], Array] | None = None) -> tuple[Array, NDArray[np.uint32]]:
        """Return the labels, converted one for one by `as_names`, in sorted order, and each code's number in it."""
        if self.names is None:
            raise DataError(NO_ENTRIES)
        names = self.names if as_names is None else as_names(self.names)
        order = np.argsort(names, kind="stable")
        number_of = np.empty(order.size, np.uint32)
        number_of[self.codes[order]] = np.arange(order.size, dtype=np.uint32)
        return names[order], number_of


class Spool:
    """A file of records: row, column, value, and perhaps weight.

    Rows and columns come as numbers if a `shape` is given; otherwise as labels, which are numbered once all are known.
    """

    def __init__(self, path: Path, shape: tuple[int, int] | None) -> None:
        self.path, self.fixed_shape = path, shape
        self.shape = (0, 0) if shape is None else shape
        self.labels: tuple[Array | None, Array | None] = (None, None)
        self.n_entries = 0
        self.single = True  # whether float32 holds every value and weight
        self._sides = Numbering("row"), Numbering("column")
        self._number_of: tuple[Array | None, Array | None] = (None, None)
        self.record: np.dtype[np.void] = np.dtype([])
        self._file = path.open("xb")

    @property
    def weighted(self) -> bool:
        """Whether entries have weights."""
        return "weight" in (self.record.names or ())

    def add(self, rows: Any, cols: Any, *numbers: Any) -> None:
        """Append entries: rows, columns, values, perhaps weights. Drop those of weight zero, but not their labels."""
        if len(numbers) not in (1, 2):
            raise DataError("A chunk must be (rows, cols, values) or (rows, cols, values, weights).")
        n = len(rows)
        if len(cols) != n:
            raise DataError(f"The arrays of a chunk must have one length, got {n} rows and {len(cols)} columns.")
        if n == 0:
            return
        kinds = zip(numbers, ("values", "weights"), strict=False)
        values = [as_values(part, n, what, copy=False) for part, what in kinds]
        if len(values) > 1 and values[1].min() < 0:
            check_weights(values[1])
        records = np.empty(n, self._record_of(*values))
        parts = self._coded(0, rows), self._coded(1, cols), *values
        for name, part in zip(records.dtype.names or (), parts, strict=True):
            records[name] = part
        if self.weighted:
            records = records[records["weight"] > 0]
        with np.errstate(over="ignore"):
            self.single = self.single and all(bool((part.astype(np.float32) == part).all()) for part in values)
        self.n_entries += records.size
        self._file.write(records.data)

    def _record_of(self, values: Array, weights: Array | None = None) -> np.dtype[np.void]:
        """Return the type of a record, which is that of the first chunk."""
        fields = [("row", "<u4"), ("col", "<u4"), ("value", values.dtype.newbyteorder("<").str)]
        record = np.dtype(fields if weights is None else [*fields, ("weight", weights.dtype.newbyteorder("<").str)])
        if not self.record.names:
            self.record = record
        if record != self.record:
            raise DataError("The chunks differ: all must have values of one type, and all or none weights.")
        return record

    def _coded(self, side: int, labels: Any) -> Array:
        if self.fixed_shape is None:
            return self._sides[side].encode(labels)
        return as_indices(labels, self.fixed_shape[side], ("row", "column")[side])[0]

    def finish(self, as_names: Callable[[Array], Array] | None = None) -> None:
        """Number the labels in sorted order, after the last entry. `as_names` converts the labels first."""
        self._file.close()
        if self.n_entries == 0:
            raise DataError(NO_ENTRIES)
        if self.fixed_shape is None:
            rows, cols = (side.finish(as_names) for side in self._sides)
            self.labels, self._number_of = (rows[0], cols[0]), (rows[1], cols[1])
            self.shape = rows[0].size, cols[0].size
        refuse_huge(*self.shape, self.n_entries)

    def records(self) -> Iterator[Array]:
        """Yield the entries in the order they came, with row and column numbers."""
        with self.path.open("rb") as file:
            while (records := np.fromfile(file, self.record, LINES)).size:
                for name, number_of in zip(("row", "col"), self._number_of, strict=True):
                    if number_of is not None:
                        records[name] = number_of[records[name]]
                yield records

    def row_counts(self) -> NDArray[np.int64]:
        """Return the number of entries of every row."""
        counts = np.zeros(self.shape[0], np.int64)
        for records in self.records():
            counts += np.bincount(records["row"], minlength=counts.size)
        return counts

    def close(self) -> None:
        """Remove the file."""
        self._file.close()
        self.path.unlink(missing_ok=True)
