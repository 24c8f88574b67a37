"""An observed matrix equals its dense twin however it is built, never changes, and refuses bad input in a sentence."""

import pickle
import re

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import random_pattern
from hypothesis import given, settings
from hypothesis import strategies as st

import rankwise as rw
from rankwise.observations import Observations, build, cut_rows
from rankwise.observations.labels import LabelIndex
from rankwise.observations.shards import MAX_SHARD, MIN_SHARD, N_SHARDS, PER_ROW, shard_work


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.fixture
def dense(rng):
    """An array with NaN at unknown entries; row 2, column 4, the first and the last row have no entry."""
    array = np.full((9, 7), np.nan)
    rows, cols = random_pattern(rng, array.shape, 0.5)
    array[rows, cols] = rng.normal(size=rows.size)
    array[[0, 2, -1]], array[:, 4] = np.nan, np.nan
    return array


def is_as(observations, dense):
    """Assert that the observations are exactly the entries of `dense` that are not NaN, in row order."""
    rows, cols = np.nonzero(~np.isnan(dense))
    assert observations.shape == dense.shape
    assert observations.n_observed == rows.size
    np.testing.assert_array_equal(observations.rows, rows)
    np.testing.assert_array_equal(observations.cols, cols)
    np.testing.assert_array_equal(observations.targets, dense[rows, cols])
    np.testing.assert_array_equal(observations.indptr, np.r_[0, np.cumsum((~np.isnan(dense)).sum(axis=1))])
    assert (observations.indptr.dtype, observations.indices.dtype) == (np.uint64, np.uint32)
    return True


def entries_of(dense, rng=None):
    """Rows, columns and values of the known entries, shuffled if given a generator."""
    rows, cols = np.nonzero(~np.isnan(dense))
    order = np.arange(rows.size) if rng is None else rng.permutation(rows.size)
    return rows[order], cols[order], dense[rows, cols][order]


def as_csr(dense):
    """SciPy twin that stores the known entries, zeros included."""
    rows, cols, values = entries_of(dense)
    return sp.csr_array((values, (rows, cols)), shape=dense.shape)


# However it is built, it is the same.


def test_the_order_of_coordinates_does_not_matter(dense, rng):
    assert is_as(Observations.from_coo(*entries_of(dense, rng), dense.shape), dense)


@settings(max_examples=50, deadline=None)
@given(n_rows=st.integers(1, 12), n_cols=st.integers(1, 12), density=st.floats(0, 1), seed=st.integers(0, 999))
def test_any_pattern_in_any_order_is_sorted_right(n_rows, n_cols, density, seed):
    rng = np.random.default_rng(seed)
    dense = np.full((n_rows, n_cols), np.nan)
    rows, cols = random_pattern(rng, dense.shape, density)
    dense[rows, cols] = rng.normal(size=rows.size)
    assert is_as(Observations.from_coo(*entries_of(dense, rng), dense.shape), dense)


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64, np.uint8, np.uint64, list, tuple])
def test_indices_may_be_integers_of_any_kind(dense, rng, kind):
    convert = kind if kind in (list, tuple) else lambda array: array.astype(kind)
    rows, cols, values = entries_of(dense, rng)
    assert is_as(Observations.from_coo(convert(rows), convert(cols), values, dense.shape), dense)


def test_without_a_shape_the_largest_indices_decide():
    assert Observations.from_coo([4, 1], [2, 6], [1.0, 2.0]).shape == (5, 7)
    assert Observations.from_coo(np.array([255], np.uint8), np.array([127], np.int8), [1.0]).shape == (256, 128)


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        (np.array([1, 0, 3], np.float32), np.float32),
        (np.array([1, 0, 3], ">f8"), np.float64),
        (np.array([1, 0, 3], np.float16), np.float64),
        (np.array([1, 0, 3], np.int32), np.float64),
        (np.array([1, 0, 3], np.uint8), np.float64),
        (np.array([True, False, True]), np.float64),
        ([1, 0, 3], np.float64),
        ((True, 0, 2.5), np.float64),
    ],
)
def test_values_of_any_real_kind_become_floats(values, kept):
    found = Observations.from_coo([0, 1, 2], [0, 0, 0], values).targets
    assert found.dtype == kept
    np.testing.assert_array_equal(found, np.asarray(values, float))


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "lil", "dok", "bsr"])
@pytest.mark.parametrize("kind", [sp.coo_array, sp.coo_matrix], ids=["array", "matrix"])
def test_scipy_matrices_of_any_layout(dense, layout, kind):
    dense[np.isnan(dense) & (layout == "bsr")] = 0.0  # blocks store all their entries
    assert is_as(Observations.from_sparse(kind(as_csr(dense)).asformat(layout)), dense)


