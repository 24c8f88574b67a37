"""Tables for the imputer: data frames by narwhals and NumPy arrays, read column by column, filled in the same types."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_array

from .._arrays import Array
from .._errors import DataError
from ..observations.frames import as_frame, is_frame, is_lazy, numbers_of

if TYPE_CHECKING:
    import narwhals as nw

    Series = nw.Series[Any]

EAGER = ("pandas", "polars", "modin", "cudf")  # libraries whose frames can be filled
CELL_TYPES = {"f": "real", "b": "boolean"}  # by the kind of a NumPy type; all others are integers


@dataclass(frozen=True)
class ColumnCells:
    """A column of a table."""

    name: Hashable
    values: Array  # (n_rows,): float64 for numbers and booleans, else objects; undefined where missing
    missing: Array  # (n_rows,): mask
    type: str  # "real", "integer", "boolean", "ordered", "category" or "text"
    categories: tuple[object, ...] = ()  # declared categories in their order

    @property
    def present(self) -> Array:
        """Observed values, shape (n_observed,)."""
        return self.values[~self.missing]


def as_table(X: Any) -> Any:
    """Check a table: a data frame is returned as it is, anything else as a two-dimensional array."""
    if is_frame(X):
        library = type(X).__module__.partition(".")[0]
        if is_lazy(X) or library not in EAGER:
            raise DataError(
                f"Data of type {library}.{type(X).__name__} cannot be filled; make it a data frame first, as "
                "`to_pandas()` or `collect()` does."
            )
        n_rows, n_columns = as_frame(X).shape
        if not n_rows or not n_columns:
            raise DataError(f"Found array with {n_rows} sample(s) and {n_columns} feature(s): nothing to learn.")
        return X
    if isinstance(X, np.ndarray) and X.dtype.kind in "OUS":
        X = _numbers_or_objects(X)
    try:
        return check_array(X, dtype=None, ensure_all_finite=False)
    except (TypeError, ValueError) as error:
        raise DataError(str(error)) from None


def _numbers_or_objects(X: Array) -> Array:
    """Convert an array of objects to float64 if all of them are numbers; text is never converted."""
    if X.dtype.kind != "O" or any(isinstance(value, str | bool | np.bool_) for value in X.flat):
        return X.astype(object)
    try:
        return X.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return X


def read(X: Any) -> list[ColumnCells]:
    """Columns of a table that `as_table` has checked."""
    if is_frame(X):
        return [_from_series(column) for column in as_frame(X).iter_columns()]
    return [_from_array(j, X[:, j]) for j in range(X.shape[1])]


def _from_array(name: Hashable, values: Array) -> ColumnCells:
    if values.dtype.kind in "fiub":
        return _numbers(name, values, CELL_TYPES.get(values.dtype.kind, "integer"))
    return _objects(name, values, _is_missing(values))


def _from_series(column: "Series") -> ColumnCells:
    import narwhals as nw

    dtype, name = column.dtype, column.name
    if dtype == nw.Boolean or (dtype.is_numeric() and not dtype.is_decimal()):
        kind = "boolean" if dtype == nw.Boolean else "real" if dtype.is_float() else "integer"
        return _numbers(name, numbers_of(column, name), kind)
    values = np.empty(len(column), object)
    values[:] = column.to_list()
    missing = column.is_null().to_numpy()
    if isinstance(dtype, nw.Enum):
        return ColumnCells(name, values, missing, "ordered", tuple(dtype.categories))
    if dtype == nw.Categorical:
        return ColumnCells(name, values, missing, "category", _declared_categories(column))
    if dtype not in (nw.String, nw.Object, nw.Unknown) or any(isinstance(value, complex) for value in values):
        raise DataError(
            f"Column {name!r} is of type {dtype}, which no loss takes; turn it into numbers, booleans or categories, "
            "or leave it out."
        )
    return _objects(name, values, missing)


def _declared_categories(column: "Series") -> tuple[object, ...]:
    """Categories of an unordered column in their declared order, which narwhals does not give.

    Those of polars depend on what the process has seen before, so that they are left to be sorted.
    """
    return tuple(column.to_native().dtype.categories) if column.implementation.is_pandas_like() else ()


def _numbers(name: Hashable, values: Array, kind: str) -> ColumnCells:
    numbers = values.astype(np.float64)
    return ColumnCells(name, numbers, np.isnan(numbers), kind)


def _objects(name: Hashable, values: Array, missing: Array) -> ColumnCells:
    """Column of objects: booleans, numbers, or else text."""
    values, present = values.astype(object), values[~missing]
    if present.size and all(isinstance(value, bool | np.bool_) for value in present):
        kind: str = "boolean"
    elif present.size and all(isinstance(value, int | float | np.number) for value in present):
        kind = "real"
    else:
        return ColumnCells(name, values, missing, "text")
    numbers = np.full(values.size, np.nan)
    try:
        numbers[~missing] = present.astype(np.float64)
    except OverflowError:
        raise DataError(f"The column {name!r} must hold numbers within the range of float64; divide it.") from None
    return ColumnCells(name, numbers, missing, kind)


def _is_missing(values: Array) -> Array:
    """Mask of None, of masked values and of values that differ from themselves, such as NaN."""
    return np.array([value is None or value is np.ma.masked or bool(value != value) for value in values], bool)


def filled(X: Any, fills: Mapping[int, Array], cells: list[ColumnCells], keep: list[int]) -> Any:
    """Fill the missing cells of a table and select the columns `keep`; the library and column types are those of `X`.

    `cells` are the columns of `X`, and `fills` has values of shape (n_rows,) for the columns to fill.
    """
    if is_frame(X):
        frame = as_frame(X)
        columns = [_filled_series(frame[:, j], fills[j], cells[j].missing) for j in keep if j in fills]
        return frame.with_columns(*columns)[:, keep].to_native()
    table = X[:, keep].copy()
    for place, j in enumerate(keep):
        if j in fills:
            table[cells[j].missing, place] = fills[j][cells[j].missing]
    return table


def _filled_series(column: "Series", fill: Array, missing: Array) -> "Series":
    if not missing.any():
        return column
    values: list[object] = fill[missing].tolist()
    if column.dtype.is_integer():
        values = np.rint(fill[missing].astype(np.float64)).astype(np.int64).tolist()
    return column.scatter(np.flatnonzero(missing).tolist(), values)
