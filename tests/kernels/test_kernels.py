"""Every kernel equals its NumPy reference on any pattern."""

import numba
import numpy as np
import pytest
from helpers import SMOOTH_LOSSES, random_pattern, targets_for
from nonsmooth_cases import EACH_KIND

from rankwise.kernels import entrywise, formulas, pattern, piecewise
from rankwise.kernels.entrywise import SearchLine
from rankwise.losses import Square

DTYPES = [np.float32, np.float64]
SHAPES = {"wide": (7, 23), "tall": (31, 5), "single entry": (1, 1), "one row": (1, 9), "one column": (9, 1)}
ALL_ENTRIES = 1.0


class Pattern:
    """A random CSR pattern with values, and the same matrix as a dense array."""

    def __init__(self, seed, shape, density, dtype):
        rng = np.random.default_rng(seed)
        self.rng, self.shape, self.dtype = rng, shape, dtype
        self.rows, self.cols = random_pattern(rng, shape, density)
        self.indptr = fixed(np.searchsorted(self.rows, np.arange(shape[0] + 1)).astype(np.uint64))
        self.indices = fixed(self.cols.astype(np.uint32))
        self.values = self.draw(self.rows.size)
        self.dense = np.zeros(shape)
        self.dense[self.rows, self.cols] = self.values
        self.tolerance = {"rtol": 0, "atol": 60 * np.finfo(dtype).eps}

    def draw(self, *size):
        return self.rng.uniform(-1, 1, size).astype(self.dtype)


def fixed(array):
    """Read-only, as the shards hand arrays to the kernels; keeps the compiled signatures the same as in a fit."""
    array.flags.writeable = False
    return array


@pytest.fixture(params=DTYPES, ids=lambda dtype: dtype.__name__)
def dtype(request):
    return request.param


@pytest.fixture(params=[*SHAPES, "empty rows and columns", "last rows empty"])
def csr(request, dtype):
    if request.param == "empty rows and columns":
        found = Pattern(3, (40, 30), 0.02, dtype)
        assert len(set(found.rows)) < 40 and len(set(found.cols)) < 30
    elif request.param == "last rows empty":
        found = Pattern(4, (6, 5), ALL_ENTRIES, dtype)
        found.indptr = fixed(np.r_[found.indptr, found.indptr[[-1, -1]]])
        found.dense = np.vstack((found.dense, np.zeros((2, 5))))
        found.shape = (8, 5)
    else:
        found = Pattern(5, SHAPES[request.param], 0.5, dtype)
    return found


def test_product_is_a_matrix_times_a_vector(csr):
    v, rows = csr.draw(csr.shape[1]), np.full(csr.shape[0], np.nan)
    pattern.product(csr.indptr, csr.indices, csr.values, v, rows)
    np.testing.assert_allclose(rows, csr.dense @ v.astype(float), rtol=0, atol=1e-14)


def test_transposed_adds_the_transpose_times_a_vector(csr):
    u, cols = csr.draw(csr.shape[0]), np.ones(csr.shape[1])
    pattern.transposed(csr.indptr, csr.indices, csr.values, u, cols)
    np.testing.assert_allclose(cols, 1.0 + csr.dense.T @ u.astype(float), rtol=0, atol=1e-14)


def test_gram_is_product_plus_shift_then_transposed(csr):
    v, shift = csr.draw(csr.shape[1]), csr.rng.normal(size=csr.shape[0])
    rows, cols = np.full(csr.shape[0], np.nan), np.ones(csr.shape[1])
    pattern.gram(csr.indptr, csr.indices, csr.values, v, shift, rows, cols)
    z = csr.dense @ v.astype(float) + shift
    np.testing.assert_allclose(rows, z, rtol=0, atol=1e-14)
    np.testing.assert_allclose(cols, 1.0 + csr.dense.T @ z, rtol=0, atol=1e-13)


