"""Factors of the rows given the other side: for each row assemble a quadratic, minimize it, and accept the minimum.

`row_parts` states the problem of one row. The quadratic approximates the expected loss at the row's entries and has the
other parts as they are, except for a penalty that needs coordinate descent. The solvers of the small system are
`solve_all_components`, `solve_few_entries` and `descend_by_coordinates`.
"""

import math

import numba
import numpy as np
from numba import float64, uint64

from .jit import INNER, jit, part, uncached
from .lanes import STRIDE
from .ldl import solve_positive
from .row_entries import (
    add_outer_products,
    add_vectors,
    approximate,
    load_tile,
    predict,
    set_row,
    workspace,
)
from .row_few import from_entries, from_entries_factored, is_available, to_entries, to_entries_factored
from .row_parts import (
    coordinate_minimum,
    factored_of,
    gaussian_row,
    is_minimized_by_coordinates,
    penalty_add,
    penalty_value,
    quadratic_add,
    quadratic_value,
)
from .tile_losses import TILE

HALVINGS = 12  # of the step of a row at most
PASSES = 500  # of coordinate descent at most
LN2 = math.log(2.0)
_1, _2 = uint64(1), uint64(2)
spliced = numba.njit(inline="always", cache=False, **INNER)  # into the caller's IR: `part` optimizes nested code twice


@part
def begin(mean, precisions, multiplier, work):
    """Initialize the right-hand side and the diagonal of a row's normal equations with the prior's terms."""
    rhs, diagonal = work.rhs, work.diagonal
    for a in range(uint64(precisions.size)):
        diagonal[a] = multiplier * precisions[a]
        rhs[a] = diagonal[a] * mean[a]


@part
def add_other_parts(shared, penalty, i, work):
    """Add the shared quadratic and a quadratic penalty to a row's normal equations."""
    if shared is not None:
        quadratic_add(shared, i, work.rhs, work.diagonal, work.matrix)
    if penalty is not None:
        penalty_add(penalty, i, work.rhs, work.diagonal)


@spliced
def assemble(loss, indices, targets, weights, design, span, few, work):
    """Add the quadratic approximations of a row's entries to its normal equations; the matrix unless `few`.

    `span` has the row's first entry, the next row's, the scale, and a sum that the curvatures are added to. Returns the
    expected loss, the approximations at a row of zeros, and that sum.
    """
    lo, last, scale, curvatures = span
    value = at_zero = 0.0
    while lo < last:
        n = min(uint64(TILE), last - lo)
        load_tile(indices, targets, weights, design, lo, n, work)
        predict(n, work)
        tile_value, tile_at_zero, tile_curvature = approximate(loss, n, scale, work)
        value, at_zero = value + tile_value, at_zero + tile_at_zero
        curvatures += tile_curvature
        add_vectors(n, work)
        if not few:
            add_outer_products(n, work)
        lo += n
    return value, at_zero, curvatures


@part
def system_width(n):
    """`n` rounded up to whole registers."""
    return (n + STRIDE - _1) // STRIDE * STRIDE


@part
def complete_matrix(d, work):
    """Add the diagonal to the matrix, and copy the matrix's diagonal and the right-hand side."""
    matrix, diagonal, rhs, vector = work.matrix, work.diagonal, work.rhs, work.vector
    for a in range(d):
        matrix[a, a] += diagonal[a]
        diagonal[a] = matrix[a, a]
    for a in range(uint64(rhs.size)):
        vector[a] = rhs[a]


@part
def solve_few_entries(factored, multiplier, indices, first, n, work):
    """Minimize a row's quadratic through its n entries, those in the tile; O(n**2 d)."""
    narrow = system_width(n)
    if factored is None:
        to_entries(n, narrow, work)
    else:
        to_entries_factored(factored, multiplier, indices[first : first + n], narrow, work)
    solve_positive(work.matrix, work.vector, n, narrow)
    if factored is None:
        from_entries(n, work)
    else:
        from_entries_factored(factored, multiplier, indices[first : first + n], work)


