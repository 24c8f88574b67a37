"""Published text files of (row, column, value) lines: plain, gzip, or inside a zip archive."""

import bz2
import gzip
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from .._errors import DataError
from ..kernels.parse import NEWLINE, RETURN, parse_entries
from .sides import WHOLE

Array = NDArray[Any]
AnyPath = str | os.PathLike[str]
Entries = tuple[Array, Array, Array]
BLOCK = 1 << 20  # bytes read at once: fits the cache of a core, and hides the cost of a call
SHOWN = 80  # characters of a bad line that an error repeats
QUOTE = ord('"')
PACKED: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


@dataclass(frozen=True)
class Layout:
    """How a line is written.

    Attributes
    ----------
    delimiter : str
        What is between fields: a character, or the same one twice.
    fields : tuple of int
        Places of the row, the column and the value among the fields.
    comment : str or None
        The character that lines to skip begin with.
    words : str
        A line in words, for errors.
    fits : callable (values) -> mask
        Which values can stand in such a file.
    exact : bool
        Whether to refuse what is more than plain numbers to other readers: labels such as 007 or +7, and quotes.
    """

    delimiter: str
    fields: tuple[int, int, int]
    comment: str | None
    words: str
    fits: Callable[[Array], Array] = np.isfinite
    exact: bool = False


def read_entries(path: AnyPath, layout: Layout, skip: int = 0) -> Entries:
    """Rows and columns (int64) and values (float32) of all lines but the first `skip`; 0.1 s for a million lines.

    They come in file order. A path may end in .gz, .bz2 or .xz, or lead through a zip archive:
    ``ml-1m.zip/ml-1m/ratings.dat``. Unpacking takes another 0.2 s for a million lines.
    """
    found = list(entry_blocks(path, layout, skip))
    if not sum(rows.size for rows, _, _ in found):
        raise DataError(f"{os.fspath(path)} has no entries; each line must be {layout.words}.")
    rows, cols, values = (np.concatenate(part) for part in zip(*found, strict=True))
    return rows, cols, values


def entry_blocks(path: AnyPath, layout: Layout, skip: int = 0) -> Iterator[Entries]:
    """The same, some ten thousand lines at a time."""
    line = 1 + skip
    for block in _blocks(path, skip):
        entries, n_lines = _parse(block, layout, f"{os.fspath(path)}, line", line)
        yield entries
        line += n_lines


def first_line(path: AnyPath) -> str:
    """The first line of a file, without its end."""
    with readable(path), opened(path) as stream:
        line: bytes = stream.readline(BLOCK)
    return line.decode("latin-1").rstrip("\r\n")


def opened(path: AnyPath) -> Any:
    """Open a file for reading bytes: plain, unpacked if its name ends in .gz, .bz2 or .xz, or inside a zip archive."""
    path = Path(path)
    archive = next((part for part in (path, *path.parents) if part.suffix == ".zip" and part.is_file()), None)
    if archive is not None:
        return _open_member(archive, path.relative_to(archive).as_posix())
    return PACKED[path.suffix](path) if path.suffix in PACKED else path.open("rb")


def _open_member(archive: Path, member: str) -> IO[bytes]:
    with ZipFile(archive) as files:  # the member keeps the archive's file open for itself
        names = [name for name in files.namelist() if not name.endswith("/")]
        if not names:
            raise DataError(f"The archive {archive} holds no file; fetch it again, or give another.")
        if member not in names:
            held = ", ".join(names[:9])
            raise DataError(f"The archive {archive} holds {held}; name one of these, as in {archive / names[0]}.")
        try:
            return files.open(member)
        except RuntimeError as error:  # a password is needed, or Python does not know how it was packed
            raise DataError(
                f"{archive / member} cannot be unpacked ({error}); unpack the archive and name the file itself."
            ) from None


@contextmanager
def readable(path: AnyPath) -> Iterator[None]:
    """Turn what a missing, locked or damaged file raises into one sentence."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"There is no file at {os.fspath(path)}.") from None
    except IsADirectoryError:
        raise DataError(f"{os.fspath(path)} is a folder; name a file in it.") from None
    except (OSError, EOFError, zlib.error, lzma.LZMAError, BadZipFile) as error:
        raise DataError(f"{os.fspath(path)} cannot be read ({error}); fetch it again if it is damaged.") from error


def _blocks(path: AnyPath, skip: int) -> Iterator[Array]:
    """The file's bytes, without the first lines, in blocks of whole lines, each ended by a newline."""
    rest = b""
    with readable(path), opened(path) as stream:
        for _ in range(skip):
            stream.readline()
        while block := stream.read(BLOCK):
            whole, newline, after = block.rpartition(b"\n")
            if newline:
                yield np.frombuffer(rest + whole + newline, np.uint8)
                rest = after
            else:
                rest += after
        if rest:
            yield np.frombuffer(rest + b"\n", np.uint8)