def test_explicit_zeros_are_observed(dense):
    known = np.flatnonzero(~np.isnan(dense))
    dense.flat[known[::2]] = 0.0
    for twin in (as_csr(dense), as_csr(dense).tocsc(), as_csr(dense).tocoo()):
        assert is_as(Observations.from_sparse(twin), dense)


@pytest.mark.parametrize("width", [np.int32, np.int64])
def test_unsorted_rows_are_sorted_and_the_callers_matrix_is_left_alone(dense, rng, width):
    twin = as_csr(dense)
    for lo, hi in zip(twin.indptr[:-1], twin.indptr[1:], strict=True):
        order = lo + rng.permutation(hi - lo)
        twin.indices[lo:hi], twin.data[lo:hi] = twin.indices[order], twin.data[order]
    twin.has_sorted_indices = False
    twin.indices, twin.indptr = twin.indices.astype(width), twin.indptr.astype(width)
    before = twin.indices.copy(), twin.data.copy()
    assert is_as(Observations.from_sparse(twin), dense)
    np.testing.assert_array_equal(twin.indices, before[0])
    np.testing.assert_array_equal(twin.data, before[1])


@pytest.mark.parametrize("layout", [sp.coo_array, sp.csr_array])
def test_repeats_in_scipy_matrices_are_never_added_up_in_silence(layout):
    triplets = (np.array([1.0, 3.0, 7.0]), (np.array([0, 0, 1]), np.array([2, 2, 0])))
    twin = sp.coo_array(triplets, shape=(2, 3))
    if layout is sp.csr_array:
        twin = sp.csr_array((triplets[0], triplets[1][1], np.array([0, 2, 3])), shape=(2, 3))
    with pytest.raises(rw.DataError, match=r"\(row 0, column 2\) is given more than once"):
        Observations.from_sparse(twin)
    np.testing.assert_array_equal(Observations.from_sparse(twin, duplicates="mean").targets, [2.0, 7.0])
    np.testing.assert_array_equal(Observations.from_sparse(twin, duplicates="last").targets, [3.0, 7.0])


def test_dense_arrays_with_nan(dense):
    assert is_as(Observations.from_dense(dense), dense)
    assert is_as(Observations.from_dense(dense.tolist()), dense)
    assert is_as(Observations.from_dense(np.asfortranarray(dense)), dense)


@pytest.mark.parametrize("kind", [int, bool, np.float32])
def test_dense_arrays_without_nan_are_fully_observed(rng, kind):
    array = rng.integers(0, 2, (4, 3)).astype(kind)
    assert is_as(Observations.from_dense(array), array.astype(float))


@pytest.mark.parametrize("build", [Observations.from_dense, Observations.from_any], ids=["from_dense", "from_any"])
@pytest.mark.parametrize("kind", [float, int])
def test_masked_entries_are_unknown(rng, build, kind):
    array, mask = rng.integers(1, 9, (5, 4)), rng.random((5, 4)) < 0.4
    assert is_as(build(np.ma.masked_array(array.astype(kind), mask)), np.where(mask, np.nan, array))


def test_masked_and_nan_entries_are_both_unknown():
    array = np.ma.masked_array([[1.0, np.nan], [3.0, 4.0]], [[False, False], [True, False]])
    assert is_as(Observations.from_any(array), np.array([[1.0, np.nan], [np.nan, 4.0]]))


DAYS = np.array(["2020-01-03", "2020-01-01", "2021-01-01", "1999-01-01"], "M8[D]")


@pytest.mark.parametrize(
    ("row_names", "col_names"),
    [
        (["zoe", "al", "bo"], ["x", "a", "m", "b"]),
        ([30, -4, 7], [2.5, 0.5, 10.0, -1.0]),
        (np.array(["zoe", "al", "bo"], object), DAYS),
    ],
    ids=["text", "numbers", "objects and dates"],
)
def test_labels_are_numbered_in_sorted_order(rng, row_names, col_names):
    row_names, col_names = np.asarray(row_names), np.asarray(col_names)
    rows, cols = random_pattern(rng, (3, 4), 0.7)
    values = rng.normal(size=rows.size)
    found = Observations.from_labels(row_names[rows], col_names[cols], values)
    assert found.shape == (len(set(rows)), len(set(cols)))
    for labels in (found.row_labels, found.col_labels):
        assert np.all(labels[:-1] < labels[1:])
    given = dict(zip(zip(row_names[rows], col_names[cols], strict=True), values, strict=True))
    kept = zip(found.row_labels[found.rows], found.col_labels[found.cols], strict=True)
    assert dict(zip(kept, found.targets, strict=True)) == given


