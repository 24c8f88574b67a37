"""One shard in one file: a short header, then plain arrays, checked before they are used and never copied."""

import json
import mmap
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import DataError, ShardFileError
from ..observations.build import check_csr
from ..observations.shards import Piece

Array = NDArray[Any]
MAGIC = b"rwshard\x01"
ALIGNED = 64
HEADER = 512  # bytes before the first array
KINDS = ("<f4", "<f8")
FIELDS = ("start", "n_rows", "n_cols", "n_entries", "crc")


def write_shard(path: Path, piece: Piece) -> None:
    """Write one shard to a new file, all the way to the disk."""
    arrays = [
        np.ascontiguousarray(part)
        for part in (piece.indptr, piece.indices, piece.targets, piece.weights)
        if part is not None
    ]
    about: dict[str, Any] = {
        "start": piece.start,
        "n_rows": piece.stop - piece.start,
        "n_cols": piece.n_cols,
        "n_entries": piece.indices.size,
        "targets": piece.targets.dtype.newbyteorder("<").str,
        "weights": None if piece.weights is None else piece.weights.dtype.newbyteorder("<").str,
    }
    about["crc"] = _checksum(about, arrays)
    with open(path, "xb") as file:
        file.write((MAGIC + json.dumps(about).encode()).ljust(HEADER, b" "))
        for part in arrays:
            file.write(part.data)
            file.write(bytes(-part.nbytes % ALIGNED))
        file.flush()
        os.fsync(file.fileno())


class ShardFile:
    """A shard file whose header has been read; its arrays are mapped on demand, and what nobody looks at is not read.

    Parameters
    ----------
    path : Path
    check : bool, default=True
        Whether to read all of it once and see that the checksum holds, that the entries are a pattern of rows and
        columns that exist, and that all numbers are finite. Sizes are always checked.
    """

    def __init__(self, path: Path, check: bool = True) -> None:
        self.path = path
        with _opened(path) as file:
            about = _header(file.read(HEADER))
        if about is None:
            raise ShardFileError(f"{path} is not a shard file, or it is damaged; write the shards again.")
        self.start, self.n_cols = about["start"], about["n_cols"]
        self._arrays, self._length = [], HEADER
        for kind, size in _layout(about):
            self._arrays.append((np.dtype(kind), size, self._length))
            self._length += _room(kind, size)
        if check:
            piece = self.map()
            arrays: list[Array] = [part for part in piece[2:] if part is not None]
            _check(piece, about.pop("crc") == _checksum(about, arrays), path)

    def map(self) -> Piece:
        """The arrays, as long as somebody holds them."""
        with _opened(self.path) as file:
            if os.fstat(file.fileno()).st_size != self._length:
                raise ShardFileError(f"{self.path} is damaged: it has another length than it says; write it again.")
            mapped = mmap.mmap(file.fileno(), self._length, access=mmap.ACCESS_READ)
        indptr, indices, targets, *weights = (np.frombuffer(mapped, *array) for array in self._arrays)
        return Piece(self.start, self.n_cols, indptr, indices, targets, weights[0] if weights else None)


def map_shard(path: Path, check: bool = True) -> Piece:
    """The arrays of a shard file, mapped; see `ShardFile`."""
    return ShardFile(path, check).map()


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The file; what is wrong with it in a sentence."""
    try:
        with open(path, "rb", buffering=0) as file:
            yield file
    except FileNotFoundError:
        raise ShardFileError(f"There is no shard file at {path}.") from None
    except OSError as error:
        raise ShardFileError(f"{path} cannot be read ({error.strerror or error}).") from None


def _checksum(about: dict[str, Any], arrays: list[Array]) -> int:
    """Of all that a file says, its checksum apart."""
    found = zlib.crc32(json.dumps(about, sort_keys=True).encode())
    for part in arrays:
        found = zlib.crc32(part.data, found)
    return found


def _header(start: bytes) -> dict[str, Any] | None:
    """What the header says, if it is one."""
    if len(start) != HEADER or not start.startswith(MAGIC):
        return None
    try:
        about = json.loads(start[len(MAGIC) :])
    except ValueError:
        return None
    sound = isinstance(about, dict) and set(about) == {*FIELDS, "targets", "weights"}
    sound = sound and all(type(about.get(name)) is int and about[name] >= 0 for name in FIELDS)
    sound = sound and about["start"] + about["n_rows"] < 2**32 and about["n_cols"] < 2**32
    return about if sound and about.get("targets") in KINDS and about.get("weights") in (None, *KINDS) else None


def _layout(about: dict[str, Any]) -> list[tuple[str, int]]:
    """Type and length of each array."""
    n = about["n_entries"]
    found = [("<u8", about["n_rows"] + 1), ("<u4", n), (about["targets"], n)]
    return found if about["weights"] is None else [*found, (about["weights"], n)]


def _room(kind: str, size: int) -> int:
    n_bytes = np.dtype(kind).itemsize * size
    return n_bytes + -n_bytes % ALIGNED


def _check(piece: Piece, sound: bool, path: Path) -> None:
    """Look at all of it once; kernels trust what they are given."""
    numbers: list[Array] = [piece.targets] if piece.weights is None else [piece.targets, piece.weights]
    sound = sound and all(bool(np.isfinite(part).all()) for part in numbers)
    try:
        check_csr(piece.indptr, piece.indices, (piece.stop - piece.start, piece.n_cols))
    except DataError:
        sound = False
    if not sound or (piece.weights is not None and not bool((piece.weights > 0).all())):
        raise ShardFileError(f"{path} is damaged: its checksum or its entries do not hold; write the shards again.")
