"""Labels that come in chunks: numbered as they come, and in sorted order once all are known."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import DataError
from ..observations.labels import MIXED, numbered

Array = NDArray[Any]


class Numbering:
    """Gives every new label the next code."""

    def __init__(self, which: str) -> None:
        self.which = which
        self.names: Array | None = None  # sorted
        self.codes = np.zeros(0, np.uint32)  # of the names

    def encode(self, labels: Array) -> NDArray[np.uint32]:
        """The code of each label of a chunk."""
        names, places = numbered(labels, self.which)
        if self.names is None:
            self.names = names[:0]
        kinds = {self.names.dtype.kind, names.dtype.kind}
        if kinds == {"i", "u"} and all(part.max(initial=0) < 2**63 for part in (self.names, names)):
            self.names, names = self.names.astype(np.int64), names.astype(np.int64)  # together they would be floats
        elif len(kinds) > 1 and kinds & {"i", "u"}:
            raise DataError(MIXED.format(self.which))
        at = np.searchsorted(self.names, names)
        known = at < self.names.size
        known[known] = self.names[at[known]] == names[known]
        new = ~known
        if new.any():
            if self.names.size + int(new.sum()) >= 2**32:
                raise DataError(f"There are more {self.which}s than the 4,294,967,295 that a 32-bit index can number.")
            fresh = np.arange(self.codes.size, self.codes.size + int(new.sum()), dtype=np.uint32)
            merged = np.concatenate((self.names, names[new]))  # first as wide as the longest text
            order = np.argsort(merged, kind="stable")
            self.names, self.codes = merged[order], np.concatenate((self.codes, fresh))[order]
            at = np.searchsorted(self.names, names)
        found: NDArray[np.uint32] = self.codes[at][places]
        return found

    def finish(self, as_names: Callable[[Array], Array] | None = None) -> tuple[Array, NDArray[np.uint32]]:
        """The labels in sorted order, and the number of each code.

        Parameters
        ----------
        as_names : callable, optional
            What the labels mean, such as whole numbers that were written as text; one for one.
        """
        if self.names is None:
            raise DataError("There are no entries; there is nothing to learn from.")
        names = self.names if as_names is None else as_names(self.names)
        order = np.argsort(names, kind="stable")
        number_of = np.empty(order.size, np.uint32)
        number_of[self.codes[order]] = np.arange(order.size, dtype=np.uint32)
        return names[order], number_of
