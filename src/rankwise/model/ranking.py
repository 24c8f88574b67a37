"""Columns with the highest predictions for each row, and the rows or columns most similar to given ones."""

import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from .._arrays import Array
from .._checks import check_choice, is_number, is_whole
from .._errors import SettingError
from ..engines import usable_cores
from ..kernels import topk
from ..kernels.topk import Doubt
from ..observations import Observations
from ..observations.build import entries_in, rows_of
from .shortlist import Shortlist

if TYPE_CHECKING:
    from .low_rank import LowRankModel
    from .neighbours import Neighbours

log = logging.getLogger("rankwise")
Ranked = tuple[Array, NDArray[np.float64]]  # labels and scores, best first
AXES = ("rows", "columns")
TASK_ROWS = 64  # rows that one thread ranks at a time
DIRECTIONS: "WeakKeyDictionary[LowRankModel, dict[str, NDArray[np.float64]]]" = WeakKeyDictionary()  # by axis
RISK = 30.0  # standard deviations of a column that risk="auto" deducts from a prediction (docs/recommender.md)


class Seen(NamedTuple):
    """Positions of entries in CSR form, without their values.

    Attributes
    ----------
    indptr : ndarray of uint64, shape (n_rows + 1,)
    indices : ndarray of uint32, shape (n_entries,)
        Columns, increasing within each row.
    counts : ndarray of float32, shape (n_entries,), optional
        Weights of clicks; None if all are one, and for other data.
    """

    indptr: NDArray[np.uint64]
    indices: NDArray[np.uint32]
    counts: NDArray[np.float32] | None = None

    @classmethod
    def of(cls, entries: Any) -> "Seen | None":
        """Positions of Observations; None for anything else, such as entries that are not in memory."""
        return cls(entries.indptr, entries.indices) if isinstance(entries, Observations) else None

    @classmethod
    def of_clicks(cls, clicks: Observations) -> "Seen":
        """Positions of clicks, and their counts, which are the targets."""
        counts = None if np.all(clicks.targets == 1) else clicks.targets.astype(np.float32)
        return cls(clicks.indptr, clicks.indices, counts)

    def transposed(self, n_cols: int) -> "Seen":
        """Positions with rows and columns exchanged."""
        ones, shape = np.ones(self.indices.size, bool), (self.indptr.size - 1, n_cols)
        transpose = sp.csr_array((ones, self.indices.astype(np.int64), self.indptr.astype(np.int64)), shape).T.tocsr()
        return Seen(transpose.indptr.astype(np.uint64), transpose.indices.astype(np.uint32))

    def contains(self, rows: Array, cols: Array, n_cols: int) -> NDArray[np.bool_]:
        """Return whether each of these positions, of a matrix with `n_cols` columns, is among the entries."""
        keys = rows_of(self.indptr) * n_cols + self.indices
        return np.isin(rows * n_cols + cols, keys)

    def to_sparse(self, n_cols: int) -> Any:
        """Ones at the positions, as a SciPy CSR array of shape (n_rows, n_cols)."""
        parts = np.ones(self.indices.size, np.float32), self.indices.astype(np.int32), self.indptr.astype(np.int64)
        return sp.csr_array(parts, shape=(self.indptr.size - 1, n_cols))

    def take_rows(self, rows: Array) -> "Seen":
        """Positions in the given rows, in their order."""
        indptr, entries = entries_in(self.indptr, rows)
        counts = None if self.counts is None else self.counts[entries]
        return Seen(indptr, np.ascontiguousarray(self.indices[entries]), counts)


class Scores(NamedTuple):
    """Scores ``left[i] @ right[j] + base[i] + shift[j]``, less the deduction for their uncertainty, if any.

    Columns of `right` beyond those of `left` are not used. `shift` may also have a row for each row i. Neighbours, if
    any, add their scores for the patterns of the rows.
    """

    left: Array
    right: Array
    base: NDArray[np.float64]
    shift: Array
    doubt: Doubt | None = None
    neighbours: "Neighbours | None" = None
    patterns: Seen | None = None


class Best(NamedTuple):
    """Best columns of each row, best first.

    Attributes
    ----------
    columns : ndarray of int64, shape (n_rows, n)
        Column numbers; -1 where a row has fewer.
    scores : ndarray of float64, shape (n_rows, n)
        Minus infinity where a row has fewer.
    counts : ndarray of int64, shape (n_rows,)
    """

    columns: NDArray[np.int64]
    scores: NDArray[np.float64]
    counts: NDArray[np.int64]


def recommend(
    model: "LowRankModel",
    rows: ArrayLike,
    n: int,
    exclude_seen: bool,
    only: ArrayLike | None,
    rank: int | None,
    risk: float | str,
    n_jobs: int | None,
) -> Ranked:
    """See `LowRankModel.recommend`."""
    requested, n = model.row_index.find(rows), check_count(n, rows, model.shape[1])
    candidates = None if only is None else np.unique(model.col_index.find(only))
    options: dict[str, Any] = {"exclude_seen": exclude_seen, "candidates": candidates, "rank": rank, "risk": risk}
    return _labelled(ranked_columns(model, requested, n, **options, n_jobs=n_jobs), model.col_labels, rows)


