"""Text tables in any style: the fast reader where lines are plain, Python's rules for the others."""

import csv
import io
from array import array
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import DataError, SettingError
from .sides import WHOLE, Side
from .styles import Reading, Style, describe, guess, is_number, place, split
from .text import SHOWN, Layout, entry_blocks, opened, read_entries, readable

Array = NDArray[Any]
Parts = tuple[Side, Side, Array | None, Array | None, tuple[str, ...], Callable[[int], str]]
BATCH = 500  # lines taken at once; few enough to stay in the cache of a core
SAMPLE = 1 << 16  # bytes that the style is guessed from
LONGEST = 1000  # characters of a label; longer ones come from a quote that is never closed
CHUNK = 1 << 19  # entries that a stream gives at a time
Chunk = tuple[Array, ...]  # labels of rows and columns, values, and perhaps weights
LARGEST = float(np.finfo(np.float32).max)


class Beyond(Exception):
    """A line that this way of reading does not understand; another may."""


def read_text(where: str, how: Reading) -> Parts:
    """Entries of a text file, for `Table`."""
    sample, style, places, said = _looked_at(where, how)
    found, notes = _read_plain(where, style, places, how, sample), [said]
    if found is None:
        read = _read_sound(where, style, places, how) or _read_any(where, style, places, how)
        if read.bad.count:
            notes.append(read.bad.left_out(where))
        found = read.parts()
    return *found, tuple(notes), lambda entry: _line_of(where, style, places, how, entry)


def stream_text(where: str, how: Reading, notes: list[str]) -> Iterator[Iterator[Chunk]]:
    """Ways to read a text file in chunks, quickest first; one that meets a line beyond it raises `Beyond`."""
    sample, style, places, said = _looked_at(where, how)
    notes.append(said)
    layout = _plain_layout(style, places, how, sample)
    if layout is not None:
        yield _plain_chunks(where, layout, style.start)
    yield _sound_chunks(where, style, places, how)
    yield _any_chunks(where, style, places, how, notes)


def _plain_chunks(where: str, layout: Layout, skip: int) -> Iterator[Chunk]:
    try:
        yield from _joined(entry_blocks(where, layout, skip))
    except DataError:
        raise Beyond from None


def _joined(blocks: Iterator[Chunk]) -> Iterator[Chunk]:
    """The same entries, `CHUNK` or more at a time: each chunk with a new label costs a sort of all labels."""
    held: list[Chunk] = []
    for block in blocks:
        held.append(block)
        if sum(part[0].size for part in held) >= CHUNK:
            yield tuple(map(np.concatenate, zip(*held, strict=True)))
            held = []
    if held:
        yield tuple(map(np.concatenate, zip(*held, strict=True)))


def _sound_chunks(where: str, style: Style, places: dict[str, int], how: Reading) -> Iterator[Chunk]:
    for read in _sound(where, style, places, how, CHUNK):
        if read is None:
            raise Beyond
        yield read.chunk()


def _any_chunks(where: str, style: Style, places: dict[str, int], how: Reading, notes: list[str]) -> Iterator[Chunk]:
    bad = _Bad()
    for read in _any_lines(where, style, places, how, bad, CHUNK):
        yield read.chunk()
    if bad.count:
        notes.append(bad.left_out(where))


def as_whole(names: Array) -> Array:
    """Labels read as text: whole numbers if all of them are written as such."""
    whole = names.dtype.kind == "U" and all(map(WHOLE.fullmatch, names.tolist()))
    return names.astype(np.int64) if whole else names


def _looked_at(where: str, how: Reading) -> tuple[list[str], Style, dict[str, int], str]:
    """The first lines, their style, where what is, and these guesses in words."""
    sample = _first_lines(where, how)
    style = guess(sample, how, where)
    places = place(style.names, style.n_fields, how, where)
    return sample, style, places, f"{where}: {style.words}; {describe(places, style.names, style.n_fields)}."


