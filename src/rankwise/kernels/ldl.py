"""LDL factorization of small positive definite matrices, and solves with it, eight columns at a time."""

import numpy as np
from numba import uint64

from .jit import called, jit, part
from .lanes import STRIDE, accumulate, add, add_times, load, store, total, zeros

_1, _2, _3, _4 = (uint64(k) for k in range(1, 5))


@part
def subtract_outer(matrix, first, width):
    """Subtract from rows `first` to first + 3 the outer products of all finished rows of earlier blocks of eight."""
    begin = first - first % STRIDE
    for b in range(begin, width, STRIDE):
        c0, c1, c2, c3 = zeros(matrix), zeros(matrix), zeros(matrix), zeros(matrix)
        for k in range(begin):
            row, right = matrix[k], load(matrix[k], b)
            less = -row[k]
            c0, c1 = add_times(c0, less * row[first], right), add_times(c1, less * row[first + _1], right)
            c2, c3 = add_times(c2, less * row[first + _2], right), add_times(c3, less * row[first + _3], right)
        accumulate(matrix[first], b, c0)
        accumulate(matrix[first + _1], b, c1)
        accumulate(matrix[first + _2], b, c2)
        accumulate(matrix[first + _3], b, c3)


@part
def factor(matrix, n, width):
    """Overwrite the upper half of the first n rows with R, where ``R.T diag(1 / R[j, j]) R = matrix``.

    The diagonal is overwritten with the inverse of R's, or with NaN where it is not positive. The matrix must have
    `width` rows and columns, a multiple of eight, all finite; the lower half and everything beyond n is scratch.
    """
    for first in range(uint64(0), n, STRIDE):
        if first:
            subtract_outer(matrix, first, width)
            subtract_outer(matrix, first + _4, width)
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
