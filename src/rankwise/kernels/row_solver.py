"""Factors of the rows given the other side: for each row assemble a quadratic, minimize it, and accept the minimum.

`row_parts` states the problem of one row. The quadratic approximates the expected loss at the row's entries and has the
other parts as they are, except for a penalty that needs coordinate descent. It is minimized by `solve_all_components`,
`solve_few_entries` or `descend_by_coordinates`, and the minimum accepted by `accept_minimum` or `accept_descent`.
"""

import math
from typing import NamedTuple

import numba
import numpy as np
from numba import float64, uint64

from .._arrays import Array
from .jit import BORROWING, INNER, borrowing, part, uncached
from .lanes import STRIDE
from .ldl import solve_positive
from .row_entries import (
    add_outer_products,
    add_vectors,
    approximate,
    leave_out,
    load_tile,
    predict,
    set_row,
)
from .row_few import from_entries, from_entries_factored, is_available, to_entries
from .row_parts import factored_of, gaussian_row, quadratic_add, quadratic_value
from .row_penalties import begin_descent, minimize_row, n_trials, penalty_value
from .row_work import workspace
from .tile_losses import TILE

HALVINGS = 12  # of the step of a row at most
LN2 = math.log(2.0)
BLOCK = uint64(1000)  # mantissas, each below 2, whose product does not overflow
_1, _2 = uint64(1), uint64(2)
spliced = numba.njit(inline="always", cache=False, **INNER)  # into the caller's IR: `part` optimizes nested code twice


class OneRow(NamedTuple):
    """One row inside `solve_rows`."""

    i: int
    first: int  # number of its first entry
    last: int  # number of the next row's first entry
    mean: Array  # (d,)
    variance: Array  # (d,)
    prior_mean: Array  # (d,)
    precisions: Array  # (d,), of the prior
    multiplier: float  # of the precisions


@part
def add_prior(row, work):
    """Initialize the right-hand side and the diagonal of a row's normal equations with the prior's terms."""
    rhs, diagonal, mean, precisions = work.rhs, work.diagonal, row.prior_mean, row.precisions
    for a in range(uint64(precisions.size)):
        diagonal[a] = row.multiplier * precisions[a]
        rhs[a] = diagonal[a] * mean[a]


@part
def add_shared(shared, i, work):
    """Add the shared quadratic to a row's normal equations."""
    if shared is not None:
        quadratic_add(shared, i, work.rhs, work.diagonal, work.matrix)


@spliced
def assemble(loss, entries, problem, row, few, curvatures, work):
    """Write a row's normal equations: the other parts, and the approximations of its entries; no matrix if `few`.

    Returns the expected loss, the approximations at a row of zeros, and `curvatures` plus those of the entries.
    """
    if not few:
        work.matrix[:] = 0.0
    add_prior(row, work)
    add_shared(problem.shared, row.i, work)
    set_row(row.mean, row.variance, work)
    lo, value, at_zero = row.first, 0.0, 0.0
    while lo < row.last:
        n = min(uint64(TILE), row.last - lo)
        load_tile(entries, lo, n, work)
        if problem.absent.limit:
            leave_out(entries, lo, n, problem.absent, row.i, work)
        predict(n, work)
        tile_value, tile_at_zero, tile_curvature = approximate(loss, n, problem.scale, work)
        value, at_zero = value + tile_value, at_zero + tile_at_zero
        curvatures += tile_curvature
        add_vectors(n, work)
        if not few and tile_curvature != 0.0:  # zero for a loss that is linear
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
def solve_few_entries(factored, indices, row, work):
    """Minimize a row's quadratic through its n entries, those in the tile; O(n**2 d)."""
    columns = indices[row.first : row.last]
    n = uint64(columns.size)
    narrow = system_width(n)
    to_entries(factored, row.multiplier, columns, narrow, work)
    solve_positive(work.matrix, work.vector, n, narrow)
    if factored is None:
        from_entries(n, work)
    else:
        from_entries_factored(factored, row.multiplier, columns, work)


@part
def solve_all_components(penalty, row, work):
    """Minimize a row's quadratic by the solver that the penalty needs; O(d**3)."""
    d, vector, solution = uint64(row.mean.size), work.vector, work.solution
    complete_matrix(d, work)
    if penalty is not None:
        begin_descent(row.mean, d, work)
        minimize_row(penalty, d, work)
        return
    solve_positive(work.matrix, vector, d, system_width(d))
    for a in range(d):
        solution[a] = vector[a]


