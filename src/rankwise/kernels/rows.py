"""One side's factors given the other's: a small convex problem per row, by one Newton step that never goes uphill."""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import float64, uint64

from .expected import expected_at
from .jit import inner, jit, part
from .lanes import LANES, accumulate, add, add_times, load, product, store, times, total, widen, zeros
from .positive import solve_positive

TILE = 64  # entries whose products are added up in the factors' own number type before they join a float64 sum
HALVINGS = 12
LN2 = math.log(2.0)
STRIDE = uint64(LANES)
_1, _2, _3, _4, _5, _6, _7 = (uint64(k) for k in range(1, 8))


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


class Work(NamedTuple):
    """Scratch for one row and one tile of its entries; `best` and `diagonal` carry answers."""

    mean: Any  # (width,), in the factors' number type, as are those down to `scaled`
    variance: Any  # (width,)
    square: Any  # (width,): the row's expected squares
    shrunk: Any  # (width,)
    linear: Any  # (TILE,): factors @ mean
    level: Any  # (TILE,): base
    noise: Any  # (TILE,): variance of the base
    spread: Any  # (TILE,): variance of the prediction
    target: Any  # (TILE,)
    weight: Any  # (TILE,): zero beyond the entries there are
    pull: Any  # (TILE,)
    bend: Any  # (TILE,)
    tile: Any  # (TILE, width): factors
    unsure: Any  # (TILE, width): their variances
    scaled: Any  # (TILE, width): factors times bend, or its root
    matrix: Any  # (width, width)
    asked: Any  # (width,): right side of the row's system
    diagonal: Any  # (width,): of its matrix
    best: Any  # (width,): its solution
    shrink: Any  # (width,)
    right: Any  # (width,): of the system that is solved for it


@inner
def workspace(given):
    """Scratch for rows like these."""
    kind, width = given.factors.dtype, given.factors.shape[1]
    a, b, c = np.zeros((4, width), kind), np.zeros((8, TILE), kind), np.zeros((5, width))
    c[1] = 1.0  # the diagonal, also where there are no components
    return Work(
        *(a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]),
        *(np.zeros((TILE, width), kind), np.zeros((TILE, width), kind), np.zeros((TILE, width), kind)),
        *(np.zeros((width, width)), c[0], c[1], c[2], c[3], c[4]),
    )


@part
def filled(n):
    """Entries that formulas are applied to: whole registers of float64, as what is left over would not vectorise."""
    return (n + _3) // _4 * _4


@part
def hold(mean, variance, work):
    """Take the row whose predictions are looked at."""
    held, unsure, square = work.mean, work.variance, work.square
    for a in range(uint64(mean.size)):
        m, v = mean[a], variance[a]
        held[a], unsure[a], square[a] = m, v, m * m + v


@part
def collect(indices, targets, weights, given, lo, n, work):
    """Copy entries lo to lo + n and what is given of them, and fill up with some that weigh nothing."""
    factors, variances, base, noise = given
    tile, unsure, levels, noises = work.tile, work.unsure, work.level, work.noise
    target, weight = work.target, work.weight
    for k in range(n):
        target[k] = targets[lo + k]
        weight[k] = 1.0 if weights is None else weights[lo + k]
    for k in range(n, filled(n)):
        target[k], weight[k] = target[0], 0.0
    for k in range(n):
        j = indices[lo + k]
        for a in range(uint64(0), uint64(tile.shape[1]), STRIDE):
            store(tile[k], a, load(factors[j], a))
            store(unsure[k], a, load(variances[j], a))
        levels[k], noises[k] = base[j], noise[j]


@part
def predict(n, work):
    """Predict at the entries collected with the row that is held."""
    tile, unsure, mean, variance, square = work.tile, work.unsure, work.mean, work.variance, work.square
    linears, spreads, noise, levels = work.linear, work.spread, work.noise, work.level
    for k in range(n):
        linear, spread = zeros(mean), zeros(mean)
        for a in range(uint64(0), uint64(mean.size), STRIDE):
            x = load(tile[k], a)
            linear = add(linear, x, load(mean, a))
            spread = add(spread, product(x, x), load(variance, a))
            spread = add(spread, load(unsure[k], a), load(square, a))
        linears[k] = total(linear)
        spreads[k] = total(spread) + noise[k]
    for k in range(n, filled(n)):  # as at the first entry: all is finite there if it is anywhere
        linears[k], spreads[k], levels[k] = linears[0], spreads[0], levels[0]


@part
def values(loss, n, work):
    """Expected loss of the entries looked at."""
    found, linears, levels, spreads = 0.0, work.linear, work.level, work.spread
    targets, weights = work.target, work.weight
    for k in range(filled(n)):
        x = float64(linears[k]) + float64(levels[k])
        value, _, _ = expected_at(loss, x, float64(spreads[k]), float64(targets[k]))
        found += float64(weights[k]) * value
    return found


