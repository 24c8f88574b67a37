"""Dialect of a text file, guessed from its first lines: separator, header, comments, and the role of each column."""

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from .. import _checks
from .._errors import DataError, SettingError

SEPARATORS = {"::": "'::'", "\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas", " ": "blanks"}  # as tried
WORDS = {"tab": "\t", "comma": ",", "semicolon": ";", "bar": "|", "blank": " ", "space": " ", "colons": "::"}
COMMENTS = ("#", "%")
TRUTH = {"true": 1.0, "false": 0.0}
ENOUGH = 200  # lines to guess from
ROLES = ("row", "col", "value", "weight")
SAID = {"row": "row", "col": "column", "value": "value", "weight": "weight"}
KNOWN = {
    "row": "user customer reviewer rater client person member row source from author reader student patient u",
    "col": "item movie product book song track artist title film article business game joke asin isbn col column "
    "target to question gene word i",
    "value": "rating value score stars star rate overall count counts label sign plays response",
}
OTHER = {"time": "time timestamp date datetime when created updated ts", "index": "index unnamed rownames no nr"}
WORD = re.compile(r"[A-Z]*[a-z]+|[A-Z]+")  # of a name such as "My rating" or movieRating
TIME = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}|\d{1,2}:\d\d")
SECONDS = 631_152_000, 2_051_222_400  # Unix times from 1990 to 2034
COUNTED = 10  # lines by which a column of consecutive integers may be their number
WIDE = 6  # columns of a file that may be the matrix itself


@dataclass(frozen=True)
class Reading:
    """Settings of the readers; a setting that is None is guessed from the file.

    Attributes
    ----------
    row, col, value, weight : str or int, optional
        Columns by name, or by number from 1. Without `weight`, all entries have weight 1.
    separator : str, optional
        One character, ``"::"``, or a word such as ``"tab"``; a blank stands for any run of blanks and tabs.
    header : bool, optional
        Whether the first line holds the names of the columns.
    encoding : str, default="utf-8"
    skip_bad_lines : bool, default=False
        Leave out lines that cannot be read, and report their number, instead of raising `DataError`.
    pairs : bool, default=False
        Read rows and columns only, no values.
    missing : float, optional
        Value that means "not observed": entries that have it are left out.
    time : str or int, optional
        Column that the caller reads as times; only named in the description of the file.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.io.Reading(row="who", col="what", separator="tab").roles
    ('row', 'col', 'value')
    """

    row: str | int | None = None
    col: str | int | None = None
    value: str | int | None = None
    weight: str | int | None = None
    separator: str | None = None
    header: bool | None = None
    encoding: str = "utf-8"
    skip_bad_lines: bool = False
    pairs: bool = False
    missing: float | None = None
    time: str | int | None = None

    def __post_init__(self) -> None:
        """Check `missing`."""
        if self.missing is not None and not _checks.is_number(self.missing):
            raise SettingError(f"`missing` must be a number or None, got {self.missing!r}.")

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles of the columns that are read."""
        roles = ROLES[:2] if self.pairs else ROLES[:3]
        return roles if self.weight is None or self.pairs else (*roles, "weight")


@dataclass(frozen=True)
class Dialect:
    """Syntax of a text file."""

    separator: str
    names: tuple[str, ...] | None  # fields of the header
    n_fields: int  # most frequent number of fields in a line
    start: int  # lines up to and including the header; 0 without a header
    comment: str | None  # first character of lines to skip

    @property
    def words(self) -> str:
        """Separator and header in words."""
        header = "no header" if self.names is None else "a header"
        return f"separated by {SEPARATORS.get(self.separator, repr(self.separator))}, {header}"

    def split(self, line: str) -> list[str]:
        """Fields of a line."""
        return split(line, self.separator)


def guess(lines: Sequence[str], how: Reading, where: str) -> Dialect:
    """Guess the dialect of a file from its first lines."""
    comment = next((line[0] for line in lines if line.strip()), "")
    comment = comment if comment in COMMENTS else ""
    numbered = [
        (k, line) for k, line in enumerate(lines) if line.strip() and not (comment and line.startswith(comment))
    ]
    numbered = numbered[:ENOUGH]
    if not numbered:
        raise DataError(f"{where} is empty: it has no entries; give it lines of a row, a column and a value.")
    separator = _chosen_separator(how.separator) or _likeliest_separator([line for _, line in numbered], len(how.roles))
    rows = [split(line, separator) for _, line in numbered]
    n_fields = Counter(map(len, rows)).most_common(1)[0][0]
    first = rows[0]
    chosen = (how.row, how.col, how.value, how.weight)
    named = any(name in first for name in chosen if isinstance(name, str) and not name.isdecimal())
    header = named or _is_header(first, rows[1:]) if how.header is None else how.header
    names = (*_row_names(first, rows[1:], n_fields, how), *first) if header else None
    return Dialect(separator, names, n_fields, numbered[0][0] + 1 if header else 0, comment or None)


def split(line: str, separator: str) -> list[str]:
    """Split a line into fields without surrounding blanks; quotes count if the separator is a single character."""
    if separator == " ":
        if '"' not in line:
            return line.split()
        line = line.replace("\t", " ").strip()  # the rest, runs of blanks too, is as for other separators
    if len(separator) > 1:
        return [field.strip() for field in line.split(separator)]
    return [field.strip() for field in next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])]


def is_value(text: str) -> bool:
    """Return whether a field is a number, or true or false."""
    return is_number(text) or text.lower() in TRUTH


def as_value(text: str) -> float:
    """Return the number of a field for which `is_value` holds: 1 for true, 0 for false."""
    return TRUTH[text.lower()] if text.lower() in TRUTH else float(text)


def is_number(text: str) -> bool:
    """Return whether a field is a number, NaN and infinity included."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def place(names: Sequence[str] | None, columns: Sequence[Sequence[str]], how: Reading, where: str) -> dict[str, int]:
    """Assign a column to each role: the chosen one, else the first with a known name, else the first unused one.

    `columns` are the first fields of each column. Columns that number the lines are never guessed, and times only as
    labels, if nothing else is left; what remains doubtful raises DataError.
    """
    chosen = {role: _asked(getattr(how, role), role, names, len(columns), where) for role in how.roles}
    places = {role: at for role, at in chosen.items() if at is not None}
    known = [_role_of(name) for name in names or ()]
    for role in how.roles:
        named = [at for at, known_role in enumerate(known) if known_role == role and at not in places.values()]
        if role not in places and named:
            places[role] = named[0]
    guessed = {role: 0 for role in how.roles if role not in places}
    for role in guessed:
        places[role] = guessed[role] = _first_free(role, places, names, columns, how, where)
    if len(set(places.values())) < len(places):
        raise SettingError(f"{where}: one column cannot be two of {', '.join(SAID[role] for role in places)}.")
    _refuse_doubtful(guessed, columns, how, where)
    return {role: places[role] for role in how.roles}


