"""Losses, one file for each: formula, facts (smooth? Lipschitz?), accepted targets; and losses written by users."""

from typing import Any

from .._checks import one_of
from .._errors import LossError
from .base import BY_NAME, Loss, register
from .custom import CustomLoss, loss
from .domains import COUNTS, REALS, SIGNS, ZERO_ONE, Domain
from .mixed import Mixed

# Importing a file registers its loss; lists of losses keep this order.
# isort: off
from .square import Square
from .logistic import Logistic
from .bernoulli import Bernoulli
from .huber import Huber
from .squared_hinge import SquaredHinge
from .smooth_hinge import SmoothHinge
from .poisson import Poisson
from .absolute import Absolute
from .quantile import Quantile
from .hinge import Hinge
from .epsilon_insensitive import EpsilonInsensitive
from .ordinal import Ordinal
from .ordinal_hinge import OrdinalHinge
from .proportional_odds import ProportionalOdds
from .rates import RESTRICTED, KullbackLeibler, KullbackLeiblerBeyondZero, SquareBeyondZero
# isort: on


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
    if isinstance(loss, str) and loss in BY_NAME | RESTRICTED:
        return (BY_NAME | RESTRICTED)[loss]()
    raise LossError(
        f"Unknown loss {loss!r}: use {one_of(BY_NAME)}, an object of `rankwise.losses`, "
        "or your own made with `@rankwise.loss`."
    )


def to_plain(loss: Loss | None) -> dict[str, Any] | None:
    """Name and parameters of a built-in loss, as plain values; None for others, as files never contain code.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.to_plain(rw.losses.Huber(0.5))
    {'name': 'huber', 'parameters': {'delta': 0.5}}
    """
    if loss is None or type(loss) not in (BY_NAME | RESTRICTED).values() or not loss.built_in:
        return None
    return {"name": loss.name, "parameters": loss.parameters()}


def from_plain(plain: dict[str, Any] | None) -> Loss | None:
    """The loss with the name and the parameters that `to_plain` returned; None for None.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.from_plain({"name": "huber", "parameters": {"delta": 0.5}})
    Huber(delta=0.5)
    """
    return None if plain is None else (BY_NAME | RESTRICTED)[plain["name"]].restore(plain["parameters"])


__all__ = [
    "BY_NAME",
    "COUNTS",
    "REALS",
    "SIGNS",
    "ZERO_ONE",
    "Absolute",
    "Bernoulli",
    "CustomLoss",
    "Domain",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "KullbackLeibler",
    "KullbackLeiblerBeyondZero",
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
    "SquareBeyondZero",
    "SquaredHinge",
    "from_plain",
    "get",
    "loss",
    "register",
    "to_plain",
]
