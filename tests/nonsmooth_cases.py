"""Piecewise-linear losses, their definitions in NumPy, and their kinks."""

import numpy as np
import pytest

from rankwise.losses import Absolute, EpsilonInsensitive, Hinge, Quantile

NONSMOOTH = [
    Absolute(),
    *(Quantile(q) for q in (0.5, 0.1, 0.9, 1e-3)),
    Hinge(),
    *(EpsilonInsensitive(epsilon) for epsilon in (0.1, 0.0, 0.75)),
]

every_loss = pytest.mark.parametrize("loss", NONSMOOTH, ids=repr)

EACH_KIND = [Absolute(), Quantile(0.9), Hinge(), EpsilonInsensitive(0.5)]

every_kind = pytest.mark.parametrize("loss", EACH_KIND, ids=repr)

# What the losses are, in NumPy and from the paper's words alone; and where they bend.
TRUTH = {
    Absolute: lambda loss, x, o: np.abs(x - o),
    Quantile: lambda loss, x, o: np.where(x < o, loss.q * (o - x), (1 - loss.q) * (x - o)),
    Hinge: lambda loss, x, o: np.maximum(0.0, 1.0 - x * o),
    EpsilonInsensitive: lambda loss, x, o: np.maximum(0.0, np.abs(x - o) - loss.epsilon),
}

BENDS = {
    Absolute: lambda loss, o: [o],
    Quantile: lambda loss, o: [o],
    Hinge: lambda loss, o: [1.0 / o],
    EpsilonInsensitive: lambda loss, o: [o - loss.epsilon, o + loss.epsilon],
}


def truth(loss, x, o):
    """The loss by its definition."""
    return TRUTH[type(loss)](loss, np.asarray(x, float), np.asarray(o, float))


def bends(loss, o):
    """Places of the kinks for targets `o`, shape (n_kinks, n)."""
    return np.array(BENDS[type(loss)](loss, np.asarray(o, float)))
