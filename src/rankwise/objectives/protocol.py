"""Protocols of objectives: `Objective` is all that the pursuits use; the others name what further solvers need."""

from collections.abc import Hashable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from ..engines import Engine
from ..losses import Loss
from ..model import Factors, Offsets
from ..observations import AnyEntries
from .sides import Side


class Gradient(Protocol):
    """Gradient of f at the current point X, an operator with the interface of `scipy.sparse.linalg.LinearOperator`.

    It is valid until X changes.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> gradient = rw.Problem(rw.Observations.from_coo([0, 1], [0, 1], [1.0, 2.0]), "square").gradient()
    >>> gradient.matvec(np.ones(2)), round(gradient.norm, 4)
    (array([-1., -2.]), 2.2361)
    """

    shape: tuple[int, int]
    norm: float  # Frobenius norm
    inner: float  # <gradient, X>

    def matvec(self, v: Array) -> Array:
        """Return the gradient times v, shape (n_rows,)."""

    def rmatvec(self, u: Array) -> Array:
        """Return the transposed gradient times u, shape (n_cols,)."""


class Restriction(Protocol):
    """f as a function of a vector c of a few coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> problem = rw.Problem(rw.Observations.from_coo([0, 1], [0, 1], [1.0, 2.0]), "square")
    >>> problem.add(1.0, 1.0, np.array([1.0, 0.0]), np.array([1.0, 0.0]))
    >>> value, slope = problem.along_terms()(np.array([3.0]))  # at X = 3 u v.T
    >>> print(value, slope)
    4.0 [2.]
    """

    def __call__(self, c: Array) -> tuple[float, NDArray[np.float64]]:
        """Return value and gradient at c."""

    def curve(self, c: Array, direction: Array) -> NDArray[np.float64]:
        """Return the Hessian at c times `direction`."""

    def hessian(self) -> NDArray[np.float64]:
        """Return the Hessian of a quadratic f."""


class PlaneRestriction(Restriction, Protocol):
    """f at ``shrink X + weight D`` as a function of (shrink, weight), for a fixed direction D.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> problem = rw.Problem(rw.Observations.from_coo([0, 1], [0, 1], [1.0, 2.0]), "square")
    >>> plane = problem.along(np.array([1.0, 0.0]), np.array([1.0, 0.0]))
    >>> value, slopes = plane(np.array([1.0, 3.0]))  # at X + 3 u v.T
    >>> print(value, slopes)
    4.0 [0. 2.]
    """

    def best_weight(self, tilt: float = 0.0, curvature: float = 0.0) -> float:
        """Minimize ``f(X + w D) + tilt w + curvature w**2 / 2`` over w >= 0, for a piecewise linear f; return w."""


@runtime_checkable
class Objective(Protocol):
    """A convex function f of a matrix X, and the current X in factored form.

    Anything with these members can be minimized by the pursuits.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> seen = rw.Observations.from_coo([0, 1], [0, 1], [1.0, 2.0])
    >>> objective: rw.objectives.Objective = rw.Problem(seen, "square")
    >>> objective.add(1.0, 2.0, np.array([1.0, 0.0]), np.array([1.0, 0.0]))  # X = X + 2 u v.T
    >>> objective.value()
    2.5
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of X."""

    @property
    def point(self) -> Factors:
        """The current X."""

    @property
    def smooth(self) -> bool:
        """Whether f is differentiable."""

    @property
    def quadratic(self) -> bool:
        """Whether f is quadratic."""

    @property
    def piecewise_linear(self) -> bool:
        """Whether f is piecewise linear."""

    @property
    def lipschitz(self) -> float | None:
        """Lipschitz constant of the gradient; None if unknown, then steps are found by backtracking."""

    @property
    def strong_convexity(self) -> float:
        """Strong convexity constant of f."""

    def reset(self) -> None:
        """Set X = 0."""

    def value(self) -> float:
        """Return f(X)."""

    def gradient(self) -> Gradient:
        """Return the gradient at X, or a subgradient if f is not smooth."""

    def along(self, u: Array, v: Array, theta: Array | None = None) -> PlaneRestriction:
        """Return ``(shrink, weight) -> f(shrink X + weight u diag(theta) v.T)``; u and v are vectors or matrices."""

    def along_terms(self) -> Restriction:
        """Return ``theta -> f(sum_k theta[k] u_k v_k.T)`` over the terms of X."""

    def add(self, shrink: float, weight: float, u: Array, v: Array, theta: Array | None = None) -> None:
        """Set ``X = shrink X + weight u diag(theta) v.T``; u and v are vectors or matrices."""

    def replace(self, theta: Array) -> None:
        """Set the coefficients of the terms of X."""

    def close(self) -> None:
        """Release threads and other resources; they are acquired again when needed."""


