"""Eight lanes at once give what their plain twins give, and small systems are solved as LAPACK solves them."""

import numpy as np
import pytest
from numba import uint64

from rankwise.kernels import lanes
from rankwise.kernels import ldl as positive
from rankwise.kernels.jit import jit

KINDS = [np.float32, np.float64]
needs_numpy_2 = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.0.0",
    reason="plain Python adds signed and unsigned integers as floats before NumPy 2; compiled code does not",
)


@jit
def every_operation(one, other, places, x, at, out, sums, wide):
    """Each of the operations once, on eight numbers from place `at` on."""
    lanes.fetch(one, at)  # shows in nothing but the time
    a, b = lanes.load(one, at), lanes.load(other, at)
    lanes.store(out, uint64(0), lanes.zeros(one))
    lanes.store(out, uint64(8), a)
    lanes.store(out, uint64(16), lanes.times(x, a))
    lanes.store(out, uint64(24), lanes.add(a, a, b))
    lanes.store(out, uint64(32), lanes.add_times(a, x, b))
    lanes.store(out, uint64(40), lanes.product(a, b))
    lanes.store(out, uint64(48), lanes.pick(one, places, at))
    lanes.accumulate(sums, at, a)
    lanes.scatter(sums, places, at, lanes.widen(b))
    lanes.store(wide, uint64(0), lanes.widen(b))
    return lanes.total(a)


@needs_numpy_2
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", [0, 3, 8])
def test_operations_equal_their_plain_twins(kind, at):
    rng = np.random.default_rng(at)
    one, other = rng.standard_normal((2, 16)).astype(kind)
    places = rng.integers(0, 16, 16).astype(np.uint32)  # some come twice: what is added there is added one by one
    results = []
    for operations in (every_operation, every_operation.py_func):
        out, sums, wide = np.full(56, 7, kind), np.ones(16), np.zeros(8)
        total = operations(one, other, places, kind(0.3), uint64(at), out, sums, wide)
        results.append((out, sums, wide, np.array([total])))
    for found, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=4 * np.finfo(kind).eps)
    np.testing.assert_allclose(results[0][3], one[at : at + 8].sum(dtype=float), rtol=20 * np.finfo(kind).eps)


def test_float32_joins_a_float64_sum_without_losing_digits():
    sums = np.full(8, 1e9)
    for _ in range(3):
        every_operation(
            np.full(16, 0.25, np.float32),
            np.zeros(16, np.float32),
            np.zeros(16, np.uint32),
            1.0,
            uint64(0),
            np.zeros(56, np.float32),
            sums,
            np.zeros(8),
        )
    np.testing.assert_array_equal(sums, 1e9 + 0.75)


@jit
def solve_positive(matrix, vector, n, width):
    """A kernel that calls `ldl.solve_positive`."""
    positive.solve_positive(matrix, vector, n, width)


@needs_numpy_2
@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 40, 130])
def test_positive_systems_are_solved(n, monkeypatch):
    rng = np.random.default_rng(n)
    width = -(-n // 8) * 8
    half = rng.standard_normal((n, n + 2))
    whole, right = half @ half.T + 0.1 * np.eye(n), rng.standard_normal(n)
    matrix, vector = np.zeros((width, width)), np.zeros(width)
    matrix[:n, :n], vector[:n] = np.triu(whole), right
    for solve in (solve_positive, positive.solve_positive.py_func):
        if solve is not solve_positive:  # what only kernels call has no way in from Python
            for name in ("factor", "scale_columns", "subtract_outer", "substitute"):
                monkeypatch.setattr(positive, name, getattr(positive, name).py_func)
        A, x = matrix.copy(), vector.copy()
        solve(A, x, uint64(n), uint64(width))
        np.testing.assert_allclose(x[:n], np.linalg.solve(whole, right), rtol=1e-9 * np.linalg.cond(whole) ** 0.5)
        inverses = np.diag(A)[:n].copy()
        factor = np.triu(A[:n, :n], 1) + np.diag(1 / inverses)
        np.testing.assert_allclose(factor.T @ (inverses[:, None] * factor), whole, rtol=1e-8, atol=1e-10)


def test_a_system_that_is_not_positive_has_no_solution():
    matrix, vector = np.diag(np.r_[np.ones(5), -1.0, 1.0, 1.0]), np.ones(8)
    solve_positive(matrix, vector, uint64(8), uint64(8))
    assert np.isnan(vector[5])


def test_what_is_below_the_diagonal_does_not_matter():
    rng = np.random.default_rng(0)
    half = rng.standard_normal((20, 22))
    whole, right = half @ half.T, rng.standard_normal(20)
    found = []
    for below in (0.0, 5.0):
        matrix, vector = np.zeros((24, 24)), np.zeros(24)
        matrix[:20, :20] = np.triu(whole) + below * np.tri(20, k=-1)
        vector[:20] = right
        solve_positive(matrix, vector, uint64(20), uint64(24))
        found.append(vector)
    np.testing.assert_array_equal(*found)


@jit
def scattered(values, places, at, sums):
    """Eight numbers added up wherever they belong."""
    lanes.scatter(sums, places, at, lanes.widen(lanes.load(values, at)))


@needs_numpy_2
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("places", [range(16), [5] * 16, [3, 0, 3, 9, 0, 3, 1, 2] * 2], ids=["apart", "one", "mixed"])
def test_numbers_are_added_where_they_belong_and_none_is_lost(places, kind):
    values, at = np.arange(1.0, 17.0).astype(kind), 4
    places = np.array(places, np.uint32)
    for scatter in (scattered, scattered.py_func):
        sums = np.zeros(16)
        scatter(values, places, uint64(at), sums)
        np.testing.assert_array_equal(sums, np.bincount(places[at : at + 8], values[at : at + 8], 16))
