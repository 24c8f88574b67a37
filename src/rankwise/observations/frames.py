"""Entries out of data frames of pandas, polars and pyarrow, none of them imported: a frame brings its own methods."""

from collections.abc import Hashable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import DataError, SettingError
from .labels import numbered

KINDS = {"pandas": ("DataFrame",), "polars": ("DataFrame", "LazyFrame"), "pyarrow": ("Table", "RecordBatch")}
FEW = 4  # columns that a list of entries has: row, column, value, perhaps a time


def kind_of(data: Any) -> str | None:
    """The package a data frame is of; None for anything else."""
    for ancestor in type(data).__mro__:
        if ancestor.__name__ in KINDS.get(_package(ancestor), ()):
            return _package(ancestor)
    return None


def is_frame(data: Any) -> bool:
    """Whether `data` is a data frame."""
    return kind_of(data) is not None


def read_long(frame: Any, row: Any, col: Any, value: Any, weight: Any = None) -> dict[str, Any]:
    """What `Observations.from_coo` takes, out of a frame with one line per entry."""
    need_names(row, col, value)
    frame = _collected(frame)
    row_labels, rows = _coded(column_of(frame, row, "row"), row, "row")
    col_labels, cols = _coded(column_of(frame, col, "col"), col, "column")
    return {
        "rows": rows,
        "cols": cols,
        "values": numbers_of(column_of(frame, value, "value"), value),
        "shape": (row_labels.size, col_labels.size),
        "weights": None if weight is None else numbers_of(column_of(frame, weight, "weight"), weight),
        "labels": (row_labels, col_labels),
    }


def need_names(row: Any, col: Any, value: Any) -> None:
    """Raise unless the three columns that a list of entries needs are named."""
    missing = [f"{use}=" for use, name in (("row", row), ("col", col), ("value", value)) if name is None]
    if missing:
        raise SettingError(
            f"A frame with one line per entry needs the names of three columns; {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not given."
        )


def read_wide(frame: Any, row: Any = None) -> tuple[NDArray[Any], tuple[Any, Any]]:
    """A matrix with NaN at unknown entries, and the labels of its rows and columns, out of a frame that is a matrix.

    Rows are called by the column `row` if it is given, else by pandas's index; else they are numbered.
    """
    frame = _collected(frame)
    rows = getattr(frame, "index", None) if row is None else _plain(column_of(frame, row, "row"))
    names = [name for name in _names(frame) if row is None or name != row]
    _refuse_repeats(names)
    columns = [numbers_of(frame[name], name, "; a list of entries needs row=, col= and value=") for name in names]
    array = np.stack(columns, axis=1) if columns else np.empty((len(frame), 0))
    _refuse_list(array)
    return array, (_called(rows), _called(names))


def read_columns(frame: Any) -> list[NDArray[Any]]:
    """All columns of a frame, by their places."""
    frame = _collected(frame)
    columns = [frame.iloc[:, place] for place in range(frame.shape[1])] if kind_of(frame) == "pandas" else frame.columns
    if kind_of(frame) == "polars":
        columns = frame.get_columns()
    return [_as_text(_plain(column)) for column in columns]


def _refuse_list(array: NDArray[Any]) -> None:
    """Raise if what should be a matrix with holes reads like a list of entries."""
    n_lines, n_columns = array.shape
    if 3 <= n_columns <= FEW < n_lines and np.isfinite(array).all() and not (array[:, :2] % 1).any():
        raise DataError(
            f"A frame of {n_columns} columns with nothing missing reads like a list of entries: name its columns with "
            "row=, col= and value=; or, if it is the matrix, give its values as an array."
        )


def _refuse_repeats(names: list[Any]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"The frame has {names.count(twice)} columns called {twice!r}; their names must differ.")


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _collected(frame: Any) -> Any:
    """The frame itself; polars's lazy ones are computed."""
    return frame.collect() if kind_of(frame) == "polars" and hasattr(frame, "collect") else frame


def _names(frame: Any) -> list[Any]:
    if getattr(frame.columns, "nlevels", 1) > 1:
        raise DataError(f"The frame's columns have {frame.columns.nlevels} levels of names; make it one.")
    return list(frame.column_names if kind_of(frame) == "pyarrow" else frame.columns)


