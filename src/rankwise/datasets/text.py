"""Published text files of (row, column, value) lines, compressed or not."""

import gzip
import os
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import DataError

Array = NDArray[Any]
AnyPath = str | os.PathLike[str]
ENTRY = np.dtype([("row", np.int64), ("col", np.int64), ("value", np.float32)])


@dataclass(frozen=True)
class Layout:
    """How a line is written.

    Attributes
    ----------
    delimiter : str
        One character between fields; two of them in a row enclose an empty field.
    fields : tuple of int
        Places of the row, the column and the value among the fields.
    comment : str or None
        What lines to skip begin with.
    words : str
        A line in words, for errors.
    fits : callable (values) -> mask
        Which values can stand in such a file.
    """

    delimiter: str
    fields: tuple[int, int, int]
    comment: str | None
    words: str
    fits: Callable[[Array], Array] = np.isfinite


def read_entries(path: AnyPath, layout: Layout) -> tuple[Array, Array, Array]:
    """Rows and columns (int64) and values (float32) of all lines, in file order; about 0.2 s for a million lines."""
    first_line(path)  # a name like a web address is no file here, but `loadtxt` would fetch it
    with _readable(path):
        found = _parse(path, layout)
    if found is None or not layout.fits(found["value"]).all():
        raise DataError(_first_bad_line(path, layout))
    if not found.size:
        raise DataError(f"{os.fspath(path)} has no entries; each line must be {layout.words}.")
    rows, cols, values = (np.ascontiguousarray(found[name]) for name in ("row", "col", "value"))
    return rows, cols, values


def first_line(path: AnyPath) -> str:
    """The first line of a file, without its end."""
    with _readable(path), _open(path) as lines:
        return next(iter(lines), "").rstrip("\r\n")


def _open(path: AnyPath) -> Any:
    """Open a file for reading text, through gzip if its name ends in .gz; any byte is a character."""
    opener: Callable[..., Any] = gzip.open if Path(path).suffix == ".gz" else open
    return opener(path, "rt", encoding="latin-1")


@contextmanager
def _readable(path: AnyPath) -> Iterator[None]:
    """Turn what a missing, locked or damaged file raises into one sentence."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"There is no file at {os.fspath(path)}.") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{os.fspath(path)} cannot be read ({error}); fetch it again if it is damaged.") from error


def _parse(path: AnyPath, layout: Layout) -> Array | None:
    """All entries, or None if a line does not fit."""
    options: Any = {"comments": layout.comment, "delimiter": layout.delimiter, "usecols": layout.fields}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "loadtxt: input contained no data")
        try:
            return np.loadtxt(path, ENTRY, ndmin=1, encoding="latin-1", **options)
        except ValueError:
            return None


def _first_bad_line(path: AnyPath, layout: Layout) -> str:
    """Sentence on the first line that does not fit; slow, for files that are known to hold one."""
    for number, line in _lines(path, layout):
        if not _fits(line, layout):
            return f"{os.fspath(path)}, line {number}: a line must be {layout.words}, got {line!r}."
    return f"{os.fspath(path)} cannot be read: each line must be {layout.words}."


def _fits(line: str, layout: Layout) -> bool:
    parts = line.split(layout.delimiter)
    try:
        row, col, value = (parts[k] for k in layout.fields)
        int(row), int(col)
        return bool(layout.fits(np.array([float(value)]))[0])
    except (ValueError, IndexError):
        return False


def _lines(path: AnyPath, layout: Layout) -> Iterator[tuple[int, str]]:
    """Numbered lines that hold something."""
    with _readable(path), _open(path) as lines:
        for number, line in enumerate(lines, 1):
            kept = line.rstrip("\r\n") if layout.comment is None else line.partition(layout.comment)[0].rstrip()
            if kept:
                yield number, kept
