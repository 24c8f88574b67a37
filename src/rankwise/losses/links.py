"""Inverse link functions: from the scale of low-rank predictions to that of the targets."""

import numpy as np

from .._arrays import Array


def response(link: str, x: Array) -> Array:
    """Predictions on the scale of the targets: themselves ("identity"), chances of +1 ("logit") or rates ("log")."""
    if link == "logit":
        x = 0.5 * (1.0 + np.tanh(0.5 * x))
    elif link == "log":
        with np.errstate(over="ignore"):
            x = np.minimum(np.exp(x), np.finfo(x.dtype).max)
    return x


LINKS = ("identity", "logit", "log")