def _first_lines(where: str, how: Reading) -> list[str]:
    """Whole lines of the start of a file."""
    with readable(where), opened(where) as stream:
        start: bytes = stream.read(SAMPLE)
    if not start.strip():
        raise DataError(f"{where} is empty; give it lines of a row, a column and a value.")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) and not how.encoding.lower().startswith("utf-16"):
        raise DataError(f'{where}, line 1: the text is UTF-16; pass encoding="utf-16".')
    try:
        text = start.decode("utf-8-sig" if _is_utf8(how) else how.encoding, errors="replace")
    except LookupError:
        raise SettingError(
            f"Unknown encoding {how.encoding!r}: `encoding` is a name such as utf-8 or latin-1."
        ) from None
    lines = list(io.StringIO(text, newline=""))  # cut where the readers cut, with their ends
    if "\0" in text:
        line = next(k for k, line in enumerate(lines, 1) if "\0" in line)
        raise DataError(
            f"{where}, line {line}: this is not text (it has zero bytes); give CSV, Parquet or Matrix Market."
        )
    return lines[:-1] if len(start) == SAMPLE and len(lines) > 1 else lines


def _is_utf8(how: Reading) -> bool:
    return how.encoding.lower().replace("_", "-") in ("utf-8", "utf8")


def _read_plain(
    where: str, style: Style, places: dict[str, int], how: Reading, sample: list[str]
) -> tuple[Side, Side, Array | None, Array | None] | None:
    """The same by the fast reader, if all labels are whole numbers; None if a line is beyond it."""
    layout = _plain_layout(style, places, how, sample)
    if layout is None:
        return None
    try:
        row_of, col_of, values = read_entries(where, layout, style.start)
    except DataError:
        return None
    row_side, col_side = Side.of_each(row_of, "row"), Side.of_each(col_of, "column")
    return row_side, col_side, None if how.pairs else values, None


def _plain_layout(style: Style, places: dict[str, int], how: Reading, sample: list[str]) -> Layout | None:
    """What to tell the fast reader, if the first lines are such that it may be able to read them all."""
    rows = [style.split(line) for line in sample[style.start :] if line.strip()]
    labels = [fields[places[role]] for fields in rows for role in ("row", "col") if len(fields) > places[role]]
    unusual = any('"' in line or line.endswith("\r") for line in sample)
    padded = style.separator == " " and max(places.values()) >= len(places)  # two blanks enclose no field to pass over
    if "weight" in places or unusual or padded or not all(map(WHOLE.fullmatch, labels)) or not _is_bytes(how):
        return None
    row, col = places["row"], places["col"]
    if how.pairs:
        return Layout(style.separator, (row, col, row), style.comment, "", _any, True)  # the row's field stands in
    return Layout(style.separator, (row, col, places["value"]), style.comment, "", exact=True)


def _any(values: Array) -> Array:
    """A mask that takes all."""
    return np.ones(values.shape, bool)


def _is_bytes(how: Reading) -> bool:
    """Whether digits and separators are the same bytes as in ASCII."""
    return "1,\t;|: ".encode(how.encoding) == b"1,\t;|: "


@dataclass
class _Bad:
    """Lines that could not be read: how many, and the first."""

    count: int = 0
    first: str = ""

    def add(self, line: int, reason: str, text: str) -> None:
        """Count one more."""
        if not self.count:
            shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
            self.first = f"the first is line {line}: {reason}: {shown!r}."
            self.line, self.reason, self.shown = line, reason, shown
        self.count += 1

    def left_out(self, where: str) -> str:
        """The same in words."""
        return f"{where}: left out {_lines(self.count)} that could not be read; {self.first}"


def _numbering() -> dict[str, int]:
    """A dictionary that gives every new key the next number."""
    found: defaultdict[str, int] = defaultdict()
    found.default_factory = found.__len__
    return found


