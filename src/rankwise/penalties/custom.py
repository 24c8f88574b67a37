"""Penalties written by users: a proximal map of one number, compiled in the process that uses it."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from .._errors import SettingError
from ..kernels.row_penalties import NoFields, PenaltyFormulas
from .base import Penalty

Prox = Callable[[float, float], float]
Value = Callable[[float], float]
_numbers = itertools.count()
CHECKED_POINTS = np.linspace(-3.0, 3.0, 25)
CHECKED_STEPS = (0.1, 1.0, 10.0)


@cache
def _formulas(prox: Prox, value: Value | None) -> PenaltyFormulas:
    """Declare the functions under a tuple type of their own, because Numba tells types apart by their names."""
    kind = type(f"CustomPenaltyFields{next(_numbers)}", (NoFields,), {"__module__": "outside"})
    from numba import njit

    step = njit(prox)
    if value is None:
        return PenaltyFormulas(kind, prox=lambda p, z, t: step(z, t))
    own = njit(value)
    return PenaltyFormulas(kind, prox=lambda p, z, t: step(z, t), value=lambda p, x: own(x))


@dataclass(frozen=True)
class CustomPenalty(Penalty):
    """A penalty made from a user's proximal map; see `penalty`.

    Examples
    --------
    >>> import rankwise as rw
    >>> unit = rw.penalty(lambda z, step: min(max(z, 0.0), 1.0), title="unit")
    >>> unit
    CustomPenalty(unit, ridge=None)
    """

    name = "custom"
    prox: Prox = field(default=lambda z, step: z)
    value: Value | None = None
    title: str = "penalty"

    def __post_init__(self) -> None:
        if not callable(self.prox) or not (self.value is None or callable(self.value)):
            raise SettingError(f"A penalty must be a function of a number and a step, got {self.prox!r}.")
        if self.ridge is not None:
            self._check("ridge", self.ridge)
        self._check_prox()

    def _check_prox(self) -> None:
        """Raise unless the proximal map is a finite number everywhere, and moves less than its argument does."""
        for step in CHECKED_STEPS:
            try:
                moved = np.array([float(self.prox(float(z), step)) for z in CHECKED_POINTS])
            except Exception as error:
                raise SettingError(
                    f"The penalty `{self.title}` failed at z = {CHECKED_POINTS[0]:g}, step = {step:g}: {error}."
                ) from error
            if not np.isfinite(moved).all():
                raise SettingError(
                    f"The penalty `{self.title}` must return finite numbers; it does not for step = {step:g}."
                )
            if (np.diff(moved) < -1e-9).any():
                raise SettingError(f"The penalty `{self.title}` is no proximal map: it must not fall as z rises.")

    def __repr__(self) -> str:
        """Title and ridge."""
        return f"CustomPenalty({self.title}, ridge={self.ridge})"

    def numbers(self) -> dict[str, float]:
        """None: constants are part of the functions."""
        return {}

    @property
    def formulas(self) -> PenaltyFormulas:
        """The user's functions under a tuple type of their own; compiled once per process."""
        return _formulas(self.prox, self.value)

    @property
    def has_units(self) -> bool:
        """Whether `in_units` converts the penalty: it does not, as the functions' constants have the targets' units."""
        return False

    def feasible(self, factors: Any) -> Any:
        """Return the proximal points of the factors with a step of one."""
        mapped = np.frompyfunc(lambda z: self.prox(float(z), 1.0), 1, 1)(factors)
        return np.asarray(mapped, factors.dtype)

    def to_plain(self) -> dict[str, Any]:
        """Return the title, because files hold no code."""
        return {"name": self.name, "title": self.title}


def penalty(
    prox: Prox | None = None, *, value: Value | None = None, ridge: float | None = None, title: str | None = None
) -> Any:
    """Make a penalty on every factor from its proximal map; usable as a decorator.

    Parameters
    ----------
    prox : callable (z, step) -> float
        The minimizer over x of ``(x - z)**2 / (2 * step) + p(x)``. Plain arithmetic on two floats; Numba compiles it.
    value : callable (x) -> float, optional
        The penalty p(x); zero by default, as for a constraint.
    ridge : float, optional
        Ridge of the factors beside the penalty; by default the solver's.
    title : str, optional
        Name in messages; by default that of the function.

    Returns
    -------
    CustomPenalty

    Examples
    --------
    >>> import rankwise as rw
    >>> @rw.penalty
    ... def between_zero_and_one(z, step):
    ...     return min(max(z, 0.0), 1.0)
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> solver = rw.solvers.FactorSweeps(rows=between_zero_and_one)
    >>> U = rw.solve(rw.Problem(seen, "square"), solver, rank=2).model.U
    >>> bool((U >= 0).all() and (U <= 1).all())
    True
    """
    if prox is None:
        return lambda function: penalty(function, value=value, ridge=ridge, title=title)
    return CustomPenalty(ridge, prox, value, str(title or getattr(prox, "__name__", "penalty")))
