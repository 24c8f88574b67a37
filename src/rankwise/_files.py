"""Write files that appear complete or not at all; tell regular files from links, pipes and devices."""

import errno
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock

from ._errors import DataError


def is_stream(path: Path) -> bool:
    """Return whether `path` is a pipe, a socket or a device, which can block, cannot be read twice or have no size."""
    return path.exists() and not path.is_file() and not path.is_dir()


def check_replaceable(path: Path) -> None:
    """Raise if there is something other than a regular file at `path`."""
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a file in it.")
    if is_stream(path):
        raise DataError(f"{path} is a device or a pipe, which a file cannot replace; choose another name.")


@contextmanager
def replacing(path: Path, mode: str, **how: Any) -> Iterator[Any]:
    """Open a temporary file beside `path` that replaces it at the end, and is removed on an error.

    It is a new file, never one that a link leads to, and the system applies the umask to its mode. An error of the file
    system names `path`.
    """
    check_replaceable(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(temporary, mode.replace("w", "x"), **how) as file:
            yield file
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            raise OSError(error.errno or errno.EIO, error.strerror or str(error), str(path)) from error
        raise


def file_lock(path: Path) -> FileLock:
    """Return a lock between processes, not yet acquired; raise `OSError` if `path` is not a regular file.

    Older releases of filelock follow a link and create the file that it leads to.
    """
    if path.is_symlink() or is_stream(path):
        raise OSError(errno.EINVAL, f"{path.name} is a link, a pipe or a device; remove it", str(path))
    return FileLock(path, thread_local=False)
