"""Results on disk: one JSON line per fit, written at once; a killed run loses no more than the fit it was in."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .._errors import SettingError

Line = dict[str, Any]


class Store:
    """Lines of a file, each a result. A half-written last line, left by a killed run, is dropped.

    Parameters
    ----------
    path : path
        Made with its folder if it is not there.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.lines: list[Line] = []
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch()
            self.lines.extend(_whole_lines(self.path))
        except OSError as error:
            raise SettingError(f"Results cannot be kept in {self.path} ({error.strerror}); choose another.") from None

    def append(self, line: Line) -> None:
        """Add a result; it is on the disk when this returns."""
        with self.path.open("ab") as file:
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.lines.append(line)

    def find(self, kind: str, data: str, method: str, digest: str) -> list[Line]:
        """Lines of one kind that belong to a data set and a method with these very settings, oldest first."""
        wanted = {"kind": kind, "data": data, "method": method, "digest": digest}
        return [line for line in self.lines if all(line.get(key) == value for key, value in wanted.items())]


def _whole_lines(path: Path) -> Iterator[Line]:
    """Parsed lines; what follows the last newline is cut off the file, and lines that are not JSON are passed over."""
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
