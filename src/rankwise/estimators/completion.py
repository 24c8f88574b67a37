"""`MatrixCompletion`: the general estimator."""

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from .._errors import NotFittedError, SettingError
from ..losses import Loss
from ..model import LowRankModel, save
from ..objectives import Objective, Problem, Ridged
from ..observations import Observations
from ..solvers import GreedyPursuit, solve

OFFSETS = ("none",)


class MatrixCompletion(BaseEstimator):
    """Learn a low-rank matrix from some of its entries, one rank at a time.

    Parameters
    ----------
    loss : str or Loss, default="square"
        "square", "logistic" (targets -1 and +1), "huber", "squared-hinge", "smooth-hinge", "poisson", an object of
        `rankwise.losses`, or your own made with `@rankwise.loss`.
    rank : int, default=10
        Largest rank; every smaller one is kept on the path.
    refine : {"auto", "none", "economic", "coefficients"}, default="auto"
        What is refitted when a rank joins: nothing, two numbers, or all coefficients. "auto" is "economic" for smooth
        losses and "none" for others.
    offsets : {"none"}, default="none"
        Row and column offsets; this version has none.
    ridge : float, default=0
        Adds ``ridge / 2 * ||X||_F**2``.
    method : str, optional
        A method of the paper by name instead of `refine`: "r1mp", "r1mp-economic", "glrl", "eglrl", "glrl-none".
    oracle : {"power", "lanczos"}, default="power"
        How the top singular pair is found; "power" is the paper's 30 power iterations.
    tol : float, default=0
        Stop early when a rank lowers the value by less than this share of it.
    time_limit : float, optional
        Stop after this many seconds.
    dtype : {"float32", "float64"}, default="float32"
    n_jobs : int, optional
        Threads; None means all usable cores. Results do not depend on it.
    random_state : int, RandomState or None, default=None
        Seeds the oracle's start vectors.

    Attributes
    ----------
    model_ : LowRankModel
    theta_, U_, V_ : ndarray
        Coefficients and unit factors of the full-rank model.
    history_ : History
        One record per rank: value, sigma, times.
    status_ : Status
        Why the fit stopped.
    n_features_in_ : int
        Number of columns.
    """

    def __init__(
        self,
        loss: str | Loss = "square",
        rank: int = 10,
        *,
        refine: Any = "auto",
        offsets: str = "none",
        ridge: float = 0.0,
        method: str | None = None,
        oracle: Any = "power",
        tol: float = 0.0,
        time_limit: float | None = None,
        dtype: Any = "float32",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.rank = rank
        self.refine = refine
        self.offsets = offsets
        self.ridge = ridge
        self.method = method
        self.oracle = oracle
        self.tol = tol
        self.time_limit = time_limit
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "MatrixCompletion":
        """Learn from the observed entries.

        Parameters
        ----------
        X : SciPy sparse matrix, array with NaN at unknown entries, or Observations
            Stored entries of a sparse matrix are observed, explicit zeros included.
        y : ignored
        """
        if self.offsets not in OFFSETS:
            raise SettingError(f'offsets={self.offsets!r} is not available in this version; use offsets="none".')
        objective = self._objective(Observations.from_any(X))
        result = solve(
            objective,
            self._method(objective),
            rank=self.rank,
            tol=self.tol,
            time_limit=self.time_limit,
            random_state=_as_seed(self.random_state),
        )
        self.model_, self.history_, self.status_ = result.model, result.history, result.status
        self.theta_, self.U_, self.V_ = result.model.theta, result.model.U, result.model.V
        self.n_features_in_ = result.model.shape[1]
        return self

    def predict_entries(
        self, rows: ArrayLike, cols: ArrayLike, *, rank: int | None = None, scale: str = "link"
    ) -> NDArray[np.float64]:
        """Predictions at pairs of rows and columns; see `LowRankModel.predict_entries`."""
        return self._fitted().predict_entries(rows, cols, rank=rank, scale=scale)

    def save(self, path: str | os.PathLike[str], *, labels: bool = True) -> None:
        """Write the fitted model to a file that `rankwise.load` reads."""
        save(self._fitted(), path, labels=labels)

    def _objective(self, observations: Observations) -> Objective:
        problem = Problem(observations, self.loss, dtype=self.dtype, n_jobs=self.n_jobs)
        return Ridged(problem, self.ridge) if self.ridge != 0 else problem

    def _method(self, objective: Objective) -> Any:
        if self.method is not None:
            return self.method
        automatic = "economic" if objective.smooth else "none"
        return GreedyPursuit(automatic if self.refine == "auto" else self.refine, self.oracle)

    def _fitted(self) -> LowRankModel:
        if not hasattr(self, "model_"):
            raise NotFittedError("This MatrixCompletion is not fitted yet; call `fit` first.")
        model: LowRankModel = self.model_
        return model


def _as_seed(random_state: Any) -> int:
    """Integer seed from anything scikit-learn accepts; None means 0, so that runs repeat."""
    if random_state is None:
        return 0
    if isinstance(random_state, np.random.RandomState | np.random.Generator):
        draw = random_state.randint if isinstance(random_state, np.random.RandomState) else random_state.integers
        return int(draw(2**31 - 1))
    if isinstance(random_state, bool) or not isinstance(random_state, int | np.integer):
        raise SettingError(f"`random_state` must be None, an integer or a NumPy generator, got {random_state!r}.")
    return int(random_state)
