"""Names of rows and columns: checked, numbered, looked up."""

from datetime import date, timedelta
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._errors import DataError

MIXED = "The {} labels mix types that cannot be sorted; make them all text or numbers."
SMALL_TABLE = 1 << 20  # a range of labels that is worth a table whatever their number


def as_labels(given: Any, size: int, which: str) -> NDArray[Any] | None:
    """Labels as a read-only array, one for each of `size` rows or columns, all different; None stays."""
    if given is None:
        return None
    labels = np.array(_as_array(given, which))
    if labels.shape != (size,):
        raise DataError(f"There are {size} {which}s but the {which} labels have shape {labels.shape}.")
    labels.flags.writeable = False
    if _different(labels, which).size < size:
        values, counts = np.unique(labels, return_counts=True)
        twice = values[counts > 1].tolist()[0]
        raise DataError(f"The {which} label {twice!r} is given more than once; labels must differ.")
    return labels


def numbered(labels: ArrayLike, which: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """The different labels in sorted order, and each entry's number among them."""
    given = _as_array(labels, which)
    close = max(SMALL_TABLE, 2 * given.size)
    if given.dtype.kind in "iu" and given.size and int(given.max()) - int(given.min()) < close:
        return _numbered_by_table(given.ravel())
    found, numbers = _different(given, which, return_inverse=True)
    return found, numbers.ravel()


def _as_array(labels: Any, which: str) -> NDArray[Any]:
    """Labels as an array; refused if it would make text of what is none, so that 1 and "1" were the same."""
    found = np.asarray(labels)
    if isinstance(labels, list | tuple) and found.dtype.kind in "US":
        kind = str if found.dtype.kind == "U" else bytes
        if found.ndim == 1 and not all(isinstance(label, kind) for label in labels):
            raise DataError(MIXED.format(which))
    return found


def _different(labels: NDArray[Any], which: str, **more: Any) -> Any:
    """`np.unique` of labels that can be sorted, none of them missing."""
    try:
        found = np.unique(labels, **more)
    except TypeError:
        raise DataError(MIXED.format(which)) from None
    names = found[0] if more else found
    if np.any(names != names):  # NaN and NaT, also among objects
        raise DataError(f"Some {which} labels are missing (NaN); leave those entries out or give them a label.")
    return found


def _numbered_by_table(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The same for integers that lie close together, without sorting: O(n + range)."""
    least = labels.min()
    place = (labels.astype(np.int64 if labels.dtype.kind == "i" else np.uint64) - least).astype(np.int64)
    seen = np.zeros(int(place.max()) + 1, bool)
    seen[place] = True
    found = np.arange(seen.size)[seen].astype(labels.dtype) + least
    return found, (np.cumsum(seen) - 1)[place]


def lookup(wanted: ArrayLike, labels: NDArray[Any] | None, size: int, which: str) -> NDArray[np.int64]:
    """Numbers of the wanted rows or columns by their labels, -1 for unknown ones.

    Without labels, rows and columns are called by their numbers.
    """
    try:
        given = np.atleast_1d(np.asarray(wanted))
    except ValueError:
        raise DataError(f"The {which}s must be one-dimensional, got lists that differ in length.") from None
    if given.ndim != 1:
        raise DataError(f"The {which}s must be one-dimensional, got shape {given.shape}.")
    if labels is None:
        if given.size and given.dtype.kind not in "iu":
            raise DataError(f"The {which}s of this model are numbered, so integers are needed, got {given.dtype}.")
        known = (given >= 0) & (given < size)
        return np.where(known, given.astype(np.int64), -1)
    if {labels.dtype.kind, given.dtype.kind} == {"i", "u"}:  # NumPy would compare them as floats
        labels, given = labels.astype(object), given.astype(object)
    if labels.dtype.kind in "mM" and given.dtype.kind == "O":
        given = _as_times(given, labels.dtype.kind)
    order = np.argsort(labels, kind="stable")
    try:
        place = np.minimum(np.searchsorted(labels, given, sorter=order), size - 1)
        unknown = np.broadcast_to(labels[order[place]] != given, given.shape)  # one False if the types never compare
    except TypeError:
        raise DataError(f"The {which} labels of this model are {labels.dtype}, got {given.dtype}.") from None
    return np.where(unknown, -1, order[place])


def _as_times(given: NDArray[Any], kind: str) -> NDArray[Any]:
    """Times of Python and pandas as NumPy's, each to its own precision; other objects, and times of a zone, stay.

    NumPy's own way makes objects of the labels instead: integers of nanoseconds, and dates that equal no time.
    """
    wanted = date if kind == "M" else timedelta
    plain = all(isinstance(each, wanted) and getattr(each, "tzinfo", None) is None for each in given)
    return np.array([getattr(each, "asm8", each) for each in given], f"{kind}8") if plain else given


def find(
    wanted: ArrayLike, labels: NDArray[Any] | None, size: int, which: str, cure: str | None = None
) -> NDArray[np.int64]:
    """Numbers of the wanted rows or columns; an error names the first that is unknown, and `cure` says what to do."""
    found = lookup(wanted, labels, size, which)
    unknown = found < 0
    if unknown.any():
        first = np.atleast_1d(np.asarray(wanted))[unknown][0]
        if labels is None:
            raise DataError(f"The {which} {first} is outside the model, which has {size} {which}s.")
        first = first.item() if isinstance(first, np.generic) else first
        raise DataError(
            f"{int(unknown.sum())} {which} labels are unknown to the model (first: {first!r}); "
            + (cure or f"only {which}s that were given to `fit` can be predicted")
            + "."
        )
    return found