@part
def descend_by_coordinates(penalty, i, mean, d, work):
    """Minimize a row's quadratic plus a penalty, one component after the other, starting from where the row is.

    `vector` becomes the gradient of the quadratic with the sign changed.
    """
    matrix, diagonal, vector, solution = work.matrix, work.diagonal, work.vector, work.solution
    for a in range(d):
        for b in range(a):
            matrix[a, b] = matrix[b, a]
        solution[a] = mean[a]
    for a in range(d):
        for b in range(d):
            vector[a] -= matrix[a, b] * solution[b]
    for _ in range(PASSES):
        moved = size = 0.0
        for a in range(d):
            old = solution[a]
            new = coordinate_minimum(penalty, i, a, diagonal[a], vector[a] + diagonal[a] * old)
            for b in range(d):
                vector[b] -= matrix[b, a] * (new - old)
            solution[a] = new
            moved, size = max(moved, abs(new - old)), max(size, abs(new))
        if moved <= 1e-13 * size:
            break


@part
def solve_all_components(penalty, i, mean, d, work):
    """Minimize a row's quadratic, whose matrix is complete, by the solver that the penalty needs; O(d**3)."""
    vector, solution = work.vector, work.solution
    if penalty is not None:
        if is_minimized_by_coordinates(penalty):
            descend_by_coordinates(penalty, i, mean, d, work)
            return
    solve_positive(work.matrix, vector, d, system_width(d))
    for a in range(d):
        solution[a] = vector[a]


