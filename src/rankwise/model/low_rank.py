"""`LowRankModel`: the result of a solver."""

import os
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._arrays import Array
from .._checks import is_whole
from .._errors import SettingError
from ..engines import Offsets
from ..losses import Loss
from . import decoding, ranking
from .effects import ModelFeatures, WithEffects
from .everywhere import Cells
from .factors import check_dense_size, predict, scaled
from .intervals import Calibration, refuse_signs
from .learned import Learned
from .marginals import Marginals
from .neighbours import Encoder, Neighbours, explain
from .odds import OddsCalibration
from .pairwise import at_known, check_scale, deviations, positions
from .posterior import Posterior
from .ranking import Ranked, Seen
from .residuals import Residuals, entries_of, most_unlikely
from .summary import summary_html
from .targets import Targets

FLIPPED = "offsets", "baseline", "marginals", "posterior", "targets", "calibration", "learned", "cells", "features"


@dataclass(frozen=True, eq=False)
class LowRankModel(WithEffects):
    """``X = sum_k theta[k] * outer(U[:, k], V[:, k])``, plus offsets if any, at every rank of a path.

    Two scales: X is on the *link* scale. The *response* scale is that of the targets: under the logistic (Bernoulli)
    loss the probability of +1 (of 1), under the Poisson loss the expected count, X itself under others.

    Attributes
    ----------
    path : ndarray of shape (longest, longest)
        Row k - 1 holds the coefficients of the rank-k model, zeros beyond.
    U, V : ndarray of shape (n_rows, longest) and (n_cols, longest)
        Unit columns; those of the rows of a model made by `rankwise.fold_in` are not.
    row_labels, col_labels : ndarray or None
        Labels of the rows and columns; None if they are identified by their numbers.
    link : {"identity", "logit", "log"}
        From the response scale to the link scale.
    chosen : int, optional
        Default rank of predictions; by default the longest on the path.
    only_by : str, optional
        Name of the solver if it keeps no path: then only the full rank is available.
    offsets : Offsets, optional
        Added to every prediction on the link scale, at every rank.
    baseline : Offsets, optional
        Offsets fitted without factors, which replace `offsets` at rank 0.
    marginals : Marginals, optional
        Predictions for rows and columns without training entries.
    posterior : Posterior, optional
        Posterior means and variances of factors and offsets, estimated by method="bayes".
    seen, targets, calibration : Seen, Targets, Calibration or OddsCalibration, optional
        Positions of the training entries; range and distinct values of their targets, for `decode`; scores of held-out
        entries, for `predict_interval`, or of signs the map from log-odds to probabilities.
    facts : dict
        How it was fitted, in plain values for reports: method, settings, seconds, history.
    loss, learned, cells, features : Loss, Learned, Cells, ModelFeatures, optional
        Loss that was minimized; both sides after the last sweep, if any; the term of all cells; encoders of features.
    neighbours, encoder : Neighbours, Encoder, optional
        Weights between columns, which add to the scores of a row by the columns that it has; and how the factors of a
        row follow from its entries, for `fold_in`. Fitted by `ImplicitFactorization`.
    scale : float, default=1
        Weight of an entry's loss relative to the prior: the inverse noise variance, where there is one.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> model = rw.solve(rw.Problem(seen, "square"), "eglrl", rank=3).model
    >>> model.predict_entries([0, 1], [2, 2], rank=1).shape  # any rank up to its own, without a new fit
    (2,)
    """

    path: NDArray[np.float64]
    U: Array
    V: Array
    row_labels: Array | None = None
    col_labels: Array | None = None
    link: str = "identity"
    chosen: int | None = None
    only_by: str | None = None
    offsets: Offsets | None = None
    baseline: Offsets | None = None
    marginals: Marginals | None = None
    posterior: Posterior | None = None
    loss: Loss | None = None
    seen: Seen | None = None
    targets: Targets | None = None
    calibration: Calibration | OddsCalibration | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    learned: Learned | None = None
    cells: Cells | None = None
    features: ModelFeatures | None = None
    neighbours: Neighbours | None = None
    encoder: Encoder | None = None
    scale: float = 1.0

    @property
    def rank(self) -> int:
        """Rank of predictions unless another is requested."""
        return self.longest if self.chosen is None else self.chosen

    @property
    def longest(self) -> int:
        """The largest rank on the path."""
        return int(self.path.shape[0])

    @property
    def ranks_clicks(self) -> bool:
        """Whether scores rank the columns of clicks, and predict no value."""
        return self.encoder is not None or self.neighbours is not None or "chosen" in self.facts

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]  # the base's can be set
        """Number of rows and columns of the matrix."""
        return self.U.shape[0], self.V.shape[0]

    @property
    def theta(self) -> NDArray[np.float64]:
        """Coefficients at the model's rank, shape (rank,)."""
        return self.coefficients(None)

    def coefficients(self, rank: int | None) -> NDArray[np.float64]:
        """Coefficients of the rank-`rank` model, shape (rank,); None means the model's rank."""
        rank = self._checked(rank)
        return self.path[rank - 1, :rank] if rank else np.zeros(0)

    def predict_entries(
        self,
        rows: ArrayLike,
        cols: ArrayLike,
        *,
        rank: int | None = None,
        scale: str = "response",
        return_std: bool = False,
        unknown: str = "error",
        decode: str | None = None,
    ) -> Any:
        """Predict at pairs of rows and columns, on the response scale by default.

        Parameters
        ----------
        rows, cols : array-like of shape (n,)
            Labels if the data had labels, else numbers.
        rank : int, optional
            Any rank of the path, 0 to `self.longest`.
        scale : {"response", "link"}, default="response"
            "response": probabilities of +1 under the logistic loss, expected counts under the Poisson loss. "link": the
            entries of the low-rank matrix plus offsets, such as log-odds. They are the same under other losses.
        return_std : bool, default=False
            Also return the posterior standard deviation of each prediction, always on the link scale and without the
            noise of a single observation. Requires posterior variances (method="bayes") and the full rank.
        unknown : {"error", "offset"}, default="error"
            Rows and columns that were not seen during fit: raise DataError, or predict the mean of the other side's
            entries, shrunk towards the mean of all (docs/predictions.md).
        decode : {"clip", "round", "mean", "median", "class", "probability"}, optional
            Point prediction in the units of the targets, whatever the `scale`, matched to a metric
            (docs/predictions.md): clipped to the range of the training targets; rounded to the nearest training value;
            mean (least squared error) or median (least absolute error) of the predictive distribution; its most likely
            value; probability of the positive class.

        Returns
        -------
        predictions : ndarray of float64, shape (n,)
        deviations : ndarray of float64, shape (n,)
            Only if `return_std` is True.
        """
        check_scale(scale)
        row_of, col_of = positions(self, rows, cols, unknown)
        linked = at_known(self, row_of, col_of, rank) if unknown == "offset" else self.at(row_of, col_of, rank)
        sure = rank not in (None, self.rank)
        if decode is not None:
            predictions = decoding.decode(self, linked, decode, row_of, col_of, sure)
        else:
            predictions = linked if scale == "link" else decoding.respond(self, linked, row_of, col_of, sure)
        return (predictions, deviations(self, row_of, col_of, rank)) if return_std else predictions

    def predict_interval(
        self, rows: ArrayLike, cols: ArrayLike, *, coverage: float = 0.8, clip: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Prediction intervals for new observations at pairs of rows and columns, on the response scale.

        The coverage is marginal: over entries drawn like those of the calibration, not for each row. A new observation
        is below the low end as often as above the high one, and intervals of different coverage are nested. Requires
        a calibrated model; see `MatrixCompletion.calibrate`.

        Parameters
        ----------
        rows, cols : array-like of shape (n,)
            Labels if the data had labels, else numbers.
        coverage : float, default=0.8
            Probability that an observation is inside, above 0 and below 1.
        clip : bool, default=False
            If True, clip the ends to the range of the training targets, such as 1 to 5 stars.

        Returns
        -------
        low, high : ndarray of float64, shape (n,)
            In the units of the targets; ``low <= high``.
        """
        row_of, col_of = positions(self, rows, cols)
        refuse_signs(self.loss, self.link)
        if not isinstance(self.calibration, Calibration):
            raise SettingError(
                "This model has no calibrated intervals: fit with calibration=0.1, or call the estimator's `calibrate` "
                "with entries that `fit` has not seen; what was folded in has none."
            )
        low, high = self.calibration.interval(self, row_of, col_of, coverage)
        if clip:
            targets = decoding.targets_of(self)
            low, high = (end.clip(targets.low, targets.high) for end in (low, high))
        return low, high

    def residuals(self, X: Any, n: int = 20) -> Residuals:
        """Return the `n` entries of X with the largest loss, the largest first; predictions on the response scale.

        Parameters
        ----------
        X : SciPy sparse matrix, array with NaN at unobserved entries, or Observations
            Rows and columns are matched by label if there are labels, else by number.
        n : int, default=20

        Returns
        -------
        Residuals
        """
        return most_unlikely(self, entries_of(self, X), n)

    def recommend(
        self,
        rows: ArrayLike,
        n: int = 10,
        *,
        exclude_seen: bool = True,
        only: ArrayLike | None = None,
        rank: int | None = None,
        risk: float | str = "auto",
        n_jobs: int | None = -1,
    ) -> Ranked:
        """Return the columns with the highest scores for each row, best first; ties go to the lower column number.

        A score is the prediction on the link scale less `risk` of the posterior standard deviations that are due to the
        column's factors and offset. Costs O(len(rows) n_cols rank); results do not depend on `n_jobs`.

        Parameters
        ----------
        rows : label or array-like of labels
            Rows to recommend for; numbers if the data had no labels.
        n : int, default=10
        exclude_seen : bool, default=True
            Leave out the columns at which the row was observed.
        only : array-like of labels, optional
            Columns to choose among; all by default.
        rank : int, optional
            Any rank of the path.
        risk : float or "auto", default="auto"
            "auto" is 20, or 0 under a logit or log link. 0 without posterior variances (method="bayes", full rank).
        n_jobs : int, default=-1
            Number of threads; -1 means all usable cores, None means 1 outside a joblib context.

        Returns
        -------
        labels, scores : ndarray
            Shape (n,) for a single row, or shorter if fewer columns are left. Shape (len(rows), n) for several, where
            missing columns have the label None (-1 if columns are numbered) and the score minus infinity.
        """
        return ranking.recommend(self, rows, n, exclude_seen, only, rank, risk, n_jobs)

    def explain(self, row: Any, column: Any, n: int = 10) -> Ranked:
        """Return the row's own columns that a score rests on, and how much each adds to it, largest first.

        For models of clicks (`ImplicitFactorization`), which count every column of a row once. `row` and `column` are
        labels, or numbers if the data had none. Both results have shape (n,), or are shorter.
        """
        return explain(self, row, column, n)

    def similar(
        self,
        labels: ArrayLike,
        n: int = 10,
        *,
        axis: str = "rows",
        rank: int | None = None,
        n_jobs: int | None = -1,
    ) -> Ranked:
        """Return the rows (or columns) most similar to the given ones, most similar first, themselves left out.

        The similarity of two rows is the cosine between their rows of the low-rank part, 0 if one of them is zero. If
        there is a posterior (method="bayes", at the full rank), lengths are expected ones, variances included, so that
        a row with few entries is not similar to any other.

        Parameters
        ----------
        labels : label or array-like of labels
            Rows, or columns with ``axis="columns"``; numbers if the data had no labels.
        n : int, default=10
        axis : {"rows", "columns"}, default="rows"
        rank, n_jobs : int, optional
            As in `recommend`.

        Returns
        -------
        labels, cosines : ndarray
            Shape (n,) for a single label and (len(labels), n) for several, padded as by `recommend`.
        """
        return ranking.similar(self, labels, n, axis, rank, n_jobs)

    def save(self, path: str | os.PathLike[str], *, labels: bool = True, seen: bool = True) -> None:
        """Write the model to a file that `rankwise.load` reads.

        The file holds the factors, offsets, variances and how they were fitted, but the value of no entry.

        Parameters
        ----------
        path : path
        labels : bool, default=True
            Whether to store the labels of the rows and columns.
        seen : bool, default=True
            Whether to store the positions of the training entries.
        """
        from .files import save

        save(self, path, labels=labels, seen=seen)

    def at(self, rows: Array, cols: Array, rank: int | None = None) -> NDArray[np.float64]:
        """Predict on the link scale at valid row and column numbers, shape (n,)."""
        predictions, offsets = predict(self.coefficients(rank), self.U, self.V, rows, cols), self.offsets_of(rank)
        if self.neighbours is not None and ranking.knows_patterns(self):
            predictions += self.neighbours.at(self.seen, rows, cols)  # type: ignore[arg-type]
        return predictions if offsets is None else predictions + offsets.at(rows, cols)

    def offsets_of(self, rank: int | None) -> Offsets | None:
        """Offsets of the rank-`rank` model; those fitted without factors at rank 0, if there are any."""
        return self.baseline or self.offsets if self._checked(rank) == 0 else self.offsets

    def reconstruct(
        self, rank: int | None = None, max_bytes: float = 2**30, *, scale: str = "response"
    ) -> NDArray[np.float64]:
        """Return the whole matrix, shape (n_rows, n_cols), on the response scale by default.

        Raises SettingError if it takes more than `max_bytes` in float64. `scale` is as in `predict_entries`.
        """
        check_scale(scale)
        check_dense_size(self.shape, max_bytes)
        linked = self.to_dense(rank)
        return linked if scale == "link" else decoding.respond_everywhere(self, linked, rank)

    def to_dense(self, rank: int | None = None) -> NDArray[np.float64]:
        """Return the whole matrix on the link scale, shape (n_rows, n_cols), whatever its size."""
        theta = self.coefficients(rank)
        matrix = np.asarray((self.U[:, : theta.size] * theta) @ self.V[:, : theta.size].T, dtype=np.float64)
        if self.neighbours is not None and ranking.knows_patterns(self):
            matrix += self.neighbours.scores(self.seen)  # type: ignore[arg-type]
        offsets = self.offsets_of(rank)
        return matrix if offsets is None else matrix + offsets.to_dense()

    def row_factors(self, rank: int | None = None) -> NDArray[np.float64]:
        """Coordinates of the rows, ``U * theta``: times ``V.T`` they are the low-rank part."""
        return scaled(self.U, self.coefficients(rank))

    def col_factors(self, rank: int | None = None) -> NDArray[np.float64]:
        """Coordinates of the columns, ``V * theta``: times ``U.T`` they are the transpose of the low-rank part."""
        return scaled(self.V, self.coefficients(rank))

    def transposed(self) -> "LowRankModel":
        """Model of the transpose: rows and columns exchanged; SettingError for a model of clicks, which has none."""
        if self.ranks_clicks:
            raise SettingError("A model of clicks has no transpose: its scores are sums over the columns of a row.")
        flipped = {name: part.transposed() for name in FLIPPED if (part := getattr(self, name)) is not None}
        flipped["seen"] = None if self.seen is None else self.seen.transposed(self.shape[1])
        return replace(self, U=self.V, V=self.U, row_labels=self.col_labels, col_labels=self.row_labels, **flipped)

    def _checked(self, rank: int | None) -> int:
        if rank is None:
            return self.rank
        if not is_whole(rank) or not 0 <= rank <= self.longest:
            raise SettingError(f"`rank` must be an integer from 0 to {self.longest}, got {rank!r}.")
        if self.only_by is not None and rank != self.longest:
            raise SettingError(f"{self.only_by} keeps no path, so rank={rank} is not known; fit again at that rank.")
        return int(rank)

    def _repr_html_(self) -> str:
        """Summary table for notebooks."""
        return summary_html(self)

    def __repr__(self) -> str:
        """Show shape and rank."""
        return f"LowRankModel({self.shape[0]} x {self.shape[1]}, rank {self.rank})"
