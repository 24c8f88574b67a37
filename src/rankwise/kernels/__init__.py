"""Numba loops: arrays in, arrays out.

Every kernel is serial, releases the GIL, and writes into arrays that its caller owns; threads run several of them
side by side on different shards. Indices are unsigned (signed ones cost more than twice the time), sums run in
float64, and the order of a sum depends on the data alone.
"""

import os

from numba.core.compiler_lock import global_compiler_lock

if hasattr(
    os, "register_at_fork"
):  # a process forked while another thread compiles would wait for Numba's lock forever
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )
