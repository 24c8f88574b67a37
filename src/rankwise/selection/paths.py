"""The rank, or the ridge, chosen on entries held out from the training entries."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..losses import Loss
from ..objectives import Objective
from ..observations import Observations
from ..solvers import solve
from .splits import split_entries

log = logging.getLogger("rankwise")

HELD_OUT = 0.05
PATIENCE = 5
SAME = 0.1  # of a standard error: scores this close to the largest ridge's are those of no factors at all

Build = Callable[[Observations], Objective]


@dataclass(frozen=True)
class Choice:
    """A setting, and the validation scores that it was chosen by.

    Attributes
    ----------
    best : int or float
        The choice.
    settings : ndarray of shape (n,)
        Ranks or ridges tried.
    scores, deviations : ndarray of shape (n,)
        Mean loss on the held-out entries, and its standard error.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(80, 60, rank=2, density=0.5).observations
    >>> model = rw.MatrixCompletion("square", method="eglrl").fit(seen)  # rank="auto"
    >>> print(model.path_.best == model.model_.rank, model.path_.settings[:3])
    True [1 2 3]
    """

    best: Any
    settings: NDArray[Any]
    scores: NDArray[np.float64]
    deviations: NDArray[np.float64]

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns by name, ready for a data frame."""
        return {name: getattr(self, name).tolist() for name in ("settings", "scores", "deviations")}


class _Validation:
    """Mean loss and its standard error, remembered from step to step; weights count as repetition."""

    def __init__(self, loss: Loss, held_out: Observations) -> None:
        self.loss, self.weights, self.size = loss, held_out.weights, held_out.total_weight
        self.found: list[tuple[float, float]] = []

    def __call__(self, targets: NDArray[Any], predicted: NDArray[Any]) -> float:
        losses = self.loss.value(predicted, targets)
        mean = np.average(losses, weights=self.weights)
        variance = np.average((losses - mean) ** 2, weights=self.weights)
        self.found.append((float(mean), float(np.sqrt(variance / self.size))))
        return self.found[-1][0]

    def no_better(self, record: Any) -> bool:
        """Whether the last few steps brought nothing."""
        scores = [score for score, _ in self.found]
        return len(scores) - 1 - int(np.argmin(scores)) >= PATIENCE


def choose_rank(
    observations: Observations, build: Build, method: Any, *, longest: int, loss: Loss, random_state: int = 0
) -> Choice:
    """Smallest rank whose validation loss is within one standard error of the least.

    A twentieth of the entries is held out; the path is followed until five steps in a row bring nothing.

    Parameters
    ----------
    observations : Observations
    build : callable Observations -> Objective
    method : str or solver
        A pursuit.
    longest : int
        Largest rank to try.
    loss : Loss
        What the held-out entries are scored by.
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
    if not len(history):  # no step lowers the value: zero is as good as it gets
        return Choice(1, np.zeros(0, int), np.zeros(0), np.zeros(0))
    ranks = history.column("rank")
    scores, deviations = (np.array(column) for column in zip(*score.found, strict=True))
    least = int(np.argmin(scores))
    best = int(ranks[np.argmax(scores <= scores[least] + deviations[least])])
    return Choice(best, ranks, scores, deviations)


def choose_ridge(
    observations: Observations,
    build: Build,
    method: Callable[[float], Any],
    *,
    ridges: Sequence[float],
    rank: int,
    loss: Loss,
    max_iter: int | None = None,
    random_state: int = 0,
) -> Choice:
    """Ridge of least validation loss, from the largest down until the loss rises; a twentieth of the entries held out.

    Ridges that are too large for any factor have nearly the same loss, and a rise among them is none.

    Parameters
    ----------
    observations : Observations
    build : callable Observations -> Objective
    method : callable ridge -> solver
    ridges : sequence of float
        Falling.
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
    objective, found = build(train), []
    for ridge in ridges:
        score = _Validation(loss, held_out)
        result = solve(objective, method(ridge), rank=rank, max_iter=max_iter, random_state=random_state)
        score(held_out.targets, result.model.at(held_out.rows, held_out.cols))
        found.append((ridge, *score.found[0]))
        (_, first, error), last = found[0], found[-1][1]
        if len(found) > 1 and last > found[-2][1] and abs(last - first) > SAME * error:
            break
    tried, scores, deviations = (np.array(column) for column in zip(*found, strict=True))
    return Choice(float(tried[np.argmin(scores)]), tried, scores, deviations)
