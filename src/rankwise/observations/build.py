"""Validation of arrays and SciPy's sparse matrices, and sorting of their entries into a CSR pattern."""

import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._arrays import Array
from .._checks import check_choice
from .._errors import DataError, DataTypeError
from ..kernels import pattern

DUPLICATES = ("error", "mean", "last")
LabelPair = tuple[Array | None, Array | None]  # of the rows and of the columns
DAMAGED = "The {} matrix is damaged: {}; build it again, for example with `scipy.sparse.coo_array`."
HEAVIEST = 1e12  # largest weight, and the inverse of the smallest


def as_indices(indices: ArrayLike, size: int | None, axis: str, *, copy: bool = True) -> tuple[NDArray[np.uint32], int]:
    """Row or column numbers as uint32, and the number of rows or columns; by default the largest index plus one."""
    array = np.asarray(indices)
    if array.ndim != 1:
        raise DataError(f"The {axis} indices must be one-dimensional, got shape {array.shape}.")
    if array.size and array.dtype.kind not in "iu":
        raise DataError(
            f"The {axis} indices must be integers, got {array.dtype}; "
            "for labels of any type use `Observations.from_labels`."
        )
    array = array.astype(np.int64, copy=False) if array.dtype.kind == "i" else array
    if array.size and array.min() < 0:
        k = int(np.argmax(array < 0))
        raise DataError(f"The {axis} index {array[k]} at entry {k} is negative; indices start at 0.")
    if size is None:
        size = int(array.max()) + 1 if array.size else 0
    if array.size and array.max() >= size:
        k = int(np.argmax(array >= size))
        raise DataError(f"The {axis} index {array[k]} at entry {k} is outside a matrix with {size} {axis}s.")
    if size > 2**32 - 1:
        raise DataError(f"{size} {axis}s are more than the 4,294,967,295 that a 32-bit index can number.")
    return array.astype(np.uint32, copy=copy), size


def is_huge(n_rows: int, n_cols: int, n_observed: int) -> bool:
    """Return whether nearly all rows and columns of a large matrix would be empty."""
    return n_rows + n_cols > max(20_000_000, 100 * n_observed)


def refuse_huge(n_rows: int, n_cols: int, n_observed: int) -> None:
    """Raise DataError if nearly all rows and columns would be empty, as when ids are given for indices."""
    if is_huge(n_rows, n_cols, n_observed):
        raise DataError(
            f"A matrix of {n_rows} rows and {n_cols} columns with {n_observed} entries would be nearly all empty; "
            "if these are ids, number them with `Observations.from_labels`."
        )


def check_some(n_observed: int, shape: tuple[int, int]) -> None:
    """Raise DataError if there is no entry."""
    if n_observed == 0:
        raise DataError(f"The matrix of shape {shape} has no observed entry; there is nothing to learn from.")


def check_csr(indptr: Array, indices: Array, shape: tuple[int, int]) -> None:
    """Raise DataError unless the arrays are a sorted CSR pattern of that shape with entries and without repeats."""
    check_some(indices.size, shape)
    valid = indptr.dtype == np.uint64 and indices.dtype == np.uint32 and indptr.shape == (shape[0] + 1,)
    valid = valid and bool(indptr[0] == 0 and indptr[-1] == indices.size and np.all(indptr[:-1] <= indptr[1:]))
    if not valid or int(indices.max()) >= shape[1] or first_disorder(indptr, indices) >= 0:
        raise DataError(
            "`indptr` (uint64) and `indices` (uint32) are not a sorted CSR pattern of this shape without repeats; "
            "use `Observations.from_coo` or `from_sparse`."
        )


