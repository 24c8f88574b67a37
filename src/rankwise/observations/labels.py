"""Labels of rows and columns: validation, numbering, and `LabelIndex`, which matches two sets of labels."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._arrays import Array
from .._errors import DataError

LABEL_KINDS = "biufUSmMO"  # NumPy types of labels: those that model files hold, and objects
SHOWN = 40  # characters of a label that an error repeats
MIXED = "The {} labels mix types that cannot be sorted; make them all text or numbers."
SMALL_TABLE = 1 << 20  # a range of integer labels that is worth a table whatever their number
MAX_LABEL = 1000  # characters: arrays of text give every label the space of the longest
NO_LABEL = np.iinfo(np.int64).min  # stands for text that is no integer label


@dataclass(frozen=True, eq=False)
class LabelIndex:
    """Labels of the rows, or of the columns, of a matrix, and the position of each.

    The constructor does not validate; `checked` does.

    Attributes
    ----------
    labels : ndarray of shape (size,) or None
        Distinct labels. None means that rows are identified by their numbers, 0 to size - 1.
    size : int
        Number of rows, or of columns.
    axis : {"row", "column"}
        Named in errors.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.observations import LabelIndex
    >>> fitted = LabelIndex(np.array(["ann", "bob", "cy"]), 3, "row")
    >>> fitted.align(LabelIndex(np.array(["cy", "dora"]), 2, "row"), unknown="skip")
    array([ 2, -1])
    """

    labels: Array | None
    size: int
    axis: str

    @classmethod
    def checked(cls, labels: object, size: int, axis: str) -> "LabelIndex":
        """Index of `labels`, an array-like, a LabelIndex or None; DataError unless there are `size` distinct ones."""
        if isinstance(labels, LabelIndex):
            if labels.size != size:
                raise DataError(f"There are {size} {axis}s but {labels.size} {axis} labels; give one label for each.")
            return labels
        return cls(as_labels(labels, size, axis), size, axis)

    @property
    def names(self) -> Array:
        """Labels, or the numbers 0 to size - 1 if there are none; shape (size,)."""
        return np.arange(self.size) if self.labels is None else self.labels

    def align(
        self,
        other: "LabelIndex",
        *,
        unknown: str = "error",
        by_position: bool = False,
        cast: bool = False,
        remedy: str | None = None,
    ) -> NDArray[np.int64]:
        """Positions in this index of the rows (columns) of `other`, shape (other.size,).

        If both have labels, rows are matched by label; if neither has, by number. If only this index has none, the
        labels of `other` are taken as numbers; if only `other` has none, DataError is raised.

        Parameters
        ----------
        other : LabelIndex
        unknown : {"error", "skip"}, default="error"
            Rows of `other` that this index does not have: raise DataError, or give the position -1.
        by_position : bool, default=False
            Match by number unless both have labels.
        cast : bool, default=False
            Convert the labels of `other` to the type of this index's, see `cast`: a file with one word among its
            numbers has text for labels.
        remedy : str, optional
            Ends the error about unknown labels.
        """
        if self.labels is not None and other.labels is not None:
            if self.labels is other.labels or np.array_equal(self.labels, other.labels):
                return np.arange(self.size)
            query = other.labels
        elif self.labels is not None and not by_position:
            raise DataError(
                f"The {self.axis}s of this model have labels and those of the entries do not; label them too."
            )
        else:
            query = np.arange(other.size) if by_position else other.names
        index = self if self.labels is None or other.labels is not None else LabelIndex(None, self.size, self.axis)
        if cast and other.labels is not None:
            query = index.cast(query)
        return index.find(query, remedy) if unknown == "error" else index.positions(query)

    def positions(self, query: ArrayLike) -> NDArray[np.int64]:
        """Return the positions of labels (of numbers, if there are no labels), -1 for unknown ones; shape (n,)."""
        keys = self._as_vector(query)
        if self.labels is None:
            if keys.size and keys.dtype.kind not in "iu":
                raise DataError(
                    f"The {self.axis}s of this model are numbered, so integers are needed, got {keys.dtype}."
                )
            known = (keys >= 0) & (keys < self.size)
            return np.where(known, keys.astype(np.int64), -1)
        if not self.size:
            return np.full(keys.size, -1)
        labels, order = self.labels, self._order
        if {labels.dtype.kind, keys.dtype.kind} == {"i", "u"}:  # NumPy would compare them as floats
            labels, keys = labels.astype(object), keys.astype(object)
        if labels.dtype.kind in "mM" and keys.dtype.kind == "O":
            keys = _as_times(keys, labels.dtype.kind)
        try:
            place = np.minimum(np.searchsorted(labels, keys, sorter=order), self.size - 1)
            unknown = np.broadcast_to(labels[order[place]] != keys, keys.shape)  # one False if types never compare
        except TypeError:
            raise DataError(f"The {self.axis} labels of this model are {labels.dtype}, got {keys.dtype}.") from None
        return np.where(unknown, -1, order[place])

    def find(self, query: ArrayLike, remedy: str | None = None) -> NDArray[np.int64]:
        """Return the positions of labels, shape (n,); DataError names the first unknown one, and ends in `remedy`."""
        positions = self.positions(query)
        unknown = positions < 0
        if not unknown.any():
            return positions
        first = self._as_vector(query)[unknown][0]
        if self.labels is None:
            raise DataError(f"The {self.axis} {first} is outside the model, which has {self.size} {self.axis}s.")
        first = first.item() if isinstance(first, np.generic) else first
        remedy = remedy or f"only {self.axis}s that were given to `fit` can be predicted"
        raise DataError(
            f"{int(unknown.sum())} {self.axis} labels are unknown to the model (first: {first!r}); {remedy}."
        )

    def cast(self, labels: Array) -> Array:
        """Labels from a file or the command line in the type of this index's; those that do not convert match none.

        Integers convert only from their usual spelling: "007", "1_000" and 2.5 match no integer label.
        """
        kind = np.dtype(np.int64) if self.labels is None or self.labels.dtype.kind in "iu" else self.labels.dtype
        if self.labels is not None and self.labels.dtype == labels.dtype:
            return labels
        if kind.kind in ("O", labels.dtype.kind):
            return labels
        if kind.kind in "US":
            return labels.astype(str)
        try:
            with np.errstate(invalid="ignore"):  # a float beyond the integers
                converted = labels.astype(kind)
        except (ValueError, TypeError, OverflowError):
            converted = np.array([_cast(label, kind) for label in labels.tolist()], kind)
        if kind.kind == "i":
            same = converted == labels if labels.dtype.kind == "f" else converted.astype(str) == labels.astype(str)
            converted[~same] = NO_LABEL
        return converted

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        """Positions of the labels in sorted order."""
        return np.argsort(self.names, kind="stable")

    def _as_vector(self, query: ArrayLike) -> Array:
        try:
            keys = _as_objects(np.atleast_1d(np.asarray(query)))
        except ValueError:
            raise DataError(f"The {self.axis}s must be one-dimensional, got lists that differ in length.") from None
        if keys.ndim != 1:
            raise DataError(f"The {self.axis}s must be one-dimensional, got shape {keys.shape}.")
        return keys


class Labelled:
    """Base of what has rows and columns with labels; None where they are identified by their numbers."""

    shape: tuple[int, int]
    row_labels: Array | None
    col_labels: Array | None

    @cached_property
    def row_index(self) -> LabelIndex:
        """Labels of the rows and their positions."""
        return LabelIndex(self.row_labels, self.shape[0], "row")

    @cached_property
    def col_index(self) -> LabelIndex:
        """Labels of the columns and their positions."""
        return LabelIndex(self.col_labels, self.shape[1], "column")


@dataclass(frozen=True, eq=False)
class EncodedLabels:
    """Row or column labels of n entries, before they are numbered."""

    names: Array  # (n_names,): labels, in any order, repeats allowed
    codes: Array | None = None  # (n,): index into `names` of each entry's label; None if `names` has one per entry

    def __len__(self) -> int:
        return int(self.names.size if self.codes is None else self.codes.size)

    def chosen(self, entries: Array) -> "EncodedLabels":
        """Labels of some entries, by their mask or numbers, without the names that none of them has."""
        if self.codes is None:
            return EncodedLabels(self.names[entries])
        used, codes = np.unique(self.codes[entries], return_inverse=True)
        return EncodedLabels(self.names[used], codes)

    @classmethod
    def joined(cls, parts: "Sequence[EncodedLabels]") -> "EncodedLabels":
        """Concatenate the labels of several lists of entries; all of them have codes, or none has."""
        names = np.concatenate([part.names for part in parts])
        starts = np.cumsum([0, *(part.names.size for part in parts)])
        codes = [part.codes + start for part, start in zip(parts, starts, strict=False) if part.codes is not None]
        return cls(names, np.concatenate(codes) if codes else None)


def as_labels(labels: object, size: int, axis: str) -> Array | None:
    """Labels as a read-only array of shape (size,); DataError unless all are distinct and none is missing."""
    if labels is None:
        return None
    array = np.array(_as_array(labels, axis))
    if array.shape != (size,):
        raise DataError(f"There are {size} {axis}s but the {axis} labels have shape {array.shape}.")
    array.flags.writeable = False
    if _distinct(array, axis).size < size:
        values, counts = np.unique(array, return_counts=True)
        repeated = values[counts > 1].tolist()[0]
        raise DataError(f"The {axis} label {repeated!r} is given more than once; labels must differ.")
    return array


def label_fault(label: str | bytes) -> str | None:
    """Return what is wrong with a label of text or bytes, in words; None if nothing is."""
    if len(label) > MAX_LABEL:
        return f"has more than {MAX_LABEL} characters"
    zero = "\0" if isinstance(label, str) else b"\0"
    return "ends in a zero character, which arrays of text drop" if label[-1:] == zero else None


def check_text(labels: Iterable[object], axis: str) -> None:
    """Raise DataError if a label of text or bytes is too long, or if NumPy would change it; others may be anything."""
    for label in labels:
        if isinstance(label, str | bytes) and (fault := label_fault(label)):
            raise DataError(f"The {axis} label {label[:SHOWN]!r} {fault}; give it another name.")


def text_array(labels: Sequence[str], axis: str) -> Array:
    """Labels as an array of text; DataError if one is too long, or would be changed."""
    check_text(labels, axis)
    return np.array(labels, str)


def numbered(labels: "ArrayLike | EncodedLabels", axis: str) -> tuple[Array, Array]:
    """Distinct labels in sorted order, and the number among them of every entry's label, shape (n,)."""
    encoded = labels if isinstance(labels, EncodedLabels) else EncodedLabels(_as_array(labels, axis).ravel())
    return numbered_parts([encoded], axis)


