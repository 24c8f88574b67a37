"""Observed entries under the model's own numbers, and which of them it finds most unlikely."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._errors import DataError, SettingError
from ..losses.links import response
from ..observations import Observations
from .ranking import check_count

Array = NDArray[Any]


class Entries(NamedTuple):
    """Row and column numbers, targets and weights of observed entries."""

    rows: Array
    cols: Array
    targets: Array
    weights: Array | None


class Residuals(NamedTuple):
    """Observed entries, the most unlikely first.

    Attributes
    ----------
    rows, cols : ndarray of shape (n,)
        Labels, if there are labels, else numbers.
    targets : ndarray of shape (n,)
    predictions : ndarray of shape (n,)
        In the targets' units; the probability of +1 under the logistic loss.
    losses : ndarray of shape (n,)
        What the entry costs the model, for a weight of one.
    """

    rows: Array
    cols: Array
    targets: Array
    predictions: Array
    losses: Array

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns by name, ready for a data frame."""
        return {name: part.tolist() for name, part in self._asdict().items()}


def entries_of(model: Any, X: Any) -> Entries:
    """Entries of weight above zero, found by their labels if there are labels, else by number."""
    observations = Observations.from_any(X)
    rows, cols = _numbers(model, observations)
    targets, weights = observations.targets.astype(np.float64), observations.weights
    if weights is None:
        return Entries(rows, cols, targets, None)
    used = weights > 0
    return Entries(rows[used], cols[used], targets[used], weights[used])


def _numbers(model: Any, observations: Observations) -> tuple[Array, Array]:
    """The model's own numbers of the rows and columns of all entries."""
    rows, cols = observations.rows, observations.cols
    same = model.row_labels is observations.row_labels and model.col_labels is observations.col_labels
    if same and observations.shape == model.shape:
        return rows, cols
    names = []
    for which, own, labels, numbers in (
        ("row", model.row_labels, observations.row_labels, rows),
        ("column", model.col_labels, observations.col_labels, cols),
    ):
        if own is not None and labels is None:
            raise DataError(f"The {which}s of this model have labels and those of the entries do not; label them too.")
        names.append(numbers if labels is None else labels[numbers])
    found: tuple[Array, Array] = model.numbers(*names)
    return found


def most_unlikely(model: Any, entries: Entries, n: Any) -> Residuals:
    """The `n` entries of largest loss, O(rank n_observed); ties in the order of the entries."""
    n = check_count(n)
    if model.loss is None:
        raise SettingError("The loss of this model is not known: a loss made with `@rankwise.loss` is not in the file.")
    rows, cols, targets, _ = entries
    model.loss.check_targets(targets)
    predicted = model.at(rows, cols)
    costs = model.loss.value(predicted, targets)
    worst = np.argsort(-costs, kind="stable")[:n]
    rows_of, cols_of = (
        numbers[worst] if names is None else names[numbers[worst]]
        for names, numbers in ((model.row_labels, rows), (model.col_labels, cols))
    )
    return Residuals(rows_of, cols_of, targets[worst], response(model.link, predicted[worst]), costs[worst])
