"""`SignedLinkPredictor`: classification of (row, column) pairs."""

import os
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from .._arrays import Array
from .._errors import DataError
from ..losses import Loss
from ..model import LowRankModel
from ..solvers import Checkpoint, Solver
from .entries import entries_of_pairs, with_targets
from .fitting import CompletionEstimator


class SignedLinkPredictor(ClassifierMixin, CompletionEstimator):
    """Predict which of two classes a (row, column) pair has, such as trust or distrust between two people.

    Learns the log-odds as a low-rank matrix plus offsets, under the logistic loss.

    Parameters
    ----------
    rank, method, offsets, ridge, max_iter, tol, time_limit, warm_start, checkpoint, calibration
        As in `MatrixCompletion`.
    dtype, n_jobs, random_state, verbose
        As in `MatrixCompletion`.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The classes in sorted order, such as -1 and +1; the second is +1 in `model_`.
    n_features_in_ : int
        2: a row label and a column label.
    feature_names_in_ : ndarray of shape (2,)
        Names of these columns, if `fit` got a data frame.
    model_, theta_, U_, V_, offsets_, path_, history_, status_, observations_, n_iter_
        As in `MatrixCompletion`.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CompletionEstimator._parameter_constraints,
        "calibration": [Real],
    }
    loss: str | Loss = "logistic"

    def __init__(
        self,
        rank: int | str = "auto",
        *,
        method: str | Solver[Any, Any] = "bayes",
        offsets: str = "auto",
        ridge: float | str | None = None,
        max_iter: int | None = None,
        tol: float | None = None,
        time_limit: float | None = None,
        warm_start: bool = False,
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
        calibration: float = 0.0,
        dtype: Any = "float32",
        n_jobs: int | None = -1,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.rank = rank
        self.method = method
        self.offsets = offsets
        self.ridge = ridge
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
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> "SignedLinkPredictor":
        """Fit the model to pairs and their classes.

        Parameters
        ----------
        X : array-like or data frame of shape (n_pairs, 2)
            Row label and column label of each pair. A pair that is repeated with both classes gets the one with the
            larger weight, with the difference of the weights.
        y : array-like of shape (n_pairs,)
            Two distinct classes: -1 and +1, 0 and 1, two strings.
        sample_weight : array-like of shape (n_pairs,), optional
        """
        classes, signs = _as_signs(y)
        entries = entries_of_pairs(X, signs, sample_weight)
        if entries.n_observed < signs.size:  # the sign of each mean, by the absolute mean: the same slope at zero
            mean, weights = entries.targets, 1.0 if entries.weights is None else entries.weights
            entries = with_targets(entries, np.where(mean >= 0, 1.0, -1.0), np.abs(mean) * weights)
        self._learn(entries)
        validate_data(self, X, skip_check_array=True)  # n_features_in_ and feature_names_in_
        self.classes_ = classes
        return self

    def predict(self, X: Any) -> Array:
        """Return the more probable class of each pair, one of `classes_`; shape (n_pairs,)."""
        second = self._predict_pairs(X, decode="probability")
        classes: Array = self.classes_[(second > 0.5).astype(int)]
        return classes

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities of the two classes, in the order of `classes_`; shape (n_pairs, 2).

        They are averaged over the posterior of the log-odds, or calibrated where the fit found that this is needed, as
        by ``predict_entries``.
        """
        second = self._predict_pairs(X, decode="probability")
        return np.column_stack((1 - second, second))

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the log-odds of the second class, the link scale; shape (n_pairs,)."""
        return self._predict_pairs(X, "link")

    def _to_state(self, labels: bool = True) -> dict[str, Any]:
        state = super()._to_state(labels)
        return state | {"fitted": state["fitted"] | {"classes": self.classes_.tolist()}}

    def _take_state(self, facts: dict[str, Any], model: LowRankModel) -> None:
        super()._take_state(facts, model)
        self.classes_ = np.array(facts["fitted"]["classes"])

    def __sklearn_tags__(self) -> Any:
        """Tags for scikit-learn: two classes; X may hold labels of any type."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = True
        tags.classifier_tags.multi_class = False
        return tags


def _as_signs(y: Any) -> tuple[Array, NDArray[np.float64]]:
    """Return the two classes in sorted order, and -1 or +1 for each sample."""
    if y is None:
        raise DataError("SignedLinkPredictor requires y to be passed, but the target y is None.")
    labels = column_or_1d(np.asarray(y), warn=True)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise DataError("Input y contains infinity or NaN; leave out pairs whose class is unknown.")
    try:
        check_classification_targets(labels)
    except ValueError as error:
        raise DataError(str(error)) from None
    classes, codes = np.unique(labels, return_inverse=True)
    if classes.size > 2:
        raise DataError(
            f"Only binary classification is supported. The type of the target is multiclass: {classes.size} classes."
        )
    if classes.size < 2:
        raise DataError(f"`y` must have two classes, got {classes.size} class: {classes.tolist()}.")
    return classes, np.where(codes > 0, 1.0, -1.0)
