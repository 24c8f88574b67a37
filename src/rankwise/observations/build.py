"""From coordinates to a checked, sorted CSR pattern."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._errors import DataError, DataTypeError, SettingError
from ..kernels import pattern

DUPLICATES = ("error", "mean", "last")


def as_indices(given: ArrayLike, size: int | None, which: str) -> tuple[NDArray[np.uint32], int]:
    """Row or column numbers as uint32, with the size of that side of the matrix."""
    found = np.asarray(given)
    if found.ndim != 1:
        raise DataError(f"The {which} indices must be one-dimensional, got shape {found.shape}.")
    if found.size and found.dtype.kind not in "iu":
        raise DataError(
            f"The {which} indices must be integers, got {found.dtype}; "
            "for labels of any type use `Observations.from_labels`."
        )
    found = found.astype(np.int64, copy=False) if found.dtype.kind == "i" else found
    if found.size and found.min() < 0:
        k = int(np.argmax(found < 0))
        raise DataError(f"The {which} index {found[k]} at entry {k} is negative; indices start at 0.")
    if size is None:
        size = int(found.max()) + 1 if found.size else 0
    if found.size and found.max() >= size:
        k = int(np.argmax(found >= size))
        raise DataError(f"The {which} index {found[k]} at entry {k} is outside a matrix with {size} {which}s.")
    if size > 2**32 - 1:
        raise DataError(f"{size} {which}s are more than the 4,294,967,295 that a 32-bit index can number.")
    return found.astype(np.uint32), size


def refuse_huge(n_rows: int, n_cols: int, n_observed: int) -> None:
    """Raise if nearly all rows and columns would be empty: ids were given where row and column numbers are meant."""
    if n_rows + n_cols > max(20_000_000, 100 * n_observed):
        raise DataError(
            f"A matrix of {n_rows} rows and {n_cols} columns with {n_observed} entries would be nearly all empty; "
            "if these are ids, number them with `Observations.from_labels`."
        )


def check_some(n_observed: int, shape: tuple[int, int]) -> None:
    """Raise DataError if there is no entry."""
    if n_observed == 0:
        raise DataError(f"The matrix of shape {shape} has no observed entry; there is nothing to learn from.")


def check_csr(indptr: NDArray[Any], indices: NDArray[Any], shape: tuple[int, int]) -> None:
    """Raise unless the two arrays are a sorted CSR pattern of that shape, with at least one entry and no repeats."""
    check_some(indices.size, shape)
    sound = indptr.dtype == np.uint64 and indices.dtype == np.uint32 and indptr.shape == (shape[0] + 1,)
    sound = sound and bool(indptr[0] == 0 and indptr[-1] == indices.size and np.all(indptr[:-1] <= indptr[1:]))
    sound = sound and int(indices.max()) < shape[1] and pattern.rows_sorted(indptr, indices)
    if not sound or pattern.first_repeat(indptr, indices) >= 0:
        raise DataError(
            "`indptr` (uint64) and `indices` (uint32) are not a sorted CSR pattern of this shape without repeats; "
            "use `Observations.from_coo` or `from_sparse`."
        )


def as_matrix(given: Any) -> NDArray[Any]:
    """A two-dimensional array of real numbers, NaN where a masked array is masked."""
    if np.ma.isMaskedArray(given):
        given = np.ma.filled(given.astype(float if given.dtype.kind in "fiub" else object), np.nan)
    try:
        found = np.asarray(given)
    except ValueError:
        raise DataError("A two-dimensional array is needed; these rows differ in length.") from None
    if found.ndim != 2:
        raise DataError(f"A two-dimensional array is needed, got shape {found.shape}. Reshape your data.")
    if found.shape[1] == 0:
        raise DataError(f"The array has 0 feature(s) (shape={found.shape}) while a minimum of 1 is required.")
    if found.dtype.kind == "c":
        raise DataError(f"Complex data not supported: an array of real numbers is needed, got {found.dtype}.")
    if found.dtype.kind == "O" and not any(isinstance(entry, str) for entry in found.flat):
        try:
            return found.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise DataTypeError(f"An array of real numbers with NaN for unknown entries is needed: {error}.") from None
    if found.dtype.kind not in "fiub":
        raise DataError(f"An array of real numbers with NaN for unknown entries is needed, got {found.dtype}.")
    return found


def as_values(given: ArrayLike, n: int, what: str, *, copy: bool = True) -> NDArray[Any]:
    """One finite float per entry; float32 stays, everything else becomes float64."""
    found = np.asarray(given)
    if found.shape != (n,):
        raise DataError(f"There are {n} entries but the {what} have shape {found.shape}; give one per entry.")
    if found.dtype.kind not in "fiub":
        raise DataError(f"The {what} must be real numbers, got {found.dtype}.")
    found = found.astype(np.float32 if found.dtype == np.float32 else np.float64, copy=copy)
    bad = ~np.isfinite(found)
    if bad.any():
        k = int(np.argmax(bad))
        refuse_not_finite(int(bad.sum()), n, what, found[k], k)
    return found


def refuse_not_finite(n_bad: int, n: int, what: str, first: Any, k: int) -> None:
    """Raise: some of the values or weights are missing or infinite, the first of them at entry k."""
    raise DataError(
        f"{n_bad} of {n} {what} are not finite (first: {first} at entry {k}); leave out entries that are unknown."
    )


def check_weights(weights: NDArray[Any]) -> None:
    """Raise unless all weights are at least zero and one is positive."""
    if weights.size and weights.min() < 0:
        k = int(np.argmax(weights < 0))
        refuse_negative(weights[k], k)
    if weights.size and weights.max() == 0:
        refuse_weightless()


def refuse_negative(weight: Any, k: int) -> None:
    """Raise: the weight of entry k is below zero."""
    raise DataError(f"The weight {weight:g} at entry {k} is negative; weights must be zero or more.")


def refuse_weightless() -> None:
    """Raise: no entry has a positive weight."""
    raise DataError("All weights are zero, so nothing is observed; give at least one entry a positive weight.")


def starts_of(counts: NDArray[Any]) -> NDArray[np.uint64]:
    """Where each row starts, and the last one ends, out of the number of entries in each."""
    return np.concatenate(([0], np.cumsum(counts))).astype(np.uint64)


def rows_of(indptr: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Row number of every entry."""
    starts = indptr.astype(np.int64)
    return np.repeat(np.arange(indptr.size - 1), starts[1:] - starts[:-1])


