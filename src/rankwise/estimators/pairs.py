"""Estimators that learn from (row, column) pairs, one line each, as scikit-learn's tools for samples expect."""

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from .._errors import DataError
from ..losses import Loss
from ..observations import Observations, as_pairs
from .completion import Completion


class Pairs(Completion):
    """Base of the estimators of pairs: `MatrixCompletion` with one entry a line, and one prediction a line."""

    def _fit_pairs(self, X: Any, targets: NDArray[Any], sample_weight: ArrayLike | None) -> None:
        """Learn the mean of each pair, with the weights of its copies added up."""
        rows, cols = as_pairs(X)
        if rows.size != targets.size:
            raise DataError(f"There are {rows.size} pairs but {targets.size} values; give one for each pair.")
        weights = np.ones(rows.size) if sample_weight is None else np.asarray(sample_weight)
        if weights.shape == rows.shape and weights.any():  # what weighs nothing is as good as not there
            rows, cols, targets, weights = (part[weights != 0] for part in (rows, cols, targets, weights))
        observations = Observations.from_labels(rows, cols, targets, weights=weights, duplicates="mean")
        self._learn(self._settled(observations))
        validate_data(self, X, skip_check_array=True)  # number and names of the columns

    def _settled(self, observations: Observations) -> Observations:
        """What is learned of pairs that came more than once."""
        return _with(observations, observations.targets, observations.weights)

    def _predict_pairs(self, X: Any, scale: str) -> NDArray[np.float64]:
        model = self._fitted()
        if len(getattr(X, "shape", ())) == 2:
            validate_data(self, X, reset=False, skip_check_array=True)  # number and names of the columns
        rows, cols = as_pairs(X)
        found: NDArray[np.float64] = model.predict_entries(rows, cols, scale=scale, unknown="offset")
        return found

    def __sklearn_tags__(self) -> Any:
        """Labels of any type, none of them missing."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = True
        tags.target_tags.required = True
        return tags


class PairRegressor(RegressorMixin, Pairs):
    """Values of (row, column) pairs: `MatrixCompletion` as a regressor, for scikit-learn's tools.

    A sample is an entry, so `cross_val_score`, `GridSearchCV`, `KFold` and the like split entries.

    Parameters
    ----------
    loss, rank, refine, ..., random_state
        As in `MatrixCompletion`.

    Attributes
    ----------
    model_, theta_, U_, V_, offsets_, path_, history_, status_
        As in `MatrixCompletion`.
    n_features_in_ : int
        Two: a row label and a column label.
    feature_names_in_ : ndarray
        Names of these two columns, if `fit` got a data frame.

    Examples
    --------
    >>> from sklearn.model_selection import KFold, cross_val_score
    >>> import numpy as np
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(60, 40, rank=2, density=0.5).observations
    >>> pairs = np.column_stack((seen.rows, seen.cols))
    >>> entries = KFold(3, shuffle=True, random_state=0)  # without shuffling, whole rows would be held out
    >>> print(cross_val_score(rw.PairRegressor(rank=4), pairs, seen.targets, cv=entries).round(1))  # R²
    [0.7 0.7 0.7]
    """

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> "PairRegressor":
        """Learn from pairs and their values.

        Parameters
        ----------
        X : array-like or data frame of shape (n_pairs, 2)
            Row label and column label of each pair. Of a pair that comes more than once, the mean is learned, with
            the weights added up.
        y : array-like of shape (n_pairs,)
        sample_weight : array-like of shape (n_pairs,), optional
        """
        self._fit_pairs(X, _values(y), sample_weight)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predicted values of pairs, on the scale of the values; shape (n_pairs,).

        Rows and columns that are new get the constant and the other side's offset.
        """
        return self._predict_pairs(X, "response")

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn's checks that a label that comes once, as in their data, predicts little."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


