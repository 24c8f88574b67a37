"""Write files that appear complete or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ._errors import DataError


def check_replaceable(path: Path) -> None:
    """Raise if there is something other than a regular file at `path`."""
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a file in it.")
    if path.exists() and not path.is_file():
        raise DataError(f"{path} is a device or a pipe, which a file cannot replace; choose another name.")


@contextmanager
def replacing(path: Path, mode: str, **how: Any) -> Iterator[Any]:
    """Open a temporary file beside `path` that replaces it at the end, and is removed on an error."""
    check_replaceable(path)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, mode, **how) as file:
            yield file
        os.chmod(temporary, 0o666 & ~_umask())  # the mode of a new file
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
