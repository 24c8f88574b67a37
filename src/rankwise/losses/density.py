"""A convex loss as a negative log density, with a normalizer that is measured instead of known."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

N_TARGETS = 9  # quantiles of the targets at which a loss is measured
OCTAVES, PER_OCTAVE = 40, 8  # reach and density of the grid of errors, in both directions around the spread


@dataclass(frozen=True, eq=False)
class Measured:
    """A loss on a grid of errors around its minimum, for some targets.

    Attributes
    ----------
    spread : float
        Standard deviation of the targets.
    size : float
        Twice the mean loss at errors of `spread`, above the least loss: ``spread**2`` for the square loss.
    least : float
        Mean of the least losses.
    losses : ndarray of shape (n_targets, n_errors)
        Losses above the least one, at the errors.
    widths : ndarray of shape (n_errors,)
        Weights of the errors in an integral over predictions.
    """

    spread: float
    size: float
    least: float
    losses: NDArray[np.float64]
    widths: NDArray[np.float64]

    @classmethod
    def of(cls, loss: Any, targets: NDArray[np.float64], spread: float) -> "Measured | None":
        """Measure a loss at quantiles of `targets`; None if it does not grow in both directions, so has no density."""
        chosen = np.quantile(targets, np.linspace(0, 1, N_TARGETS + 2)[1:-1], method="nearest")
        if not 0 < spread < 1e200:
            return None
        steps = spread * 2.0 ** (np.arange(-OCTAVES * PER_OCTAVE, OCTAVES * PER_OCTAVE + 1) / PER_OCTAVE)
        with np.errstate(all="ignore"):
            best = _minimizers(loss, chosen, spread)
            least = loss.value(best, chosen)
            errors = np.concatenate((-steps[::-1], steps))
            losses = loss.value(best[:, None] + errors, chosen[:, None]) - least[:, None]
            losses = np.where(np.isnan(losses), np.inf, np.maximum(losses, 0.0))
            near = losses[:, np.abs(errors) == spread]
        size = 2 * float(near.mean())
        grows = np.minimum(losses[:, 0], losses[:, -1]).min() > 1e3 * near.max()
        if not (0 < size < math.inf and np.isfinite(least).all() and grows):
            return None
        return cls(spread, size, float(least.mean()), losses, np.abs(errors) * math.log(2) / PER_OCTAVE)

    def log_normaliser(self, scale: float) -> float:
        """Log of the integral of ``exp(-scale * loss)`` over the prediction, on average over the targets.

        For a loss of the error alone it is the integral over the target.
        """
        with np.errstate(under="ignore"):
            integrals = np.exp(-scale * self.losses) @ self.widths
        return float(np.mean(np.log(integrals))) - scale * self.least

    def best_scale(self, mean: float) -> float:
        """Maximum-likelihood scale for a mean loss; ``1 / (d mean)`` for a loss of degree d."""
        above = max(mean - self.least, 1e-12 * self.size)
        best = minimize_scalar(
            lambda t: math.exp(t) * mean + self.log_normaliser(math.exp(t)),
            bounds=(math.log(0.02 / above), math.log(3.0 / above)),
            method="bounded",
        )
        return float(math.exp(best.x))


def _minimizers(loss: Any, targets: NDArray[np.float64], spread: float) -> NDArray[np.float64]:
    """Predictions of least loss for each target, by bisection of the slope."""
    low, high = targets - 2.0**20 * spread, targets + 2.0**20 * spread
    if np.all(loss.value(targets, targets) <= loss.value(targets + 1e-6 * spread, targets)) and np.all(
        loss.value(targets, targets) <= loss.value(targets - 1e-6 * spread, targets)
    ):
        return targets
    for _ in range(80):
        middle = 0.5 * (low + high)
        falls = loss.slope(middle, targets) < 0
        low, high = np.where(falls, middle, low), np.where(falls, high, middle)
    return np.asarray(0.5 * (low + high))
