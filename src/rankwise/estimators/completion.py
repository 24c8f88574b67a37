"""`MatrixCompletion`: the general estimator."""

from collections.abc import Hashable
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from .._errors import SettingError
from ..losses import Loss
from ..losses.base import classes_of
from ..losses.levels import LevelsLoss
from ..model import Everywhere
from ..model.decoding import class_probabilities
from ..model.pairwise import at_known, positions
from ..model.ranking import AXES
from ..observations import AnyEntries, Observations, as_pairs, is_frame, need_in_memory, without_streams
from ..observations.frames import is_lazy
from ..solvers import Solver
from ..solvers.checkpoint import AnyCheckpoint
from .base import RandomState
from .entries import as_targets, entries_of, entries_of_pairs, is_table_of, refuse_third_column
from .features import with_features
from .fitting import CompletionEstimator
from .progress import Callback


def _has_probabilities(estimator: Any) -> bool:
    """Whether a fitted estimator's predictive distribution is one over a few values."""
    return "levels_" in estimator.__dict__


class MatrixCompletion(ClassNamePrefixFeaturesOutMixin, TransformerMixin, CompletionEstimator):
    """Learn a matrix from some of its entries: offsets of rows and columns plus a low-rank part.

    With default parameters, offsets, factors, their posterior variances, the regularization and the noise variance are
    estimated by variational Bayes.

    Parameters
    ----------
    loss : str or Loss, default="auto"
        "square", "logistic" (targets -1 and +1), "bernoulli" (0 and 1), "huber", "squared-hinge", "smooth-hinge",
        "poisson", "l1", "quantile", "hinge", "epsilon-insensitive", an object of `rankwise.losses`, or your own made
        with `@rankwise.loss`. "auto" is logistic for targets of -1 and +1 and Bernoulli for 0 and 1 or booleans. For
        other targets it is Huber's loss, linear beyond 1.345 standard deviations of the targets, with method="bayes",
        and square with other methods.
    rank : int or "auto", default="auto"
        Largest rank. "auto" depends on the method. "bayes" starts from the mean number of entries per row, or per
        column if there are more columns, at least 7 and at most 31, and prunes components that change no prediction by
        a tenth of the noise's standard deviation. If all 31 are strong it adds others, unless entries held back become
        less likely; not with `max_iter`. "factors" uses 16. Pursuits choose it on held-out entries, see `path_`. Other
        methods need an integer. "bayes" and "factors" leave out components whose singular value is below 1e-4 of the
        largest, also of a rank that is given; `status_` then says so.
    method : str or solver object, default="bayes"
        "bayes" sweeps over rows and columns and estimates regularization and noise; "factors" does so with a given
        ridge. The methods of the paper and its competitors: "glrl", "eglrl", "glrl-none", "glrl-nonsmooth", "r1mp",
        "r1mp-economic", "ais-impute", "soft-impute", "altmin", "admm", "wiberg", "geco", "local-search", "boosting",
        "active-subspace", "frank-wolfe"; and "scaled-svd", with absent entries as zeros. ``rankwise methods`` describes
        them. An object of `rankwise.solvers` carries the settings that only it has, such as
        ``BayesSweeps(pattern_prior=False)`` or ``GreedyPursuit("coefficients", oracle="lanczos")``.
    offsets : {"auto", "both", "rows", "columns", "global", "none"}, default="auto"
        Offsets added to every prediction. "auto" is "both" for "bayes" and "factors", or what such a solver object has,
        and "global", the best constant, for other methods, which fit the offsets first and then keep them. The methods
        of the paper start from zero: that is "none". On signed networks zero gives a better sign accuracy than the
        constant, and a worse log loss and AUC (docs/algorithm.md).
    ridge : float, "auto" or None, default=None
        L2 regularization. For "factors" it applies to the factors, and None or "auto" chooses it on held-out entries.
        For other methods, ``ridge / 2 * ||X||_F**2`` is added to the objective. Must be None for "bayes", and for a
        solver object with `ridge`, for which "auto" replaces the object's.
    everywhere : Everywhere, optional
        A square loss at every cell of the matrix, observed or not, for data in which absence says something, such as
        clicks and plays: ``rankwise.Everywhere(weight=0.1)`` with ``method="factors", offsets="none"`` and values of 1
        is iALS; then give `ridge`, as held-out clicks alone do not tell how absent entries rank. Not available with
        "admm", "wiberg" and "scaled-svd".
    max_iter : int, optional
        Largest number of iterations. By default 10 sweeps for "factors"; "bayes" takes 10 to 60, until entries that it
        holds back are not predicted better by more sweeps, and `status_` says if 60 were too few.
    tol : float, optional
        Stop if an iteration changes the objective by less than this fraction. By default 0 for pursuits and 1e-4 for
        other methods.
    time_limit : float, optional
        Stop after the iteration that exceeds this many seconds.
    warm_start : bool, default=False
        If True, `fit` starts from the model of the previous fit: with more entries, rows and columns, matched by label
        or number, or with a higher rank. Pursuits can only continue to a higher rank.
    checkpoint : path, Checkpoint or None, default=None
        Folder to write checkpoints to during the fit, or ``rankwise.Checkpoint(folder, every=..., resume=True)``. See
        docs/long-fits.md.
    calibration : float, default=0
        Fraction of the entries that `fit` sets aside to calibrate `predict_interval`, such as 0.1. Up to two more
        models are then fitted; see `calibrate`. Under the logistic and Bernoulli loss, probabilities are calibrated on
        these entries instead of those that the default method holds back until its last sweep.
    dtype : {"float32", "float64"}, default="float32"
        Type of the factors and of the arithmetic. "geco", "local-search", "boosting", "active-subspace" and
        "frank-wolfe" compare values of the objective and always use float64.
    n_jobs : int or None, default=-1
        Number of threads; -1 means all usable cores, None means 1 unless in a `joblib.parallel_config` context. Results
        do not depend on it. On a cluster, workers use all of their threads.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the random start; None means 0, so that fits repeat.
    verbose : {0, 1}, default=0
        1 writes a line per iteration to standard error, or shows a progress bar in a notebook.

    Attributes
    ----------
    model_ : LowRankModel
    theta_ : ndarray of shape (rank,)
        Coefficients of the components.
    U_, V_ : ndarray of shape (n_rows, rank) and (n_cols, rank)
        Unit factors.
    offsets_ : Offsets or None
    classes_ : ndarray of shape (2,)
        -1 and +1, or 0 and 1: the targets of losses of two classes. Not set for other losses.
    levels_ : ndarray of shape (n_levels,)
        Values that `predict_proba` gives probabilities to: the classes, the levels of an ordered loss, or the distinct
        training targets of a loss of real targets if there are at most 32. Not set otherwise.
    path_ : Choice or None
        Validation scores of the ranks or ridges that were tried, if one was chosen.
    history_ : History
        One record per iteration: rank, objective, times, held-out score.
    status_ : Status
        Why the fit stopped.
    observations_ : Observations, ShardFolder or ClusterEntries
        Training entries, used by `residuals` and `calibrate`; the object that was given to `fit`, not a copy. Not part
        of pickles and files, like `history_` and `status_` of files.
    n_features_in_ : int
        Number of columns; 2 after a fit to pairs.
    n_iter_ : int
        Number of iterations.
    feature_names_in_ : ndarray
        Names of the columns, if X was a data frame that is the matrix, or one of pairs.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> nan = np.nan
    >>> X = np.array([[1, 2, 3, nan], [2, 4, nan, 8], [3, nan, 9, 12], [nan, 8, 12, 16.0]])  # one times table
    >>> model = rw.MatrixCompletion("square", rank=1, method="factors", ridge=0.01, offsets="none").fit(X)
    >>> model.predict_entries([0, 3], [3, 0]).round(1)
    array([4., 4.])

    Labels come from data frames, and recommendations are labels, too:

    >>> import pandas as pd
    >>> stars = pd.DataFrame({"who": list("aabbcc"), "film": list("xyxzyz"), "stars": [5, 1, 4, 5, 2, 4]})
    >>> model = rw.MatrixCompletion(rank=1).fit(stars, row="who", col="film", value="stars")
    >>> films, scores = model.recommend("a", 1)
    >>> print(films)
    ['z']

    With pairs as samples, scikit-learn's tools split entries:

    >>> from sklearn.model_selection import KFold, cross_val_score
    >>> seen = rw.datasets.ratings(60, 40, rank=2, density=0.5).observations
    >>> pairs = np.column_stack((seen.rows, seen.cols))
    >>> folds = KFold(3, shuffle=True, random_state=0)  # without shuffling, whole rows would be held out
    >>> print(cross_val_score(rw.MatrixCompletion(rank=4), pairs, seen.targets, cv=folds).round(1))  # R²
    [0.7 0.7 0.7]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CompletionEstimator._parameter_constraints,
        "loss": [str, Loss],
        "calibration": [Real],
        "everywhere": [Everywhere, None],
    }

    def __init__(
        self,
        loss: str | Loss = "auto",
        rank: int | str = "auto",
        *,
        method: str | Solver[Any, Any] = "bayes",
        offsets: str = "auto",
        ridge: float | str | None = None,
        everywhere: Everywhere | None = None,
        max_iter: int | None = None,
        tol: float | None = None,
        time_limit: float | None = None,
        warm_start: bool = False,
        checkpoint: AnyCheckpoint = None,
        calibration: float = 0.0,
        dtype: DTypeLike = "float32",
        n_jobs: int | None = -1,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.rank = rank
        self.method = method
        self.offsets = offsets
        self.ridge = ridge
        self.everywhere = everywhere
        self.max_iter = max_iter
        self.tol = tol
        self.time_limit = time_limit
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.calibration = calibration
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        row: Hashable = None,
        col: Hashable = None,
        value: Hashable = None,
        weight: Hashable = None,
        row_features: Any = None,
        col_features: Any = None,
        held_out: Any = None,
        callback: Callback | None = None,
    ) -> Self:
        """Fit the model to the observed entries of a matrix, or to (row, column) pairs and their values.

        Parameters
        ----------
        X : matrix, data frame, path, or pairs
            A SciPy sparse matrix, whose stored entries are observed, explicit zeros included; an array with NaN at
            unknown entries; `Observations`; a `ShardFolder` or its path; `ClusterEntries`, a Dask data frame or paths
            of Parquet files, which the workers of the current Dask client read. A data frame (pandas, polars, pyarrow)
            has one line per entry if `col` and `value` are given; else it is the matrix, with missing values at
            unknown entries, and its index and columns become labels. With `y`, an array-like or data frame of shape
            (n_pairs, 2): a row label and a column label per pair; a repeated pair gets the mean of its values.
        y : array-like of shape (n_pairs,), optional
            Values of the pairs. Ignored if X is a matrix of other than two columns, as in a pipeline.
        sample_weight : array-like of shape (n_pairs,), optional
            Weights of the pairs.
        row, col, value, weight : column name, optional
            Columns of a long data frame or of Parquet files: row label, column label, observed value, weight of the
            entry's loss.
        row_features, col_features : data frame, SciPy sparse matrix or array, optional
            What is known of the rows and of the columns, for method="bayes" and "factors"; see docs/features.md. A
            frame has labels in its index, or in a column of the name `row` (`col`). Its numbers are standardized and
            may be missing, texts are categories, and lists of texts, or texts with "|" between, several categories.
            Rows that X lacks become rows of the model. Arrays and sparse matrices are matched by number; the columns
            of a sparse matrix share a ridge.
        held_out : as X, without y; optional
            Validation entries. Their mean loss is stored in `history_` after each iteration; the time this takes does
            not count towards `time_limit`. They are matched to X by label; others are ignored.
        callback : callable, optional
            Called with each iteration's `Record`; stops the fit if it returns true.
        """
        X, names = without_streams(X), {"row": row, "col": col, "value": value, "weight": weight}
        if y is not None and row is col is value is None:
            if is_table_of(X, 2):
                own = {"row": X.columns[0], "col": X.columns[1]} if is_frame(X) and not is_lazy(X) else {}
                pairs = entries_of_pairs(X, as_targets(y), sample_weight)
                self._fit_entries(pairs, own, (row_features, col_features), held_out, callback)
                validate_data(self, X, skip_check_array=True)  # n_features_in_ and feature_names_in_
                return self
            refuse_third_column(X)
        if sample_weight is not None:
            raise SettingError("`sample_weight` needs pairs in `X` and values in `y`; use `weight` for a data frame.")
        with entries_of(X, **names) as entries:
            entries = self._fit_entries(entries, names, (row_features, col_features), held_out, callback)
        if is_frame(X) and col is None and entries.col_labels is not None:
            self.feature_names_in_ = entries.col_labels.astype(object)
        return self

    def _fit_entries(
        self, entries: AnyEntries, names: dict[str, Any], features: tuple[Any, Any], held_out: Any, callback: Any
    ) -> AnyEntries:
        """Fit the model to entries; return them with the rows and columns that only the features have."""
        start = self.model_.features if self.warm_start and "model_" in self.__dict__ else None
        entries, known = with_features(entries, dict(zip(AXES, features, strict=True)), names, start)
        self._learn(entries, _aligned(held_out, entries, names if "value" in names else {}), callback, known)
        return entries

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predict the values of (row, column) pairs, in the units of the targets.

        That is the response scale, but for losses of two classes (logistic, bernoulli, hinge) the more probable of
        `classes_`, and for losses of ordered levels their mean, or the median of "ordinal-hinge". A new row gets the
        mean of the column's entries, a new column that of the row's, both shrunk towards the mean of all.

        Parameters
        ----------
        X : array-like or data frame of shape (n_pairs, 2)
            Row label and column label of each pair; numbers if the training data had no labels.

        Returns
        -------
        ndarray of shape (n_pairs,)
        """
        loss = self._fitted().loss
        if isinstance(loss, LevelsLoss):
            return self._predict_pairs(X, decode="mean" if loss.is_likelihood else "median")
        if not self._predicts_classes:
            return self._predict_pairs(X, "response")
        negative, positive = classes_of(loss)
        least = 0.5 if self.model_.link == "logit" else 0.0
        return np.where(self._predict_pairs(X) > least, positive, negative)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities of the values of (row, column) pairs, shape (n_pairs, n_levels).

        The columns are `levels_`: the two classes under the logistic and the Bernoulli loss, the levels 0, 1, 2 and so
        on under "ordinal" and "proportional-odds", and the distinct values of the training targets, such as one to five
        stars, under losses of real targets. Models without `levels_` do not have this method. Probabilities are
        averaged over the posterior of the prediction, or calibrated if the model is (`calibrate`).

        Parameters
        ----------
        X : array-like or data frame of shape (n_pairs, 2)
            As in `predict`.
        """
        model, (rows, cols) = self._fitted(), as_pairs(X)
        numbers = positions(model, rows, cols, "offset")
        return np.asarray(class_probabilities(model, at_known(model, *numbers, None), *numbers))

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Score `predict` on pairs and their values: R², or the accuracy for losses of two classes; higher is better.

        Parameters
        ----------
        X : array-like or data frame of shape (n_pairs, 2)
        y : array-like of shape (n_pairs,)
        sample_weight : array-like of shape (n_pairs,), optional
        """
        metric = accuracy_score if self._predicts_classes else r2_score
        return float(metric(as_targets(y), self.predict(X), sample_weight=sample_weight))

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the factors of the rows of the matrix X, by `fold_in`; shape (n_rows, rank)."""
        model, X = self._fitted(), without_streams(X)
        by_label = is_frame(X) and model.col_labels is not None and "feature_names_in_" not in self.__dict__
        is_matrix = is_frame(X) or sp.issparse(X) or (isinstance(X, np.ndarray) and X.ndim == 2)
        if is_matrix and not by_label and self.n_features_in_ == model.shape[1]:
            validate_data(self, X, reset=False, skip_check_array=True)  # number and names of the columns
        return self.fold_in(X).row_factors()

    def __sklearn_tags__(self) -> Any:
        """Tags for scikit-learn: X may be sparse, contain NaN, or hold labels."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return self._fitted().rank


def _aligned(held_out: Any, entries: AnyEntries, names: dict[str, Any]) -> Observations | None:
    """Validation entries under the row and column numbers of the training entries."""
    if held_out is None:
        return None
    validation = Observations.from_any(held_out, **(names if is_frame(held_out) else {}))
    return need_in_memory(validation, "`held_out`", "give a sample as `Observations`").aligned(entries)
