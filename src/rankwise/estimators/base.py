"""What the estimators share: build the objective, solve, store, predict."""

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from .._checks import is_number, is_whole
from .._errors import NotFittedError, SettingError
from ..losses import Loss
from ..model import LowRankModel, save
from ..objectives import Objective, Problem, Ridged
from ..observations import Observations
from ..solvers import solve

OFFSETS = ("none",)


class LowRankEstimator(BaseEstimator):
    """Base of the estimators; the parameters are declared by each of them."""

    loss: str | Loss
    rank: int
    offsets: str
    ridge: float
    tol: float | None
    time_limit: float | None
    dtype: Any
    n_jobs: int | None
    random_state: Any

    def fit(self, X: Any, y: Any = None) -> Any:
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
            self._solver(objective),
            rank=self.rank,
            tol=self.tol,
            time_limit=self.time_limit,
            random_state=_as_seed(self.random_state),
        )
        self.model_, self.history_, self.status_ = result.model, result.history, result.status
        self.theta_ = result.model.theta
        self.U_, self.V_ = (factor[:, : self.theta_.size] for factor in (result.model.U, result.model.V))
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
        if not is_number(self.ridge) or not 0 <= self.ridge < np.inf:
            raise SettingError(f"`ridge` must be a number of at least zero, got {self.ridge!r}.")
        problem = Problem(observations, self.loss, dtype=self.dtype, n_jobs=self.n_jobs)
        return Ridged(problem, self.ridge) if self.ridge != 0 else problem

    def _solver(self, objective: Objective) -> Any:
        """The solver that the parameters ask for."""
        raise NotImplementedError(f"{type(self).__name__} chooses no solver.")

    def _fitted(self) -> LowRankModel:
        if not hasattr(self, "model_"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call `fit` first.")
        model: LowRankModel = self.model_
        return model


def _as_seed(random_state: Any) -> int:
    """Integer seed from anything scikit-learn accepts; None means 0, so that runs repeat."""
    if random_state is None:
        return 0
    if isinstance(random_state, np.random.RandomState | np.random.Generator):
        draw = random_state.randint if isinstance(random_state, np.random.RandomState) else random_state.integers
        return int(draw(2**31 - 1))
    if not is_whole(random_state):
        raise SettingError(f"`random_state` must be None, an integer or a NumPy generator, got {random_state!r}.")
    return int(random_state)
