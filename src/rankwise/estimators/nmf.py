"""`NMF`: non-negative matrix factorization, with missing entries, under any loss."""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.utils.validation import check_non_negative, validate_data

from .. import losses
from .._checks import check_choice, is_whole
from .._errors import SettingError
from ..losses import KullbackLeiblerBeyondZero, Loss, SquareBeyondZero
from ..model import Everywhere, LowRankModel
from ..objectives import Problem
from ..observations import AnyEntries, Observations
from ..penalties import NonNegative, NonNegativeL1, Penalty
from ..solvers import FactorSweeps, fold_in, solve
from .base import LowRankEstimator, RandomState
from .prediction import PredictionMethods

ABSENT = ("zero", "missing")
# What a zero costs at every cell, and what other entries cost beyond it.
WITH_ZEROS: dict[str, tuple[Loss, Everywhere]] = {
    "square": (SquareBeyondZero(), Everywhere(1.0)),
    "kullback-leibler": (KullbackLeiblerBeyondZero(), Everywhere(0.0, slope=1.0)),
}


class NMF(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PredictionMethods):
    """Non-negative matrix factorization ``X = W H`` of a matrix that may have missing entries.

    The interface is that of scikit-learn's NMF. Entries of an array that are NaN are missing: they are left out of the
    sum of losses, in `fit` and in `transform`.

    Parameters
    ----------
    n_components : int, default=10
        Number of factors; at most the smaller side of the matrix.
    loss : str or Loss, default="square"
        "square", "kullback-leibler" (for counts), or any other loss of `rankwise.losses`.
    ridge : float, default=0
        ``ridge / 2`` times the squares of W and H is added to the sum of the losses.
    l1 : float, default=0
        `l1` times the sum of W and H is added.
    absent : {"zero", "missing"}, default="zero"
        Entries that a sparse matrix does not store; zeros need the square or the Kullback-Leibler loss.
    n_init : int, default=1
        Number of starts, of which the best after five sweeps is used: the leading singular pairs, then random ones.
    max_iter : int, default=200
        Largest number of sweeps over rows and columns.
    tol : float, default=1e-4
        Stop if a sweep lowers the objective by less than this fraction.
    dtype : {"float32", "float64"}, default="float32"
        Type of the factors.
    n_jobs : int or None, default=-1
        Number of threads. Results do not depend on it.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the start; None means 0.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features)
        H.
    n_components_ : int
    reconstruction_err_ : float
        Value of the objective: losses, ridge and l1.
    model_ : LowRankModel
    n_features_in_, n_iter_ : int
    feature_names_in_ : ndarray
        Names of the columns, if X was a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> X = np.array([[1, 1, 0], [2, 2, np.nan], [0, 0, 3], [1, np.nan, 3.0]])
    >>> nmf = rw.NMF(2)
    >>> W = nmf.fit_transform(X)
    >>> print(nmf.inverse_transform(W).round(1)[1:4:2])
    [[2. 2. 0.]
     [1. 1. 3.]]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LowRankEstimator._parameter_constraints,
        "n_components": [Integral],
        "loss": [str, Loss],
        "ridge": [Real],
        "l1": [Real],
        "absent": [str],
        "n_init": [Integral],
        "max_iter": [Integral],
        "tol": [Real],
        "dtype": [str, type, np.dtype],
    }

    def __init__(
        self,
        n_components: int = 10,
        *,
        loss: str | Loss = "square",
        ridge: float = 0.0,
        l1: float = 0.0,
        absent: str = "zero",
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-4,
        dtype: DTypeLike = "float32",
        n_jobs: int | None = -1,
        random_state: RandomState = None,
    ) -> None:
        self.n_components = n_components
        self.loss = loss
        self.ridge = ridge
        self.l1 = l1
        self.absent = absent
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any = None) -> "NMF":
        """Fit W and H.

        Parameters
        ----------
        X : array-like with NaN at missing entries, sparse matrix, or Observations, shape (n_samples, n_features)
            Numbers of at least zero. `Observations` may have weights.
        y : None
            Ignored; for scikit-learn.
        """
        self._check()
        entries, loss, everywhere = self._read(X, reset=True)
        problem = Problem(entries, loss, dtype=self.dtype, n_jobs=self.n_jobs, everywhere=everywhere)
        result = solve(
            problem,
            self._solver(),
            rank=self.n_components,
            max_iter=self.max_iter,
            tol=self.tol,
            random_state=self._seed(),
        )
        self.history_, self.observations_ = result.history, entries
        self.n_iter_, self.reconstruction_err_ = len(result.history), float(result.history[-1].value)
        self._keep(result.model)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> NDArray[Any]:
        """Fit, and return W, of shape (n_samples, `n_components_`)."""
        return np.asarray(self.fit(X).transform(X))

    def transform(self, X: Any) -> NDArray[Any]:
        """Return W for the rows of X, given `components_`; its shape is (n_samples, `n_components_`)."""
        model = self._fitted()
        entries, loss, _ = self._read(X, reset=False)
        folded = fold_in(model, entries, loss=loss, n_jobs=self.n_jobs)
        assert folded.learned is not None
        return np.asarray(folded.learned.rows.means)

    def inverse_transform(self, W: ArrayLike) -> NDArray[Any]:
        """Return ``W @ components_``."""
        self._fitted()
        return np.asarray(np.asarray(W) @ self.components_)

    def _check(self) -> None:
        check_choice("absent", self.absent, ABSENT)
        if not (is_whole(self.n_components) and self.n_components >= 1):
            raise SettingError(f"`n_components` must be a positive integer, got {self.n_components!r}.")

    def _solver(self) -> FactorSweeps:
        penalty: Penalty = NonNegativeL1(weight=float(self.l1)) if self.l1 else NonNegative()
        return FactorSweeps(
            rows=penalty, cols=penalty, offsets="none", ridge=float(self.ridge), n_init=self.n_init, smoothing=0.01
        )

    def _read(self, X: Any, reset: bool) -> tuple[AnyEntries, Loss, Everywhere | None]:
        """Entries, their loss, and what a zero costs at every cell if zeros are left out of the entries."""
        loss = losses.get(self.loss)
        if isinstance(X, Observations):
            self.n_features_in_ = X.shape[1]
            return X, loss, None
        X = validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite="allow-nan"
        )
        check_non_negative(X.data if sp.issparse(X) else np.nan_to_num(X), type(self).__name__)
        whole = self.absent == "zero" if sp.issparse(X) else not np.isnan(X).any()
        if reset:
            self._whole = whole and loss.name in WITH_ZEROS and (X != 0).sum() > 0
        if not self._whole:
            if sp.issparse(X) and self.absent == "zero":
                raise SettingError('absent="zero" needs the square or the Kullback-Leibler loss; use absent="missing".')
            return Observations.from_any(X), loss, None
        cells = sp.csr_array(X)
        cells.eliminate_zeros()
        return Observations.from_any(cells), *WITH_ZEROS[loss.name]

    def _keep(self, model: LowRankModel) -> None:
        """Set the fitted attributes that are parts of the model."""
        assert model.learned is not None
        self.model_, self.components_ = model, np.ascontiguousarray(model.learned.cols.means.T)
        self.n_components_ = int(self.components_.shape[0])

    def _to_state(self, labels: bool = True) -> dict[str, Any]:
        fitted = {"n_features_in": int(self.n_features_in_), "n_iter": int(self.n_iter_), "whole": bool(self._whole)}
        return super()._to_state(labels) | {"fitted": fitted}

    def _take_state(self, facts: dict[str, Any], model: LowRankModel) -> None:
        fitted = facts["fitted"]
        self._keep(model)
        self._whole = bool(fitted["whole"])
        self.n_features_in_, self.n_iter_ = int(fitted["n_features_in"]), int(fitted["n_iter"])

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def __sklearn_tags__(self) -> Any:
        """Tags for scikit-learn: X may be sparse, contain NaN, and is not negative."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # the parameter `dtype` says which
        tags.input_tags.sparse = tags.input_tags.allow_nan = tags.input_tags.positive_only = True
        return tags