def column_of(frame: Any, name: Any, use: str) -> Any:
    """One column by its name."""
    names = _names(frame)
    if not isinstance(name, Hashable) or name not in names:
        shown = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
        raise DataError(f"The frame has no column {name!r} (asked for by {use}=); it has {shown or 'none'}.")
    _refuse_repeats([given for given in names if given == name])
    return frame[name]


def _coded(column: Any, name: Any, which: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """The different labels of a column in sorted order, and each line's number among them."""
    labels, codes = coded(column, which)
    if codes.size and codes.min() < 0:
        refuse_unlabelled(int((codes < 0).sum()), codes.size, name, int(np.argmax(codes < 0)))
    return labels, codes


def coded(column: Any, which: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """The different labels in sorted order, and each line's number among them, -1 where there is no label.

    The frame's own package numbers the labels as they come, which is fast for text; sorting the few different ones is
    left to NumPy, so that every package gives the same numbers.
    """
    try:
        codes, unique = ENCODERS[_package(type(column))](column)
    except (TypeError, NotImplementedError) as error:
        raise DataError(
            f"The {which} labels are of a type that cannot be numbered ({error}); make them text or numbers."
        ) from None
    labels, place = numbered(_as_text(unique), which)
    return labels, place[codes] if codes.size and codes.min() >= 0 else np.append(place, -1)[codes]


def refuse_unlabelled(n_missing: int, n: int, name: Any, first: int) -> None:
    """Raise: some lines have no label."""
    raise DataError(
        f"{n_missing} of {n} lines have no label in column {name!r} (first: line {first}, counted from 0); "
        "leave these lines out."
    )


def _encode_pandas(column: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    codes, unique = column.factorize()
    return codes, np.asarray(unique)


def _encode_polars(column: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    if column.dtype.is_nested() or column.dtype.is_object():
        raise TypeError(f"{column.dtype}")
    unique = column.unique().drop_nulls()
    codes = column.replace_strict(unique, np.arange(len(unique)), default=-1)
    return codes.fill_null(-1).to_numpy(), unique.to_numpy()


def _encode_pyarrow(column: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    coded = column.dictionary_encode()
    if hasattr(coded, "combine_chunks"):
        coded = coded.unify_dictionaries().combine_chunks()
    return coded.indices.fill_null(-1).to_numpy(zero_copy_only=False), coded.dictionary.to_numpy(zero_copy_only=False)


ENCODERS = {"pandas": _encode_pandas, "polars": _encode_polars, "pyarrow": _encode_pyarrow}


def _as_text(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels that are all text as NumPy's text; others as they are."""
    text = labels.dtype.kind == "O" and labels.size > 0 and all(isinstance(label, str) for label in labels)
    return labels.astype(str) if text else labels


def _plain(column: Any) -> NDArray[Any]:
    """A column as an array, missing values as the package writes them."""
    nullable = _package(type(column)) == "pandas" and not isinstance(column.dtype, np.dtype)
    if nullable and column.dtype.kind in "iu" and not column.isna().any():
        return np.asarray(column.to_numpy(dtype=column.dtype.numpy_dtype))
    if nullable and column.dtype.kind in "fiub":
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(column)


def numbers_of(column: Any, name: Any, advice: str = "") -> NDArray[Any]:
    """A column as floats with NaN where it is missing; float32 stays."""
    found = _plain(column)
    if found.dtype.kind == "O" and not any(isinstance(given, str) for given in found):
        with suppress(TypeError, ValueError):  # decimals, and None for what is missing
            found = found.astype(np.float64)
    if found.dtype.kind not in "fiub":
        first = next((str(given) for given in found), "nothing")
        raise DataError(f"The column {name!r} must hold real numbers, but its first value is {first!r}{advice}.")
    return found.astype(np.float32 if found.dtype == np.float32 else np.float64)


def _called(given: Any) -> NDArray[Any] | None:
    """Labels out of an index or names; None if there are none, or they are the numbers 0, 1, ..."""
    if given is None:
        return None
    if getattr(given, "nlevels", 1) > 1:
        raise DataError(f"The frame's index has {given.nlevels} levels; make it one, as `reset_index` does.")
    labels = np.asarray(given)
    if isinstance(given, list) and labels.dtype.kind in "US" and not all(isinstance(name, str) for name in given):
        raise DataError("The names of the frame's columns mix types; make them all text or all numbers.")
    labels = _as_text(labels)
    return None if labels.dtype.kind in "iu" and np.array_equal(labels, np.arange(labels.size)) else labels
