"""Scores that suit a loss, with their units."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from .._arrays import Array
from ..losses import Loss
from ..losses.base import takes_signs
from ..losses.levels import LevelsLoss
from ..losses.links import response
from .metrics import auc, macro_f1, mean_absolute_error, root_mean_squared_error, sign_accuracy

LARGEST_LINK = 30.0  # log-odds, log-counts and latent levels beyond are as good as infinite
FRACTION = "from 0 to 1, higher is better"


class Score(NamedTuple):
    """Value of a score, with its names and unit.

    Attributes
    ----------
    name : str
        Key for programs: "rmse", "mae", "accuracy", "macro_f1", "auc", "mean_loss".
    value : float
    title : str
        Name to show.
    unit : str
        Unit or range, and whether higher or lower is better.

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
    """Compute the scores that suit a loss.

    Accuracy, AUC and macro F1 for losses of signs, RMSE and MAE on the response scale for others; then the mean loss.
    The AUC is left out if all targets have the same sign.

    Parameters
    ----------
    loss : Loss or None
        None, as for a model with a custom loss, stands for a loss of distances and has no mean loss.
    targets : ndarray of shape (n,)
    predicted : ndarray of shape (n,)
        On the link scale.

    Returns
    -------
    list of Score

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
    with np.errstate(over="ignore"):  # scores of huge predictions are infinite
        is_sign = takes_signs(loss)
        scores = _sign_scores(targets, predicted) if is_sign else _distance_scores(loss, targets, predicted)
        if loss is not None:
            mean = float(np.mean(loss.value(predicted, targets)))
            scores.append(Score("mean_loss", mean, "mean loss", f"{loss.name} loss per entry, lower is better"))
    return scores


def best_constant(loss: Loss | None, targets: Array) -> float:
    """Return the constant prediction, on the link scale, of the least mean loss; the mean if the loss is not known."""
    low, high = float(np.min(targets)), float(np.max(targets))
    if loss is None:
        return float(np.mean(targets))
    if takes_signs(loss) or loss.link != "identity" or isinstance(loss, LevelsLoss):
        low, high = -LARGEST_LINK, LARGEST_LINK
    options = {"bounds": (low, high), "method": "bounded", "options": {"xatol": 1e-9 * (high - low)}}
    return float(minimize_scalar(lambda x: float(np.mean(loss.value(x, targets))), **options).x)


def _sign_scores(targets: Array, predicted: Array) -> list[Score]:
    scores = [Score("accuracy", sign_accuracy(targets, predicted), "accuracy", f"share of signs, {FRACTION}")]
    if np.unique(targets).size > 1:
        scores.append(Score("auc", auc(targets, predicted), "AUC", f"chance that +1 is above -1, {FRACTION}"))
    return [*scores, Score("macro_f1", macro_f1(targets, predicted), "macro F1", FRACTION)]


def _distance_scores(loss: Loss | None, targets: Array, predicted: Array) -> list[Score]:
    x = response("identity" if loss is None else loss.link, predicted)
    unit = "in units of the values, lower is better"
    return [
        Score("rmse", root_mean_squared_error(targets, x), "RMSE", unit),
        Score("mae", mean_absolute_error(targets, x), "MAE", unit),
    ]
