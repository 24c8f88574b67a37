"""`LowRankImputer`: imputation of tables whose columns have different types."""

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin, _fit_context
from sklearn.utils.validation import validate_data

from .._arrays import Array
from .._checks import check_choice, is_whole
from .._errors import DataError, DataTypeError, SettingError
from ..losses import Loss
from ..model import LowRankModel
from ..objectives import Problem
from ..observations import is_frame
from ..solvers import BayesSweeps, FactorSweeps, Solver, fold_in, solve
from .base import LowRankEstimator, RandomState
from .frames import ColumnCells, as_table, filled, read
from .tables import ColumnTargets, Encoded, Table

BAYES_RANK, RIDGE_RANK = 15, 30  # rank="auto" of the two models
RIDGE = 4.0  # of the second model, in units of the losses, which are negative log likelihoods
COLD_STARTS = 3  # fits of the first model from scratch, each with the noise per column that the previous one left
MAX_FITS = 12  # of the first model; from the fourth on they are warm-started
WARM_SWEEPS = 5  # of a warm-started fit
FOLDS = 5  # parts of the cells that are held back in turn to calibrate the fills of numbers
FOLD_TOL = 1e-4  # relative change of a row's factors below which its filled values no longer change
NOISE_TOL = 0.1  # relative change of the noise below which the first model is final


class Fit(NamedTuple):
    """A model of the encoded table, and the weight of each encoded column's loss, shape (width,)."""

    model: LowRankModel
    scales: Array


