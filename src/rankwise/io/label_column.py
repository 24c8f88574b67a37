"""Entries read from a file: in batches with labels as they were read, and all of them with numbered labels."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._arrays import Array
from ..observations.labels import EncodedLabels, numbered, numbered_parts

WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")  # integers as programs print them: 7 is a number, 007 and +7 are names


@dataclass(frozen=True, eq=False)
class LabelColumn:
    """Row or column labels of n entries.

    Attributes
    ----------
    names : ndarray of shape (n_names,)
        Distinct labels in sorted order.
    codes : ndarray of int64 or uint32, shape (n,)
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

    def with_numbers(self, which: str) -> "LabelColumn":
        """Convert labels to int64 if every name is written as an integer; else return the labels unchanged."""
        numbers = as_numbers(self.names)
        if self.names.dtype.kind == "i":  # in order already
            return LabelColumn(numbers, self.codes)
        return self if numbers is self.names else LabelColumn(*numbered(EncodedLabels(numbers, self.codes), which))

    @property
    def labels(self) -> Array:
        """Label of each entry, shape (n,)."""
        return self.names[self.codes]


class EntryBatch(NamedTuple):
    """Entries of consecutive lines of a file, n of them; their labels are not numbered yet."""

    rows: EncodedLabels
    cols: EncodedLabels
    numbers: tuple[Array, ...]  # values and weights as far as they are read, float32 of shape (n,) each


class Columns(NamedTuple):
    """Entries of a file, n of them."""

    rows: LabelColumn
    cols: LabelColumn
    numbers: tuple[Array, ...]  # as in `EntryBatch`

    @classmethod
    def of(cls, batches: Iterable[EntryBatch]) -> "Columns":
        """Concatenate batches, and number their labels."""
        rows, cols, numbers = zip(*batches, strict=True)
        row_side, col_side = (numbered_parts(side, which) for side, which in ((rows, "row"), (cols, "column")))
        return cls(LabelColumn(*row_side), LabelColumn(*col_side), _concatenated(numbers))


def joined(batches: Sequence[EntryBatch]) -> EntryBatch:
    """Concatenate batches."""
    rows, cols, numbers = zip(*batches, strict=True)
    return EntryBatch(EncodedLabels.joined(rows), EncodedLabels.joined(cols), _concatenated(numbers))


def _concatenated(numbers: Iterable[tuple[Array, ...]]) -> tuple[Array, ...]:
    return tuple(map(np.concatenate, zip(*numbers, strict=True)))


def as_numbers(names: Array) -> Array:
    """Convert integers, and text if all of it is written as integers, to int64; else return `names` itself."""
    whole = names.dtype.kind == "i" or (names.dtype.kind == "U" and all(map(WHOLE.fullmatch, names.tolist())))
    return names.astype(np.int64, copy=False) if whole else names
