"""Choice of the rank or the ridge on validation entries."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from ..losses import Loss
from ..objectives import Objective
from ..observations import Observations
from ..solvers import Record, Solver, solve
from .splits import split_entries

log = logging.getLogger("rankwise")

HELD_OUT = 0.05
PATIENCE = 5
SAME = 0.1  # standard errors: scores this close to the largest ridge's count as those of no factors

Build = Callable[[Observations], Objective]


@dataclass(frozen=True)
class Choice:
    """A chosen rank or ridge, and the validation scores of all that were tried.

    Attributes
    ----------
    best : int or float
        The chosen one.
    settings : ndarray of shape (n,)
        Ranks or ridges tried.
    scores, deviations : ndarray of shape (n,)
        Mean loss on the validation entries, and its standard error.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(80, 60, rank=2, density=0.5).observations
    >>> model = rw.MatrixCompletion("square", method="eglrl").fit(seen)  # rank="auto"
    >>> print(model.path_.best == model.model_.rank, model.path_.settings[:3])
    True [1 2 3]
    """

    best: float
    settings: Array
    scores: NDArray[np.float64]
    deviations: NDArray[np.float64]

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns by name, for a data frame."""
        columns = {"settings": self.settings, "scores": self.scores, "deviations": self.deviations}
        return {name: column.tolist() for name, column in columns.items()}


class _Validation:
    """Mean loss on validation entries and its standard error, of every step; weights count as repetition."""

    def __init__(self, loss: Loss, held_out: Observations) -> None:
        self.loss, self.weights, self.size = loss, held_out.weights, held_out.total_weight
        self.scores: list[tuple[float, float]] = []

    def __call__(self, targets: Array, predicted: Array) -> float:
        losses = self.loss.value(predicted, targets)
        mean = np.average(losses, weights=self.weights)
        size = float(np.abs(losses).max()) or 1.0  # whose square float64 may not represent
        variance = np.average(((losses - mean) / size) ** 2, weights=self.weights)
        self.scores.append((float(mean), size * float(np.sqrt(variance / self.size))))
        return self.scores[-1][0]

    def no_better(self, record: Record) -> bool:
        """Return whether the last `PATIENCE` steps did not improve the score."""
        means = [mean for mean, _ in self.scores]
        return len(means) - 1 - int(np.argmin(means)) >= PATIENCE


def choose_rank(
    observations: Observations,
    build: Build,
    method: str | Solver[Any, Any],
    *,
    longest: int,
    loss: Loss,
    random_state: int = 0,
) -> Choice:
    """Choose the smallest rank whose validation loss is within one standard error of the minimum.

    A twentieth of the entries is held out; the path ends after five consecutive steps without improvement.

    Parameters
    ----------
    observations : Observations
    build : callable Observations -> Objective
    method : str or Solver
        A pursuit.
    longest : int
        Largest rank to try.
    loss : Loss
        Loss that scores the validation entries.
    random_state : int, default=0

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(80, 60, rank=2, density=0.5).observations
    >>> square = rw.losses.Square()
    >>> choice = rw.selection.choose_rank(seen, lambda part: rw.Problem(part, square), "eglrl", longest=8, loss=square)
    >>> print(choice.best)
    2
    """
    log.debug("choosing the rank on held-out entries", extra={"phase": "choosing"})
    train, held_out = split_entries(observations, HELD_OUT, random_state)
    score = _Validation(loss, held_out)
    history = solve(
        build(train),
        method,
        rank=longest,
        held_out=held_out,
        score=score,
        callback=score.no_better,
        random_state=random_state,
    ).history
    if not len(history):  # no step lowers the value
        return Choice(1, np.zeros(0, int), np.zeros(0), np.zeros(0))
    ranks = history.column("rank")
    scores, deviations = (np.array(column) for column in zip(*score.scores, strict=True))
    least = int(np.argmin(scores))
    best = int(ranks[np.argmax(scores <= scores[least] + deviations[least])])
    return Choice(best, ranks, scores, deviations)


def choose_ridge(
    observations: Observations,
    build: Build,
    method: Callable[[float], Solver[Any, Any]],
    *,
    ridges: Sequence[float],
    rank: int,
    loss: Loss,
    max_iter: int | None = None,
    random_state: int = 0,
) -> Choice:
    """Choose the ridge of least validation loss, trying them in descending order until the loss rises.

    A twentieth of the entries is held out. Ridges that are too large for any factor have nearly the same loss, and a
    rise among them does not end the search.

    Parameters
    ----------
    observations : Observations
    build : callable Observations -> Objective
    method : callable ridge -> solver
    ridges : sequence of float
        In descending order.
    rank : int
    loss : Loss
    max_iter : int, optional
        Sweeps of each fit.
    random_state : int, default=0

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> square, sweeps = rw.losses.Square(), lambda ridge: rw.solvers.FactorSweeps(ridge=ridge)
    >>> build = lambda part: rw.Problem(part, square)
    >>> choice = rw.selection.choose_ridge(seen, build, sweeps, ridges=[8.0, 4.0, 2.0, 1.0], rank=4, loss=square)
    >>> print(choice.best)
    1.0
    """
    log.debug("choosing the ridge on held-out entries", extra={"phase": "choosing"})
    train, held_out = split_entries(observations, HELD_OUT, random_state)
    objective, tried = build(train), []
    for ridge in ridges:
        score = _Validation(loss, held_out)
        result = solve(objective, method(ridge), rank=rank, max_iter=max_iter, random_state=random_state)
        score(held_out.targets, result.model.at(held_out.rows, held_out.cols))
        tried.append((ridge, *score.scores[0]))
        (_, first, error), last = tried[0], tried[-1][1]
        if len(tried) > 1 and last > tried[-2][1] and abs(last - first) > SAME * error:
            break
    settings, scores, deviations = (np.array(column) for column in zip(*tried, strict=True))
    return Choice(float(settings[np.argmin(scores)]), settings, scores, deviations)