class LowRankImputer(OneToOneFeatureMixin, TransformerMixin, LowRankEstimator):
    """Impute missing cells of a table from a low-rank model with a loss per column.

    Each column has the loss of its type: Huber's for real numbers, logistic for booleans, proportional odds for ordered
    categories, one logistic loss per category for other categories and text, Poisson's for counts. A row without any
    value gets the best constant of each column.

    Two models are fitted and their predictions averaged: one with few factors, whose posterior variances and number are
    estimated together with the noise of each column, and one with many factors and a common ridge. Real tables are
    neither exactly of low rank nor far from it; docs/tables-method.md compares the two and their mean.

    Parameters
    ----------
    columns : "auto", str, Loss, list or dict, default="auto"
        Kind of the columns: "huber", "square", "l1", "quantile", "poisson", "logistic" (two values), "ordinal",
        "ordinal-hinge", "proportional-odds", "category", a loss for numbers such as ``rankwise.losses.Huber(1.0)``, or
        "auto". A list has one kind per column, a dict maps some names (numbers for arrays) to kinds. "auto" depends on
        the column's type: "huber" for real numbers, "logistic" for booleans, "proportional-odds" for ordered
        categories, "category" for other categories and text. Integers are "logistic" if they are 0 and 1, "poisson"
        if they are likelier as counts than as rounded normal numbers, else "huber".
    rank : int or "auto", default="auto"
        Largest number of factors; "auto" is 15 for the first model, which shrinks those that the table does not support
        to zero, and 30 for the second.
    bounds : "observed" or None, default="observed"
        If "observed", numbers and counts are filled with values between the least and the largest of their column.
    handle_unknown : {"ignore", "error"}, default="ignore"
        Categories at `transform` that `fit` did not see: such cells are kept and count as missing for the prediction of
        the other cells of their row, or raise `DataError`.
    keep_empty_features : bool, default=False
        If True, columns without any value at `fit` are kept and filled with 0, False or the first category. If False,
        `transform` drops them, as scikit-learn's imputers do.
    max_iter : int, default=30
        Largest number of sweeps over rows and columns per fit; the first model is fitted several times.
    tol : float, default=1e-5
        Stop a fit if a sweep changes the objective by less than this fraction.
    n_jobs : int or None, default=-1
        Number of threads; -1 means all usable cores, None means 1 unless in a `joblib.parallel_config` context. Results
        do not depend on it.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the random start; None means 0, so that fits repeat.

    Attributes
    ----------
    table_ : Table
        Names and kinds of the columns, and their encoding as columns of a matrix.
    fits_ : list of (model, scales)
        The two models of the encoded table, and the weight of each encoded column's loss: the inverse noise for
        numbers, 1 for categories. Empty if no column has two distinct values.
    n_iter_ : int
        Sweeps of the second model.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        If the table has names.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> X = np.outer(np.linspace(1.0, 5.0, 41), [1.0, 2.0, 3.0])  # three columns in proportion
    >>> X[10, 1] = np.nan  # it was 4
    >>> print(rw.LowRankImputer().fit_transform(X)[10].round(1))
    [2. 4. 6.]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LowRankEstimator._parameter_constraints,
        "columns": [str, Loss, Sequence, Mapping],
        "rank": [Integral, str],
        "bounds": [str, None],
        "handle_unknown": [str],
        "keep_empty_features": ["boolean"],
        "max_iter": [Integral],
        "tol": [Real],
    }

    def __init__(
        self,
        columns: Any = "auto",
        *,
        rank: int | str = "auto",
        bounds: str | None = "observed",
        handle_unknown: str = "ignore",
        keep_empty_features: bool = False,
        max_iter: int = 30,
        tol: float = 1e-5,
        n_jobs: int | None = -1,
        random_state: RandomState = None,
    ) -> None:
        self.columns = columns
        self.rank = rank
        self.bounds = bounds
        self.handle_unknown = handle_unknown
        self.keep_empty_features = keep_empty_features
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any = None) -> "LowRankImputer":
        """Fit both models to the cells that have a value.

        Parameters
        ----------
        X : pandas or polars DataFrame, or array of shape (n_rows, n_columns)
            Missing cells are NaN, None, NA or null.
        y : ignored
        """
        self._check()
        _, cells = self._read(X, reset=True)
        self.table_ = Table.learn(cells, self.columns, bounded=self.bounds is not None)
        targets, n_rows, seed = self.table_.targets(cells), cells[0].values.size, self._seed()
        self.fits_, self.n_iter_ = [], 0
        if self.table_.width:
            zeros = np.zeros((n_rows, self.table_.width))
            initial = self.table_.scales(targets, zeros, zeros)
            bayes = self._fit_bayes(targets, initial, n_rows, seed)
            between = np.sqrt(initial * bayes.scales)  # the residual noise alone is too small for the ridge
            self.fits_ = [bayes, self._fit_ridge(targets, between, n_rows, seed)]
            self.table_ = self.table_.calibrated(cells, self._held_back(targets, n_rows, seed))
        return self

    def transform(self, X: Any) -> Any:
        """Fill the missing cells of a table with the columns of `fit`; observed cells are kept.

        Each row's factors are solved for given the columns' factors, for rows of `fit` and new rows alike.

        Parameters
        ----------
        X : pandas or polars DataFrame, or array of shape (n_rows, n_columns)

        Returns
        -------
        DataFrame or ndarray
            Of the type of X, with its column types, categories and index.
        """
        if "table_" not in self.__dict__:
            raise self._not_fitted()
        table, cells = self._read(X, reset=False)
        targets = self.table_.targets(cells, ignore_unknown=self.handle_unknown == "ignore")
        values = self.table_.values(self._predict(targets, cells[0].values.size))
        return filled(table, dict(enumerate(values)), cells, self._output_columns())

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns that `transform` returns."""
        names = super().get_feature_names_out(input_features)
        return np.asarray(names)[self._output_columns()]

    def _fit_bayes(self, targets: ColumnTargets, scales: Array, n_rows: int, seed: int) -> Fit:
        """Fit few factors and re-estimate the noise of each column, in turns until the noise settles."""
        solver = BayesSweeps("columns", pattern_prior=False)
        start: LowRankModel | None = None
        for k in range(MAX_FITS):
            model, _ = self._solve(solver, BAYES_RANK, self.table_.problem(targets, scales, n_rows), seed, start)
            previous, scales = scales, self.table_.scales(targets, model.to_dense(), _variances(model))
            start = model if k + 1 >= COLD_STARTS else None
            if start is not None and np.allclose(previous, scales, rtol=NOISE_TOL, atol=0):
                break
        return Fit(model, previous)

    def _fit_ridge(self, targets: ColumnTargets, scales: Array, n_rows: int, seed: int) -> Fit:
        """Fit many factors with a common ridge."""
        solver = FactorSweeps("columns", ridge=RIDGE)
        model, self.n_iter_ = self._solve(solver, RIDGE_RANK, self.table_.problem(targets, scales, n_rows), seed)
        return Fit(model, scales)

    def _solve(
        self,
        solver: Solver[Any, Any],
        auto_rank: int,
        encoded: Encoded | None,
        seed: int,
        start: LowRankModel | None = None,
    ) -> tuple[LowRankModel, int]:
        """Return the fitted model and the number of sweeps; `encoded` is what `Table.problem` returns."""
        assert encoded is not None  # the matrix has columns, so that some cells have values
        problem = Problem(*encoded, dtype=np.float64, n_jobs=self.n_jobs)
        result = solve(
            problem,
            solver,
            rank=auto_rank if isinstance(self.rank, str) else self.rank,
            max_iter=self.max_iter if start is None else min(WARM_SWEEPS, self.max_iter),
            tol=self.tol,
            start=start,
            random_state=seed,
        )
        return result.model, len(result.history)

    def _held_back(self, targets: ColumnTargets, n_rows: int, seed: int) -> Array:
        """Link-scale predictions of observed cells from the other cells of their rows, shape (n_rows, width).

        The columns' factors are those of the fit; a fraction of the cells is held back at a time.
        """
        rng, held_back = np.random.default_rng(seed), np.zeros((n_rows, self.table_.width))
        parts = [rng.integers(FOLDS, size=rows.size) for rows, _ in targets]
        for k in range(FOLDS):
            kept = [(rows[part != k], o[part != k]) for (rows, o), part in zip(targets, parts, strict=True)]
            predictions = self._predict(kept, n_rows)
            for (rows, _), part, place in zip(targets, parts, self.table_.places(), strict=True):
                held_back[rows[part == k], place] = predictions[rows[part == k], place]
        return held_back

    def _predict(self, targets: ColumnTargets, n_rows: int) -> Array:
        """Mean of the models' link-scale predictions at all cells of the encoded table, shape (n_rows, width)."""
        predictions = np.zeros((n_rows, self.table_.width))
        for model, scales in self.fits_:
            encoded = self.table_.problem(targets, scales, n_rows)
            if encoded is not None:
                new, loss = encoded
                predictions += fold_in(model, new, loss=loss, n_jobs=self.n_jobs, tol=FOLD_TOL).to_dense() / len(
                    self.fits_
                )
        return predictions

    def _check(self) -> None:
        """Raise SettingError for parameters of the right type that are not valid."""
        if self.rank != "auto" and not (is_whole(self.rank) and self.rank >= 1):
            raise SettingError(f"`rank` must be a positive integer or 'auto', got {self.rank!r}.")
        check_choice("bounds", self.bounds, ("observed", None))
        check_choice("handle_unknown", self.handle_unknown, ("ignore", "error"))

    def _read(self, X: Any, reset: bool) -> tuple[Any, list[ColumnCells]]:
        """Return the validated table and its columns."""
        table = as_table(X)
        try:
            validate_data(self, X if is_frame(X) else table, reset=reset, skip_check_array=True)
        except (TypeError, ValueError) as error:
            raise (DataTypeError if isinstance(error, TypeError) else DataError)(str(error)) from None
        return table, read(table)

    def _output_columns(self) -> list[int]:
        """Numbers of the columns that `transform` returns."""
        dropped = () if self.keep_empty_features else self.table_.empty
        return [j for j in range(len(self.table_.columns)) if j not in dropped]

    def __sklearn_tags__(self) -> Any:
        """Tags for scikit-learn: X may have missing cells, text and categories."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _variances(model: LowRankModel) -> Array:
    rows, cols = np.indices(model.shape)
    assert model.posterior is not None
    return model.posterior.variance_at(rows.ravel(), cols.ravel()).reshape(model.shape)
