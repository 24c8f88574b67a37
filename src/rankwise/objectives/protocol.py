"""All that a solver may ask of the function it minimises."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..model import Factors

Array = NDArray[Any]


class Gradient(Protocol):
    """The gradient of f at the current point, as an operator that `scipy.sparse.linalg` understands.

    It is valid until the point moves.

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
        """Gradient times v."""
        ...

    def rmatvec(self, u: Array) -> Array:
        """Gradient, transposed, times u."""
        ...


class Restriction(Protocol):
    """f as a function of a few coefficients c.

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
        """Value and gradient at c."""
        ...

    def curve(self, c: Array, direction: Array) -> NDArray[np.float64]:
        """Hessian at c times `direction`."""
        ...

    def hessian(self) -> NDArray[np.float64]:
        """The Hessian, if f is quadratic."""
        ...


class PlaneRestriction(Restriction, Protocol):
    """f as a function of (shrink, weight), at shrink X + weight D.

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
        """Minimiser of ``f(X + w D) + tilt w + curvature w**2 / 2`` over w >= 0, if f is piecewise linear."""
        ...


class Objective(Protocol):
    """A convex function f of a matrix X, and a current point X in factored form.

    Anything that has these members can be minimised by the greedy pursuit.

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

    shape: tuple[int, int]
    point: Factors
    smooth: bool
    quadratic: bool
    piecewise_linear: bool
    lipschitz: float | None  # of the gradient; None: unknown, steps by backtracking
    strong_convexity: float

    def reset(self) -> None:
        """Move to X = 0."""
        ...

    def value(self) -> float:
        """Value f(X)."""
        ...

    def gradient(self) -> Any:
        """Gradient at X (a subgradient if f is not smooth); see `Gradient`."""
        ...

    def along(self, u: Array, v: Array, theta: Array | None = None) -> PlaneRestriction:
        """``(shrink, weight) -> f(shrink X + weight u v.T)``; u and v may have several columns, scaled by theta."""
        ...

    def along_terms(self) -> Restriction:
        """``theta -> f(sum_k theta[k] u_k v_k.T)`` over the terms of X."""
        ...

    def add(self, shrink: float, weight: float, u: Array, v: Array, theta: Array | None = None) -> None:
        """``X = shrink X + weight u v.T``; u and v may have several columns, scaled by theta."""
        ...

    def replace(self, theta: Array) -> None:
        """New coefficients for the terms of X."""
        ...

    def close(self) -> None:
        """Let go of threads or other resources; they come back when needed."""
        ...
