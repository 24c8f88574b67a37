"""Features that `fit` gets: read, encoded, and matched to the rows and columns of the entries."""

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .._arrays import Array
from .._errors import DataError
from ..model import ModelFeatures
from ..observations import AnyEntries, FeatureEncoder, Features, FeatureTable, LabelIndex, Observations
from ..observations.labels import numbered
from ..observations.observed import part_of

log = logging.getLogger("rankwise")


class FitFeatures(NamedTuple):
    """Features by axis, for the objective, and their encoders, for the model."""

    matrices: dict[str, Features]
    encoders: ModelFeatures | None


NO_FEATURES = FitFeatures({}, None)


def with_features(
    entries: AnyEntries, given: Mapping[str, Any], names: Mapping[str, Any], start: ModelFeatures | None = None
) -> tuple[AnyEntries, FitFeatures]:
    """Return the entries with the rows and columns that only the features have, and the features in their order.

    Parameters
    ----------
    entries : entries of the fit
        Only those in memory get more rows and columns.
    given : mapping of "rows" and "columns" to a table of features or None
    names : mapping of "row" and "col" to the columns of labels in the entries' frame or None
    start : ModelFeatures, optional
        Encoders of the model of a warm start, which are used again.
    """
    tables: dict[str, FeatureTable] = {}
    for axis, name, index in (("rows", "row", entries.row_index), ("columns", "col", entries.col_index)):
        if given.get(axis) is not None:
            tables[axis] = FeatureTable.read(given[axis], names.get(name), index)
    if not tables:
        return entries, NO_FEATURES
    if isinstance(entries, Observations):
        entries = _extended(entries, tables)
    matrices: dict[str, Features] = {}
    encoders: dict[str, FeatureEncoder] = {}
    for axis, table in tables.items():
        side = "rows" if axis == "rows" else "cols"
        index = entries.row_index if axis == "rows" else entries.col_index
        encoder = None if start is None else getattr(start, side)
        encoders[side] = encoder or FeatureEncoder.of(table)
        features, n_unseen = encoders[side].encode(table)
        places = LabelIndex(table.labels, table.size, index.axis).align(index, unknown="skip", by_position=True)
        if index.size and not (places >= 0).any():
            raise _unmatched(index)
        matrices[axis] = features.take(places)
        _tell(axis, encoders[side], int((places < 0).sum()), n_unseen)
    return entries, FitFeatures(matrices, ModelFeatures(**encoders))


def _tell(axis: str, encoder: FeatureEncoder, n_without: int, n_unseen: int) -> None:
    """Log how the columns were read, and what is missing."""
    columns = ", ".join(f"{column.name} ({column.kind}, {column.size})" for column in encoder.columns[:20])
    log.info("features of the %s: %s", axis, columns)
    if n_without:
        log.info("%d %s have no features", n_without, axis)
    if n_unseen:
        log.info("%d categories of the %s were not known to the model, and are ignored", n_unseen, axis)


def _extended(entries: Observations, tables: Mapping[str, FeatureTable]) -> Observations:
    """Entries of a matrix with the rows and columns that only the features have."""
    row_index, row_of = _merged(entries.row_index, tables.get("rows"))
    col_index, col_of = _merged(entries.col_index, tables.get("columns"))
    if (row_index, col_index) == (entries.row_index, entries.col_index):
        return entries
    pairs = row_of[entries.rows], col_of[entries.cols]
    shape = row_index.size, col_index.size
    return part_of(shape, *pairs, entries.targets, entries.weights, (row_index, col_index))


def _merged(index: LabelIndex, table: FeatureTable | None) -> tuple[LabelIndex, Array]:
    """Labels of the entries and of the features in sorted order, and the number of each of the entries' labels."""
    same = index, np.arange(index.size)
    if table is None:
        return same
    if index.labels is None:
        largest = table.size - 1 if table.labels is None else int(np.max(_as_numbers(table.labels, index), initial=-1))
        return (LabelIndex(None, max(index.size, largest + 1), index.axis), same[1]) if largest >= index.size else same
    if table.labels is None:
        if table.size != index.size:
            raise DataError(
                f"The features have no labels and {table.size} lines, but there are {index.size} {index.axis}s with "
                "labels; give the features labels, as the index of a frame or a column."
            )
        return same
    new = table.labels[index.positions(table.labels) < 0]
    if not new.size:
        return same
    if new.size == table.size:
        raise _unmatched(index)
    labels, numbers = numbered(np.concatenate((index.labels, new)), index.axis)
    return LabelIndex(labels, labels.size, index.axis), numbers[: index.size].astype(np.int64)


def _unmatched(index: LabelIndex) -> DataError:
    return DataError(f"No {index.axis} of the entries has features, as the labels differ; give both the same labels.")


def _as_numbers(labels: Array, index: LabelIndex) -> Array:
    if labels.dtype.kind not in "iu" or np.min(labels, initial=0) < 0:
        raise DataError(
            f"The {index.axis}s of the entries are numbered, so the labels of the features must be numbers."
        )
    return labels
