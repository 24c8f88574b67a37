"""One decorator for all kernels, and the private folder their compiled code is kept in."""

import gc
import hashlib
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def no_garbage() -> Iterator[None]:
    """Do not look for garbage: loading Numba makes eighty thousand objects that all stay, and looking takes a third."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


with no_garbage():
    import numba

# Sums may be reassociated and fused, so loops vectorise; NaN and infinity keep their meaning.
FASTMATH = {"reassoc", "contract", "nsz", "arcp"}
# A wrapper for C is never called, and takes a fifth of the time that compiling takes.
OPTIONS = {"nogil": True, "error_model": "numpy", "fastmath": FASTMATH, "no_cfunc_wrapper": True}
INNER = OPTIONS | {"no_cpython_wrapper": True}  # for what only kernels call: unpacking its tuples takes long to compile
INLINED = OPTIONS | {"forceinline": True}  # a call left in a loop stops the vectoriser, and counts its arrays' users


def user_cache_folder() -> Path:
    """Where this user's caches live, by the custom of the operating system."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def private_folder(path: Path) -> Path | None:
    """Make `path` readable by its owner alone; None if it cannot be made so.

    Numba's cache files are pickles: who can write them can run code here.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
        if os.name == "posix" and (found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077):
            return None
        probe = path / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except (OSError, RuntimeError):  # RuntimeError: no home folder
        return None
    return path


def sources_digest() -> str:
    """Digest of all sources that kernels inline, also those of the losses; Numba stamps only a kernel's own file."""
    folder = Path(__file__).parent
    sources = sorted([*folder.glob("*.py"), *(folder.parent / "losses").glob("*.py")])
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]


def _choose_cache() -> str | None:
    try:
        # The user may have chosen a folder for all of Numba.
        home = Path(numba.config.CACHE_DIR or user_cache_folder()) / "rankwise" / "numba"
        folder = private_folder(home) and private_folder(home / sources_digest())
    except (OSError, RuntimeError):
        return None
    return str(folder) if folder else None


CACHE = _choose_cache()


def _cached(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = CACHE or ""
    try:
        return numba.njit(cache=CACHE is not None, **options)(function)
    finally:
        numba.config.CACHE_DIR = before


def jit(function: Callable[..., Any]) -> Any:
    """Compile `function` on first use; keep the machine code in the private cache."""
    return _cached(function, OPTIONS)


@jit
def nothing() -> None:
    """The first kernel to be used: with it Numba loads the other half of itself."""


with no_garbage():
    nothing()


def inner(function: Callable[..., Any]) -> Any:
    """The same for a function of tuples that only kernels call; called from Python, as by a `py_func`, it crashes."""
    return _cached(function, INNER)


def part(function: Callable[..., Any]) -> Any:
    """Compile a piece of kernels, which lives in them alone: as if it were written there.

    A call would count the users of each of its arrays up and down, which takes longer than many a piece. And pieces
    that take a loss must not reach the cache: Numba tells types apart by name, and two programs may both have a first
    loss of their own.
    """
    return numba.njit(cache=False, **INNER | INLINED)(function)


def uncached(kernel: Any) -> Any:
    """Twin of `kernel` whose machine code lives in this process only, for losses that users write."""
    return numba.njit(cache=False, **OPTIONS)(kernel.py_func)
