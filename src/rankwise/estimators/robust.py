"""`RobustFactorization`: matrix completion in the presence of outliers."""

import os
from typing import Any, ClassVar

from numpy.typing import DTypeLike

from .. import losses
from .._errors import LossError
from ..losses import Loss
from ..model import Everywhere
from ..observations import AnyEntries
from ..solvers import BayesSweeps, Checkpoint
from .base import RandomState
from .completion import MatrixCompletion
from .planning import MAX_FACTORS, Method

GROWING, SWEEPS = 10, 15  # sweeps in which the default method adds components, and all of its sweeps
ROBUST = (losses.Absolute, losses.Huber, losses.Quantile, losses.EpsilonInsensitive)


class RobustFactorization(MatrixCompletion):
    """Learn a low-rank matrix from entries of which some are gross errors.

    `MatrixCompletion` with a robust loss, and sweeps that start from the offsets and add one component at a time.
    Outliers that move together, such as a person in a video, look like a component of their own if all components
    start at once.

    Parameters
    ----------
    loss : {"l1", "huber", "quantile", "epsilon-insensitive"} or Loss, default="l1"
        ``rankwise.losses.Quantile(0.9)``, ``rankwise.losses.Huber(0.5)`` and so on set its parameter.
    rank : int or "auto", default=10
        Largest number of components; "auto" as in `MatrixCompletion`.
    method : "auto", str or solver object, default="auto"
        "auto" is ``BayesSweeps(block=1, max_iter=15)``, with larger blocks for ranks above 10. Else as in
        `MatrixCompletion`, such as the paper's Algorithm 3, "glrl-nonsmooth".
    offsets : {"auto", "both", "rows", "columns", "global", "none"}, default="auto"
        Offsets added to every prediction; "auto" is "both" for the default method and "global" for the pursuits.
        Offsets that put most entries at a kink of a nonsmooth loss, as with columns that are mostly one value, stall a
        pursuit: see docs/robust.md.
    ridge, everywhere, max_iter, tol, time_limit, warm_start, checkpoint
        As in `MatrixCompletion`.
    calibration, dtype, n_jobs, random_state, verbose
        As in `MatrixCompletion`.

    Attributes
    ----------
    model_, theta_, U_, V_, offsets_, path_, history_, status_, observations_, n_features_in_, n_iter_
        As in `MatrixCompletion`.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> planted = rw.datasets.corrupted(80, 60, rank=2, density=0.6, share=0.1)  # a tenth of the entries is wrong
    >>> truth = planted.truth.to_dense()
    >>> robust = rw.RobustFactorization(rank=10).fit(planted.observations).reconstruct()
    >>> plain = rw.MatrixCompletion("square", rank=10, method="glrl").fit(planted.observations).reconstruct()
    >>> print(bool(np.abs(robust - truth).mean() < np.abs(plain - truth).mean()))
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = MatrixCompletion._parameter_constraints

    def __init__(
        self,
        loss: str | Loss = "l1",
        rank: int | str = 10,
        *,
        method: Method = "auto",
        offsets: str = "auto",
        ridge: float | str | None = None,
        everywhere: Everywhere | None = None,
        max_iter: int | None = None,
        tol: float | None = None,
        time_limit: float | None = None,
        warm_start: bool = False,
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
        calibration: float = 0.0,
        dtype: DTypeLike = "float32",
        n_jobs: int | None = -1,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            loss,
            rank,
            method=method,
            offsets=offsets,
            ridge=ridge,
            everywhere=everywhere,
            max_iter=max_iter,
            tol=tol,
            time_limit=time_limit,
            warm_start=warm_start,
            checkpoint=checkpoint,
            calibration=calibration,
            dtype=dtype,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )

    def _resolved(self, entries: AnyEntries) -> tuple[Loss, Method]:
        """Loss and method of this fit; raise `LossError` unless the loss is robust."""
        loss = losses.get(self.loss)
        if not isinstance(loss, ROBUST):
            names = ", ".join(f'"{kind.name}"' for kind in ROBUST)
            raise LossError(f"`loss` must be one of {names}, got {self.loss!r}; use MatrixCompletion for others.")
        if not (isinstance(self.method, str) and self.method == "auto"):
            return loss, self.method
        rank = MAX_FACTORS if isinstance(self.rank, str) else self.rank
        return loss, BayesSweeps(block=max(1, -(-rank // GROWING)), max_iter=SWEEPS)
