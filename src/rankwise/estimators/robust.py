"""`RobustFactorization`: low rank in the presence of outliers."""

import os
from typing import Any

from .. import losses
from .._errors import LossError
from ..losses import Loss
from ..objectives import Objective
from ..observations import Observations
from ..solvers import GreedyPursuit, NonsmoothPursuit
from .matrices import MatrixEstimator

ROBUST = (losses.Absolute, losses.Huber, losses.Quantile, losses.EpsilonInsensitive)


class RobustFactorization(MatrixEstimator):
    """Learn a low-rank matrix from entries of which some are grossly wrong.

    The l1, quantile and epsilon-insensitive losses are learned by the nonsmooth pursuit (Algorithm 3 of the paper),
    Huber by the smooth one.

    Parameters
    ----------
    loss : {"l1", "huber", "quantile", "epsilon-insensitive"} or Loss, default="l1"
        ``rankwise.losses.Quantile(0.9)``, ``rankwise.losses.Huber(0.5)`` and the like set their parameter.
    rank : int or "auto", default=10
        Largest rank; counts every rank-one term. "auto" chooses it on held-out entries, see `path_`.
    offsets : {"none", "global", "rows", "columns", "both"}, default="none"
        What is added to every prediction; fitted first, then left alone. Where that puts most entries at the corner of
        a nonsmooth loss (columns that are mostly one value), the pursuit hardly moves: see docs/robust.md.
    ridge : float, default=0
        Adds ``ridge / 2 * ||X||_F**2``.
    step : {"best", "paper"}, default="best"
        The best step along each direction, or the paper's diminishing one; for the nonsmooth losses.
    shrinkage : float, default=0.7
        Share of the best step that is taken.
    oracle, tol, time_limit, checkpoint, checkpoint_every, resume, dtype, n_jobs, calibration, random_state, verbose
        As in `MatrixCompletion`.

    Attributes
    ----------
    model_, theta_, U_, V_, offsets_, path_, history_, status_, observations_, n_features_in_
        As in `MatrixCompletion`. The model is the best iterate; later ones are on its path.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> planted = rw.datasets.corrupted(80, 60, rank=2, density=0.6, share=0.1)  # a tenth of the entries is thrown off
    >>> truth = planted.truth.to_dense()
    >>> robust = rw.RobustFactorization(rank=10).fit(planted.observations).reconstruct()
    >>> plain = rw.MatrixCompletion("square", rank=10, refine="coefficients").fit(planted.observations).reconstruct()
    >>> print(bool(np.abs(robust - truth).mean() < np.abs(plain - truth).mean()))
    True
    """

    def __init__(
        self,
        loss: str | Loss = "l1",
        rank: int | str = 10,
        *,
        offsets: str = "none",
        ridge: float = 0.0,
        step: str = "best",
        shrinkage: float = 0.7,
        oracle: Any = "power",
        tol: float | None = None,
        time_limit: float | None = None,
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
        self.offsets = offsets
        self.ridge = ridge
        self.step = step
        self.shrinkage = shrinkage
        self.oracle = oracle
        self.tol = tol
        self.time_limit = time_limit
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.resume = resume
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.calibration = calibration
        self.random_state = random_state
        self.verbose = verbose

    def _plan(self, observations: Observations, seed: int) -> tuple[Any, Any]:
        """Algorithm 3 for nonsmooth losses, Algorithm 2 for Huber."""
        if not isinstance(losses.get(self.loss), ROBUST):
            names = ", ".join(f'"{kind.name}"' for kind in ROBUST)
            raise LossError(f"RobustFactorization takes {names}, got {self.loss!r}; use MatrixCompletion for others.")
        nonsmooth = NonsmoothPursuit(self.step, shrinkage=self.shrinkage, oracle=self.oracle)
        solver = GreedyPursuit("economic", self.oracle) if losses.get(self.loss).smooth else nonsmooth
        return solver, self._pursued_rank(observations, solver, self.loss, seed)

    def _objective(self, observations: Observations) -> Objective:
        return self._pursued(observations, self.loss, self.offsets, self.ridge)
