"""The scores that fit a loss, each with its unit, for reports to people."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..losses import Loss
from ..losses.base import takes_signs
from ..losses.links import response
from .metrics import auc, macro_f1, mean_absolute_error, root_mean_squared_error, sign_accuracy

Array = NDArray[Any]


class Score(NamedTuple):
    """One number about predictions.

    Attributes
    ----------
    name : str
        For programs: "rmse", "mae", "accuracy", "macro_f1", "auc", "mean_loss".
    value : float
    title : str
        For people.
    unit : str
        What the value counts, and which way is better.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.selection.Score("rmse", 0.87, "RMSE", "in units of the values, lower is better").title
    'RMSE'
    """

    name: str
    value: float
    title: str
    unit: str


def fitting_scores(loss: Loss | None, targets: Array, predicted: Array) -> list[Score]:
    """Scores of predictions on the link scale: of signs for sign losses, of distances for the others; the mean loss.

    The AUC is left out where only one sign is there. Without a loss, as in models of users' own, distances it is.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> signs, log_odds = np.array([-1.0, 1.0, 1.0]), np.array([-2.0, 1.0, 3.0])
    >>> for score in rw.selection.fitting_scores(rw.losses.Logistic(), signs, log_odds):
    ...     print(score.title, round(score.value, 2))
    accuracy 1.0
    AUC 1.0
    macro F1 1.0
    mean loss 0.16
    """
    with np.errstate(over="ignore"):  # an infinite score says what there is to say
        found = _of_signs(targets, predicted) if takes_signs(loss) else _of_distances(loss, targets, predicted)
        if loss is not None:
            mean = float(np.mean(loss.value(predicted, targets)))
            found.append(Score("mean_loss", mean, "mean loss", f"{loss.name} loss per entry, lower is better"))
    return found


def _of_signs(targets: Array, predicted: Array) -> list[Score]:
    unit = "from 0 to 1, higher is better"
    found = [Score("accuracy", sign_accuracy(targets, predicted), "accuracy", f"share of signs, {unit}")]
    if np.unique(targets).size > 1:
        found.append(Score("auc", auc(targets, predicted), "AUC", f"chance that +1 is above -1, {unit}"))
    return [*found, Score("macro_f1", macro_f1(targets, predicted), "macro F1", unit)]


def _of_distances(loss: Loss | None, targets: Array, predicted: Array) -> list[Score]:
    x = response("identity" if loss is None else loss.link, predicted)
    unit = "in units of the values, lower is better"
    return [
        Score("rmse", root_mean_squared_error(targets, x), "RMSE", unit),
        Score("mae", mean_absolute_error(targets, x), "MAE", unit),
    ]
