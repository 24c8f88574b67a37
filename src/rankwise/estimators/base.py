"""What the estimators share: build the objective, solve, store, predict."""

import os
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from .. import losses
from .._checks import is_number, is_whole
from .._errors import NotFittedError, SettingError
from ..losses import Loss
from ..model import LowRankModel, save
from ..objectives import Objective, Problem, Ridged
from ..observations import Observations
from ..selection import choose_rank
from ..solvers import Result, fit_offsets, solve

OFFSETS = ("none", "global", "rows", "columns", "both")
PLAIN = (bool, int, float, str, type(None))
STEPS = ("step", "rank", "value", "wall_seconds", "cpu_seconds")  # of the history, kept with the model
LONGEST = 100  # the largest rank that rank="auto" tries


class LowRankEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base of the estimators; the parameters are declared by each of them."""

    loss: str | Loss
    rank: int | str
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
        observations, seed = Observations.from_any(X), as_seed(self.random_state)
        start = self._start()
        self.__dict__.pop("path_", None)  # of an earlier fit
        solver, rank = self._plan(observations, seed)
        limits: dict[str, Any] = {
            "tol": self.tol,
            "max_iter": getattr(self, "max_iter", None),
            "time_limit": self.time_limit,
        }
        result = solve(self._objective(observations), solver, rank=rank, random_state=seed, start=start, **limits)
        self.history_, self.status_ = result.history, result.status
        self.model_ = replace(result.model, facts=self._facts(observations, solver, result))
        self.theta_, self.offsets_ = result.model.theta, result.model.offsets
        self.U_, self.V_ = (factor[:, : self.theta_.size] for factor in (result.model.U, result.model.V))
        self.n_features_in_ = result.model.shape[1]
        return self

    def predict_entries(
        self,
        rows: ArrayLike,
        cols: ArrayLike,
        *,
        rank: int | None = None,
        scale: str = "link",
        return_std: bool = False,
    ) -> Any:
        """Predictions at pairs of rows and columns; see `LowRankModel.predict_entries`."""
        return self._fitted().predict_entries(rows, cols, rank=rank, scale=scale, return_std=return_std)

    def fold_in(self, new: Any, *, axis: str = "rows") -> LowRankModel:
        """A model of rows (or columns) that came after the fit, without a refit; see `LowRankModel.fold_in`."""
        return self._fitted().fold_in(new, axis=axis, n_jobs=self.n_jobs)

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Factors of the rows of X, by `fold_in`: shape (n_rows, rank), for other models to learn from."""
        return self.fold_in(X).row_factors()

    def save(self, path: str | os.PathLike[str], *, labels: bool = True, seen: bool = True) -> None:
        """Write the fitted model to a file that `rankwise.load` reads; without labels or the seen pattern if wanted."""
        save(self._fitted(), path, labels=labels, seen=seen)

    def _facts(self, observations: Observations, solver: Any, result: Result) -> dict[str, Any]:
        """How the model was learned, in plain values that fit into its file."""
        history, choice = result.history, self.__dict__.get("path_")
        steps = {name: history.column(name).tolist() for name in STEPS}
        facts: dict[str, Any] = {
            "estimator": type(self).__name__,
            "settings": {name: value if isinstance(value, PLAIN) else str(value) for name, value in self._changed()},
            "solver": repr(solver),
            "loss": repr(result.model.loss),
            "n_observed": observations.n_observed,
            "status": str(result.status),
            "seconds": history[-1].wall_seconds if len(history) else 0.0,
            "compile_seconds": result.compile_seconds,
            "initial_value": history.initial_value,
            "history": steps,
        }
        return facts if choice is None else facts | {"path": choice.to_dict() | {"best": choice.best}}

    def _changed(self) -> list[tuple[str, Any]]:
        """Parameters that differ from their defaults."""
        usual = type(self)().get_params()
        return [(name, value) for name, value in self.get_params().items() if value is not usual[name]]

    def _plan(self, observations: Observations, seed: int) -> tuple[Any, Any]:
        """Solver and rank that the parameters ask for, chosen on held-out entries where they ask for that."""
        raise NotImplementedError(f"{type(self).__name__} chooses no solver.")

    def _objective(self, observations: Observations) -> Objective:
        """What is minimised."""
        raise NotImplementedError(f"{type(self).__name__} has no objective.")

    def _pursued(self, observations: Observations, loss: Any, offsets: str, ridge: Any) -> Objective:
        """Objective of a pursuit: offsets fitted first, then left alone; a ridge on the low-rank part."""
        if offsets not in OFFSETS:
            raise SettingError(f"`offsets` must be one of {', '.join(map(repr, OFFSETS))}, got {offsets!r}.")
        if not is_number(ridge) or not 0 <= ridge < np.inf:
            raise SettingError(f"`ridge` must be a number of at least zero, got {ridge!r}.")
        problem = Problem(observations, loss, dtype=self.dtype, n_jobs=self.n_jobs)
        if offsets != "none":
            found = fit_offsets(problem, offsets)
            problem = Problem(observations, loss, dtype=self.dtype, n_jobs=self.n_jobs, offsets=found)
        return Ridged(problem, ridge) if ridge != 0 else problem

    def _pursued_rank(self, observations: Observations, solver: Any, loss: Any, seed: int) -> Any:
        """The rank itself, or the one that validation chooses; the path it was chosen from is kept."""
        if not isinstance(self.rank, str):
            return self.rank
        if self.rank != "auto":
            raise SettingError(f"`rank` must be an integer of at least 1 or 'auto', got {self.rank!r}.")
        longest = min(LONGEST, *observations.shape)
        loss = losses.get(loss)
        choice = choose_rank(observations, self._objective, solver, longest=longest, loss=loss, random_state=seed)
        self.path_ = choice
        return choice.best

    def _start(self) -> LowRankModel | None:
        """The model to go on from, if there is one and `warm_start` asks for it."""
        return self.__dict__.get("model_") if getattr(self, "warm_start", False) else None

    @property
    def _n_features_out(self) -> int:
        return self._fitted().rank

    def _fitted(self) -> LowRankModel:
        if not hasattr(self, "model_"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call `fit` first.")
        model: LowRankModel = self.model_
        return model


def as_seed(random_state: Any) -> int:
    """Integer seed from anything scikit-learn accepts; None means 0, so that runs repeat."""
    if random_state is None:
        return 0
    if isinstance(random_state, np.random.RandomState | np.random.Generator):
        draw = random_state.randint if isinstance(random_state, np.random.RandomState) else random_state.integers
        return int(draw(2**31 - 1))
    if not is_whole(random_state):
        raise SettingError(f"`random_state` must be None, an integer or a NumPy generator, got {random_state!r}.")
    return int(random_state)


def loss_for(loss: Any, observations: Observations, plain: bool = False) -> Any:
    """The loss itself; "auto" is logistic for targets of -1 and +1, else Huber's, or square if `plain`.

    Huber's turns linear at 1.345 standard deviations of the targets, the usual share; against the square loss that
    takes 0.002 off the RMSE of MovieLens 1M and 0.003 off the MAE (docs/refinement.md).
    """
    if not (isinstance(loss, str) and loss == "auto"):
        return loss
    seen = slice(None) if observations.weights is None else observations.weights > 0
    targets = observations.targets[seen].astype(np.float64)
    if bool((np.abs(targets) == 1).all()) and bool((targets < 0).any()):
        return "logistic"
    weights = None if observations.weights is None else observations.weights[seen]
    spread = float(np.sqrt(np.average((targets - np.average(targets, weights=weights)) ** 2, weights=weights)))
    return "square" if plain or spread == 0 else losses.Huber(1.345 * spread)
