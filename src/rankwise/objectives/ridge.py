"""``f(X) + (ridge / 2) ||X||_F**2``, for any objective f."""

from collections.abc import Hashable
from functools import cache
from typing import Any

import numpy as np

from .._arrays import Array
from .._checks import all_finite, is_number
from .._errors import DataError, SettingError
from ..losses import Loss
from ..model import Factors, Offsets, as_terms
from ..observations import AnyEntries
from ..spectral import LowRank, SparsePlusLowRank
from .protocol import Checkpointable, Entrywise, Movable, Objective, Rehearsable
from .quadratic import PlanePlusQuadratic, PlusQuadratic
from .snapshot import RidgedSnapshot


class Ridged:
    """An objective made strongly convex by a ridge.

    The gradient is that of f plus the low-rank ``ridge X``, and is not formed. ``||X||_F**2`` is computed from the
    inner products of the terms, one new row per step in O((n_rows + n_cols) rank). A `Ridged` is `Movable`,
    `Entrywise`, `Checkpointable` or `Rehearsable` if its objective is.

    Parameters
    ----------
    objective : Objective
    ridge : float
        Positive.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.Observations.from_coo([0, 0, 1], [0, 1, 1], [1.0, 2.0, 4.0])
    >>> objective = rw.Ridged(rw.Problem(seen, "square"), 0.5)
    >>> print(objective.lipschitz, objective.strong_convexity)
    1.5 0.5
    """

    def __new__(cls, objective: Objective, ridge: float) -> "Ridged":
        """Return an instance with the protocols of `objective`."""
        parts = tuple(part for protocol, part in CAPABILITIES if isinstance(objective, protocol))
        made: Ridged = object.__new__(_with(cls, parts))  # type: ignore[arg-type]  # classes are hashable
        return made

    def __init__(self, objective: Objective, ridge: float) -> None:
        if not is_number(ridge) or not 0 < ridge < np.inf:
            raise SettingError(f"`ridge` must be a positive number, got {ridge!r}.")
        self.objective, self.ridge = objective, float(ridge)
        self.products = np.zeros((0, 0))  # inner products of the terms, shape (rank, rank)
        self.shape: tuple[int, int] = objective.shape
        self.smooth, self.quadratic = objective.smooth, objective.quadratic
        self.piecewise_linear = objective.piecewise_linear
        self.lipschitz = None if objective.lipschitz is None else objective.lipschitz + self.ridge
        self.strong_convexity = objective.strong_convexity + self.ridge

    @property
    def point(self) -> Factors:
        """The current X."""
        return self.objective.point

    def reset(self) -> None:
        """Set X = 0."""
        self.objective.reset()
        self.products = np.zeros((0, 0))

    def value(self) -> float:
        """Return f(X) plus the penalty."""
        return self.objective.value() + 0.5 * self.ridge * self._squared()

    def gradient(self) -> SparsePlusLowRank:
        """Return the gradient of f plus ``ridge X``."""
        plain = self.objective.gradient()
        point, squared = self.point, self._squared()
        operator = SparsePlusLowRank(plain, LowRank(self.ridge * point.theta, point.U, point.V))
        both = plain.norm**2 + 2 * self.ridge * plain.inner + self.ridge**2 * squared
        operator.norm, operator.inner = float(np.sqrt(max(both, 0.0))), plain.inner + self.ridge * squared
        return operator

    def along(self, u: Array, v: Array, theta: Array | None = None) -> PlanePlusQuadratic:
        """Return ``(shrink, weight) -> f(shrink X + weight u diag(theta) v.T)`` plus the penalty."""
        scales, left, right = as_terms(u, v, theta)
        cross = float(scales @ (self.point.inner_products(left, right) @ self.point.theta))
        own = float(scales @ (_products(left, right) @ scales))
        products = np.array([[self._squared(), cross], [cross, own]])
        return PlanePlusQuadratic(self.objective.along(u, v, theta), self.ridge * products)

    def along_terms(self) -> PlusQuadratic:
        """Return ``theta -> f(sum_k theta[k] u_k v_k.T)`` plus the penalty."""
        return PlusQuadratic(self.objective.along_terms(), self.ridge * self.products)

    def add(self, shrink: float, weight: float, u: Array, v: Array, theta: Array | None = None) -> None:
        """Set ``X = shrink X + weight u diag(theta) v.T``; u and v are vectors or matrices."""
        _, left, right = as_terms(u, v, theta)
        cross = self.point.inner_products(left, right)
        self.products = np.block([[self.products, cross.T], [cross, _products(left, right)]])
        self.objective.add(shrink, weight, u, v, theta)

    def replace(self, theta: Array) -> None:
        """Set the coefficients of the terms of X."""
        self.objective.replace(theta)

    def close(self) -> None:
        """Release the resources of the objective."""
        self.objective.close()

    def _squared(self) -> float:
        theta = self.point.theta
        return max(float(theta @ self.products @ theta), 0.0)