@dataclass
class _Read:
    """What has been read: numbers of the labels, in the order they came, and values."""

    places: tuple[int, ...]  # row, column, and perhaps value and weight
    bad: _Bad = field(default_factory=_Bad)
    ids: tuple[dict[str, int], dict[str, int]] = field(default_factory=lambda: (_numbering(), _numbering()))
    codes: tuple[Any, Any] = field(default_factory=lambda: (array("q"), array("q")))
    numbers: tuple[Any, Any] = field(default_factory=lambda: (array("f"), array("f")))

    def take_all(self, lines: list[list[str]]) -> bool:
        """Take many lines at once, or none of them and say so if one is bad."""
        try:
            rows, cols, *texts = zip(*map(itemgetter(*self.places), lines), strict=True)
            numbers = [np.array(list(map(float, column))) for column in texts]
        except (IndexError, ValueError):
            return False
        labels = [list(map(str.strip, side)) for side in (rows, cols)]
        sound = all("" not in side and max(map(len, side)) <= LONGEST for side in labels)
        if (
            not sound
            or not all((np.abs(column) <= LARGEST).all() for column in numbers)
            or "_" in "".join(chain(*texts))
        ):
            return False
        self._keep(labels, [column.tolist() for column in numbers])
        return True

    def take(self, fields: list[str]) -> str | None:
        """Take one line, or say what is wrong with it."""
        try:
            row, col, *texts = [fields[at].strip() for at in self.places]
        except IndexError:
            unclosed = ", as if a quote were never closed" if any("\n" in field for field in fields) else ""
            return f"{max(self.places) + 1} columns are needed, and it has {len(fields)}{unclosed}"
        if not row or not col:
            return "a label is missing"
        if len(row) > LONGEST or len(col) > LONGEST:
            return f"a label has more than {LONGEST} characters, as if a quote were never closed"
        for text in texts:
            if not is_number(text):
                return _not_a_number(text)
            if not abs(float(text)) <= LARGEST:
                return f"{text!r} is not a finite number"
        self._keep([[row], [col]], [[float(text)] for text in texts])
        return None

    def _keep(self, labels: list[list[str]], numbers: list[list[float]]) -> None:
        for ids, codes, side in zip(self.ids, self.codes, labels, strict=True):
            codes.extend(map(ids.__getitem__, side))
        for column, more in zip(self.numbers, numbers, strict=False):
            column.extend(more)

    def parts(self) -> tuple[Side, Side, Array | None, Array | None]:
        """Both sides, values and weights."""
        sides = [
            Side.of_text(list(ids), np.frombuffer(codes, np.int64))
            for ids, codes in zip(self.ids, self.codes, strict=True)
        ]
        numbers = [np.frombuffer(part, np.float32) if part else None for part in self.numbers]
        return sides[0], sides[1], numbers[0], numbers[1]

    def chunk(self) -> Chunk:
        """Labels of both sides, as text, values, and weights if there are any."""
        sides = (np.array(list(ids))[np.frombuffer(at, np.int64)] for ids, at in zip(self.ids, self.codes, strict=True))
        return (*sides, *(np.frombuffer(part, np.float32) for part in self.numbers if part))


def _not_a_number(text: str) -> str:
    if not text:
        return "the value is missing"
    decimal = "; decimals need a point" if text.replace(",", "").lstrip("-").isdecimal() else ""
    return f"{text!r} is not a number{decimal}"


def _read_any(where: str, style: Style, places: dict[str, int], how: Reading) -> _Read:
    """All entries by Python's rules; refuses the file, or leaves out the lines, that cannot be read."""
    return next(_any_lines(where, style, places, how, _Bad()))


