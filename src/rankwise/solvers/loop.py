"""The loop that runs every solver: it counts, times, scores, stops, and returns the model with its path."""

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from .._checks import is_whole
from .._digests import checksum
from .._errors import DataError, SettingError
from ..model import LowRankModel, predict
from ..objectives import Objective
from ..observations import Observations
from .checkpoint import Checkpoints, opened
from .history import Clock, History, Record, StepReport
from .methods import get
from .resume import check_start
from .run import Run
from .stopping import Status, Stopping

log = logging.getLogger("rankwise")

Score = Callable[[NDArray[Any], NDArray[Any]], float]


@dataclass(frozen=True)
class Result:
    """What `solve` returns.

    Attributes
    ----------
    model : LowRankModel
    history : History
        One record per step.
    status : Status
        Why it stopped.
    compile_seconds : float
        Time spent compiling before the clock started; near zero once the kernels are cached.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> result = rw.solve(rw.Problem(seen, "square"), rank=2)
    >>> print(result.status.message)
    Reached rank 2.
    """

    model: LowRankModel
    history: History
    status: Status
    compile_seconds: float = 0.0


def solve(
    objective: Objective,
    method: Any = "eglrl",
    *,
    rank: int = 10,
    max_iter: int | None = None,
    tol: float | None = None,
    time_limit: float | None = None,
    callback: Callable[[Record], bool | None] | None = None,
    held_out: Observations | None = None,
    score: Score | None = None,
    random_state: int = 0,
    start: LowRankModel | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: int | None = None,
    resume: bool = False,
) -> Result:
    """Minimise an objective over matrices of rank at most `rank`, starting from zero or from a model.

    Parameters
    ----------
    objective : Objective
        A `Problem`, a `MultitaskRegression`, a `Ridged`, or your own.
    method : str or solver, default="eglrl"
        A name of `rankwise.solvers.METHODS` or an object such as `GreedyPursuit()`.
    rank : int, default=10
        Stop when the model has this many terms; solvers that do not grow work at this rank.
    max_iter : int, optional
        Stop after this many steps. The pursuits need no limit; the others have one of their own.
    tol : float, optional
        Stop when a step changes the value by less than this share of it. By default zero for the pursuits and 1e-4,
        as in the paper, for the others.
    time_limit : float, optional
        Stop after the step that passes this many seconds.
    callback : callable, optional
        Called with each step's `Record`; stops the run if it returns true.
    held_out : Observations, optional
        Entries to score after each step; the clock stands still meanwhile.
    score : callable (targets, predictions) -> float, optional
        Default: the mean loss, by weight if the entries have weights.
    random_state : int, default=0
        Step t draws from ``SeedSequence((random_state, t))``.
    start : LowRankModel, optional
        What to go on from. The sweeps take in new rows and columns, matched by label or number, and more rank; the
        pursuits go on to a higher rank; the others refuse.
    checkpoint : path, optional
        Folder to write checkpoints to while the run lasts, so that it can be gone on with if it is killed; the last two
        are kept. See docs/long-fits.md.
    every : int, optional
        Steps between two checkpoints; by default one is written every half minute or so, less often if writing takes
        more than a twentieth of the time.
    resume : bool, default=False
        Whether to go on from the last checkpoint in the folder, if there is one: the same fit, to the same bits. Data
        and settings must be what they were, but for `max_iter`, `tol`, `time_limit` and `callback`. Times in the
        history go on from where they were, and `time_limit` counts all of them.

    Returns
    -------
    Result

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> train, test = rw.selection.split_entries(seen, 0.2)
    >>> result = rw.solve(rw.Problem(train, "square"), "eglrl", rank=5, held_out=test)
    >>> print(result.status.reason, result.model.rank, len(result.history))
    rank 5 5
    """
    if not all(hasattr(objective, name) for name in ("point", "gradient", "along")):
        raise SettingError(
            f"`solve` needs an objective such as `Problem(observations, loss)`, got {type(objective).__name__}."
        )
    if start is not None:
        check_start(objective, start)
    solver = get(method, objective)
    tol = (0.0 if solver.grows else 1e-4) if tol is None else tol
    if max_iter is None:
        max_iter = solver.steps_from(start, rank)
    stopping = Stopping(rank, max_iter, tol, time_limit, callback, solver.grows)
    stopping.check()
    if not is_whole(random_state) or random_state < 0:
        raise SettingError(f"`random_state` must be an integer of at least zero, got {random_state!r}.")
    scorer = None if held_out is None else _Scorer(objective, held_out, score)
    checkpoints = opened(checkpoint, every, resume)
    try:
        with threadpool_limits(limits=1, user_api="blas"):  # BLAS changes bits with its number of threads
            if checkpoints is not None:
                checkpoints.is_of(
                    objective,
                    solver,
                    rank=int(rank),
                    random_state=int(random_state),
                    held_out=None if scorer is None else scorer.checksum(),
                    start=None if start is None else checksum(start.path, start.U, start.V).hex(),
                )
            compile_seconds = _rehearse(objective, solver)
            result = _run(objective, solver, stopping, scorer, int(random_state), start, checkpoints)
    finally:
        objective.close()
        if checkpoints is not None:
            checkpoints.close()
    return replace(result, compile_seconds=compile_seconds)


