"""Predictions for rows and columns that were not seen during fit."""

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array


@dataclass(frozen=True, eq=False)
class Marginals:
    """Predictions on the link scale where a row, a column or both have no training entry.

    Attributes
    ----------
    rows : ndarray of shape (n_rows,)
        Prediction of every row at an unseen column: its mean target, shrunk towards the mean of all.
    cols : ndarray of shape (n_cols,)
        Prediction of every column for an unseen row.
    row_weights, col_weights : ndarray of shape (n_rows,) and (n_cols,)
        Total weight of the entries of each row and column.
    constant : float
        Prediction for an unseen row at an unseen column.
    """

    rows: NDArray[np.float64]
    cols: NDArray[np.float64]
    row_weights: NDArray[np.float64]
    col_weights: NDArray[np.float64]
    constant: float

    def transposed(self) -> "Marginals":
        """Rows and columns exchanged."""
        return Marginals(self.cols, self.rows, self.col_weights, self.row_weights, self.constant)

    def for_new_rows(self, rows: Array, row_weights: Array) -> "Marginals":
        """Marginals of a model of new rows with these predictions at unseen columns and weights of their entries."""
        return replace(self, rows=rows.astype(np.float64), row_weights=row_weights.astype(np.float64))

    def only_seen(self, rows: Array, cols: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Row and column numbers, with -1 for those without entries."""
        return np.where(self.row_weights[rows] > 0, rows, -1), np.where(self.col_weights[cols] > 0, cols, -1)

    def at(self, rows: Array, cols: Array) -> NDArray[np.float64]:
        """Predictions at pairs of row and column numbers, shape (n,); where both are known, that of the row."""
        return np.where(rows >= 0, self.rows[rows], np.where(cols >= 0, self.cols[cols], self.constant))

    def to_arrays(self) -> dict[str, Array]:
        """Arrays by name, for the model's file."""
        return {field.name: np.asarray(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array], shape: tuple[int, int]) -> "Marginals":
        """Inverse of `to_arrays`; ValueError, TypeError or KeyError if the arrays are inconsistent."""
        parts = [arrays[field.name] for field in fields(cls)]
        sizes = [part.shape for part in parts] == [shape[:1], shape[1:], shape[:1], shape[1:], ()]
        if not sizes or not all(part.dtype == np.float64 and np.isfinite(part).all() for part in parts):
            raise ValueError("inconsistent marginals")
        rows, cols, row_weights, col_weights, constant = parts
        return cls(rows, cols, row_weights, col_weights, float(constant))
