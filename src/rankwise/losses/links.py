"""Inverse link functions: from the scale of low-rank predictions to that of the targets."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def response(link: str, x: NDArray[Any]) -> NDArray[Any]:
    """Predictions on the scale of the targets: themselves ("identity"), chances of +1 ("logit") or rates ("log")."""
    if link == "logit":
        x = 0.5 * (1.0 + np.tanh(0.5 * x))
    elif link == "log":
        with np.errstate(over="ignore"):
            x = np.minimum(np.exp(x), np.finfo(x.dtype).max)
    return x


LINKS = ("identity", "logit", "log")
