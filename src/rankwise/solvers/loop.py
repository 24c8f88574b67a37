"""The loop that runs every solver: it counts, times, scores, writes checkpoints, stops, and returns the model."""

import gc
import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from .._arrays import Array
from .._checks import is_whole
from .._digests import checksum
from .._errors import DataError, SettingError
from ..engines import LinesLost
from ..losses import Loss
from ..model import LowRankModel, predict
from ..model.units import original_model, stored_model
from ..objectives import Entrywise, Movable, Objective, Rehearsable
from ..observations import AnyEntries, Observations, need_in_memory
from .base import Solver
from .checkpoint import AnyCheckpoint, CheckpointFolder, opened
from .history import Clock, History, Record, StepReport
from .methods import get
from .resume import check_start
from .run import Run
from .stopping import Status, Stopping
from .units import OriginalUnits, in_own_units, units_of

log = logging.getLogger("rankwise")

MOST_REPEATS = 20  # of a run whose factors were lost with the workers of a cluster
ScoreFunction = Callable[[Array, Array], float]  # of targets and predictions


@dataclass(frozen=True)
class Result:
    """Outcome of `solve`.

    Attributes
    ----------
    model : LowRankModel
    history : History
        One record per step.
    status : Status
        Why the run stopped.
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
    method: str | Solver[Any, Any] = "eglrl",
    *,
    rank: int = 10,
    max_iter: int | None = None,
    tol: float | None = None,
    time_limit: float | None = None,
    callback: Callable[[Record], bool | None] | None = None,
    held_out: Observations | None = None,
    score: ScoreFunction | None = None,
    random_state: int = 0,
    start: LowRankModel | None = None,
    checkpoint: AnyCheckpoint = None,
) -> Result:
    """Minimize an objective over matrices of rank at most `rank`, starting from zero or from a model.

    Parameters
    ----------
    objective : Objective
        A `Problem`, a `MultitaskRegression`, a `Ridged`, or your own.
    method : str or Solver, default="eglrl"
        A name in `rankwise.solvers.METHODS`, a solver such as `GreedyPursuit()`, or an instance of your own subclass of
        `rankwise.solvers.Solver`.
    rank : int, default=10
        Stop when the model has this many terms; solvers that do not grow work at this rank.
    max_iter : int, optional
        Largest number of steps. By default the solver's own limit; the pursuits have none.
    tol : float, optional
        Stop when a step changes the value by less than this fraction of it. By default zero for the pursuits and 1e-4,
        as in the paper, for the others.
    time_limit : float, optional
        Stop after the step that exceeds this many seconds.
    callback : callable, optional
        Called with each step's `Record`; stops the run if it returns true.
    held_out : Observations, optional
        Validation entries, scored after each step; the time this takes does not count.
    score : callable (targets, predictions) -> float, optional
        Score of the validation entries. Default: the mean loss, weighted if the entries have weights.
    random_state : int, default=0
        Step t draws from ``SeedSequence((random_state, t))``.
    start : LowRankModel, optional
        Model of a warm start. The sweeps accept new rows and columns, matched by label or number, and a higher rank;
        the pursuits continue to a higher rank; the other solvers cannot be warm-started.
    checkpoint : path or Checkpoint, optional
        Folder in which checkpoints are stored during the run, or a `Checkpoint` with a folder, an interval, and whether
        to resume. Times in the history of a resumed run include those of the earlier one, and so does `time_limit`. See
        docs/long-fits.md.

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
    solver = get(method, objective)
    if start is not None:
        check_start(objective, start)
    given, objective = objective, in_own_units(objective, solver)
    units, solver = units_of(objective), solver.in_units(units_of(objective))
    start = None if start is None else stored_model(start, units)
    original = OriginalUnits(objective, solver)
    tol = (0.0 if solver.grows else 1e-4) if tol is None else tol
    most = 0
    if max_iter is None and start is None:
        solver, most = solver.open_ended(), solver.most_steps
    max_iter = solver.steps_from(start, rank) if max_iter is None else max_iter
    zero = solver.value_at_zero(objective)
    once = _each_step_once(original.callback(callback))
    stopping = Stopping(rank, max_iter, tol, time_limit, once, solver.grows, most, zero)
    stopping.check()
    if not is_whole(random_state) or random_state < 0:
        raise SettingError(f"`random_state` must be a non-negative integer, got {random_state!r}.")
    scorer = None if held_out is None else _Scorer(objective, held_out, score)
    try:
        # results of BLAS depend on its number of threads
        with opened(checkpoint) as folder, threadpool_limits(limits=1, user_api="blas"):
            if folder is not None:
                folder.identify(
                    objective,
                    solver,
                    rank=int(rank),
                    random_state=int(random_state),
                    held_out=None if scorer is None else scorer.checksum(),
                    start=None if start is None else checksum(start.path, start.U, start.V).hex(),
                )
            compile_seconds = _rehearse(objective, solver)
            run = partial(_run, objective, solver, stopping, scorer, int(random_state), start, folder)
            result = _repeated(run, "the first step" if folder is None else "its last checkpoint")
    finally:
        objective.close()
    model = original_model(result.model, units)
    if given is not objective and isinstance(given, Movable):
        given.move(model.theta, model.U[:, : model.rank], model.V[:, : model.rank])
    return Result(model, original.history(result.history), result.status, compile_seconds)