class SignedLinkPredictor(ClassifierMixin, Pairs):
    """Which of two classes a (row, column) pair is of, such as trust or distrust between two people.

    Learns the log-odds as a low-rank matrix with offsets, under the logistic loss.

    Parameters
    ----------
    rank, refine, offsets, ridge, pattern_prior, tol, max_iter, time_limit, checkpoint, checkpoint_every, resume
        As in `MatrixCompletion`.
    dtype, n_jobs, random_state, verbose
        As in `MatrixCompletion`.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The classes in sorted order, such as -1 and +1.
    model_, theta_, U_, V_, offsets_, path_, history_, status_, n_features_in_, feature_names_in_
        As in `PairRegressor`; the second class is +1 there.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> seen = rw.datasets.signed_network(60, 60, rank=2, density=0.5, flip=0.0).observations
    >>> pairs = np.column_stack((seen.rows, seen.cols))
    >>> model = rw.SignedLinkPredictor(rank=4).fit(pairs[::2], seen.targets[::2])
    >>> print(model.classes_, round(model.score(pairs[1::2], seen.targets[1::2]), 1))
    [-1.  1.] 0.9
    >>> model.predict_proba(pairs[:2]).shape
    (2, 2)
    """

    loss: str | Loss = "logistic"
    count_power, shrinkage, block, method, oracle = 0.0, 1.0, None, None, "power"

    def __init__(
        self,
        rank: int | str = "auto",
        *,
        refine: Any = "bayes",
        offsets: str = "auto",
        ridge: float | str | None = None,
        pattern_prior: bool = True,
        tol: float | None = None,
        max_iter: int | None = None,
        time_limit: float | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int | None = None,
        resume: bool = False,
        dtype: Any = "float32",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.rank = rank
        self.refine = refine
        self.offsets = offsets
        self.ridge = ridge
        self.pattern_prior = pattern_prior
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.resume = resume
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> "SignedLinkPredictor":
        """Learn from pairs and their classes.

        Parameters
        ----------
        X : array-like or data frame of shape (n_pairs, 2)
            Row label and column label of each pair. Of a pair that comes more than once, the class with more weight
            counts, with the surplus of its weight over the other's.
        y : array-like of shape (n_pairs,)
            Two different classes: -1 and +1, 0 and 1, two words.
        sample_weight : array-like of shape (n_pairs,), optional
        """
        classes, signs = _signs(y)
        self._fit_pairs(X, signs, sample_weight)
        self.classes_ = classes
        return self

    def _settled(self, observations: Observations) -> Observations:
        """The sign of each mean and that share of its weight: at log-odds of zero, the slope of all copies."""
        signs = np.where(observations.targets >= 0, 1.0, -1.0)
        return _with(observations, signs, np.abs(observations.targets) * observations.weights)

    def predict(self, X: Any) -> NDArray[Any]:
        """The more likely class of each pair, shape (n_pairs,)."""
        log_odds = self.decision_function(X)
        found: NDArray[Any] = self.classes_[(log_odds > 0).astype(int)]
        return found

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of the two classes, shape (n_pairs, 2)."""
        second = self._predict_pairs(X, "response")
        return np.column_stack((1 - second, second))

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Log-odds of the second class, shape (n_pairs,)."""
        return self._predict_pairs(X, "link")

    def __sklearn_tags__(self) -> Any:
        """Two classes, no more."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _values(y: Any) -> NDArray[np.float64]:
    if y is None:
        raise DataError("PairRegressor requires y to be passed, but the target y is None.")
    found: NDArray[Any] = column_or_1d(np.asarray(y), warn=True)
    if found.dtype.kind == "c":
        raise DataError("Complex data not supported: the values must be real numbers.")
    try:
        found = found.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(f"The values must be real numbers, got {found.dtype}.") from None
    return found


def _signs(y: Any) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """The two classes, and -1 or +1 for each sample."""
    if y is None:
        raise DataError("SignedLinkPredictor requires y to be passed, but the target y is None.")
    found = column_or_1d(np.asarray(y), warn=True)
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise DataError("Input y contains infinity or NaN; leave out pairs whose class is unknown.")
    check_classification_targets(found)
    classes, place = np.unique(found, return_inverse=True)
    if classes.size > 2:
        raise DataError(
            f"Only binary classification is supported. The type of the target is multiclass: {classes.size} classes."
        )
    if classes.size < 2:
        raise DataError(f"Two classes are needed; the values have {classes.size} class, {classes.tolist()}.")
    return classes, np.where(place > 0, 1.0, -1.0)


def _with(observations: Observations, targets: NDArray[Any], weights: Any) -> Observations:
    """The same entries with these targets and weights; none if the weights are all one."""
    weights = None if np.all(weights == 1) else weights
    labels = observations.row_labels, observations.col_labels
    return Observations(observations.indptr, observations.indices, targets, observations.shape, weights, labels)
