"""Read delimited text: pyarrow's CSV reader for regular files, Python's csv module for all others.

pyarrow reads blocks of whole lines, labels as text and values as float64. A block that it rejects, or that it might
split into other fields than the csv module would, raises `Irregular`; the file is then read again line by line, which
also counts the bad lines and names the first.
"""

import csv
import io
import re
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, repeat

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from .._errors import DataError, SettingError
from ..kernels.integers import read_integers
from ..observations.labels import EncodedLabels, label_fault, numbered
from .dialect import TRUTH, Dialect, Reading, as_value, describe, guess, is_value, place, split
from .files import opened
from .label_column import WHOLE, Columns, EntryBatch

ARROW_BYTES = 1 << 21  # bytes given to pyarrow at a time: they and their columns fit the cache of a core
FIRST_LINES = 200  # lines by which columns and their types are guessed
BATCH_ENTRIES = 1 << 19  # entries in a batch of the line reader
DIALECT_BYTES = 1 << 16  # bytes that the dialect is guessed from
SHOWN_CHARACTERS = 80  # characters of a bad line that an error repeats
MAX_FLOAT32 = float(np.finfo(np.float32).max)
UNIT = b"\x1f"  # replaces the separator "::", since pyarrow splits at single bytes only
ODD_QUOTES = re.compile(rb'^[^"\n]*"(?:[^"\n]*"[^"\n]*")*[^"\n]*$', re.MULTILINE)
LONE_RETURN = re.compile(rb"\r(?!\n)")


class Irregular(Exception):
    """A block of lines that only the line reader can read, or reject with the number of the bad line."""


class BadLineError(DataError):
    """A line of a text file that cannot be read: its `place`, file and line number, and its `text`, cut short."""

    def __init__(self, message: str, place: str = "", text: str = "") -> None:
        super().__init__(message)
        self.place, self.text = place, text


