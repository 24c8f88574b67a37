"""The scores of the tables: how they are computed, and how they are shown."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import selection

Function = Callable[[Any, Any], float]


@dataclass(frozen=True)
class Score:
    """A function of targets and predictions, and how its results are shown.

    Attributes
    ----------
    label : str
        With units.
    function : callable (targets, predicted) -> float
    digits : int
        Shown after the point.
    higher : bool
        Whether more is better.
    scale : float
        Results are shown as multiples of this.
    in_units : bool
        Whether the result is turned back from standardised units to those of the data.
    """

    label: str
    function: Function
    digits: int
    higher: bool
    scale: float = 1.0
    in_units: bool = False

    def __call__(self, targets: Any, predicted: Any, unit: float = 1.0) -> float:
        """Score as shown; `unit` is the size of a standardised unit in those of the data."""
        return self.function(targets, predicted) / self.scale * (unit if self.in_units else 1.0)


SCORES = {
    "accuracy": Score("accuracy, %", selection.sign_accuracy, 2, higher=True, scale=0.01),
    "auc": Score("AUC", selection.auc, 4, higher=True),
    "macro-f1": Score("macro-F1", selection.macro_f1, 4, higher=True),
    "mabs": Score("MABS, standardised", selection.mean_absolute_error, 4, higher=False),
    "mabs-stars": Score("MABS, stars", selection.mean_absolute_error, 4, higher=False, in_units=True),
}
