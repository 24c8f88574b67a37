"""From the scale a model is learned on to the scale of the targets."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def response(link: str, x: NDArray[Any]) -> NDArray[Any]:
    """Prediction on the targets' scale: itself, a probability of +1, or an expected count."""
    if link == "logit":
        x = 0.5 * (1.0 + np.tanh(0.5 * x))
    elif link == "log":
        with np.errstate(over="ignore"):
            x = np.minimum(np.exp(x), np.finfo(x.dtype).max)
    return x


LINKS = ("identity", "logit", "log")