def ranked_columns(
    model: "LowRankModel",
    rows: Array,
    n: int,
    *,
    exclude_seen: bool = True,
    candidates: Array | None = None,
    rank: int | None = None,
    risk: float | str = "auto",
    n_jobs: int | None = -1,
) -> "Best":
    """Return the best columns of the rows with these numbers; parameters are those of `LowRankModel.recommend`."""
    if exclude_seen and model.seen is None:
        raise SettingError("This model does not know which entries were seen; pass `exclude_seen=False`.")
    left_out = model.seen.take_rows(rows) if exclude_seen and model.seen is not None else None
    scores = scores_of(model, rows, rank, check_risk(risk, model.link))
    return best_columns(scores, n, left_out, candidates, n_jobs)


def scores_of(model: "LowRankModel", rows: Array, rank: int | None, risk: float) -> Scores:
    """Predictions of the given rows, less `risk` standard deviations due to the columns if there are any at that rank.

    The uncertainty of a row says nothing about which of its columns to prefer: its variances count as zero.
    """
    theta, offsets, posterior = model.coefficients(rank), model.offsets_of(rank), model.posterior
    base, shift = np.zeros(rows.size), np.zeros(model.shape[1])
    if offsets is not None:
        base = offsets.constant + offsets.rows[rows].astype(np.float64)
        shift = offsets.cols.astype(np.float64)
    doubt = None
    if risk and posterior is not None and rank in (None, model.rank):
        own = posterior.row_means[rows], np.zeros_like(posterior.row_variances[rows])
        doubt = Doubt(float(risk), *own, posterior.col_means, posterior.col_variances)
    left = model.U[rows, : theta.size] * theta
    if model.neighbours is None or not knows_patterns(model):
        return Scores(left, model.V, base, shift, doubt)
    return Scores(left, model.V, base, shift, doubt, model.neighbours, model.seen.take_rows(rows))  # type: ignore[union-attr]


def knows_patterns(model: "LowRankModel") -> bool:
    """Return whether the model knows the entries of its rows, which its neighbours need; else log a warning."""
    if model.seen is None:
        log.warning("this model was saved without its entries: scores are those of the low-rank part alone")
    return model.seen is not None


def similar(
    model: "LowRankModel", labels: ArrayLike, n: int, axis: str, rank: int | None, n_jobs: int | None
) -> Ranked:
    """See `LowRankModel.similar`."""
    check_choice("axis", axis, AXES)
    index = model.row_index if axis == "rows" else model.col_index
    requested = index.find(labels)
    themselves = Seen(np.arange(requested.size + 1, dtype=np.uint64), requested.astype(np.uint32))
    vectors = _cached_directions(model, axis, rank)
    scores = Scores(vectors[requested], vectors, np.zeros(requested.size), np.zeros(index.size))
    best = best_columns(scores, check_count(n, labels, index.size), themselves, n_jobs=n_jobs)
    return _labelled(best, index.labels, labels)


def _cached_directions(model: "LowRankModel", axis: str, rank: int | None) -> NDArray[np.float64]:
    """Vectors of `directions` for all rows or columns; those of the last rank are stored for the next call."""
    theta, stored = model.coefficients(rank), DIRECTIONS.setdefault(model, {})
    vectors = stored.get(axis)
    if vectors is None or vectors.shape[1] != theta.size:
        near, far = (model.U, model.V) if axis == "rows" else (model.V, model.U)
        full_rank = theta.size == model.rank
        variances = model.posterior.spread(axis) if model.posterior is not None and full_rank else 0.0
        vectors = stored[axis] = directions(theta, near, far, variances)
    return vectors


