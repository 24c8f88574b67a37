"""Scores of ranked recommendations against held-out entries."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from .._checks import is_number, is_whole
from .._errors import DataError, SettingError
from ..model import LowRankModel, Offsets
from ..model.ranking import ranked_columns
from ..observations import Observations, need_in_memory


class RankingScores(NamedTuple):
    """Mean scores of the `k` best columns of every row that has held-out entries.

    With h hits among the k recommended columns of a row that has r held-out columns:

    Attributes
    ----------
    k : int
        Number of columns recommended to each row.
    n_rows : int
        Number of rows with held-out entries.
    precision, recall : float
        ``h / k`` and ``h / r``.
    ndcg : float
        Sum of ``1 / log2(place + 1)`` over the hits, divided by its largest possible value, that of ``min(k, r)`` hits
        at the first places.
    map : float
        Precision at the place of each hit, summed and divided by r; hits beyond place k count zero.
    mrr : float
        One over the place of the first hit; zero without a hit.
    hit_rate : float
        Share of rows with at least one hit.
    coverage : float
        Share of all columns that are recommended to at least one row.
    popularity : float
        Mean number of training entries of a recommended column; NaN if the model does not know its training entries.
    n_seen : int
        Held-out entries that do not count because they are among the training entries, which are not recommended.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.selection.RankingScores._fields[2:5]
    ('precision', 'recall', 'ndcg')
    """

    k: int
    n_rows: int
    precision: float
    recall: float
    ndcg: float
    map: float
    mrr: float
    hit_rate: float
    coverage: float
    popularity: float
    n_seen: int = 0

    def titled(self) -> list[tuple[str, float, str]]:
        """Names, values and units of the scores, for tables."""
        shares = "share, higher is better"
        return [
            (f"recall@{self.k}", self.recall, shares),
            (f"NDCG@{self.k}", self.ndcg, "0 to 1, higher is better"),
            (f"precision@{self.k}", self.precision, shares),
            (f"MAP@{self.k}", self.map, "0 to 1, higher is better"),
            (f"MRR@{self.k}", self.mrr, "0 to 1, higher is better"),
            (f"hit rate@{self.k}", self.hit_rate, "share of the rows, higher is better"),
            ("coverage", self.coverage, "share of the columns that are recommended"),
            ("popularity", self.popularity, "training entries of a recommended column"),
        ]


def ranking_scores(
    model: Any, held_out: Any, k: int = 20, *, least: float | None = None, **options: Any
) -> RankingScores:
    """Score a model's recommendations against held-out entries.

    All columns are ranked except those of the row's training entries; ties go to the lower column number. Costs
    O(n_rows n_cols rank) without a dense matrix.

    Parameters
    ----------
    model : LowRankModel or fitted estimator
        With the positions of its training entries.
    held_out : Observations, SciPy sparse matrix, or array with NaN
        Rows and columns are matched with the model's by label if both have labels, else by number.
    k : int, default=20
        Number of columns to recommend to each row.
    least : float, optional
        Only held-out entries with at least this value count as relevant, such as 4 of 5 stars; by default all.
    **options
        `exclude_seen`, `rank`, `risk` or `n_jobs` of `LowRankModel.recommend`.

    Returns
    -------
    RankingScores

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(60, 40, rank=2, density=0.5).observations
    >>> train, test = rw.selection.split_within_rows(seen, 0.2)
    >>> model = rw.MatrixCompletion().fit(train).model_
    >>> scores = rw.selection.ranking_scores(model, test, k=5)
    >>> print(scores.n_rows, scores.recall > rw.selection.ranking_scores(model, test, k=1).recall)
    60 True
    """
    if not is_whole(k) or k < 1:
        raise SettingError(f"`k` must be a positive integer, got {k!r}.")
    if least is not None and not is_number(least):
        raise SettingError(f"`least` must be a number or None, got {least!r}.")
    model = _model_of(model)
    held_out = need_in_memory(Observations.from_any(held_out), "Scoring", "give a sample of them as `Observations`")
    relevant = held_out if least is None else held_out.take(held_out.targets >= least)
    rows = model.row_index.align(relevant.row_index, unknown="skip")[relevant.rows]
    cols = model.col_index.align(relevant.col_index, unknown="skip")[relevant.cols]
    known, n_seen = rows >= 0, 0
    if model.seen is not None and options.get("exclude_seen", True):
        inside = known & (cols >= 0)
        inside[inside] = model.seen.contains(rows[inside], cols[inside], model.shape[1])
        known, n_seen = known & ~inside, int(inside.sum())
    if not known.any():
        among = f"; {n_seen} are among its training entries, which it does not recommend" if n_seen else ""
        raise DataError(f"`held_out` has no relevant entry in a row of the model{among}.")
    scored, place = np.unique(rows[known], return_inverse=True)
    best = ranked_columns(model, scored, k, **options)
    counts = np.full(model.shape[1], np.nan)
    if model.seen is not None:
        counts = np.bincount(model.seen.indices, minlength=model.shape[1]).astype(np.float64)
    return scores_of_columns(best.columns, place, cols[known], counts)._replace(n_seen=n_seen)


def _model_of(model: Any) -> LowRankModel:
    model = getattr(model, "model_", model)
    if not isinstance(model, LowRankModel):
        raise SettingError(f"`model` must be a LowRankModel or a fitted estimator, got {model!r}.")
    return model


def most_popular(model: Any) -> LowRankModel:
    """Return a model of rank 0 that scores columns by their number of training entries, to compare rankings with.

    Parameters
    ----------
    model : LowRankModel or fitted estimator
        With the positions of its training entries.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.Observations.from_coo([0, 1, 2, 2], [0, 0, 0, 1], [1.0, 1.0, 1.0, 1.0], (3, 3))
    >>> model = rw.solve(rw.Problem(seen, "square"), "eglrl", rank=1).model
    >>> rw.selection.most_popular(model).recommend(0, 2, exclude_seen=False)[0]
    array([0, 1])
    """
    model = _model_of(model)
    if model.seen is None:
        raise SettingError("This model was saved without its entries, so the popularity of its columns is not known.")
    counts = np.bincount(model.seen.indices, minlength=model.shape[1]).astype(np.float64)
    none = np.zeros((0, 0)), np.zeros((model.shape[0], 0)), np.zeros((model.shape[1], 0))
    offsets = Offsets(0.0, np.zeros(model.shape[0]), counts)
    return LowRankModel(*none, model.row_labels, model.col_labels, offsets=offsets, seen=model.seen)


def scores_of_columns(columns: NDArray[np.int64], rows: Array, cols: Array, counts: Array) -> RankingScores:
    """Score ranked columns against relevant pairs.

    Parameters
    ----------
    columns : ndarray of shape (n_rows, k)
        Best columns of each row, best first; -1 where there are fewer.
    rows, cols : ndarray of shape (n_relevant,)
        Relevant pairs; every row has at least one. A column of -1 cannot be recommended, and counts as missed.
    counts : ndarray of shape (n_cols,)
        Number of training entries of each column.
    """
    (n_rows, k), n_cols = columns.shape, counts.size
    hits = hits_of(columns, rows, cols, n_cols)
    n_relevant, n_hits = np.bincount(rows, minlength=n_rows), hits.sum(axis=1)
    places = np.arange(1, k + 1)
    discounts = 1 / np.log2(places + 1)
    ideal = np.concatenate(([0.0], np.cumsum(discounts)))[np.minimum(n_relevant, k)]
    first = np.where(n_hits > 0, hits.argmax(axis=1) + 1.0, np.inf)
    recommended = columns[columns >= 0]
    return RankingScores(
        k=k,
        n_rows=n_rows,
        precision=float(np.mean(n_hits / k)),
        recall=float(np.mean(n_hits / n_relevant)),
        ndcg=float(np.mean(hits @ discounts / ideal)),
        map=float(np.mean((hits * np.cumsum(hits, axis=1) / places).sum(axis=1) / n_relevant)),
        mrr=float(np.mean(1 / first)),
        hit_rate=float(np.mean(n_hits > 0)),
        coverage=np.unique(recommended).size / n_cols,
        popularity=float(counts[recommended].mean()) if recommended.size else float("nan"),
    )


def hits_of(columns: NDArray[np.int64], rows: Array, cols: Array, n_cols: int) -> NDArray[np.bool_]:
    """Return whether each ranked column is among the row's relevant ones, shape (n_rows, k)."""
    relevant = (rows.astype(np.int64) * (n_cols + 1) + cols)[cols >= 0]
    ranked = np.arange(columns.shape[0])[:, None] * (n_cols + 1) + np.where(columns >= 0, columns, n_cols)
    return np.isin(ranked, relevant, kind="sort")
