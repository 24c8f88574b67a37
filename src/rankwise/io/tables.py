"""Tables of entries from people's files: text in any style, Parquet, Matrix Market; labels of any kind."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import DataError
from ..observations import Observations
from .binary import read_matrix_market, read_parquet
from .lines import read_text
from .sides import Side
from .styles import Reading
from .text import AnyPath, opened, readable

Array = NDArray[Any]
MAGIC = {b"PAR1": "parquet", b"%%Matr": "Matrix Market"}
OTHER = {  # what people have been known to give instead
    b"PK\x03\x04": "a zip archive, an Excel file or a model; save the table as CSV",
    b"\x1f\x8b": "packed with gzip; give it a name that ends in .gz",
    b"BZh": "packed with bzip2; give it a name that ends in .bz2",
    b"\xfd7zXZ": "packed with xz; give it a name that ends in .xz",
    b"%PDF": "a PDF; save the table as CSV",
    b"\x89HDF": "an HDF5 file; save the table as CSV or Parquet",
}


@dataclass(frozen=True, eq=False)
class Table:
    r"""Entries of a file, in its order.

    Attributes
    ----------
    path : str
    rows, cols : Side
    values, weights : ndarray of float32, shape (n,), or None
    notes : tuple of str
        What was guessed, and what was left out.
    line_of : callable int -> str
        Where in the file an entry stands, in words.

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
    rows: Side
    cols: Side
    values: Array | None
    weights: Array | None
    notes: tuple[str, ...]
    line_of: Callable[[int], str]

    @property
    def size(self) -> int:
        """Number of entries."""
        return int(self.rows.codes.size)

    def observations(self, duplicates: str = "error") -> Observations:
        """The observed matrix, labelled; entries that are there more than once are refused or merged."""
        names, shape = (self.rows.names, self.cols.names), (self.rows.names.size, self.cols.names.size)
        try:
            return Observations.from_coo(
                self.rows.codes,
                self.cols.codes,
                [] if self.values is None else self.values,
                shape,
                weights=self.weights,
                duplicates=duplicates,
                labels=names,
            )
        except DataError:
            self.refuse_repeats(duplicates)
            raise

    def refuse_repeats(self, duplicates: str) -> None:
        """Raise, naming the lines, if the trouble is a pair that comes more than once."""
        keys = self.rows.codes * self.cols.names.size + self.cols.codes
        order = np.argsort(keys, kind="stable")
        again = np.flatnonzero(keys[order][1:] == keys[order][:-1]) + 1
        if duplicates != "error" or not again.size:
            return
        later = int(order[again].min())
        earlier = int(np.argmax(keys == keys[later]))
        pair = self.rows.names[self.rows.codes[later]], self.cols.names[self.cols.codes[later]]
        raise DataError(
            f"{self.path}, {self.line_of(later)}: row {pair[0]}, column {pair[1]} is there already, at "
            f"{self.line_of(earlier)} ({again.size:,} repeated in all). Merge them with "
            'duplicates="mean" or duplicates="last".'
        )


def read_table(path: AnyPath, how: Reading | None = None) -> Table:
    r"""Read a file of entries; what is not said in `how` is guessed, and told in the table's notes.

    Text may be separated by commas, tabs, semicolons, bars, ``::`` or blanks, with or without a header, plain or packed
    (.gz, .bz2, .xz, or inside a zip archive). Parquet needs the extra ``io``. Text is read fastest where the labels are
    whole numbers. Labels are whole numbers if all of them are written as such, without leading zeros; else text.

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
    readers = {"parquet": read_parquet, "Matrix Market": read_matrix_market, "text": read_text}
    return Table(where, *readers[kind_of(where)](where, how))


def kind_of(where: str) -> str:
    """What a file is by its first bytes or its name: "parquet", "Matrix Market" or "text"."""
    with readable(where), opened(where) as stream:
        start: bytes = stream.read(8)
    kind = next((kind for magic, kind in MAGIC.items() if start.startswith(magic)), None)
    other = next((words for magic, words in OTHER.items() if start.startswith(magic)), None)
    if other is not None:
        raise DataError(f"{where} is {other}.")
    if kind is None and where.endswith(".parquet"):
        return "parquet"
    return kind or ("Matrix Market" if where.endswith((".mtx", ".mtx.gz")) else "text")


def read_file(path: AnyPath, *, duplicates: str = "error", **how: Any) -> Observations:
    r"""Observed entries of a person's file, labelled as in the file.

    Parameters
    ----------
    path : path
        Text in any usual style, Parquet or Matrix Market; see `read_table`.
    duplicates : {"error", "mean", "last"}, default="error"
        What to do with a pair that comes more than once.
    **how
        Fields of `Reading`: row, col, value, weight, separator, header, encoding, skip_bad_lines.

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
