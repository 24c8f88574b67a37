"""One side's factors given the other's: a small convex problem per row, by one Newton step that never goes uphill."""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import float64, uint64

from .jit import jit, part
from .lanes import accumulate, add, add_times, load, store, times, total, widen, zeros
from .ldl import solve_positive
from .tiles import STRIDE, TILE, add_squares, add_vectors, collect, hold, parabolas, predict, values, workspace

HALVINGS = 12
LN2 = math.log(2.0)
_1, _2 = uint64(1), uint64(2)


class Given(NamedTuple):
    """The other side as this one sees it: ``prediction = base[j] + factors[j] @ row``."""

    factors: Any  # (n_cols, width); a column of ones for this side's offset, then zeros up to a multiple of eight
    variances: Any  # (n_cols, width)
    base: Any  # (n_cols,)
    base_variances: Any  # (n_cols,)


class Prior(NamedTuple):
    """What is thought of a row before its entries are seen."""

    means: Any  # (n_rows, d)
    precisions: Any  # (d,)
    counts: Any  # (n_rows,): factor of each row's precisions


class Task(NamedTuple):
    """What is minimised: ``scale * expected loss + penalty``."""

    scale: float
    learned: bool  # whether variances are


@part
def begin(count, precisions, around, work):
    """What the prior asks of a row, and its part of the diagonal."""
    asked, diagonal = work.asked, work.diagonal
    for a in range(uint64(precisions.size)):
        diagonal[a] = count * precisions[a]
        asked[a] = diagonal[a] * around[a]


@part
def add_diagonal(d, work):
    """Make the matrix whole, and the diagonal the matrix's own."""
    matrix, diagonal, asked, right = work.matrix, work.diagonal, work.asked, work.right
    for a in range(d):
        matrix[a, a] += diagonal[a]
        diagonal[a] = matrix[a, a]
    for a in range(uint64(asked.size)):
        right[a] = asked[a]


@part
def to_entries(n, narrow, work):
    """The system of a row with few entries, those looked at, as one with an unknown per entry.

    By the identity of Woodbury: ``(D + G.T G) x = asked``, with ``sqrt(bend) f`` as rows of G and the diagonal D, is
    solved by ``D x = asked - G.T y``, where ``(I + G D**-1 G.T) y = G D**-1 asked``. Zeros go up to `narrow`.
    """
    asked, diagonal, best, shrink, right = work.asked, work.diagonal, work.best, work.shrink, work.right
    tile, scaled, bend, shrunk, matrix = work.tile, work.scaled, work.bend, work.shrunk, work.matrix
    width = uint64(asked.size)
    for a in range(width):
        shrink[a] = 1.0 / diagonal[a]
        best[a] = shrink[a] * asked[a]
    for i in range(n):
        root = math.sqrt(max(float64(bend[i]), 0.0))
        for a in range(uint64(0), width, STRIDE):
            store(scaled[i], a, times(root, load(tile[i], a)))
    for i in range(n):
        g, row, sums = scaled[i], matrix[i], zeros(best)
        for a in range(uint64(0), width, STRIDE):
            sums = add(sums, widen(load(g, a)), load(best, a))
        for a in range(width):
            shrunk[a] = g[a] * shrink[a]
        for j in range(i, n):
            row[j] = dot(shrunk, scaled[j])
        for j in range(n, narrow):
            row[j] = 0.0
        row[i] += 1.0
        right[i] = total(sums)
    for j in range(n, narrow):
        right[j] = 0.0


@part
def from_entries(n, work):
    """The row's solution from that of `to_entries`; the diagonal becomes that of the row's whole matrix."""
    scaled, right, best, shrink, diagonal = work.scaled, work.right, work.best, work.shrink, work.diagonal
    for a in range(uint64(0), uint64(best.size), STRIDE):
        left, squares = zeros(best), zeros(scaled)
        for i in range(n):
            g = load(scaled[i], a)
            left, squares = add_times(left, right[i], widen(g)), add(squares, g, g)
        store(best, a, add(load(best, a), times(-1.0, left), load(shrink, a)))
        accumulate(diagonal, a, squares)


@part
def from_components(d, work):
    """The row's solution from that of `add_diagonal`."""
    right, best = work.right, work.best
    for a in range(d):
        best[a] = right[a]


@part
def dot(one, other):
    """Inner product of two vectors whose length is a multiple of eight."""
    sums = zeros(one)
    for a in range(uint64(0), uint64(one.size), STRIDE):
        sums = add(sums, load(one, a), load(other, a))
    return total(sums)