def describe(places: dict[str, int], names: Sequence[str] | None, n_fields: int, how: Reading) -> str:
    """Describe the role of each column."""
    time = None if how.time is None else _position(how.time, names, n_fields)
    places = places if time is None else places | {"time": time}
    used = ", ".join(f"{SAID.get(role, role)}s from {_called(at, names)}" for role, at in places.items())
    unused = [_called(at, names) for at in range(n_fields) if at not in places.values()]
    return used + (f"; not used: {', '.join(unused)}" if unused else "")


def _called(at: int, names: Sequence[str] | None) -> str:
    return f"column {at + 1}" if names is None or at >= len(names) else repr(names[at])


def _chosen_separator(name: str | None) -> str | None:
    separator = name if name is None else WORDS.get(name, name.replace("\\t", "\t"))
    if separator is not None and separator != "::" and len(separator) != 1:
        raise SettingError(f"`separator` must be one character, '::' or one of {', '.join(WORDS)}, got {name!r}.")
    return separator


def _likeliest_separator(lines: Sequence[str], needed: int) -> str:
    """The first separator that splits nearly all lines into equally many fields, at least `needed` if possible."""

    def fit(separator: str) -> tuple[bool, bool, bool]:
        n_fields, n_lines = Counter(len(split(line, separator)) for line in lines).most_common(1)[0]
        return n_fields >= 2, n_fields >= needed and 2 * n_lines > len(lines), 10 * n_lines >= 9 * len(lines)

    return max(SEPARATORS, key=fit)


