"""From a table with a loss per column to a matrix with one loss, and from predictions back to the table."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import losses
from .._errors import DataError, SettingError
from ..losses import Absolute, Huber, Loss, Mixed, Ordinal, OrdinalHinge, ProportionalOdds, Quantile, Square
from ..observations import Observations
from .columns import TURN, Classes, Column, Constant, Count, Levels, Real
from .frames import Cells

Array = NDArray[Any]
ColumnTargets = list[tuple[Array, Array]]  # for each column: the rows that have a value, and their targets
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
    """What `fit` learned of a table's columns: names, kinds, and how each becomes columns of a matrix."""

    names: tuple[Any, ...]
    kinds: tuple[str, ...]
    columns: tuple[Column, ...]
    empty: tuple[int, ...]

    @classmethod
    def learn(cls, cells: list[Cells], wanted: Any) -> "Table":
        """From the columns as they came, and the kinds that the user wants."""
        if all(each.missing.all() for each in cells):
            raise DataError("No cell of the table has a value; there is nothing to learn from.")
        chosen = chosen_kinds(cells, wanted)
        columns = tuple(learn_column(each, kind) for each, kind in zip(cells, chosen, strict=True))
        empty = tuple(j for j, each in enumerate(cells) if each.missing.all())
        kinds = tuple(kind if isinstance(kind, str) else kind.name for kind in chosen)
        return cls(tuple(each.name for each in cells), kinds, columns, empty)

    @property
    def width(self) -> int:
        """Columns of the matrix."""
        return sum(len(column.losses) for column in self.columns)

    def places(self) -> list[slice]:
        """Columns of the matrix that each column of the table becomes."""
        ends = np.cumsum([0] + [len(column.losses) for column in self.columns])
        return [slice(int(lo), int(hi)) for lo, hi in pairwise(ends)]

    def targets(self, cells: list[Cells]) -> ColumnTargets:
        """Rows that have a value, and their targets, for each column."""
        found = []
        for each, column, kind in zip(cells, self.columns, self.kinds, strict=True):
            refuse_infinite(each)
            present = np.flatnonzero(~each.missing)
            values = numbered(each, column) if not isinstance(column, Constant) else present
            if kind == "poisson" and isinstance(column, Count):
                refuse_negative(each)
            found.append((present, column.targets(values)))
        return found

    def values(self, predicted: Array) -> list[Array]:
        """Values in the table's own units, for every row and column."""
        found = []
        for column, place in zip(self.columns, self.places(), strict=True):
            values = column.values(predicted[:, place])
            if isinstance(column, Levels | Classes):
                names = np.empty(len(column.names), object)
                names[:] = column.names
                values = names[values]
            found.append(values)
        return found

    def scales(self, targets: ColumnTargets, predicted: Array, variances: Array) -> Array:
        """Weight of each column's loss, repeated for every column of the matrix it becomes.

        Likelihoods of levels and categories weigh one; numbers as their noise says, counts less if they spread
        more than Poisson's law lets them.
        """
        found = np.ones(self.width)
        for column, place, (rows, wanted) in zip(self.columns, self.places(), targets, strict=True):
            found[place] = column.weight(wanted, predicted[rows, place], variances[rows, place])
        return found

    def problem(self, targets: ColumnTargets, scales: Array, n_rows: int) -> tuple[Observations | None, Mixed | None]:
        """Observed entries with codes for targets, and the loss that knows them; None if no cell has a value."""
        rows, cols, wanted = [], [], []
        for place, (present, found) in zip(self.places(), targets, strict=True):
            for k, j in enumerate(range(place.start, place.stop)):
                rows.append(present)
                cols.append(np.full(present.size, j))
                wanted.append(found[:, k])
        if not sum(part.size for part in rows):
            return None, None
        own = [loss for column in self.columns for loss in column.losses]
        shifts = [shift for column in self.columns for shift in column.shifts]
        flat = np.concatenate(cols)
        loss, codes = Mixed.encode(own, flat, np.concatenate(wanted), scales=scales, shifts=shifts)
        return Observations.from_coo(np.concatenate(rows), flat, codes, (n_rows, self.width)), loss


def chosen_kinds(cells: list[Cells], wanted: Any) -> list[str | Loss]:
    """The kind of each column: what the user wants, else what its type says."""
    names = [each.name for each in cells]
    given: list[Any] = ["auto"] * len(cells)
    if isinstance(wanted, Mapping):
        unknown = [name for name in wanted if name not in names]
        if unknown:
            raise SettingError(f"`columns` names {unknown[0]!r}, which the table does not have; it has {names[:8]}.")
        given = [wanted.get(name, "auto") for name in names]
    elif isinstance(wanted, Sequence) and not isinstance(wanted, str):
        if len(wanted) != len(cells):
            raise SettingError(f"`columns` has {len(wanted)} kinds, but the table has {len(cells)} columns.")
        given = list(wanted)
    elif isinstance(wanted, str | Loss):
        given = [wanted] * len(cells)
    else:
        raise SettingError(f"`columns` must be a kind, a list of kinds or a dict from names to kinds, got {wanted!r}.")
    return [_kind(each, kind) for each, kind in zip(cells, given, strict=True)]


