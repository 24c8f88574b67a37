"""A plugin for pytest that leaves kernels uncompiled, so that coverage sees their lines: ``pytest -p plain_kernels``.

What `numba.njit` would compile stays the Python function that it is, and is its own `py_func`. `make coverage` runs
the laws of the kernels so, on small inputs; the same tests hold compiled. Tests of the compiler itself are left out.
"""

from typing import Any

import numba

OF_THE_COMPILER = (
    "test_a_function_that_cannot_be_compiled_is_refused_in_one_line",
    "test_a_loss_that_is_not_what_it_declares_is_refused_at_a_point",  # NumPy's numbers warn and Python's raise
    "test_a_row_that_no_halving_helps_stays_where_it_is",  # where machine code has infinities
    "test_an_infinite_loss_is_infinite_and_not_undefined",
    "test_exp_and_logs_keep_their_meaning_at_the_edges",
    "test_kinks_are_five_numbers_for_each_target",
    "test_values_from_outside_the_function_are_fixed_when_it_is_first_used",
)


def njit(function: Any = None, **options: Any) -> Any:
    """`numba.njit` that does nothing."""
    if function is None:
        return njit
    function.py_func, function.compile = function, lambda signature: None
    return function


numba.njit = njit

from rankwise.kernels import tile_losses  # noqa: E402 (kernels must meet the plain `njit`)

tile_losses.tile_loss = lambda parameters, dtype, cached: parameters  # uncompiled code needs no pointer


def pytest_collection_modifyitems(config, items):
    """Leave out what only compiled code can do."""
    left_out = [item for item in items if item.originalname in OF_THE_COMPILER]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