def _parse(text: Array, layout: Layout, where: str, line: int) -> tuple[Entries, int]:
    """Entries and number of the lines in `text`, whose first has the number `line`.

    The kernel reads plain lines and stops at any other; Python then decides whether that one is an entry, too.
    """
    _refuse_unusual(text, layout, where, line)
    capacity = int(np.count_nonzero(text == NEWLINE))
    rows, cols, values = np.empty(capacity, np.int64), np.empty(capacity, np.int64), np.empty(capacity, np.float32)
    at = n_lines = n = 0
    while at < text.size:
        n_bytes, more_lines, more = _read_plain(text[at:], layout, rows[n:], cols[n:], values[n:])
        at, n_lines, n = at + n_bytes, n_lines + more_lines, n + more
        if at < text.size:
            given = _line_at(text, at)
            if kept := _kept(given, layout):
                rows[n], cols[n], values[n] = _entry(kept, layout) or _refuse(
                    given, layout, f"{where} {line + n_lines}"
                )
                n += 1
            at, n_lines = at + len(given) + 1, n_lines + 1
    if not layout.fits(values[:n]).all():
        _refuse_misfit(text, layout, where, line)
    return (rows[:n], cols[:n], values[:n]), n_lines


def _read_plain(text: Array, layout: Layout, rows: Array, cols: Array, values: Array) -> tuple[int, int, int]:
    comment = -1 if layout.comment is None else ord(layout.comment)
    delimiter, more = ord(layout.delimiter[0]), len(layout.delimiter) - 1
    n_bytes, n_lines, n = parse_entries(text, delimiter, more, comment, layout.fields, rows, cols, values)
    return int(n_bytes), int(n_lines), int(n)


def _refuse_unusual(text: Array, layout: Layout, where: str, line: int) -> None:
    """Raise for what would change where a field or a line ends: a return alone, and quotes if labels are exact."""
    returns = np.flatnonzero(text == RETURN)
    alone = returns[text[returns + 1] != NEWLINE]
    if alone.size:
        number = line + int(np.count_nonzero(text[: alone[0]] == NEWLINE))
        raise DataError(f"{where} {number} ends in a return without a newline; save the file with newlines.")
    if layout.exact and (text == QUOTE).any():
        raise DataError(f"{where} {line}, or one after it, has quotes.")


def _line_at(text: Array, at: int) -> str:
    """The line that begins at byte `at`, without its newline; any byte is a character."""
    end = at
    while not (stops := np.flatnonzero(text[end : end + 4096] == NEWLINE)).size:
        end += 4096
    return text[at : end + int(stops[0])].tobytes().decode("latin-1")


def _kept(line: str, layout: Layout) -> str:
    """A line without its comment and its end; empty if that is all it has."""
    return (line if layout.comment is None else line.partition(layout.comment)[0]).rstrip(" \r")


def _entry(line: str, layout: Layout) -> tuple[int, int, np.float32] | None:
    """What a line says, by Python's rules for numbers; None if it does not say an entry."""
    parts = line.replace("_", "?").split(layout.delimiter)  # Python takes 1_000 for a number
    try:
        row, col, value = (parts[k] for k in layout.fields)
        if layout.exact and not (WHOLE.fullmatch(row.strip()) and WHOLE.fullmatch(col.strip())):
            return None
        numbers = int(row), int(col)
        with np.errstate(over="ignore"):
            found = np.float32(float(value))
    except (ValueError, IndexError):
        return None
    return (*numbers, found) if max(map(abs, numbers)) < 2**63 else None


def _refuse_misfit(text: Array, layout: Layout, where: str, line: int) -> None:
    """Raise for the first line whose value cannot stand in such a file; slow, for blocks that are known to hold one."""
    for number, given in enumerate(text.tobytes().decode("latin-1").split("\n"), line):
        found = _entry(_kept(given, layout), layout)
        if found and not layout.fits(np.array(found[2:])).all():
            _refuse(given, layout, f"{where} {number}")


def _refuse(line: str, layout: Layout, where: str) -> NoReturn:
    shown = line.rstrip("\r")[:SHOWN]
    raise DataError(f"{where}: a line must be {layout.words}, got {shown!r}.")
