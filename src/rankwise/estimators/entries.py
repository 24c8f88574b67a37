"""Conversion of what `fit` accepts into observed entries, in memory, on disk or on a Dask cluster."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import column_or_1d

from .._arrays import Array
from .._errors import DataError, SettingError
from ..engines import ShardFolder
from ..observations import AnyEntries, Observations, as_pairs, is_frame
from ..observations.frames import is_lazy
from ..observations.pairs import columns_of
from ..storage import is_shard_folder

DASK_PACKAGES = ("dask", "dask_expr")


@contextmanager
def entries_of(X: Any, **names: Any) -> Iterator[AnyEntries]:
    """Yield the entries of `X`, as `fit` takes it; those that this call puts on a cluster are released at the end.

    The path of a folder of shards is streamed from disk; other paths, or lists of paths, are Parquet files that the
    workers of the current Dask client read. `names` are the columns `row`, `col`, `value` and `weight`, or None.
    """
    is_dask = type(X).__module__.partition(".")[0] in DASK_PACKAGES
    is_path = isinstance(X, str | os.PathLike)
    if is_path and is_shard_folder(X):
        named = [name for name, column in names.items() if column is not None]
        if named:
            raise SettingError(f"`{named[0]}` must be None for a folder of shards, which has no named columns.")
        yield ShardFolder(X)
    elif is_dask or is_path or _are_paths(X):
        from ..dask import read_frame, read_parquet

        entries = read_frame(X, **names) if is_dask else read_parquet(X, **names)
        try:
            yield entries
        finally:
            entries.release()
    else:
        yield Observations.from_any(X, **names)


def _are_paths(X: Any) -> bool:
    return isinstance(X, list | tuple) and len(X) > 0 and all(isinstance(path, str | os.PathLike) for path in X)


def entries_of_pairs(X: Any, targets: Array, sample_weight: ArrayLike | None) -> Observations:
    """Return entries at (row, column) pairs of labels, shape (n_pairs, 2); pairs of weight zero are left out.

    A repeated pair gets the mean of its targets, and the sum of its weights.
    """
    rows, cols = as_pairs(X)
    if rows.size != targets.size:
        raise DataError(f"`X` has {rows.size} pairs but `y` has {targets.size} values; give one for each pair.")
    if sample_weight is None:
        observations = Observations.from_labels(rows, cols, targets, duplicates="mean")
        if observations.n_observed == rows.size:
            return observations
    weights = np.ones(rows.size) if sample_weight is None else np.asarray(sample_weight)
    if weights.shape == rows.shape and weights.any():
        rows, cols, targets, weights = (part[weights != 0] for part in (rows, cols, targets, weights))
    observations = Observations.from_labels(rows, cols, targets, weights=weights, duplicates="mean")
    return with_targets(observations, observations.targets, observations.weights)


def is_table_of(X: Any, n: int) -> bool:
    """Return whether X is a data frame, an array or a list of `n` columns."""
    if is_frame(X):
        return len(X.collect_schema() if is_lazy(X) else X.columns) == n
    if isinstance(X, list | tuple):
        return len(X) > 0 and all(isinstance(line, list | tuple | np.ndarray) and len(line) == n for line in X)
    return isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] == n


def refuse_third_column(X: Any) -> None:
    """Raise `DataError` if X has three columns, the first two of which are distinct pairs of labels."""
    if not is_table_of(X, 3):
        return
    first, second = columns_of(X)[:2]
    pairs = set(zip(first.tolist(), second.tolist(), strict=True))
    if _are_labels(first) and _are_labels(second) and len(pairs) == first.size:
        raise DataError(
            "`X` has three columns, of which the first two look like row and column labels, beside `y`; pairs have two "
            "columns, and weights belong into `sample_weight`. If `X` is the matrix itself, leave out `y`."
        )


def _are_labels(column: Array) -> bool:
    """Return whether a column is text or whole numbers."""
    if column.dtype.kind == "f":
        return bool(np.isfinite(column).all() and (column == np.rint(column)).all())
    return column.dtype.kind in "iuUS" or all(isinstance(label, str | int) for label in column)


def with_targets(observations: Observations, targets: Array, weights: Array | float | None) -> Observations:
    """Return the same pattern and labels with other targets and weights; no weights if all are one."""
    weights = None if weights is None or np.all(weights == 1) else np.asarray(weights)
    labels = observations.row_labels, observations.col_labels
    return Observations(observations.indptr, observations.indices, targets, observations.shape, weights, labels)


def as_targets(y: Any) -> NDArray[np.float64]:
    """Return `y` as a vector of real numbers; raise `DataError` otherwise."""
    if np.asarray(y).dtype.kind == "c":
        raise DataError("Complex data not supported: `y` must be real numbers.")
    values: Array = column_or_1d(np.asarray(y), warn=True)
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DataError(
            f"`y` must be real numbers, got {values.dtype}; SignedLinkPredictor takes two classes of any type."
        ) from None