def test_rank_one_at_is_the_outer_product_at_the_entries(csr):
    u, v, out = csr.draw(csr.shape[0]), csr.draw(csr.shape[1]), csr.draw(csr.rows.size)
    pattern.rank_one_at(csr.indptr, csr.indices, u, v, out)
    np.testing.assert_array_equal(out, np.outer(u, v)[csr.rows, csr.cols])


@pytest.mark.parametrize("rank", [0, 3, 8])
def test_low_rank_at_ignores_padding_with_zeros(csr, rank):
    theta, U, V = padded_factors(csr, rank)
    out = np.full(csr.rows.size, np.nan, csr.dtype)
    pattern.low_rank_at(csr.indptr, csr.indices, theta, U, V, np.empty(8, csr.dtype), out)
    np.testing.assert_allclose(out, ((U * theta) @ V.T)[csr.rows, csr.cols], **csr.tolerance)


@pytest.mark.parametrize("rank", [0, 3])
def test_low_rank_pairs_takes_pairs_in_any_order_and_again(csr, rank):
    theta, U, V = padded_factors(csr, rank)
    rows, cols = (csr.rng.integers(0, size, 50).astype(np.uint64) for size in csr.shape)
    out = np.full(50, np.nan)
    pattern.low_rank_pairs(rows, cols, theta[:rank], U[:, :rank], V[:, :rank], out)
    dense = (U.astype(float) * theta) @ V.astype(float).T
    np.testing.assert_allclose(out, dense[rows, cols], rtol=0, atol=1e-14)


def test_pull_back_is_the_adjoint_of_low_rank_at(csr):
    _, U, V = padded_factors(csr, 3)
    out = np.ones(8)
    pattern.pull_back(csr.indptr, csr.indices, csr.values, U, V, np.empty(8), out)
    U, V = U.astype(float), V.astype(float)
    np.testing.assert_allclose(out, 1.0 + np.einsum("ic,ij,jc->c", U, csr.dense, V), rtol=0, atol=1e-13)


def test_offsets_at_is_a_constant_a_row_s_and_a_column_s_part_at_the_entries(csr):
    rows, cols = (csr.rng.normal(size=size) for size in csr.shape)
    out = np.full(csr.rows.size, np.nan, csr.dtype)
    pattern.offsets_at(csr.indptr, csr.indices, 0.75, rows, cols, out)
    np.testing.assert_allclose(out, (0.75 + np.add.outer(rows, cols))[csr.rows, csr.cols], **csr.tolerance)


@pytest.mark.parametrize("width", [0, 8, 24])
def test_gather_is_the_pattern_times_a_block(csr, width):
    block, rows = csr.draw(csr.shape[1], width), np.full((csr.shape[0], width), np.nan, csr.dtype)
    pattern.gather(csr.indptr, csr.indices, block, rows)
    seen = np.zeros(csr.shape)
    seen[csr.rows, csr.cols] = 1.0
    np.testing.assert_allclose(rows, seen @ block.astype(float), rtol=1e-6, atol=20 * np.finfo(csr.dtype).eps)


@pytest.mark.parametrize("rank", [0, 3])
def test_variance_pairs_is_the_variance_of_sums_of_products_of_independent_factors(csr, rank):
    """``var(uv) = E u**2 E v**2 - (E u E v)**2`` for each product, and the offsets' own variances."""
    (m, s), (n, t) = (np.abs(csr.rng.normal(size=(2, size, rank + 1))).astype(csr.dtype) for size in csr.shape)
    rows, cols = (csr.rng.integers(0, size, 50).astype(np.uint64) for size in csr.shape)
    out = np.full(50, np.nan)
    pattern.variance_pairs(rows, cols, m, s, n, t, out)
    m, s, n, t = (part.astype(float) for part in (m[rows], s[rows], n[cols], t[cols]))
    products = ((m**2 + s) * (n**2 + t) - (m * n) ** 2)[:, :rank]
    expected = products.sum(axis=1) + s[:, rank] + t[:, rank]
    np.testing.assert_allclose(out, expected, rtol=1e-12 if csr.dtype == np.float64 else 1e-5)


