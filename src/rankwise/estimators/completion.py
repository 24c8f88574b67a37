"""`MatrixCompletion`: the general estimator."""

from typing import Any

from .._errors import SettingError
from ..losses import Loss
from ..objectives import Objective
from ..solvers import GreedyPursuit, NonsmoothPursuit
from .base import LowRankEstimator


class MatrixCompletion(LowRankEstimator):
    """Learn a low-rank matrix from some of its entries, one rank at a time.

    Parameters
    ----------
    loss : str or Loss, default="square"
        "square", "logistic" (targets -1 and +1), "huber", "squared-hinge", "smooth-hinge", "poisson", "l1",
        "quantile", "hinge", "epsilon-insensitive", an object of `rankwise.losses`, or your own made with
        `@rankwise.loss`.
    rank : int, default=10
        Largest rank; every smaller one is kept on the path.
    refine : {"auto", "none", "economic", "coefficients"}, default="auto"
        What is refitted when a rank joins: nothing, two numbers, or all coefficients; the last two need a smooth
        loss. "auto" is "economic" for smooth losses and the nonsmooth pursuit for others.
    offsets : {"none"}, default="none"
        Row and column offsets; this version has none.
    ridge : float, default=0
        Adds ``ridge / 2 * ||X||_F**2``.
    method : str, optional
        A method of the paper by name instead of `refine`: "r1mp", "r1mp-economic", "glrl", "eglrl", "glrl-none",
        "glrl-nonsmooth".
    oracle : {"power", "lanczos", "dense"} or oracle object, default="power"
        How the top singular pair is found; "power" is the paper's 30 power iterations.
    tol : float, optional
        Stop early when a step changes the value by less than this share of it.
    time_limit : float, optional
        Stop after this many seconds.
    dtype : {"float32", "float64"}, default="float32"
    n_jobs : int, optional
        Threads; None means all usable cores. Results do not depend on it.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the oracle's start vectors; None means 0, so that fits repeat.

    Attributes
    ----------
    model_ : LowRankModel
    theta_, U_, V_ : ndarray
        Coefficients and unit factors at the model's rank.
    history_ : History
        One record per step: rank reached, value, sigma, times.
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
        tol: float | None = None,
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

    def _solver(self, objective: Objective) -> Any:
        """The named method, or a pursuit with the asked refinement."""
        if self.method is not None:
            if self.refine != "auto" or self.oracle != "power":
                raise SettingError(
                    f"method={self.method!r} fixes the refinement and the oracle; leave out `refine` and `oracle`, "
                    "or leave out `method`."
                )
            return self.method
        if self.refine == "auto" and not objective.smooth:
            return NonsmoothPursuit(oracle=self.oracle)
        return GreedyPursuit("economic" if self.refine == "auto" else self.refine, self.oracle)
