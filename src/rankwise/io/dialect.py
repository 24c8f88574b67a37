"""Dialect of a text file, guessed from its first lines: separator, header, comments, and the role of each column."""

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .._errors import DataError, SettingError

SEPARATORS = {"::": "'::'", "\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas", " ": "blanks"}  # as tried
WORDS = {"tab": "\t", "comma": ",", "semicolon": ";", "bar": "|", "blank": " ", "space": " ", "colons": "::"}
COMMENTS = ("#", "%")
ENOUGH = 200  # lines to guess from
ROLES = ("row", "col", "value", "weight")
SAID = {"row": "row", "col": "column", "value": "value", "weight": "weight"}
KNOWN = {
    "row": "user customer reviewer rater client person member row source from author reader student patient u",
    "col": "item movie product book song track artist title film article business game joke asin isbn col column "
    "target to question gene word i",
    "value": "rating value score stars star rate overall count counts label sign plays response",
}


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

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles of the columns that are read."""
        roles = ROLES[:2] if self.pairs else ROLES[:3]
        return roles if self.weight is None or self.pairs else (*roles, "weight")


@dataclass(frozen=True)
class Dialect:
    """Syntax of a text file.

    Attributes
    ----------
    separator : str
    names : tuple of str or None
        Fields of the header.
    n_fields : int
        Most frequent number of fields in a line.
    start : int
        Number of lines up to and including the header; 0 without a header.
    comment : str or None
        First character of lines to skip.
    """

    separator: str
    names: tuple[str, ...] | None
    n_fields: int
    start: int
    comment: str | None

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


def is_number(text: str) -> bool:
    """Return whether a field is a number, NaN and infinity included."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def place(names: Sequence[str] | None, n_fields: int, how: Reading, where: str) -> dict[str, int]:
    """Assign a column to each role: the chosen one, else the first with a known name, else the first unused one."""
    chosen = {role: _asked(getattr(how, role), role, names, n_fields, where) for role in how.roles}
    places = {role: at for role, at in chosen.items() if at is not None}
    for role in how.roles:
        if role not in places and names is not None and role in KNOWN:
            named = [at for at, name in enumerate(names) if _known(name, role) and at not in places.values()]
            if named:
                places[role] = named[0]
    for role in how.roles:
        if role not in places:
            free = [at for at in range(n_fields) if at not in places.values()]
            if not free:
                _refuse_narrow(how, n_fields, where)
            places[role] = free[0]
    if len(set(places.values())) < len(places):
        raise SettingError(f"{where}: one column cannot be two of {', '.join(SAID[role] for role in places)}.")
    return {role: places[role] for role in how.roles}


def describe(places: dict[str, int], names: Sequence[str] | None, n_fields: int) -> str:
    """Describe the role of each column."""

    def name(at: int) -> str:
        return f"column {at + 1}" if names is None or at >= len(names) else repr(names[at])

    used = ", ".join(f"{SAID[role]}s from {name(at)}" for role, at in places.items())
    unused = [name(at) for at in range(n_fields) if at not in places.values()]
    return used + (f"; not used: {', '.join(unused)}" if unused else "")


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
    if any(is_number(field) for field in first):
        return False
    if sum(any(_known(field, role) for role in KNOWN) for field in first) >= 2:
        return True
    return any(is_number(field) for fields in others for field in fields[: len(first)])


def _row_names(header: Sequence[str], others: Sequence[Sequence[str]], n_fields: int, how: Reading) -> tuple[str, ...]:
    """Name of the first column if the header lacks one, as in files of R, which hold distinct row names there."""
    short = len(how.roles) <= len(header) == n_fields - 1
    different = len({fields[0] for fields in others}) == len(others)
    ended = any(fields[-1] for fields in others)  # else each line has a separator too many
    return ("row names",) if short and different and ended else ()


def _known(name: str, role: str) -> bool:
    return _plain(name) in KNOWN[role].split()


def _plain(name: str) -> str:
    """Name of a column without case, punctuation and suffix: `userId`, `user_id` and `User` are all `user`."""
    return re.sub(r"(?<=.)(id|ids|name|no|number|key|code|index|idx)$", "", re.sub(r"[^a-z0-9]", "", name.lower()))


def _asked(column: str | int | None, role: str, names: Sequence[str] | None, n_fields: int, where: str) -> int | None:
    """Position of a column chosen by name or number."""
    if column is None:
        return None
    if names is not None and str(column) in names:
        return list(names).index(str(column))
    if str(column).isdecimal() and 1 <= int(column) <= n_fields:
        return int(column) - 1
    held = f"columns 1 to {n_fields} and no header" if names is None else f"the columns {', '.join(map(repr, names))}"
    raise DataError(
        f"{where}, line 1: no column {column!r} for the {SAID[role]}; it has {held}. Set `{role}` to one of them."
    )


def _refuse_narrow(how: Reading, n_fields: int, where: str) -> None:
    *most, last = (f"a {SAID[role]}" for role in how.roles)
    needed = f"{', '.join(most)} and {last}"
    columns = "one column" if n_fields == 1 else f"{n_fields} columns"
    raise DataError(
        f"{where}, line 1: found {columns} where {needed} are needed; "
        "set `separator` if the columns are separated by something unusual."
    )