@part
def half_logs(variance):
    """Half the sum of the logarithms: of the numbers' exponents, and of the product of what is left of them."""
    power, left = 0, 1.0
    for a in range(uint64(variance.size)):
        bits = np.float64(variance[a]).view(np.int64)
        power += (bits >> 52) - 1023
        left *= np.int64((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000).view(np.float64)
    return 0.5 * (math.log(left) + power * LN2)


@part
def penalty(mean, variance, around, precisions):
    """Half the expected squared distance from the prior's mean, in units of its spread."""
    total = 0.0
    for a in range(mean.size):
        off = float64(mean[a]) - around[a]
        total += 0.5 * precisions[a] * (off * off + variance[a])
    return total


@part
def least(around, precisions, count, learned, work):
    """What the minimum that was found adds to the parabolas at a row of zeros."""
    asked, best, diagonal, found = work.asked, work.best, work.diagonal, 0.0
    for a in range(uint64(precisions.size)):
        x, own = best[a], count * precisions[a]
        found += own * x * (around[a] - 0.5 * x) - 0.5 * asked[a] * x
        found += 0.5 * (diagonal[a] - own) / diagonal[a] if learned else 0.0
    return found


@part
def accept(mean, variance, learned, work):
    """Take the minimum that was found, unless the system was singular."""
    best, diagonal, wrong = work.best, work.diagonal, 0.0
    for a in range(uint64(mean.size)):  # zero times what is not finite is not zero; no way out, so that it vectorises
        wrong += 0.0 * best[a] + (0.0 if diagonal[a] > 0.0 else 1.0)
    if not wrong == 0.0:
        return False
    for a in range(uint64(mean.size)):
        mean[a] = best[a]
        variance[a] = (1.0 / diagonal[a]) if learned else 0.0
    return True


@part
def approach(share, mean, variance, trial, learned, work):
    """Go this share of the way to the minimum, for a trial, and hold that row."""
    best, diagonal = work.best, work.diagonal
    for a in range(uint64(mean.size)):
        trial[0, a] = mean[a] + share * (best[a] - mean[a])
        trial[1, a] = variance[a] + share * (1.0 / diagonal[a] - variance[a]) if learned else 0.0
    hold(trial[0], trial[1], work)


@jit
def expected_loss(loss, indptr, indices, targets, weights, given, means, variances):
    """Sum of the expected losses."""
    work = workspace(given)
    found = 0.0
    for i in range(uint64(indptr.size - 1)):
        hold(means[i], variances[i], work)
        lo, last = indptr[i], indptr[i + _1]
        while lo < last:
            n = min(uint64(TILE), last - lo)
            collect(indices, targets, weights, given, lo, n, work)
            predict(n, work)
            found += values(loss, n, work)
            lo += n
    return found


@jit
def solve_rows(loss, indptr, indices, targets, weights, given, prior, task, trial, means, variances):
    """Improve each row's mean, and variance if they are learned, in place.

    Returns the expected loss of the improved rows, the number of halvings, half the sum of the log variances, and the
    sum of the bends. Each row's parabola is minimised. Where it lies above the expected loss, that cannot raise it;
    then `trial` is None, and the expected loss returned is the parabolas'. Where it is Newton's, the step is halved
    until the row's objective does not rise, and given up if it never does; `trial` is scratch of shape (2, d) for that.
    """
    (scale, learned), d, precisions = task, uint64(means.shape[1]), prior.precisions
    work = workspace(given)
    matrix, right = work.matrix, work.right
    found = halvings = logs = bends = 0.0
    slack = 1e-6 if means.itemsize == 4 else 1e-12  # rounding
    for i in range(uint64(indptr.size - 1)):
        first, last = indptr[i], indptr[i + _1]
        short, few = last - first <= uint64(TILE), last - first <= min(uint64(TILE), d // _2)
        mean, variance, around, count = means[i], variances[i], prior.means[i], float64(prior.counts[i])
        begin(count, precisions, around, work)
        hold(mean, variance, work)
        if not few:
            matrix[:] = 0.0
        log = limit = before = 0.0
        share = 1.0
        for visit in range(HALVINGS + 1):  # the first where the row is, the others where it may go
            here, rest, lo = 0.0, 0.0, first
            while lo < last:
                n = min(uint64(TILE), last - lo)
                if visit == 0 or not short:
                    collect(indices, targets, weights, given, lo, n, work)
                predict(n, work)
                value, left, bent = parabolas(loss, n, scale, work)
                here, rest = here + value, rest + left
                if visit == 0:
                    bends += bent
                    add_vectors(n, work)
                    if not few:
                        add_squares(n, work)
                lo += n
            if visit == 0:
                n = last - first if few else d
                narrow = (n + STRIDE - _1) // STRIDE * STRIDE
                if few:
                    to_entries(n, narrow, work)
                else:
                    add_diagonal(d, work)
                solve_positive(matrix, right, n, narrow)
                if few:
                    from_entries(n, work)
                else:
                    from_components(d, work)
                before = here
                if trial is None:
                    if accept(mean, variance, learned, work):
                        before = rest + least(around, precisions, count, learned, work) / scale
                log = half_logs(variance) if learned else 0.0
                if trial is None:
                    break
                limit = scale * before + count * penalty(mean, variance, around, precisions) - log
                limit += slack * abs(limit)
            elif trial is not None:
                new_log = half_logs(trial[1]) if learned else 0.0
                if scale * here + count * penalty(trial[0], trial[1], around, precisions) - new_log <= limit:
                    for a in range(d):
                        mean[a], variance[a] = trial[0, a], trial[1, a]
                    before, log = here, new_log
                    break
                share *= 0.5
                halvings += 1.0
            if trial is not None:
                approach(share, mean, variance, trial, learned, work)
        found += before
        logs += log
    return found, halvings, logs, bends
