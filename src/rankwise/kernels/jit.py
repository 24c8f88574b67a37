"""Decorators that compile kernels on first call, or load their machine code from the cache.

Decorating a function compiles nothing, makes no folder and leaves Numba's configuration alone.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.core.ccallback import CFunc
from numba.core.sigutils import normalize_signature
from numba.extending import overload

from .cache import KernelCache
from .pipeline import PartCompiler

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
# Sums may be reassociated and fused, so that loops vectorize; NaN and infinity keep their meaning.
FASTMATH = {"reassoc", "contract", "nsz", "arcp"}
# The C wrapper of a kernel is never called, and takes a fifth of the compile time.
OPTIONS = {"nogil": True, "error_model": "numpy", "fastmath": FASTMATH, "no_cfunc_wrapper": True}
# For functions that only kernels call: unpacking tuples in a Python wrapper takes long to compile.
INNER = OPTIONS | {"no_cpython_wrapper": True}
# A call left in a loop prevents vectorization, and updates the reference counts of its array arguments.
INLINED = OPTIONS | {"forceinline": True}
# For functions that only kernels call: no machine code of their own, and none that is optimized before it is linked.
LINKED = INNER | {"pipeline_class": PartCompiler}
PART = LINKED | INLINED
BORROWING = OPTIONS | {"_nrt": False}
CALLBACK = {name: option for name, option in OPTIONS.items() if name != "no_cfunc_wrapper"}


def _cached(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    kernel = numba.njit(**options)(function)
    if function.__module__.startswith(f"{__package__}."):  # the digest in the folder's name does not cover others
        kernel._cache = KernelCache(f"{function.__module__}.{function.__qualname__}")
    return kernel


def jit(function: Callable[..., Any]) -> Any:
    """Compile `function` on first call, or load its machine code from the cache."""
    return _cached(function, OPTIONS)


def borrowing(function: Callable[..., Any]) -> Any:
    """Compile a kernel that allocates no array, without reference counts.

    In the row solver, counting the references to the arrays that helpers take and return cost more than solving a row
    of few entries. A helper that returns an array must not be shared with kernels that count.
    """
    return _cached(function, BORROWING)


def inner(function: Callable[..., Any]) -> Any:
    """Compile a function that takes tuples and is called by kernels only; a call from Python crashes."""
    return _cached(function, INNER)


def part(function: Callable[..., Any]) -> Any:
    """Inline `function` into the kernels that call it; it has no machine code of its own.

    Inlined because a call between Numba functions updates the reference count of every array argument, which costs
    more than most of these helpers do. Not cached because Numba distinguishes types by name, and the first custom loss
    of one program has the same type name as that of another.
    """
    return numba.njit(cache=False, **PART)(function)


def linked(function: FunctionT) -> FunctionT:
    """Let kernels call a plain Python function, which LLVM inlines where that pays; return it as it is."""
    overload(function, jit_options=LINKED, strict=False)(lambda *args: function)
    return function


def callback(function: Callable[..., Any], signature: Any, name: str | None) -> Any:
    """Compile `function` now, as a C function that kernels call by its address; cached if it has a name."""
    compiled = CFunc(function, normalize_signature(signature), {}, CALLBACK)
    if name is not None:
        compiled._cache = KernelCache(name)
    compiled.compile()
    return compiled


def uncached(kernel: Any, options: dict[str, Any] = OPTIONS) -> Any:
    """Return a copy of `kernel` that is not cached on disk, for custom losses and parts of other packages."""
    return numba.njit(cache=False, **options)(kernel.py_func)