@part
def half_logs(variance):
    """Half the sum of the logarithms: of the numbers' exponents, and of the product of their mantissas."""
    power, logs = 0, 0.0
    for start in range(uint64(0), uint64(variance.size), BLOCK):
        mantissas = 1.0
        for a in range(start, min(start + BLOCK, uint64(variance.size))):  # no exit on overflow, to be vectorized
            bits = np.float64(variance[a]).view(np.int64)
            power += (bits >> 52) - 1023
            mantissas *= np.int64((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000).view(np.float64)
        logs += math.log(mantissas)
    return 0.5 * (logs + power * LN2)


@part
def half_distance(mean, variance, row):
    """Half the expected squared distance from the row's prior mean, each component times its precision."""
    distance, prior_mean, precisions = 0.0, row.prior_mean, row.precisions
    for a in range(mean.size):
        off = float64(mean[a]) - prior_mean[a]
        distance += 0.5 * precisions[a] * (off * off + variance[a])
    return distance


@part
def shared_term(shared, i, mean, variance):
    """Expected value of the shared quadratic at a row."""
    return 0.0 if shared is None else quadratic_value(shared, i, mean, variance)


@part
def penalty_term(penalty, mean, work):
    """Value of the penalty at a row."""
    return 0.0 if penalty is None else penalty_value(penalty, mean, work)


@part
def take_minimum(row, estimate_variances, work):
    """Overwrite the row with the minimum of its quadratic, and return True, unless the system was singular."""
    mean, variance, solution, diagonal, wrong = row.mean, row.variance, work.solution, work.diagonal, 0.0
    for a in range(uint64(mean.size)):  # zero times what is not finite is not zero; no early exit, to be vectorized
        wrong += 0.0 * solution[a] + (0.0 if diagonal[a] > 0.0 else 1.0)
    if not wrong == 0.0:
        return False
    for a in range(uint64(mean.size)):
        mean[a] = solution[a]
        variance[a] = (1.0 / diagonal[a]) if estimate_variances else 0.0
    return True


@part
def entries_at_minimum(row, estimate_variances, work):
    """Approximations of the entries at the minimum of the quadratic, minus those at a row of zeros.

    The whole quadratic is ``-rhs @ x / 2`` there, of which the prior's part is subtracted.
    """
    rhs, solution, diagonal, change = work.rhs, work.solution, work.diagonal, 0.0
    prior_mean, precisions = row.prior_mean, row.precisions
    for a in range(uint64(precisions.size)):
        x, own = solution[a], row.multiplier * precisions[a]
        change += own * x * (prior_mean[a] - 0.5 * x) - 0.5 * rhs[a] * x
        change += 0.5 * (diagonal[a] - own) / diagonal[a] if estimate_variances else 0.0
    return change


@part
def other_parts_at_minimum(shared, penalty, row, work):
    """Return the terms of the parts beside the prior, which `entries_at_minimum` subtracts."""
    change = 0.0
    if shared is not None:
        change += quadratic_value(shared, row.i, row.mean, row.variance)
    if penalty is not None:  # the quadratic is ``-(rhs + vector) @ x / 2``
        for a in range(uint64(row.mean.size)):
            change += 0.5 * work.vector[a] * work.solution[a]
    return change


@spliced
def accept_minimum(problem, row, value, at_zero, work):
    """Move the row to the minimum, unless the system was singular; return the bound on its expected loss there."""
    if take_minimum(row, problem.estimate_variances, work):
        change = entries_at_minimum(row, problem.estimate_variances, work)
        change -= other_parts_at_minimum(problem.shared, problem.penalty, row, work)
        value = at_zero + change / problem.scale
    return value


@part
def interpolate(share, row, trial, estimate_variances, work):
    """Write the point at `share` of the way from the row to the minimum to `trial`."""
    mean, variance, solution, diagonal = row.mean, row.variance, work.solution, work.diagonal
    for a in range(uint64(mean.size)):
        trial[0, a] = mean[a] + share * (solution[a] - mean[a])
        trial[1, a] = variance[a] + share * (1.0 / diagonal[a] - variance[a]) if estimate_variances else 0.0


@part
def keep_feasible(penalty, k, trial, work):
    """Write the minimum itself to the first `trial` of a row with a penalty; the k-th choice if there are any."""
    if penalty is not None:
        if k == 0:
            for a in range(uint64(penalty.size)):  # interpolated it may violate the constraint by rounding
                trial[0, a] = work.solution[a]
        if penalty.n_choices > 0:
            for a in range(uint64(penalty.n_choices)):
                trial[0, a] = 1.0 if a == k else 0.0


@part
def ends_at_descent(penalty):
    """Whether the first trial point that does not raise the objective is the last."""
    return True if penalty is None else penalty.n_choices == 0


@spliced
def row_loss(loss, entries, problem, row, work):
    """Expected loss of the row that is set. A row of one tile is still loaded."""
    lo, value, short = row.first, 0.0, row.last - row.first <= uint64(TILE)
    while lo < row.last:
        n = min(uint64(TILE), row.last - lo)
        if not short:
            load_tile(entries, lo, n, work)
            if problem.absent.limit:
                leave_out(entries, lo, n, problem.absent, row.i, work)
        predict(n, work)
        tile_value, _, _ = approximate(loss, n, problem.scale, work)
        value += tile_value
        lo += n
    return value


@spliced
def objective(problem, row, value, log, mean, variance, work):
    """The row's objective at a point with the expected loss `value` and half the sum of log variances `log`."""
    entries_and_prior = problem.scale * value + row.multiplier * half_distance(mean, variance, row) - log
    others = shared_term(problem.shared, row.i, mean, variance) + penalty_term(problem.penalty, mean, work)
    return entries_and_prior + others


@spliced
def accept_descent(loss, entries, problem, row, value, trial, work):
    """Move the row towards the minimum, by half as far until its objective does not rise, or not at all.

    A row that is one of several unit vectors moves to the best of them. Returns the expected loss there, half the sum
    of the log variances, and the number of halvings.
    """
    estimate_variances, halvings, share = problem.estimate_variances, 0.0, 1.0
    log = half_logs(row.variance) if estimate_variances else 0.0
    limit = objective(problem, row, value, log, row.mean, row.variance, work)
    limit += (1e-6 if trial.itemsize == 4 else 1e-12) * abs(limit)  # rounding
    for k in range(uint64(n_trials(problem.penalty, HALVINGS))):
        interpolate(share, row, trial, estimate_variances, work)
        keep_feasible(problem.penalty, k, trial, work)
        set_row(trial[0], trial[1], work)
        new_value = row_loss(loss, entries, problem, row, work)
        new_log = half_logs(trial[1]) if estimate_variances else 0.0
        new = objective(problem, row, new_value, new_log, trial[0], trial[1], work)
        if new <= limit:
            for a in range(row.mean.size):
                row.mean[a], row.variance[a] = trial[0, a], trial[1, a]
            value, log, limit = new_value, new_log, new
            if ends_at_descent(problem.penalty):
                break
        share *= 0.5
        halvings += 1.0
    return value, log, halvings


@borrowing
def solve_rows(loss, entries, problem, scratch, trial, means, variances):
    """Improve each row's mean, and its variance if variances are estimated, in place.

    Where the quadratic approximation is an upper bound of the expected loss, its minimum cannot raise the objective:
    then `trial` is None, and the expected loss that is returned is the bound's. Elsewhere the approximation is
    Newton's, and the step is halved until the row's objective does not rise, and not taken if it always does; `trial`
    is then an array of shape (2, d) to work in.

    Returns the expected loss at the improved rows, the number of halvings, half the sum of the log variances, the sum
    of the curvatures, and that of the penalties.
    """
    d, factored, work = uint64(means.shape[1]), factored_of(problem.shared), workspace(scratch)
    few_entries_solved = is_available(problem.shared, factored, problem.penalty)
    loss_sum = halvings = logs = curvatures = penalties = 0.0
    for i in range(uint64(means.shape[0])):
        prior_mean, precisions, multiplier = gaussian_row(problem.prior, i, work.zeros[:d])
        first, last = entries.indptr[i], entries.indptr[i + _1]
        row = OneRow(i, first, last, means[i], variances[i], prior_mean, precisions, multiplier)
        few = few_entries_solved and last - first <= min(uint64(TILE), d // _2)
        value, at_zero, curvatures = assemble(loss, entries, problem, row, few, curvatures, work)
        if few:
            solve_few_entries(factored, entries.indices, row, work)
        else:
            solve_all_components(problem.penalty, row, work)
        if trial is None:
            value = accept_minimum(problem, row, value, at_zero, work)
            logs += half_logs(row.variance) if problem.estimate_variances else 0.0
        else:
            value, log, halved = accept_descent(loss, entries, problem, row, value, trial, work)
            logs, halvings = logs + log, halvings + halved
        loss_sum += value
        penalties += penalty_term(problem.penalty, row.mean, work)
    return loss_sum, halvings, logs, curvatures, penalties


uncached_solve_rows = uncached(solve_rows, BORROWING)  # for parts of types that other packages declare


@borrowing
def expected_loss(loss, entries, scratch, means, variances):
    """Sum of the expected losses of all entries."""
    work, value = workspace(scratch), 0.0
    for i in range(uint64(means.shape[0])):
        set_row(means[i], variances[i], work)
        lo, last = entries.indptr[i], entries.indptr[i + _1]
        while lo < last:
            n = min(uint64(TILE), last - lo)
            load_tile(entries, lo, n, work)
            predict(n, work)
            value += approximate(loss, n, 1.0, work)[0]
            lo += n
    return value