class TextFile:
    """A text file of entries, with its dialect guessed from the first lines."""

    def __init__(self, where: str, how: Reading) -> None:
        self.where, self.how = where, how
        self.sample = _first_lines(where, how)
        self.dialect = guess(self.sample, how, where)
        self.first = self._first_fields()
        self.columns = place(self.dialect.names, self.first, how, where)  # position of the column for each role
        self.notes = [f"{where}: {self._guessed('; ')}."]  # after reading, also the number of lines left out

    def _first_fields(self) -> list[list[str]]:
        """Fields of the first lines below the header, column by column."""
        start, comment = self.dialect.start, self.dialect.comment
        lines = [line for line in self.sample[start:] if line.strip() and not (comment and line.startswith(comment))]
        rows = [self.dialect.split(line) for line in lines[:FIRST_LINES]]
        return [[fields[at] for fields in rows if len(fields) > at] for at in range(self.dialect.n_fields)]

    def _guessed(self, joint: str) -> str:
        return self.dialect.words + joint + describe(self.columns, self.dialect.names, self.dialect.n_fields, self.how)

    def read(self) -> Columns:
        """Read all entries; labels are int64 where all of a side are written as integers, else text."""
        for batches in self.readers():
            try:
                rows, cols, numbers = Columns.of(batches)
            except Irregular:
                continue
            return Columns(rows.with_numbers("row"), cols.with_numbers("column"), numbers)
        raise AssertionError("unreachable: the line reader reads or rejects every file")

    def readers(self) -> Iterator[Iterator[EntryBatch]]:
        """Ways to read the file in batches, fastest first; all but the last may raise `Irregular` at any batch.

        The first reads a side as integers if its labels in the sample are integers, the others read text.
        """
        if self._is_regular():
            whole = tuple(map(self._is_whole, ("row", "col")))
            if any(whole):
                yield self._arrow_batches(whole)
            yield self._arrow_batches((False, False))
        yield self._line_batches()

    def line_of(self, entry: int) -> tuple[str, str]:
        """Line of an entry in words, such as "line 7", and its text; reads the file up to there."""
        position = -1
        for line, fields in self._lines():
            position += not isinstance(self._parsed(fields), str)
            if position == entry:
                return f"line {line}", self.dialect.separator.join(fields)
        return f"entry {entry + 1}", ""

    # By pyarrow.

    def _is_regular(self) -> bool:
        """Whether the sample and the settings are such that pyarrow may be able to read the file."""
        separator = self.dialect.separator
        ascii_bytes = "1,\t;|: ".encode(self.how.encoding) == b"1,\t;|: "
        returns = any(line.endswith("\r") for line in self.sample)  # blocks are cut at newlines
        return ascii_bytes and not returns and separator.isascii() and separator not in ('"', "\n", "\r")

    def _is_whole(self, role: str) -> bool:
        """Whether the labels in the first lines are integers; a guess, which the batches check."""
        return all(map(WHOLE.fullmatch, self.first[self.columns[role]]))

    def _arrow_type(self, role: str) -> pa.DataType:
        """Type of a column, true and false by its first lines; pyarrow rejects a block that is of another type."""
        if role in ("row", "col"):
            return pa.string()
        fields = self.first[self.columns[role]]
        return pa.bool_() if fields and all(text.lower() in TRUTH for text in fields) else pa.float64()

    def _arrow_batches(self, whole: tuple[bool, ...]) -> Iterator[EntryBatch]:
        """Parse as many blocks at a time as pyarrow has threads, and return them in order."""
        pending, empty = deque[Future[EntryBatch | None]](), True
        with ThreadPoolExecutor(pa.cpu_count()) as pool:
            for block in chain(self._blocks(), repeat(b"", pa.cpu_count())):
                pending.append(pool.submit(self._arrow_batch, block, whole))
                if len(pending) > pa.cpu_count() and (batch := pending.popleft().result()) is not None:
                    empty = False
                    yield batch
        if empty:
            raise Irregular

    def _blocks(self) -> Iterator[bytes]:
        """Whole lines below the header, some 2 MB at a time."""
        with opened(self.where) as stream:
            for _ in range(self.dialect.start):
                stream.readline()
            while block := stream.read(ARROW_BYTES):
                yield block + stream.readline()

    def _arrow_batch(self, block: bytes, whole: tuple[bool, ...]) -> EntryBatch | None:
        """Entries of a block of lines; None if it has no lines but blank ones and comments."""
        try:
            if self.how.encoding.lower() not in ("utf-8", "utf8", "utf_8"):
                block = block.decode(self.how.encoding).encode()
            block = _simplified(block, self.dialect)
            if not block or block.isspace():
                return None
            table = self._parsed_block(block)
            sides = [(_integers if whole[k] else _texts)(table.column(k).combine_chunks()) for k in range(2)]
        except (pa.ArrowException, UnicodeDecodeError):
            raise Irregular from None
        numbers = [column.to_numpy() for column in table.columns[2:]]
        if not all(column.min() >= -MAX_FLOAT32 and column.max() <= MAX_FLOAT32 for column in numbers):  # not with NaN
            raise Irregular
        return EntryBatch(sides[0], sides[1], tuple(column.astype(np.float32) for column in numbers))

    def _parsed_block(self, block: bytes) -> pa.Table:
        """Columns of a block, in the order of `columns`; a quote character is one where the csv module has it."""
        separator = self.dialect.separator
        names = [f"f{at}" for at in self.columns.values()]  # as pyarrow numbers columns without a header
        types = map(self._arrow_type, self.columns)
        return pacsv.read_csv(
            pa.BufferReader(block),
            pacsv.ReadOptions(autogenerate_column_names=True, use_threads=False, block_size=len(block) + 1),
            pacsv.ParseOptions(
                delimiter=UNIT.decode() if separator == "::" else separator,
                quote_char=False if separator in ("::", " ") else '"',
            ),
            pacsv.ConvertOptions(
                column_types=dict(zip(names, types, strict=True)),
                include_columns=names,
                null_values=[],
                check_utf8=not block.isascii(),
            ),
        )

    # By Python's csv module, line by line.

    def _line_batches(self) -> Iterator[EntryBatch]:
        """Read or reject every line; the file is rejected at its end, or its bad lines are noted."""
        bad, n, entries = _BadLines(), 0, []
        for line, fields in self._lines():
            parsed = self._parsed(fields)
            if isinstance(parsed, str):
                bad.add(line, parsed, self.dialect.separator.join(fields))
                continue
            entries.append(parsed)
            n += 1
            if len(entries) == BATCH_ENTRIES:
                yield _batch(entries)
                entries = []
        if bad.count and not self.how.skip_bad_lines:
            self._reject(bad, n)
        if not n:
            raise DataError(f"{self.where} has no entries; give it lines of a row, a column and a value.")
        if bad.count:
            said = f"left out {_counted(bad.count)} that could not be read"
            self.notes.append(f"{self.where}: {said}; the first is line {bad.line}: {bad.reason}: {bad.text!r}.")
        if entries:
            yield _batch(entries)

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """Line number and fields of each line that should be an entry."""
        line, comment = 0, self.dialect.comment
        try:
            with opened(self.where) as raw, io.TextIOWrapper(raw, _codec(self.how), newline="") as stream:
                line = 1
                for after, fields in _split_lines(stream, self.dialect.separator):
                    skipped = comment and fields and fields[0].startswith(comment)
                    if line > self.dialect.start and any(fields) and not skipped:
                        yield line, fields
                    line = after
        except UnicodeDecodeError:
            line, encoding = _first_undecodable(self.where, self.how.encoding), self.how.encoding
            raise DataError(
                f'{self.where}, line {line}: this is not {encoding}; pass encoding="latin-1", or what it is written in.'
            ) from None
        except csv.Error as error:
            raise DataError(f"{self.where}, line {line}: {error}; look for a quote that is never closed.") from None

    def _parsed(self, fields: list[str]) -> list[str | float] | str:
        """Labels and numbers of a line, or what is wrong with it in words."""
        try:
            row, col, *texts = [fields[at].strip() for at in self.columns.values()]
        except IndexError:
            unclosed = ", as if a quote were never closed" if any("\n" in text for text in fields) else ""
            return f"{max(self.columns.values()) + 1} columns are needed, and it has {len(fields)}{unclosed}"
        if not row or not col:
            return "a label is missing"
        if fault := label_fault(row) or label_fault(col):
            return f"a label {fault}, as if a quote were never closed"
        for text in texts:
            if not is_value(text):
                return _not_a_number(text)
            if not abs(as_value(text)) <= MAX_FLOAT32:
                return f"{text!r} is not a finite number"
        return [row, col, *map(as_value, texts)]

    def _reject(self, bad: "_BadLines", n_good: int) -> None:
        remedy = "correct the file, or leave such lines out with skip_bad_lines=True."
        if bad.count > n_good:  # the guess is wrong, not the file
            remedy = f"it was read as {self._guessed(', ')}. Set `row`, `col`, `value` or `separator` if that is wrong."
        at = f"{self.where}, line {bad.line}"
        message = f"{at}: {bad.reason}: {bad.text!r}. {_counted(bad.count)} cannot be read; {remedy}"
        raise BadLineError(message, at, bad.text)