def best_columns(
    scores: Scores, n: int, excluded: Seen | None = None, candidates: Array | None = None, n_jobs: int | None = -1
) -> Best:
    """The `n` columns with the highest scores of every row; ties go to the lower column.

    Costs O(n_rows n_columns rank); scores are computed and dropped a few rows at a time. The result does not depend on
    `n_jobs`, and that of a row not on the other rows: BLAS only shortens the list of columns that can be among the
    best (`Shortlist`), and their scores are computed by one kernel.

    Parameters
    ----------
    scores : Scores
    n : int
    excluded : Seen, optional
        Columns to leave out of each row.
    candidates : ndarray of int, optional
        Columns to choose among, in rising order; all by default.
    n_jobs : int, default=-1
        Number of threads; -1 means all usable cores.
    """
    left, right, base, shift, doubt, neighbours, patterns = scores
    doubt = doubt or Doubt(0.0, *(np.zeros((1, 1), right.dtype) for _ in range(4)))
    excluded = excluded or Seen(np.zeros(left.shape[0] + 1, np.uint64), np.zeros(0, np.uint32))
    places = np.arange(right.shape[0])
    if candidates is not None:
        right, shift, places = right[candidates], shift[..., candidates], _places_among(candidates, places.size)
        if doubt.risk:
            doubt = doubt._replace(col_means=doubt.col_means[candidates], col_variances=doubt.col_variances[candidates])
    n_rows, width = left.shape[0], min(n, right.shape[0])
    best = Best(np.full((n_rows, n), -1), np.full((n_rows, n), -np.inf), np.zeros(n_rows, np.int64))
    columns, values = np.zeros((n_rows, width), np.int64), np.zeros((n_rows, width))
    left, right = (np.ascontiguousarray(factor) for factor in (left, right))
    shortlist = None if doubt.risk else Shortlist.of(left, right, width)

    def rank_rows(first: int) -> None:
        part, ends = slice(first, first + TASK_ROWS), slice(first, first + TASK_ROWS + 1)
        left_out = excluded.indptr[ends], excluded.indices, places
        terms: Any = left[part], right, base[part]
        out = values[part], columns[part], best.counts[part]
        own = doubt._replace(row_means=doubt.row_means[part], row_variances=doubt.row_variances[part])
        shifts = shift[None] if shift.ndim == 1 else shift[part]
        if neighbours is not None and patterns is not None:
            near = neighbours.scores(patterns.take_rows(np.arange(n_rows)[part]))
            shifts = shifts + (near if candidates is None else near[:, candidates])
        listed = None if shortlist is None else shortlist.columns(left[part], base[part], shifts, left_out, width)
        if listed is not None:
            terms, shifts = (left[part], right[listed], base[part]), np.take(shifts, listed, axis=1)
            left_out = *left_out[:2], _places_among(listed, right.shape[0])[places]
        topk.best_columns((*terms, shifts), own, left_out, out)
        if listed is not None:
            columns[part] = listed[columns[part]]

    if width:
        with (
            threadpool_limits(1, "blas") if shortlist else nullcontext(),
            ThreadPoolExecutor(usable_cores(n_jobs)) as pool,
        ):
            list(pool.map(rank_rows, range(0, n_rows, TASK_ROWS)))
    filled = np.arange(width) < best.counts[:, None]
    columns = columns if candidates is None or not candidates.size else candidates[columns]
    best.columns[:, :width][filled], best.scores[:, :width][filled] = columns[filled], values[filled]
    return best


def _places_among(columns: Array, size: int) -> NDArray[np.int64]:
    """Place of each of `size` columns in a list, and -1 for those that are not on it and for column -1."""
    places = np.full(size + 1, -1)
    places[columns] = np.arange(columns.size)
    return places


def directions(theta: Array, near: Array, far: Array, variances: Array | float = 0.0) -> NDArray[np.float64]:
    """Vectors whose inner products are the cosines between the rows of ``near diag(theta) far.T``.

    Zero for rows that are zero. `variances`, one for each row, are added to the squared lengths. Costs
    O((n_near + n_far) rank**2).
    """
    if not theta.size:
        return np.zeros((near.shape[0], 0))
    triangle: Array = np.linalg.qr(far[:, : theta.size].astype(np.float64)).R
    vectors = (near[:, : theta.size] * theta) @ triangle.T
    lengths = np.sqrt(np.sum(vectors * vectors, axis=1) + variances)
    least = lengths.max(initial=0.0) * np.finfo(near.dtype).eps  # shorter ones are rounding
    return np.where(lengths[:, None] > least, vectors / np.maximum(lengths, np.finfo(float).tiny)[:, None], 0.0)


def check_risk(risk: Any, link: str) -> float:
    """Standard deviations to deduct from predictions; SettingError unless a number of at least zero or "auto".

    Zero is the default on the scales of log-odds and log-counts: deviations there are largest where predictions are
    most extreme, and deducting them lowers the recall on Slashdot.
    """
    if isinstance(risk, str) and risk == "auto":
        return RISK if link == "identity" else 0.0
    if not is_number(risk) or not 0 <= risk < np.inf:
        raise SettingError(f"`risk` must be a number of at least zero or 'auto', got {risk!r}.")
    return float(risk)


def check_count(n: Any, requested: ArrayLike = (), size: int = 0) -> int:
    """`n`, at most `size` if a single label is wanted; SettingError unless it is a positive integer."""
    if not is_whole(n) or not 1 <= n < 2**63:
        raise SettingError(f"`n` must be an integer of at least 1, got {n!r}.")
    return min(int(n), max(size, 1)) if np.ndim(requested) == 0 else int(n)


def _labelled(best: Best, labels: Array | None, requested: ArrayLike) -> Ranked:
    """Labels and scores: without padding for a single wanted label, padded to n for several."""
    columns, scores, counts = best
    if np.ndim(requested) == 0:
        columns, scores = columns[0, : counts[0]], scores[0, : counts[0]]
    if labels is None:
        return columns, scores
    if not columns.size or columns.min() >= 0:
        return labels[columns], scores
    padded = np.full(columns.shape, None, object)
    padded[columns >= 0] = labels[columns[columns >= 0]]
    return padded, scores