def _repeated(run: Callable[[], Result], begin: str) -> Result:
    """Run a solver, again if workers are lost with the factors that they keep; steps are repeated bit by bit."""
    for _ in range(MOST_REPEATS):
        try:
            return run()
        except LinesLost as error:
            log.warning("%s The fit is repeated from %s.", error, begin)
    return run()


def _each_step_once(callback: Callable[[Record], Any] | None) -> Callable[[Record], Any] | None:
    """Return the callback without calls for steps that are repeated."""
    if not callable(callback):
        return callback
    n_reported = 0

    def called(record: Record) -> Any:
        nonlocal n_reported
        if record.step <= n_reported:
            return None
        n_reported = record.step
        return callback(record)

    return called


def _run(
    objective: Objective,
    solver: Solver[Any, Any],
    stopping: Stopping,
    scorer: "_Scorer | None",
    seed: int,
    start: LowRankModel | None = None,
    folder: CheckpointFolder | None = None,
) -> Result:
    """Run the solver from its start, or from the last checkpoint, until it stops."""
    clock = Clock()
    run = None if folder is None else folder.restored(objective, solver)
    if run is None:
        run = Run.begun(objective, solver, stopping.rank, start)
    else:
        clock = Clock(*run.seconds)
    status = run.ended(replace(stopping, callback=None))  # a restored run may have ended already
    while status is None:
        with clock.paused():
            if folder is not None:
                folder.write(run, clock.read())
        step = len(run.history) + 1
        report = solver.step(objective, np.random.default_rng((seed, run.first + step)), run.state)
        value = objective.value() if report.value is None else report.value
        status = _stuck(report, value, objective)
        if status is not None:
            break
        run.iterates.append(value)
        record = _record(step, objective, report, value, run.previous, clock)
        with clock.paused():
            run.append(replace(record, score=None if scorer is None else scorer()), report)
            log.debug("step %d: value %.6g, %.3f s", step, value, record.wall_seconds)
            status = run.ended(stopping)
    else:
        if folder is not None:
            folder.write(run, clock.read(), ended=True)
    if status.reason == "diverged":  # then the state is that of the rejected step
        return Result(run.iterates.model({}), run.history, status)
    if solver.complete(objective, run.state):
        run.iterates.replace_last()
    model = run.iterates.model(solver.finish(run.state))
    return Result(model, run.history, _with_rank(status, max(stopping.rank, solver.most_rank), objective, model))


def _record(step: int, objective: Objective, report: StepReport, value: float, previous: float, clock: Clock) -> Record:
    """Return the record of a step, with the paper's alignment and a duality gap if the solver reports sigma."""
    alignment, gap = None, report.gap
    if report.sigma is not None:
        bound = report.sigma * float(np.abs(objective.point.theta).sum())
        least = 1.0 / np.sqrt(min(objective.shape))  # the norm may have lost digits; the range is known
        alignment = float(np.clip(report.sigma / report.norm, least, 1.0))
        if gap is None and report.value is None:
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
    """Return the status of a run whose step did not lead to a usable point; None if it did."""
    at = f"at rank {objective.point.rank}"
    if not np.isfinite(value):
        return Status("diverged", f"The value is no longer finite {at}; the model is the one before that step.")
    if report.inner_rank > 0:
        return None
    if report.sigma == 0.0:
        return Status("optimal", f"The gradient is zero {at}: no matrix of any rank has a lower value.")
    return Status("no-descent", f"No step lowers the value {at}.")


