"""One side's factors given the other's: a small convex problem per row, by one Newton step that never goes uphill."""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import float64, uint64

from .expected import expected_at
from .jit import jit, part

TILE = 256  # entries whose products are added up in the factors' own number type before they join a float64 sum
HALVINGS = 12


class Given(NamedTuple):
    """The other side as this one sees it: ``prediction = base[j] + factors[j] @ row``."""

    factors: Any  # (n_cols, d); a column of ones for this side's offset
    variances: Any  # (n_cols, d)
    base: Any  # (n_cols,)
    base_variances: Any  # (n_cols,)


class Work(NamedTuple):
    """Scratch for one row; `vector` and `diagonal` carry answers."""

    pull: Any  # (TILE,)
    bend: Any  # (TILE,)
    tile: Any  # (d, d), in the factors' number type
    matrix: Any  # (d + 1, d + 1)
    few: Any  # (d, d)
    vector: Any  # (d,)
    diagonal: Any  # (d,)
    shrink: Any  # (d,)


class Prior(NamedTuple):
    """What is thought of a row before its entries are seen."""

    means: Any  # (n_rows, d)
    precisions: Any  # (d,)
    counts: Any  # (n_rows,): factor of each row's precisions


@part
def parabolas(loss, indices, targets, weights, given, mean, variance, lo, hi, scale, pull, bend):
    """Expected loss of a row's entries lo to hi; write each one's parabola, times `scale`: its pull and its bend."""
    total = 0.0
    for k in range(lo, hi):
        j = indices[k]
        f, v = given.factors[j], given.variances[j]
        linear, spread = given.base[j] * 0, given.base_variances[j]
        for a in range(mean.size):
            linear += f[a] * mean[a]
            spread += mean[a] * mean[a] * v[a] + variance[a] * (f[a] * f[a] + v[a])
        w = 1.0 if weights is None else float64(weights[k])
        x = float64(linear) + float64(given.base[j])
        value, slope, weight = expected_at(loss, x, float64(spread), float64(targets[k]))
        total += w * value
        bend[k - lo] = scale * w * weight
        pull[k - lo] = scale * w * (weight * linear - slope)
    return total


@jit
def add_squares(indices, given, lo, hi, bend, tile, matrix):
    """Add ``bend f f.T`` to `matrix`, four entries at a time."""
    d = tile.shape[0]
    tile[:] = 0
    k = lo
    while k + uint64(4) <= hi:
        i = k - lo
        f0, f1 = given.factors[indices[k]], given.factors[indices[k + uint64(1)]]
        f2, f3 = given.factors[indices[k + uint64(2)]], given.factors[indices[k + uint64(3)]]
        b0, b1, b2, b3 = bend[i], bend[i + uint64(1)], bend[i + uint64(2)], bend[i + uint64(3)]
        for a in range(d):
            c0, c1, c2, c3 = b0 * f0[a], b1 * f1[a], b2 * f2[a], b3 * f3[a]
            row = tile[a]
            for b in range(d):
                row[b] += c0 * f0[b] + c1 * f1[b] + c2 * f2[b] + c3 * f3[b]
        k += uint64(4)
    while k < hi:
        f = given.factors[indices[k]]
        for a in range(d):
            c = bend[k - lo] * f[a]
            row = tile[a]
            for b in range(d):
                row[b] += c * f[b]
        k += uint64(1)
    for a in range(d):
        for b in range(d):
            matrix[a, b] += tile[a, b]


@jit
def add_vectors(indices, given, lo, hi, pull, bend, vector, diagonal):
    """Add ``pull f`` to `vector` and ``bend v`` to `diagonal`."""
    for k in range(lo, hi):
        f, v = given.factors[indices[k]], given.variances[indices[k]]
        p, b = float64(pull[k - lo]), float64(bend[k - lo])
        for a in range(vector.size):
            vector[a] += p * f[a]
            diagonal[a] += b * v[a]