def as_matrix(data: Any) -> Array:
    """Two-dimensional array of real numbers, NaN where a masked array is masked."""
    if np.ma.isMaskedArray(data):
        data = np.ma.filled(data.astype(float if data.dtype.kind in "fiub" else object), np.nan)
    try:
        matrix = np.asarray(data)
    except ValueError:
        raise DataError("A two-dimensional array is needed; these rows differ in length.") from None
    if matrix.ndim != 2:
        raise DataError(f"A two-dimensional array is needed, got shape {matrix.shape}. Reshape your data.")
    if matrix.shape[1] == 0:
        raise DataError(f"The array has 0 feature(s) (shape={matrix.shape}) while a minimum of 1 is required.")
    if matrix.dtype.kind == "c":
        raise DataError(f"Complex data not supported: an array of real numbers is needed, got {matrix.dtype}.")
    if matrix.dtype.kind == "O" and not any(isinstance(entry, str) for entry in matrix.flat):
        try:
            return matrix.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise DataTypeError(f"An array of real numbers with NaN for unknown entries is needed: {error}.") from None
    if matrix.dtype.kind not in "fiub":
        raise DataError(f"An array of real numbers with NaN for unknown entries is needed, got {matrix.dtype}.")
    return matrix


def as_values(values: ArrayLike, n: int, what: str, *, copy: bool = True) -> Array:
    """Finite numbers of shape (n,) as float32 if they are float32, else as float64; `what` names them in errors."""
    array = np.asarray(values)
    if array.shape != (n,):
        raise DataError(f"There are {n} entries but the {what} have shape {array.shape}; give one per entry.")
    if array.dtype.kind not in "fiub":
        raise DataError(f"The {what} must be real numbers, got {array.dtype}.")
    array = array.astype(np.float32 if array.dtype == np.float32 else np.float64, copy=copy)
    finite = np.isfinite(array)
    if not finite.all():
        k = int(np.argmin(finite))
        refuse_not_finite(n - int(finite.sum()), n, what, array[k], k)
    return array


def refuse_not_finite(n_bad: int, n: int, what: str, first: float, k: int) -> None:
    """Raise DataError about values or weights that are not finite, the first of them at entry k."""
    raise DataError(
        f"{n_bad} of {n} {what} are not finite (first: {first} at entry {k}); leave out entries that are unknown."
    )


def check_weights(weights: Array | None) -> None:
    """Raise DataError unless all weights are non-negative and one is positive, or there are none."""
    if weights is None:
        return
    if weights.size and weights.min() < 0:
        k = int(np.argmax(weights < 0))
        refuse_negative(weights[k], k)
    if weights.size and weights.max() == 0:
        refuse_weightless()
    wrong = (weights > HEAVIEST) | ((weights > 0) & (weights < 1 / HEAVIEST))
    if wrong.any():
        k = int(np.argmax(wrong))
        raise DataError(
            f"The weight {weights[k]:g} at entry {k} is out of range: weights count repetitions of an entry and must "
            f"be zero or between {1 / HEAVIEST:g} and {HEAVIEST:g}; multiply or divide all of them by a constant."
        )


def refuse_negative(weight: float, k: int) -> None:
    """Raise DataError about the negative weight of entry k."""
    raise DataError(f"The weight {weight:g} at entry {k} is negative; weights must be zero or more.")


def refuse_weightless() -> None:
    """Raise DataError because no entry has a positive weight."""
    raise DataError("All weights are zero, so nothing is observed; give at least one entry a positive weight.")


def starts_of(counts: Array) -> NDArray[np.uint64]:
    """Number of the first entry of each row, and of all entries, from the count of each row; shape (n_rows + 1,)."""
    return np.concatenate(([0], np.cumsum(counts))).astype(np.uint64)


