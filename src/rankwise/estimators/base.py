"""What the estimators share: build the objective, solve, store, predict."""

import os
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError as SklearnNotFittedError

from .. import losses
from .._checks import is_number, is_whole
from .._errors import NotFittedError, SettingError
from ..losses import Loss
from ..model import LowRankModel, Residuals, Seen, Targets, save, summary_html
from ..model.intervals import refuse_signs
from ..objectives import Objective, Problem, Ridged
from ..observations import Observations
from ..selection import choose_rank
from ..solvers import Checkpoint, Result, fit_offsets, fold_in, get, solve
from ..solvers.checkpoint import check_folder
from ..solvers.validation import need_in_memory
from .calibration import calibrated, set_aside
from .progress import Aim, watched
from .serving import Serving

OFFSETS = ("none", "global", "rows", "columns", "both")
PLAIN = (bool, int, float, str, type(None))
NO_MATTER = ("verbose", "checkpoint", "checkpoint_every", "resume")  # settings that no model depends on
STEPS = ("step", "rank", "value", "wall_seconds", "cpu_seconds")  # of the history, kept with the model
LONGEST = 100  # the largest rank that rank="auto" tries


class Unfitted(NotFittedError, SklearnNotFittedError):
    """`NotFittedError` that scikit-learn knows as its own."""


