"""A checksum at the end of a model file, over every byte before it.

It stands where a zip file has its comment, so that the file stays a zip of arrays that any tool opens. It tells
damage; it is no signature, and who means to change a model can also change its checksum.
"""

import hashlib
import os
from typing import BinaryIO

NAME = b"sha256:"
LENGTH = len(NAME) + 64


def seal(file: BinaryIO) -> None:
    """Append the checksum to a zip file that has no comment."""
    file.seek(-2, os.SEEK_END)
    file.write(LENGTH.to_bytes(2, "little"))  # of the comment
    digest = _digest(file, file.tell())
    file.seek(0, os.SEEK_END)
    file.write(NAME + digest)


def sealed(file: BinaryIO) -> bool | None:
    """Whether the checksum holds; None if there is none. Leaves the file at its start."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - LENGTH, 0))
    end = file.read()
    found = end[len(NAME) :] == _digest(file, size - LENGTH) if end.startswith(NAME) else None
    file.seek(0)
    return found


def _digest(file: BinaryIO, size: int) -> bytes:
    """Checksum of the first `size` bytes."""
    found = hashlib.sha256()
    file.seek(0)
    while size > 0 and (chunk := file.read(min(size, 1 << 20))):
        found.update(chunk)
        size -= len(chunk)
    return found.hexdigest().encode()