def _simplified(block: bytes, dialect: Dialect) -> bytes:
    """Lines that pyarrow splits into the fields that the csv module finds; raise `Irregular` if there may be others."""
    separator, comment, quoted = dialect.separator, (dialect.comment or "").encode(), b'"' in block
    if comment and comment in block:
        if quoted or LONE_RETURN.search(block):
            raise Irregular
        blanks = rb"[ \t]*" if separator in (" ", "::") else b" *"
        block = re.sub(rb"(?m)^%b%b.*\n?" % (blanks, re.escape(comment)), b"", block)
    if separator == "::":
        if UNIT in block:
            raise Irregular
        return block.replace(b"::", UNIT)
    if separator == " ":
        if quoted or not block.isascii() or re.search(rb"[\x1c-\x1f]", block):  # Python takes these for blanks
            raise Irregular
        runs = block.startswith(b" ") or any(
            run in block for run in (b"  ", b"\t", b"\n ", b" \n", b" \r", b"\f", b"\v")
        )
        return b"\n".join(b" ".join(line.split()) for line in block.splitlines()) if runs else block
    if quoted and (b' "' in block or ODD_QUOTES.search(block)):  # blanks before a quote; fields over several lines
        raise Irregular
    return block


def _integers(column: pa.StringArray) -> EncodedLabels:
    """Labels as int32, or int64 if they need it, if all are written as integers; raise `Irregular` if not."""
    _, ends, text = column.buffers()
    numbers = np.empty(len(column), np.int64)
    if not read_integers(np.frombuffer(text, np.uint8), np.frombuffer(ends, np.int32), numbers):
        raise Irregular
    small = np.iinfo(np.int32)
    fits = small.min <= numbers.min(initial=0) and numbers.max(initial=0) <= small.max
    return EncodedLabels(numbers.astype(np.int32) if fits else numbers)  # all batches are held until they are joined