def sort_entries(
    rows: NDArray[np.uint32], cols: NDArray[np.uint32], shape: tuple[int, int]
) -> tuple[NDArray[np.uint64], NDArray[Any]]:
    """Row starts, and the order that sorts entries by row, then column, then first come. O(n_observed + sizes)."""
    counter = np.uint32 if rows.size < 2**32 else np.uint64
    order = np.arange(rows.size, dtype=counter)
    out = np.empty_like(order)
    for keys, size in ((cols, shape[1]), (rows, shape[0])):  # least significant key first, as in a radix sort
        starts = np.zeros(size + 1, dtype=np.uint64)
        pattern.count_keys(keys, starts)
        pattern.place_by_key(keys, order, starts.copy(), out)
        order, out = out, order
    return starts, order


def merge_repeats(
    indptr: NDArray[np.uint64],
    indices: NDArray[np.uint32],
    targets: NDArray[Any],
    weights: NDArray[Any] | None,
    duplicates: str,
    labels: tuple[Any, Any] = (None, None),
) -> tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[Any], NDArray[Any] | None]:
    """Make every (row, column) pair unique, or refuse. If there are any repeats, entries of weight zero are left out.

    ``"mean"`` averages the targets by weight and adds up the weights, if there are weights; ``"last"`` keeps the one
    that came last.
    """
    check_duplicates(duplicates)
    k = int(pattern.first_repeat(indptr, indices))
    if k >= 0 and weights is not None and not weights.all():  # a copy of weight zero is as good as not there
        kept = np.flatnonzero(weights)
        indptr = np.searchsorted(kept, indptr.astype(np.int64)).astype(np.uint64)
        indices, targets, weights = indices[kept], targets[kept], weights[kept]
        k = int(pattern.first_repeat(indptr, indices))
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
    """Raise unless this is one of the ways to treat repeats."""
    if duplicates not in DUPLICATES:
        raise SettingError(f"`duplicates` must be one of {', '.join(map(repr, DUPLICATES))}, got {duplicates!r}.")


def refuse_repeat(row: int, col: int, labels: tuple[Any, Any]) -> None:
    """Raise: an entry comes more than once."""
    where = [side if names is None else names[side] for side, names in zip((row, col), labels, strict=True)]
    raise DataError(
        f"The entry (row {where[0]}, column {where[1]}) is given more than once; "
        'pass duplicates="mean" or duplicates="last" to merge such entries.'
    )