def _kind(cells: Cells, wanted: Any) -> str | Loss:
    if isinstance(wanted, Loss) and isinstance(wanted, REAL):
        return wanted
    if isinstance(wanted, str) and wanted in COLUMN_LOSSES:
        return wanted
    if not (isinstance(wanted, str) and wanted == "auto"):
        raise SettingError(
            f"Column {cells.name!r} cannot have the kind {wanted!r}; use 'auto', {', '.join(map(repr, COLUMN_LOSSES))}"
            ", or a loss for numbers such as `rankwise.losses.Huber(1.0)`."
        )
    if cells.type == "integer":
        return "poisson" if not (cells.present < 0).any() else "huber"
    return BY_TYPE[cells.type]


def learn_column(cells: Cells, kind: str | Loss) -> Column:
    """How a column becomes columns of a matrix."""
    refuse_infinite(cells)
    name, present = kind if isinstance(kind, str) else kind.name, cells.present
    if not present.size:
        return Constant((), (), _nothing(cells))
    if not all(isinstance(each, Hashable) for each in present.tolist()):
        raise DataError(
            f"Column {cells.name!r} holds things that cannot be compared (first: {present[0]!r}); leave it out."
        )
    if len(set(present.tolist())) == 1:
        return Constant((), (), bool(present[0]) if cells.type == "boolean" else present[0])
    if name in ORDERED or name in ("category", "logistic"):
        names = levels_of(cells, name)
        codes = numbered(cells, names)
        return Levels.learn(codes, names, ORDERED[name]) if name in ORDERED else Classes.learn(codes, names)
    if present.dtype == object:
        raise DataError(f"Column {cells.name!r} holds {present[0]!r}, but the kind {name!r} needs numbers.")
    if name == "poisson":
        refuse_negative(cells)
        return Count.learn(present)
    loss = kind if isinstance(kind, Loss) else Huber(TURN) if name == "huber" else losses.get(name)
    return Real.learn(present, loss)


def levels_of(cells: Cells, kind: str) -> tuple[Any, ...]:
    """Categories of a column, in order if they have one."""
    if cells.categories and (kind in ORDERED or cells.type == "category"):
        found = cells.categories
    else:
        if kind in ORDERED and cells.values.dtype == object:
            raise DataError(
                f"Column {cells.name!r} holds {cells.present[0]!r}, which has no order that is known; make it an "
                "ordered category, or number its levels."
            )
        try:
            found = tuple(sorted(set(cells.present.tolist())))
        except TypeError:
            found = tuple(dict.fromkeys(cells.present.tolist()))
        found = (False, True) if cells.type == "boolean" else found
    seen = set(cells.present.tolist())
    if kind not in ORDERED:
        found = tuple(each for each in found if each in seen)
    if kind == "logistic" and len(found) != 2:
        raise DataError(f"Column {cells.name!r} has {len(found)} values, but the kind 'logistic' needs two.")
    return found


def numbered(cells: Cells, column: Any) -> Array:
    """Values that are there; numbers of the levels for columns that have levels."""
    names = column if isinstance(column, tuple) else getattr(column, "names", None)
    if names is None:
        if cells.values.dtype == object:
            raise DataError(f"Column {cells.name!r} holds {cells.present[0]!r}, but `fit` saw numbers there.")
        return cells.present
    places = {name: k for k, name in enumerate(names)}
    found = np.array([places.get(each, -1) for each in cells.present.tolist()], float)
    if (found < 0).any():
        k = int(np.argmax(found < 0))
        row = int(np.flatnonzero(~cells.missing)[k])
        raise DataError(
            f"Column {cells.name!r} has {int((found < 0).sum())} cells with a value that `fit` did not see (first: "
            f"{cells.present.tolist()[k]!r} in row {row}); fit with such rows, or make these cells missing."
        )
    return found


def refuse_infinite(cells: Cells) -> None:
    """Raise if a number is infinite."""
    if cells.values.dtype != object and np.isinf(cells.values).any():
        row = int(np.argmax(np.isinf(cells.values)))
        raise DataError(
            f"Input X contains infinity: column {cells.name!r} is {cells.values[row]} in row {row}; make such cells "
            "missing, or replace them by a finite number."
        )


def refuse_negative(cells: Cells) -> None:
    """Raise if a count is negative."""
    wrong = ~cells.missing & (cells.values < 0)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"Column {cells.name!r} is {cells.values[row]:g} in row {row}, but counts cannot be negative; choose "
            'another kind for it, such as "huber".'
        )


def _nothing(cells: Cells) -> Any:
    """What an empty column is filled with: zero, False, or the first category."""
    if cells.categories:
        return cells.categories[0]
    return {"boolean": False, "text": None}.get(cells.type, 0)
