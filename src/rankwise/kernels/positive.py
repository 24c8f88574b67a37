"""Small positive definite systems, eight columns at a time."""

import math

from numba import uint64

from .jit import jit
from .lanes import LANES, accumulate, add, add_times, load, store, times, total, zeros

STRIDE = uint64(LANES)
_1, _2, _3, _4 = (uint64(k) for k in range(1, 5))


@jit
def subtract_outer(matrix, first, width):
    """From rows `first` to first + 3, take what the finished rows above explain: ``R.T R`` of these."""
    for b in range(first - first % STRIDE, width, STRIDE):
        c0, c1, c2, c3 = zeros(matrix), zeros(matrix), zeros(matrix), zeros(matrix)
        for k in range(first - first % STRIDE):
            row = matrix[k]
            right = load(row, b)
            c0, c1 = add_times(c0, -row[first], right), add_times(c1, -row[first + _1], right)
            c2, c3 = add_times(c2, -row[first + _2], right), add_times(c3, -row[first + _3], right)
        accumulate(matrix[first], b, c0)
        accumulate(matrix[first + _1], b, c1)
        accumulate(matrix[first + _2], b, c2)
        accumulate(matrix[first + _3], b, c3)


@jit
def factor(matrix, n, width):
    """Overwrite the upper half of the first n rows with R, where ``R.T R = matrix``.

    Rows and columns up to `width`, a multiple of eight, must be there and finite; what is below the diagonal and beyond
    n is scratch.
    """
    for first in range(uint64(0), n, STRIDE):
        if first:
            subtract_outer(matrix, first, width)
            subtract_outer(matrix, first + _4, width)
        for j in range(first, min(first + STRIDE, n)):
            row = matrix[j]
            for b in range(first, width, STRIDE):
                left = load(row, b)
                for i in range(first, j):
                    left = add_times(left, -matrix[i, j], load(matrix[i], b))
                store(row, b, left)
            scale = 1.0 / math.sqrt(row[j])
            for b in range(first, width, STRIDE):
                store(row, b, times(scale, load(row, b)))


@jit
def solve_positive(matrix, vector, n, width):
    """Overwrite `vector` with the solution of ``matrix x = vector``, and the matrix's upper half with its factor.

    Sizes as in `factor`; the vector has zeros beyond n.
    """
    factor(matrix, n, width)
    for j in range(n):  # forward: the factor's transpose
        row = matrix[j]
        x = vector[j] / row[j]
        vector[j] = x
        after = j - j % STRIDE + STRIDE
        for b in range(j + _1, after):
            vector[b] -= x * row[b]
        for b in range(after, width, STRIDE):
            store(vector, b, add_times(load(vector, b), -x, load(row, b)))
    for k in range(n):
        j = n - _1 - k
        row, sums = matrix[j], zeros(vector)
        after = j - j % STRIDE + STRIDE
        for b in range(after, width, STRIDE):
            sums = add(sums, load(row, b), load(vector, b))
        found = vector[j] - total(sums)
        for b in range(j + _1, min(after, n)):
            found -= row[b] * vector[b]
        vector[j] = found / row[j]
