"""LDL factorization of small positive definite matrices, and solves with it, eight columns at a time."""

import numpy as np
from numba import uint64

from .jit import called, jit, part
from .lanes import STRIDE, accumulate, add, add_times, load, store, times, total, zeros

_1, _2, _3, _4, _5, _6, _7 = (uint64(k) for k in range(1, 8))


@part
def scale_columns(matrix, first):
    """Write columns `first` to first + 7 of each finished row, divided by minus its pivot, left of the diagonal.

    Those of row k begin at ``matrix[first + k % 8, k - k % 8]``, so that they fill the lower half of the eight rows.
    """
    for block in range(uint64(0), first, STRIDE):
        for q in range(STRIDE):
            row = matrix[block + q]
            store(matrix[first + q], block, times(-row[block + q], load(row, first)))


@part
def subtract_outer(matrix, first, width):
    """Subtract the outer products of all finished rows from rows `first` to first + 7, from their diagonal on."""
    scale_columns(matrix, first)
    for b in range(first, width, STRIDE):
        c0, c1, c2, c3 = zeros(matrix), zeros(matrix), zeros(matrix), zeros(matrix)
        c4, c5, c6, c7 = zeros(matrix), zeros(matrix), zeros(matrix), zeros(matrix)
        for block in range(uint64(0), first, STRIDE):
            for q in range(STRIDE):
                right, left = load(matrix[block + q], b), matrix[first + q]
                c0, c1 = add_times(c0, left[block], right), add_times(c1, left[block + _1], right)
                c2, c3 = add_times(c2, left[block + _2], right), add_times(c3, left[block + _3], right)
                c4, c5 = add_times(c4, left[block + _4], right), add_times(c5, left[block + _5], right)
                c6, c7 = add_times(c6, left[block + _6], right), add_times(c7, left[block + _7], right)
        accumulate(matrix[first], b, c0)
        accumulate(matrix[first + _1], b, c1)
        accumulate(matrix[first + _2], b, c2)
        accumulate(matrix[first + _3], b, c3)
        accumulate(matrix[first + _4], b, c4)
        accumulate(matrix[first + _5], b, c5)
        accumulate(matrix[first + _6], b, c6)
        accumulate(matrix[first + _7], b, c7)


@part
def factor(matrix, n, width):
    """Overwrite the upper half of the first n rows with R, where ``R.T diag(1 / R[j, j]) R = matrix``.

    The diagonal is overwritten with the inverse of R's, or with NaN where it is not positive. The matrix must have
    `width` rows and columns, a multiple of eight, all finite; the lower half and everything beyond n is scratch.
    """
    for first in range(uint64(0), n, STRIDE):
        if first:
            subtract_outer(matrix, first, width)
        last = min(first + STRIDE, n)
        for j in range(first, last):
            row = matrix[j]
            inverse = 1.0 / row[j] if row[j] > 0.0 else np.nan
            for i in range(j + _1, last):
                less = -inverse * row[i]
                for b in range(first, width, STRIDE):
                    store(matrix[i], b, add_times(load(matrix[i], b), less, load(row, b)))
            row[j] = inverse


@part
def substitute(matrix, vector, n, width):
    """Overwrite `vector`, with zeros beyond n, with the solution of the system that `factor` has factored."""
    for j in range(n):  # forward: the factor's transpose
        row = matrix[j]
        less = -row[j] * vector[j]
        after = j - j % STRIDE + STRIDE
        for b in range(j + _1, after):
            vector[b] += less * row[b]
        for b in range(after, width, STRIDE):
            store(vector, b, add_times(load(vector, b), less, load(row, b)))
    for k in range(n):
        j = n - _1 - k
        row, sums = matrix[j], zeros(vector)
        after = j - j % STRIDE + STRIDE
        for b in range(after, width, STRIDE):
            sums = add(sums, load(row, b), load(vector, b))
        rest = vector[j] - total(sums)
        for b in range(j + _1, min(after, n)):
            rest -= row[b] * vector[b]
        vector[j] = rest * row[j]


@called
def solve_positive(matrix, vector, n, width):
    """Overwrite `vector` with the solution of ``matrix x = vector``, and the matrix's upper half with its factor.

    Sizes as in `factor`; the vector has zeros beyond n.
    """
    factor(matrix, n, width)
    substitute(matrix, vector, n, width)


@jit
def factor_positive(matrix, n, width):
    """Overwrite the matrix's upper half with its factor, as `factor` does."""
    factor(matrix, n, width)
