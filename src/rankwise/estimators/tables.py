"""Conversion of a table with a loss per column to a matrix with one mixed loss, and of predictions to table values."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from .. import losses
from .._arrays import Array
from .._errors import DataError, SettingError
from ..losses import Absolute, Huber, Loss, Mixed, Ordinal, OrdinalHinge, ProportionalOdds, Quantile, Square
from ..observations import Observations
from .columns import HUBER_TURN, Classes, Column, Constant, Count, Fill, Levels, Numbers, Real, are_counts
from .frames import ColumnCells

ColumnTargets = list[tuple[Array, Array]]  # for each column: the rows that have a value, and their targets
Encoded = tuple[Observations, Mixed]  # entries and loss of the matrix
REAL = (Square, Huber, Absolute, Quantile)
ORDERED = {kind.name: kind for kind in (ProportionalOdds, Ordinal, OrdinalHinge)}
COLUMN_LOSSES = ("huber", "square", "l1", "quantile", "poisson", "logistic", *ORDERED, "category")
BY_TYPE = {
    "real": "huber",
    "boolean": "logistic",
    "ordered": "proportional-odds",
    "category": "category",
    "text": "category",
}


@dataclass(frozen=True)
class Table:
    """Encoding of a table, learned by `fit`: names and losses of its columns, and their columns of the matrix.

    Attributes
    ----------
    names : tuple
        Names of the columns.
    kinds : tuple of str
        Name of each column's loss, or "category".
    columns : tuple of Column
    empty : tuple of int
        Numbers of the columns without any value.
    """

    names: tuple[object, ...]
    kinds: tuple[str, ...]
    columns: tuple[Column, ...]
    empty: tuple[int, ...]

    @classmethod
    def learn(cls, cells: list[ColumnCells], requested: Any, bounded: bool = False) -> "Table":
        """Learn the encoding of every column; `requested` is the `columns` parameter of the imputer.

        If `bounded`, numbers are filled with values from the observed range of their column.
        """
        if all(each.missing.all() for each in cells):
            raise DataError("No cell of the table has a value; there is nothing to learn from.")
        chosen = chosen_kinds(cells, requested)
        columns = tuple(learn_column(each, kind, bounded) for each, kind in zip(cells, chosen, strict=True))
        empty = tuple(j for j, each in enumerate(cells) if each.missing.all())
        kinds = tuple(kind if isinstance(kind, str) else kind.name for kind in chosen)
        return cls(tuple(each.name for each in cells), kinds, columns, empty)

    @property
    def width(self) -> int:
        """Number of columns of the matrix."""
        return sum(len(column.losses) for column in self.columns)

    def places(self) -> list[slice]:
        """Columns of the matrix that encode each column of the table."""
        ends = np.cumsum([0] + [len(column.losses) for column in self.columns])
        return [slice(int(lo), int(hi)) for lo, hi in pairwise(ends)]

    def targets(self, cells: list[ColumnCells], ignore_unknown: bool = False) -> ColumnTargets:
        """Rows with a value, and their targets of shape (n, n_losses), for each column of the table.

        If `ignore_unknown`, cells with a category that `fit` did not see count as missing.
        """
        targets = []
        for each, column, kind in zip(cells, self.columns, self.kinds, strict=True):
            refuse_infinite(each)
            present = np.flatnonzero(~each.missing)
            values = present if isinstance(column, Constant) else numbered(each, _level_names(column), ignore_unknown)
            if isinstance(column, Levels | Classes):
                present, values = present[values >= 0], values[values >= 0]
            if kind == "poisson" and isinstance(column, Count):
                refuse_negative(each)
            targets.append((present, column.targets(values)))
        return targets

    def values(self, predicted: Array) -> list[Array]:
        """Decode predictions of shape (n, width) to the values of each column of the table, shape (n,)."""
        table = []
        for column, place in zip(self.columns, self.places(), strict=True):
            values = column.values(predicted[:, place])
            if isinstance(column, Levels | Classes):
                names = np.empty(len(column.names), object)
                names[:] = column.names
                values = names[values]
            table.append(values)
        return table

    def calibrated(self, cells: list[ColumnCells], held_back: Array) -> "Table":
        """Return the table with the fills of numbers learned from predictions that were made without the values.

        `held_back`, of shape (n_rows, width), has such predictions for every observed cell.
        """
        columns = tuple(
            column.calibrated(each.present, held_back[~each.missing, place]) if isinstance(column, Numbers) else column
            for column, place, each in zip(self.columns, self.places(), cells, strict=True)
        )
        return replace(self, columns=columns)

    def scales(self, targets: ColumnTargets, predicted: Array, variances: Array) -> Array:
        """Weight of the loss of every column of the matrix, shape (width,); see `Column.weight`."""
        weights = np.ones(self.width)
        for column, place, (rows, observed) in zip(self.columns, self.places(), targets, strict=True):
            weights[place] = column.weight(observed, predicted[rows, place], variances[rows, place])
        return weights

    def problem(self, targets: ColumnTargets, scales: Array, n_rows: int) -> Encoded | None:
        """Observed entries with encoded targets, and the mixed loss of the codes; None if no cell has a value."""
        rows, cols, values = [], [], []
        for place, (present, observed) in zip(self.places(), targets, strict=True):
            for k, j in enumerate(range(place.start, place.stop)):
                rows.append(present)
                cols.append(np.full(present.size, j))
                values.append(observed[:, k])
        if not sum(part.size for part in rows):
            return None
        own = [loss for column in self.columns for loss in column.losses]
        shifts = [shift for column in self.columns for shift in column.shifts]
        flat = np.concatenate(cols)
        loss, codes = Mixed.encode(own, flat, np.concatenate(values), scales=scales, shifts=shifts)
        return Observations.from_coo(np.concatenate(rows), flat, codes, (n_rows, self.width)), loss


def chosen_kinds(cells: list[ColumnCells], requested: Any) -> list[str | Loss]:
    """Return the kind of each column: the requested one, or for "auto" the default of its type."""
    names = [each.name for each in cells]
    if isinstance(requested, Mapping):
        unknown = [name for name in requested if name not in names]
        if unknown:
            raise SettingError(f"`columns` names {unknown[0]!r}, which the table does not have; it has {names[:8]}.")
        kinds: list[object] = [requested.get(name, "auto") for name in names]
    elif isinstance(requested, Sequence) and not isinstance(requested, str):
        if len(requested) != len(cells):
            raise SettingError(f"`columns` has {len(requested)} kinds, but the table has {len(cells)} columns.")
        kinds = list(requested)
    else:
        kinds = [requested] * len(cells)
    return [_kind(each, kind) for each, kind in zip(cells, kinds, strict=True)]


def _kind(cells: ColumnCells, requested: object) -> str | Loss:
    if isinstance(requested, REAL):
        return requested
    if isinstance(requested, str) and requested in COLUMN_LOSSES:
        return requested
    if not (isinstance(requested, str) and requested == "auto"):
        raise SettingError(
            f"Column {cells.name!r} cannot have the kind {requested!r}; use 'auto', "
            f"{', '.join(map(repr, COLUMN_LOSSES))}, or a loss for numbers such as `rankwise.losses.Huber(1.0)`."
        )
    if cells.type == "integer":
        if set(cells.present.tolist()) == {0, 1}:
            return "logistic"
        return "poisson" if are_counts(cells.present) else "huber"
    return BY_TYPE[cells.type]


def learn_column(cells: ColumnCells, kind: str | Loss, bounded: bool = False) -> Column:
    """Learn the encoding of a column from its values."""
    refuse_infinite(cells)
    name, present = kind if isinstance(kind, str) else kind.name, cells.present
    if not present.size:
        return Constant((), (), _default_value(cells))
    if not all(isinstance(each, Hashable) for each in present.tolist()):
        raise DataError(
            f"Column {cells.name!r} holds values that cannot be compared (first: {present[0]!r}); leave it out."
        )
    if len(set(present.tolist())) == 1:
        return Constant((), (), bool(present[0]) if cells.type == "boolean" else present[0])
    if name in ORDERED or name in ("category", "logistic"):
        names = levels_of(cells, name)
        codes = numbered(cells, names)
        return Levels.learn(codes, names, ORDERED[name]) if name in ORDERED else Classes.learn(codes, names)
    if present.dtype == object:
        raise DataError(f"Column {cells.name!r} holds {present[0]!r}, but the kind {name!r} needs numbers.")
    fill = Fill(float(present.min()), float(present.max())) if bounded else Fill()
    if name == "poisson":
        refuse_negative(cells)
        return Count.learn(present, fill)
    loss = kind if isinstance(kind, Loss) else Huber(HUBER_TURN) if name == "huber" else losses.get(name)
    return Real.learn(present, loss, fill)


def levels_of(cells: ColumnCells, kind: str) -> tuple[object, ...]:
    """Return the categories of a column, in their order if they have one."""
    if cells.categories and (kind in ORDERED or cells.type == "category"):
        levels = cells.categories
    else:
        if kind in ORDERED and cells.values.dtype == object:
            raise DataError(
                f"Column {cells.name!r} holds {cells.present[0]!r}, which has no order that is known; make it an "
                "ordered category, or number its levels."
            )
        try:
            levels = tuple(sorted(set(cells.present.tolist())))
        except TypeError:
            levels = tuple(dict.fromkeys(cells.present.tolist()))
        levels = (False, True) if cells.type == "boolean" else levels
    seen = set(cells.present.tolist())
    if kind not in ORDERED:
        levels = tuple(each for each in levels if each in seen)
    if kind == "logistic" and len(levels) != 2:
        raise DataError(f"Column {cells.name!r} has {len(levels)} values, but the kind 'logistic' needs two.")
    return levels


def _level_names(column: Column) -> tuple[object, ...] | None:
    return column.names if isinstance(column, Levels | Classes) else None


def numbered(cells: ColumnCells, names: tuple[object, ...] | None, ignore_unknown: bool = False) -> Array:
    """Return the values that are not missing; with the names of levels, the number of each value's level.

    Other values than the levels raise DataError, or have the number -1 if `ignore_unknown`.
    """
    if names is None:
        if cells.values.dtype == object:
            raise DataError(f"Column {cells.name!r} holds {cells.present[0]!r}, but `fit` saw numbers there.")
        return cells.present
    places = {name: k for k, name in enumerate(names)}
    codes = np.array([places.get(each, -1) for each in cells.present.tolist()], float)
    if (codes < 0).any() and not ignore_unknown:
        k = int(np.argmax(codes < 0))
        row = int(np.flatnonzero(~cells.missing)[k])
        raise DataError(
            f"Column {cells.name!r} has {int((codes < 0).sum())} cells with a value that `fit` did not see (first: "
            f'{cells.present.tolist()[k]!r} in row {row}); fit with such rows, or set handle_unknown="ignore".'
        )
    return codes


def refuse_infinite(cells: ColumnCells) -> None:
    """Raise DataError if a number is infinite."""
    if cells.values.dtype != object and np.isinf(cells.values).any():
        row = int(np.argmax(np.isinf(cells.values)))
        raise DataError(
            f"Input X contains infinity: column {cells.name!r} is {cells.values[row]} in row {row}; make such cells "
            "missing, or replace them by a finite number."
        )


def refuse_negative(cells: ColumnCells) -> None:
    """Raise DataError if a count is negative."""
    wrong = ~cells.missing & (cells.values < 0)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"Column {cells.name!r} is {cells.values[row]:g} in row {row}, but counts cannot be negative; choose "
            'another kind for it, such as "huber".'
        )


def _default_value(cells: ColumnCells) -> object:
    """Value for the cells of an empty column: zero, False, or the first category."""
    if cells.categories:
        return cells.categories[0]
    return {"boolean": False, "text": None}.get(cells.type, 0)