def _is_header(first: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """Return whether the first line is a header: it has no number, and has known names or numbers below it."""
    if any(is_value(field) for field in first):
        return False
    if sum(any(_plain(field) in names.split() for names in KNOWN.values()) for field in first) >= 2:
        return True
    return any(is_value(field) for fields in others for field in fields[: len(first)])


def _row_names(header: Sequence[str], others: Sequence[Sequence[str]], n_fields: int, how: Reading) -> tuple[str, ...]:
    """Name of the first column if the header lacks one, as in files of R, which hold distinct row names there."""
    short = len(how.roles) <= len(header) == n_fields - 1
    different = len({fields[0] for fields in others}) == len(others)
    ended = any(fields[-1] for fields in others)  # else each line has a separator too many
    return ("row names",) if short and different and ended else ()


def _first_free(
    role: str,
    places: dict[str, int],
    names: Sequence[str] | None,
    columns: Sequence[Sequence[str]],
    how: Reading,
    where: str,
) -> int:
    """First column that has no role yet and may have this one; values are numbers, if there is a column of these."""
    free = {
        at: _other_use(None if names is None or at >= len(names) else names[at], columns[at])
        for at in range(len(columns))
        if at not in places.values()
    }
    if not free:
        _refuse_narrow(how, len(columns), where)
    usable = [at for at, use in free.items() if use is None]
    if role == "value":
        usable = [at for at in usable if any(map(is_value, columns[at]))] or usable
    else:
        usable = usable or [at for at, use in free.items() if use == "time"]
    if not usable:
        uses = {"index": "numbers the lines", "time": "holds times"}
        reasons = " and ".join(f"{_called(at, names)} {uses[use]}" for at, use in free.items() if use)
        raise DataError(f"{where}, line 1: no column for the {SAID[role]}, since {reasons}; set {_settings(how)}.")
    return usable[0]


def _other_use(name: str | None, texts: Sequence[str]) -> str | None:
    """Return "index" or "time" if a column seems to hold the numbers of the lines, or times; else None."""
    role = None if name is None else _role_of(name)
    if role == "time" or (role is None and _are_times(texts)):
        return "time"
    return "index" if (name == "" or role == "index") and _increase(texts) else None


def _refuse_doubtful(guessed: dict[str, int], columns: Sequence[Sequence[str]], how: Reading, where: str) -> None:
    """Raise if a column without a known name may number the lines, or if the file may be the matrix itself."""
    first, *others = columns
    if (
        {"col", "value"} <= guessed.keys()
        and len(columns) >= WIDE
        and len(set(first)) == len(first)
        and all(text == "" or is_value(text) for column in others for text in column)
    ):
        raise DataError(
            f"{where}, line 1: {len(columns)} columns of numbers look like the matrix itself, one line per row; write "
            f"one line per entry, or read it as a frame with `Observations.from_frame`, or set {_settings(how)}."
        )
    counted = len(first) >= COUNTED and _increase(first) and int(first[-1]) - int(first[0]) == len(first) - 1
    if 0 in guessed.values() and counted and len(columns) > 3 + (how.weight is not None):
        raise DataError(
            f"{where}, line 1: the first column may be the {SAID[next(iter(guessed))]} or the number of the line; "
            f"set {_settings(how)}."
        )


def _settings(how: Reading) -> str:
    *most, last = (f"`{role}`" for role in how.roles)
    return f"{', '.join(most)} and {last}"


def _are_times(texts: Sequence[str]) -> bool:
    """Return whether all fields are dates, times of day, or Unix times in seconds or parts of them."""
    if not texts or all(map(TIME.match, texts)):
        return bool(texts)
    if not all(map(is_number, texts)):
        return False
    return any(all(SECONDS[0] <= float(text) / unit <= SECONDS[1] for text in texts) for unit in (1, 1e3, 1e6, 1e9))


def _increase(texts: Sequence[str]) -> bool:
    """Return whether all fields are integers, each larger than the one before."""
    return all(text.isdecimal() and len(text) <= 18 for text in texts) and all(
        int(a) < int(b) for a, b in pairwise(texts)
    )


def _role_of(name: str) -> str | None:
    """Role that the name of a column suggests, "time" and "index" included; None if the name is not known.

    The whole name decides, else its last known word, which may not be one for rows and columns: "My rating" are values.
    """
    for role in (*KNOWN, *OTHER):
        if _plain(name) in (KNOWN | OTHER)[role].split():
            return role
    words = [word.lower() for word in WORD.findall(name) if len(word) > 3]
    uses = OTHER | {"value": KNOWN["value"]}
    return next((use for word in reversed(words) for use, known in uses.items() if word in known.split()), None)


def _plain(name: str) -> str:
    """Name of a column without case, punctuation and suffix: `userId`, `user_id` and `User` are all `user`."""
    return re.sub(r"(?<=.)(id|ids|name|no|number|key|code|index|idx)$", "", re.sub(r"[^a-z0-9]", "", name.lower()))


def _asked(column: str | int | None, role: str, names: Sequence[str] | None, n_fields: int, where: str) -> int | None:
    """Position of a column chosen by name or number."""
    if column is None:
        return None
    position = _position(column, names, n_fields)
    if position is not None:
        return position
    held = f"columns 1 to {n_fields} and no header" if names is None else f"the columns {', '.join(map(repr, names))}"
    raise DataError(
        f"{where}, line 1: no column {column!r} for the {SAID[role]}; it has {held}. Set `{role}` to one of them."
    )


def _position(column: str | int, names: Sequence[str] | None, n_fields: int) -> int | None:
    """Position of a column with this name or number from 1; None if there is none."""
    if names is not None and str(column) in names:
        return list(names).index(str(column))
    return int(column) - 1 if str(column).isdecimal() and 1 <= int(column) <= n_fields else None


def _refuse_narrow(how: Reading, n_fields: int, where: str) -> None:
    *most, last = (f"a {SAID[role]}" for role in how.roles)
    needed = f"{', '.join(most)} and {last}"
    columns = "one column" if n_fields == 1 else f"{n_fields} columns"
    raise DataError(
        f"{where}, line 1: the file has {columns}; {needed} are needed; "
        "set `separator` if the columns are separated by something unusual."
    )