@runtime_checkable
class Movable(Objective, Protocol):
    """An objective that can be moved to any low-rank matrix: needed by `AltMin`, `AISImpute`, `GECO` and warm starts.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.Observations.from_coo([0, 1], [0, 1], [1.0, 2.0])
    >>> isinstance(rw.Problem(seen, "square"), rw.objectives.Movable)
    True
    """

    def move(self, theta: Array, U: Array, V: Array) -> None:
        """Set ``X = U diag(theta) V.T``."""


@runtime_checkable
class Entrywise(Objective, Protocol):
    """An objective with a loss at observed entries, of X plus offsets: the model gets its loss, labels and offsets.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.Observations.from_coo([0, 1], [0, 1], [1.0, 2.0])
    >>> isinstance(rw.Ridged(rw.Problem(seen, "square"), 1.0), rw.objectives.Entrywise)
    True
    """

    @property
    def observations(self) -> AnyEntries:
        """Observed entries, in memory, on disk or on a cluster."""

    @property
    def loss(self) -> Loss:
        """Loss at each entry."""

    @property
    def offsets(self) -> Offsets | None:
        """Current offsets."""

    @property
    def passes(self) -> int:
        """Passes made over the observations so far."""

    def fit_value(self) -> float:
        """Return the sum of the losses at the observed entries, without any penalty."""


@runtime_checkable
class HasSides(Entrywise, Movable, Protocol):
    """A plain sum of losses over entries, whose rows and columns can be solved for separately: needed by the sweeps.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.Observations.from_coo([0, 1], [0, 1], [1.0, 2.0])
    >>> isinstance(rw.Ridged(rw.Problem(seen, "square"), 1.0), rw.objectives.HasSides)
    False
    """

    @property
    def fixed_offsets(self) -> Offsets | None:
        """Offsets that belong to the objective, as opposed to those that a solver fits."""

    @property
    def engines(self) -> Mapping[str, Engine]:
        """Engines made so far, by axis."""

    def engine_of(self, axis: str) -> Engine:
        """Return the engine over the shards of the rows, or over those of the transpose for ``axis="columns"``."""

    def side(self, axis: str, offset: bool = True) -> Side:
        """Return the rows, or the columns, as a side without factors, with offsets of zero or none."""

    def place(self, offsets: Offsets | None, U: Array, V: Array) -> None:
        """Set ``X = U V.T`` and the offsets."""


@runtime_checkable
class Checkpointable(Objective, Protocol):
    """An objective that a checkpoint can store and a later process restore.

    Examples
    --------
    >>> import rankwise as rw
    >>> problem = rw.Problem(rw.Observations.from_coo([0, 1], [0, 1], [1.0, 2.0]), "square")
    >>> problem.restore(problem.snapshot())
    """

    @property
    def snapshot_types(self) -> tuple[type, ...]:
        """Dataclasses that a snapshot consists of."""

    def fingerprint(self) -> dict[str, object]:
        """Return values and checksums that identify the objective, as plain JSON."""

    def snapshot(self) -> Any:
        """Return the current point as a dataclass of arrays and numbers."""

    def restore(self, snapshot: Any) -> None:
        """Move to the point of a snapshot; raise `DataError` if it is not one of this objective."""


@runtime_checkable
class Rehearsable(Objective, Protocol):
    """An objective that names the compiled code it needs, so that compilation happens before the clock starts.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.Observations.from_coo([0, 1], [0, 1], [1.0, 2.0])
    >>> key, small = rw.Problem(seen, "square").rehearsal()
    >>> small.shape
    (3, 3)
    """

    def rehearsal(self) -> tuple[Hashable, Objective]:
        """Return a key of the compiled code, and a tiny objective that needs the same code."""