def test_from_any_knows_what_it_is_given(dense):
    observations = Observations.from_dense(dense)
    assert Observations.from_any(observations) is observations
    for data in (dense, dense.tolist(), tuple(map(tuple, dense)), as_csr(dense), sp.csc_matrix(as_csr(dense))):
        assert is_as(Observations.from_any(data), dense)


@pytest.mark.parametrize("data", ["ratings.csv", {"a": 1}, None, 3.0, iter([1])], ids=lambda data: type(data).__name__)
def test_from_any_says_what_it_takes(data):
    sentence = rf"^Cannot read observations from {type(data).__name__}: give a SciPy sparse matrix, a NumPy array"
    with pytest.raises(rw.DataError, match=sentence):
        Observations.from_any(data)


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_sparse_matrices_that_are_nearly_all_empty_are_refused_in_every_form(form):
    huge = sp.coo_array(([1.0], ([0], [30_000_000])), shape=(2, 30_000_001)).asformat(form)
    with pytest.raises(rw.DataError, match="nearly all empty"):
        Observations.from_sparse(huge)


# Repeated pairs.


@pytest.fixture
def repeated(rng):
    """Rows, columns, values and weights in which most pairs come several times."""
    rows, cols = rng.integers(0, 4, 60), rng.integers(0, 3, 60)
    return rows, cols, rng.normal(size=60), rng.uniform(0.1, 3.0, 60)


def groups(repeated):
    """Values and weights of each pair, in the order given, by (row, column)."""
    found = {}
    for row, col, value, weight in zip(*repeated, strict=True):
        found.setdefault((row, col), []).append((value, weight))
    return {pair: np.array(copies).T for pair, copies in sorted(found.items())}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_mean_and_last_of_repeated_pairs(repeated, weighted, kind):
    rows, cols, values, weights = repeated
    values = values.astype(kind)
    options = {"weights": weights} if weighted else {}
    expected = groups((rows, cols, values, weights if weighted else np.ones(60)))
    for duplicates, merge in (
        ("mean", lambda value, weight: (np.average(value, weights=weight), weight.sum())),
        ("last", lambda value, weight: (value[-1], weight[-1])),
    ):
        found = Observations.from_coo(rows, cols, values, duplicates=duplicates, **options)
        assert list(zip(found.rows, found.cols, strict=True)) == list(expected)
        targets, total = np.transpose([merge(*copies) for copies in expected.values()])
        assert found.targets.dtype == kind
        np.testing.assert_allclose(found.targets, targets, rtol=0, atol=10 * np.finfo(kind).eps)
        if weighted:
            np.testing.assert_allclose(found.weights, total, rtol=1e-14)
        else:
            assert found.weights is None


def test_merging_by_weighted_mean_leaves_the_square_loss_its_minimum(repeated):
    """sum_k w_k (x - o_k)**2 / 2 and its merged twin differ by a constant, so they have the same slope everywhere."""
    rows, cols, values, weights = repeated
    merged = Observations.from_coo(rows, cols, values, weights=weights, duplicates="mean")
    slopes = np.zeros(merged.shape)
    np.add.at(slopes, (rows, cols), weights * (0.3 - values))
    np.testing.assert_allclose(merged.weights * (0.3 - merged.targets), slopes[merged.rows, merged.cols], atol=1e-12)


@pytest.mark.parametrize("duplicates", ["mean", "last", "error"])
def test_copies_that_weigh_nothing_are_as_good_as_not_there(duplicates):
    rows, weights = [0, 0, 1, 1, 2, 2], [0, 0, 2, 0, 0, 3]
    found = Observations.from_coo(rows, [0] * 6, np.arange(6.0), weights=weights, duplicates=duplicates)
    assert found.shape == (3, 1) and found.rows.tolist() == [1, 2]
    assert found.targets.tolist() == [2.0, 5.0] and found.weights.tolist() == [2.0, 3.0]


def test_weights_follow_their_entries(dense, rng):
    rows, cols, values = entries_of(dense, rng)
    found = Observations.from_coo(rows, cols, values, dense.shape, weights=10 * np.abs(values))
    np.testing.assert_array_equal(found.weights, 10 * np.abs(found.targets))


@pytest.mark.parametrize("build", ["from_coo", "from_sparse"])
def test_an_unknown_word_for_duplicates_is_refused(build, dense):
    arguments = entries_of(dense) if build == "from_coo" else [as_csr(dense)]
    with pytest.raises(rw.SettingError, match="`duplicates` must be one of 'error', 'mean', 'last', got 'first'"):
        getattr(Observations, build)(*arguments, duplicates="first")


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
def test_a_misspelt_option_is_never_swallowed(dense, layout):
    with pytest.raises(TypeError, match="wieghts"):
        Observations.from_sparse(as_csr(dense).asformat(layout), wieghts=np.ones(3))


# Nothing changes it, and it changes nothing.


