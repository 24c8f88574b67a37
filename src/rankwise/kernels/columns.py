"""Weighted sums of tall matrices with a weight per column, in one pass.

Matrices are passed flattened, so that one loop index serves all of them.
"""

from typing import NamedTuple

from numba import float64, uint64

from .._arrays import Array
from .jit import jit
from .lanes import STRIDE, accumulate, add, load, product, store, times, widen


class Term(NamedTuple):
    """Term of the sum: a matrix, and a weight for each of its columns."""

    factors: Array  # (width,)
    block: Array  # (n * width,)


@jit
def blend(scale, one, two, three, out, squares):
    """Write ``scale[i]`` times the sum of the terms into `out`; add the squares of its columns to `squares`.

    `out` may be one of the blocks.
    """
    (f, a), (g, b), (h, c), width = one, two, three, uint64(squares.size)
    whole = width - width % STRIDE
    for i in range(uint64(scale.size)):
        s, first = scale[i], i * width
        for k in range(uint64(0), whole, STRIDE):
            at = first + k
            x = product(load(f, k), load(a, at))
            x = times(s, add(add(x, load(g, k), load(b, at)), load(h, k), load(c, at)))
            store(out, at, x)
            accumulate(squares, k, product(widen(x), widen(x)))
        for k in range(whole, width):
            at = first + k
            y = s * (f[k] * a[at] + g[k] * b[at] + h[k] * c[at])
            out[at] = y
            squares[k] += float64(y) * float64(y)
