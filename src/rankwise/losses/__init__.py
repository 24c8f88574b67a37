"""Losses: formulas, facts (smooth? Lipschitz? which targets?), and losses that users write."""

from dataclasses import asdict
from typing import Any

from .._errors import LossError
from .base import Loss
from .custom import CustomLoss, loss
from .mixed import Mixed
from .nonsmooth import Absolute, EpsilonInsensitive, Hinge, Quantile
from .ordinal import Ordinal, OrdinalHinge, ProportionalOdds
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
        Ordinal,
        OrdinalHinge,
        ProportionalOdds,
    )
}


def get(loss: "str | Loss") -> Loss:
    """Return a loss itself, or the one of that name with its default parameters.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.get("quantile")
    Quantile(q=0.5)
    """
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str) and loss in BY_NAME:
        return BY_NAME[loss]()
    raise LossError(
        f"Unknown loss {loss!r}: use one of {', '.join(BY_NAME)}, an object of `rankwise.losses`, "
        "or your own made with `@rankwise.loss`."
    )


def to_plain(loss: Loss | None) -> dict[str, Any] | None:
    """Name and parameters of a built-in loss, as plain values; None for others, which are code.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.to_plain(rw.losses.Huber(0.5))
    {'name': 'huber', 'parameters': {'delta': 0.5}}
    """
    return {"name": loss.name, "parameters": asdict(loss)} if type(loss) in BY_NAME.values() else None  # type: ignore


def from_plain(plain: dict[str, Any] | None) -> Loss | None:
    """The loss that `to_plain` described.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.from_plain({"name": "huber", "parameters": {"delta": 0.5}})
    Huber(delta=0.5)
    """
    if plain is None:
        return None
    if "levels" in plain["parameters"] and plain["parameters"].get("thresholds") is None:
        raise LossError("The thresholds are missing; made from a number alone, they might fill the memory.")
    return BY_NAME[plain["name"]](**plain["parameters"])


__all__ = [
    "BY_NAME",
    "Absolute",
    "CustomLoss",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "Mixed",
    "Ordinal",
    "OrdinalHinge",
    "Poisson",
    "ProportionalOdds",
    "Quantile",
    "SmoothHinge",
    "Square",
    "SquaredHinge",
    "from_plain",
    "get",
    "loss",
    "to_plain",
]