def padded_factors(csr, rank, width=8):
    """Theta, U, V with `rank` random columns out of `width`, the rest zero."""
    theta, U, V = np.zeros(width), *(np.zeros((size, width), csr.dtype) for size in csr.shape)
    theta[:rank] = csr.rng.normal(size=rank)
    U[:, :rank], V[:, :rank] = (csr.draw(size, rank) for size in csr.shape)
    return theta, U, V


def test_blend_is_a_linear_combination_in_place(dtype):
    predicted, direction = np.random.default_rng(0).normal(size=(2, 101)).astype(dtype)
    expected = 0.25 * predicted.astype(float) - 3.0 * direction
    pattern.blend(predicted, 0.25, -3.0, direction)
    np.testing.assert_allclose(predicted, expected, rtol=0, atol=30 * np.finfo(dtype).eps)


@pytest.mark.parametrize("counter", [np.uint32, np.uint64], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(("n_items", "n_keys"), [(0, 3), (1, 1), (500, 7), (20, 300)])
def test_sorting_by_key_is_a_stable_argsort(n_items, n_keys, counter):
    keys = np.random.default_rng(n_items).integers(0, n_keys, n_items).astype(np.uint32)
    starts, order = np.zeros(n_keys + 1, np.uint64), np.arange(n_items, dtype=counter)
    out = np.empty_like(order)
    pattern.sort_by_key(keys, order, starts, np.empty_like(starts), out)
    np.testing.assert_array_equal(starts, np.r_[0, np.cumsum(np.bincount(keys, minlength=n_keys))])
    np.testing.assert_array_equal(out, np.argsort(keys, kind="stable"))


@numba.njit
def each(function, x):
    out = np.empty_like(x)
    for k in range(x.size):
        out[k] = function(x[k])
    return out


def ulps(found, expected):
    """Largest distance in units of the last place of `expected`."""
    return np.max(np.abs(found - expected) / np.spacing(np.abs(expected)))


def spread(low, high, n=20_000):
    """Points of (low, high), ends included."""
    return np.r_[low, np.random.default_rng(0).uniform(low, high, n), high]


TINY = np.exp(spread(-708.0, 0.0))  # from the smallest normal numbers to one


@pytest.mark.parametrize("x", [spread(-708.0, 709.4), spread(-1.0, 1.0), TINY, -TINY])
def test_exp_is_accurate(x):
    assert ulps(each(formulas.exp, x), np.exp(x)) <= 2


@pytest.mark.parametrize("x", [spread(0.5, 2.0), TINY, 1 / TINY, np.array([np.finfo(float).tiny, np.finfo(float).max])])
def test_log_is_accurate_on_normal_numbers(x):
    assert ulps(each(formulas.log, x), np.log(x)) <= 4


@pytest.mark.parametrize("x", [TINY, -TINY[TINY < 1], 1 / TINY, spread(-0.999, 10.0), np.array([0.0, 1e-320, -1e-320])])
def test_log1p_is_accurate(x):
    assert ulps(each(formulas.log1p, x), np.log1p(x)) <= 4


@pytest.mark.parametrize("x", [TINY, spread(0.0, 1.0)])
def test_log1p_unit_is_accurate_from_zero_to_one(x):
    assert ulps(each(formulas.log1p_unit, x), np.log1p(x)) <= 4


def test_exp_and_logs_keep_their_meaning_at_the_edges():
    x = np.array([-np.inf, -1e3, 710.0, 1e6, np.inf, np.nan])
    floor = np.exp(-708.0)  # documented: never below, so that products stay normal numbers
    np.testing.assert_allclose(each(formulas.exp, x), [floor, floor, np.inf, np.inf, np.inf, np.nan], rtol=1e-15)
    x = np.array([0.0, -0.0, np.inf, -1.0, -np.inf, np.nan])
    np.testing.assert_array_equal(each(formulas.log, x), [-np.inf, -np.inf, np.inf, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(each(formulas.log1p, x), [0.0, -0.0, np.inf, -np.inf, np.nan, np.nan])


def entries(loss, dtype, size=37):
    """Prediction, direction, targets and weights at some entries; the last two read-only, as in a shard."""
    rng = np.random.default_rng(size)
    predicted, direction = rng.normal(size=(2, size)).astype(dtype)
    targets, weights = targets_for(loss, rng, size).astype(dtype), rng.integers(0, 4, size).astype(dtype)
    return predicted, direction, fixed(targets), fixed(weights)


def close(dtype):
    return {"rtol": 1e-12} if dtype == np.float64 else {"rtol": 1e-5, "atol": 1e-6}


@pytest.mark.parametrize("loss", SMOOTH_LOSSES, ids=repr)
def test_entry_loops_sum_what_the_formulas_say(loss, dtype):
    x, d, o, weights = entries(loss, dtype)
    weighted = dtype == np.float64  # not all four combinations: each costs a second of compiling
    w = weights.astype(float) if weighted else np.ones(x.size)
    weights = weights if weighted else None
    slopes = np.empty_like(x)
    found = entrywise.evaluate(loss.formula, x, None, o, weights, slopes)
    value, slope, curvature = loss._at(x, o)
    np.testing.assert_allclose(found, [w @ value, (w * slope) @ (w * slope), (w * slope) @ x], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(slopes, w * slope, **close(dtype))

    shrink, weight = 0.75, -0.3
    value, slope, curvature = loss._at(shrink * x.astype(float) + weight * d.astype(float), o)
    arrays = x, None, d, o
    found = entrywise.plane(loss.formula, SearchLine(*arrays, weights), shrink, weight)
    x, d = x.astype(float), d.astype(float)
    first, second = w * slope, w * curvature
    np.testing.assert_allclose(found, [w @ value, first @ x, first @ d], rtol=1e-12, atol=1e-12)
    found = entrywise.plane_curve(loss.formula, SearchLine(*arrays, weights), shrink, weight)
    expected = [second @ (x * x), second @ (x * d), second @ (d * d)]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("loss", SMOOTH_LOSSES, ids=repr)
def test_curve_is_curvature_times_direction(loss, dtype):
    x, d, o, weights = entries(loss, dtype)
    weighted = dtype == np.float64
    out = np.empty_like(x)
    entrywise.curve(loss.formula, SearchLine(x, None, d, o, weights if weighted else None), out)
    np.testing.assert_allclose(out, (weights if weighted else 1.0) * loss.curvature(x, o) * d, **close(dtype))


@pytest.mark.parametrize("loss", [*SMOOTH_LOSSES, *EACH_KIND], ids=repr)
def test_with_a_base_f_is_f_at_shifted_predictions(loss):
    """All but the part of a slope that belongs to the low-rank prediction: the base does not move with it."""
    x, d, o, w = entries(loss, np.float64)
    base = np.random.default_rng(8).normal(size=x.size)
    slopes, moved_slopes, curved, moved_curved = np.empty((4, x.size))
    value, norm, inner = entrywise.evaluate(loss.formula, x, base, o, w, slopes)
    moved = entrywise.evaluate(loss.formula, x + base, None, o, w, moved_slopes)
    np.testing.assert_allclose((value, norm, inner + moved_slopes @ base), moved, rtol=1e-12)
    np.testing.assert_allclose(slopes, moved_slopes, rtol=1e-12)

    shrink, weight = 0.75, -0.3
    shifted = shrink * x + base
    value, slope_x, slope_d = entrywise.plane(loss.formula, SearchLine(x, base, d, o, w), shrink, weight)
    found = entrywise.plane(loss.formula, SearchLine(shifted, None, d, o, w), 1.0, weight)
    by_base = w * loss.slope(shifted + weight * d, o) @ base
    np.testing.assert_allclose((value, shrink * slope_x + by_base, slope_d), found, rtol=1e-12, atol=1e-12)

    if loss.smooth:
        entrywise.curve(loss.formula, SearchLine(x, base, d, o, w), curved)
        entrywise.curve(loss.formula, SearchLine(x + base, None, d, o, w), moved_curved)
        np.testing.assert_allclose(curved, moved_curved, rtol=1e-12)
        found = entrywise.plane_curve(loss.formula, SearchLine(x, base, d, o, w), shrink, weight)
        second = w * loss.curvature(shifted + weight * d, o)
        np.testing.assert_allclose(
            found, [second @ (x * x), second @ (x * d), second @ (d * d)], rtol=1e-12, atol=1e-12
        )


@pytest.mark.parametrize("loss", EACH_KIND, ids=repr)
def test_with_a_base_breakpoints_are_those_of_shifted_predictions(loss):
    x, d, o, w = entries(loss, np.float64)
    base = np.random.default_rng(8).normal(size=x.size)
    (slope, binned), (moved_slope, moved_binned) = (
        (piecewise.breakpoints(loss.formula, SearchLine(*where, d, o, w), 0.0, 2.0, *bins), bins)
        for where, bins in (((x, base), np.zeros((2, 16))), ((x + base, None), np.zeros((2, 16))))
    )
    np.testing.assert_allclose(slope, moved_slope, rtol=1e-12)
    np.testing.assert_allclose(binned, moved_binned, rtol=1e-12)
    assert binned[1].sum() > 3
    lists = [np.full((2, 99), np.nan) for _ in range(2)]
    n, slope = piecewise.breakpoints_between(loss.formula, SearchLine(x, base, d, o, w), 0.0, 2.0, *lists[0])
    moved = SearchLine(x + base, None, d, o, w)
    found = piecewise.breakpoints_between(loss.formula, moved, 0.0, 2.0, *lists[1])
    assert found == (n, pytest.approx(slope, rel=1e-12))
    np.testing.assert_allclose(*lists, rtol=1e-10)


@pytest.mark.parametrize("loss", SMOOTH_LOSSES, ids=repr)
def test_compiled_formulas_equal_their_python_source(loss):
    x, _, o, _ = entries(loss, np.float64)
    declared = loss.formulas
    for compiled, formula in zip(loss._at(x, o), (declared.value, declared.slope, declared.curvature), strict=True):
        interpreted = [formula(loss.formula, *pair) for pair in zip(x, o, strict=True)]
        np.testing.assert_allclose(compiled, interpreted, rtol=1e-14)


@pytest.mark.parametrize("loss", SMOOTH_LOSSES, ids=repr)
def test_an_integer_weight_is_an_entry_repeated(loss):
    x, d, o, weights = entries(loss, np.float64)
    again = np.repeat(np.arange(x.size), weights.astype(int))
    weighted = entrywise.plane(loss.formula, SearchLine(x, None, d, o, weights), 0.9, 0.2)
    repeated = entrywise.plane(loss.formula, SearchLine(x[again], None, d[again], fixed(o[again]), None), 0.9, 0.2)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_a_sum_of_a_hundred_million_float32_terms_keeps_its_digits():
    """Added up in float32 they would stop growing at 2**24 times their size."""
    n = 100_000_000
    predicted, targets = np.zeros(n, np.float32), np.full(n, 0.1, np.float32)
    targets[::3] = 0.7
    value, norm, inner = entrywise.evaluate(Square().formula, predicted, None, targets, None, predicted)
    few, many = np.float64(np.float32(0.7)), np.float64(np.float32(0.1))
    thirds = len(range(0, n, 3))
    wanted = thirds * few**2 + (n - thirds) * many**2
    assert value == pytest.approx(0.5 * wanted, rel=2e-9) and norm == pytest.approx(wanted, rel=2e-9)
    assert inner == 0.0 and predicted[0] == np.float32(-0.7)
