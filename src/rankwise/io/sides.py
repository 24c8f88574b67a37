"""Labels of one side of a table: the different ones in sorted order, and which each entry has."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..observations.labels import numbered

Array = NDArray[Any]
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")  # as a program writes them: 007 is a name, 7 is a number


@dataclass(frozen=True, eq=False)
class Side:
    """Labels of the rows or of the columns.

    Attributes
    ----------
    names : ndarray of shape (n_names,)
        Sorted, each once.
    codes : ndarray of int64, shape (n,)
        Place of each entry's label among the names.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> side = rw.io.Side(names=np.array(["ann", "bob"]), codes=np.array([1, 0, 1]))
    >>> side.names[side.codes]
    array(['bob', 'ann', 'bob'], dtype='<U3')
    """

    names: Array
    codes: Array

    @classmethod
    def of(cls, names: ArrayLike, codes: ArrayLike) -> "Side":
        """From different names in any order."""
        given, at = np.asarray(names), np.asarray(codes, np.int64)
        order = np.argsort(given, kind="stable")
        place = np.empty(order.size, np.int64)
        place[order] = np.arange(order.size)
        return cls(given[order], place[at])

    @classmethod
    def of_each(cls, labels: Array, which: str) -> "Side":
        """From the label of each entry."""
        return cls(*numbered(labels, which))

    @classmethod
    def of_text(cls, names: Sequence[str], codes: ArrayLike) -> "Side":
        """From different names as text; whole numbers if all of them are written as such."""
        whole = all(map(WHOLE.fullmatch, names))
        return cls.of(np.array([int(name) for name in names] if whole else names, np.int64 if whole else str), codes)

    @property
    def labels(self) -> Array:
        """Label of each entry."""
        return self.names[self.codes]