PARTS = ("indptr", "indices", "targets", "weights", "row_labels", "col_labels")


@pytest.fixture
def labelled():
    return Observations.from_labels(["b", "a"], ["x", "y"], [1.0, 2.0], weights=[1.0, 2.0])


@pytest.mark.parametrize("part", PARTS)
def test_the_arrays_cannot_be_written(labelled, part):
    array = getattr(labelled, part)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = array[1]


def test_no_part_can_be_exchanged(labelled):
    for part in ("shape", *PARTS):
        with pytest.raises(AttributeError):
            setattr(labelled, part, None)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_callers_arrays_stay_as_they_were(dtype):
    rows, cols, names = np.array([0, 1, 2], np.uint32), np.array([2, 1, 0], np.uint32), np.array(["a", "b", "c"])
    values, weights = np.array([1, 2, 3], dtype), np.array([1, 1, 2], dtype)
    given = (rows, cols, values, weights, names)
    before = [array.copy() for array in given]
    found = Observations.from_coo(rows, cols, values, weights=weights, labels=(names, names))
    twin = sp.csr_array((values, cols, np.arange(4, dtype=np.uint64)), shape=(3, 3))
    from_csr = Observations.from_sparse(twin)
    for array, old in zip(given, before, strict=True):
        np.testing.assert_array_equal(array, old)
        assert array.flags.writeable
        array[0] = array[1]  # what the caller does later is no concern of the observations
    assert twin.data.flags.writeable and twin.indices.flags.writeable and twin.indptr.flags.writeable
    np.testing.assert_array_equal(found.targets, before[2])
    np.testing.assert_array_equal(found.weights, before[3])
    np.testing.assert_array_equal(found.row_labels, before[4])
    np.testing.assert_array_equal(from_csr.targets, before[2])
    np.testing.assert_array_equal(from_csr.cols, before[1])


# Bad input: one sentence that says what, where, and what to do.


ONE, TWO = [0], [0, 1]
BAD = {
    "nan value": ((TWO, TWO, [1.0, np.nan]), {}, r"^1 of 2 values are not finite \(first: nan at entry 1\); leave out"),
    "infinite value": ((TWO, TWO, [-np.inf, np.inf]), {}, r"^2 of 2 values are not finite \(first: -inf at entry 0\)"),
    "row too large": (([0, 5], TWO, TWO), {"shape": (3, 3)}, "^The row index 5 at entry 1 is outside .* 3 rows"),
    "column too large": ((TWO, [7, 1], TWO), {"shape": (3, 3)}, "^The column index 7 at entry 0 .* 3 columns"),
    "negative row": (([0, -2], TWO, TWO), {}, "^The row index -2 at entry 1 is negative; indices start at 0"),
    "negative int8": ((np.array([0, -2], np.int8), TWO, TWO), {}, "^The row index -2 at entry 1 is negative"),
    "negative column": ((TWO, [-1, 1], TWO), {"shape": (2, 2)}, "^The column index -1 at entry 0 is negative"),
    "float index": (([0.0, 1.0], TWO, TWO), {}, r"^The row indices must be integers, got float64; .*from_labels"),
    "bool index": ((TWO, [True, False], TWO), {}, r"^The column indices must be integers, got bool; .*from_labels"),
    "text index": ((["a", "b"], TWO, TWO), {}, r"^The row indices must be integers, got <U1; .*from_labels"),
    "repeated pair": (([0, 1, 1], [0, 2, 2], [1, 2, 3]), {}, r'\(row 1, column 2\) .* once; pass duplicates="mean" or'),
    "no entries": (([], [], []), {}, r"^The matrix of shape \(0, 0\) has no observed entry; there is nothing to learn"),
    "no entries, a shape": (([], [], []), {"shape": (4, 5)}, r"^The matrix of shape \(4, 5\) has no observed entry"),
    "fewer columns": ((TWO, ONE, TWO), {}, "^There are 2 row indices but 1 column indices; give pairs"),
    "fewer values": ((TWO, TWO, ONE), {}, r"^There are 2 entries but the values have shape \(1,\); give one per entry"),
    "two-dimensional rows": (([[0, 1]], TWO, TWO), {}, r"^The row indices must be one-dimensional, got shape \(1, 2\)"),
    "two-dimensional values": ((TWO, TWO, [[1, 2]]), {}, r"^There are 2 entries but the values have shape \(1, 2\)"),
    "text values": ((TWO, TWO, ["1", "2"]), {}, "^The values must be real numbers, got <U1"),
    "complex values": ((TWO, TWO, [1j, 2.0]), {}, "^The values must be real numbers, got complex128"),
    "object values": ((TWO, TWO, [None, 2.0]), {}, "^The values must be real numbers, got object"),
    "fewer weights": ((TWO, TWO, TWO), {"weights": ONE}, r"^There are 2 entries but the weights have shape \(1,\)"),
    "negative weight": ((TWO, TWO, TWO), {"weights": [1, -0.5]}, "^The weight -0.5 at entry 1 is negative; .* or more"),
    "nan weight": ((TWO, TWO, TWO), {"weights": [np.nan, 1]}, "^1 of 2 weights are not finite .*nan at entry 0"),
    "zero weights": ((TWO, TWO, TWO), {"weights": [0, 0]}, "^All weights are zero, .* give at least one entry"),
    "shape is a number": ((ONE, ONE, ONE), {"shape": 3}, r"^`shape` must be a pair \(n_rows, n_cols\), got 3"),
    "shape of three": ((ONE, ONE, ONE), {"shape": (1, 2, 3)}, r"^`shape` must be a pair .*, got \(1, 2, 3\)"),
    "negative shape": ((ONE, ONE, ONE), {"shape": (-1, 2)}, r"^`shape` must not be negative, got \(-1, 2\)"),
    "fractional shape": ((ONE, ONE, ONE), {"shape": (2.7, 3)}, r"^`shape` must .*got \(2\.7, 3\)"),
    "shape too large": ((ONE, ONE, ONE), {"shape": (2**33, 2)}, "^8589934592 rows are more than the 4,294,967,295"),
    "index too large": ((np.array([2**63], np.uint64), ONE, ONE), {}, "rows are more than the 4,294,967,295"),
    "fewer labels": ((TWO, TWO, TWO), {"labels": (["a"], None)}, r"^There are 2 rows but .* labels have shape \(1,\)"),
    "repeated label": ((TWO, TWO, TWO), {"labels": (None, ["a", "a"])}, "column label.*a.*more than once"),
}


