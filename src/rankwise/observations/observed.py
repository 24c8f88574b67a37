"""`Observations`: an immutable, partially observed matrix in CSR form."""

import operator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from .._errors import DataError
from ..kernels import pattern
from .build import (
    as_indices,
    as_values,
    check_csr,
    check_weights,
    merge_repeats,
    refuse_huge,
    rows_of,
    sort_entries,
)
from .shards import cut_rows

SMALL_TABLE = 1 << 20  # a range of labels that is worth a table whatever their number


class Observations:
    """The known entries of a matrix, sorted by row and column.

    Make one with `from_coo`, `from_labels`, `from_sparse`, `from_dense`, or `from_any`.

    Attributes
    ----------
    shape : tuple of int
        Rows and columns. Rows and columns without any entry are fine.
    indptr : ndarray of uint64, shape (n_rows + 1,)
        Entry number at which each row begins.
    indices : ndarray of uint32, shape (n_observed,)
        Column of each entry.
    targets : ndarray of float32 or float64, shape (n_observed,)
    weights : ndarray of shape (n_observed,) or None
        Weight of each entry's loss; None means one for all.
    row_labels, col_labels : ndarray or None
        What the rows and columns are called; None means their numbers.
    """

    def __init__(
        self,
        indptr: NDArray[np.uint64],
        indices: NDArray[np.uint32],
        targets: NDArray[Any],
        shape: tuple[int, int],
        weights: NDArray[Any] | None = None,
        labels: tuple[Any, Any] = (None, None),
    ) -> None:
        check_csr(indptr, indices, shape)
        self.shape = shape
        self.indptr, self.indices = _frozen(indptr), _frozen(indices)
        self.targets = _frozen(as_values(targets, indices.size, "values", copy=False))
        self.weights = None
        if weights is not None:
            self.weights = _frozen(as_values(weights, indices.size, "weights", copy=False))
            check_weights(self.weights)
        self.row_labels = _as_labels(labels[0], shape[0], "row")
        self.col_labels = _as_labels(labels[1], shape[1], "column")
        self._sealed = True

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse changes once made."""
        if hasattr(self, "_sealed"):
            raise AttributeError(f"Observations never change, so `{name}` cannot be set; build new ones.")
        super().__setattr__(name, value)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Freeze what a pickle brings, as NumPy does not: kernels are compiled for read-only arrays."""
        frozen = {name: _frozen(value) if isinstance(value, np.ndarray) else value for name, value in state.items()}
        self.__dict__.update(frozen)

    @classmethod
    def from_coo(
        cls,
        rows: ArrayLike,
        cols: ArrayLike,
        values: ArrayLike,
        shape: tuple[int, int] | None = None,
        *,
        weights: ArrayLike | None = None,
        duplicates: str = "error",
        labels: tuple[Any, Any] = (None, None),
    ) -> "Observations":
        """Build from row numbers, column numbers and values, in any order.

        Parameters
        ----------
        rows, cols : array-like of int, shape (n_observed,)
        values : array-like of float, shape (n_observed,)
        shape : (n_rows, n_cols), optional
            By default the largest indices plus one.
        weights : array-like of float, shape (n_observed,), optional
        duplicates : {"error", "mean", "last"}, default="error"
            What to do with a pair that comes more than once.
        labels : pair of array-like, optional
            Names of the rows and of the columns.
        """
        n_rows, n_cols = (None, None) if shape is None else _as_shape(shape)
        row_of, n_rows = as_indices(rows, n_rows, "row")
        col_of, n_cols = as_indices(cols, n_cols, "column")
        if row_of.size != col_of.size:
            raise DataError(f"There are {row_of.size} row indices but {col_of.size} column indices; give pairs.")
        targets = as_values(values, row_of.size, "values")
        weight_of = None if weights is None else as_values(weights, row_of.size, "weights")
        if weight_of is not None:
            check_weights(weight_of)
        refuse_huge(n_rows, n_cols, row_of.size)
        indptr, order = sort_entries(row_of, col_of, (n_rows, n_cols))
        indices, targets = col_of[order], targets[order]
        weight_of = None if weight_of is None else weight_of[order]
        del order, row_of, col_of
        indptr, indices, targets, weight_of = merge_repeats(indptr, indices, targets, weight_of, duplicates, labels)
        return cls(indptr, indices, targets, (n_rows, n_cols), weight_of, labels)

    @classmethod
    def from_labels(cls, rows: ArrayLike, cols: ArrayLike, values: ArrayLike, **options: Any) -> "Observations":
        """Build from labels of any sortable type: users, items, words. Labels are numbered in sorted order."""
        row_labels, row_of = _numbered(rows, "row")
        col_labels, col_of = _numbered(cols, "column")
        shape = (row_labels.size, col_labels.size)
        return cls.from_coo(row_of, col_of, values, shape, labels=(row_labels, col_labels), **options)

    @classmethod
    def from_sparse(cls, matrix: Any, **options: Any) -> "Observations":
        """Build from a SciPy sparse matrix. Stored entries are observed, explicit zeros included."""
        if len(matrix.shape) != 2:
            raise DataError(f"A two-dimensional matrix is needed, got shape {matrix.shape}.")
        if matrix.format == "csr" and not set(options) - {"labels"}:
            found = cls._from_sorted_csr(matrix, options)
            if found is not None:
                return found
        coo = matrix.tocoo()
        return cls.from_coo(coo.coords[0], coo.coords[1], coo.data, matrix.shape, **options)

    @classmethod
    def _from_sorted_csr(cls, matrix: Any, options: dict[str, Any]) -> "Observations | None":
        """Fast path: rows already sorted and free of repeats, so no sort and one copy."""
        indptr = matrix.indptr.astype(np.uint64)
        indices, n_cols = as_indices(matrix.indices, matrix.shape[1], "column")
        if not pattern.rows_sorted(indptr, indices) or pattern.first_repeat(indptr, indices) >= 0:
            return None
        targets = as_values(matrix.data, indices.size, "values")
        return cls(indptr, indices, targets, (matrix.shape[0], n_cols), labels=options.get("labels", (None, None)))

    @classmethod
    def from_dense(cls, array: ArrayLike, **options: Any) -> "Observations":
        """Build from a two-dimensional array whose unknown entries are NaN."""
        if np.ma.isMaskedArray(array):
            array = np.ma.filled(array.astype(float), np.nan)
        try:
            found = np.asarray(array)
        except ValueError:
            raise DataError("A two-dimensional array is needed; these rows differ in length.") from None
        if found.ndim != 2:
            raise DataError(f"A two-dimensional array is needed, got shape {found.shape}.")
        if found.dtype.kind not in "fiub":
            raise DataError(f"An array of real numbers with NaN for unknown entries is needed, got {found.dtype}.")
        rows, cols = np.nonzero(~np.isnan(found))
        return cls.from_coo(rows, cols, found[rows, cols], found.shape, **options)

    @classmethod
    def from_any(cls, data: Any) -> "Observations":
        """Build from Observations, a SciPy sparse matrix, or an array with NaN."""
        if isinstance(data, cls):
            return data
        if sp.issparse(data):
            return cls.from_sparse(data)
        if isinstance(data, np.ndarray | list | tuple):
            return cls.from_dense(data)
        raise DataError(
            f"Cannot read observations from {type(data).__name__}: give a SciPy sparse matrix, a NumPy array with NaN "
            "at unknown entries, or `rankwise.Observations`."
        )

    @property
    def n_observed(self) -> int:
        """Number of observed entries."""
        return int(self.indices.size)

    @property
    def rows(self) -> NDArray[np.int64]:
        """Row number of every entry, in entry order; made on each call."""
        return rows_of(self.indptr)

    @property
    def cols(self) -> NDArray[np.int64]:
        """Column number of every entry, in entry order; made on each call."""
        return self.indices.astype(np.int64)

    def cuts(self) -> NDArray[np.int64]:
        """Row numbers at which the shards begin, and the number of rows."""
        return cut_rows(self.indptr, self.shape[1])

    def transposed(self) -> "Observations":
        """The same entries with rows and columns exchanged."""
        shape, labels = self.shape[::-1], (self.col_labels, self.row_labels)
        return Observations.from_coo(self.indices, self.rows, self.targets, shape, weights=self.weights, labels=labels)

    def take(self, entries: ArrayLike) -> "Observations":
        """Observations of the same shape and labels with only the chosen entries (a mask or entry numbers)."""
        entries = np.asarray(entries)
        if entries.dtype == bool:
            if entries.shape != self.targets.shape:
                raise DataError(f"The mask has shape {entries.shape} but there are {self.n_observed} entries.")
            entries = np.flatnonzero(entries)
        if entries.size and (entries.dtype.kind not in "iu" or entries.min() < 0 or entries.max() >= self.n_observed):
            raise DataError(f"Entry numbers must be integers from 0 to {self.n_observed - 1}.")
        weights = None if self.weights is None else self.weights[entries]
        labels = (self.row_labels, self.col_labels)
        return Observations.from_coo(
            self.rows[entries], self.cols[entries], self.targets[entries], self.shape, weights=weights, labels=labels
        )

    def to_sparse(self) -> Any:
        """SciPy CSR array with the targets as stored entries."""
        indptr, indices = self.indptr.astype(np.int64), self.indices.astype(np.int64)
        return sp.csr_array((self.targets.copy(), indices, indptr), shape=self.shape)

    def __repr__(self) -> str:
        """Sizes, at a glance."""
        weighted = "" if self.weights is None else ", weighted"
        share = self.n_observed / (self.shape[0] * self.shape[1])
        return f"Observations({self.shape[0]} x {self.shape[1]}, {self.n_observed} observed, {share:.3%}{weighted})"


