"""Results on disk: one line of JSON per fit, written as soon as the fit has ended."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .._errors import SettingError

StoredLine = dict[str, Any]


class Store:
    """File of results, one per line; an incomplete last line, left by a killed run, is removed.

    Parameters
    ----------
    path : path
        Created with its folder if it does not exist.

    Attributes
    ----------
    lines : list of dict
        Results in the order of the file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.lines: list[StoredLine] = []
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch()
            self.lines.extend(_whole_lines(self.path))
        except OSError as error:
            raise SettingError(
                f"Results cannot be written to {self.path} ({error.strerror}); choose another folder."
            ) from None

    def append(self, line: StoredLine) -> None:
        """Append a result; it has been flushed to disk on return."""
        with self.path.open("ab") as file:
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.lines.append(line)

    def find(self, kind: str, data: str, method: str, digest: str) -> list[StoredLine]:
        """Return the results of a kind, data set, method and digest of settings, oldest first."""
        criteria = {"kind": kind, "data": data, "method": method, "digest": digest}
        return [line for line in self.lines if all(line.get(key) == value for key, value in criteria.items())]


def _whole_lines(path: Path) -> Iterator[StoredLine]:
    """Yield the lines that are JSON objects; truncate the file after its last newline."""
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        os.truncate(path, len(whole))
    for text in whole.splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict):
            yield line
