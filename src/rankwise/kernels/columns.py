"""Dense blocks with one vector in each row, as wide as there are components: sums of such blocks in one pass."""

from typing import Any, NamedTuple

from numba import float64

from .jit import jit


class Term(NamedTuple):
    """One block, with a factor for each of its columns."""

    factors: Any  # (width,)
    block: Any  # (n, width)


@jit
def blend(scale, one, two, three, out, squares):
    """Write ``scale[i]`` times the sum of the terms into `out`; add the squares of its columns to `squares`.

    `out` may be one of the blocks.
    """
    n, width = out.shape
    for i in range(n):
        row, s = out[i], scale[i]
        a, b, c = one.block[i], two.block[i], three.block[i]
        for k in range(width):
            x = s * (one.factors[k] * a[k] + two.factors[k] * b[k] + three.factors[k] * c[k])
            row[k] = x
            squares[k] += float64(x) * float64(x)
