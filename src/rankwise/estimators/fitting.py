"""Base of the estimators that fit one low-rank model to observed entries."""

import logging
import os
from contextlib import suppress
from dataclasses import asdict, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.utils.validation import validate_data

from .._arrays import Array
from .._errors import SettingError
from ..losses import Loss
from ..losses.base import classes_of, takes_signs
from ..model import Everywhere, LowRankModel, Seen, Targets
from ..model.decoding import levels_of
from ..model.intervals import refuse_signs
from ..model.odds import OddsCalibration
from ..observations import AnyEntries, Observations, as_pairs, is_frame, without_streams
from ..observations.frames import is_lazy
from ..solvers import Checkpoint, History, Result, Solver, Status, get, solve
from ..solvers.checkpoint import AnyCheckpoint, CheckpointFolder, opened
from .base import LowRankEstimator
from .calibration import calibrate, set_aside
from .features import NO_FEATURES, FitFeatures
from .planning import FitRequest, Method, Plan, resolve_loss
from .prediction import PredictionMethods
from .progress import Aim, Callback, watched

LIGHT = 0.1  # mean weight below which a fit is regularized much more than its number of entries suggests
HISTORY_COLUMNS = ("step", "rank", "value", "wall_seconds", "cpu_seconds")  # stored with the model


log = logging.getLogger("rankwise")


def _warn_of_light(entries: AnyEntries) -> None:
    """Log a warning if the weights are so small that the entries count for little against the regularization."""
    mean = entries.total_weight / entries.n_observed
    if mean < LIGHT:
        log.warning(
            "the mean weight is %.3g: weights count repetitions, so the fit is shrunk as if there were %.3g entries "
            "instead of %d; divide the weights by their mean if they are relative",
            mean,
            entries.total_weight,
            entries.n_observed,
        )