def _texts(column: pa.StringArray) -> EncodedLabels:
    """Labels as text without the blanks around them; raise `Irregular` if one is empty or too long."""
    encoded = column.dictionary_encode()
    names = [name.strip() for name in encoded.dictionary.to_pylist()]
    if "" in names or any(map(label_fault, names)):
        raise Irregular
    return EncodedLabels(np.array(names), encoded.indices.to_numpy())


def _batch(entries: list[list[str | float]]) -> EntryBatch:
    rows, cols, *numbers = zip(*entries, strict=True)
    sides = [EncodedLabels(*numbered(np.array(side), which)) for side, which in ((rows, "row"), (cols, "column"))]
    return EntryBatch(sides[0], sides[1], tuple(np.array(column, np.float32) for column in numbers))


@dataclass
class _BadLines:
    """Number of lines that could not be read, and the first of them."""

    count: int = 0
    line: int = 0
    reason: str = ""
    text: str = ""

    def add(self, line: int, reason: str, text: str) -> None:
        if not self.count:
            shown = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."
            self.line, self.reason, self.text = line, reason, shown
        self.count += 1


def _first_lines(where: str, how: Reading) -> list[str]:
    """Complete lines of the first 64 kB of a file, with their ends."""
    with opened(where) as stream:
        start: bytes = stream.read(DIALECT_BYTES)
    if not start.strip():
        raise DataError(f"{where} is empty: it has no entries; give it lines of a row, a column and a value.")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) and not how.encoding.lower().startswith("utf-16"):
        raise DataError(f'{where}, line 1: the text is UTF-16; pass encoding="utf-16".')
    try:
        text = start.decode(_codec(how), errors="replace")
    except LookupError:
        raise SettingError(
            f"Unknown encoding {how.encoding!r}: `encoding` is a name such as utf-8 or latin-1."
        ) from None
    lines = list(io.StringIO(text, newline=""))  # cut at newlines and returns only, as the csv module does
    if "\0" in text:
        line = next(k for k, line in enumerate(lines, 1) if "\0" in line)
        raise DataError(
            f"{where}, line {line}: this is not text (it has zero bytes); give CSV, Parquet or Matrix Market."
        )
    return lines[:-1] if len(start) == DIALECT_BYTES and len(lines) > 1 else lines


def _codec(how: Reading) -> str:
    """Name of Python's codec; that of UTF-8 skips a byte order mark."""
    return "utf-8-sig" if how.encoding.lower().replace("_", "-") in ("utf-8", "utf8") else how.encoding


def _split_lines(stream: Iterable[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    """Number of the next line, and fields, of each line; quoted fields of the csv module may span several lines."""
    if len(separator) > 1 or separator == " ":
        yield from ((k, split(line, separator)) for k, line in enumerate(stream, 2))
    else:
        reader = csv.reader(stream, delimiter=separator, skipinitialspace=True)
        yield from ((reader.line_num + 1, fields) for fields in reader)


def _first_undecodable(where: str, encoding: str) -> int:
    """Number of the first line that is not in this encoding."""
    with opened(where) as stream:
        for number, line in enumerate(stream, 1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError:
                return number
    return 1


def _not_a_number(text: str) -> str:
    if not text:
        return "the value is missing"
    decimal = "; decimals need a point" if text.replace(",", "").lstrip("-").isdecimal() else ""
    return f"{text!r} is not a number{decimal}"


def _counted(n_lines: int) -> str:
    return "1 line" if n_lines == 1 else f"{n_lines:,} lines"
