"""Loops over a CSR pattern: products with a sparse matrix, low-rank matrices at the observed entries, sorting."""

import numpy as np
from numba import float64, uint64

from .entrywise import weight_at
from .jit import borrowing, jit, part
from .lanes import (
    LANES,
    STRIDE,
    accumulate,
    add,
    add_times,
    fetch,
    load,
    pick,
    scatter,
    store,
    times,
    total,
    widen,
    zeros,
)

TWO, THREE, WIDE = (uint64(k * LANES) for k in range(2, 5))  # offsets of a loop over four vectors of lanes
AHEAD = uint64(12)  # pairs by which prefetches run ahead: memory latency over the time of a pair
LINE, FURTHER = uint64(16), uint64(1024)  # entries in a cache line, and by which prefetches of products run ahead


@jit
def rank_one_at(indptr, indices, u, v, out):
    """Write ``u[i] * v[j]`` at every observed (i, j) into `out`, in row order."""
    for i in range(uint64(indptr.size - 1)):
        for k in range(indptr[i], indptr[i + uint64(1)]):
            out[k] = u[i] * v[indices[k]]


@jit
def low_rank_at(indptr, indices, theta, U, V, out):
    """Write ``sum_c theta[c] * U[i, c] * V[j, c]`` at every observed (i, j) into `out`, in row order."""
    left = np.empty(theta.size, dtype=V.dtype)
    for i in range(uint64(indptr.size - 1)):
        for c in range(theta.size):
            left[c] = theta[c] * U[i, c]
        for k in range(indptr[i], indptr[i + uint64(1)]):
            right = V[indices[k]]
            total = 0.0
            for c in range(theta.size):
                total += float64(left[c]) * right[c]
            out[k] = total


@jit
def low_rank_pairs(rows, cols, theta, U, V, out):
    """Write ``sum_c theta[c] * U[rows[k], c] * V[cols[k], c]`` into ``out[k]``.

    Pairs may be in any order, so the hardware cannot predict the rows they need; they are prefetched.
    """
    for k in range(uint64(rows.size)):
        later = min(k + AHEAD, uint64(rows.size - 1))
        for c in range(uint64(0), uint64(theta.size), TWO):
            fetch(U[rows[later]], c)
            fetch(V[cols[later]], c)
        left, right = U[rows[k]], V[cols[k]]
        total = 0.0
        for c in range(theta.size):
            total += theta[c] * left[c] * right[c]
        out[k] = total


@jit
def variance_pairs(rows, cols, row_means, row_variances, col_means, col_variances, out):
    """Write the variance of ``u @ v + a + b`` at pairs into `out`, for independent factors u and v and offsets a and b.

    The last columns of the means and variances belong to the offsets.
    """
    for k in range(rows.size):
        i, j = rows[k], cols[k]
        out[k] = variance_of(row_means[i], row_variances[i], col_means[j], col_variances[j])


@part
def variance_of(m, s, n, t):
    """Return the variance of ``u @ v + a + b``; u and a have means `m` and variances `s`, v and b `n` and `t`."""
    last = m.size - 1
    total = float64(s[last]) + float64(t[last])
    for c in range(last):
        total += m[c] * m[c] * t[c] + s[c] * (n[c] * n[c] + t[c])
    return total


@jit
def offsets_at(indptr, indices, constant, rows, cols, out):
    """Write ``constant + rows[i] + cols[j]`` at every observed (i, j) into `out`, in row order."""
    for i in range(uint64(indptr.size - 1)):
        left = constant + rows[i]
        for k in range(indptr[i], indptr[i + uint64(1)]):
            out[k] = left + cols[indices[k]]


@jit
def gather(indptr, indices, block, rows):
    """Write the sum of ``block[j]`` over the columns j of each row into `rows`; widths are multiples of eight."""
    sums, width = np.empty(block.shape[1]), uint64(block.shape[1])
    for i in range(uint64(indptr.size - 1)):
        first, last, c = indptr[i], indptr[i + uint64(1)], uint64(0)
        while c + WIDE <= width:  # four registers at a time: a row of the block lies in one or two cache lines
            s0, s1, s2, s3 = zeros(sums), zeros(sums), zeros(sums), zeros(sums)
            for k in range(first, last):
                row = block[indices[k]]
                s0 = add_times(s0, 1.0, widen(load(row, c)))
                s1 = add_times(s1, 1.0, widen(load(row, c + STRIDE)))
                s2 = add_times(s2, 1.0, widen(load(row, c + TWO)))
                s3 = add_times(s3, 1.0, widen(load(row, c + THREE)))
            store(sums, c, s0)
            store(sums, c + STRIDE, s1)
            store(sums, c + TWO, s2)
            store(sums, c + THREE, s3)
            c += WIDE
        while c < width:
            total = zeros(sums)
            for k in range(first, last):
                total = add_times(total, 1.0, widen(load(block[indices[k]], c)))
            store(sums, c, total)
            c += STRIDE
        for c in range(width):  # assigning a whole row would compile its error message, for 3 s
            rows[i, c] = sums[c]


