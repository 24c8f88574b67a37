"""Tables of features of rows or columns, and the encoder that makes numbers of them."""

from collections.abc import Hashable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._arrays import Array
from .._errors import DataError
from .build import as_matrix
from .features import Features
from .frames import as_frame, coded, is_frame, numbers_of
from .labels import LabelIndex, as_labels

ENCODED_KINDS = ("number", "category", "list", "sparse")
MOST_DENSE_FEATURES = 200  # features up to which the encoded matrix is a dense array
BETWEEN = "|"  # between the categories of a text that is a list of them
LIST_TYPES = (list, tuple, set, frozenset, np.ndarray)


class FeatureTable(NamedTuple):
    """Features of some rows (or columns) before they are encoded.

    Attributes
    ----------
    labels : ndarray of shape (n,) or None
        Labels of the rows; None if they are identified by their numbers.
    columns : dict of str to ndarray, list or SciPy sparse array
        Numbers with NaN where they are missing, or a list of texts and lists of texts with None where they are missing;
        a sparse matrix is one column.
    size : int
        Number of rows.
    """

    labels: Array | None
    columns: dict[str, Any]
    size: int

    @classmethod
    def read(cls, data: Any, label: Hashable = None, known: LabelIndex | None = None) -> "FeatureTable":
        """Read a data frame, a SciPy sparse matrix or an array.

        The labels of a frame are its column `label`, if it has one of this name; else the index of pandas unless it
        is 0, 1, ...; else the first column in which at least half of the labels `known` occur.
        """
        if isinstance(data, FeatureTable):
            return data
        if is_frame(data):
            return cls._read_frame(data, label, known)
        if sp.issparse(data):
            if not np.isfinite(data.data).all():
                raise DataError("A sparse matrix of features must have finite numbers; leave out unknown ones.")
            return cls(None, {"": sp.csr_array(data, dtype=np.float64)}, int(data.shape[0]))
        matrix = as_matrix(data).astype(np.float64)
        return cls(None, {str(k): column for k, column in enumerate(matrix.T)}, len(matrix))

    @classmethod
    def _read_frame(cls, data: Any, label: Hashable, known: LabelIndex | None) -> "FeatureTable":
        import narwhals as nw

        frame = as_frame(data)
        index = nw.maybe_get_index(frame)
        labels = None if index is None else np.asarray(index)
        by_number = labels is None or (labels.dtype.kind in "iu" and np.array_equal(labels, np.arange(labels.size)))
        if label not in frame.columns:
            label = _label_column(frame, known) if by_number and known is not None else None
        if label is not None:
            names, codes = coded(frame.get_column(label), "feature")  # type: ignore[arg-type]
            if codes.size and codes.min() < 0:
                raise DataError(f"Some lines of the features have no label in column {label!r}; leave them out.")
            labels = names[codes]
        elif by_number:
            labels = None
        columns = {str(name): _values(frame.get_column(name)) for name in frame.columns if name != label}
        return cls(None if labels is None else as_labels(labels, labels.size, "feature"), columns, len(frame))


def _label_column(frame: Any, known: LabelIndex) -> Hashable:
    """Name of the first column in which at least half of the known labels occur; None if there is none."""
    if known.labels is None or not known.size:
        return None
    for name in frame.columns:
        column = frame.get_column(name)
        if not column.dtype.is_nested() and 2 * len(set(column.to_list()) & set(known.labels.tolist())) >= known.size:
            return str(name)
    raise DataError(
        "The features have no labels: no column has those of the entries. Give the column the name that `row=` or "
        "`col=` has, or make it the index of the frame."
    )


def _values(column: Any) -> Any:
    """Numbers of a column in float64, times in days; else a list of texts or lists of texts."""
    import narwhals as nw

    if column.dtype.is_numeric() or column.dtype == nw.Boolean:
        return numbers_of(column, column.name).astype(np.float64)
    if column.dtype.is_temporal():
        days = column.to_numpy().astype("datetime64[s]")
        return np.where(np.isnat(days), np.nan, days.astype(np.int64) / 86400.0)
    values = column.to_list()
    present = [value for value in values if not _is_missing(value)]
    if present and all(isinstance(value, int | float | np.number) for value in present):
        return np.array([np.nan if _is_missing(value) else float(value) for value in values])
    return [None if _is_missing(v) else [str(x) for x in v] if isinstance(v, LIST_TYPES) else str(v) for v in values]


def _is_missing(value: Any) -> bool:
    return value is None or (not isinstance(value, LIST_TYPES) and value != value)


