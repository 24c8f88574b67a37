"""Solver for rows with few entries: a system with one unknown per entry, by the Woodbury identity.

The solution of ``(B + G.T G) x = rhs``, where ``sqrt(curvature) f`` are the rows of G, is ``x = B**-1 (rhs - G.T y)``
with ``(I + G B**-1 G.T) y = G B**-1 rhs``. It needs a B that is easy to invert. Without a shared quadratic, B is the
diagonal of the prior and the design's variances. With one, B is the row's multiplier times S plus the prior, whose LDL
factor is made once per half sweep (`SharedQuadratic.prepared`). The full solver is used for all other rows, and for
those with a penalty.
"""

import math

from numba import float64, uint64

from .jit import part
from .lanes import STRIDE, accumulate, add, add_times, load, store, times, total, widen, zeros
from .ldl import substitute


@part
def is_available(shared, factored, penalty):
    """Whether rows with these parts can be solved through their entries."""
    if penalty is not None:
        return False
    return shared is None or factored is not None


@part
def to_entries(factored, multiplier, columns, narrow, work):
    """Write the system of a row with entries in `columns`; zeros up to `narrow`.

    B is diagonal if `factored` is None, else `multiplier` times a factored matrix.
    """
    rhs, solution, inverse = work.rhs, work.solution, work.inverse_diagonal
    factors, scaled, curvature, shrunk = work.factors, work.scaled, work.curvature, work.shrunk
    matrix, vector = work.matrix, work.vector
    n, width = uint64(columns.size), uint64(rhs.size)
    if factored is None:
        for a in range(width):
            inverse[a] = 1.0 / work.diagonal[a]
            solution[a] = inverse[a] * rhs[a]
    else:
        solved = factored.solved
        for a in range(width):
            solution[a] = rhs[a] / multiplier
        substitute(factored.factor, solution, width, width)
    for i in range(n):
        root = math.sqrt(max(float64(curvature[i]), 0.0))
        for a in range(uint64(0), width, STRIDE):
            store(scaled[i], a, times(root, load(factors[i], a)))
    for i in range(n):
        g, row, sums = scaled[i], matrix[i], zeros(solution)
        for a in range(uint64(0), width, STRIDE):
            sums = add(sums, widen(load(g, a)), load(solution, a))
        if factored is None:
            for a in range(width):
                shrunk[a] = g[a] * inverse[a]
            for j in range(i, n):
                row[j] = dot(shrunk, scaled[j])
        else:
            for j in range(i, n):
                root = math.sqrt(max(float64(curvature[j]), 0.0))
                row[j] = dot(g, solved[columns[j]]) * root / multiplier
        for j in range(n, narrow):
            row[j] = 0.0
        row[i] += 1.0
        vector[i] = total(sums)
    for j in range(n, narrow):
        vector[j] = 0.0


@part
def dot(one, other):
    """Inner product of two vectors whose length is a multiple of eight."""
    sums = zeros(one)
    for a in range(uint64(0), uint64(one.size), STRIDE):
        sums = add(sums, load(one, a), load(other, a))
    return total(sums)


@part
def from_entries(n, work):
    """Write the row's solution from that of `to_entries` with a diagonal B; add the entries' terms to the diagonal."""
    scaled, vector, solution = work.scaled, work.vector, work.solution
    inverse, diagonal = work.inverse_diagonal, work.diagonal
    for a in range(uint64(0), uint64(solution.size), STRIDE):
        left, squares = zeros(solution), zeros(scaled)
        for i in range(n):
            g = load(scaled[i], a)
            left, squares = add_times(left, vector[i], widen(g)), add(squares, g, g)
        store(solution, a, add(load(solution, a), times(-1.0, left), load(inverse, a)))
        accumulate(diagonal, a, squares)


@part
def from_entries_factored(factored, multiplier, columns, work):
    """Write the row's solution from that of `to_entries` with a factored B; add the entries' terms to the diagonal."""
    solved, scaled, curvature = factored.solved, work.scaled, work.curvature
    vector, solution, diagonal = work.vector, work.solution, work.diagonal
    for i in range(uint64(columns.size)):
        g, f = scaled[i], solved[columns[i]]
        step = vector[i] * math.sqrt(max(float64(curvature[i]), 0.0)) / multiplier
        for a in range(uint64(solution.size)):
            solution[a] -= step * f[a]
            diagonal[a] += g[a] * g[a]
