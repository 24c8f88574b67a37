"""What a model recommends, and what it finds alike."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._errors import SettingError
from ..engines import Offsets
from ..observations.labels import find
from . import ranking
from .posterior import Posterior

AXES = ("rows", "columns")


class Recommending:
    """Methods of `LowRankModel` that rank all columns, or all rows."""

    U: NDArray[Any]
    V: NDArray[Any]
    row_labels: NDArray[Any] | None
    col_labels: NDArray[Any] | None
    offsets: Offsets | None
    seen: Any
    posterior: Posterior | None

    @property
    def rank(self) -> int:
        """The rank that is used unless another is asked for."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        raise NotImplementedError

    def coefficients(self, rank: int | None) -> NDArray[np.float64]:
        """Coefficients of the rank-`rank` model."""
        raise NotImplementedError

    def recommend(
        self,
        rows: ArrayLike,
        n: int = 10,
        *,
        exclude_seen: bool = True,
        only: ArrayLike | None = None,
        rank: int | None = None,
        n_jobs: int | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """The columns with the highest predictions for each row, best first; ties go to the lower column number.

        Costs O(len(rows) n_cols rank). The same on any number of threads.

        Parameters
        ----------
        rows : label or array-like of labels
            Rows to recommend for, by label if there are labels, else by number.
        n : int, default=10
        exclude_seen : bool, default=True
            Leave out the columns that the row was observed at.
        only : array-like of labels, optional
            Columns to choose among; all by default.
        rank : int, optional
            Any rank of the path.
        n_jobs : int, optional
            Threads; None means all usable cores.

        Returns
        -------
        labels, scores : ndarray
            For a single row, of shape (n,), or shorter if fewer columns are left. For several, of shape
            (len(rows), n), where a row with fewer columns ends in the label None (-1 if columns are numbered) and the
            score minus infinity. Scores are on the link scale, as those of `predict_entries`.
        """
        wanted = find(rows, self.row_labels, self.shape[0], "row")
        among = None if only is None else np.unique(find(only, self.col_labels, self.shape[1], "column"))
        excluded = self._seen_in(wanted) if exclude_seen else ranking.none_excluded(wanted.size)
        n = ranking.check_count(n, rows, self.shape[1])
        best = ranking.best_columns(self._sides(wanted, rank), n, excluded, among, n_jobs)
        return ranking.named(best, self.col_labels, rows)

    def similar(
        self, labels: ArrayLike, n: int = 10, *, axis: str = "rows", rank: int | None = None, n_jobs: int | None = None
    ) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """The rows (or columns) most like the given ones, best first, themselves left out.

        How much alike two rows are is the cosine between their rows of the low-rank part; offsets play no role. A row
        that is zero there is like no other: its cosines are 0. Where the model knows how sure it is (refine="bayes", at
        its full rank), lengths are expected ones, the variance included, so that a row with few entries, of which
        little is known, is not much like any other.

        Parameters
        ----------
        labels : label or array-like of labels
            Rows, or columns with ``axis="columns"``.
        n : int, default=10
        axis : {"rows", "columns"}, default="rows"
        rank : int, optional
            Any rank of the path.
        n_jobs : int, optional
            Threads; None means all usable cores.

        Returns
        -------
        labels, cosines : ndarray
            Of shape (n,) for a single label and (len(labels), n) for several; as `recommend` gives them.
        """
        if axis not in AXES:
            raise SettingError(f"`axis` must be 'rows' or 'columns', got {axis!r}.")
        theta, size = self.coefficients(rank), self.shape[AXES.index(axis)]
        near, far, names = (self.U, self.V, self.row_labels) if axis == "rows" else (self.V, self.U, self.col_labels)
        wanted = find(labels, names, size, axis.removesuffix("s"))
        themselves = ranking.Excluded(np.arange(wanted.size + 1, dtype=np.uint64), wanted.astype(np.uint32))
        full = rank is None or rank == self.rank
        unsure = self.posterior.spread(axis) if self.posterior is not None and full else 0.0
        vectors = ranking.directions(theta, near, far, unsure)
        sides = ranking.Sides(vectors[wanted], vectors, np.zeros(wanted.size), np.zeros(size))
        best = ranking.best_columns(sides, ranking.check_count(n, labels, size), themselves, n_jobs=n_jobs)
        return ranking.named(best, names, labels)

    def _sides(self, rows: NDArray[np.int64], rank: int | None) -> ranking.Sides:
        """What the predictions of these rows are made of."""
        theta, offsets = self.coefficients(rank), self.offsets
        left = self.U[rows, : theta.size] * theta
        if offsets is None:
            return ranking.Sides(left, self.V, np.zeros(rows.size), np.zeros(self.shape[1]))
        base = offsets.constant + offsets.rows[rows].astype(np.float64)
        return ranking.Sides(left, self.V, base, offsets.cols.astype(np.float64))

    def _seen_in(self, rows: NDArray[np.int64]) -> ranking.Excluded:
        if self.seen is None:
            raise SettingError("This model does not know which entries were seen; pass `exclude_seen=False`.")
        return ranking.excluded_of(self.seen.indptr, self.seen.indices, rows)
