"""A plugin for pytest that leaves kernels uncompiled, so that coverage sees their lines: ``pytest -p plain_kernels``.

What `numba.njit` would compile stays the Python function that it is, and is its own `py_func`. `make coverage` runs
the laws of the kernels so, on small inputs; the same tests hold compiled.
"""

from typing import Any

import numba


def njit(function: Any = None, **options: Any) -> Any:
    """`numba.njit` that does nothing."""
    if function is None:
        return njit
    function.py_func = function
    return function


numba.njit = njit
