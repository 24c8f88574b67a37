"""Columns that can be among the best of some rows, by BLAS in single precision and a bound on its rounding."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from ..kernels import topk
from ..observations.build import rows_of

LEAST_ROWS = 16  # for fewer rows, the exact scores of all columns take no longer
LEAST_RANK = 24  # as measured by benchmarks/bench_recommend.py
MOST_SHARE = 0.25  # of the columns; a longer list saves too little
MOST_SCORE = 1e30  # scores above may overflow in single precision
SINGLE, DOUBLE = float(np.finfo(np.float32).eps), float(np.finfo(np.float64).eps)
LEAST_PRODUCT = 1e-37  # products below lose digits in single precision


class Shortlist(NamedTuple):
    """Factors in single precision of the columns that rows are compared with, and the longest one's length.

    Attributes
    ----------
    right : ndarray of float32, shape (n_cols, rank)
    length : float
    """

    right: NDArray[np.float32]
    length: float

    @classmethod
    def of(cls, left: Array, right: Array, n: int) -> "Shortlist | None":
        """Return a shortlist for the best `n` columns of the rows of `left`; None where it would not pay."""
        (n_rows, rank), n_cols = left.shape, right.shape[0]
        if n_rows < LEAST_ROWS or rank < LEAST_RANK or n > MOST_SHARE * n_cols:
            return None
        right = right[:, :rank]
        length = float(np.sqrt(np.einsum("ij,ij->i", right, right, dtype=np.float64).max(initial=0.0)))
        return cls(np.ascontiguousarray(right, np.float32), length) if length < MOST_SCORE else None

    def columns(
        self, left: Array, base: Array, shifts: Array, excluded: tuple[Array, Array, Array], n: int
    ) -> NDArray[np.int64] | None:
        """Return the columns that can be among the best `n` of any of the rows, rising; None if they are too many.

        Scores are ``left @ right.T + base + shifts``. Their error in single precision is at most ``(rank + 4) * eps /
        2`` times a bound on the sizes of both terms; a column that is below the n-th best by twice the error is not
        among the best.

        Parameters
        ----------
        left : ndarray of shape (n_rows, rank)
        base : ndarray of shape (n_rows,)
        shifts : ndarray of shape (n_rows, n_cols) or (1, n_cols)
        excluded : ndarrays indptr, indices, places
            Columns ``places[indices[indptr[i]:indptr[i + 1]]]`` are left out of row i, except for a place of -1.
        n : int
        """
        lengths, rank = np.sqrt(np.einsum("ij,ij->i", left, left)), left.shape[1] + 16
        sizes = lengths * self.length + np.abs(shifts).max(axis=1, initial=0.0)
        if not sizes.max(initial=0.0) < MOST_SCORE or lengths.max(initial=0.0) > MOST_SCORE:  # or not a number
            return None
        margins = rank * (SINGLE * sizes + DOUBLE * np.abs(base) + LEAST_PRODUCT * (1.0 + lengths + self.length))
        scores = left.astype(np.float32) @ self.right.T
        scores += shifts.astype(np.float32)
        indptr, indices, places = excluded
        cols = places[indices[indptr[0] : indptr[-1]]]
        rows = rows_of(indptr - indptr[0])
        scores[rows[cols >= 0], cols[cols >= 0]] = -np.inf
        marks = np.zeros(scores.shape[1], np.bool_)
        topk.mark_best(scores, np.zeros(n), margins, marks)
        columns = np.flatnonzero(marks)
        return columns if columns.size <= MOST_SHARE * marks.size else None
