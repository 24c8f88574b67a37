"""Entries from data frames: any library that narwhals supports, or any object with ``__arrow_c_stream__``."""

from collections.abc import Hashable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from .._arrays import Array
from .._errors import DataError, SettingError
from .build import LabelPair
from .labels import numbered, text_array

if TYPE_CHECKING:
    import narwhals as nw

    Series = nw.Series[Any]
    DataFrame = nw.DataFrame[Any]

LONG_FRAME_WIDTH = 4  # columns that a list of entries has: row, column, value, perhaps a time
NO_FRAMES = {"builtins", "numpy", "scipy", "rankwise"}  # packages without frames: narwhals, 70 ms, is not loaded


@runtime_checkable
class ArrowStream(Protocol):
    """Tabular data of any library that implements Arrow's PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the data as a stream of record batches."""


def is_frame(data: Any) -> bool:
    """Return whether `data` is a data frame that can be read into memory; frames of Dask are not."""
    if type(data).__module__.partition(".")[0] in NO_FRAMES:
        return False
    from narwhals import dependencies as libraries

    if libraries.is_dask_dataframe(data) or libraries.is_into_series(data):
        return False
    return libraries.is_into_dataframe(data) or is_lazy(data) or isinstance(data, ArrowStream)


def is_lazy(data: Any) -> bool:
    """Return whether `data` is a query of polars whose result is not computed yet."""
    from narwhals import dependencies as libraries

    return libraries.is_polars_lazyframe(data)


def without_streams(data: Any) -> Any:
    """Read an Arrow stream, which may come only once, into an Arrow table; return anything else as it is."""
    if not is_frame(data):
        return data
    import narwhals as nw

    is_stream = not is_lazy(data) and not isinstance(data, nw.DataFrame) and not nw.dependencies.is_into_dataframe(data)
    return as_frame(data).to_native() if is_stream else data


def as_frame(data: Any) -> "DataFrame":
    """Wrap a data frame by narwhals; queries of polars are computed, Arrow streams are read."""
    import narwhals as nw

    if isinstance(data, nw.DataFrame):
        return data
    try:
        if is_lazy(data):
            query: nw.LazyFrame[Any] = nw.from_native(data)
            return query.collect()
        if nw.dependencies.is_into_dataframe(data):
            return nw.from_native(data, eager_only=True)
        return nw.from_arrow(data, backend="pyarrow")
    except nw.exceptions.DuplicateError as error:
        repeated = str(error).splitlines()[-1].lstrip("- ")
        raise DataError(f"The columns of a frame must have different names, got {repeated}; rename them.") from None


def read_long(frame: Any, row: Hashable, col: Hashable, value: Hashable, weight: Hashable = None) -> dict[str, Any]:
    """Arguments of `Observations.from_coo` from a frame with one line per entry."""
    need_names(row, col, value)
    frame = as_frame(frame)
    row_labels, rows = _labels_of(frame, row, "row", "row")
    col_labels, cols = _labels_of(frame, col, "col", "column")
    return {
        "rows": rows,
        "cols": cols,
        "values": numbers_of(column_of(frame, value, "value"), value),
        "shape": (row_labels.size, col_labels.size),
        "weights": None if weight is None else numbers_of(column_of(frame, weight, "weight"), weight),
        "labels": (row_labels, col_labels),
    }


def need_names(row: Hashable, col: Hashable, value: Hashable) -> None:
    """Raise unless the three columns that a list of entries needs are named."""
    missing = [f"{use}=" for use, name in (("row", row), ("col", col), ("value", value)) if name is None]
    if missing:
        raise SettingError(
            f"A frame with one line per entry needs the names of three columns; {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not given."
        )


def read_wide(frame: Any, row: Hashable = None) -> tuple[Array, LabelPair]:
    """Array of shape (n_rows, n_cols) with NaN at missing values, and labels, of a frame that is the matrix itself.

    Rows are labelled by the column `row` if it is given, else by the index of pandas; columns by their names. Labels
    that are the numbers 0, 1, ... are None.
    """
    import narwhals as nw

    frame = as_frame(frame)
    index = nw.maybe_get_index(frame)
    if row is None and index is not None and index.nlevels > 1:
        raise DataError(f"The frame's index has {index.nlevels} levels; make it one, as `reset_index` does.")
    rows = index if row is None else _plain(column_of(frame, row, "row"))
    names = [name for name in _names(frame) if row is None or name != row]
    advice = "; a list of entries needs row=, col= and value="
    columns = [numbers_of(frame.get_column(name), name, advice) for name in names]
    array = np.stack(columns, axis=1) if columns else np.empty((len(frame), 0))
    _refuse_list(array)
    labels = text_array(names, "column") if all(isinstance(name, str) for name in names) else np.asarray(names)
    if labels.dtype.kind in "US" and not all(isinstance(name, str) for name in names):
        raise DataError("The names of the frame's columns mix types; make them all text or all numbers.")
    return array, (None if rows is None else _or_none(np.asarray(rows), "row"), _or_none(labels, "column"))


def read_columns(frame: Any) -> list[Array]:
    """Columns of a frame as arrays of shape (n_lines,) each."""
    return [_as_text(_plain(column), "row or column") for column in as_frame(frame).iter_columns()]


def column_of(frame: Any, name: Hashable, use: str) -> "Series":
    """Column of a frame by its name; `use` is the parameter that names it."""
    wrapped = as_frame(frame)
    names = _names(wrapped)
    if name not in names:
        shown = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
        raise DataError(f"The frame has no column {name!r} (asked for by {use}=); it has {shown or 'none'}.")
    return wrapped.get_column(name)  # type: ignore[arg-type]  # pandas has names other than text


