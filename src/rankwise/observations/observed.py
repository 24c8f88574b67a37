"""`Observations`: an immutable, partially observed matrix in CSR form."""

import logging
import math
import operator
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from .._errors import DataError, SettingError
from ..kernels import pattern
from .build import (
    as_indices,
    as_matrix,
    as_values,
    check_csr,
    check_weights,
    merge_repeats,
    refuse_huge,
    rows_of,
    sort_entries,
)
from .entries import Entries
from .frames import is_frame, read_long, read_wide
from .labels import as_labels, lookup, numbered
from .shards import Piece, TargetFacts, cut_rows, target_facts

log = logging.getLogger("rankwise")


class Observations:
    """The known entries of a matrix, sorted by row and column.

    Make one with `from_coo`, `from_labels`, `from_sparse`, `from_dense`, `from_frame`, or
    `from_any`.

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

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> seen = rw.Observations.from_coo([0, 0, 2], [1, 3, 0], [5.0, 3.0, 4.0], shape=(3, 4))
    >>> seen.n_observed, seen.shape
    (3, (3, 4))
    >>> rw.Observations.from_dense([[1.0, np.nan], [np.nan, 2.0]]).targets
    array([1., 2.])
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
        self.row_labels = as_labels(labels[0], shape[0], "row")
        self.col_labels = as_labels(labels[1], shape[1], "column")
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
        row_labels, row_of = numbered(rows, "row")
        col_labels, col_of = numbered(cols, "column")
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
        refuse_huge(matrix.shape[0], n_cols, indices.size)
        targets = as_values(matrix.data, indices.size, "values")
        return cls(indptr, indices, targets, (matrix.shape[0], n_cols), labels=options.get("labels", (None, None)))

    @classmethod
    def from_dense(cls, array: ArrayLike, **options: Any) -> "Observations":
        """Build from a two-dimensional array whose unknown entries are NaN."""
        found = as_matrix(array)
        rows, cols = np.nonzero(~np.isnan(found))
        return cls.from_coo(rows, cols, found[rows, cols], found.shape, **options)

    @classmethod
    def from_frame(
        cls, frame: Any, *, row: Any = None, col: Any = None, value: Any = None, weight: Any = None, **options: Any
    ) -> "Observations":
        """Build from a data frame of pandas, polars or pyarrow.

        Parameters
        ----------
        frame : DataFrame, LazyFrame or Table
            Long, one line per entry, if `col` or `value` is given. Else wide: the matrix itself, with missing values
            at unknown entries; its index (pandas) and the names of its columns become labels.
        row, col, value : name of a column, optional
            Of a long frame: the entry's row label, its column label, what was observed there. Of a wide frame, `row`
            may name a column that holds the row labels.
        weight : name of a column, optional
            Weight of each entry's loss; long frames only.
        **options
            As in `from_coo`, such as ``duplicates="mean"``.
        """
        if not is_frame(frame):
            raise DataError(
                f"`from_frame` needs a data frame of pandas, polars or pyarrow, got {type(frame).__name__}."
            )
        if col is not None or value is not None or weight is not None:
            return cls.from_coo(**read_long(frame, row, col, value, weight), **options)
        array, labels = read_wide(frame, row)
        return cls.from_dense(array, labels=labels, **options)

    @classmethod
    def from_any(
        cls, data: Any, *, row: Any = None, col: Any = None, value: Any = None, weight: Any = None
    ) -> "Observations":
        """Build from Observations, a SciPy sparse matrix, an array with NaN, or a data frame; see `from_frame`."""
        names = {"row": row, "col": col, "value": value, "weight": weight}
        if is_frame(data):
            return cls.from_frame(data, **names)
        given = [f"{use}=" for use, name in names.items() if name is not None]
        if given:
            raise SettingError(f"{given[0]} names a column of a data frame, but a {type(data).__name__} was given.")
        if isinstance(data, cls | Entries):  # entries on disk or in a cluster stay there
            return data  # type: ignore[return-value]
        if sp.issparse(data):
            return cls.from_sparse(data)
        if isinstance(data, list | tuple) or hasattr(data, "__array__"):
            return cls.from_dense(data)
        raise DataError(
            f"Cannot read observations from {type(data).__name__}: give a SciPy sparse matrix, a NumPy array with NaN "
            "at unknown entries, a data frame, or `rankwise.Observations`."
        )

    @property
    def n_observed(self) -> int:
        """Number of observed entries."""
        return int(self.indices.size)

    @property
    def total_weight(self) -> float:
        """Sum of the weights; the number of entries if there are none."""
        if self.weights is None:
            return float(self.n_observed)
        return math.fsum(
            float(part.weights.sum(dtype=np.float64)) for part in self.pieces() if part.weights is not None
        )

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

    def pieces(self) -> Iterator[Piece]:
        """What each shard holds: views of these entries."""
        for start, stop in pairwise(self.cuts().tolist()):
            lo, hi = (int(self.indptr[row]) for row in (start, stop))
            indptr = self.indptr[start : stop + 1] - np.uint64(lo)
            weights = None if self.weights is None else self.weights[lo:hi]
            yield Piece(start, self.shape[1], indptr, self.indices[lo:hi], self.targets[lo:hi], weights)

    @property
    def heaviest(self) -> float:
        """The largest weight; one if there are none."""
        return 1.0 if self.weights is None else float(self.weights.max())

    def target_facts(self) -> TargetFacts:
        """What a loss is chosen by."""
        return target_facts(self.pieces)

    def few_targets(self, n: int) -> NDArray[Any]:
        """About `n` targets, from all over the matrix."""
        return np.resize(self.targets[:: max(1, self.targets.size // n)], n)

    def transposed(self) -> "Observations":
        """The same entries with rows and columns exchanged."""
        shape, labels = self.shape[::-1], (self.col_labels, self.row_labels)
        return part_of(shape, self.indices, self.rows, self.targets, self.weights, labels)

    def take(self, entries: ArrayLike) -> "Observations":
        """Observations of the same shape and labels with only the chosen entries (a mask or entry numbers)."""
        entries = np.asarray(entries, np.int64 if np.size(entries) == 0 else None)
        if entries.dtype == bool:
            if entries.shape != self.targets.shape:
                raise DataError(f"The mask has shape {entries.shape} but there are {self.n_observed} entries.")
            entries = np.flatnonzero(entries)
        if entries.size and (entries.dtype.kind not in "iu" or entries.min() < 0 or entries.max() >= self.n_observed):
            raise DataError(f"Entry numbers must be integers from 0 to {self.n_observed - 1}.")
        weights = None if self.weights is None else self.weights[entries]
        labels = (self.row_labels, self.col_labels)
        return part_of(self.shape, self.rows[entries], self.cols[entries], self.targets[entries], weights, labels)

    def aligned(self, other: "Observations") -> "Observations":
        """The same entries under the numbers of the rows and columns of `other`, matched by label.

        Entries whose row or column `other` does not have are left out; the log says how many.
        """
        sides = zip(self._called, (other.row_labels, other.col_labels), other.shape, ("row", "column"), strict=True)
        rows, cols = (lookup(*side) for side in sides)
        rows, cols = rows[self.rows], cols[self.cols]
        known = (rows >= 0) & (cols >= 0)
        if not known.all():
            log.warning("%d of %d entries are in rows or columns that are not known", (~known).sum(), known.size)
        weights = None if self.weights is None else self.weights[known]
        labels = other.row_labels, other.col_labels
        return part_of(other.shape, rows[known], cols[known], self.targets[known], weights, labels)

    @property
    def _called(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """What rows and columns are called: labels or numbers."""
        labels = zip((self.row_labels, self.col_labels), self.shape, strict=True)
        rows, cols = (np.arange(size) if names is None else names for names, size in labels)
        return rows, cols

    def take_rows(self, rows: ArrayLike) -> "Observations":
        """Observations of the chosen rows alone (a mask or row numbers), numbered in the order given."""
        chosen = np.asarray(rows)
        if chosen.dtype == bool and chosen.shape == (self.shape[0],):
            chosen = np.flatnonzero(chosen)
        wrong = chosen.ndim != 1 or (chosen.size > 0 and chosen.dtype.kind not in "iu")
        if wrong or (chosen.size and (chosen.min() < 0 or chosen.max() >= self.shape[0])):
            raise DataError(f"Rows must be a mask or integers from 0 to {self.shape[0] - 1}.")
        starts, chosen = self.indptr.astype(np.int64), chosen.astype(np.int64)
        lengths, starts = starts[chosen + 1] - starts[chosen], starts[chosen]
        indptr = np.concatenate(([0], np.cumsum(lengths)))
        entries = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], lengths)
        weights = None if self.weights is None else self.weights[entries]
        labels = (None if self.row_labels is None else self.row_labels[chosen], self.col_labels)
        shape = (chosen.size, self.shape[1])
        return Observations(
            indptr.astype(np.uint64), self.indices[entries], self.targets[entries], shape, weights, labels
        )

    def weighted(self) -> "Observations":
        """The entries of positive weight; an entry of weight zero is as good as not there."""
        return self if self.weights is None or bool((self.weights > 0).all()) else self.take(self.weights > 0)

    def row_weights(self) -> NDArray[np.float64]:
        """Sum of the weights of every row's entries; their number if there are no weights."""
        return np.bincount(self.rows, self.weights, self.shape[0]).astype(np.float64)

    def to_sparse(self) -> Any:
        """SciPy CSR array with the targets as stored entries."""
        indptr, indices = self.indptr.astype(np.int64), self.indices.astype(np.int64)
        return sp.csr_array((self.targets.copy(), indices, indptr), shape=self.shape)

    def __repr__(self) -> str:
        """Sizes, at a glance."""
        weighted = "" if self.weights is None else ", weighted"
        share = self.n_observed / (self.shape[0] * self.shape[1])
        return f"Observations({self.shape[0]} x {self.shape[1]}, {self.n_observed} observed, {share:.3%}{weighted})"


def part_of(
    shape: tuple[int, int], rows: Any, cols: Any, targets: Any, weights: Any, labels: tuple[Any, Any]
) -> Observations:
    """Some entries of a matrix that there is, in any order; all others may be missing."""
    row_of, col_of = (np.asarray(side).astype(np.uint32) for side in (rows, cols))
    indptr, order = sort_entries(row_of, col_of, shape)
    indptr, indices, targets, weights = merge_repeats(
        indptr, col_of[order], targets[order], None if weights is None else weights[order], "error", labels
    )
    if weights is not None:
        check_weights(weights)
    return Observations(indptr, indices, targets, shape, weights, labels)


def _as_shape(shape: Any) -> tuple[int, int]:
    try:
        n_rows, n_cols = (operator.index(size) for size in shape)
    except (TypeError, ValueError):
        raise DataError(f"`shape` must be a pair (n_rows, n_cols), got {shape!r}.") from None
    if n_rows < 0 or n_cols < 0:
        raise DataError(f"`shape` must not be negative, got {shape!r}.")
    return n_rows, n_cols


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view; the caller's own array stays as it is."""
    view = array.view()
    view.flags.writeable = False
    return view
