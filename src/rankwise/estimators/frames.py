"""Tables as they come: pandas and polars frames, NumPy arrays. Read column by column, filled in the same types.

Neither pandas nor polars is imported: a frame brings all that is needed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from .._errors import DataError
from ..observations.frames import kind_of

Array = NDArray[Any]


@dataclass(frozen=True)
class Cells:
    """A column as it came.

    Attributes
    ----------
    name : str
    values : ndarray of shape (n_rows,)
        float64 for numbers, bool for booleans, else objects; anything where missing.
    missing : ndarray of bool, shape (n_rows,)
    type : {"real", "integer", "boolean", "ordered", "category", "text"}
    categories : tuple
        In their order, if the type has any.
    """

    name: Any
    values: Array
    missing: Array
    type: str
    categories: tuple[Any, ...] = ()

    @property
    def present(self) -> Array:
        """The values that are there."""
        return self.values[~self.missing]


def as_table(X: Any) -> Any:
    """A frame as it is; anything else as a checked two-dimensional array of numbers, booleans or objects."""
    if kind_of(X) is not None:
        if kind_of(X) == "pyarrow" or not hasattr(X, "shape"):  # the second: polars's lazy frames
            raise DataError(
                f"A {kind_of(X)} {type(X).__name__} cannot be filled; make it a data frame first, as `to_pandas()` or "
                "`collect()` does."
            )
        if 0 in X.shape:
            raise DataError(f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s): nothing to learn.")
        return X
    if isinstance(X, np.ndarray) and X.dtype.kind in "OUS":
        X = _numbers_or_objects(X)
    try:
        return check_array(X, dtype=None, ensure_all_finite=False)
    except (TypeError, ValueError) as error:
        raise DataError(str(error)) from None


def _numbers_or_objects(X: Array) -> Array:
    """Objects that are all numbers as numbers; text stays text, even if it reads as a number."""
    if X.dtype.kind != "O" or any(isinstance(each, str | bool | np.bool_) for each in X.flat):
        return X.astype(object)
    try:
        return X.astype(np.float64)
    except (TypeError, ValueError):
        return X


def read(X: Any) -> list[Cells]:
    """All columns of a table from `as_table`."""
    frame = kind_of(X)
    if frame == "pandas":
        return [_from_pandas(X.columns[j], X.iloc[:, j]) for j in range(X.shape[1])]
    if frame == "polars":
        return [_from_polars(X.get_column(name)) for name in X.columns]
    return [_from_array(j, X[:, j]) for j in range(X.shape[1])]


def _from_array(name: Any, values: Array) -> Cells:
    if values.dtype.kind in "fiub":
        return _numbers(name, values, values.dtype.kind)
    return _objects(name, values, _is_missing(values))


def _from_pandas(name: Any, series: Any) -> Cells:
    dtype, missing = series.dtype, series.isna().to_numpy(bool)
    if hasattr(dtype, "categories") and hasattr(series, "cat"):
        kind = "ordered" if dtype.ordered else "category"
        return Cells(name, series.to_numpy(object), missing, kind, tuple(dtype.categories))
    kind = getattr(dtype, "kind", "O")
    if kind in "fiub":
        return _numbers(name, series.to_numpy(np.float64, na_value=np.nan), kind)
    if kind in "mMc":
        raise DataError(_unknown_type(name, dtype))
    return _objects(name, series.to_numpy(object), missing)


def _from_polars(series: Any) -> Cells:
    dtype, name = series.dtype, series.name
    kind = type(dtype).__name__ if not isinstance(dtype, type) else dtype.__name__
    if kind in ("Enum", "Categorical"):
        values = np.array(series.to_list(), object)
        if kind == "Enum":
            return Cells(name, values, _is_missing(values), "ordered", tuple(dtype.categories))
        return Cells(name, values, _is_missing(values), "category")
    if kind == "Boolean" or (dtype.is_numeric() and kind != "Decimal"):
        letter = "b" if kind == "Boolean" else "f" if dtype.is_float() else "i"
        found = np.array([np.nan if each is None else each for each in series.to_list()], np.float64)
        return _numbers(name, found, letter)
    if kind in ("String", "Utf8", "Object", "Null"):
        values = np.array(series.to_list(), object)
        return _objects(name, values, _is_missing(values))
    raise DataError(_unknown_type(name, dtype))


def _unknown_type(name: Any, dtype: Any) -> str:
    return (
        f"Column {name!r} is of type {dtype}, which no loss takes; turn it into numbers, booleans or categories, "
        "or leave it out."
    )


def _numbers(name: Any, values: Array, letter: str) -> Cells:
    found = values.astype(np.float64)
    kind = {"f": "real", "b": "boolean"}.get(letter, "integer")
    return Cells(name, found, np.isnan(found), kind)


def _objects(name: Any, values: Array, missing: Array) -> Cells:
    """A column of objects: booleans, numbers, or else categories."""
    values, present = values.astype(object), values[~missing]
    if present.size and all(isinstance(each, bool | np.bool_) for each in present):
        kind: str = "boolean"
    elif present.size and all(isinstance(each, int | float | np.number) for each in present):
        kind = "real"
    else:
        return Cells(name, values, missing, "text")
    found = np.full(values.size, np.nan)
    found[~missing] = present.astype(np.float64)
    return Cells(name, found, missing, kind)


def _is_missing(values: Array) -> Array:
    """None and whatever does not equal itself, such as NaN."""
    return np.array([each is None or each is np.ma.masked or bool(each != each) for each in values], bool)


def filled(X: Any, fills: Mapping[int, Array], cells: list[Cells], keep: list[int]) -> Any:
    """`X` with the missing cells of the columns `fills` names filled, and only the columns in `keep`.

    A fill holds a value for every row; those at observed cells are not used.
    """
    frame = kind_of(X)
    if frame == "pandas":
        found = X.iloc[:, keep].copy()
        for place, j in enumerate(keep):
            if j in fills and cells[j].missing.any():
                found.isetitem(place, _fill_pandas(X.iloc[:, j], fills[j], cells[j].missing))
        return found
    if frame == "polars":
        return X.select([_fill_polars(X.to_series(j), fills.get(j), cells[j].missing) for j in keep])
    found = X[:, keep].copy()
    for place, j in enumerate(keep):
        if j in fills:
            found[cells[j].missing, place] = fills[j][cells[j].missing]
    return found


def _fill_pandas(series: Any, fill: Array, missing: Array) -> Any:
    new = series.copy()
    values = list(_fitting(fill[missing], getattr(series.dtype, "kind", "O")))
    new.iloc[np.flatnonzero(missing)] = values
    return new


def _fill_polars(series: Any, fill: Array | None, missing: Array) -> Any:
    if fill is None or not missing.any():
        return series
    dtype = series.dtype
    letter = "i" if dtype.is_integer() else "f" if dtype.is_float() else "O"
    values = series.to_list()
    for k, each in zip(np.flatnonzero(missing), _fitting(fill[missing], letter), strict=True):
        values[k] = each
    return type(series)(series.name, values, dtype=dtype)


def _fitting(values: Array, letter: str) -> list[Any]:
    """Plain values that a column of that kind takes: whole numbers for integers."""
    if letter in "iu":
        return [int(each) for each in np.rint(values.astype(np.float64))]
    return [each.item() if isinstance(each, np.generic) else each for each in values]
