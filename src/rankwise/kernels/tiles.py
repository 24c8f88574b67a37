"""One row and a tile of its entries: what is predicted there, each entry's parabola, and the sums over them."""

from typing import Any, NamedTuple

import numpy as np
from numba import float64, uint64

from .expected import expected_at
from .jit import inner, part
from .lanes import LANES, accumulate, add, add_times, load, product, store, times, total, zeros

TILE = 64  # entries whose products are added up in the factors' own number type before they join a float64 sum
STRIDE = uint64(LANES)
_1, _2, _3, _4, _5, _6, _7 = (uint64(k) for k in range(1, 8))


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
    for k in range(n, filled(n)):
        linears[k], spreads[k], levels[k] = linears[0], spreads[0], levels[0]


@part
def values(loss, n, work):
    """Expected loss of the entries looked at."""
    found, linears, levels, spreads = 0.0, work.linear, work.level, work.spread
    targets, weights = work.target, work.weight
    for k in range(filled(n)):
        x = float64(linears[k]) + float64(levels[k])
        value, _, _ = expected_at(loss, x, float64(spreads[k]), float64(targets[k]))
        w = float64(weights[k])
        found += w * value if w > 0.0 else 0.0
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
        found += w * value if w > 0.0 else 0.0  # also where the value is infinite
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
