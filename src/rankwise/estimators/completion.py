"""`MatrixCompletion`: the general estimator."""

import math
import os
from typing import Any

from .. import losses
from .._errors import SettingError
from ..kernels.lanes import padded
from ..losses import Loss
from ..losses.base import takes_signs
from ..objectives import Objective, Problem
from ..observations import Observations
from ..selection import choose_ridge
from ..solvers import METHODS, BayesSweeps, FactorSweeps, GreedyPursuit, get
from ..solvers.validation import need_in_memory
from .base import LowRankEstimator, loss_for
from .matrices import MatrixEstimator

REFINEMENTS = ("bayes", "factors", "coefficients", "economic", "none")
CAP = 31  # factors that the default has at most
MORE = 8  # factors that going on from a model may add
FADED = 0.1  # least effect, in standard deviations of the noise, of those it keeps
RIDGES = tuple(float(2**k) for k in range(7, -5, -1))


class Completion(LowRankEstimator):
    """Settings of `MatrixCompletion`, and the solver they ask for; shared with the estimators of pairs."""

    def __init__(
        self,
        loss: str | Loss = "auto",
        rank: int | str = "auto",
        *,
        refine: Any = "bayes",
        offsets: str = "auto",
        ridge: float | str | None = None,
        count_power: float = 0.0,
        pattern_prior: bool = True,
        shrinkage: float = 1.0,
        block: int | None = None,
        method: str | None = None,
        oracle: Any = "power",
        tol: float | None = None,
        max_iter: int | None = None,
        time_limit: float | None = None,
        warm_start: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int | None = None,
        resume: bool = False,
        dtype: Any = "float32",
        n_jobs: int | None = None,
        calibration: float = 0.0,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.rank = rank
        self.refine = refine
        self.offsets = offsets
        self.ridge = ridge
        self.count_power = count_power
        self.pattern_prior = pattern_prior
        self.shrinkage = shrinkage
        self.block = block
        self.method = method
        self.oracle = oracle
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.resume = resume
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.calibration = calibration
        self.random_state = random_state
        self.verbose = verbose

    def _plan(self, observations: Observations, seed: int) -> tuple[Any, Any]:
        """The named method, sweeps, or a pursuit with the asked refinement."""
        self._check_together()
        loss = loss_for(self.loss, observations, self._kind() != "bayes")
        if self._kind() == "bayes":
            return self._bayes(), self._cap(observations) if self.rank == "auto" else self.rank
        if self._kind() == "factors":
            return self._factors(observations, loss, seed)
        solver = self.method or GreedyPursuit(self.refine, self.oracle, self.shrinkage)
        fixed = self.method is not None and not METHODS.get(self.method, (get(self.method),))[0].grows
        if fixed and self.rank == "auto":
            raise SettingError(f"method={self.method!r} works at one rank: give `rank` as a number.")
        return solver, self._pursued_rank(observations, solver, loss, seed)

    def _cap(self, observations: Observations) -> int:
        """Factors that the entries may support; going on from a model, those it has and a few more at most."""
        start, most = self._start(), most_factors(observations)
        if start is None or start.learned is None:
            return most
        return max(start.learned.rank, min(most, start.learned.rank + MORE))

    def _objective(self, observations: Observations) -> Objective:
        loss = loss_for(self.loss, observations, self._kind() != "bayes")
        if self._kind() in ("bayes", "factors"):
            return Problem(observations, loss, dtype=self.dtype, n_jobs=self.n_jobs)
        offsets = "none" if self.offsets == "auto" or self.method is not None else self.offsets
        return self._pursued(observations, loss, offsets, 0.0 if self.ridge is None else self.ridge)

    def _kind(self) -> str:
        """One of "bayes", "factors" and "pursuit"."""
        if self.method in ("bayes", "factors"):
            return str(self.method)
        by_name = isinstance(self.refine, str) and self.method is None
        return self.refine if by_name and self.refine in ("bayes", "factors") else "pursuit"

    def _bayes(self) -> BayesSweeps:
        if self.ridge is not None:
            raise SettingError(
                f'refine="bayes" learns its ridge; leave out ridge={self.ridge!r}, or use refine="factors".'
            )
        return BayesSweeps(
            "both" if self.offsets == "auto" else self.offsets,
            self.block,
            pattern_prior=self.pattern_prior,
            least_effect=FADED if self.rank == "auto" else 0.0,
        )

    def _factors(self, observations: Observations, loss: Any, seed: int) -> tuple[Any, Any]:
        rank: Any = 16 if self.rank == "auto" else self.rank
        unit, per_offset = ridge_units(losses.get(loss), observations)

        def solver(ridge: Any) -> FactorSweeps:
            offsets = "both" if self.offsets == "auto" else self.offsets
            ridges = {"ridge": ridge, "offset_ridge": per_offset * FactorSweeps.offset_ridge}
            return FactorSweeps(offsets, self.block, count_power=self.count_power, **ridges)

        start = self._start()
        if start is not None and start.learned is not None and self.ridge in (None, "auto"):
            return solver(float(start.learned.rows.precisions[0])), rank  # chosen before
        if self.ridge is None or self.ridge == "auto":
            observations = need_in_memory(observations, 'ridge="auto"', "give `ridge` as a number")
            per_row = observations.n_observed / observations.shape[0]
            self.path_ = choose_ridge(
                observations,
                self._objective,
                solver,
                ridges=[unit * ridge / per_row**self.count_power for ridge in RIDGES],
                rank=rank,
                loss=losses.get(loss),
                max_iter=self.max_iter,
                random_state=seed,
            )
            return solver(self.path_.best), rank
        return solver(self.ridge), rank

    def _check_together(self) -> None:
        """Refuse settings that contradict each other."""
        if isinstance(self.refine, str) and self.refine not in REFINEMENTS:
            raise SettingError(f"Unknown refinement {self.refine!r}: use one of {', '.join(REFINEMENTS)}.")
        if self.method is not None and (self.refine != "bayes" or self.oracle != "power" or self.offsets != "auto"):
            raise SettingError(
                f"method={self.method!r} fixes the refinement, the oracle and the offsets; leave out `refine`, "
                "`oracle` and `offsets`, or leave out `method`."
            )
        if self._kind() == "pursuit" and self.block is not None:
            raise SettingError(
                f'`block` is for refine="bayes" and "factors"; leave out {self.block!r}, as the pursuits add one '
                "component at a time."
            )
        if self._kind() != "factors" and self.count_power != 0:
            raise SettingError(f'`count_power` is for refine="factors"; leave out {self.count_power!r}.')
        for name, usual in (("oracle", "power"), ("shrinkage", 1.0)):
            given = getattr(self, name)
            if given != usual and (self._kind() != "pursuit" or self.method is not None):
                raise SettingError(
                    f'`{name}` is for refine="coefficients", "economic" and "none"; leave out {given!r}, or choose one '
                    "of these."
                )


class MatrixCompletion(MatrixEstimator, Completion):
    """Learn a matrix from some of its entries: offsets of rows and columns, and a low-rank part.

    With nothing set, everything is learned: the offsets, the factors, how far each is to be trusted, and the noise.

    Parameters
    ----------
    loss : str or Loss, default="auto"
        "square", "logistic" (targets -1 and +1), "huber", "squared-hinge", "smooth-hinge", "poisson", "l1",
        "quantile", "hinge", "epsilon-insensitive", an object of `rankwise.losses`, or your own made with
        `@rankwise.loss`. "auto" is logistic for targets of -1 and +1; for others Huber's, linear
        from 1.345 standard deviations of the targets on, with refine="bayes", and square without.
    rank : int or "auto", default="auto"
        Largest rank. For refine="bayes" components that the data does not support fade out. "auto" starts there with
        about as many as rows or columns, whichever there are more of, have entries on average, at least 7 and at most
        31, and leaves out those that come to move no prediction by a tenth of the noise's standard deviation; it is 16
        for "factors", and chosen on held-out entries for the pursuits, see `path_`.
    refine : {"bayes", "factors", "coefficients", "economic", "none"}, default="bayes"
        "bayes": sweeps over rows and columns, the ridge and the noise learned. "factors": the same with a given ridge.
        The others are the paper's pursuits, one rank at a time: all coefficients refitted when a rank joins, two
        numbers, or nothing; the first two need a smooth loss.
    offsets : {"auto", "both", "rows", "columns", "global", "none"}, default="auto"
        What is added to every prediction. "auto" is "both" for "bayes" and "factors", and "none", as in the paper, for
        the pursuits, which leave the offsets alone once they are fitted.
    ridge : float or "auto", optional
        Of the factors, for refine="factors": "auto" (the default) chooses it on held-out entries. For the pursuits,
        ``ridge / 2 * ||X||_F**2`` is added. Learned by "bayes".
    count_power : float, default=0
        For refine="factors": the ridge of a row with n entries is ``ridge * n**count_power``; 1 is a ridge per entry.
    pattern_prior : bool, default=True
        For "bayes": whether *which* entries a row has says something of its factors.
    shrinkage : float, default=1
        For the pursuits: share of every step that is taken, as in boosting.
    block : int, optional
        For "bayes" and "factors": components that start together, from one gradient; all of them by default.
    method : str, optional
        A method by name instead of all the above but `loss`, `rank` and a pursuit's `ridge`: "bayes" (the default's
        name), or a method of the paper such as "eglrl", "glrl", "r1mp", "altmin"; `rankwise methods` lists them.
    oracle : {"power", "lanczos", "dense"} or oracle object, default="power"
        How the pursuits find a top singular pair; "power" is the paper's 30 power iterations.
    tol : float, optional
        Stop early when a step changes the value by less than this share of it.
    max_iter : int, optional
        Sweeps of "bayes" and "factors"; 10 by default.
    time_limit : float, optional
        Stop after this many seconds.
    warm_start : bool, default=False
        Whether `fit` goes on from the model of the fit before: with more entries, rows and columns, matched by label or
        number, or at a higher rank. The pursuits go on to a higher rank only.
    checkpoint : path, optional
        Folder to write checkpoints to while the fit lasts; see docs/long-fits.md.
    checkpoint_every : int, optional
        Steps between two checkpoints; by default one is written every half minute or so.
    resume : bool, default=False
        Whether `fit` goes on from the last checkpoint in the folder, if there is one. It ends with the same bits as a
        fit that was never stopped; data and settings must be what they were, but for `max_iter`, `tol`, `time_limit`,
        `n_jobs` and `verbose`. A rank or ridge that is "auto" is chosen again, which gives the same one.
    dtype : {"float32", "float64"}, default="float32"
    n_jobs : int, optional
        Threads; None means all usable cores. Results do not depend on it.
    calibration : float, default=0
        Share of the entries that `fit` keeps for `predict_interval` instead of learning from them, such as 0.1. Two
        more fits are then tried, by quantiles; `calibrate` can be told not to.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the start; None means 0, so that fits repeat.
    verbose : {0, 1}, default=0
        1 writes a line per step to standard error; in a notebook, it shows a bar instead.

    Attributes
    ----------
    model_ : LowRankModel
    theta_, U_, V_ : ndarray
        Coefficients and unit factors at the model's rank.
    offsets_ : Offsets or None
    path_ : Choice
        Validation scores of the ranks (or ridges) tried, where one was to be chosen.
    history_ : History
        One record per step: rank reached, value, sigma, times.
    status_ : Status
        Why the fit stopped.
    observations_ : Observations
        The entries that were learned from, for `residuals` and `calibrate`; the same object, not a copy, if
        Observations were given. Not kept in a pickle.
    n_features_in_ : int
        Number of columns.
    n_iter_ : int
        Number of steps.
    feature_names_in_ : ndarray
        Names of the columns, if `fit` got a data frame that is the matrix.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> nan = np.nan
    >>> X = np.array([[1, 2, 3, nan], [2, 4, nan, 8], [3, nan, 9, 12], [nan, 8, 12, 16.0]])  # one times table
    >>> model = rw.MatrixCompletion("square", rank=1, refine="factors", ridge=0.01, offsets="none").fit(X)
    >>> model.predict_entries([0, 3], [3, 0]).round(1)
    array([4., 4.])

    Labels come from data frames, and recommendations are labels, too:

    >>> import pandas as pd
    >>> stars = pd.DataFrame({"who": list("aabbcc"), "film": list("xyxzyz"), "stars": [5, 1, 4, 5, 2, 4]})
    >>> model = rw.MatrixCompletion(rank=1).fit(stars, row="who", col="film", value="stars")
    >>> films, scores = model.recommend("a", 1)
    >>> print(films)
    ['z']
    """


def ridge_units(loss: Loss, observations: Observations) -> tuple[float, float]:
    """What ridges of factors and of offsets are in, so that fits do not depend on the unit of the targets.

    With u for their spread, to a power of two: squared factors grow as u and squared offsets as its square, and so
    does a loss like the square; the piecewise-linear ones grow as u.
    """
    if takes_signs(loss) or loss.link != "identity" or not (loss.piecewise_linear or loss.lipschitz):
        return 1.0, 1.0
    spread = observations.target_facts().spread
    unit = 1.0 if spread == 0 else 2.0 ** round(math.log2(spread))
    return (1.0, 1.0 / unit) if loss.piecewise_linear else (unit, 1.0)


def most_factors(observations: Observations) -> int:
    """About as many as a row, or a column if there are more of them, has entries on average; at most 31.

    With the offset they fill whole SIMD registers, of eight numbers each.
    """
    per_row = observations.n_observed // max(observations.shape)
    return min(CAP, padded(max(per_row, 1)) - 1)