@dataclass(frozen=True)
class FeatureColumn:
    """How one column of a table becomes numbers, which share a group.

    Attributes
    ----------
    name : str
    kind : {"number", "category", "list", "sparse"}
        A number is standardized, and zero where it is missing. A category becomes one indicator for each of
        `categories`; a list of categories, or a text of categories with "|" between them, several; one that is not
        among them is left out. A sparse matrix is taken as it is.
    mean, scale : float
        Of a number.
    categories : tuple of str
    size : int
        Number of features.
    """

    name: str
    kind: str
    mean: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] = ()
    size: int = 1

    @classmethod
    def of(cls, name: str, values: Any) -> "FeatureColumn":
        """Learn how to encode a column."""
        if sp.issparse(values):
            return cls(name, "sparse", size=int(values.shape[1]))
        if isinstance(values, np.ndarray):
            present = values[np.isfinite(values)]
            spread = float(present.std()) if present.size else 0.0
            return cls(name, "number", float(present.mean()) if present.size else 0.0, spread or 1.0)
        is_list = any(isinstance(value, list) or (value is not None and BETWEEN in value) for value in values)
        kind = "list" if is_list else "category"
        categories = tuple(sorted({each for value in values for each in _split(value, kind)}))
        return cls(name, kind, categories=categories, size=len(categories))

    @property
    def features(self) -> list[str]:
        """Names of the features."""
        if self.kind == "number":
            return [self.name]
        return [f"{self.name}={each}" for each in self.categories] or [f"{self.name}{k}" for k in range(self.size)]

    def encode(self, values: Any) -> tuple[Any, int]:
        """Return a matrix of shape (n, size), dense or sparse, and the number of unseen categories, left out."""
        given = "sparse" if sp.issparse(values) else "number" if isinstance(values, np.ndarray) else "text"
        if given != {"category": "text", "list": "text"}.get(self.kind, self.kind) and not _is_empty(values):
            raise DataError(f"The feature {self.name!r} must be a {self.kind} as in the fit, got {given}s.")
        if self.kind == "sparse":
            if values.shape[1] != self.size:
                raise DataError(f"The features must have {self.size} columns as in the fit, got {values.shape[1]}.")
            return values, 0
        if self.kind == "number":
            numbers = np.asarray(values, np.float64) if given == "number" else np.full(len(values), np.nan)
            standard = (numbers - self.mean) / self.scale
            return np.where(np.isfinite(standard), standard, 0.0)[:, None], 0
        if given == "number":
            return np.zeros((len(values), self.size)), 0
        places = {category: k for k, category in enumerate(self.categories)}
        pairs = [(i, places.get(each, -1)) for i, value in enumerate(values) for each in _split(value, self.kind)]
        lines, cols = np.array(sorted(set(pairs)), np.int64).reshape(-1, 2).T
        seen, shape = cols >= 0, (len(values), self.size)
        ones = np.ones(int(seen.sum()))
        return sp.csr_array((ones, (lines[seen], cols[seen])), shape=shape), int(np.sum([k < 0 for _, k in pairs]))


def _is_empty(values: Any) -> bool:
    """Return whether nothing is known in a column, so that it can be of any kind."""
    if sp.issparse(values):
        return False
    return bool(np.isnan(values).all()) if isinstance(values, np.ndarray) else all(value is None for value in values)


def _split(value: Any, kind: str) -> Iterable[str]:
    """Categories of a value."""
    if value is None:
        return ()
    if isinstance(value, list):
        return value
    return [each for each in value.split(BETWEEN) if each] if kind == "list" else (value,)


@dataclass(frozen=True)
class FeatureEncoder:
    """Makes `Features` of tables with the same columns.

    Examples
    --------
    >>> import pandas as pd
    >>> from rankwise.observations import FeatureEncoder, FeatureTable
    >>> table = FeatureTable.read(pd.DataFrame({"year": [1990, 2000], "genres": ["Crime|Drama", "Drama"]}))
    >>> encoder = FeatureEncoder.of(table)
    >>> print(encoder.names)
    ['year', 'genres=Crime', 'genres=Drama']
    >>> print(encoder.encode(table)[0].matrix)
    [[-1.  1.  1.]
     [ 1.  0.  1.]]
    """

    columns: tuple[FeatureColumn, ...]

    @classmethod
    def of(cls, table: FeatureTable) -> "FeatureEncoder":
        """Learn how to encode the columns of a table; a group for each."""
        return cls(tuple(FeatureColumn.of(name, values) for name, values in table.columns.items()))

    @property
    def names(self) -> list[str]:
        """Name of every feature, such as "age" or "sex=F"."""
        return [name for column in self.columns for name in column.features]

    @property
    def groups(self) -> NDArray[np.int64]:
        """Number of every feature's column, shape (n_features,)."""
        return np.repeat(np.arange(len(self.columns)), [column.size for column in self.columns])

    def encode(self, table: FeatureTable) -> tuple[Features, int]:
        """Return the features of a table's rows, and the number of unseen categories, which are left out."""
        missing = [column.name for column in self.columns if column.name not in table.columns]
        if missing:
            raise DataError(
                f"The features lack the column {missing[0]!r}; give all that the model was fitted with: "
                f"{', '.join(repr(column.name) for column in self.columns[:10])}."
            )
        parts = [column.encode(table.columns[column.name]) for column in self.columns]
        empty = np.zeros((table.size, 0))
        blocks = sp.hstack([sp.csr_array(block) for block, _ in parts], format="csr") if parts else sp.csr_array(empty)
        dense = blocks.shape[1] <= MOST_DENSE_FEATURES
        return Features(blocks.toarray() if dense else blocks, self.groups), sum(n for _, n in parts)

    def to_plain(self) -> list[dict[str, Any]]:
        """Return the columns in JSON types."""
        return [asdict(column) | {"categories": list(column.categories)} for column in self.columns]

    @classmethod
    def from_plain(cls, plain: Any) -> "FeatureEncoder":
        """Inverse of `to_plain`; ValueError, TypeError or KeyError if the values are not of their types."""
        columns = []
        for part in plain:
            column = FeatureColumn(**part | {"categories": tuple(part["categories"])})
            numbers = np.array([column.mean, column.scale], np.float64)
            texts = all(isinstance(each, str) for each in (column.name, *column.categories))
            sized = type(column.size) is int and column.size == (len(column.categories) or column.size) >= 0
            if (
                column.kind not in ENCODED_KINDS
                or not texts
                or not sized
                or not np.isfinite(numbers).all()
                or numbers[1] <= 0
            ):
                raise ValueError("inconsistent features")
            columns.append(column)
        return cls(tuple(columns))
