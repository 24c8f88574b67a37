"""Entries part of a row's problem: predictions, quadratic approximations and their sums, by tiles of entries."""

from typing import NamedTuple

from numba import uint32, uint64

from .._arrays import Array
from .entrywise import weight_at
from .jit import called, part
from .lanes import STRIDE, accumulate, add, add_times, load, product, store, times, total, zeros
from .row_parts import Design
from .tile_losses import at_pointer, padded_count

_1, _2, _3, _4, _5, _6, _7 = (uint64(k) for k in range(1, 8))


class RowEntries(NamedTuple):
    """Observed entries of the rows, as in a CSR matrix, and the design of their predictions."""

    indptr: Array  # (n_rows + 1,)
    indices: Array  # (n_entries,)
    targets: Array  # (n_entries,)
    weights: Array | None  # (n_entries,), or None for ones
    design: Design


@part
def set_row(mean, variance, work):
    """Copy a row's mean and variance to `work`, where `predict` reads them."""
    row_mean, row_variance, second_moment = work.mean, work.variance, work.second_moment
    for a in range(uint64(mean.size)):
        m, v = mean[a], variance[a]
        row_mean[a], row_variance[a], second_moment[a] = m, v, m * m + v


@part
def leave_out(entries, lo, n, absent, i, work):
    """Set the weights of absent entries of row i to zero, in the tile from entry lo to lo + n."""
    keys, indices, weight, limit = entries.design.keys, entries.indices, work.weight, uint32(absent.limit)
    key = uint32(absent.keys[i])
    for k in range(n):
        if uint32(key + keys[indices[lo + k]]) < limit:
            weight[k] = 0.0


@part
def load_tile(entries, lo, n, work):
    """Copy entries lo to lo + n and their rows of the design to `work`; pad with entries of weight zero."""
    _, indices, targets, weights, (factors, variances, base, base_variances, _) = entries
    tile, tile_variances, bases, noises = work.factors, work.factor_variances, work.base, work.base_variance
    target, weight = work.target, work.weight
    for k in range(n):
        target[k] = targets[lo + k]
        weight[k] = weight_at(weights, lo + k)
    for k in range(n, padded_count(n)):
        target[k], weight[k] = target[0], 0.0
    for k in range(n):
        j = indices[lo + k]
        for a in range(uint64(0), uint64(tile.shape[1]), STRIDE):
            store(tile[k], a, load(factors[j], a))
            store(tile_variances[k], a, load(variances[j], a))
        bases[k], noises[k] = base[j], base_variances[j]


@called
def predict(n, work):
    """Write the mean and the variance of the prediction at each entry of the tile."""
    factors, factor_variances = work.factors, work.factor_variances
    mean, variance, second_moment = work.mean, work.variance, work.second_moment
    linears, spreads, noise, bases = work.linear, work.prediction_variance, work.base_variance, work.base
    for k in range(n):
        linear, spread = zeros(mean), zeros(mean)
        for a in range(uint64(0), uint64(mean.size), STRIDE):
            x = load(factors[k], a)
            linear = add(linear, x, load(mean, a))
            spread = add(spread, product(x, x), load(variance, a))
            spread = add(spread, load(factor_variances[k], a), load(second_moment, a))
        linears[k] = total(linear)
        spreads[k] = total(spread) + noise[k]
    for k in range(n, padded_count(n)):
        linears[k], spreads[k], bases[k] = linears[0], spreads[0], bases[0]


@part
def approximate(loss, n, scale, work):
    """Store the quadratic approximations of the tile's entries; return the three sums of `approximate_entries`."""
    sums = work.sums
    at_pointer(loss, work.tile, n, scale, sums)
    return sums[0], sums[1], sums[2]


@called
def add_vectors(n, work):
    """Add each entry's ``rhs_weight * factors`` to the right-hand side, ``curvature * variances`` to the diagonal."""
    factors, factor_variances = work.factors, work.factor_variances
    rhs_weight, curvature, rhs, diagonal = work.rhs_weight, work.curvature, work.rhs, work.diagonal
    for a in range(uint64(0), uint64(rhs.size), STRIDE):
        linear, spread = zeros(factors), zeros(factors)
        for k in range(n):
            linear = add_times(linear, rhs_weight[k], load(factors[k], a))
            spread = add_times(spread, curvature[k], load(factor_variances[k], a))
        accumulate(rhs, a, linear)
        accumulate(diagonal, a, spread)


@called
def add_outer_products(n, work):
    """Add ``curvature f f.T`` to the matrix's upper half, in blocks of eight by eight that stay in registers."""
    tile, scaled, curvature = work.factors, work.scaled, work.curvature
    matrix, width = work.matrix, uint64(work.mean.size)
    for k in range(n):
        for a in range(uint64(0), width, STRIDE):
            store(scaled[k], a, times(curvature[k], load(tile[k], a)))
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