def refuses(build, sentence):
    with pytest.raises(rw.DataError, match=sentence) as caught:
        build()
    assert re.fullmatch(r"[^\n]+\.", str(caught.value))


@pytest.mark.parametrize(("arguments", "options", "sentence"), BAD.values(), ids=BAD)
def test_bad_coordinates_are_refused_in_one_sentence(arguments, options, sentence):
    refuses(lambda: Observations.from_coo(*arguments, **options), sentence)


BAD_DATA = {
    "vector": ([1.0, 2.0], r"^A two-dimensional array is needed, got shape \(2,\)"),
    "cube": (np.ones((2, 2, 2)), r"^A two-dimensional array is needed, got shape \(2, 2, 2\)"),
    "ragged": ([[1.0, 2.0], [3.0]], "two-dimensional"),
    "text": (np.array([["a"]]), "^An array of real numbers with NaN for unknown entries is needed, got <U1"),
    "masked text": (np.ma.masked_array([["a", "b"]], [[True, False]]), "^An array of real numbers with NaN"),
    "complex": (np.array([[1j]]), "^Complex data not supported: an array of real numbers is needed, got complex128"),
    "infinite": (np.array([[1.0, np.nan, np.inf]]), r"^1 of 2 values are not finite \(first: inf at entry 1\)"),
    "all nan": (np.full((2, 3), np.nan), r"^The matrix of shape \(2, 3\) has no observed entry"),
    "all masked": (np.ma.masked_all((2, 3)), r"^The matrix of shape \(2, 3\) has no observed entry"),
    "no columns": (
        np.zeros((3, 0)),
        r"^The array has 0 feature\(s\) \(shape=\(3, 0\)\) while a minimum",
    ),
    "nothing stored": (sp.csr_array((3, 4)), r"^The matrix of shape \(3, 4\) has no observed entry"),
    "nan stored": (sp.csr_array(np.array([[1.0, np.nan]])), r"^1 of 2 values are not finite \(first: nan at entry 1\)"),
    "nan stored, csc": (sp.csc_array(np.array([[1.0, np.nan]])), "^1 of 2 values are not finite"),
    "complex stored": (sp.csr_array(np.array([[1j]])), "^The values must be real numbers, got complex128"),
    "sparse vector": (sp.coo_array(np.ones(3)), r"two-dimensional.*\(3,\)"),
    "compressed vector": (sp.csr_array(np.ones(3)), r"two-dimensional.*\(3,\)"),
}


@pytest.mark.parametrize(("data", "sentence"), BAD_DATA.values(), ids=BAD_DATA)
def test_bad_matrices_are_refused_in_one_sentence(data, sentence):
    refuses(lambda: Observations.from_any(data), sentence)