@jit
def solve_positive(matrix, vector):
    """Overwrite `vector` with the solution of ``matrix x = vector``, and the positive definite matrix's upper half."""
    d = vector.size
    for j in range(d):
        row = matrix[j]
        scale = 1.0 / math.sqrt(row[j])
        for b in range(j, d):
            row[b] *= scale
        for a in range(j + 1, d):
            c, below = row[a], matrix[a]
            for b in range(a, d):
                below[b] -= c * row[b]
    for j in range(d):  # forward: the factor's transpose
        x = vector[j] / matrix[j, j]
        vector[j] = x
        for b in range(j + 1, d):
            vector[b] -= x * matrix[j, b]
    for j in range(d - 1, -1, -1):
        total = vector[j]
        for b in range(j + 1, d):
            total -= matrix[j, b] * vector[b]
        vector[j] = total / matrix[j, j]


@jit
def solve_few(indices, given, lo, hi, bend, diagonal, shrink, rows, matrix, vector):
    """The same solution for a row with few entries, through a system with one unknown per entry.

    ``(diag(diagonal) + sum bend f f.T) x = vector``; `shrink`, `rows` and `matrix` are scratch. On return `vector` is
    x, and `diagonal` that of the whole matrix. By the identity of Woodbury, with ``g = sqrt(bend / diagonal) f``.
    """
    n, d = hi - lo, vector.size
    right = matrix[n]
    for a in range(d):
        shrink[a] = 1.0 / math.sqrt(diagonal[a])
        vector[a] *= shrink[a]
    for i in range(n):
        f, root = given.factors[indices[lo + i]], math.sqrt(max(float64(bend[i]), 0.0))
        g = rows[i]
        for a in range(d):
            g[a] = root * f[a] * shrink[a]
    for i in range(n):
        g = rows[i]
        total = 0.0
        for a in range(d):
            total += g[a] * vector[a]
        right[i] = total
        for j in range(i, n):
            h = rows[j]
            total = 0.0
            for a in range(d):
                total += g[a] * h[a]
            matrix[i, j] = total
        matrix[i, i] += 1.0
    solve_positive(matrix[:n, :n], right[:n])
    for i in range(n):
        g = rows[i]
        for a in range(d):
            vector[a] -= g[a] * right[i]
            diagonal[a] += g[a] * g[a] / (shrink[a] * shrink[a])
    for a in range(d):
        vector[a] *= shrink[a]


@jit
def half_logs(variance):
    """Half the sum of the logarithms; four variances share one, as their product is far from under- and overflow."""
    total, product = 0.0, 1.0
    for a in range(variance.size):
        product *= float64(variance[a])
        if a % 4 == 3:
            total += math.log(product) if product > 0.0 else -np.inf
            product = 1.0
    return 0.5 * (total + (math.log(product) if product > 0.0 else -np.inf))


@jit
def penalty(mean, variance, around, precisions):
    """Half the expected squared distance from the prior's mean, in units of its spread."""
    total = 0.0
    for a in range(mean.size):
        off = float64(mean[a]) - around[a]
        total += 0.5 * precisions[a] * (off * off + variance[a])
    return total


@part
def row_loss(loss, indices, targets, weights, given, mean, variance, first, last, work):
    """Expected loss of one row."""
    total, lo = 0.0, first
    while lo < last:
        hi = min(lo + uint64(TILE), last)
        total += parabolas(loss, indices, targets, weights, given, mean, variance, lo, hi, 1.0, work.pull, work.bend)
        lo = hi
    return total


