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


def from_mean(link: str, means: Array | float) -> Array:
    """Predictions on the link scale whose targets have these means; finite for means at the ends of their range."""
    if link == "logit":
        return np.asarray(2 * np.arctanh(np.clip(means, -1 + LEAST, 1 - LEAST)))  # of signs: the chance is (1 + m) / 2
    return np.asarray(np.log(np.maximum(means, LEAST)) if link == "log" else means)


LEAST = 1e-9  # distance of a mean from the end of its range, so that its log-odds or logarithm is finite
LINKS = ("identity", "logit", "log")
