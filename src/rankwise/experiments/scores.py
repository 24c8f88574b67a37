"""Scores of the tables: their functions, units and number of decimals."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import selection


@dataclass(frozen=True)
class TableScore:
    """A function of targets and predictions, and the format of its values in a table.

    Attributes
    ----------
    label : str
        Name with its unit.
    function : callable (targets, predicted) -> float
    digits : int
        Number of decimals.
    higher : bool
        Whether higher is better.
    scale : float
        Values are shown as multiples of this.
    in_units : bool
        Whether values are converted from standardized units to the units of the data.
    """

    label: str
    function: Callable[[Any, Any], float]
    digits: int
    higher: bool
    scale: float = 1.0
    in_units: bool = False

    def __call__(self, targets: Any, predicted: Any, unit: float = 1.0) -> float:
        """Return the score as the table shows it; `unit` is the size of a standardized unit in units of the data."""
        return self.function(targets, predicted) / self.scale * (unit if self.in_units else 1.0)


SCORES = {
    "accuracy": TableScore("accuracy, %", selection.sign_accuracy, 2, higher=True, scale=0.01),
    "auc": TableScore("AUC", selection.auc, 4, higher=True),
    "macro-f1": TableScore("macro-F1", selection.macro_f1, 4, higher=True),
    "mabs": TableScore("MABS, standardised", selection.mean_absolute_error, 4, higher=False),
    "mabs-stars": TableScore("MABS, stars", selection.mean_absolute_error, 4, higher=False, in_units=True),
}
