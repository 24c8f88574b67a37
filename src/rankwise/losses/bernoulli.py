"""Bernoulli loss: the logistic loss of targets 0 and 1."""

from dataclasses import dataclass

from .base import register
from .domains import ZERO_ONE
from .logistic import Logistic


@register
@dataclass(frozen=True)
class Bernoulli(Logistic):
    """``log(1 + exp(x)) - o x`` for targets 0 and 1; x is the log-odds of 1. `Logistic` has it for -1 and +1.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.Bernoulli().value([-2.0, 0.0, 2.0], [0.0, 1.0, 1.0]).round(3)
    array([0.127, 0.693, 0.127])
    """

    name = "bernoulli"
    domain = ZERO_ONE
