"""Open data files: plain, compressed, or members of zip archives; recognize their format by the first bytes."""

import bz2
import gzip
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile, ZipFile

from .._errors import DataError
from .._files import is_stream

AnyPath = str | os.PathLike[str]
COMPRESSED: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
FORMATS = {b"PAR1": "parquet", b"%%Matr": "Matrix Market"}
UNSUPPORTED = {
    b"PK\x03\x04": "a zip archive, an Excel file or a model; save the table as CSV",
    b"\x1f\x8b": "packed with gzip; give it a name that ends in .gz",
    b"BZh": "packed with bzip2; give it a name that ends in .bz2",
    b"\xfd7zXZ": "packed with xz; give it a name that ends in .xz",
    b"%PDF": "a PDF; save the table as CSV",
    b"\x89HDF": "an HDF5 file; save the table as CSV or Parquet",
}


@contextmanager
def opened(path: AnyPath) -> Iterator[Any]:
    """Open a file for reading bytes, decompressed; file-system and decompression errors become `DataError`.

    The suffixes .gz, .bz2 and .xz select the decompressor. A path may lead through a zip archive, such as
    ``ml-1m.zip/ml-1m/ratings.dat``.
    """
    where = os.fspath(path)
    if is_stream(Path(path)):
        raise DataError(f"{where} is a pipe or a device, and a table is read more than once; write it to a file first.")
    try:
        with _binary(Path(path)) as stream:
            yield stream
    except FileNotFoundError:
        raise DataError(f"There is no file at {where}.") from None
    except IsADirectoryError:
        raise DataError(f"{where} is a folder; name a file in it.") from None
    except (OSError, EOFError, zlib.error, lzma.LZMAError, BadZipFile) as error:
        raise DataError(f"{where} cannot be read ({error}); fetch it again if it is damaged.") from error


def format_of(where: str) -> str:
    """Format of a file by its first bytes, else by its name: "parquet", "Matrix Market" or "text"."""
    with opened(where) as stream:
        start: bytes = stream.read(8)
    unsupported = next((words for magic, words in UNSUPPORTED.items() if start.startswith(magic)), None)
    if unsupported is not None:
        raise DataError(f"{where} is {unsupported}.")
    known = next((name for magic, name in FORMATS.items() if start.startswith(magic)), None)
    if known is None and where.endswith(".parquet"):
        return "parquet"
    return known or ("Matrix Market" if where.endswith((".mtx", ".mtx.gz")) else "text")


def _binary(path: Path) -> Any:
    archive = next((part for part in (path, *path.parents) if part.suffix == ".zip" and part.is_file()), None)
    if archive is not None:
        return _archive_member(archive, path.relative_to(archive).as_posix())
    return COMPRESSED[path.suffix](path) if path.suffix in COMPRESSED else path.open("rb")


def _archive_member(archive: Path, member: str) -> IO[bytes]:
    with ZipFile(archive) as files:  # an open member keeps the archive's file open
        names = [name for name in files.namelist() if not name.endswith("/")]
        if not names:
            raise DataError(f"The archive {archive} holds no file; fetch it again, or give another.")
        if member not in names:
            listed = ", ".join(names[:9])
            raise DataError(f"The archive {archive} holds {listed}; name one of these, as in {archive / names[0]}.")
        try:
            return files.open(member)
        except RuntimeError as error:  # encrypted, or compressed by a method that Python lacks
            raise DataError(
                f"{archive / member} cannot be unpacked ({error}); unpack the archive and name the file itself."
            ) from None