def coded(column: "Series", which: str) -> tuple[Array, Array]:
    """Distinct labels of a column in sorted order, and the number of each line's label, -1 where it is missing."""
    import narwhals as nw

    if column.dtype.is_nested():
        raise DataError(_CANNOT_NUMBER.format(which, column.dtype))
    if column.dtype in (nw.Object, nw.Unknown):  # Arrow has no type for these, so Python numbers them
        distinct, codes = _number_objects(column.to_list(), which)
    else:
        values, codes = encode_arrow(column.to_arrow())
        distinct = _objects(values.to_pylist()) if _has_zone(column) else values.to_numpy(zero_copy_only=False)
    labels, place = numbered(_as_text(distinct, which), which)
    return labels, np.append(place, -1)[codes]


def encode_arrow(column: Any) -> tuple[Any, Array]:
    """Distinct values of a pyarrow array or chunked array, in any order, and the number of each element's, -1 for null.

    Categories of a dictionary array that no element has are left out.
    """
    import pyarrow as pa

    encoded = column.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
    codes = encoded.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
    used = np.zeros(len(encoded.dictionary) + 1, bool)
    used[codes] = True
    places = np.append(np.cumsum(used[:-1]) - 1, -1)
    return encoded.dictionary.take(np.flatnonzero(used[:-1])), places[codes]


def refuse_unlabelled(n_missing: int, n: int, name: Hashable, first: int) -> None:
    """Raise because `n_missing` of `n` lines have no label."""
    raise DataError(
        f"{n_missing} of {n} lines have no label in column {name!r} (first: line {first}, counted from 0); "
        "leave these lines out."
    )


def numbers_of(column: "Series", name: Hashable, advice: str = "") -> Array:
    """Column as float64, or float32 if it is float32; NaN where a value is missing."""
    import narwhals as nw

    if column.dtype.is_numeric() or column.dtype == nw.Boolean:
        kind = nw.Float32 if column.dtype == nw.Float32 else nw.Float64
        return np.array(column.cast(kind).to_numpy())
    values = column.to_numpy() if column.dtype in (nw.Object, nw.Unknown) else np.zeros(0, object)
    if values.dtype.kind == "O" and not any(isinstance(value, str) for value in values):
        with suppress(TypeError, ValueError, OverflowError):  # decimals and None
            values = values.astype(np.float64)
    if values.dtype.kind not in "fiub" or values.size < len(column):
        first = str(column[0]) if len(column) else "nothing"
        raise DataError(f"The column {name!r} must hold real numbers, but its first value is {first!r}{advice}.")
    return values.astype(np.float64)


_CANNOT_NUMBER = "The {} labels are of a type that cannot be numbered ({}); make them text or numbers."


def _labels_of(frame: "DataFrame", name: Hashable, use: str, which: str) -> tuple[Array, Array]:
    """Sorted labels and codes of a column without missing labels."""
    labels, codes = coded(column_of(frame, name, use), which)
    if codes.size and codes.min() < 0:
        refuse_unlabelled(int((codes < 0).sum()), codes.size, name, int(np.argmax(codes < 0)))
    return labels, codes


def _number_objects(values: list[Hashable], which: str) -> tuple[Array, Array]:
    """Distinct objects in order of appearance, and the index of each value, -1 for None and NaN."""
    numbers: dict[Hashable, int] = {}
    try:
        codes = [-1 if value is None or value != value else numbers.setdefault(value, len(numbers)) for value in values]
    except (TypeError, ValueError) as error:  # not hashable, or arrays
        raise DataError(_CANNOT_NUMBER.format(which, error)) from None
    return _objects(list(numbers)), np.array(codes, np.int64)


def _objects(values: Sequence[object]) -> Array:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _names(frame: "DataFrame") -> list[Any]:
    names: list[Any] = list(frame.columns)  # pandas has names other than text
    levels = {len(name) for name in names if isinstance(name, tuple)}
    if levels:
        raise DataError(f"The frame's columns have {max(levels)} levels of names; make it one.")
    return names


def _refuse_list(array: Array) -> None:
    """Raise if what should be a matrix with missing entries looks like a list of entries."""
    n_lines, n_columns = array.shape
    if 3 <= n_columns <= LONG_FRAME_WIDTH < n_lines and np.isfinite(array).all() and not (array[:, :2] % 1).any():
        raise DataError(
            f"A frame of {n_columns} columns with nothing missing reads like a list of entries: name its columns with "
            "row=, col= and value=; or, if it is the matrix, give its values as an array."
        )


def _as_text(labels: Array, which: str) -> Array:
    """Convert object arrays of str to NumPy text; others are returned unchanged."""
    text = labels.dtype.kind == "O" and labels.size > 0 and all(isinstance(label, str) for label in labels)
    return text_array(labels.tolist(), which) if text else labels


def _has_zone(column: "Series") -> bool:
    """Return whether a column holds times with a zone, which NumPy has no type for."""
    import narwhals as nw

    return isinstance(column.dtype, nw.Datetime) and column.dtype.time_zone is not None


def _plain(column: "Series") -> Array:
    """Column as an array; missing values as its library represents them, times with a zone as objects."""
    return _objects(column.to_list()) if _has_zone(column) else np.asarray(column.to_numpy())


def _or_none(labels: Array, which: str) -> Array | None:
    """Labels, or None if they are the numbers 0, 1, ..."""
    labels = _as_text(labels, which)
    return None if labels.dtype.kind in "iu" and np.array_equal(labels, np.arange(labels.size)) else labels
