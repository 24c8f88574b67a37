"""Losses of real targets, with parameters in a given unit, and a planted matrix; for laws about units and levels."""

import numpy as np

import rankwise as rw
from rankwise.losses import EpsilonInsensitive, Huber, Quantile

SPREAD = 1.5  # about the spread of the planted matrix: parameters of losses are multiples of it


@rw.loss(smooth=True, lipschitz=1.0)
def own_square(x, o):
    return 0.5 * (x - o) ** 2


@rw.loss(smooth=True)
def own_shelf(x, o):
    return 2.5 * (o - x) ** 2 if o > x else 0.5 * (o - x) ** 2


@rw.loss
def own_absolute(x, o):
    return abs(x - o)


@rw.loss
def own_quantile(x, o):
    return max(0.7 * (o - x), 0.3 * (x - o))


LOSSES = {
    "auto": lambda s: "auto",
    "square": lambda s: "square",
    "huber": lambda s: Huber(s),
    "l1": lambda s: "l1",
    "quantile": lambda s: Quantile(0.7),
    "epsilon": lambda s: EpsilonInsensitive(0.2 * s),
    "own_square": lambda s: own_square,
    "own_shelf": lambda s: own_shelf,
    "own_absolute": lambda s: own_absolute,
    "own_quantile": lambda s: own_quantile,
}


def planted(shape=(30, 20)):
    """A matrix of offsets and rank 2 with noise, and a mask of the entries that are seen."""
    rng = np.random.default_rng(5)
    truth = rng.normal(size=(shape[0], 2)) @ rng.normal(size=(2, shape[1])) + rng.normal(size=(shape[0], 1))
    return truth + 0.3 * rng.normal(size=shape), rng.random(shape) < 0.6