@pytest.mark.parametrize(
    "missing", [np.array([np.nan, 1.0]), np.array([np.nan, 1.0], object), np.array(["NaT"], "M8[D]")]
)
def test_missing_labels_are_refused_in_one_sentence(missing):
    n = missing.size
    refuses(lambda: Observations.from_labels(missing, range(n), np.ones(n)), "^Some row labels are missing")
    refuses(
        lambda: Observations.from_coo(range(n), range(n), np.ones(n), labels=(None, missing)), "^Some column labels"
    )


@pytest.mark.parametrize("kind", ["u1", "u4", "u8", "i1", "i8"])
def test_numbers_of_any_type_that_are_outside_are_unknown(kind):
    found = LabelIndex(None, 3, "row").positions(np.array([0, 2, 3, 100], kind))
    assert found.dtype == np.int64 and found.tolist() == [0, 2, -1, -1]
    model = rw.MatrixCompletion("square", rank=1).fit(np.arange(6.0).reshape(3, 2))
    refuses(lambda: model.predict_entries(np.array([100], kind), [0]), "^The row 100 is outside the model")


def test_labels_that_cannot_be_sorted_are_refused_in_one_sentence():
    refuses(lambda: Observations.from_coo([0, 1], [0, 0], [1.0, 2.0], labels=(np.array(["a", 1], object), None)), "row")
    refuses(lambda: Observations.from_labels(["a", None], ["x", "y"], [1.0, 2.0]), "row labels")


@pytest.mark.parametrize("mixed", [[1, "1"], ("a", 1), ["a", np.nan], [b"a", 1]], ids=repr)
def test_lists_of_labels_are_not_made_text_behind_your_back(mixed):
    refuses(lambda: Observations.from_labels(mixed, ["x", "y"], [1.0, 2.0]), "row labels mix types")
    refuses(lambda: Observations.from_coo([0], [0], [1.0], (2, 2), labels=(None, mixed)), "column labels mix types")


def test_targets_outside_the_domain_are_refused_at_the_front_door():
    with pytest.raises(rw.DataError, match=r"Logistic needs targets that are -1 or \+1; 2 of 4 .* For 0 and 1 use"):
        rw.MatrixCompletion(loss="logistic").fit(np.eye(2))


# Parts and twins.


@pytest.mark.parametrize("weighted", [False, True])
def test_take_keeps_the_chosen_entries_and_everything_else_as_it_was(dense, rng, weighted):
    rows, cols, values = entries_of(dense)
    names = (np.array([f"r{i}" for i in range(9)]), np.arange(7) * 10)
    options = {"weights": np.abs(values)} if weighted else {}
    whole = Observations.from_coo(rows, cols, values, dense.shape, labels=names, **options)
    mask = rng.random(rows.size) < 0.5
    expected = dense.copy()
    expected[rows[~mask], cols[~mask]] = np.nan
    for chosen in (mask, np.flatnonzero(mask), rng.permutation(np.flatnonzero(mask))):
        part = whole.take(chosen)
        assert is_as(part, expected)
        np.testing.assert_array_equal(part.row_labels, names[0])
        np.testing.assert_array_equal(part.col_labels, names[1])
        assert (part.weights is None) == (not weighted)
        assert not weighted or np.array_equal(part.weights, np.abs(part.targets))


@pytest.mark.parametrize("weighted", [False, True])
def test_transposing_exchanges_rows_and_columns_and_twice_is_the_identity(dense, rng, weighted):
    given = Observations.from_dense(dense)
    weights = rng.random(given.n_observed) if weighted else None
    labels = [f"row {i}" for i in range(given.shape[0])], np.arange(given.shape[1]) * 7
    given = Observations.from_coo(given.rows, given.cols, given.targets, given.shape, weights=weights, labels=labels)
    turned = given.transposed()
    assert turned.shape == given.shape[::-1]
    assert np.array_equal(turned.to_sparse().toarray(), given.to_sparse().toarray().T)
    assert np.array_equal(turned.row_labels, given.col_labels) and np.array_equal(turned.col_labels, given.row_labels)
    again = turned.transposed()
    assert again.shape == given.shape
    for part in ("indptr", "indices", "targets", "weights", "row_labels", "col_labels"):
        one, other = getattr(given, part), getattr(again, part)
        assert (one is None and other is None) or (np.array_equal(one, other) and one.dtype == other.dtype)


def test_nothing_taken_leaves_nothing_to_learn_from(dense):
    refuses(lambda: Observations.from_dense(dense).take([]), "no observed entry")


def test_take_refuses_a_mask_of_another_length(dense):
    with pytest.raises((rw.DataError, IndexError)):
        Observations.from_dense(dense).take(np.array([True, False]))


def test_to_sparse_is_the_way_back(dense):
    dense[~np.isnan(dense)] *= np.arange((~np.isnan(dense)).sum()) % 3 > 0  # with explicit zeros
    found = Observations.from_dense(dense)
    twin = found.to_sparse()
    assert is_as(Observations.from_sparse(twin), dense)
    np.testing.assert_array_equal(twin.toarray(), np.nan_to_num(dense))
    twin.data[:] = 7.0  # the caller's own copy
    assert is_as(found, dense)


