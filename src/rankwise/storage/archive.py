"""Files of plain arrays: a sealed zip, written whole or not at all; reading runs no code and takes what it holds.

Models and checkpoints are such files. NumPy and any zip tool open them.
"""

import math
import os
import struct
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from .._files import replacing
from .seal import seal

# All that reading a damaged or foreign zip of arrays has been seen to raise; NumPy's headers are Python expressions.
DAMAGE = (
    *(OSError, ValueError, LookupError, TypeError, EOFError, AttributeError, ArithmeticError, SyntaxError),
    *(NotImplementedError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error, struct.error, TokenError),
)
KINDS = "biufUSmM"  # truth values, numbers, words, times
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
LONGEST = 1 << 24  # an array without a byte may still say that it has so many rows, or as many as the file has bytes


def write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """Write a file that is there, complete and on the disk, when this returns; if it fails, nothing has changed."""
    with replacing(path, "w+b") as file:
        np.savez(file, allow_pickle=False, **arrays)
        seal(file)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Let new names in a folder outlast a loss of power, where the system can."""
    if os.name != "posix":
        return
    with suppress(OSError):  # not all file systems can, and the file is there
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def read_arrays(file: BinaryIO) -> dict[str, NDArray[Any]]:
    """The arrays of a file, by name; raises one of `DAMAGE` for anything else than plain arrays, stored as they are."""
    size = file.seek(0, os.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if len({member.filename for member in members}) < len(members):
            raise ValueError("two parts have the same name")
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("a part is compressed")
        if sum(member.file_size for member in members) > size:
            raise ValueError("its parts are larger than the file")
        return {_name(member): _array(archive, member, size) for member in members}


def _name(member: zipfile.ZipInfo) -> str:
    if not member.filename.endswith(".npy"):
        raise ValueError(f"{member.filename} is no array")
    return member.filename.removesuffix(".npy")


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, size: int) -> NDArray[Any]:
    with archive.open(member) as file:
        _check_header(file, member, size)
    with archive.open(member) as file:  # it ends with its part, where the zip's own checksum is looked at
        found: NDArray[Any] = npy.read_array(file, allow_pickle=False)
    return found


def _check_header(file: IO[bytes], member: zipfile.ZipInfo, size: int) -> None:
    """Raise unless the array is plain and exactly as long as its part of the file."""
    shape, _, dtype = HEADERS[npy.read_magic(file)](file)
    if dtype.kind not in KINDS:
        raise ValueError(f"{member.filename} holds {dtype}")
    longest = max(size, LONGEST)
    if any(not 0 <= length <= longest for length in shape):
        raise ValueError(f"{member.filename} has the shape {shape}")
    if math.prod(shape) * dtype.itemsize != member.file_size - file.tell():
        raise ValueError(f"{member.filename} is not as long as its shape says")
