"""Records of a run's steps, and the clock that times them."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, overload

import numpy as np

from .._arrays import Array


class StepReport(NamedTuple):
    """Report of one step of a solver to the loop.

    Attributes
    ----------
    sigma, norm, inner : float
        Top singular value of the gradient before the step, None if the solver does not compute it; its Frobenius norm
        and its inner product with X.
    n_products, n_evaluations : int
        Products with the gradient, and evaluations of f along a few directions.
    inner_rank : int
        Terms added; zero if no step lowers the value.
    value : float or None
        Value that the solver minimizes, if it is not f alone.
    settled : bool
        Whether a small change of the value may end the run.
    moving : str
        Reason to expect that more steps change the predictions, a clause for the status; empty if there is none.
    stop : tuple of str or None
        Reason and message if the solver wants to stop.
    gap : float or None
        Bound on how far the value is above the minimum, of solvers that have a better one than `Record.gap` describes.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.solvers.StepReport(n_products=61).inner_rank
    1
    """

    sigma: float | None = None
    norm: float = 0.0
    inner: float = 0.0
    n_products: int = 0
    n_evaluations: int = 0
    inner_rank: int = 1
    value: float | None = None
    settled: bool = True
    moving: str = ""
    stop: tuple[str, str] | None = None
    gap: float | None = None


@dataclass(frozen=True)
class Record:
    """One step.

    Attributes
    ----------
    step, rank : int
        Steps taken so far and rank reached.
    value : float
        Minimized value after the step: f(X), plus the penalty of solvers that have one.
    sigma : float or None
        Top singular value of the gradient before the step, as computed by the oracle; None, like `alignment` and
        `gap`, for solvers without an oracle.
    alignment : float or None
        The paper's gamma: sigma over the Frobenius norm of the gradient, between 1/sqrt(min(shape)) and 1,
        and clipped to that range where the norm has lost digits.
    gap : float or None
        Estimate of how far the value is above the least f(Y) over all matrices Y, of any rank, whose nuclear norm is
        at most sum(abs(theta)). It is <gradient, X> + sigma * sum(abs(theta)) before the step, minus the decrease of
        the step. A bound if sigma is the exact top singular value; iterative oracles approach sigma from below, which
        makes it an estimate. It does not bound matrices of larger nuclear norm, nor the error on held-out entries.
        For the convex problems of boosting, active subspace selection and Frank-Wolfe: the value minus the largest
        lower bound on the minimum that a dual point has given so far; None if the least loss is not known.
    wall_seconds, cpu_seconds : float
        Time since the start, without compilation and scoring; CPU time is summed over threads.
    n_products, n_evaluations : int
        Products with the gradient, and evaluations of f along a few directions, in this step.
    inner_rank : int
        Terms added in this step; more than one only in the nonsmooth pursuit, the paper's i_t.
    score : float or None
        Score on the held-out entries, if any.

    Examples
    --------
    >>> import rankwise as rw
    >>> steps = []
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> result = rw.solve(rw.Problem(seen, "square"), rank=2, callback=steps.append)
    >>> print(steps[0].step, steps[0].rank, steps[0].inner_rank)
    1 1 1
    """

    step: int
    rank: int
    value: float
    sigma: float | None
    alignment: float | None
    gap: float | None
    wall_seconds: float
    cpu_seconds: float
    n_products: int
    n_evaluations: int
    inner_rank: int = 1
    score: float | None = None


class History(Sequence[Record]):
    """The records of a run, and the value it started from.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> history = rw.solve(rw.Problem(seen, "square"), rank=3).history
    >>> print([record.rank for record in history])
    [1, 2, 3]
    >>> print(history[-1].value < history[0].value < history.initial_value)
    True
    """

    def __init__(self, initial_value: float, records: Sequence[Record] = ()) -> None:
        self.initial_value = initial_value
        self._records = list(records)

    def append(self, record: Record) -> None:
        """Add the record of the newest step."""
        self._records.append(record)

    def column(self, name: str) -> Array:
        """Return one field of all records, shape (n_steps,)."""
        return np.array([getattr(record, name) for record in self])

    def to_dict(self) -> dict[str, list[Any]]:
        """Return all fields as columns by name, for a data frame."""
        return {field.name: [getattr(record, field.name) for record in self] for field in fields(Record)}

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> "History": ...
    def __getitem__(self, index: int | slice) -> "Record | History":
        """Return one record, or a history of some steps."""
        if isinstance(index, slice):
            return History(self.initial_value, self._records[index])
        return self._records[index]

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self._records)

    def __repr__(self) -> str:
        """Return the number of steps, and the first and the last value."""
        last = f", value {self.initial_value:.6g} -> {self[-1].value:.6g}" if len(self) else ""
        return f"History({len(self)} steps{last})"


class Clock:
    """Wall and CPU seconds since its creation, without pauses, plus those of an earlier process."""

    def __init__(self, wall: float = 0.0, cpu: float = 0.0) -> None:
        self._wall, self._cpu = time.perf_counter() - wall, time.process_time() - cpu

    def read(self) -> tuple[float, float]:
        """Return wall and CPU seconds so far."""
        return time.perf_counter() - self._wall, time.process_time() - self._cpu

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Return a context whose duration does not count."""
        wall, cpu = self.read()
        try:
            yield
        finally:
            self._wall, self._cpu = time.perf_counter() - wall, time.process_time() - cpu
