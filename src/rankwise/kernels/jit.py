"""Decorators that compile kernels on first call, and the private folder that caches their machine code.

Decorating a function compiles nothing, makes no folder and leaves Numba's configuration alone: the cache of a kernel
is opened when the kernel is first compiled.
"""

import hashlib
import os
import stat
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
import platformdirs
from numba.core.caching import FunctionCache, NullCache
from numba.core.ccallback import CFunc
from numba.core.sigutils import normalize_signature

# Sums may be reassociated and fused, so that loops vectorize; NaN and infinity keep their meaning.
FASTMATH = {"reassoc", "contract", "nsz", "arcp"}
# The C wrapper of a kernel is never called, and takes a fifth of the compile time.
OPTIONS = {"nogil": True, "error_model": "numpy", "fastmath": FASTMATH, "no_cfunc_wrapper": True}
# For functions that only kernels call: unpacking tuples in a Python wrapper takes long to compile.
INNER = OPTIONS | {"no_cpython_wrapper": True}
# A call left in a loop prevents vectorization, and updates the reference counts of its array arguments.
INLINED = OPTIONS | {"forceinline": True}

CALLBACK = {name: option for name, option in OPTIONS.items() if name != "no_cfunc_wrapper"}


def private_folder(path: Path) -> Path | None:
    """Create `path`, accessible to its owner only; None if that is not possible or others have access.

    Numba's cache files are pickles: whoever can write them can run code in this process.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
        if hasattr(os, "getuid") and (status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077):
            return None
        probe = path / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError:
        return None
    return path


def sources_digest() -> str:
    """Digest of the source files that kernels inline, those of the losses included, which names their cache folder.

    A kernel inlines functions of other files; Numba's own time stamp covers only the file that defines the kernel.
    """
    folder = Path(__file__).parent
    sources = sorted([*folder.glob("*.py"), *(folder.parent / "losses").glob("*.py")])
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]


@cache
def cache_folder() -> Path | None:
    """Folder of the compiled kernels, created on the first call; None if no private folder can be had.

    Below ``NUMBA_CACHE_DIR`` if that is set, else below the user's cache folder.
    """
    chosen = numba.config.CACHE_DIR
    try:
        parent = Path(chosen) / "rankwise" if chosen else platformdirs.user_cache_path("rankwise", appauthor=False)
    except RuntimeError:  # the user has no home folder
        return None
    if not chosen and not parent.is_absolute():  # older releases of platformdirs leave "~" as it is
        return None
    return private_folder(parent / "numba") and private_folder(parent / "numba" / sources_digest())


class LazyCache(NullCache):
    """Stand-in for the cache of `kernel` that opens the cache in `cache_folder` when the kernel is first compiled."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Open the cache, and return the machine code that it holds for the signature, or None.

        Numba calls this under its global compiler lock, so the change of ``CACHE_DIR`` is not seen by other threads.
        """
        folder, before = cache_folder(), numba.config.CACHE_DIR
        if folder is None:
            return None
        numba.config.CACHE_DIR = str(folder)
        try:
            self.kernel._cache = FunctionCache(self.kernel.py_func)
        finally:
            numba.config.CACHE_DIR = before
        return self.kernel._cache.load_overload(sig, target_context)


def _cached(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    kernel = numba.njit(**options)(function)
    kernel._cache = LazyCache(kernel)
    return kernel


def jit(function: Callable[..., Any]) -> Any:
    """Compile `function` on first call, or load its machine code from the cache."""
    return _cached(function, OPTIONS)


def inner(function: Callable[..., Any]) -> Any:
    """Compile a function that takes tuples and is called by kernels only; a call from Python crashes."""
    return _cached(function, INNER)


def part(function: Callable[..., Any]) -> Any:
    """Inline `function` into the kernels that call it; it has no machine code of its own.

    Inlined because a call between Numba functions updates the reference count of every array argument, which costs
    more than most of these helpers do. Not cached because Numba distinguishes types by name, and the first custom loss
    of one program has the same type name as that of another.
    """
    return numba.njit(cache=False, **INNER | INLINED)(function)


def callback(function: Callable[..., Any], signature: Any, cached: bool) -> Any:
    """Compile `function` now, as a C function that kernels call by its address."""
    compiled = CFunc(function, normalize_signature(signature), {}, CALLBACK)
    compiled.py_func = function
    if cached:
        compiled._cache = LazyCache(compiled)
    compiled.compile()
    return compiled


def uncached(kernel: Any) -> Any:
    """Return a copy of `kernel` whose machine code stays in this process; used for custom losses."""
    return numba.njit(cache=False, **OPTIONS)(kernel.py_func)