def _any_lines(
    where: str, style: Style, places: dict[str, int], how: Reading, bad: _Bad, size: float = np.inf
) -> Iterator[_Read]:
    """The same in parts of `size` entries."""
    read, n_good = _Read(tuple(places.values()), bad), 0
    for line, fields in _fields(where, style, how):
        reason = read.take(fields)
        if reason is not None:
            bad.add(line, reason, style.separator.join(fields))
        elif len(read.codes[0]) >= size:
            n_good += len(read.codes[0])
            yield read
            read = _Read(tuple(places.values()), bad)
    n_good += len(read.codes[0])
    if bad.count and not how.skip_bad_lines:
        cure = "correct the file, or leave such lines out with skip_bad_lines=True."
        if bad.count > n_good:  # the guess is wrong, not the file
            guessed = f"{style.words}, {describe(places, style.names, style.n_fields)}"
            cure = f"it was read as {guessed}. Set `row`, `col`, `value` or `separator` if that is wrong."
        raise DataError(
            f"{where}, line {bad.line}: {bad.reason}: {bad.shown!r}. {_lines(bad.count)} cannot be read; {cure}"
        )
    if not n_good:
        raise DataError(f"{where} has no entries; give it lines of a row, a column and a value.")
    if read.codes[0]:
        yield read


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count:,} lines"


def _read_sound(where: str, style: Style, places: dict[str, int], how: Reading) -> _Read | None:
    """The same for a file without bad lines, comments and blank lines, many lines at a time; None for others."""
    return next(_sound(where, style, places, how), None)


def _sound(
    where: str, style: Style, places: dict[str, int], how: Reading, size: float = np.inf
) -> Iterator[_Read | None]:
    """The same in parts of about `size` entries; None, and no more, if a line is not such a one."""
    read = _Read(tuple(places.values()))
    try:
        with _text(where, how) as stream:
            deque(islice(stream, style.start), 0)
            lines = _split_all(stream, style.separator)
            while batch := list(islice(lines, BATCH)):
                if style.comment or not read.take_all(batch):
                    yield None
                    return
                if len(read.codes[0]) >= size:
                    yield read
                    read = _Read(tuple(places.values()))
    except (UnicodeDecodeError, csv.Error):
        yield None
        return
    if read.codes[0]:
        yield read


def _fields(where: str, style: Style, how: Reading) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of each line that should be an entry."""
    line = 0
    try:
        with _text(where, how) as stream:
            lines, line = _split_all(stream, style.separator), 1
            for fields in lines:
                comment = style.comment and fields and fields[0].startswith(style.comment)
                if line > style.start and any(fields) and not comment:
                    yield line, fields
                line = getattr(lines, "line_num", line) + 1  # a quoted field may go over several lines
    except UnicodeDecodeError:
        line = _undecodable(where, how.encoding)
        raise DataError(
            f'{where}, line {line}: this is not {how.encoding}; pass encoding="latin-1", or what it is written in.'
        ) from None
    except csv.Error as error:
        raise DataError(f"{where}, line {line}: {error}; look for a quote that is never closed.") from None


@contextmanager
def _text(where: str, how: Reading) -> Iterator[Any]:
    """The lines of a file as text, their ends as they are."""
    encoding = "utf-8-sig" if _is_utf8(how) else how.encoding
    with readable(where), opened(where) as raw, io.TextIOWrapper(raw, encoding, newline="") as stream:
        yield stream


def _split_all(stream: Any, separator: str) -> Any:
    """Fields of each line."""
    if len(separator) > 1 or separator == " ":
        return (split(line, separator) for line in stream)
    return csv.reader(stream, delimiter=separator, skipinitialspace=True)


def _undecodable(where: str, encoding: str) -> int:
    """Number of the first line that is not in this encoding."""
    with opened(where) as stream:
        for number, line in enumerate(stream, 1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError:
                return number
    return 1


def _line_of(where: str, style: Style, places: dict[str, int], how: Reading, entry: int) -> str:
    """Line of an entry in words; reads the file up to there."""
    read, n = _Read(tuple(places.values())), -1
    for line, fields in _fields(where, style, how):
        n += read.take(fields) is None
        if n == entry:
            return f"line {line}"
    return f"entry {entry + 1}"
