"""Constraints on the factors of a row as a whole: mixtures, one of several, and given ones."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import uint64

from .._arrays import Array
from .._digests import checksum
from .._errors import SettingError
from ..kernels.jit import part
from ..kernels.row_penalties import LAST_PASS, PASSES, NoFields, PenaltyFormulas, move_component
from .base import Penalty, register


class SimplexFields(NoFields):
    """No parameters."""


class OneHotFields(NoFields):
    """No parameters."""


class FixedFields(NoFields):
    """No parameters."""


def exchange(p, d, matrix, diagonal, vector, solution):
    """Move weight from the component with the least gain to that with the largest, as often as it pays."""
    size, fallen = uint64(p.size), 0.0
    for _ in range(PASSES):
        fall = 0.0
        for _ in range(size):
            up, down = uint64(0), size
            for a in range(size):
                if vector[a] > vector[up]:
                    up = a
                if solution[a] > 0.0 and (down == size or vector[a] < vector[down]):
                    down = a
            gain = vector[up] - vector[down]
            if not gain > 0.0:
                break
            curvature, change = diagonal[up] + diagonal[down] - 2.0 * matrix[up, down], solution[down]
            if gain < change * curvature:
                change = gain / curvature
            fall += change * (gain - 0.5 * change * max(curvature, 0.0))
            move_component(d, down, solution[down] - change, matrix, diagonal, vector, solution)
            move_component(d, up, solution[up] + change, matrix, diagonal, vector, solution)
        fall += move_others(size, d, matrix, diagonal, vector, solution)
        fallen += fall
        if fall <= LAST_PASS * fallen:
            break


@part
def move_others(size, d, matrix, diagonal, vector, solution):
    """Minimize over each component that the constraint does not cover; return the decrease of the quadratic."""
    fall = 0.0
    for a in range(size, d):
        fall += move_component(d, a, solution[a] + vector[a] / diagonal[a], matrix, diagonal, vector, solution)
    return fall


def choose_best(p, d, matrix, diagonal, vector, solution):
    """Set the row to the unit vector of the least quadratic; to the present one if none is better."""
    size, best, least = uint64(p.size), uint64(p.size), np.inf
    for a in range(size):
        rhs = vector[a]
        for b in range(size):
            rhs += matrix[a, b] * solution[b]
        value = 0.5 * diagonal[a] - rhs
        if value < least or (value == least and solution[a] == 1.0):
            best, least = a, value
    for a in range(size):
        move_component(d, a, 1.0 if a == best else 0.0, matrix, diagonal, vector, solution)


def stay(p, d, matrix, diagonal, vector, solution):
    """Leave the factors as they are."""
    move_others(uint64(p.size), d, matrix, diagonal, vector, solution)


@register
@dataclass(frozen=True)
class Simplex(Penalty):
    """The factors of a row are at least zero and sum to one: a row is a mixture of profiles of the columns.

    The other side has the unit of the targets. There is no ridge unless one is given.

    Parameters
    ----------
    ridge : float, optional
        Ridge of the factors, which draws mixtures to equal parts; by default zero.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> mixtures = rw.solvers.FactorSweeps(rows="simplex", offsets="none")
    >>> model = rw.solve(rw.Problem(seen, "square"), mixtures, rank=2).model
    >>> bool((abs(model.U.sum(axis=1) - 1) < 1e-6).all())
    True
    """

    name = "simplex"
    formulas = PenaltyFormulas(SimplexFields, minimize=exchange)
    nonnegative = True
    fixes_scale = True

    def feasible(self, factors: Array) -> Array:
        """Return the nearest points of the simplex, by sorting."""
        ordered = -np.sort(-factors.astype(np.float64), axis=1)
        excess = np.cumsum(ordered, axis=1) - 1.0
        counts = np.arange(1, factors.shape[1] + 1)
        n = np.maximum((ordered - excess / counts > 0).sum(axis=1), 1)
        shift = np.take_along_axis(excess, n[:, None] - 1, axis=1) / n[:, None]
        return np.asarray(np.maximum(factors - shift, 0), factors.dtype)


@register
@dataclass(frozen=True)
class OneHot(Penalty):
    """One factor of a row is one and all others are zero: the row's cluster, as in k-means.

    The factors of the other side are the centers of the clusters. The side has no offsets of its own, and no ridge.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> clusters = rw.solvers.FactorSweeps(rows="onehot", offsets="none")
    >>> model = rw.solve(rw.Problem(seen, "l1"), clusters, rank=2).model
    >>> sorted(set(model.U.ravel().tolist()))
    [0.0, 1.0]
    """

    name = "onehot"
    formulas = PenaltyFormulas(OneHotFields, minimize=choose_best, choices=True)
    nonnegative = True
    fixes_scale = True

    def feasible(self, factors: Array) -> Array:
        """Return the unit vectors of the largest factors."""
        return np.asarray(np.eye(factors.shape[1], dtype=factors.dtype)[factors.argmax(axis=1)])


@dataclass(frozen=True, eq=False, repr=False)
class Fixed(Penalty):
    """Given factors, which stay as they are; the other side is then a regression on them.

    Parameters
    ----------
    factors : array-like of shape (n, rank)
        A line for every row of the side. The rank of the fit is the number of its columns.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> months = np.column_stack((np.ones(12), np.arange(12.0)))  # a line through every row's months
    >>> lines = rw.solvers.FactorSweeps(cols=rw.penalties.Fixed(months), ridge=0.0, offsets="none")
    >>> sales = np.outer([1.0, 2.0, 3.0], np.arange(12.0)) + 5.0
    >>> model = rw.solve(rw.Problem(sales, "square", dtype="float64"), lines, rank=2).model
    >>> model.U.round(3)
    array([[5., 1.],
           [5., 2.],
           [5., 3.]])
    """

    name = "fixed"
    formulas = PenaltyFormulas(FixedFields, minimize=stay)
    fixes_scale = True
    ridge: float | None = field(default=None, init=False)
    factors: Any = None

    def __post_init__(self) -> None:
        try:
            factors = np.array(self.factors, np.float64)
        except (TypeError, ValueError):
            factors = np.zeros(0)
        if factors.ndim != 2 or not factors.size or not np.isfinite(factors).all():
            raise SettingError(
                f"`factors` of Fixed must be a matrix of finite numbers with a line per row, got {self.factors!r}."
            )
        factors.flags.writeable = False
        object.__setattr__(self, "factors", factors)

    def __repr__(self) -> str:
        """Shape and digest, which identify the factors."""
        n, rank = self.factors.shape
        return f"Fixed({n} x {rank}, {checksum(self.factors).hex()[:8]})"

    def numbers(self) -> dict[str, float]:
        """None: the solver keeps the factors in the rows themselves."""
        return {}

    def feasible(self, factors: Array) -> Array:
        """Return the given factors; repeated or cut for rows or ranks of another number, as in a rehearsal."""
        n, rank = factors.shape
        given = np.pad(self.factors, ((0, 0), (0, max(rank - self.factors.shape[1], 0))), "wrap")[:, :rank]
        return np.ascontiguousarray(given[np.arange(n) % given.shape[0]], factors.dtype)

    def to_plain(self) -> dict[str, Any]:
        """Return the name; the model has the factors."""
        return {"name": self.name}