@part
def coming(indices, values, lo, hi):
    """Prefetch the entries that follow some rows after ``lo, ..., hi - 1``, while a product waits for its columns."""
    for k in range(lo + FURTHER, hi + FURTHER, LINE):
        fetch(indices, k)
        fetch(values, k)


@part
def dot(indices, values, v, lo, hi):
    """Return one row of G times v. Loads are scalar: the gather instruction is slower on some machines."""
    sums = widen(zeros(v))
    while lo + STRIDE <= hi:
        sums = add(sums, widen(load(values, lo)), widen(pick(v, indices, lo)))
        lo += STRIDE
    inner = total(sums)
    for k in range(lo, hi):
        inner += float64(values[k]) * v[indices[k]]
    return inner


@part
def spread(indices, values, x, lo, hi, cols):
    """Add x times one row of G to `cols`: products eight at a time, additions one by one."""
    while lo + STRIDE <= hi:
        scatter(cols, indices, lo, times(x, widen(load(values, lo))))
        lo += STRIDE
    for k in range(lo, hi):
        cols[indices[k]] += float64(values[k]) * x


@jit
def product(indptr, indices, values, v, rows):
    """Write ``G v`` into `rows`, for the sparse G with `values` on the pattern."""
    for i in range(uint64(indptr.size - 1)):
        lo, hi = indptr[i], indptr[i + uint64(1)]
        coming(indices, values, lo, hi)
        rows[i] = dot(indices, values, v, lo, hi)


@jit
def transposed(indptr, indices, values, u, cols):
    """Add ``G.T u`` to `cols`, for the sparse G with `values` on the pattern."""
    for i in range(uint64(indptr.size - 1)):
        lo, hi = indptr[i], indptr[i + uint64(1)]
        coming(indices, values, lo, hi)
        spread(indices, values, float64(u[i]), lo, hi, cols)


@jit
def gram(indptr, indices, values, v, shift, rows, cols):
    """Write ``z = G v + shift`` into `rows` and add ``G.T z`` to `cols`, in one pass over the pattern."""
    for i in range(uint64(indptr.size - 1)):
        lo, hi = indptr[i], indptr[i + uint64(1)]
        coming(indices, values, lo, hi)
        z = dot(indices, values, v, lo, hi) + shift[i]
        rows[i] = z
        spread(indices, values, z, lo, hi, cols)


@jit
def add_lines(pattern, lines, out):
    """Add the product of two sparse matrices in CSR form to `out`, shape (n_rows, n_cols).

    Both hold ``indptr, indices, values``. Sums are in the order of the entries of a row.
    """
    indptr, indices, values = pattern
    starts, cols, weights = lines
    for i in range(indptr.size - 1):
        row = out[i]
        for k in range(indptr[i], indptr[i + 1]):
            x, source = values[k], indices[k]
            for at in range(starts[source], starts[source + 1]):
                row[cols[at]] += x * weights[at]


@jit
def product_block(indptr, indices, values, V, rows):
    """Write ``G V`` into `rows`, for several columns in one pass; their number is a multiple of eight."""
    for i in range(uint64(indptr.size - 1)):
        block_row(indices, values, V, indptr[i], indptr[i + uint64(1)], rows[i])


@jit
def block_row(indices, values, V, lo, hi, out):
    """Write one row of ``G V`` into `out`."""
    for c in range(uint64(0), uint64(out.size), STRIDE):
        sums = zeros(out)
        for k in range(lo, hi):
            sums = add_times(sums, float64(values[k]), widen(load(V[indices[k]], c)))
        store(out, c, sums)


@jit
def transposed_block(indptr, indices, values, U, cols):
    """Add ``G.T U`` to `cols`, for several columns in one pass; their number is a multiple of eight."""
    for i in range(uint64(indptr.size - 1)):
        scatter_row(indices, values, U[i], indptr[i], indptr[i + uint64(1)], cols)


