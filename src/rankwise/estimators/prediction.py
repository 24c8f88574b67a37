"""Methods of fitted estimators that delegate to ``model_``."""

import os
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from .._errors import SettingError
from ..losses import Loss
from ..model import LowRankModel, Residuals, save, summary_html
from ..observations import AnyEntries, need_in_memory
from ..solvers import fold_in
from .base import LowRankEstimator
from .calibration import calibrate


class PredictionMethods(LowRankEstimator):
    """Predictions, recommendations, intervals and files of an estimator with one fitted model."""

    model_: LowRankModel
    observations_: AnyEntries

    def predict_entries(
        self,
        rows: ArrayLike,
        cols: ArrayLike,
        *,
        rank: int | None = None,
        scale: str = "response",
        return_std: bool = False,
        decode: str | None = None,
        unknown: str = "error",
    ) -> Any:
        """Predict the entries at pairs of rows and columns, given by label if the data had labels, else by number.

        Parameters
        ----------
        rows, cols : array-like of shape (n,)
        rank : int, optional
            Any rank on the path, without a refit; by default the rank of the model.
        scale : {"response", "link"}, default="response"
            "response": the units of the targets, which for the logistic and the Bernoulli loss is the probability of
            the positive class, +1 or 1, and for Poisson the expected count. "link": the low-rank number plus
            offsets, such as log-odds.
        return_std : bool, default=False
            If True, also return the posterior standard deviation of the low-rank number, always on the link scale and
            without the noise of a single observation. Requires method="bayes".
        decode : {"clip", "round", "mean", "median", "class", "probability"}, optional
            Decode predictions into the targets' units to suit a metric; see docs/predictions.md. Overrides `scale`.
        unknown : {"error", "offset"}, default="error"
            Rows and columns that were not in the training data: raise `DataError`, or predict the shrunk mean
            of the other side's entries.

        Returns
        -------
        predictions : ndarray of shape (n,)
        std : ndarray of shape (n,)
            Only if `return_std` is True.
        """
        scale = "link" if decode is not None else scale
        options: dict[str, Any] = {"scale": scale, "return_std": return_std, "decode": decode, "unknown": unknown}
        return self._fitted().predict_entries(rows, cols, rank=rank, **options)

    def predict_interval(
        self, rows: ArrayLike, cols: ArrayLike, *, coverage: float = 0.8, clip: bool = False
    ) -> tuple[Any, Any]:
        """Return intervals that contain a new observation with probability `coverage`, in the targets' units.

        Requires `calibrate`, or a fit with ``calibration > 0``; see `LowRankModel.predict_interval`.
        """
        return self._fitted().predict_interval(rows, cols, coverage=coverage, clip=clip)

    def recommend(
        self,
        rows: ArrayLike,
        n: int = 10,
        *,
        exclude_seen: bool = True,
        only: ArrayLike | None = None,
        rank: int | None = None,
        risk: float | str = "auto",
    ) -> tuple[Any, Any]:
        """Return labels and scores of the `n` best columns for each row; see `LowRankModel.recommend`.

        A score is the prediction on the link scale less `risk` of the posterior standard deviations due to the column.
        """
        options: dict[str, Any] = {"exclude_seen": exclude_seen, "only": only, "rank": rank, "risk": risk}
        return self._fitted().recommend(rows, n, **options, n_jobs=self.n_jobs)

    def similar(
        self, labels: ArrayLike, n: int = 10, *, axis: str = "rows", rank: int | None = None
    ) -> tuple[Any, Any]:
        """Return labels and cosine similarities of the rows or columns most similar to the given ones.

        See `LowRankModel.similar`.
        """
        return self._fitted().similar(labels, n, axis=axis, rank=rank, n_jobs=self.n_jobs)

    def reconstruct(self, rank: int | None = None, max_bytes: float = 2**30, *, scale: str = "response") -> Any:
        """Return the whole matrix, on the response scale unless ``scale="link"``; see `LowRankModel.reconstruct`."""
        return self._fitted().reconstruct(rank, max_bytes, scale=scale)

    def fold_in(
        self,
        new: Any = None,
        *,
        features: Any = None,
        axis: str = "rows",
        loss: str | Loss | None = None,
        **names: Any,
    ) -> LowRankModel:
        """Return a model of rows (or columns) that arrived after the fit, without a refit.

        Parameters
        ----------
        new : as X in `fit`
            New rows with the model's columns, matched by label if both have labels, else by number. None for rows of
            which only features are known.
        features : as `row_features` or `col_features` in `fit`; optional
        axis : {"rows", "columns"}, default="rows"
        loss : str or Loss, optional
            By default the loss of the fit.
        **names : row, col, value, weight
            Columns of a long data frame, as in `fit`.
        """
        options: dict[str, Any] = {"features": features, "axis": axis, "loss": loss, "n_jobs": self.n_jobs}
        return fold_in(self._fitted(), new, **options, **names)

    def effects(self, axis: str = "rows") -> Any:
        """Return the effect of every feature on offset and factors; see `LowRankModel.effects`."""
        return self._fitted().effects(axis)

    def calibrate(self, held_out: Any, *, coverage: float = 0.8, by: str = "auto") -> Any:
        """Calibrate `predict_interval`, or probabilities of signs, on entries that `fit` has not seen.

        Under the logistic and the Bernoulli loss, three numbers that map log-odds and their variances to probabilities
        are fitted; `coverage` and `by` are not used. Else intervals are calibrated by split conformal prediction.
        Interval widths come from the posterior variances and the noise of each row and column, or from two fits of the
        quantile loss, whichever has the better interval score at `coverage`. They are scaled to cover the held-out
        entries at the requested rate; other coverages can be asked for afterwards.

        Parameters
        ----------
        held_out : as X in `fit`
            Of a long data frame, ``Observations.from_frame(held_out, row=..., col=..., value=...)``. A thousand
            entries or more; with n entries the coverage is accurate to about ``0.5 / sqrt(n)``.
        coverage : float, default=0.8
            Target of the quantile fits, and the coverage at which the two kinds of widths are compared.
        by : {"auto", "variances", "quantiles"}, default="auto"
            "variances" needs no further fit, the others two.
        """
        model = self._fitted()
        calibration, facts = calibrate(self, model, held_out, self.__dict__.get("observations_"), coverage, by)
        self.model_ = replace(model, calibration=calibration, facts=model.facts | facts)
        return self

    def residuals(self, X: Any = None, n: int = 20) -> Residuals:
        """Return the `n` observed entries of the largest loss, in decreasing order of loss.

        Predictions are on the response scale, losses are those of the fit for a weight of one. A robust loss ("huber",
        "l1") is not drawn towards wrong entries, so that they stand out.

        Parameters
        ----------
        X : as in `fit`; of a long data frame, ``Observations.from_frame(X, row=..., col=..., value=...)``; optional
            Entries to rank; by default those of the last `fit`, which pickles and files do not contain.
        n : int, default=20
        """
        model = self._fitted()
        if X is None and "observations_" not in self.__dict__:
            raise SettingError(
                "`residuals` needs `X`: the training entries are not part of a pickle or a file; call `residuals(X)`."
            )
        if X is None:
            X = need_in_memory(self.observations_, "`residuals`", "pass some of them as `X`")
        return model.residuals(X, n)

    def save(self, path: str | os.PathLike[str], *, labels: bool = True, seen: bool = True) -> None:
        """Write the fitted estimator to a file that `rankwise.load` reads.

        The file has the parameters and the model, without the observed values and the checkpoint folder.

        Parameters
        ----------
        path : str or path
        labels : bool, default=True
            Whether to include the labels of rows and columns.
        seen : bool, default=True
            Whether to include which entries were observed; `recommend` needs them to leave out known columns.
        """
        model = self._fitted()
        save(replace(model, facts=model.facts | self._to_state(labels)), path, labels=labels, seen=seen)

    def _fitted(self) -> LowRankModel:
        if "model_" not in self.__dict__:
            raise self._not_fitted()
        return self.model_

    def _html_repr(self) -> str:
        """HTML shown by notebooks: a summary of the fitted model, scikit-learn's diagram before `fit`."""
        if "model_" not in self.__dict__:
            return str(super()._html_repr())
        return summary_html(self.model_, type(self).__name__)

    def __getstate__(self) -> dict[str, Any]:
        """State for pickling, without the observed entries."""
        return {name: part for name, part in super().__getstate__().items() if name != "observations_"}
