"""`ImplicitFactorization`: recommendations from clicks, plays and purchases, in which absent entries count."""

import logging
from dataclasses import asdict, replace
from numbers import Integral
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import _fit_context

from .._arrays import Array
from .._checks import check_choice, is_whole
from .._errors import DataError, SettingError
from ..model import LowRankModel
from ..model.ranking import Ranked, Seen
from ..observations import AnyEntries, Observations, as_pairs, is_frame, need_in_memory
from ..observations.build import as_matrix
from ..observations.frames import as_frame, column_of, numbers_of
from ..selection import ranking_scores
from ..selection.click_rules import RuleScore, choose_rule
from ..solvers import fold_in
from ..solvers.scoring_rules import ClickParts, ScoringRule, as_confidence
from .entries import is_table_of, with_targets
from .prediction import PredictionMethods

log = logging.getLogger("rankwise")
COUNT_SCALES = ("log", "linear", "ignore")
LISTED_RULES = 10  # rules in the facts of a model


class ImplicitFactorization(PredictionMethods):
    """Recommend columns to rows from clicks: which columns a row has, without ratings.

    Entries that are absent count as weak evidence against a column. The score of a column for a row is a sum over the
    row's own columns: of their neighbours, by counts of common rows or by ridge regression, and of a low-rank term from
    an SVD of the matrix scaled by powers of its row and column counts, or from weighted sweeps (iALS). Powers, rank and
    the weights of both terms are chosen by how well they rank entries that are held out from every row; then all
    entries are used.

    Parameters
    ----------
    rank : int or "auto", default="auto"
        Rank of the low-rank term.
    rule : "auto" or ScoringRule, default="auto"
        Settings of the scores. "auto" chooses them; `rankwise.solvers.ScoringRule` sets them.
    counts : {"log", "linear", "ignore"}, default="log"
        How the number of clicks of a pair counts: as ``log(1 + count) / log(2)``, as it is, or not at all. A single
        click counts 1 in any case.
    n_jobs : int, default=-1
        Number of threads; -1 means all usable cores, None means 1 outside a joblib context.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the held-out entries and of the decompositions; None means 0.
    verbose : int, default=0
        If positive, log what was chosen.

    Attributes
    ----------
    model_ : LowRankModel
    rule_ : ScoringRule
        Settings of the scores.
    choices_ : list of RuleScore
        All rules that were tried, with recall and NDCG at 20 on held-out entries, best first; empty if `rule` was
        given.
    parts_ : dict
        What each term of the scores is worth: the best of `choices_` for "low rank" alone, "neighbours" alone, and
        "both".
    observations_ : Observations
        The clicks, with their counts.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> users = np.repeat(np.arange(40), 6)
    >>> films = np.random.default_rng(0).integers(0, 20, users.size) + 20 * (users % 2)  # two groups of users and films
    >>> model = rw.ImplicitFactorization(rank=4).fit(np.column_stack((users, films)))
    >>> labels, scores = model.recommend(1, n=3)  # user 1 is in the second group
    >>> print(bool((labels >= 20).all()))
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PredictionMethods._parameter_constraints,
        "rank": [Integral, str],
        "rule": [str, ScoringRule],
        "counts": [str],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        rank: int | str = "auto",
        *,
        rule: str | ScoringRule = "auto",
        counts: str = "log",
        n_jobs: int | None = -1,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.rank = rank
        self.rule = rule
        self.counts = counts
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        time: ArrayLike | str | None = None,
        row: Any = None,
        col: Any = None,
        value: Any = None,
    ) -> "ImplicitFactorization":
        """Fit the model to clicks.

        Parameters
        ----------
        X : array or data frame of shape (n_clicks, 2), sparse matrix, array, data frame, or Observations
            Pairs of a row label and a column label, one line per click, repeated pairs being counted; or a matrix whose
            stored (nonzero) entries are counts.
        y : None
            Ignored; for scikit-learn.
        time : array-like of shape (n_clicks,) or name of a column of a data frame, optional
            Time of each click, in the order of the pairs or of the stored entries of the matrix by rows. Settings are
            then chosen on the latest clicks of every row, as recommendations are made for the future; on random ones
            otherwise.
        row, col, value : name of a column, optional
            Columns of a long data frame with row labels, column labels and counts; without `value` every line is a
            click. Counts of repeated pairs are added.
        """
        check_choice("counts", self.counts, COUNT_SCALES)
        started = perf_counter()
        rank = self._rank()
        clicks, times = as_clicks(X, time, {"row": row, "col": col, "value": value})
        given, clicks = clicks, self._counted(clicks)
        choices: list[RuleScore] = []
        if isinstance(self.rule, str):
            check_choice("rule", self.rule, ("auto",))
            choices = choose_rule(clicks, time=times, rank=rank, n_jobs=self.n_jobs, seed=self._seed())
        self.choices_ = choices
        best = {score.rule.part: score for score in reversed(choices)}
        self.parts_ = {part: best[part] for part in ("low rank", "neighbours", "both") if part in best}
        self.rule_: ScoringRule = choices[0].rule if isinstance(self.rule, str) else self.rule
        if self.verbose and choices:
            log.info("chose %s: recall %.4f, NDCG %.4f at 20", self.rule_, choices[0].recall, choices[0].ndcg)
        model = ClickParts(clicks, self.n_jobs, self._seed()).model(self.rule_)
        model.facts.update(self._facts(clicks, times is not None), seconds=perf_counter() - started)
        self.model_, self.observations_, self.n_features_in_ = model, given, given.shape[1]
        return self

    def fold_in(self, new: Any, **names: Any) -> LowRankModel:  # type: ignore[override]  # no features
        """Return a model of rows that arrived after the fit: their scores from their own clicks.

        Parameters
        ----------
        new : as X in `fit`
            Clicks of the new rows on the model's columns; those on other columns are left out with a warning.
        **names : row, col, value
            Columns of a long data frame, as in `fit`.
        """
        model = self._fitted()
        for name in names.keys() - {"row", "col", "value"}:
            raise SettingError(f"`fold_in` of clicks takes `row`, `col` and `value`, not `{name}`.")
        clicks = self._counted(as_clicks(new, None, {"row": None, "col": None, "value": None} | names)[0])
        places = model.col_index.align(clicks.col_index, unknown="skip")
        known = places[clicks.cols] >= 0
        if not known.any():
            raise DataError(
                f"None of the {known.size} clicks is on a column of the model, so there is nothing to fold in."
            )
        if not known.all():
            log.warning("%d of %d clicks are on columns that the model does not have", (~known).sum(), known.size)
        shape, labels = (clicks.shape[0], model.shape[1]), (clicks.row_index, model.col_index)
        rows, cols, values = clicks.rows[known], places[clicks.cols[known]], clicks.targets[known]
        new_rows = Observations.from_coo(rows, cols, values, shape, labels=labels)
        folded = fold_in(model, as_confidence(new_rows) if self.rule_.absent else new_rows, n_jobs=self.n_jobs)
        return replace(folded, seen=Seen.of_clicks(new_rows))

    def explain(self, row: Any, column: Any, n: int = 10) -> Ranked:
        """Return the row's own columns that a score rests on, and how much each adds; see `LowRankModel.explain`."""
        return self._fitted().explain(row, column, n)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the NDCG at 20 of recommendations against later clicks, given as in `fit`."""
        held_out, _ = as_clicks(X, None, {"row": None, "col": None, "value": None})
        return ranking_scores(self._fitted(), held_out, n_jobs=self.n_jobs).ndcg

    def _rank(self) -> int | None:
        if isinstance(self.rank, str) and self.rank == "auto":
            return None
        if not is_whole(self.rank) or self.rank < 1:
            raise SettingError(f"`rank` must be a positive integer or 'auto', got {self.rank!r}.")
        return int(self.rank)

    def _counted(self, clicks: Observations) -> Observations:
        """Clicks with their counts as this estimator weighs them."""
        counts = clicks.targets.astype(np.float64)
        weighed = {"log": np.log2(1 + counts), "linear": counts, "ignore": np.ones_like(counts)}[self.counts]
        return with_targets(clicks, weighed, None)

    def _facts(self, clicks: Observations, timed: bool) -> dict[str, Any]:
        """Return the chosen settings and their scores, in JSON types, for reports."""
        return {
            "estimator": type(self).__name__,
            "settings": self._changed(),
            "rule": asdict(self.rule_),
            "chosen": self.rule_.words,
            "chosen_on": f"{'the latest' if timed else 'random'} entries of each row"
            if self.choices_
            else "no entries",
            "tried": [[score.rule.words, score.recall, score.ndcg] for score in self.choices_[:LISTED_RULES]],
            "parts": [[part, score.recall, score.ndcg] for part, score in self.parts_.items()],
            "n_observed": clicks.n_observed,
        }

    def _take_state(self, facts: dict[str, Any], model: LowRankModel) -> None:
        self.model_, self.choices_, self.parts_ = model, [], {}
        self.rule_, self.n_features_in_ = ScoringRule(**facts["rule"]), model.shape[1]


def as_clicks(X: Any, time: ArrayLike | str | None, names: dict[str, Any]) -> tuple[Observations, Array | None]:
    """Return clicks with their counts, and the latest time of each, in the order of the entries.

    Parameters
    ----------
    X : pairs of labels, or a matrix of counts
    time : array-like or name of a column, optional
        A time per pair, or per stored entry of the matrix by rows.
    names : dict
        Columns of a long data frame: row, col, value.
    """
    if isinstance(time, str) and is_frame(X):
        time = column_of(as_frame(X), time, "time").to_numpy()
    stamps = None if time is None else _order_of(np.asarray(time))
    named, counts = names["row"] is not None and names["col"] is not None, None
    if is_frame(X) and named:
        X, counts = _columns_of(as_frame(X), **names)
    if is_table_of(X, 2) and (is_frame(X) or not named) and not sp.issparse(X) and not isinstance(X, Observations):
        return clicks_of_pairs(*as_pairs(X), counts, stamps)
    entries = Observations.from_any(X, **names) if named else _matrix_of(X)
    clicks = need_in_memory(entries, "ImplicitFactorization", "fit a sample of the rows")
    _check_counts(clicks.targets)
    if stamps is not None and stamps.shape != (clicks.n_observed,):
        raise DataError(f"`time` must have a time for each of the {clicks.n_observed} entries, got {stamps.shape}.")
    return clicks, stamps


def _order_of(time: Array) -> Array:
    """Numbers in the order of times, equal for equal ones, of the same shape; DataError if a time is missing."""
    try:
        missing = bool(np.any(time != time))
        order = np.unique(time, return_inverse=True)[1].reshape(time.shape)
    except TypeError:
        raise DataError("`time` must be numbers or dates, all of one type and none missing.") from None
    if missing:
        raise DataError("Some times are missing (NaN); leave those clicks out, or give them a time.")
    return order


def _columns_of(frame: Any, row: Any, col: Any, value: Any) -> tuple[Any, Array | None]:
    """Frame of the row and column labels of a long frame, and the counts if there are any."""
    for name, use in ((row, "row"), (col, "col")):
        column_of(frame, name, use)  # raises if there is no such column
    counts = None if value is None else numbers_of(column_of(frame, value, "value"), value)
    return frame.select(row, col).to_native(), counts


def _check_counts(counts: Array) -> None:
    """Raise `DataError` unless all counts are positive."""
    wrong = np.flatnonzero(~(counts > 0))
    if wrong.size:
        raise DataError(
            f"Counts of clicks must be positive; {wrong.size} of {counts.size} are not (first: "
            f"{counts[wrong[0]]:g}). Leave out pairs that were never clicked."
        )


def clicks_of_pairs(
    rows: Array, cols: Array, counts: Array | None, stamps: Array | None
) -> tuple[Observations, Array | None]:
    """Add up the counts of repeated pairs, one each by default; the time of a pair is its latest one.

    Parameters
    ----------
    rows, cols : ndarray of shape (n_clicks,)
        Labels.
    counts, stamps : ndarray of shape (n_clicks,) or None
        Positive counts, and numbers in the order of time.
    """
    if stamps is not None and stamps.shape != rows.shape:
        raise DataError(f"`time` must have a time for each of the {rows.size} pairs, got shape {stamps.shape}.")
    ones = np.ones(rows.size)
    counts = ones if counts is None else counts.astype(np.float64)
    _check_counts(counts)
    merged = Observations.from_labels(rows, cols, ones, weights=counts, duplicates="mean")
    clicks = with_targets(merged, np.ones(merged.n_observed) if merged.weights is None else merged.weights, None)
    if stamps is None:
        return clicks, None
    places = np.argsort(stamps, kind="stable")
    ranks = np.arange(places.size, dtype=np.float64)
    latest = Observations.from_labels(rows[places], cols[places], ranks, duplicates="last")
    return clicks, latest.targets


def _matrix_of(X: Any) -> AnyEntries:
    """Stored entries of a sparse matrix, or nonzero entries of an array or a wide frame, NaN being absent."""
    if isinstance(X, np.ndarray | list | tuple):
        array = as_matrix(X)
        return Observations.from_sparse(sp.csr_array(np.where(np.isnan(array), 0.0, array)))
    entries = Observations.from_any(X)
    return entries.take(entries.targets != 0) if is_frame(X) and isinstance(entries, Observations) else entries