class _MovablePart(Ridged):
    """A ridge on a `Movable` objective."""

    objective: Movable

    def move(self, theta: Array, U: Array, V: Array) -> None:
        """Set ``X = U diag(theta) V.T``."""
        self.objective.move(theta, U, V)
        self.products = _products(self.point.U, self.point.V)


class _EntrywisePart(Ridged):
    """A ridge on an `Entrywise` objective."""

    objective: Entrywise

    @property
    def observations(self) -> AnyEntries:
        """Observed entries."""
        return self.objective.observations

    @property
    def loss(self) -> Loss:
        """Loss at each entry."""
        return self.objective.loss

    @property
    def offsets(self) -> Offsets | None:
        """Current offsets."""
        return self.objective.offsets

    @property
    def cells(self) -> Any:
        """Term of all cells of the objective, or None."""
        return getattr(self.objective, "cells", None)

    @property
    def passes(self) -> int:
        """Passes made over the observations so far."""
        return self.objective.passes

    def fit_value(self) -> float:
        """Return the sum of the losses, without the ridge."""
        return self.objective.fit_value()


class _CheckpointablePart(Ridged):
    """A ridge on a `Checkpointable` objective."""

    objective: Checkpointable

    @property
    def snapshot_types(self) -> tuple[type, ...]:
        """Dataclasses that a snapshot consists of."""
        return (RidgedSnapshot, *self.objective.snapshot_types)

    def fingerprint(self) -> dict[str, object]:
        """Return values and checksums that identify the objective, and the ridge."""
        return {**self.objective.fingerprint(), "ridge": self.ridge}

    def snapshot(self) -> RidgedSnapshot:
        """Return the current point, for a checkpoint."""
        return RidgedSnapshot(self.objective.snapshot(), self.products)

    def restore(self, snapshot: RidgedSnapshot) -> None:
        """Move to the point of a snapshot."""
        self.objective.restore(snapshot.inner)
        if snapshot.products.shape != 2 * (self.point.rank,) or not all_finite(snapshot.products):
            raise DataError("The snapshot is of another problem.")
        self.products = snapshot.products


class _RehearsablePart(Ridged):
    """A ridge on a `Rehearsable` objective."""

    objective: Rehearsable

    def rehearsal(self) -> tuple[Hashable, Objective]:
        """Return the rehearsal of the objective: a ridge needs no compiled code."""
        return self.objective.rehearsal()


CAPABILITIES = (
    (Movable, _MovablePart),
    (Entrywise, _EntrywisePart),
    (Checkpointable, _CheckpointablePart),
    (Rehearsable, _RehearsablePart),
)


@cache
def _with(cls: Any, parts: tuple[Any, ...]) -> Any:
    """Return the class `cls` with these parts, under the name of `cls`."""
    return type(cls.__name__, (*parts, cls), {"__module__": cls.__module__, "__doc__": cls.__doc__})


def _products(left: Array, right: Array) -> Array:
    """Return the inner products of the terms ``left[:, k] right[:, k].T``, shape (rank, rank)."""
    left, right = np.asarray(left, np.float64), np.asarray(right, np.float64)
    return np.asarray((left.T @ left) * (right.T @ right))