class LowRankEstimator(Serving, BaseEstimator):
    """Base of the estimators; the parameters are declared by each of them."""

    loss: str | Loss
    rank: int | str
    tol: float | None
    time_limit: float | None
    checkpoint: Any
    checkpoint_every: int | None
    resume: bool
    dtype: Any
    n_jobs: int | None
    verbose: Any
    random_state: Any

    def _learn(self, given: Observations, **scoring: Any) -> None:
        """Solve and store."""
        seed, scoring["start"] = as_seed(self.random_state), self._start()
        kept: dict[str, Any] = {"checkpoint": None}
        if self.checkpoint is not None:
            kept["checkpoint"] = Checkpoint(self.checkpoint, self.checkpoint_every, self.resume)
        elif self.checkpoint_every is not None or self.resume is not False:
            raise SettingError("`checkpoint` must name the folder of the checkpoints to write or to `resume` from.")
        check_folder(kept["checkpoint"])
        given = given.weighted()
        observations, set_apart = set_aside(given, getattr(self, "calibration", 0.0), seed)
        if set_apart is not None:
            loss = losses.get(loss_for(self.loss, given))
            refuse_signs(loss, loss.link)
        for name in ("path_", "feature_names_in_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        solver, rank = self._plan(observations, seed)
        limits: dict[str, Any] = {
            "tol": self.tol,
            "max_iter": getattr(self, "max_iter", None),
            "time_limit": self.time_limit,
        }
        method = get(solver)
        steps = limits["max_iter"] or method.steps_from(scoring["start"], rank)
        aim = Aim(type(self).__name__, method.grows, rank if method.grows else steps)
        scoring["callback"] = watched(scoring.get("callback"), self.verbose, aim)
        result = solve(self._objective(observations), solver, rank=rank, random_state=seed, **limits, **kept, **scoring)
        self.history_, self.status_ = result.history, result.status
        targets = Targets.of(result.model, observations, self.n_jobs)
        self.model_ = replace(result.model, targets=targets, facts=self._facts(observations, solver, result))
        self.theta_, self.offsets_ = result.model.theta, result.model.offsets
        self.U_, self.V_ = (factor[:, : self.theta_.size] for factor in (result.model.U, result.model.V))
        self.n_features_in_, self.n_iter_ = result.model.shape[1], len(result.history)
        self.observations_ = observations
        if set_apart is not None:
            self.calibrate(set_apart)
            self.model_ = replace(self.model_, seen=Seen(given.indptr, given.indices))

    def predict_entries(
        self,
        rows: ArrayLike,
        cols: ArrayLike,
        *,
        rank: int | None = None,
        scale: str = "link",
        return_std: bool = False,
        decode: str | None = None,
        unknown: str = "error",
    ) -> Any:
        """Predictions at pairs of rows and columns; see `LowRankModel.predict_entries`."""
        wishes: dict[str, Any] = {"scale": scale, "return_std": return_std, "decode": decode, "unknown": unknown}
        return self._fitted().predict_entries(rows, cols, rank=rank, **wishes)

    def fold_in(self, new: Any, *, axis: str = "rows", loss: str | Loss | None = None, **names: Any) -> LowRankModel:
        """A model of rows (or columns) that came after the fit, without a refit; see `rankwise.fold_in`."""
        return fold_in(self._fitted(), new, axis=axis, loss=loss, n_jobs=self.n_jobs, **names)

    def predict_interval(
        self, rows: ArrayLike, cols: ArrayLike, *, coverage: float = 0.8, clip: bool = False
    ) -> tuple[Any, Any]:
        """Ends between which a new observation falls with this chance; see `LowRankModel.predict_interval`."""
        return self._fitted().predict_interval(rows, cols, coverage=coverage, clip=clip)

    def calibrate(self, held_out: Any, *, coverage: float = 0.8, by: str = "auto") -> Any:
        """Make `predict_interval` possible, with entries that `fit` has not seen.

        Widths come from the learned variances and the noise of every row and column, or from two fits by the quantile
        loss, whichever has the better interval score at `coverage`. They are then stretched so that they cover the
        held-out entries as often as is asked for (split conformal prediction), which holds at any coverage.

        Parameters
        ----------
        held_out : as in `fit`; of a long data frame, ``Observations.from_frame(held_out, row=..., col=..., value=...)``
            A thousand entries or more; with n of them, the coverage is right to about ``0.5 / sqrt(n)``.
        coverage : float, default=0.8
            What the quantile fits aim at and the two ways are compared by.
        by : {"auto", "variances", "quantiles"}, default="auto"
            "variances" needs no further fit, the others two.
        """
        self._fitted()
        self.model_ = calibrated(self, held_out, self.__dict__.get("observations_"), coverage, by)
        return self

    def residuals(self, n: int = 20, X: Any = None) -> Residuals:
        """The `n` observed entries that the model finds most unlikely: those of the largest loss, the largest first.

        A robust loss ("huber", the default, or "l1") is not drawn towards wrong entries, so that they stand out.

        Parameters
        ----------
        n : int, default=20
        X : as in `fit`; of a long data frame, ``Observations.from_frame(X, row=..., col=..., value=...)``; optional
            Entries to look at; by default those of the last `fit`, which are not kept by pickles and files.
        """
        model = self._fitted()
        if X is None and "observations_" not in self.__dict__:
            raise SettingError("The entries of the fit are not kept in a pickle; give them as `residuals(n, X=...)`.")
        return model.residuals(
            need_in_memory(self.observations_, "`residuals`", "give some of them as `X`") if X is None else X, n
        )

    def __getstate__(self) -> dict[str, Any]:
        """All but the observed entries."""
        return {name: part for name, part in super().__getstate__().items() if name != "observations_"}

    def save(self, path: str | os.PathLike[str], *, labels: bool = True, seen: bool = True) -> None:
        """Write the fitted model to a file that `rankwise.load` reads; without labels or the seen pattern if wanted."""
        save(self._fitted(), path, labels=labels, seen=seen)

    def _html_repr(self) -> str:
        """What a notebook shows: a summary once fitted, scikit-learn's diagram before."""
        if not hasattr(self, "model_"):
            return str(super()._html_repr())
        return summary_html(self.model_, type(self).__name__)

    def _facts(self, observations: Observations, solver: Any, result: Result) -> dict[str, Any]:
        """How the model was learned, in plain values that fit into its file."""
        history, choice = result.history, self.__dict__.get("path_")
        scored = len(history) > 0 and history[0].score is not None
        steps = {name: history.column(name).tolist() for name in (*STEPS, *(("score",) if scored else ()))}
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
        """Parameters that differ from their defaults, of those that make a difference."""
        usual = type(self)().get_params()
        params = self.get_params().items()
        return [(name, value) for name, value in params if name not in NO_MATTER and value is not usual[name]]

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
            problem.close()
            problem = Problem(observations, loss, dtype=self.dtype, n_jobs=self.n_jobs, offsets=found)
        return Ridged(problem, ridge) if ridge != 0 else problem

    def _pursued_rank(self, observations: Observations, solver: Any, loss: Any, seed: int) -> Any:
        """The rank itself, or the one that validation chooses; the path it was chosen from is kept."""
        if not isinstance(self.rank, str):
            return self.rank
        if self.rank != "auto":
            raise SettingError(f"`rank` must be an integer of at least 1 or 'auto', got {self.rank!r}.")
        observations = need_in_memory(observations, 'rank="auto"', "give `rank` as a number")
        longest = min(LONGEST, *observations.shape)
        loss = losses.get(loss)
        choice = choose_rank(observations, self._objective, solver, longest=longest, loss=loss, random_state=seed)
        self.path_ = choice
        return choice.best

    def _start(self) -> LowRankModel | None:
        """The model to go on from, if there is one and `warm_start` asks for it."""
        return self.__dict__.get("model_") if getattr(self, "warm_start", False) else None

    def _fitted(self) -> LowRankModel:
        if not hasattr(self, "model_"):
            raise Unfitted(f"This {type(self).__name__} is not fitted yet; call `fit` first.")
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
    takes 0.002 off the RMSE of MovieLens 1M and 0.003 off the MAE (docs/constants.md).
    """
    if not (isinstance(loss, str) and loss == "auto"):
        return loss
    facts = observations.target_facts()
    if facts.signs:
        return "logistic"
    return "square" if plain or facts.spread == 0 else losses.Huber(1.345 * facts.spread)