def numbered_parts(parts: "Sequence[EncodedLabels]", axis: str) -> tuple[Array, Array]:
    """Number the labels of consecutive lists of entries; returns those of `numbered` for all of them together."""
    arrays = [part.names for part in parts if part.names.size and part.codes is None]
    if len(arrays) == len(parts) and all(array.dtype.kind in "iu" for array in arrays):
        least, most = min(int(array.min()) for array in arrays), max(int(array.max()) for array in arrays)
        if most - least < max(SMALL_TABLE, 2 * sum(array.size for array in arrays)):
            return _numbered_by_table(arrays, least, most)
    joined = EncodedLabels.joined(parts)
    distinct, numbers = _distinct(joined.names, axis, return_inverse=True)
    return distinct, numbers if joined.codes is None else numbers[joined.codes]


def _as_array(labels: object, axis: str) -> Array:
    """Labels as an array; DataError for types that model files cannot hold, and for mixes of text and numbers.

    NumPy would turn numbers beside text into text, so that 1 and "1" were the same.
    """
    if isinstance(labels, list | tuple):
        check_text(labels, axis)  # before they take the space of the longest
    try:
        array = _as_objects(np.asarray(labels))
    except ValueError:
        raise DataError(MIXED.format(axis)) from None
    if array.dtype.kind not in LABEL_KINDS:
        raise DataError(f"The {axis} labels must be text, numbers or times, got {array.dtype}; make them text.")
    if array.ndim != 1:
        raise DataError(f"The {axis} labels must be one-dimensional, got shape {array.shape}; give one label for each.")
    if isinstance(labels, list | tuple) and array.dtype.kind in "US":
        kind = str if array.dtype.kind == "U" else bytes
        if not all(isinstance(label, kind) for label in labels):
            raise DataError(MIXED.format(axis))
    elif array.dtype.kind == "O" or (array.dtype.kind in "US" and array.dtype.itemsize > MAX_LABEL):
        check_text(array.flat, axis)
    return array


