"""Losses that the laws of the row solver run over: every registered one, some with several parameters, and a user's."""

import math

import rankwise
from rankwise.kernels.expected import majorised
from rankwise.losses import (
    BY_NAME,
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Mixed,
    Ordinal,
    OrdinalHinge,
    Poisson,
    ProportionalOdds,
    Quantile,
    Square,
)


@rankwise.loss(smooth=True, lipschitz=1.0)
def rounded(x, o):
    return math.sqrt(1.0 + (x - o) * (x - o)) - 1.0


@rankwise.loss
def lopsided(x, o):
    return max(0.7 * (o - x), 1.3 * (x - o))


ORDERED = [OrdinalHinge(3), Ordinal(4), ProportionalOdds(4)]  # few levels

LOSSES = [kind() for kind in BY_NAME.values() if kind not in {type(loss) for loss in ORDERED}]

LOSSES += [Huber(0.4), Quantile(0.8), EpsilonInsensitive(0.3), EpsilonInsensitive(0.0), *ORDERED]

BOUNDED = [loss for loss in LOSSES if majorised(loss.formula)]

AVERAGED = [loss for loss in LOSSES if not majorised(loss.formula)] + [rounded]

LOSSES = [*BOUNDED, *AVERAGED, lopsided]

COLUMNS = [Square(), Huber(0.4), Logistic(), Poisson(), *ORDERED, Absolute(), Quantile(0.8), Hinge()]

MIXED = Mixed(
    [*COLUMNS, EpsilonInsensitive(0.3)],
    [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 8, 9, 10],
    [0.3, -2.0, 1.0, -0.7, -1, 1, 0, 4, 0, 2, 1, 3, 0, 2, 0.6, -0.9, 1, 0.4],
    scales=[1.0, 3.0, 1.0, 0.5, 2.0, 1.0, 1.5, 0.4, 1.0, 1.0, 0.8],
    shifts=[0.0, 0.2, -0.4, 1.0, 0.0, 0.3, 0.0, 0.1, 0.0, 0.5, 0.0],
)

# One loss of a user's shows what the compiler makes of them, and one mixed loss what it makes of those of levels.
COMPILED = [loss for loss in LOSSES if loss is not rounded and loss not in ORDERED] + [MIXED]
