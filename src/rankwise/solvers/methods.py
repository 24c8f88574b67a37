"""The methods by their names in the paper."""

from typing import Any

from .._errors import LossError, SettingError
from .admm import ADMM
from .altmin import AltMin
from .base import Solver
from .geco import GECO
from .greedy import GreedyPursuit
from .nonsmooth import NonsmoothPursuit
from .nuclear import AISImpute, soft_impute
from .sweeps import BayesSweeps, FactorSweeps
from .validation import need_smooth
from .wiberg import Wiberg

METHODS: dict[str, tuple[Any, str]] = {
    "bayes": (BayesSweeps(), "factors and offsets, any loss, sweeps with a learned ridge from a greedy start"),
    "factors": (FactorSweeps(), "factors and offsets, any loss, sweeps with a given ridge from a greedy start"),
    "r1mp": (GreedyPursuit("coefficients"), "rank-one matrix pursuit, square loss, all coefficients refitted"),
    "r1mp-economic": (GreedyPursuit("economic"), "rank-one matrix pursuit, square loss, two numbers refitted"),
    "glrl": (GreedyPursuit("coefficients"), "greedy low-rank learning, any smooth loss, all coefficients refitted"),
    "eglrl": (GreedyPursuit("economic"), "greedy low-rank learning, any smooth loss, two numbers refitted"),
    "glrl-none": (GreedyPursuit("none"), "greedy low-rank learning, any convex loss, nothing refitted"),
    "glrl-nonsmooth": (NonsmoothPursuit(), "greedy low-rank learning, any convex loss, best step along several pairs"),
    "ais-impute": (AISImpute(), "nuclear norm, square or logistic loss and the like, accelerated proximal gradient"),
    "soft-impute": (soft_impute(), "nuclear norm, square or logistic loss and the like, plain proximal gradient"),
    "altmin": (AltMin(), "two factors, any smooth loss, gradient steps by turns"),
    "admm": (ADMM(), "nuclear norm, l1 loss, dense augmented Lagrangian"),
    "wiberg": (Wiberg(), "two factors, l1 loss, linear programs"),
    "geco": (GECO(), "greedy, any smooth loss, the whole core refitted"),
}
SQUARE_ONLY = ("r1mp", "r1mp-economic")
SMOOTH_ONLY = (*SQUARE_ONLY, "glrl", "eglrl", "ais-impute", "soft-impute", "altmin", "geco")


def get(method: Any, objective: Any = None) -> Any:
    """Return a solver itself, or the one of that name; check that it fits the objective.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.solvers.get("eglrl")
    GreedyPursuit(refine='economic', oracle='power', shrinkage=1.0)
    """
    if not isinstance(method, str):
        if not isinstance(method, Solver):
            raise SettingError(f"A method must be a name or a solver, got {type(method).__name__}.")
        return method
    if method not in METHODS:
        raise SettingError(f"Unknown method {method!r}: use one of {', '.join(METHODS)}.")
    if method in SMOOTH_ONLY and objective is not None:
        need_smooth(objective, f'method="{method}"')
    if method in SQUARE_ONLY and objective is not None and not objective.quadratic:
        loss = getattr(objective, "loss", objective)
        raise LossError(f'method="{method}" needs the square loss, got {loss!r}; use "glrl" or "eglrl".')
    return METHODS[method][0]