def _as_objects(labels: Array) -> Array:
    """Convert NumPy's text of variable length to objects, and objects that are all integers to integers.

    Files can hold neither as they are. Other labels are returned unchanged.
    """
    if labels.dtype.kind == "T":
        return labels.astype(object)
    if labels.dtype.kind == "O" and labels.size and all(type(label) is int for label in labels.flat):
        return np.array(labels.tolist()) if max(map(abs, labels.flat)) < 2**63 else labels
    return labels


def _distinct(labels: Array, axis: str, **options: Any) -> Any:
    """`np.unique` of labels; DataError if they cannot be sorted or one is missing."""
    try:
        result = np.unique(labels, **options)
    except TypeError:
        raise DataError(MIXED.format(axis)) from None
    distinct = result[0] if options else result
    if np.any(distinct != distinct):  # NaN and NaT, also among objects
        raise DataError(f"Some {axis} labels are missing (NaN); leave those entries out or give them a label.")
    return result


def _numbered_by_table(arrays: Sequence[Array], least: int, most: int) -> tuple[Array, Array]:
    """Distinct labels and numbers of integers from `least` to `most`, without sorting: O(n + most - least)."""
    kind = np.result_type(*arrays)
    start = kind.type(least)

    def places(array: Array) -> Array:  # these differences fit into int64, though a label may not
        return np.asarray(np.subtract(array, start, dtype=np.int64, casting="unsafe"))

    present = np.zeros(most - least + 1, bool)
    for array in arrays:
        present[places(array)] = True
    counter: Any = np.uint32 if present.size < 2**32 else np.int64
    number_of = np.cumsum(present, dtype=counter) - counter(1)
    numbers = np.empty(sum(array.size for array in arrays), counter)
    end = 0
    for array in arrays:
        end += array.size
        np.take(number_of, places(array), out=numbers[end - array.size : end], mode="clip")
    return np.flatnonzero(present).astype(kind) + start, numbers


def _as_times(keys: Array, kind: str) -> Array:
    """Times of Python and pandas as NumPy's, each to its own precision; other objects, and times of a zone, unchanged.

    NumPy would instead convert the labels to objects: integers of nanoseconds, and dates that equal no time.
    """
    time_type = date if kind == "M" else timedelta
    plain = all(isinstance(label, time_type) and getattr(label, "tzinfo", None) is None for label in keys)
    return np.array([getattr(label, "asm8", label) for label in keys], f"{kind}8") if plain else keys


def _cast(label: Any, kind: Any) -> Any:
    """One label converted to a type, or a value that matches none."""
    try:
        return np.array([label]).astype(kind)[0]
    except (ValueError, TypeError, OverflowError):
        return np.array(["NaT"]).astype(kind)[0] if kind.kind in "mM" else NO_LABEL