def _run(
    objective: Objective,
    solver: Any,
    stopping: Stopping,
    scorer: "_Scorer | None",
    seed: int,
    start: LowRankModel | None = None,
    checkpoints: Checkpoints | None = None,
) -> Result:
    clock = Clock()
    run = None if checkpoints is None else checkpoints.restored(objective, solver)
    if run is None:
        run = Run.begun(objective, solver, stopping.rank, start)
    else:
        clock = Clock(*run.seconds)
    status = run.ended(replace(stopping, callback=None))  # it may have ended before
    while status is None:
        with clock.paused():
            if checkpoints is not None:
                checkpoints.keep(run, clock.read())
        step = len(run.history) + 1
        report = solver.step(objective, np.random.default_rng((seed, run.first + step)), run.state)
        value = objective.value() if report.value is None else report.value
        status = _stuck(report, value, objective)
        if status is not None:
            break
        run.iterates.keep(value)
        record = _record(step, objective, report, value, run.previous, clock)
        with clock.paused():
            run.take(replace(record, score=None if scorer is None else scorer()), report)
            log.debug("step %d: value %.6g, %.3f s", step, value, record.wall_seconds)
            status = run.ended(stopping)
    else:
        if checkpoints is not None:
            checkpoints.keep(run, clock.read(), ended=True)
    diverged = status.reason == "diverged"  # then the state is that of the step that was not taken
    return Result(run.iterates.model({} if diverged else solver.finish(run.state)), run.history, status)


def _record(step: int, objective: Objective, report: StepReport, value: float, previous: float, clock: Clock) -> Record:
    alignment = gap = None
    if report.sigma is not None:
        bound = report.sigma * float(np.abs(objective.point.theta).sum())
        least = 1.0 / np.sqrt(min(objective.shape))  # the norm may have lost digits; its range is known
        alignment = float(np.clip(report.sigma / report.norm, least, 1.0))
        gap = max(report.inner + bound - (previous - value), 0.0)
    wall, cpu = clock.read()
    return Record(
        step=step,
        rank=objective.point.rank,
        value=value,
        sigma=report.sigma,
        alignment=alignment,
        gap=gap,
        wall_seconds=wall,
        cpu_seconds=cpu,
        n_products=report.n_products,
        n_evaluations=report.n_evaluations,
        inner_rank=report.inner_rank,
    )


def _stuck(report: StepReport, value: float, objective: Objective) -> Status | None:
    """Status if the step did not lead to a usable point."""
    at = f"at rank {objective.point.rank}"
    if not np.isfinite(value):
        return Status("diverged", f"The value is no longer finite {at}; the model is the one before that step.")
    if report.inner_rank > 0:
        return None
    if report.sigma == 0.0:
        return Status("optimal", f"The gradient is zero {at}: no matrix of any rank has a lower value.")
    return Status("no-descent", f"No step lowers the value {at}.")


def _mean_loss(loss: Any, weights: NDArray[Any] | None) -> Score:
    return lambda targets, predicted: float(np.average(loss.value(predicted, targets), weights=weights))


def _both_labelled(one: Observations, other: Observations) -> bool:
    """Return whether the rows of both, or the columns of both, have labels."""
    sides = (one.row_labels, other.row_labels), (one.col_labels, other.col_labels)
    return any(mine is not None and theirs is not None for mine, theirs in sides)


class _Scorer:
    """Scores the current point on held-out entries."""

    def __init__(self, objective: Objective, held_out: Observations, score: Score | None) -> None:
        if score is not None and not callable(score):
            raise SettingError(f"`score` must be a function of targets and predictions, got {score!r}.")
        held_out = Observations.from_any(held_out)
        entries = getattr(objective, "observations", None)
        if entries is not None and _both_labelled(held_out, entries):
            held_out = held_out.aligned(entries)
        if held_out.shape != objective.shape:
            raise DataError(f"`held_out` has shape {held_out.shape} but the problem has shape {objective.shape}.")
        loss = getattr(objective, "loss", None)
        if score is None and loss is None:
            raise SettingError(
                "This objective has no loss to score with; pass `score=`, a function of targets, predictions."
            )
        self.objective, self.rows, self.cols, self.targets = objective, held_out.rows, held_out.cols, held_out.targets
        self.weights = held_out.weights
        self.score: Score = _mean_loss(loss, held_out.weights) if score is None else score

    def checksum(self) -> str:
        """Tells whether these are the same entries."""
        return checksum(self.rows, self.cols, self.targets, self.weights).hex()

    def __call__(self) -> float:
        """Score of the current point."""
        predicted = predict(*self.objective.point.padded, self.rows, self.cols)
        offsets = getattr(self.objective, "offsets", None)
        predicted = predicted if offsets is None else predicted + offsets.at(self.rows, self.cols)
        return float(self.score(self.targets, predicted))


LONG = 1.0  # seconds of rehearsal from which it is compiling, and says so
_rehearsed: set[Any] = set()


def _rehearse(objective: Objective, solver: Any) -> float:
    """Run the solver on a tiny problem of the same kind, so that compiling stays outside the clock.

    Who waits for the compiler is told so, by a warning of the logger "rankwise", which Python shows by default.
    """
    kind = getattr(objective, "rehearsal", None)
    if kind is None:
        return 0.0
    key, small = kind()
    key = (key, type(solver), repr(solver))
    if key in _rehearsed:
        return 0.0
    start = time.perf_counter()
    words = "compiling kernels for this loss, once"
    told = threading.Timer(LONG, log.warning, [words], {"extra": {"phase": "compiling"}})
    told.daemon = True
    told.start()
    try:
        _run(small, solver, Stopping(2, max_iter=2), None, 0)
    finally:
        told.cancel()
    _rehearsed.add(key)
    return time.perf_counter() - start
