"""Observed entries at the positions of a model, and those with the largest loss."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._arrays import Array
from .._errors import SettingError
from ..observations import Observations, need_in_memory
from .decoding import respond
from .ranking import check_count

if TYPE_CHECKING:
    from .low_rank import LowRankModel


class PlacedEntries(NamedTuple):
    """Observed entries at the row and column numbers of a model."""

    rows: Array  # (n,)
    cols: Array  # (n,)
    targets: Array  # (n,)
    weights: Array | None  # (n,)


class Residuals(NamedTuple):
    """Observed entries in falling order of their loss.

    Attributes
    ----------
    rows, cols : ndarray of shape (n,)
        Labels if there are labels, else numbers.
    targets : ndarray of shape (n,)
    predictions : ndarray of shape (n,)
        On the response scale: in the units of the targets; the probability of +1 under the logistic loss.
    losses : ndarray of shape (n,)
        Loss of each entry, not multiplied by its weight.
    """

    rows: Array
    cols: Array
    targets: Array
    predictions: Array
    losses: Array

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns by name, ready for a data frame."""
        return {name: part.tolist() for name, part in self._asdict().items()}


def entries_of(model: "LowRankModel", X: Any) -> PlacedEntries:
    """Entries of positive weight at the model's positions, matched by label if there are labels, else by number."""
    observations = need_in_memory(Observations.from_any(X), "Scoring", "give a sample of them as `Observations`")
    rows = model.row_index.align(observations.row_index)[observations.rows]
    cols = model.col_index.align(observations.col_index)[observations.cols]
    targets, weights = observations.targets.astype(np.float64), observations.weights
    if weights is None:
        return PlacedEntries(rows, cols, targets, None)
    used = weights > 0
    return PlacedEntries(rows[used], cols[used], targets[used], weights[used])


def most_unlikely(model: "LowRankModel", entries: PlacedEntries, n: Any) -> Residuals:
    """The `n` entries of largest loss; ties in the order of the entries. Costs O(rank n_observed)."""
    n = check_count(n)
    if model.loss is None:
        raise SettingError(
            "This model has no loss: files keep none made with `@rankwise.loss`, and models of clicks have none."
        )
    rows, cols, targets, _ = entries
    model.loss.check_targets(targets)
    linked = model.at(rows, cols)
    costs = model.loss.value(linked, targets)
    worst = np.argsort(-costs, kind="stable")[:n]
    labels = model.row_index.names[rows[worst]], model.col_index.names[cols[worst]]
    predictions = respond(model, linked[worst], rows[worst], cols[worst], sure=False)
    return Residuals(*labels, targets[worst], predictions, costs[worst])