@part
def half_logs(variance):
    """Half the sum of the logarithms: of the numbers' exponents, and of the product of their mantissas."""
    power, mantissas = 0, 1.0
    for a in range(uint64(variance.size)):
        bits = np.float64(variance[a]).view(np.int64)
        power += (bits >> 52) - 1023
        mantissas *= np.int64((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000).view(np.float64)
    return 0.5 * (math.log(mantissas) + power * LN2)


@part
def half_distance(mean, variance, prior_mean, precisions):
    """Half the expected squared distance from the prior mean, each component times its precision."""
    distance = 0.0
    for a in range(mean.size):
        off = float64(mean[a]) - prior_mean[a]
        distance += 0.5 * precisions[a] * (off * off + variance[a])
    return distance


@part
def other_terms(shared, penalty, i, mean, variance):
    """Expected value of the shared quadratic and the penalty at a row."""
    value = 0.0
    if shared is not None:
        value += quadratic_value(shared, i, mean, variance)
    if penalty is not None:
        value += penalty_value(penalty, i, mean, variance)
    return value


@part
def take_minimum(mean, variance, estimate_variances, work):
    """Overwrite the row with the minimum of its quadratic, and return True, unless the system was singular."""
    solution, diagonal, wrong = work.solution, work.diagonal, 0.0
    for a in range(uint64(mean.size)):  # zero times what is not finite is not zero; no early exit, to be vectorized
        wrong += 0.0 * solution[a] + (0.0 if diagonal[a] > 0.0 else 1.0)
    if not wrong == 0.0:
        return False
    for a in range(uint64(mean.size)):
        mean[a] = solution[a]
        variance[a] = (1.0 / diagonal[a]) if estimate_variances else 0.0
    return True


@part
def entries_at_minimum(prior_mean, precisions, multiplier, estimate_variances, work):
    """Approximations of the entries at the minimum of the quadratic, minus those at a row of zeros.

    The whole quadratic is ``-rhs @ x / 2`` there, of which the prior's part is subtracted.
    """
    rhs, solution, diagonal, change = work.rhs, work.solution, work.diagonal, 0.0
    for a in range(uint64(precisions.size)):
        x, own = solution[a], multiplier * precisions[a]
        change += own * x * (prior_mean[a] - 0.5 * x) - 0.5 * rhs[a] * x
        change += 0.5 * (diagonal[a] - own) / diagonal[a] if estimate_variances else 0.0
    return change


@part
def other_parts_at_minimum(shared, penalty, i, mean, variance, work):
    """What `entries_at_minimum` has to subtract for the parts beside the prior."""
    change = 0.0
    if shared is not None:
        change += quadratic_value(shared, i, mean, variance)
    if penalty is not None:
        if is_minimized_by_coordinates(penalty):  # the quadratic is ``-(rhs + gradient) @ x / 2``
            for a in range(uint64(mean.size)):
                change += 0.5 * work.vector[a] * work.solution[a]
        else:
            change += penalty_value(penalty, i, mean, variance)
    return change


@part
def interpolate(share, mean, variance, trial, estimate_variances, work):
    """Write the point at `share` of the way from the row to the minimum to `trial`, and set the row there."""
    solution, diagonal = work.solution, work.diagonal
    for a in range(uint64(mean.size)):
        trial[0, a] = mean[a] + share * (solution[a] - mean[a])
        trial[1, a] = variance[a] + share * (1.0 / diagonal[a] - variance[a]) if estimate_variances else 0.0
    set_row(trial[0], trial[1], work)


@spliced
def row_loss(loss, indices, targets, weights, design, span, work):
    """Expected loss of the row that is set; `span` as in `assemble`. A row of one tile is still loaded."""
    lo, last, scale = span
    short, value = last - lo <= uint64(TILE), 0.0
    while lo < last:
        n = min(uint64(TILE), last - lo)
        if not short:
            load_tile(indices, targets, weights, design, lo, n, work)
        predict(n, work)
        tile_value, _, _ = approximate(loss, n, scale, work)
        value += tile_value
        lo += n
    return value


@jit
def solve_rows(loss, entries, problem, trial, means, variances):
    """Improve each row's mean, and its variance if variances are estimated, in place.

    Where the quadratic approximation is an upper bound of the expected loss, its minimum cannot raise the objective:
    then `trial` is None, and the expected loss that is returned is the bound's. Elsewhere the approximation is
    Newton's, and the step is halved until the row's objective does not rise, and not taken if it always does; `trial`
    is then scratch of shape (2, d).

    Returns the expected loss at the improved rows, the number of halvings, half the sum of the log variances, and the
    sum of the curvatures. Arrays are taken out of their tuples before the loop: each time costs a reference count.
    """
    prior, scale, estimate_variances, shared, penalty = problem
    indptr, indices, targets, weights, design = entries
    d, factored, work = uint64(means.shape[1]), factored_of(shared), workspace(design)
    matrix, zeros = work.matrix, work.zeros[:d]
    loss_sum = halvings = logs = curvatures = 0.0
    slack = 1e-6 if means.itemsize == 4 else 1e-12  # rounding
    for i in range(uint64(indptr.size - 1)):
        first, last, mean, variance = indptr[i], indptr[i + _1], means[i], variances[i]
        few = is_available(shared, factored, penalty) and last - first <= min(uint64(TILE), d // _2)
        prior_mean, precisions, multiplier = gaussian_row(prior, i, zeros)
        begin(prior_mean, precisions, multiplier, work)
        set_row(mean, variance, work)
        if not few:
            matrix[:] = 0.0
        add_other_parts(shared, penalty, i, work)
        span = first, last, scale, curvatures
        value, at_zero, curvatures = assemble(loss, indices, targets, weights, design, span, few, work)
        if few:
            solve_few_entries(factored, multiplier, indices, first, last - first, work)
        else:
            complete_matrix(d, work)
            solve_all_components(penalty, i, mean, d, work)
        if trial is None:
            if take_minimum(mean, variance, estimate_variances, work):
                change = entries_at_minimum(prior_mean, precisions, multiplier, estimate_variances, work)
                change -= other_parts_at_minimum(shared, penalty, i, mean, variance, work)
                value = at_zero + change / scale
        log = half_logs(variance) if estimate_variances else 0.0
        if trial is not None:
            limit = scale * value + multiplier * half_distance(mean, variance, prior_mean, precisions) - log
            limit += other_terms(shared, penalty, i, mean, variance)
            limit += slack * abs(limit)
            share = 1.0
            for _ in range(HALVINGS):
                interpolate(share, mean, variance, trial, estimate_variances, work)
                new_value = row_loss(loss, indices, targets, weights, design, (first, last, scale), work)
                new_log = half_logs(trial[1]) if estimate_variances else 0.0
                new = (
                    scale * new_value + multiplier * half_distance(trial[0], trial[1], prior_mean, precisions) - new_log
                )
                if new + other_terms(shared, penalty, i, trial[0], trial[1]) <= limit:
                    for a in range(d):
                        mean[a], variance[a] = trial[0, a], trial[1, a]
                    value, log = new_value, new_log
                    break
                share *= 0.5
                halvings += 1.0
        loss_sum += value
        logs += log
    return loss_sum, halvings, logs, curvatures


uncached_solve_rows = uncached(solve_rows)  # for parts of types that other packages declare


@jit
def expected_loss(loss, entries, means, variances):
    """Sum of the expected losses of all entries."""
    indptr, indices, targets, weights, design = entries
    work, value = workspace(design), 0.0
    for i in range(uint64(indptr.size - 1)):
        set_row(means[i], variances[i], work)
        lo, last = indptr[i], indptr[i + _1]
        while lo < last:
            n = min(uint64(TILE), last - lo)
            load_tile(indices, targets, weights, design, lo, n, work)
            predict(n, work)
            value += approximate(loss, n, 1.0, work)[0]
            lo += n
    return value
