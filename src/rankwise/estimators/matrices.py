"""Estimators that learn from a matrix, in whatever form it comes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import validate_data

from ..observations import Observations, is_frame
from ..solvers import Record
from .base import LowRankEstimator


class MatrixEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, LowRankEstimator):
    """Base of the estimators whose X is the observed matrix."""

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        row: Any = None,
        col: Any = None,
        value: Any = None,
        weight: Any = None,
        held_out: Any = None,
        callback: Callable[[Record], bool | None] | None = None,
    ) -> Any:
        """Learn from the observed entries.

        Parameters
        ----------
        X : SciPy sparse matrix, array with NaN at unknown entries, data frame, Observations, or ShardFolder
            Stored entries of a sparse matrix are observed, explicit zeros included. A data frame of pandas, polars or
            pyarrow is long, one line per entry, if `col` and `value` are given; else it is the matrix itself with
            missing values at unknown entries, and its index and columns become labels.
        y : ignored
        row, col, value : name of a column, optional
            Of a long data frame: where the row labels, the column labels and the observed values are.
        weight : name of a column, optional
            Of a long data frame: weight of each entry's loss.
        held_out : same as X, optional
            Entries to score after each step, by the mean loss, see `history_`; the clock stands still meanwhile.
            They are matched to X by label; entries of rows and columns that X does not have are not scored.
        callback : callable, optional
            Called with each step's `Record`; stops the fit if it returns true.
        """
        names = {"row": row, "col": col, "value": value, "weight": weight}
        observations = Observations.from_any(X, **names)
        if held_out is not None:
            names = names if is_frame(held_out) else {}
            held_out = Observations.from_any(held_out, **names).aligned(observations)
        self._learn(observations, held_out=held_out, callback=callback)
        if is_frame(X) and col is None and observations.col_labels is not None:
            self.feature_names_in_ = observations.col_labels.astype(object)
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Factors of the rows of X, by `fold_in`: shape (n_rows, rank), for other models to learn from."""
        named = self._fitted().col_labels is not None and "feature_names_in_" not in self.__dict__
        by_label = named and is_frame(X)  # after a fit to a long frame
        if not by_label and ((isinstance(X, np.ndarray) and X.ndim == 2) or sp.issparse(X) or is_frame(X)):
            validate_data(self, X, reset=False, skip_check_array=True)  # number and names of the columns
        return self.fold_in(X).row_factors()

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn may give: sparse matrices, and NaN."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return self._fitted().rank
