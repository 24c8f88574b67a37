"""Losses: formulas, facts (smooth? Lipschitz? which targets?), and losses that users write."""

from .._errors import LossError
from .base import Loss
from .custom import CustomLoss, loss
from .nonsmooth import Absolute, EpsilonInsensitive, Hinge, Quantile
from .smooth import Huber, Logistic, Poisson, SmoothHinge, Square, SquaredHinge

BY_NAME: dict[str, type[Loss]] = {
    kind.name: kind
    for kind in (
        Square,
        Logistic,
        Huber,
        SquaredHinge,
        SmoothHinge,
        Poisson,
        Absolute,
        Quantile,
        Hinge,
        EpsilonInsensitive,
    )
}


def get(loss: "str | Loss") -> Loss:
    """Return a loss itself, or the one of that name with its default parameters."""
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str) and loss in BY_NAME:
        return BY_NAME[loss]()
    raise LossError(
        f"Unknown loss {loss!r}: use one of {', '.join(BY_NAME)}, an object of `rankwise.losses`, "
        "or your own made with `@rankwise.loss`."
    )


__all__ = [
    "BY_NAME",
    "Absolute",
    "CustomLoss",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "Poisson",
    "Quantile",
    "SmoothHinge",
    "Square",
    "SquaredHinge",
    "get",
    "loss",
]
