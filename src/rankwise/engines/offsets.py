"""Offsets of rows and columns, which are added to every prediction."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array


@dataclass(frozen=True, eq=False)
class Offsets:
    """``constant + rows[i] + cols[j]``, added to the prediction of row i and column j.

    Attributes
    ----------
    constant : float
    rows : ndarray of shape (n_rows,)
    cols : ndarray of shape (n_cols,)
        Zero for rows and columns without any entry.
    """

    constant: float
    rows: Array
    cols: Array

    @classmethod
    def later(cls, constant: float, load: Callable[[], tuple[Array, Array]]) -> "Offsets":
        """Return offsets whose arrays are those of rows and columns that `load` returns, when they are first needed."""
        offsets = object.__new__(cls)
        object.__setattr__(offsets, "constant", constant)
        object.__setattr__(offsets, "_load", load)
        return offsets

    def __getattr__(self, name: str) -> Any:
        if name not in ("rows", "cols") or "_load" not in self.__dict__:
            raise AttributeError(name)
        rows, cols = self.__dict__.pop("_load")()
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "cols", cols)
        return self.__dict__[name]

    def loaded(self) -> "Offsets":
        """Return these offsets, with their arrays in this process."""
        _ = self.rows
        return self

    @classmethod
    def zero(cls, shape: tuple[int, int], dtype: Any = np.float64) -> "Offsets":
        """Return offsets that are all zero."""
        return cls(0.0, np.zeros(shape[0], dtype), np.zeros(shape[1], dtype))

    def at(self, rows: Array, cols: Array) -> NDArray[np.float64]:
        """Return the offsets at pairs of row and column numbers."""
        return self.constant + self.rows[rows].astype(np.float64) + self.cols[cols]

    def transposed(self) -> "Offsets":
        """Offsets of the transposed matrix."""
        return Offsets(self.constant, self.cols, self.rows)

    def is_sound(self, shape: tuple[int, int]) -> bool:
        """Return whether all numbers are finite and of these numbers of rows and columns."""
        sizes = (self.rows.shape, self.cols.shape) == (shape[:1], shape[1:])
        return sizes and all(bool(np.isfinite(part).all()) for part in (self.constant, self.rows, self.cols))

    def to_dense(self) -> NDArray[np.float64]:
        """Return the offsets of all pairs, shape (n_rows, n_cols)."""
        return self.constant + self.rows.astype(np.float64)[:, None] + self.cols
