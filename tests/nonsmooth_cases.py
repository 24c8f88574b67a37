"""Piecewise-linear losses, their definitions in NumPy, and their kinks."""

import numpy as np
import pytest

from rankwise.kernels.formulas import kinks_at
from rankwise.losses import BY_NAME, Absolute, EpsilonInsensitive, Hinge, Quantile

NONSMOOTH = [loss for loss in (kind() for kind in BY_NAME.values()) if loss.piecewise_linear]

NONSMOOTH += [*(Quantile(q) for q in (0.1, 0.9, 1e-3)), *(EpsilonInsensitive(epsilon) for epsilon in (0.0, 0.75))]

every_loss = pytest.mark.parametrize("loss", NONSMOOTH, ids=repr)

SKEWED = {Quantile: Quantile(0.9), EpsilonInsensitive: EpsilonInsensitive(0.5)}

EACH_KIND = [SKEWED.get(kind, kind()) for kind in dict.fromkeys(type(loss) for loss in NONSMOOTH)]

every_kind = pytest.mark.parametrize("loss", EACH_KIND, ids=repr)

# Definitions in NumPy, from the paper's words alone, and the places of the kinks.
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
    """The loss by its definition in NumPy, or by its own values if no definition is written here."""
    x, o = np.asarray(x, float), np.asarray(o, float)
    return TRUTH[type(loss)](loss, x, o) if type(loss) in TRUTH else loss.value(x, o)


def bends(loss, o):
    """Places of the kinks for targets `o`, shape (n_kinks, n)."""
    o = np.asarray(o, float)
    if type(loss) in BENDS:
        return np.array(BENDS[type(loss)](loss, o))
    _, first, _, second, jump = np.vectorize(lambda each: kinks_at(loss.formula, each))(o)
    return np.array([first, second] if np.any(jump) else [first])
