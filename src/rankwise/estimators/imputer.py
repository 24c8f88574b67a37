"""`LowRankImputer`: fills the missing cells of a table whose columns may be of different kinds."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import validate_data

from .._checks import is_whole
from .._errors import DataError, DataTypeError, NotFittedError, SettingError
from ..model import LowRankModel
from ..objectives import Problem
from ..solvers import BayesSweeps, FactorSweeps, fold_in, solve
from .base import as_seed
from .frames import Cells, as_table, filled, read
from .tables import Table, Targets

Array = NDArray[Any]
FADING, RIDGED = 15, 30  # largest ranks of the two fits
RIDGE = 4.0  # of the second, in units of the losses: log likelihoods
FRESH = 3  # fits of the first from nothing, each with the noise that the one before left in every column
ROUNDS = 12  # fits of the first at most; from the fourth on they go on from the one before,
SHORT = 5  # for this many sweeps
SETTLED = 0.1  # share by which no noise changes any more


class Fit(NamedTuple):
    """A model of the matrix that the table becomes, and the weights of its columns' losses."""

    model: LowRankModel
    scales: Array


class LowRankImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fill the missing cells of a table from a low-rank model with a loss per column.

    Each column has the loss of its kind: real numbers Huber's, booleans logistic, ordered categories the proportional
    odds, other categories and text one logistic loss for each category, counts Poisson's. A row of which nothing is
    known gets the columns' best constants.

    Two models are learned and their predictions averaged: one with few factors, whose uncertainty and number are
    learned with the noise of each column, and one with many factors, all shrunk by the same ridge. Real tables are
    neither of exactly low rank nor without it; docs/tables.md has what each does alone.

    Parameters
    ----------
    columns : "auto", str, Loss, list or dict, default="auto"
        The kind of every column: "huber", "square", "l1", "quantile", "poisson", "logistic" (two values), "ordinal",
        "ordinal-hinge", "proportional-odds", "category", a loss for numbers such as ``rankwise.losses.Huber(1.0)``, or
        "auto": by the column's type. A list has one for each column, a dict some by name (by number for arrays). By
        type: real numbers are "huber", booleans "logistic", ordered categories "proportional-odds", other categories
        and text "category"; integers are counts, "poisson", unless one is negative, else "huber".
    rank : int or "auto", default="auto"
        Largest number of factors; "auto" is 15 for the first model, where those that the table does not support fade
        out, and 30 for the second.
    keep_empty_features : bool, default=False
        Whether columns without any value at `fit` are kept, filled with 0, False or the first category, or left out,
        as in scikit-learn's imputers.
    max_iter : int, default=30
        Sweeps over rows and columns; of the first model several times as many.
    tol : float, default=1e-5
        Stop a fit when a sweep changes the value by less than this share of it.
    n_jobs : int, optional
        Threads; None means all usable cores. Results do not depend on it.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the start; None means 0, so that fits repeat.

    Attributes
    ----------
    table_ : Table
        Names and kinds of the columns, and how each becomes columns of a matrix.
    fits_ : list of (model, scales)
        The two models of that matrix, and the weight of the loss of each of its columns: one over the noise of
        numbers, one for categories. Empty if no column has two different values.
    n_iter_ : int
        Sweeps that the second model took.
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

    def __init__(
        self,
        columns: Any = "auto",
        *,
        rank: int | str = "auto",
        keep_empty_features: bool = False,
        max_iter: int = 30,
        tol: float = 1e-5,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.columns = columns
        self.rank = rank
        self.keep_empty_features = keep_empty_features
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "LowRankImputer":
        """Learn from the cells that have a value.

        Parameters
        ----------
        X : pandas or polars DataFrame, or array of shape (n_rows, n_columns)
            Missing cells are NaN, None, NA or null.
        y : ignored
        """
        if self.rank != "auto" and not (is_whole(self.rank) and self.rank >= 1):  # type: ignore[operator]
            raise SettingError(f"`rank` must be an integer of at least 1 or 'auto', got {self.rank!r}.")
        _, cells = self._read(X, reset=True)
        self.table_ = Table.learn(cells, self.columns)
        targets, n_rows = self.table_.targets(cells), cells[0].values.size
        self.fits_, self.n_iter_ = [], 0
        if self.table_.width:
            nothing = np.zeros((n_rows, self.table_.width))
            first = self.table_.scales(targets, nothing, nothing)
            fading = self._fading(targets, first, n_rows)
            between = np.sqrt(first * fading.scales)  # the noise that is left is too little for the ridge
            self.fits_ = [fading, self._ridged(targets, between, n_rows)]
        return self

    def transform(self, X: Any) -> Any:
        """Fill the missing cells of a table with the same columns; observed cells stay as they are.

        Every row is solved for given the columns, as in the fit, whether it was there or is new.

        Returns
        -------
        A table of the same type, with the same column types, categories and index.
        """
        if not hasattr(self, "table_"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call `fit` first.")
        table, cells = self._read(X, reset=False)
        values = self.table_.values(self._predict(cells))
        return filled(table, dict(enumerate(values)), cells, self._kept())

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns that `transform` returns."""
        names = super().get_feature_names_out(input_features)
        return np.asarray(names)[self._kept()]

    def _fading(self, targets: Targets, scales: Array, n_rows: int) -> Fit:
        """Few factors, how many and how sure is learned; so is the noise of each column, from fit to fit."""
        solver = BayesSweeps("columns", pattern_prior=False)
        model: Any = None
        for k in range(ROUNDS):
            model, _ = self._solve(solver, FADING, targets, scales, n_rows, model if k >= FRESH else None)
            before, scales = scales, self.table_.scales(targets, model.to_dense(), _variances(model))
            if k + 1 >= FRESH and np.allclose(before, scales, rtol=SETTLED, atol=0):
                break
        return Fit(model, before)

    def _ridged(self, targets: Targets, scales: Array, n_rows: int) -> Fit:
        """Many factors, all shrunk alike."""
        solver = FactorSweeps("columns", ridge=RIDGE)
        model, self.n_iter_ = self._solve(solver, RIDGED, targets, scales, n_rows)
        return Fit(model, scales)

    def _solve(
        self, solver: Any, cap: int, targets: Targets, scales: Array, n_rows: int, start: LowRankModel | None = None
    ) -> tuple[LowRankModel, int]:
        observations, loss = self.table_.problem(targets, scales, n_rows)
        problem = Problem(observations, loss, dtype=np.float64, n_jobs=self.n_jobs)  # type: ignore[arg-type]
        rank: Any = cap if self.rank == "auto" else self.rank
        sweeps = self.max_iter if start is None else min(SHORT, self.max_iter)
        limits: dict[str, Any] = {"max_iter": sweeps, "tol": self.tol, "random_state": as_seed(self.random_state)}
        found = solve(problem, solver, rank=rank, start=start, **limits)
        return found.model, len(found.history)

    def _predict(self, cells: list[Cells]) -> Array:
        """Predictions at all cells, columns of the matrix: the mean of the models."""
        n_rows, targets = cells[0].values.size, self.table_.targets(cells)
        found = np.zeros((n_rows, self.table_.width))
        for model, scales in self.fits_:
            new, loss = self.table_.problem(targets, scales, n_rows)
            if new is not None:  # else nothing is known of any row
                found += fold_in(model, new, loss=loss, n_jobs=self.n_jobs).to_dense() / len(self.fits_)
        return found

    def _read(self, X: Any, reset: bool) -> tuple[Any, list[Cells]]:
        """The table, checked, and its columns."""
        table = as_table(X)
        try:
            validate_data(self, X if hasattr(X, "columns") else table, reset=reset, skip_check_array=True)
        except (TypeError, ValueError) as error:
            raise (DataTypeError if isinstance(error, TypeError) else DataError)(str(error)) from None
        return table, read(table)

    def _kept(self) -> list[int]:
        """Columns that `transform` returns."""
        left_out = () if self.keep_empty_features else self.table_.empty
        return [j for j in range(len(self.table_.columns)) if j not in left_out]

    def __sklearn_tags__(self) -> Any:
        """Missing cells and text are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _variances(model: LowRankModel) -> Array:
    rows, cols = np.indices(model.shape)
    assert model.posterior is not None
    return model.posterior.variance_at(rows.ravel(), cols.ravel()).reshape(model.shape)