def test_repr_says_sizes_at_a_glance():
    found = Observations.from_coo([0, 3], [0, 1], [1.0, 2.0], (4, 5), weights=[1, 1])
    assert repr(found) == "Observations(4 x 5, 2 observed, 10.000%, weighted)"


# Shards are cut by the data alone.


def row_starts(counts):
    return np.r_[0, np.cumsum(counts)].astype(np.uint64)


CUTS = {
    "small": (np.full(100, 5), 40),
    "one row": (np.array([10]), 10),
    "even": (np.full(20_000, 100), 500),
    "random": (np.random.default_rng(0).integers(0, 400, 10_000), 400),
    "empty rows": (np.random.default_rng(1).choice([0, 0, 0, 900], 10_000), 1000),
    "empty ends": (np.r_[np.zeros(5000), np.full(3000, 300), np.zeros(5000)].astype(int), 300),
    "one long row": (np.r_[np.full(1000, 10), 2_000_000, np.full(1000, 10)], 2_000_000),
    "many columns": (np.full(32_000, 10), 100_000),
    "more columns than entries": (np.full(30_000, 10), 10_000_000),
    "huge": (np.full(200_000, 1000), 1000),
}


@pytest.mark.parametrize(("counts", "n_cols"), CUTS.values(), ids=CUTS)
class TestCuts:
    def test_shards_cover_all_rows_once(self, counts, n_cols):
        cuts = cut_rows(row_starts(counts), n_cols)
        assert (cuts[0], cuts[-1]) == (0, counts.size)
        assert np.all(np.diff(cuts) > 0)

    def test_shards_are_near_the_wanted_size_unless_a_row_is_longer(self, counts, n_cols):
        wanted = max(min(max(counts.sum() // N_SHARDS, MIN_SHARD), MAX_SHARD), 2 * n_cols)
        starts = row_starts(counts).astype(int)
        sizes = np.diff(starts[cut_rows(row_starts(counts), n_cols)])
        assert sizes.max() <= 2 * wanted + counts.max()
        assert len(sizes) <= max(1, counts.sum() / (0.6 * wanted) + 1)

    def test_column_sums_cost_less_to_add_than_to_make(self, counts, n_cols):
        n_shards = cut_rows(row_starts(counts), n_cols).size - 1
        assert n_shards == 1 or counts.sum() / n_shards >= 2 * n_cols

    def test_a_cut_is_the_first_row_that_begins_where_its_share_of_the_work_does_or_later(self, counts, n_cols):
        """One row later would be as good a cut; but cuts decide bits, and files of shards have theirs."""
        starts, n = row_starts(counts).astype(int), int(counts.sum())
        n_shards = n // min(max(n // N_SHARDS, MIN_SHARD, 2 * n_cols), max(MAX_SHARD, 2 * n_cols))
        n_shards = max(1, n_shards // 4 * 4 if n_shards >= 4 else n_shards // 2 * 2)
        work = starts + min(PER_ROW, n // counts.size) * np.arange(counts.size + 1)
        rows = [int(np.argmax(work >= k * int(work[-1]) // n_shards)) for k in range(1, n_shards)]
        firsts = {int(starts[row]): row for row in reversed(rows)}  # two cuts without an entry between them are one
        inner = [row for start, row in firsts.items() if 0 < start < n]
        assert cut_rows(row_starts(counts), n_cols).tolist() == sorted({0, *inner, counts.size})

    def test_no_shard_is_without_entries(self, counts, n_cols):
        starts = row_starts(counts).astype(int)
        assert np.all(np.diff(starts[cut_rows(row_starts(counts), n_cols)]) > 0)


@pytest.mark.usefixtures("small_shards")
def test_short_rows_are_spread_over_more_shards_than_their_entries_alone_would_be():
    counts = np.r_[np.full(1000, 400), np.full(50_000, 4)]
    cuts = cut_rows(row_starts(counts), 1000)
    assert np.diff(cuts)[-1] < 20_000 and np.diff(row_starts(counts)[cuts].astype(int)).max() <= 2 * counts.sum() / (
        cuts.size - 1
    )


@pytest.mark.usefixtures("small_shards")
def test_cuts_do_not_depend_on_threads():
    rows, cols = np.divmod(np.arange(300_000), 300)
    observations = Observations.from_coo(rows, cols, np.ones(rows.size))
    cuts = [
        [(shard.start, shard.stop) for shard in rw.Problem(observations, "square", n_jobs=n_jobs).engine.shards]
        for n_jobs in (1, 2, 4)
    ]
    assert len(cuts[0]) > 2
    assert cuts[0] == cuts[1] == cuts[2]


def test_small_data_are_one_shard_and_large_data_are_many():
    assert cut_rows(row_starts(np.full(1000, 60)), 100).tolist() == [0, 1000]
    assert cut_rows(row_starts(np.full(200_000, 1000)), 1000).size - 1 > N_SHARDS


def test_a_pickle_brings_back_equal_read_only_arrays():
    shape = (2, 3)
    before = Observations.from_coo(
        [0, 0, 1], [1, 2, 0], [1.0, 2.0, 3.0], shape, weights=[1.0, 2.0, 3.0], labels=(["a", "b"], None)
    )
    after = pickle.loads(pickle.dumps(before))
    for name in ("indptr", "indices", "targets", "weights", "row_labels"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
        assert not getattr(after, name).flags.writeable
    assert after.shape == shape and after.col_labels is None
    with pytest.raises(AttributeError, match="never change"):
        after.shape = (9, 9)


def test_rows_are_taken_in_the_order_asked_for():
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((8, 5)) < 0.5, rng.normal(size=(8, 5)), np.nan)
    rows, cols = np.nonzero(~np.isnan(dense))
    labels = [f"r{i}" for i in range(8)]
    seen = Observations.from_coo(rows, cols, dense[rows, cols], (8, 5), weights=1.0 + rows, labels=(labels, None))
    for wanted in ([3, 0, 3 + 2], np.arange(8) % 2 == 0, np.arange(7, -1, -1, dtype=np.uint8)):
        numbers = np.flatnonzero(wanted) if np.asarray(wanted).dtype == bool else np.asarray(wanted)
        found = seen.take_rows(wanted)
        assert found.row_labels.tolist() == [labels[i] for i in numbers]
        again = np.full(found.shape, np.nan)
        again[found.rows, found.cols] = found.targets
        np.testing.assert_array_equal(again, dense[numbers])
        np.testing.assert_array_equal(found.weights, 1.0 + numbers[found.rows])
    for wrong in ([8], [-1], [0.5], np.ones(7, bool), 3):
        with pytest.raises(rw.DataError, match="mask or integers from 0 to 7"):
            seen.take_rows(wrong)


def test_weights_add_up():
    seen = Observations.from_coo([0, 0, 2], [0, 1, 1], [1.0, 2.0, 3.0], (3, 2), weights=[2.0, 0.0, 0.5])
    assert seen.total_weight == 2.5 and seen.row_weights().tolist() == [2.0, 0.0, 0.5]
    assert seen.weighted().n_observed == 2 and seen.weighted().shape == (3, 2)
    plain = Observations.from_coo([0, 0, 2], [0, 1, 1], [1.0, 2.0, 3.0])
    assert plain.total_weight == 3 and plain.row_weights().tolist() == [2.0, 0.0, 1.0] and plain.weighted() is plain


def test_shards_of_short_rows_take_as_long_as_those_of_long_ones():
    """So that workers that are dealt as many of them are done at the same time."""
    counts = np.r_[np.full(200_000, 2), np.full(4_000, 400)]
    indptr = row_starts(counts)
    cuts = cut_rows(indptr, 1000)
    sizes = np.diff(indptr[cuts].astype(np.int64)).tolist()
    work = np.array(shard_work(sizes, cuts))
    assert max(sizes) > 2 * min(sizes) and work.max() < 1.01 * work.min()
    assert work.sum() == counts.sum() + PER_ROW * counts.size


@pytest.mark.parametrize(
    ("rows", "disorder"),
    [
        ([[0, 1, 4], [], [4]], -1),
        ([[0, 1], [1, 2]], -1),  # the same column at a row's end and the next one's start is no repeat
        ([[], [3, 3]], 1),
        ([[0], [1, 2, 2, 5, 5]], 3),
        ([[0], [2, 1]], 2),
        ([[5], [0], []], -1),
        ([[], [], [7]], -1),
    ],
)
def test_repeats_and_disorder_are_seen_within_rows_only(rows, disorder):
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.uint64)
    assert build.first_disorder(indptr, np.concatenate(rows).astype(np.uint32)) == disorder


def test_the_transpose_of_any_pattern_is_sorted():
    rng = np.random.default_rng(0)
    seen = rw.Observations.from_dense(np.where(rng.random((40, 30)) < 0.2, rng.normal(size=(40, 30)), np.nan))
    turned, expected = seen.transposed(), seen.to_sparse().T.tocsr()
    expected.sort_indices()
    np.testing.assert_array_equal(turned.indptr, expected.indptr)
    np.testing.assert_array_equal(turned.indices, expected.indices)
    np.testing.assert_array_equal(turned.targets, expected.data)
