"""The kernel cache: machine code of kernels on disk, one file with a digest for each kernel and signature.

Entries are pickles: whoever can write one can run code in this process, and a damaged one can abort it. An entry is
therefore read only from a folder that no other user can change or replace, and only if its digest holds. A kernel
without such an entry is compiled, and a warning of the logger ``rankwise`` says why where that is not expected.
"""

import hashlib
import logging
import os
import pickle
import platform
import stat
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
import platformdirs
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from .._errors import RankwiseError
from .._files import replacing

log = logging.getLogger("rankwise")
LOG_EXTRA = {"phase": "compiling"}  # tells the command line which messages to show
VERSIONS = (numba.__version__, llvmlite.__version__, platform.python_implementation(), platform.python_version())
SEAL = hashlib.sha256().digest_size  # bytes of the digest at the start of an entry


def private_folder(path: Path) -> Path:
    """Create `path` unless it exists, and return it without links; raise `OSError` if another user could change it.

    Every folder and link on the way must belong to root or to this user. Other users must not be able to write to it,
    except to a folder above the last one that is sticky, such as /tmp. Parts are checked from the root down, so that
    nobody else can replace a part that was checked.
    """
    if not hasattr(os, "getuid"):  # the folders of a user are private on Windows
        path.mkdir(parents=True, exist_ok=True)
        return path.absolute()
    folder = _resolved(path.absolute())
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is not a folder")
    if _others_write(folder.lstat()):  # also if it is sticky
        raise PermissionError(f"other users can write to {folder}")
    return folder


def _resolved(path: Path) -> Path:
    """Follow the links in `path` and create what is missing; raise if another user could change a part of it."""
    parent = path if path == path.parent else _resolved(path.parent)
    if path.name == "..":
        return parent.parent
    part = parent / path.name
    if not part.exists():
        part.mkdir(mode=0o700, exist_ok=True)
    status = part.lstat()
    if status.st_uid not in (0, os.getuid()):
        raise PermissionError(f"{part} belongs to another user")
    if stat.S_ISLNK(status.st_mode):
        return _resolved(parent / part.readlink())
    if _others_write(status) and not status.st_mode & stat.S_ISVTX:
        raise PermissionError(f"other users can write to {part}")
    return part


def _others_write(status: os.stat_result) -> bool:
    """Return whether the mode of a folder lets others than root and this user write to it."""
    by_group = bool(status.st_mode & stat.S_IWGRP) and not _is_own_group(status.st_gid)
    return by_group or bool(status.st_mode & stat.S_IWOTH)


def _is_own_group(gid: int) -> bool:
    """Return whether a group is the private group of this user, as many systems give one to each user."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.getuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def sources_digest() -> str:
    """Digest of the source files that kernels inline, also of losses and penalties, which names their cache folder.

    A kernel inlines functions of other files, so that its own source does not identify its machine code.
    """
    folder = Path(__file__).parent
    folders = folder, folder.parent / "losses", folder.parent / "penalties"
    sources = sorted(source for each in folders for source in each.glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]


@cache
def cache_folder() -> Path | None:
    """Folder of the compiled kernels without links, created on the first call; None if no private folder can be had.

    Below ``NUMBA_CACHE_DIR`` if that is set, else below the user's cache folder.
    """
    chosen = numba.config.CACHE_DIR
    try:
        parent = Path(chosen) / "rankwise" if chosen else platformdirs.user_cache_path("rankwise", appauthor=False)
        if not chosen and not parent.is_absolute():  # older releases of platformdirs leave "~" as it is
            raise RuntimeError("the user has no home folder")
        return private_folder(parent / "numba" / sources_digest())
    except (OSError, RuntimeError) as error:  # RuntimeError: no home folder, or too many links
        _warn(f"compiled kernels are not cached, so every process compiles them again: {_reason(error)}")
        return None


@cache
def _warn(text: str) -> None:
    """Log a warning once per process."""
    log.warning(text, extra=LOG_EXTRA)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


class KernelCache(NullCache):
    """Cache of a kernel's machine code, in the interface of Numba's dispatchers.

    The folder is not looked for before the kernel is first compiled.

    Parameters
    ----------
    name : str
        Module and name of the kernel.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the machine code for a signature, or None if the cache does not hold it undamaged."""
        path = self._path(sig, target_context.codegen())
        content = None if path is None else _unsealed(path)
        if content is None:
            return None
        target_context.refresh()
        stored, parts = pickle.loads(content)
        return CompileResult._rebuild(target_context, *parts) if stored == sig else None

    def save_overload(self, sig: Any, cres: Any) -> None:
        """Store the machine code for a signature, if the folder can be written to."""
        path = self._path(sig, cres.codegen)
        if path is None or cres.library.has_dynamic_globals:  # addresses of this process
            return
        content = dumps((sig, cres._reduce()))
        try:
            with replacing(path, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
        except (OSError, RankwiseError) as error:
            _warn(f"some compiled kernels are not cached in {path.parent}: {_reason(error)}")

    def _path(self, sig: Any, codegen: Any) -> Path | None:
        """Path of the entry for a signature; None without a cache."""
        folder = cache_folder()
        key = repr((VERSIONS, self.name, sig, codegen.magic_tuple()))
        return None if folder is None else folder / f"{self.name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def _unsealed(path: Path) -> memoryview | None:
    """Contents of an entry after its digest; None if there is no such file, or its digest does not hold."""
    try:
        content = memoryview(path.read_bytes() if path.is_file() else b"")
    except OSError as error:
        _warn(f"some entries of the kernel cache cannot be read, and are compiled again: {_reason(error)}")
        return None
    if not content:
        return None
    if hashlib.sha256(content[SEAL:]).digest() != content[:SEAL]:
        _warn(f"the kernel cache {path.parent} has damaged entries, which are compiled again and replaced")
        return None
    return content[SEAL:]
