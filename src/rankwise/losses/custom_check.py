"""Check of a loss written by a user, on a grid of predictions around the targets."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from .._errors import LossError
from ..kernels import formulas

if TYPE_CHECKING:
    from .custom import CustomLoss

N_POINTS = 201  # predictions at which a loss is checked for each target


def check_on_grid(loss: "CustomLoss", targets: Array) -> None:
    """Raise `LossError` if a loss is visibly not convex, or visibly not as declared.

    Evaluates it on a grid of predictions around at most 25 of the targets' quantiles: a check, not a proof. Far from
    zero a loss may be infinite, as an exponential is; such values are not checked.
    """
    chosen = np.unique(np.quantile(targets, np.linspace(0, 1, 25), method="nearest")).astype(float)
    reach = max(3.0, 2.0 * float(np.abs(chosen).max()))
    for x in (np.linspace(-3.0, 3.0, N_POINTS), np.linspace(-reach, reach, N_POINTS)):
        for o in chosen:
            with np.errstate(invalid="ignore", over="ignore"):
                _check_one(loss, x, float(o), float(chosen[0]))


def _check_one(loss: "CustomLoss", x: NDArray[np.float64], o: float, first: float) -> None:
    value, slope, curvature = loss._at(x, o)
    gap = x[1] - x[0]
    near = np.abs(x) <= 3.0
    at: Any = loss.units.original

    def refuse(wrong: NDArray[np.bool_], problem: str) -> None:
        if wrong.any():
            k = int(np.argmax(wrong))
            raise LossError(
                f"The loss `{loss.title}` {problem} near x = {at(x[k]):.4g} for target {at(o):g} "
                f"(value {value[k]:.4g}, slope {slope[k]:.4g} there)."
            )

    refuse(near & ~np.isfinite(value), "is not finite")
    refuse(near & ~np.isfinite(slope), "has a slope that is not finite")
    change = np.diff(value) / gap
    left, right = np.r_[-np.inf, change], np.r_[change, np.inf]
    slack = 1e-6 * (1.0 + np.abs(slope)) + 1e-9 * np.abs(value) / gap
    refuse(left > right + slack, "has a slope that decreases, so it is not convex,")
    refuse((slope < left - slack) | (slope > right + slack), "has a slope that does not fit its values")
    if loss.lipschitz is not None:
        steep = np.abs(np.diff(slope)) > loss.lipschitz * gap + slack[1:]
        refuse(np.r_[False, steep], f"has a slope that changes faster than lipschitz={loss.lipschitz:g} allows")
    if loss.quadratic:
        usual = float(loss.curvature(0.0, first))
        uneven = np.abs(curvature - usual) > 1e-4 * (1.0 + abs(usual)) + 1e-6 * np.abs(value)
        refuse(uneven, "is declared quadratic, but has a different curvature")
    if loss.piecewise_linear:
        steep, *kinks = formulas.kinks_at(loss.formula, o)
        lines = steep * x + sum(
            jump * np.maximum(0.0, x - at) for at, jump in zip(kinks[::2], kinks[1::2], strict=True)
        )
        off = np.abs(np.diff(value - lines)) > slack[1:] * gap
        refuse(np.r_[False, off], "has values that do not fit its kinks")