@part
def parabolas(loss, n, scale, work):
    """The same; write each one's parabola, times `scale`: its pull and its bend.

    Beside the expected loss, returns what the parabolas have at a row of zeros that is certain, and the bends' sum.
    """
    found, rest, bent, linears, levels, spreads = 0.0, 0.0, 0.0, work.linear, work.level, work.spread
    targets, weights, bends, pulls, noises = work.target, work.weight, work.bend, work.pull, work.noise
    for k in range(filled(n)):
        linear, spread, w = float64(linears[k]), float64(spreads[k]), float64(weights[k])
        x = linear + float64(levels[k])
        value, slope, weight = expected_at(loss, x, spread, float64(targets[k]))
        found += w * value
        rest += w * (value - slope * linear + 0.5 * weight * (linear * linear - spread + float64(noises[k])))
        bent += w * weight
        bends[k] = scale * w * weight
        pulls[k] = scale * w * (weight * linear - slope)
    return found, rest, bent


@part
def add_vectors(n, work):
    """Add ``pull f`` to what is asked and ``bend v`` to the diagonal."""
    tile, unsure, pull, bend = work.tile, work.unsure, work.pull, work.bend
    asked, diagonal = work.asked, work.diagonal
    for a in range(uint64(0), uint64(asked.size), STRIDE):
        pulled, bent = zeros(tile), zeros(tile)
        for k in range(n):
            pulled = add_times(pulled, pull[k], load(tile[k], a))
            bent = add_times(bent, bend[k], load(unsure[k], a))
        accumulate(asked, a, pulled)
        accumulate(diagonal, a, bent)


@part
def add_squares(n, work):
    """Add ``bend f f.T`` to the matrix's upper half, in blocks of eight by eight that stay in registers."""
    tile, scaled, bend, matrix, width = work.tile, work.scaled, work.bend, work.matrix, uint64(work.mean.size)
    for k in range(n):
        for a in range(uint64(0), width, STRIDE):
            store(scaled[k], a, times(bend[k], load(tile[k], a)))
    for a in range(uint64(0), width, STRIDE):
        for b in range(a, width, STRIDE):
            c0, c1, c2, c3 = zeros(tile), zeros(tile), zeros(tile), zeros(tile)
            c4, c5, c6, c7 = zeros(tile), zeros(tile), zeros(tile), zeros(tile)
            for k in range(n):
                f, s = load(tile[k], b), scaled[k]
                c0, c1 = add_times(c0, s[a], f), add_times(c1, s[a + _1], f)
                c2, c3 = add_times(c2, s[a + _2], f), add_times(c3, s[a + _3], f)
                c4, c5 = add_times(c4, s[a + _4], f), add_times(c5, s[a + _5], f)
                c6, c7 = add_times(c6, s[a + _6], f), add_times(c7, s[a + _7], f)
            accumulate(matrix[a], b, c0)
            accumulate(matrix[a + _1], b, c1)
            accumulate(matrix[a + _2], b, c2)
            accumulate(matrix[a + _3], b, c3)
            accumulate(matrix[a + _4], b, c4)
            accumulate(matrix[a + _5], b, c5)
            accumulate(matrix[a + _6], b, c6)
            accumulate(matrix[a + _7], b, c7)


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
def to_entries(n, work):
    """The system of a row with few entries, those looked at, as one with an unknown per entry.

    By the identity of Woodbury: ``(D + G.T G) x = asked``, with ``sqrt(bend) f`` as rows of G and the diagonal D, is
    solved by ``D x = asked - G.T y``, where ``(I + G D**-1 G.T) y = G D**-1 asked``.
    """
    asked, diagonal, best, shrink, right = work.asked, work.diagonal, work.best, work.shrink, work.right
    tile, scaled, bend, shrunk, matrix = work.tile, work.scaled, work.bend, work.shrunk, work.matrix
    width, narrow = uint64(asked.size), (n + STRIDE - _1) // STRIDE * STRIDE
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
    asked, diagonal, best, matrix, right = work.asked, work.diagonal, work.best, work.matrix, work.right
    found = halvings = logs = bends = 0.0
    slack = 1e-6 if means.itemsize == 4 else 1e-12  # rounding
    for i in range(uint64(indptr.size - 1)):
        first, last = indptr[i], indptr[i + _1]
        short, few = last - first <= uint64(TILE), last - first <= min(uint64(TILE), d // _2)
        mean, variance, around, count = means[i], variances[i], prior.means[i], float64(prior.counts[i])
        for a in range(d):
            diagonal[a] = count * precisions[a]
            asked[a] = diagonal[a] * around[a]
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
                size = last - first if few else d
                if few:
                    to_entries(size, work)
                else:
                    add_diagonal(d, work)
                solve_positive(matrix, right, size, (size + STRIDE - _1) // STRIDE * STRIDE)
                if few:
                    from_entries(size, work)
                else:
                    for a in range(d):
                        best[a] = right[a]
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