def rows_of(indptr: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Row number of every entry, shape (n_observed,)."""
    starts = indptr.astype(np.int64)
    return np.repeat(np.arange(indptr.size - 1), starts[1:] - starts[:-1])


def entries_in(indptr: NDArray[np.uint64], rows: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Row starts of a pattern made of the given rows, shape (rows.size + 1,), and the numbers of their entries."""
    starts, ends = (bound.astype(np.int64)[rows] for bound in (indptr[:-1], indptr[1:]))
    begins = np.concatenate(([0], np.cumsum(ends - starts)))
    entries = np.arange(begins[-1]) + np.repeat(starts - begins[:-1], ends - starts)
    return begins.astype(np.uint64), entries


def as_numbers(chosen: ArrayLike, n: int, what: str) -> NDArray[np.int64]:
    """Numbers below `n` from a mask of shape (n,) or integers; `what` names them in errors."""
    array = np.asarray(chosen)
    if array.dtype == bool and array.shape == (n,):
        array = np.flatnonzero(array)
    if array.ndim != 1 or (array.size and (array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= n)):
        raise DataError(f"{what} must be a mask or integers from 0 to {n - 1}, got shape {array.shape}.")
    return array.astype(np.int64)


def sort_entries(
    rows: NDArray[np.uint32], cols: NDArray[np.uint32], shape: tuple[int, int], *, by_col: bool = False
) -> tuple[NDArray[np.uint64], Array]:
    """Row starts, and the stable order of the entries by row, then column. Costs O(n_observed + n_rows + n_cols).

    `by_col` says that the entries are in the order of their columns already, as in a CSR matrix to be transposed.
    """
    counter = np.uint32 if rows.size < 2**32 else np.uint64
    order = np.arange(rows.size, dtype=counter)
    out = np.empty_like(order)
    by_key = (cols, shape[1]), (rows, shape[0])  # least significant key first, as in a radix sort
    for keys, size in by_key[by_col:]:
        starts, free = np.zeros((2, size + 1), dtype=np.uint64)
        pattern.sort_by_key(keys, order, starts, free, out)
        order, out = out, order
    return starts, order


def first_disorder(indptr: Array, indices: Array) -> int:
    """Number of the first entry whose column is not above that of its predecessor in the row; -1 if there is none."""
    falls = np.flatnonzero(indices[1:] <= indices[:-1]) + 1
    is_start = np.zeros(indices.size + 1, bool)
    is_start[indptr.astype(np.intp)] = True
    inside = falls[~is_start[falls]]
    return int(inside[0]) if inside.size else -1


def merge_repeats(
    indptr: NDArray[np.uint64],
    indices: NDArray[np.uint32],
    targets: Array,
    weights: Array | None,
    duplicates: str,
    labels: LabelPair = (None, None),
) -> tuple[NDArray[np.uint64], NDArray[np.uint32], Array, Array | None]:
    """Merge entries at the same row and column, or raise DataError.

    If there are repeats, entries of weight zero are dropped first. ``"mean"`` averages the targets by weight and sums
    the weights, if there are weights; ``"last"`` keeps the last of the repeated entries.
    """
    check_duplicates(duplicates)
    k = first_disorder(indptr, indices)
    if k >= 0 and weights is not None and not weights.all():  # a repeat of weight zero is none
        used = np.flatnonzero(weights)
        indptr = np.searchsorted(used, indptr.astype(np.int64)).astype(np.uint64)
        indices, targets, weights = indices[used], targets[used], weights[used]
        k = first_disorder(indptr, indices)
    if k < 0:
        return indptr, indices, targets, weights
    if duplicates == "error":
        row = int(np.searchsorted(indptr, np.uint64(k), side="right")) - 1
        refuse_repeat(row, int(indices[k]), labels)
    row_of = rows_of(indptr)
    new = np.r_[True, (indices[1:] != indices[:-1]) | (row_of[1:] != row_of[:-1])]
    first = np.flatnonzero(new)
    last = np.r_[first[1:], indices.size] - 1
    starts = np.searchsorted(first, indptr.astype(np.int64)).astype(np.uint64)
    if duplicates == "last":
        return starts, indices[first], targets[last], None if weights is None else weights[last]
    share = np.ones(targets.size) if weights is None else weights.astype(float)
    total = np.add.reduceat(share, first)
    mean = np.add.reduceat(share * targets, first) / total
    merged = None if weights is None else total.astype(weights.dtype)
    return starts, indices[first], mean.astype(targets.dtype), merged


def check_duplicates(duplicates: str) -> None:
    """Raise SettingError unless `duplicates` is one of `DUPLICATES`."""
    check_choice("duplicates", duplicates, DUPLICATES)


def check_distinct(entries: Array, indptr: Array, indices: Array, labels: LabelPair) -> None:
    """Raise DataError if sorted entry numbers of a CSR pattern repeat."""
    repeats = np.flatnonzero(entries[1:] == entries[:-1])
    if repeats.size:
        k = int(entries[repeats[0]])
        row = int(np.searchsorted(indptr, np.uint64(k), side="right")) - 1
        refuse_repeat(row, int(indices[k]), labels)


def refuse_repeat(row: int, col: int, labels: LabelPair) -> None:
    """Raise DataError about an entry that is given more than once."""
    where = [side if names is None else names[side] for side, names in zip((row, col), labels, strict=True)]
    raise DataError(
        f"The entry (row {where[0]}, column {where[1]}) is given more than once; "
        'pass duplicates="mean" or duplicates="last" to merge such entries.'
    )


def as_shape(shape: Any) -> tuple[int, int]:
    """Pair of non-negative integers; DataError for anything else."""
    try:
        n_rows, n_cols = (operator.index(size) for size in shape)
    except (TypeError, ValueError):
        raise DataError(f"`shape` must be a pair (n_rows, n_cols), got {shape!r}.") from None
    if n_rows < 0 or n_cols < 0:
        raise DataError(f"`shape` must not be negative, got {shape!r}.")
    return n_rows, n_cols


def frozen(array: Array) -> Array:
    """A read-only view; the caller's own array stays writable."""
    view = array.view()
    view.flags.writeable = False
    return view


def compressed_arrays(matrix: Any) -> tuple[Array, Array, Array]:
    """Return `indptr`, `indices` and `data` of a CSR, CSC or BSR matrix; DataError unless they fit together.

    Nearly empty matrices are refused first, because checking them takes long. SciPy allows arrays that are longer than
    `indptr` says; these are cut.
    """
    indptr, indices, data = (np.asarray(part) for part in (matrix.indptr, matrix.indices, matrix.data))
    refuse_huge(matrix.shape[0], matrix.shape[1], data.size)
    height = max(1, data.shape[1]) if matrix.format == "bsr" and data.ndim == 3 else 1
    n_major = matrix.shape[1] if matrix.format == "csc" else matrix.shape[0] // height
    sound = indptr.shape == (n_major + 1,) and indptr.dtype.kind in "iu" and indptr[0] == 0
    if not (sound and np.all(indptr[:-1] <= indptr[1:])):
        reason = f"`indptr` must be {n_major + 1} integers that begin at 0 and never fall"
        raise DataError(DAMAGED.format(matrix.format.upper(), reason))
    n = int(indptr[-1])
    if indices.ndim != 1 or not n <= indices.size == len(data):
        reason = f"`indptr` ends at {n}, but `indices` has {indices.size} elements and `data` has {len(data)}"
        raise DataError(DAMAGED.format(matrix.format.upper(), reason))
    return indptr, indices[:n], data[:n]


def sparse_entries(matrix: Any) -> tuple[Array, Array, Array]:
    """Return row numbers, column numbers and values of the stored entries; numbers may lie outside the matrix."""
    if matrix.format in ("csr", "csc"):
        indptr, indices, data = compressed_arrays(matrix)
        counts: Array = np.diff(indptr.astype(np.int64))
        major = np.repeat(np.arange(indptr.size - 1), counts)
        return (major, indices, data) if matrix.format == "csr" else (indices, major, data)
    if matrix.format == "bsr":
        compressed_arrays(matrix)
    elif matrix.format == "lil" and [len(row) for row in matrix.rows] != [len(row) for row in matrix.data]:
        raise DataError(DAMAGED.format("LIL", "`rows` and `data` differ in length"))
    elif matrix.format == "dia":
        _check_diagonals(matrix)
    try:
        coo = matrix.tocoo()
    except (TypeError, ValueError, IndexError, OverflowError) as error:
        raise DataError(DAMAGED.format(matrix.format.upper(), str(error).rstrip("."))) from None
    return coo.coords[0], coo.coords[1], coo.data


def _check_diagonals(matrix: Any) -> None:
    offsets, data = np.asarray(matrix.offsets), np.asarray(matrix.data)
    sound = offsets.dtype.kind in "iu" and data.ndim == 2 and offsets.shape == data.shape[:1]
    if not (sound and np.all((offsets > -(2**31)) & (offsets < 2**31))):  # SciPy converts them to 32 bits
        raise DataError(DAMAGED.format("DIA", "`offsets` must be one 32-bit integer for each line of `data`"))
