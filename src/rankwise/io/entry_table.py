"""Tables of entries from people's files: delimited text, Parquet, Matrix Market; labels of any kind."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io

from .._arrays import Array
from .._errors import DataError, SettingError
from ..observations import Observations
from ..observations.build import refuse_huge
from ..observations.labels import EncodedLabels, numbered
from ..storage import write_shards
from .dialect import ROLES, Reading
from .files import AnyPath, format_of
from .label_column import EntryBatch, LabelColumn, as_numbers, joined
from .parquet import ParquetFile
from .text import Irregular, TextFile

CHUNK_ENTRIES = 1 << 19  # entries that are given to `write_shards` at a time
SAMPLED_VALUES = 100_000  # values by which zeros are noted


@dataclass(frozen=True, eq=False)
class EntryTable:
    r"""Entries of a file, in the order of the file.

    Attributes
    ----------
    path : str
    rows, cols : LabelColumn
    values, weights : ndarray of float32, shape (n,), or None
    notes : tuple of str
        Guesses about the format, and the number of lines left out.
    locate : callable int -> (str, str)
        Position of an entry in the file, such as "line 7", and the text of the line if there is one.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import rankwise as rw
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "stars.csv")
    ...     _ = path.write_text("user,film,stars\nann,Alien,5\nbob,Babe,4\n")
    ...     table = rw.io.read_table(path)
    ...     print(table.rows.names, table.line_of(1))
    ['ann' 'bob'] line 3
    """

    path: str
    rows: LabelColumn
    cols: LabelColumn
    values: Array | None
    weights: Array | None
    notes: tuple[str, ...]
    locate: Callable[[int], tuple[str, str]]

    @property
    def size(self) -> int:
        """Number of entries."""
        return int(self.rows.codes.size)

    def line_of(self, entry: int) -> str:
        """Position of an entry in the file, such as "line 7"."""
        return self.locate(entry)[0]

    def observations(self, duplicates: str = "error") -> Observations:
        """Build the observed matrix with its labels; a repeated pair raises, or is merged (see `read_file`)."""
        labels, shape = (self.rows.names, self.cols.names), (self.rows.names.size, self.cols.names.size)
        try:
            return Observations.from_coo(
                self.rows.codes,
                self.cols.codes,
                [] if self.values is None else self.values,
                shape,
                weights=self.weights,
                duplicates=duplicates,
                labels=labels,
            )
        except DataError:
            self.refuse_repeats(duplicates)
            raise

    def refuse_repeats(self, duplicates: str) -> None:
        """Raise, naming both lines, if a (row, column) pair is repeated and `duplicates` is "error"."""
        keys = self.rows.codes.astype(np.int64) * self.cols.names.size + self.cols.codes
        order = np.argsort(keys, kind="stable")
        again = np.flatnonzero(keys[order][1:] == keys[order][:-1]) + 1
        if duplicates != "error" or not again.size:
            return
        later = int(order[again].min())
        earlier = int(np.argmax(keys == keys[later]))
        pair = self.rows.names[self.rows.codes[later]], self.cols.names[self.cols.codes[later]]
        raise DataError(
            f"{self.path}, {self.line_of(later)}: row {pair[0]}, column {pair[1]} is given already, at "
            f"{self.line_of(earlier)} ({again.size:,} repeated in all). Merge them with "
            'duplicates="mean" or duplicates="last".'
        )


def read_table(path: AnyPath, how: Reading | None = None) -> EntryTable:
    r"""Read a file of entries; settings that `how` leaves open are guessed, and the guesses are in the table's notes.

    Text may be separated by commas, tabs, semicolons, bars, ``::`` or blanks, with or without a header, plain or packed
    (.gz, .bz2, .xz, or inside a zip archive). Labels are integers if all labels of a side are written as such, without
    leading zeros; else text, so that "007" and "NA" are labels like any other.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import rankwise as rw
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "stars.tsv")
    ...     _ = path.write_text("ann\tAlien\t5\nbob\tBabe\t4\n")
    ...     table = rw.io.read_table(path)
    >>> print(table.size, table.values)
    2 [5. 4.]
    """
    how, where = how or Reading(), os.fspath(path)
    file_format = format_of(where)
    if file_format == "Matrix Market":
        return _read_matrix_market(where, how)
    file = ParquetFile(where, how) if file_format == "parquet" else TextFile(where, how)
    rows, cols, numbers = file.read()
    values, weights = (*numbers, None, None)[:2]
    return _observed(EntryTable(where, rows, cols, values, weights, tuple(file.notes), file.line_of), how.missing)


def read_file(path: AnyPath, *, duplicates: str = "error", **how: Any) -> Observations:
    r"""Read the observed entries of a file, with the labels of the file.

    Parameters
    ----------
    path : path
        Text in any usual style, Parquet or Matrix Market; see `read_table`.
    duplicates : {"error", "mean", "last"}, default="error"
        What to do with a pair that comes more than once.
    **how
        Fields of `Reading`: row, col, value, weight, separator, header, encoding, skip_bad_lines, missing.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import rankwise as rw
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "stars.csv")
    ...     _ = path.write_text("user,film,stars\nann,Alien,5\nbob,Babe,4\n")
    ...     seen = rw.io.read_file(path)
    >>> print(seen.row_labels, seen.col_labels, seen.targets)
    ['ann' 'bob'] ['Alien' 'Babe'] [5. 4.]
    """
    return read_table(path, Reading(**how)).observations(duplicates)


def shard_file(
    path: AnyPath, folder: AnyPath, *, how: Reading | None = None, duplicates: str = "error"
) -> tuple[Path, tuple[str, ...]]:
    r"""Write the entries of a file to a folder of shards for `ShardFolder`, without reading the whole file into memory.

    Parameters
    ----------
    path : path
        Text in any usual style, as `read_file` takes it; a Parquet file, or a folder of these.
    folder : path
        Must not exist.
    how : Reading, optional
        Settings that are left open are guessed.
    duplicates : {"error", "mean", "last"}, default="error"

    Returns
    -------
    folder : Path
    notes : tuple of str
        Guesses about the format, and the number of lines left out.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import rankwise as rw
    >>> with tempfile.TemporaryDirectory() as room:
    ...     _ = Path(room, "trust.csv").write_text("from,to,sign\nann,bob,1\nbob,ann,-1\n")
    ...     shards, notes = rw.io.shard_file(f"{room}/trust.csv", f"{room}/shards")
    ...     print(rw.ShardFolder(shards).row_labels)
    ['ann' 'bob']
    """
    how, where = how or Reading(), os.fspath(path)
    if os.path.isdir(where) or format_of(where) == "parquet":
        files = [ParquetFile(str(file), how) for file in _parquet_files(Path(where))]
        chunks = _Chunks(chain.from_iterable(file.batches() for file in files), how.missing)
        write_shards(chunks, folder, duplicates=duplicates)
        return Path(folder), (*(note for file in files for note in file.notes), *chunks.notes(where))
    if format_of(where) != "text":
        raise DataError(
            f"{where} is {format_of(where)}, which cannot be read in a stream; give CSV or Parquet, or fit it directly."
        )
    text = TextFile(where, how)
    for batches in text.readers():
        try:
            chunks = _Chunks(batches, how.missing)
            write_shards(chunks, folder, duplicates=duplicates, as_names=as_numbers)
        except Irregular:
            continue
        break
    return Path(folder), (*text.notes, *chunks.notes(where))


class _Chunks:
    """Labels and numbers of many entries at a time, since `write_shards` sorts all labels when a chunk has new ones."""

    def __init__(self, batches: Iterable[EntryBatch], missing: float | None) -> None:
        self.batches, self.missing = batches, missing
        self.n_entries = self.n_kept = 0

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        held: list[EntryBatch] = []
        for batch in chain(self.batches, (None,)):
            held += [] if batch is None else [batch]
            if held and (batch is None or sum(len(part.rows) for part in held) >= CHUNK_ENTRIES):
                rows, cols, numbers = joined(held)
                if self.missing is not None:
                    kept = np.flatnonzero(numbers[0] != self.missing)
                    self.n_entries, self.n_kept = self.n_entries + numbers[0].size, self.n_kept + kept.size
                    rows, cols, numbers = rows.chosen(kept), cols.chosen(kept), tuple(part[kept] for part in numbers)
                yield rows, cols, *numbers
                held = []

    def notes(self, where: str) -> list[str]:
        """Return how many entries were left out, if any could be."""
        return [] if self.missing is None else [_left_out(where, self.n_entries, self.n_kept, self.missing)]


def _left_out(where: str, n_entries: int, n_kept: int, missing: float) -> str:
    return f"{where}: left out {n_entries - n_kept:,} of {n_entries:,} entries with the value {missing:g}."


def _parquet_files(path: Path) -> Iterator[Path]:
    """The Parquet files in a folder, in the order of their names; a file is itself."""
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise DataError(f"{path} is a folder without any .parquet file; name a file, or a folder that has some.")
    yield from files


def _read_matrix_market(where: str, how: Reading) -> EntryTable:
    """Read a Matrix Market file; labels are the row and column numbers of the file, from 1."""
    chosen_role = next((role for role in ROLES if getattr(how, role) is not None), None)
    if chosen_role is not None:
        raise SettingError(f"{where}: a Matrix Market file has no columns to choose from; leave out `{chosen_role}`.")
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
    sides = [
        LabelColumn(np.arange(1, size + 1), codes.astype(np.int64))
        for size, codes in zip(matrix.shape, (rows, cols), strict=True)
    ]
    note = f"{where}: Matrix Market; rows and columns are called by their numbers, from 1."
    table = EntryTable(where, sides[0], sides[1], values, None, (note,), lambda entry: (f"entry {entry + 1}", ""))
    return _observed(table, how.missing)


def _observed(table: EntryTable, missing: float | None) -> EntryTable:
    """Leave out the entries whose value means "not observed"; without such a value, note zeros that may mean it."""
    values = table.values
    if values is None:
        return table
    if missing is None:
        return replace(table, notes=(*table.notes, *_note_zeros(table.path, values)))
    kept = np.flatnonzero(values != missing)
    if not kept.size:
        raise DataError(f"{table.path} has no entry with a value other than missing={missing:g}.")
    sides = (
        LabelColumn(*numbered(EncodedLabels(side.names, side.codes).chosen(kept), which))
        for side, which in ((table.rows, "row"), (table.cols, "column"))
    )
    rows, cols = sides
    weights = None if table.weights is None else table.weights[kept]
    note = _left_out(table.path, values.size, kept.size, missing)
    return replace(
        table,
        rows=rows,
        cols=cols,
        values=values[kept],
        weights=weights,
        notes=(*table.notes, note),
        locate=lambda entry: table.locate(int(kept[entry])),
    )


def _note_zeros(path: str, values: Array) -> Iterator[str]:
    """Note that zero is the commonest value of a sample and outside the range of the others, if these differ."""
    sample = values[:: max(1, values.size // SAMPLED_VALUES)]
    distinct, counts = np.unique(sample, return_counts=True)
    at = int(np.argmax(counts))
    if distinct[at] == 0 and at in (0, distinct.size - 1) and distinct.size > 2:
        others = np.delete(distinct, at)
        yield (
            f"{path}: {counts[at] / sample.size:.0%} of the values are 0 and the others lie from {others[0]:g} to "
            f"{others[-1]:g}; if 0 means that there is no value, leave these entries out with missing=0 (--missing 0)."
        )
