"""Batches of entries read from a file; labels are stored as distinct names and one code per entry."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._arrays import Array
from ..observations.labels import numbered

LABEL_SIDES = ("row", "column")
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")  # integers as programs print them: 7 is a number, 007 and +7 are names


@dataclass(frozen=True, eq=False)
class LabelColumn:
    """Row or column labels of n entries.

    Attributes
    ----------
    names : ndarray of shape (n_names,)
        Distinct labels in sorted order.
    codes : ndarray of int64, shape (n,)
        Index into `names` of each entry's label.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> users = rw.io.LabelColumn(names=np.array(["ann", "bob"]), codes=np.array([1, 0, 1]))
    >>> users.names[users.codes]
    array(['bob', 'ann', 'bob'], dtype='<U3')
    """

    names: Array
    codes: Array

    @classmethod
    def of(cls, names: ArrayLike, which: str, codes: Array | None = None) -> "LabelColumn":
        """Sort and deduplicate `names`; ``names[codes]`` are the labels, by default `names` itself."""
        distinct, place = numbered(names, which)
        return cls(distinct, place if codes is None else place[codes])

    @classmethod
    def joined(cls, parts: "Sequence[LabelColumn]", which: str) -> "LabelColumn":
        """Concatenate the labels of several lists of entries."""
        names, place = numbered(np.concatenate([part.names for part in parts]), which)
        places = np.split(place, np.cumsum([part.names.size for part in parts[:-1]]))
        return cls(names, np.concatenate([at[part.codes] for at, part in zip(places, parts, strict=True)]))

    def with_numbers(self, which: str) -> "LabelColumn":
        """Convert labels to int64 if every name is written as an integer; else return the labels unchanged."""
        numbers = as_numbers(self.names)
        return self if numbers is self.names else LabelColumn.of(numbers, which, self.codes)

    @property
    def labels(self) -> Array:
        """Label of each entry, shape (n,)."""
        return self.names[self.codes]


class EntryBatch(NamedTuple):
    """Entries of consecutive lines of a file, n of them."""

    rows: LabelColumn
    cols: LabelColumn
    numbers: tuple[Array, ...]  # values and weights as far as they are read, float32 of shape (n,) each

    @classmethod
    def joined(cls, batches: "Sequence[EntryBatch]") -> "EntryBatch":
        """Concatenate batches."""
        rows = LabelColumn.joined([batch.rows for batch in batches], "row")
        cols = LabelColumn.joined([batch.cols for batch in batches], "column")
        numbers = zip(*(batch.numbers for batch in batches), strict=True)
        return cls(rows, cols, tuple(map(np.concatenate, numbers)))


def as_numbers(names: Array) -> Array:
    """Convert text labels to int64 if all of them are written as integers; else return `names` itself."""
    whole = names.dtype.kind == "U" and all(map(WHOLE.fullmatch, names.tolist()))
    return names.astype(np.int64) if whole else names