class CompletionEstimator(PredictionMethods):
    """Base of estimators with the parameters of `MatrixCompletion`, or some of them.

    Subclasses declare the parameters in ``__init__``; the class attributes below stand for those that they do not have.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LowRankEstimator._parameter_constraints,
        "rank": [Integral, str],
        "method": [str, Solver],
        "offsets": [str],
        "ridge": [Real, str, None],
        "max_iter": [Integral, None],
        "tol": [Real, None],
        "time_limit": [Real, None],
        "warm_start": ["boolean"],
        "checkpoint": [str, os.PathLike, Checkpoint, CheckpointFolder, None],
        "dtype": [str, type, np.dtype],
        "verbose": ["verbose"],
    }
    loss: str | Loss
    rank: int | str
    method: Method
    offsets: str
    ridge: float | str | None
    max_iter: int | None
    tol: float | None
    time_limit: float | None
    warm_start: bool
    checkpoint: AnyCheckpoint
    calibration: float = 0.0
    everywhere: Everywhere | None = None
    dtype: DTypeLike
    verbose: int
    classes_: Array
    levels_: Array
    history_: History
    status_: Status

    def _learn(
        self,
        entries: AnyEntries,
        held_out: Observations | None = None,
        callback: Callback | None = None,
        features: FitFeatures = NO_FEATURES,
    ) -> None:
        """Fit a model to the entries and set the fitted attributes."""
        seed = self._seed()
        with opened(self.checkpoint) as folder:
            entries = entries.weighted()
            _warn_of_light(entries)
            train, calibration_entries = set_aside(entries, self.calibration, seed)
            request = replace(self._request(train, seed), features=features.matrices)
            if calibration_entries is not None and request.loss.link != "logit":
                refuse_signs(request.loss, request.loss.link)
            plan = request.plan(train)
            result = self._solve(request, plan, train, held_out, callback, folder)
        self.history_, self.status_, self.path_ = result.history, result.status, plan.choice
        facts, parts = self._facts(train, plan, result), dict[str, Any]()
        model = replace(result.model, features=features.encoders)
        if isinstance(result.model.calibration, OddsCalibration):
            facts["probabilities"] = asdict(result.model.calibration)
        if calibration_entries is not None:
            parts["calibration"], about = calibrate(self, model, calibration_entries, train)
            parts["seen"] = Seen.of(entries)
            facts |= about
        targets = Targets.of(model, train, self.n_jobs)
        self._keep(replace(model, targets=targets, facts=facts, **parts))
        self.n_features_in_, self.n_iter_ = result.model.shape[1], len(result.history)
        self.__dict__.pop("feature_names_in_", None)
        self.observations_ = train

    def _request(self, entries: AnyEntries, seed: int) -> FitRequest:
        """Parameters of this fit with the loss resolved."""
        loss, method = self._resolved(entries)
        return FitRequest(
            loss=loss,
            method=method,
            rank=self.rank,
            offsets=self.offsets,
            ridge=self.ridge,
            max_iter=self.max_iter,
            dtype=self.dtype,
            n_jobs=self.n_jobs,
            seed=seed,
            start=self.model_ if self.warm_start and "model_" in self.__dict__ else None,
            everywhere=self.everywhere,
        )

    def _resolved(self, entries: AnyEntries) -> tuple[Loss, Method]:
        """Loss and method of this fit, with "auto" resolved from the entries."""
        return resolve_loss(self.loss, entries, self.method, self.everywhere), self.method

    def _solve(
        self,
        request: FitRequest,
        plan: Plan,
        train: AnyEntries,
        held_out: Observations | None,
        callback: Callback | None,
        folder: CheckpointFolder | None,
    ) -> Result:
        solver = get(plan.method)
        steps = self.max_iter or solver.steps_from(request.start, plan.rank)
        at_least = self.max_iter is None and request.start is None and solver.most_steps > 0
        aim = Aim(type(self).__name__, solver.grows, plan.rank if solver.grows else steps, at_least)
        return solve(
            request.objective(train),
            plan.method,
            rank=plan.rank,
            max_iter=self.max_iter,
            tol=self.tol,
            time_limit=self.time_limit,
            callback=watched(callback, self.verbose, aim),
            held_out=held_out,
            random_state=request.seed,
            start=request.start,
            checkpoint=folder,
        )

    def _keep(self, model: LowRankModel) -> None:
        """Set the fitted attributes that are parts of the model."""
        self.model_, self.theta_, self.offsets_ = model, model.theta, model.offsets
        self.U_, self.V_ = (factor[:, : model.theta.size] for factor in (model.U, model.V))
        for name in ("classes_", "levels_"):
            self.__dict__.pop(name, None)
        if self._predicts_classes:
            self.classes_ = np.array(classes_of(model.loss))
        if not model.ranks_clicks:
            with suppress(SettingError):  # if the predictive distribution is not discrete
                self.levels_ = levels_of(model)

    def _facts(self, train: AnyEntries, plan: Plan, result: Result) -> dict[str, Any]:
        """Parameters, solver, times and history of the fit, in JSON types, for reports."""
        history = result.history
        scored = len(history) > 0 and history[0].score is not None
        columns = (*HISTORY_COLUMNS, *(("score",) if scored else ()))
        facts: dict[str, Any] = {
            "estimator": type(self).__name__,
            "settings": self._changed(),
            "solver": repr(plan.method),
            "loss": repr(result.model.loss),
            "n_observed": train.n_observed,
            "status": str(result.status),
            "seconds": history[-1].wall_seconds if len(history) else 0.0,
            "compile_seconds": result.compile_seconds,
            "initial_value": history.initial_value,
            "history": {name: history.column(name).tolist() for name in columns},
        }
        return facts if plan.choice is None else facts | {"path": plan.choice.to_dict() | {"best": plan.choice.best}}

    def _to_state(self, labels: bool = True) -> dict[str, Any]:
        """Class name, parameters and the fitted attributes that are not in the model, in JSON types."""
        fitted: dict[str, Any] = {"n_features_in": int(self.n_features_in_), "n_iter": int(self.n_iter_)}
        if labels and "feature_names_in_" in self.__dict__:
            fitted["feature_names_in"] = [str(name) for name in self.feature_names_in_]
        return super()._to_state(labels) | {"fitted": fitted}

    def _take_state(self, facts: dict[str, Any], model: LowRankModel) -> None:
        """Set the fitted attributes; `history_`, `status_` and `observations_` are not part of a file."""
        fitted = facts["fitted"]
        self._keep(model)
        self.path_ = None
        self.n_features_in_, self.n_iter_ = int(fitted["n_features_in"]), int(fitted["n_iter"])
        if "feature_names_in" in fitted:
            self.feature_names_in_ = np.array(fitted["feature_names_in"], object)

    def _predict_pairs(self, X: Any, scale: str = "response", decode: str | None = None) -> NDArray[np.float64]:
        """Predict pairs of labels, shape (n_pairs,); a new row gets the mean of the column, a new column the row's."""
        model, X = self._fitted(), without_streams(X)
        is_table = (is_frame(X) and not is_lazy(X)) or (isinstance(X, np.ndarray) and X.ndim == 2)
        if self.n_features_in_ == 2 and is_table:
            validate_data(self, X, reset=False, skip_check_array=True)  # number and names of the columns
        rows, cols = as_pairs(X)
        options: dict[str, Any] = {"scale": scale, "decode": decode, "unknown": "offset"}
        predictions: NDArray[np.float64] = model.predict_entries(rows, cols, **options)
        return predictions

    @property
    def _predicts_classes(self) -> bool:
        model = self._fitted()
        return takes_signs(model.loss) or model.link == "logit"