def _with_rank(status: Status, rank: int, objective: Objective, model: LowRankModel) -> Status:
    """Return the status, extended by why the model's rank is not the requested one."""
    message, reached, most = status.message, objective.point.rank, min(objective.shape)
    if rank > most:
        message += f" `rank`={rank} is above {most}, the smaller side of the matrix."
    if reached > model.longest:
        n_left_out = reached - model.longest
        message += f" {n_left_out} components without effect were left out: the model has rank {model.longest}."
    if model.longest > rank:
        message += f" The model has rank {model.longest}: this method does not keep it at `rank`={rank}."
    return replace(status, message=message)


def _mean_loss(loss: Loss, weights: Array | None) -> ScoreFunction:
    return lambda targets, predicted: float(np.average(loss.value(predicted, targets), weights=weights))


def _both_labelled(one: Observations, other: AnyEntries) -> bool:
    """Return whether the rows of both, or the columns of both, have labels."""
    sides = (one.row_labels, other.row_labels), (one.col_labels, other.col_labels)
    return any(first is not None and second is not None for first, second in sides)


class _Scorer:
    """Scores the current point on validation entries."""

    def __init__(self, objective: Objective, held_out: Observations, score: ScoreFunction | None) -> None:
        if score is not None and not callable(score):
            raise SettingError(f"`score` must be a function of targets and predictions, got {score!r}.")
        held_out = need_in_memory(Observations.from_any(held_out), "`held_out`", "give a sample as `Observations`")
        if isinstance(objective, Entrywise) and _both_labelled(held_out, objective.observations):
            held_out = held_out.aligned(objective.observations)
        if held_out.shape != objective.shape:
            raise DataError(
                f"`held_out` must have the shape of the objective, {objective.shape}, got {held_out.shape}."
            )
        if score is None:
            if not isinstance(objective, Entrywise):
                raise SettingError(
                    f"{type(objective).__name__} has no loss to score with; give `score`, a function of targets and "
                    "predictions."
                )
            score = _mean_loss(objective.loss.original, held_out.weights)
        self.objective, self.score = objective, score
        self.rows, self.cols, self.targets = held_out.rows, held_out.cols, held_out.targets
        self.weights = held_out.weights

    def checksum(self) -> str:
        """Return a checksum that identifies the validation entries."""
        return checksum(self.rows, self.cols, self.targets, self.weights).hex()

    def __call__(self) -> float:
        """Return the score of the current point."""
        predicted = predict(*self.objective.point.padded, self.rows, self.cols)
        offsets = self.objective.offsets if isinstance(self.objective, Entrywise) else None
        predicted = predicted if offsets is None else predicted + offsets.at(self.rows, self.cols)
        return float(self.score(self.targets, units_of(self.objective).original(predicted)))


SLOW_REHEARSAL = 1.0  # seconds of rehearsal after which a warning says that kernels are being compiled
COMPILING = "rankwise compiles kernels, once for each loss and method: 2 to 8 s on a quiet machine"  # bench_compile
_rehearsed: set[Hashable] = set()


@cache
def _announce() -> None:
    """Log that kernels are compiled; once per process, since the text holds for later fits too."""
    log.warning(COMPILING, extra={"phase": "compiling"})


def _rehearse(objective: Objective, solver: Solver[Any, Any]) -> float:
    """Run the solver on a tiny objective of the same kind, so that compilation does not count as solving time.

    The first long compilation of a process is reported by a warning of the logger "rankwise", which Python shows by
    default. Returns the seconds it took.
    """
    if not isinstance(objective, Rehearsable):
        return 0.0
    code, small = objective.rehearsal()
    key = (code, type(solver), repr(solver))
    if key in _rehearsed:
        return 0.0
    start = time.perf_counter()
    warning = threading.Timer(SLOW_REHEARSAL, _announce)
    warning.daemon = True
    warning.start()
    try:
        with _garbage_kept():
            _run(small, solver, Stopping(2, max_iter=2), None, 0)
    finally:
        warning.cancel()
    _rehearsed.add(key)
    return time.perf_counter() - start


@contextmanager
def _garbage_kept() -> Iterator[None]:
    """Pause the garbage collector, which took an eighth of the time to compile the default; costs 50 MB."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
