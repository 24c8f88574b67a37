"""Rows (or columns) that come after a fit: their entries in the model's columns, labels and features."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._arrays import Array
from .._errors import DataError, SettingError
from ..model import LowRankModel, Seen
from ..model.ranking import AXES
from ..observations import Features, FeatureTable, LabelIndex, Observations, is_frame, need_in_memory
from ..observations.build import as_matrix
from ..observations.frames import read_wide
from ..observations.labels import as_labels


@dataclass(frozen=True)
class NewRows:
    """New rows: their number, entries in the model's columns (None if there are no entries), labels and features."""

    size: int
    observations: Observations | None
    labels: Array | None = None
    features: Features | None = None

    @classmethod
    def read(cls, model: LowRankModel, new: Any, axis: str, names: dict[str, Any]) -> "NewRows":
        """Read new rows, or new columns as rows of the transpose."""
        wide = is_frame(new) and {use for use, name in names.items() if name is not None} <= {"row"}
        matrix, labels = read_wide(new, names.get("row")) if wide else (new, (None, None))
        size = _size_if_empty(matrix) if wide or not names else None
        if size is not None:
            size, labels = (size, labels) if axis == "rows" else (size[::-1], labels[::-1])
            _places(model, size[1], labels[1], axis)
            return cls(size[0], None, as_labels(labels[0], size[0], axis[:-1]))
        given = Observations.from_dense(matrix, labels=labels) if wide else Observations.from_any(new, **names)
        entries = need_in_memory(given, "`fold_in`", "give the new entries as `Observations`")
        entries = _matched(model, (entries if axis == "rows" else entries.transposed()).weighted(), axis)
        return cls(entries.shape[0], entries, entries.row_labels)

    @classmethod
    def of_features(cls, model: LowRankModel, features: Any, names: dict[str, Any]) -> "NewRows":
        """New rows of which nothing but features is known."""
        table = FeatureTable.read(features, names.get("row"))
        return cls(table.size, None, table.labels, _encoded_features(model, table))

    def with_features(self, model: LowRankModel, features: Any, names: dict[str, Any]) -> "NewRows":
        """The rows with features, matched by label if both have labels, else by number."""
        index = LabelIndex(self.labels, self.size, "row")
        table = FeatureTable.read(features, names.get("row"), index)
        places = LabelIndex(table.labels, table.size, "row").align(index, unknown="skip", by_position=True)
        if table.size and not (places >= 0).any():
            raise DataError("The labels of the features are not those of the new rows; give both the same labels.")
        return replace(self, features=_encoded_features(model, table).take(places))

    @property
    def counts(self) -> Array:
        """Number of entries of each row."""
        return np.zeros(self.size) if self.observations is None else np.diff(self.observations.indptr)

    @property
    def weights(self) -> Array:
        """Sum of the weights of each row's entries."""
        return np.zeros(self.size) if self.observations is None else self.observations.row_weights()

    @property
    def seen(self) -> Seen | None:
        """Positions of the new rows' entries."""
        if self.observations is None:
            return Seen(np.zeros(self.size + 1, np.uint64), np.zeros(0, np.uint32))
        return Seen.of(self.observations)


def _size_if_empty(new: Any) -> tuple[int, int] | None:
    """Shape of a matrix without any entry, which `Observations` cannot represent; None for others."""
    if sp.issparse(new):
        return tuple(new.shape) if new.nnz == 0 and len(new.shape) == 2 else None
    if not isinstance(new, list | tuple | np.ndarray):
        return None
    array = as_matrix(new)
    return array.shape if array.dtype.kind == "f" and bool(np.isnan(array).all()) else None


def _places(model: LowRankModel, width: int, labels: Array | None, axis: str) -> Array | None:
    """The model's numbers of the new rows' columns, by label if both have labels; None if they are the same."""
    other = AXES[1 - AXES.index(axis)]
    if model.col_labels is None or labels is None:
        if width != model.shape[1]:
            raise DataError(
                f"The new {axis} have {width} {other} but the model has {model.shape[1]}; give all of them in the "
                "model's order, or observations with labels."
            )
        return None
    known, new = (
        LabelIndex(*index, other.rstrip("s")) for index in ((model.col_labels, model.shape[1]), (labels, width))
    )
    places = known.align(new, remedy=f"leave them out, or fit with the new {other} too")
    return None if np.array_equal(places, np.arange(known.size)) else places


def _matched(model: LowRankModel, new: Observations, axis: str) -> Observations:
    """The new rows with the model's column numbers."""
    place = _places(model, new.shape[1], new.col_labels, axis)
    if place is None:
        return new
    shape, labels = (new.shape[0], model.shape[1]), (new.row_labels, model.col_labels)
    return Observations.from_coo(new.rows, place[new.indices], new.targets, shape, weights=new.weights, labels=labels)


def _encoded_features(model: LowRankModel, table: FeatureTable) -> Features:
    encoder = None if model.features is None else model.features.rows
    if encoder is None:
        raise SettingError(
            "`features` must be None, because the model was fitted without features of this axis; fit it with "
            "`row_features=` or `col_features=`."
        )
    return encoder.encode(table)[0]