@part
def newton(loss, indices, targets, weights, given, mean, variance, first, last, scale, work):
    """Minimum of a row's parabolas and prior, which `work` has in its vector and diagonal, into the vector.

    The diagonal becomes that of the whole system. Returns the expected loss and the bends at the present row.
    """
    vector, diagonal, d = work.vector, work.diagonal, uint64(work.vector.size)
    few = last - first <= d // uint64(2)
    total, bends, lo = 0.0, 0.0, first
    matrix = work.matrix[:d, :d]
    if not few:
        matrix[:] = 0.0
    while lo < last:
        hi = min(lo + uint64(TILE), last)
        total += parabolas(loss, indices, targets, weights, given, mean, variance, lo, hi, scale, work.pull, work.bend)
        add_vectors(indices, given, lo, hi, work.pull, work.bend, vector, diagonal)
        if not few:
            add_squares(indices, given, lo, hi, work.bend, work.tile, matrix)
        for k in range(hi - lo):
            bends += work.bend[k]
        lo = hi
    if few:
        solve_few(indices, given, first, last, work.bend, diagonal, work.shrink, work.few, work.matrix, vector)
    else:
        for a in range(d):
            matrix[a, a] += diagonal[a]
            diagonal[a] = matrix[a, a]
        solve_positive(matrix, vector)
    return total, bends


@jit
def expected_loss(loss, indptr, indices, targets, weights, given, means, variances):
    """Sum of the expected losses."""
    work = workspace(means)
    total = 0.0
    for i in range(uint64(indptr.size - 1)):
        rows = indptr[i], indptr[i + uint64(1)]
        total += row_loss(loss, indices, targets, weights, given, means[i], variances[i], rows[0], rows[1], work)
    return total


@jit
def workspace(means):
    """Scratch for rows like these."""
    d = means.shape[1]
    pull, bend, tile = np.empty(TILE, means.dtype), np.empty(TILE, means.dtype), np.empty((d, d), means.dtype)
    return Work(pull, bend, tile, np.empty((d + 1, d + 1)), np.empty((d, d)), np.empty(d), np.empty(d), np.empty(d))


@jit
def solve_rows(loss, indptr, indices, targets, weights, given, prior, scale, learned, means, variances):
    """Improve each row's mean, and variance if they are learned, in place.

    Returns the expected loss, the number of halvings, half the sum of the log variances, and the sum of the bends.
    Minimises ``scale * expected loss + penalty`` through its parabola at the present row. Where that is Newton's, the
    step is halved until the row's objective does not rise, and given up if it never does.
    """
    d = means.shape[1]
    work = workspace(means)
    mean, variance = np.empty(d, means.dtype), np.empty(d, means.dtype)
    total = halvings = logs = bends = 0.0
    slack = 1e-6 if means.itemsize == 4 else 1e-12  # rounding
    for i in range(uint64(indptr.size - 1)):
        first, last = indptr[i], indptr[i + uint64(1)]
        old_mean, old_variance, around, count = means[i], variances[i], prior.means[i], float64(prior.counts[i])
        for a in range(d):
            work.diagonal[a] = count * prior.precisions[a]
            work.vector[a] = work.diagonal[a] * around[a]
        found, bent = newton(loss, indices, targets, weights, given, old_mean, old_variance, first, last, scale, work)
        limit = scale * found + count * penalty(old_mean, old_variance, around, prior.precisions)
        limit -= half_logs(old_variance) if learned else 0.0
        bends += bent / scale
        share = 1.0
        for _ in range(HALVINGS):
            for a in range(d):
                mean[a] = old_mean[a] + share * (work.vector[a] - old_mean[a])
                if learned:
                    variance[a] = old_variance[a] + share * (1.0 / work.diagonal[a] - old_variance[a])
                else:
                    variance[a] = 0.0
            after = row_loss(loss, indices, targets, weights, given, mean, variance, first, last, work)
            log = half_logs(variance) if learned else 0.0
            value = scale * after + count * penalty(mean, variance, around, prior.precisions) - log
            if value <= limit + slack * abs(limit):
                old_mean[:] = mean
                old_variance[:] = variance
                found = after
                break
            share *= 0.5
            halvings += 1.0
        total += found
        logs += half_logs(old_variance) if learned else 0.0
    return total, halvings, logs, bends