@jit
def scatter_row(indices, values, left, lo, hi, cols):
    """Add the contribution of one row to ``G.T U`` to `cols`."""
    for c in range(uint64(0), uint64(left.size), STRIDE):
        row = widen(load(left, c))
        for k in range(lo, hi):
            accumulate(cols[indices[k]], c, times(float64(values[k]), row))


@jit
def gram_block(indptr, indices, values, V, shift, rows, cols):
    """Write ``Z = G V + shift`` into `rows` and add ``G.T Z`` to `cols`, in one pass; a multiple of eight columns."""
    for i in range(uint64(indptr.size - 1)):
        lo, hi, row = indptr[i], indptr[i + uint64(1)], rows[i]
        block_row(indices, values, V, lo, hi, row)
        for c in range(row.size):
            row[c] += shift[i, c]
        scatter_row(indices, values, row, lo, hi, cols)


@jit
def pull_back(indptr, indices, values, U, V, out):
    """Add ``sum_ij values[ij] * U[i, c] * V[j, c]`` to ``out[c]``."""
    row = np.empty(out.size)
    for i in range(uint64(indptr.size - 1)):
        row[:] = 0.0
        for k in range(indptr[i], indptr[i + uint64(1)]):
            right = V[indices[k]]
            value = float64(values[k])
            for c in range(out.size):
                row[c] += value * right[c]
        for c in range(out.size):
            out[c] += row[c] * U[i, c]


@borrowing
def moments(pattern, values, weights, span, shifts, sums):
    """Add up weights, weighted distances and weighted squared distances over every row and column.

    Parameters
    ----------
    pattern : tuple (indptr, indices)
    values : ndarray of shape (n_entries,)
    weights : ndarray of shape (n_entries,) or None
    span : tuple (centre, width)
        Distances are those from `centre`, clipped at `width`.
    shifts : tuple of two ndarrays of shape (n_rows,) and (n_cols,)
        Numbers added to the clipped distances.
    sums : tuple of two ndarrays of shape (n_rows, 3) and (n_cols, 3)
    """
    indptr, indices = pattern
    centre, width = span
    row_shifts, col_shifts = shifts
    row_sums, col_sums = sums
    for i in range(uint64(indptr.size - 1)):
        for k in range(indptr[i], indptr[i + uint64(1)]):
            j = indices[k]
            w = weight_at(weights, k)
            distance = min(max(float64(values[k]) - centre, -width), width) + row_shifts[i] + col_shifts[j]
            moment = w * distance
            row_sums[i, 0] += w
            row_sums[i, 1] += moment
            row_sums[i, 2] += moment * distance
            col_sums[j, 0] += w
            col_sums[j, 1] += moment
            col_sums[j, 2] += moment * distance


@jit
def blend(predicted, shrink, weight, direction):
    """``predicted = shrink * predicted + weight * direction``, in place."""
    for k in range(predicted.size):
        predicted[k] = shrink * predicted[k] + weight * direction[k]


@jit
def count_keys(keys, starts):
    """Write the cumulative counts of the keys 0, 1, ... into ``starts[1:]``; ``starts[0]`` stays 0."""
    for k in range(keys.size):
        starts[keys[k] + uint64(1)] += uint64(1)
    for key in range(uint64(1), uint64(starts.size)):
        starts[key] += starts[key - uint64(1)]


@jit
def place_by_key(keys, order, free, out):
    """Write `order`, stably sorted by ``keys[order]``, into `out`; `free` holds the next free position of each key."""
    for k in range(order.size):
        item = order[k]
        key = keys[item]
        out[free[key]] = item
        free[key] += uint64(1)


@jit
def first_repeat(indptr, indices):
    """Return the number of the first entry with the row and column of its predecessor, or -1; rows must be sorted."""
    for i in range(uint64(indptr.size - 1)):
        for k in range(indptr[i] + uint64(1), indptr[i + uint64(1)]):
            if indices[k] == indices[k - uint64(1)]:
                return np.int64(k)
    return np.int64(-1)


@jit
def rows_sorted(indptr, indices):
    """Return whether the column indices of every row are in increasing order, repetitions included."""
    for i in range(uint64(indptr.size - 1)):
        for k in range(indptr[i] + uint64(1), indptr[i + uint64(1)]):
            if indices[k] < indices[k - uint64(1)]:
                return False
    return True
