"""What every loss has: a formula, facts about it, and the targets it takes."""

from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._digests import checksum
from .._errors import DataError
from ..kernels import entrywise, piecewise, row_solver

BUILT_IN = SimpleNamespace(
    evaluate=entrywise.evaluate,
    plane=entrywise.plane,
    plane_curve=entrywise.plane_curve,
    curve=entrywise.curve,
    values_at=entrywise.values_at,
    breakpoints=piecewise.breakpoints,
    breakpoints_between=piecewise.breakpoints_between,
    solve_rows=row_solver.solve_rows,
    expected_loss=row_solver.expected_loss,
)


class Loss:
    """A convex function of the prediction x, given the target o.

    Attributes
    ----------
    name : str
        The word for it in ``loss=``.
    smooth : bool
        Whether the slope is continuous.
    lipschitz : float or None
        Lipschitz constant of the slope, the paper's L; None if there is none, or none is known.
    quadratic : bool
        Whether the curvature is constant, so that refitting coefficients is a least-squares problem.
    piecewise_linear : bool
        Whether it is made of straight lines, so that the best step along a direction is a weighted median.
    domain : str
        The targets it takes, in words.
    link : str
        How predictions relate to targets: "identity", "logit" (log-odds of +1) or "log" (log of the rate).

    Examples
    --------
    >>> import rankwise as rw
    >>> huber = rw.losses.get("huber")
    >>> print(huber.smooth, huber.lipschitz, huber.domain)
    True 1.0 any real number
    >>> huber.slope([-5.0, 0.5], 0.0)
    array([-1. ,  0.5])
    """

    name: ClassVar[str]
    smooth: bool = True
    lipschitz: float | None = None
    quadratic: bool = False
    piecewise_linear: bool = False
    domain: str = "any real number"
    link: str = "identity"

    @property
    def formula(self) -> Any:
        """The parameters as the tuple that the kernels dispatch on."""
        raise NotImplementedError(f"{type(self).__name__} declares no formula.")

    @property
    def compiled(self) -> Any:
        """Holder of the kernels that accept this loss's formula."""
        return BUILT_IN

    def checksum(self) -> bytes:
        """Tells whether another loss is the same, its parameters included."""
        return checksum(type(self).__name__, *self.formula)

    def in_domain(self, targets: NDArray[Any]) -> NDArray[np.bool_]:
        """Mask of the targets that this loss takes."""
        return np.asarray(np.isfinite(targets))

    def log_normaliser(self, scale: float) -> float:
        """Log of the integral of ``exp(-scale * loss)`` over the target; zero if the loss is no density of it."""
        return 0.0

    def best_scale(self, mean: float) -> float:
        """The scale that makes a mean loss likeliest: least ``scale * mean + log_normaliser``; 1 if not a density."""
        return 1.0

    domain_cure: ClassVar[str] = "Remove or correct them."

    def check_targets(self, targets: NDArray[Any]) -> None:
        """Raise `DataError` naming the first target outside the domain."""
        wrong = np.flatnonzero(~self.in_domain(targets))
        if wrong.size:
            self.refuse(wrong.size, targets.size, targets[wrong[0]], int(wrong[0]))

    def refuse(self, n_wrong: int, n: int, first: Any, entry: int) -> None:
        """Raise `DataError`: some targets are outside the domain."""
        raise DataError(
            f"{type(self).__name__} needs targets that are {self.domain}; {n_wrong} of {n} are not "
            f"(first: {first:g} at entry {entry}). {self.domain_cure}"
        )

    def _at(self, x: ArrayLike, o: ArrayLike) -> NDArray[np.float64]:
        x, o = np.broadcast_arrays(np.asarray(x, float), np.asarray(o, float))
        out = np.empty((3, x.size))
        self.compiled.values_at(self.formula, x.ravel(), o.ravel(), out)
        return out.reshape((3, *x.shape))

    def value(self, x: ArrayLike, o: ArrayLike) -> NDArray[np.float64]:
        """Loss at predictions `x` and targets `o`, entry by entry."""
        found: NDArray[np.float64] = self._at(x, o)[0]
        return found

    def slope(self, x: ArrayLike, o: ArrayLike) -> NDArray[np.float64]:
        """Derivative in x (a subgradient at a kink), entry by entry."""
        found: NDArray[np.float64] = self._at(x, o)[1]
        return found

    def curvature(self, x: ArrayLike, o: ArrayLike) -> NDArray[np.float64]:
        """Second derivative in x where it exists, entry by entry."""
        found: NDArray[np.float64] = self._at(x, o)[2]
        return found


class SignLoss(Loss):
    """A loss of the margin x o, for targets -1 and +1."""

    domain = "-1 or +1"
    domain_cure = "Map 0/1 data with `2 * y - 1`."

    def in_domain(self, targets: NDArray[Any]) -> NDArray[np.bool_]:
        """Mask of the targets that are -1 or +1."""
        return np.asarray((targets == -1) | (targets == 1))
