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
# Kernels allocate no arrays, and `_nrt` leaves out reference counts: in the row solver, counting the references to the
# arrays that helpers take and return cost more than solving a row of few entries. All kernels have the same options,
# because Numba compiles what they call, builtin functions included, once for each set of options.
BORROWING = {"nogil": True, "error_model": "numpy", "fastmath": FASTMATH, "_nrt": False}
# The C wrapper of a kernel is never called, and takes a fifth of the compile time.
OPTIONS = BORROWING | {"no_cfunc_wrapper": True}
# For functions that only kernels call: unpacking tuples in a Python wrapper takes long to compile.
INNER = OPTIONS | {"no_cpython_wrapper": True}
# A call left in a loop prevents vectorization.
INLINED = OPTIONS | {"forceinline": True}
# For functions that only kernels call: no machine code of their own, and none that is optimized before it is linked.
LINKED = INNER | {"pipeline_class": PartCompiler}
PART = LINKED | INLINED


def jit(function: Callable[..., Any]) -> Any:
    """Compile `function`, which must not allocate arrays, on first call, or load its machine code from the cache."""
    kernel: Any = numba.njit(**OPTIONS)(function)
    if function.__module__.startswith(f"{__package__}."):  # the digest in the folder's name does not cover others
        kernel._cache = KernelCache(f"{function.__module__}.{function.__qualname__}")
    return kernel


def part(function: Callable[..., Any]) -> Any:
    """Inline `function` into the kernels that call it; it has no machine code of its own.

    Inlined because a call in a loop prevents vectorization, and costs more than most of these helpers do. Not cached
    because Numba distinguishes types by name, and the first custom loss of one program has the same type name as that
    of another.
    """
    return numba.njit(cache=False, **PART)(function)


def called(function: Callable[..., Any]) -> Any:
    """Like `part` for functions that take long: they are compiled once for all of their calls in a kernel.

    Arguments should be few: a tuple of arrays is passed as seven numbers for each array.
    """
    return numba.njit(cache=False, **LINKED)(function)


def linked(function: FunctionT) -> FunctionT:
    """Let kernels call a plain Python function, which LLVM inlines where that pays; return it as it is."""
    overload(function, jit_options=LINKED, strict=False)(lambda *args: function)
    return function


def callback(function: Callable[..., Any], signature: Any, name: str | None) -> Any:
    """Compile `function` now, as a C function that kernels call by its address; cached if it has a name."""
    compiled = CFunc(function, normalize_signature(signature), {}, BORROWING)
    if name is not None:
        compiled._cache = KernelCache(name)
    compiled.compile()
    return compiled


def uncached(kernel: Any) -> Any:
    """Return a copy of `kernel` that is not cached on disk, for custom losses and parts of other packages."""
    return numba.njit(cache=False, **OPTIONS)(kernel.py_func)
