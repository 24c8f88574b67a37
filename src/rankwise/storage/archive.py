"""Files of plain arrays: a zip of ``.npy`` files with a digest. Models and checkpoints are such files.

NumPy and any zip tool open them. Reading runs no code and takes no more memory than the file has bytes. The digest, in
the zip's comment, covers every byte before it; it detects damage, and is no signature.
"""

import hashlib
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

from .._arrays import Array
from .._files import replacing

# Errors of reading a damaged or foreign zip of arrays; NumPy parses headers as Python literals.
DAMAGE = (
    *(OSError, ValueError, LookupError, TypeError, EOFError, AttributeError, ArithmeticError, SyntaxError),
    *(NotImplementedError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error, struct.error, TokenError),
)
PLAIN_KINDS = "biufUSmM"  # booleans, numbers, text, times
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
MAX_EMPTY_ROWS = 1 << 24  # rows that an array without any byte may have, if the file is smaller
DIGEST = b"sha256:"  # before the digest in the comment
LENGTH = len(DIGEST) + 64


def write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """Write a file that is complete and on the disk when this returns; on an error, nothing has changed."""
    with replacing(path, "w+b") as file:
        np.savez(file, allow_pickle=False, **arrays)
        seal(file)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def seal(file: BinaryIO) -> None:
    """Append the digest to a zip file without a comment."""
    file.seek(-2, os.SEEK_END)
    file.write(LENGTH.to_bytes(2, "little"))  # of the comment
    digest = _digest(file, file.tell())
    file.seek(0, os.SEEK_END)
    file.write(DIGEST + digest)


def sync_folder(folder: Path) -> None:
    """Flush new names in a folder to the disk, where the system can open folders and the file system can do so."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def read_arrays(file: BinaryIO) -> dict[str, Array]:
    """Return the arrays of a file by name.

    Raises one of `DAMAGE` if the digest does not hold, or if there is anything but plain, uncompressed arrays.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - LENGTH, 0))
    if file.read() != DIGEST + _digest(file, size - LENGTH):
        raise ValueError("its digest does not hold")
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


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, size: int) -> Array:
    with archive.open(member) as file:
        _check_header(file, member, size)
    with archive.open(member) as file:  # read to its end, where zipfile compares the CRC
        array: Array = npy.read_array(file, allow_pickle=False)
    return array


def _check_header(file: IO[bytes], member: zipfile.ZipInfo, size: int) -> None:
    """Raise unless the array is plain and exactly as long as its part of the file."""
    shape, _, dtype = HEADERS[npy.read_magic(file)](file)
    if dtype.kind not in PLAIN_KINDS:
        raise ValueError(f"{member.filename} holds {dtype}")
    longest = max(size, MAX_EMPTY_ROWS)
    if any(not 0 <= length <= longest for length in shape):
        raise ValueError(f"{member.filename} has the shape {shape}")
    if math.prod(shape) * dtype.itemsize != member.file_size - file.tell():
        raise ValueError(f"{member.filename} is not as long as its shape says")


def _digest(file: BinaryIO, size: int) -> bytes:
    """Return the digest of the first `size` bytes."""
    digest = hashlib.sha256()
    file.seek(0)
    while size > 0 and (chunk := file.read(min(size, 1 << 20))):
        digest.update(chunk)
        size -= len(chunk)
    return digest.hexdigest().encode()
