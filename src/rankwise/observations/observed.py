"""`Observations`: the observed entries of a matrix, immutable, in CSR form."""

import logging
import math
from collections.abc import Hashable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from .._arrays import Array
from .._errors import DataError, SettingError
from . import build
from .entries import Entries
from .frames import is_frame, read_long, read_wide
from .labels import LabelIndex, Labelled, numbered
from .shards import Piece, TargetFacts, cut_rows, once, target_facts

log = logging.getLogger("rankwise")
Shape = tuple[int, int]
Labels = tuple[object, object]  # of the rows and of the columns: array-like, LabelIndex or None
Indices = tuple[LabelIndex, LabelIndex]


class Observations(Labelled):
    """Observed entries of a matrix, sorted by row and column.

    Built by `from_coo`, `from_labels`, `from_sparse`, `from_dense`, `from_frame` or `from_any`, which validate and sort
    once; what is derived from Observations (`take`, `take_rows`, `transposed`, `aligned`) is not validated again.

    Attributes
    ----------
    shape : tuple of int
        (n_rows, n_cols). Rows and columns may be without entries.
    indptr : ndarray of uint64, shape (n_rows + 1,)
        Number of the first entry of each row.
    indices : ndarray of uint32, shape (n_observed,)
        Column of each entry.
    targets : ndarray of float32 or float64, shape (n_observed,)
        Observed values.
    weights : ndarray of shape (n_observed,) or None
        Weight of each entry's loss; None means one for all.
    row_labels, col_labels : ndarray or None
        Labels of the rows and columns; None means that they are identified by their numbers.

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

    indptr: NDArray[np.uint64]
    indices: NDArray[np.uint32]
    targets: Array
    weights: Array | None

    def __init__(
        self,
        indptr: NDArray[np.uint64],
        indices: NDArray[np.uint32],
        targets: Array,
        shape: Shape,
        weights: Array | None = None,
        labels: Labels = (None, None),
    ) -> None:
        build.check_csr(indptr, indices, shape)
        targets = build.as_values(targets, indices.size, "values", copy=False)
        if weights is not None:
            weights = build.as_values(weights, indices.size, "weights", copy=False)
        build.check_weights(weights)
        valid = self._valid(indptr, indices, targets, shape, weights, _checked_labels(labels, shape))
        self.__dict__.update(valid.__dict__)

    @classmethod
    def _valid(
        cls, indptr: Array, indices: Array, targets: Array, shape: Shape, weights: Array | None, labels: Indices
    ) -> "Observations":
        """Observations of arrays that are known to be valid: sorted, distinct, finite; DataError if there are none."""
        build.check_some(indices.size, shape)
        made = cls.__new__(cls)
        made.shape = shape
        made.indptr, made.indices, made.targets = build.frozen(indptr), build.frozen(indices), build.frozen(targets)
        made.weights = None if weights is None else build.frozen(weights)
        made.row_labels, made.col_labels = (None if x.labels is None else build.frozen(x.labels) for x in labels)
        made.__dict__["_sealed"] = True
        return made

    def __setattr__(self, name: str, value: object) -> None:
        """Raise AttributeError: Observations are immutable."""
        if "_sealed" in self.__dict__:
            raise AttributeError(f"Observations never change, so `{name}` cannot be set; build new ones.")
        super().__setattr__(name, value)

    def __setstate__(self, state: dict[str, object]) -> None:
        """Make unpickled arrays read-only, as NumPy does not: kernels are compiled for read-only arrays."""
        for name, value in state.items():
            self.__dict__[name] = build.frozen(value) if isinstance(value, np.ndarray) else value

    @classmethod
    def from_coo(
        cls,
        rows: ArrayLike,
        cols: ArrayLike,
        values: ArrayLike,
        shape: Shape | None = None,
        *,
        weights: ArrayLike | None = None,
        duplicates: str = "error",
        labels: Labels = (None, None),
    ) -> "Observations":
        """Build from row numbers, column numbers and values, in any order.

        Parameters
        ----------
        rows, cols : array-like of int, shape (n_observed,)
        values : array-like of float, shape (n_observed,)
        shape : (n_rows, n_cols), optional
            By default the largest indices plus one.
        weights : array-like of float, shape (n_observed,), optional
            Non-negative weight of each entry's loss; by default one for all.
        duplicates : {"error", "mean", "last"}, default="error"
            Entries given more than once: raise DataError, average them by weight, or keep the last.
        labels : pair of array-like, LabelIndex or None, optional
            Labels of the rows and of the columns.
        """
        n_rows, n_cols = (None, None) if shape is None else build.as_shape(shape)
        row_of, n_rows = build.as_indices(rows, n_rows, "row", copy=False)  # sorting copies
        col_of, n_cols = build.as_indices(cols, n_cols, "column", copy=False)
        if row_of.size != col_of.size:
            raise DataError(f"There are {row_of.size} row indices but {col_of.size} column indices; give pairs.")
        targets = build.as_values(values, row_of.size, "values", copy=False)
        weight_of = None if weights is None else build.as_values(weights, row_of.size, "weights", copy=False)
        build.check_weights(weight_of)
        build.refuse_huge(n_rows, n_cols, row_of.size)
        indptr, order = build.sort_entries(row_of, col_of, (n_rows, n_cols))
        indices, targets = col_of[order], targets[order]
        weight_of = None if weight_of is None else weight_of[order]
        del order, row_of, col_of
        valid = _checked_labels(labels, (n_rows, n_cols))
        names = valid[0].labels, valid[1].labels
        entries = build.merge_repeats(indptr, indices, targets, weight_of, duplicates, names)
        return cls._valid(*entries[:3], (n_rows, n_cols), entries[3], valid)

    @classmethod
    def from_labels(cls, rows: ArrayLike, cols: ArrayLike, values: ArrayLike, **options: Any) -> "Observations":
        """Build from the row label, column label and value of each entry; labels are numbered in sorted order.

        Parameters
        ----------
        rows, cols : array-like of shape (n_observed,)
            Labels of any type that can be sorted: text, integers, dates.
        values : array-like of float, shape (n_observed,)
        **options
            `weights` and `duplicates`, as in `from_coo`.
        """
        row_labels, row_of = numbered(rows, "row")
        col_labels, col_of = numbered(cols, "column")
        shape = (row_labels.size, col_labels.size)
        labels = LabelIndex(row_labels, shape[0], "row"), LabelIndex(col_labels, shape[1], "column")
        return cls.from_coo(row_of, col_of, values, shape, labels=labels, **options)

    @classmethod
    def from_sparse(cls, matrix: Any, **options: Any) -> "Observations":
        """Build from a SciPy sparse matrix; stored entries are observed, explicit zeros included.

        `options` are `weights`, `duplicates` and `labels`, as in `from_coo`.
        """
        if len(matrix.shape) != 2:
            raise DataError(f"A two-dimensional matrix is needed, got shape {matrix.shape}.")
        if matrix.format == "csr" and not set(options) - {"labels"}:
            observations = cls._from_sorted_csr(matrix, options.get("labels", (None, None)))
            if observations is not None:
                return observations
        rows, cols, values = build.sparse_entries(matrix)
        return cls.from_coo(rows, cols, values, matrix.shape, **options)

    @classmethod
    def _from_sorted_csr(cls, matrix: Any, labels: Labels) -> "Observations | None":
        """Build from a CSR matrix without sorting; None if a row is not sorted or has repeats."""
        starts, stored, values = build.compressed_arrays(matrix)
        indptr = starts.astype(np.uint64)
        indices, n_cols = build.as_indices(stored, matrix.shape[1], "column")
        if build.first_disorder(indptr, indices) >= 0:
            return None
        targets, shape = build.as_values(values, indices.size, "values"), (matrix.shape[0], n_cols)
        return cls._valid(indptr, indices, targets, shape, None, _checked_labels(labels, shape))

    @classmethod
    def from_dense(cls, array: ArrayLike, **options: Any) -> "Observations":
        """Build from a two-dimensional array with NaN at unobserved entries.

        `options` are `weights`, `duplicates` and `labels`, as in `from_coo`.
        """
        matrix = build.as_matrix(array)
        rows, cols = np.nonzero(~np.isnan(matrix))
        return cls.from_coo(rows, cols, matrix[rows, cols], matrix.shape, **options)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        row: Hashable = None,
        col: Hashable = None,
        value: Hashable = None,
        weight: Hashable = None,
        **options: Any,
    ) -> "Observations":
        """Build from a data frame of pandas, polars or pyarrow.

        Parameters
        ----------
        frame : DataFrame, LazyFrame or Table
            Long, one line per entry, if `col` or `value` is given. Otherwise wide: the matrix itself, with missing
            values at unobserved entries; its index (pandas) and the names of its columns become labels.
        row, col, value : name of a column, optional
            Columns of a long frame with each entry's row label, column label and value. Of a wide frame, `row` may name
            a column of row labels.
        weight : name of a column, optional
            Column of a long frame with the weight of each entry's loss.
        **options
            `duplicates`, as in `from_coo`.
        """
        if not is_frame(frame):
            raise DataError(f"`frame` must be a data frame of pandas, polars or pyarrow, got {type(frame).__name__}.")
        if col is not None or value is not None or weight is not None:
            return cls.from_coo(**read_long(frame, row, col, value, weight), **options)
        array, labels = read_wide(frame, row)
        return cls.from_dense(array, labels=labels, **options)

    @classmethod
    def from_any(
        cls, data: Any, *, row: Hashable = None, col: Hashable = None, value: Hashable = None, weight: Hashable = None
    ) -> "AnyEntries":
        """Build from a SciPy sparse matrix, an array with NaN, or a data frame (see `from_frame`).

        Observations, and entries on disk or on a cluster, are returned as they are.
        """
        names = {"row": row, "col": col, "value": value, "weight": weight}
        named = [f"{use}=" for use, name in names.items() if name is not None]
        if is_frame(data):
            return cls.from_frame(data, **names)
        if named:
            raise SettingError(f"{named[0]} names a column of a data frame, but a {type(data).__name__} was given.")
        if isinstance(data, cls | Entries):  # entries on disk or in a cluster stay there
            return data
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
        """Sum of the weights; the number of entries if there are no weights."""
        if self.weights is None:
            return float(self.n_observed)
        return math.fsum(part.weights.sum(dtype=np.float64) for part in self.pieces() if part.weights is not None)

    @property
    def rows(self) -> NDArray[np.int64]:
        """Row number of every entry, in entry order; computed on each call."""
        return build.rows_of(self.indptr)

    @property
    def cols(self) -> NDArray[np.int64]:
        """Column number of every entry, in entry order; computed on each call."""
        return self.indices.astype(np.int64)

    def cuts(self) -> NDArray[np.int64]:
        """First row of every shard, and the number of rows; shape (n_shards + 1,)."""
        return self._cuts

    @cached_property
    def _cuts(self) -> NDArray[np.int64]:
        return build.frozen(cut_rows(self.indptr, self.shape[1]))

    def pieces(self) -> Iterator[Piece]:
        """Views of the entries of each shard, in order."""
        for start, stop in pairwise(self.cuts().tolist()):
            lo, hi = (int(self.indptr[row]) for row in (start, stop))
            indptr = self.indptr[start : stop + 1] - np.uint64(lo)
            weights = None if self.weights is None else self.weights[lo:hi]
            yield Piece(start, self.shape[1], indptr, self.indices[lo:hi], self.targets[lo:hi], weights)

    @property
    def heaviest(self) -> float:
        """The largest weight; one if there are no weights."""
        return 1.0 if self.weights is None else float(self.weights.max())

    @once
    def target_facts(self) -> TargetFacts:
        """Statistics of the targets by which `loss="auto"` chooses."""
        return target_facts(self.pieces)

    def few_targets(self, n: int) -> Array:
        """Exactly `n` targets, evenly spread over the entries and repeated if there are fewer."""
        return np.resize(self.targets[:: max(1, self.targets.size // n)], n)

    def transposed(self) -> "Observations":
        """Entries of the transpose: rows and columns exchanged."""
        labels = LabelIndex(self.col_labels, self.shape[1], "row"), LabelIndex(self.row_labels, self.shape[0], "column")
        return part_of(self.shape[::-1], self.indices, self.rows, self.targets, self.weights, labels, by_col=True)

    def take(self, entries: ArrayLike) -> "Observations":
        """Observations of the same shape and labels with only the chosen entries (a mask or entry numbers)."""
        entries = np.sort(build.as_numbers(entries, self.n_observed, "Entry numbers"))  # the order of rows and columns
        build.check_distinct(entries, self.indptr, self.indices, (self.row_labels, self.col_labels))
        indptr = np.searchsorted(entries, self.indptr.astype(np.int64)).astype(np.uint64)
        return self._subset(indptr, entries, self.shape, (self.row_index, self.col_index))

    def aligned(self, other: "AnyEntries") -> "Observations":
        """These entries in the shape of `other`, rows and columns matched by `LabelIndex.align`.

        Entries whose row or column `other` does not have are left out; the log says how many.
        """
        index = other.row_index, other.col_index
        rows = index[0].align(self.row_index, unknown="skip")
        cols = index[1].align(self.col_index, unknown="skip")
        if self.shape == other.shape and all(np.array_equal(side, np.arange(side.size)) for side in (rows, cols)):
            return self
        rows, cols = rows[self.rows], cols[self.cols]
        known = (rows >= 0) & (cols >= 0)
        if not known.all():
            log.warning("%d of %d entries are in rows or columns that are not known", (~known).sum(), known.size)
        weights = None if self.weights is None else self.weights[known]
        return part_of(other.shape, rows[known], cols[known], self.targets[known], weights, index)

    def take_rows(self, rows: ArrayLike) -> "Observations":
        """Observations of the chosen rows alone (a mask or row numbers), numbered in the order given."""
        chosen = build.as_numbers(rows, self.shape[0], "Rows")
        indptr, entries = build.entries_in(self.indptr, chosen)
        names = None if self.row_labels is None else self.row_labels[chosen]
        labels = LabelIndex.checked(names, chosen.size, "row"), self.col_index
        return self._subset(indptr, entries, (chosen.size, self.shape[1]), labels)

    def _subset(self, indptr: Array, entries: Array, shape: Shape, labels: Indices) -> "Observations":
        weights = None if self.weights is None else self.weights[entries]
        build.check_weights(weights)
        return self._valid(indptr, self.indices[entries], self.targets[entries], shape, weights, labels)

    def weighted(self) -> "Observations":
        """The entries of positive weight; these Observations themselves if that is all of them."""
        return self if self.weights is None or self._all_positive else self.take(self.weights > 0)

    @cached_property
    def _all_positive(self) -> bool:
        return self.weights is None or bool((self.weights > 0).all())

    def row_weights(self) -> NDArray[np.float64]:
        """Sum of the weights of every row's entries; their number if there are no weights."""
        return np.bincount(self.rows, self.weights, self.shape[0]).astype(np.float64)

    def to_sparse(self) -> Any:
        """Convert to a SciPy CSR array with the targets as stored entries."""
        indptr, indices = self.indptr.astype(np.int64), self.indices.astype(np.int64)
        return sp.csr_array((self.targets.copy(), indices, indptr), shape=self.shape)

    def __repr__(self) -> str:
        """Show shape, number of entries and density."""
        weighted = "" if self.weights is None else ", weighted"
        share = self.n_observed / (self.shape[0] * self.shape[1])
        return f"Observations({self.shape[0]} x {self.shape[1]}, {self.n_observed} observed, {share:.3%}{weighted})"


AnyEntries = Observations | Entries


def part_of(
    shape: Shape, rows: Array, cols: Array, targets: Array, weights: Array | None, labels: Labels, by_col: bool = False
) -> Observations:
    """Observations of valid entries, such as some of a larger matrix, in any order; `by_col`: as in `sort_entries`."""
    row_of, col_of = (side.astype(np.uint32) for side in (rows, cols))
    indptr, order = build.sort_entries(row_of, col_of, shape, by_col=by_col)
    weights = None if weights is None else weights[order]
    build.check_weights(weights)
    valid = _checked_labels(labels, shape)
    return Observations._valid(indptr, col_of[order], targets[order], shape, weights, valid)


def _checked_labels(labels: Labels, shape: Shape) -> Indices:
    return LabelIndex.checked(labels[0], shape[0], "row"), LabelIndex.checked(labels[1], shape[1], "column")