def _as_shape(shape: Any) -> tuple[int, int]:
    try:
        n_rows, n_cols = (operator.index(size) for size in shape)
    except (TypeError, ValueError):
        raise DataError(f"`shape` must be a pair (n_rows, n_cols), got {shape!r}.") from None
    if n_rows < 0 or n_cols < 0:
        raise DataError(f"`shape` must not be negative, got {shape!r}.")
    return n_rows, n_cols


def _as_labels(given: Any, size: int, which: str) -> NDArray[Any] | None:
    if given is None:
        return None
    labels = np.array(given)
    if labels.shape != (size,):
        raise DataError(f"There are {size} {which}s but the {which} labels have shape {labels.shape}.")
    labels.flags.writeable = False
    if np.unique(labels).size < size:
        values, counts = np.unique(labels, return_counts=True)
        raise DataError(f"The {which} label {values[counts > 1][0]!r} is given more than once; labels must differ.")
    return labels


def _numbered(labels: ArrayLike, which: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """The different labels in sorted order, and each entry's number among them."""
    given = np.asarray(labels)
    close = max(SMALL_TABLE, 2 * given.size)
    if given.dtype.kind in "iu" and given.size and int(given.max()) - int(given.min()) < close:
        return _numbered_by_table(given.ravel())
    try:
        found, numbers = np.unique(given, return_inverse=True)
    except TypeError:
        raise DataError(f"The {which} labels mix types that cannot be sorted; make them all text or numbers.") from None
    if (found.dtype.kind in "fc" and np.isnan(found).any()) or (found.dtype.kind in "mM" and np.isnat(found).any()):
        raise DataError(f"Some {which} labels are missing (NaN); leave those entries out or give them a label.")
    return found, numbers.ravel()


def _numbered_by_table(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The same for integers that lie close together, without sorting: O(n + range)."""
    least = labels.min()
    place = (labels.astype(np.int64 if labels.dtype.kind == "i" else np.uint64) - least).astype(np.int64)
    seen = np.zeros(int(place.max()) + 1, bool)
    seen[place] = True
    found = np.arange(seen.size)[seen].astype(labels.dtype) + least
    return found, (np.cumsum(seen) - 1)[place]


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view; the caller's own array stays as it is."""
    view = array.view()
    view.flags.writeable = False
    return view
