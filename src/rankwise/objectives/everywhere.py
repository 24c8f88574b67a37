"""The term of all cells at the current point of a `Problem`: value, gradient and restrictions."""

from functools import cached_property

import numpy as np

from .._arrays import Array
from ..engines import Engine
from ..model import Cells, as_terms
from ..spectral import LowRank, SparsePlusLowRank
from ..spectral.tall import inner
from .entrywise import EntrywiseGradient
from .point import Direction, Point
from .protocol import PlaneRestriction, Restriction
from .quadratic import PlanePlusQuadratic, PlusQuadratic


class CellTerm:
    """``weight / 2 * ||X + offsets - value||**2`` in the norm that weighs the cells, for ``X = U diag(theta) V.T``.

    Plus the weighted sum of ``X + offsets - value`` times the term's slope.

    The inner products of the terms of X are kept with the point, one new row per added term in O((n_rows + n_cols)
    rank).
    """

    def __init__(self, cells: Cells, point: Point, engine: Engine) -> None:
        self.cells, self.point, self.engine = cells, point, engine

    @property
    def slope(self) -> float:
        """Factor of the sum of all predictions."""
        return self.cells.everywhere.slope

    @property
    def lipschitz(self) -> float:
        """Lipschitz constant of the gradient."""
        return float(self.cells.weight * self.cells.rows.max() * self.cells.cols.max())

    @property
    def strong_convexity(self) -> float:
        """Strong convexity constant."""
        return float(self.cells.weight * self.cells.rows.min() * self.cells.cols.min())

    def value(self) -> float:
        """Return the term at X; O((n_rows + n_cols) rank)."""
        theta = self.point.factors.theta
        quadratic, linear, constant = self._in_terms()
        return float(theta @ (0.5 * quadratic @ theta + linear) + constant)

    def gradient(self, slopes: EntrywiseGradient) -> EntrywiseGradient | SparsePlusLowRank:
        """Return the gradient of the whole objective, given that of the losses."""
        factors, (left, right) = self.point.factors, self._rest()
        theta = np.append(factors.theta, np.ones(left.shape[1])) * self.cells.weight
        if self.slope:
            theta, left, right = np.append(theta, self.slope), *(_with_ones(side) for side in (left, right))
        if not theta.size:
            return slopes
        sides = (factors.U, left, self.cells.rows), (factors.V, right, self.cells.cols)
        U, V = (np.column_stack((own, rest)) * weights[:, None] for own, rest, weights in sides)
        low_rank = LowRank(theta, U.astype(factors.dtype), V.astype(factors.dtype), self.engine.each)
        quadratic, linear, _ = self._in_terms()
        return WholeGradient(slopes, low_rank, float(factors.theta @ (quadratic @ factors.theta + linear)))

    def along(self, plane: PlaneRestriction, direction: Direction) -> PlanePlusQuadratic:
        """Return the restriction of the whole objective to a plane, given that of the losses."""
        scales, left, right = as_terms(*direction)
        factors, weight = self.point.factors, self.cells.weight
        theta, (quadratic, linear, constant) = factors.theta, self._in_terms()
        scaled = self.cells.rows[:, None] * left, self.cells.cols[:, None] * right
        cross = weight * float(scales @ (factors.inner_products(*scaled) @ theta))
        own = weight * float(scales @ (_products(scaled, (left, right)) @ scales))
        products = np.array([[float(theta @ quadratic @ theta), cross], [cross, own]])
        slopes = np.array([float(linear @ theta), float(self._linear(left, right) @ scales)])
        return PlanePlusQuadratic(plane, products, slopes, constant)

    def along_terms(self, terms: Restriction) -> PlusQuadratic:
        """Return the restriction of the whole objective to the coefficients of X, given that of the losses."""
        return PlusQuadratic(terms, *self._in_terms())

    def _in_terms(self) -> tuple[Array, Array, float]:
        """The term as a quadratic function of theta: Hessian, gradient at zero, and value at zero."""
        factors, weight, (left, right) = self.point.factors, self.cells.weight, self._rest()
        scaled = self.cells.rows[:, None] * left, self.cells.cols[:, None] * right
        constant = 0.5 * weight * float(np.sum(_products(scaled, (left, right)))) + self._sloped(left, right).sum()
        return weight * self._extended(), self._linear(factors.U, factors.V), constant

    def _extended(self) -> Array:
        """Weighted inner products of all terms of X, of which those of the first ones are known."""
        point, factors = self.point, self.point.factors
        known, rank = point.products.shape[0], factors.rank
        if known < rank:
            u, v = self.cells.rows[:, None] * factors.U[:, known:], self.cells.cols[:, None] * factors.V[:, known:]
            cross = factors.inner_products(u, v)
            point.products = np.pad(point.products, (0, rank - known))
            point.products[known:], point.products[:, known:] = cross, cross.T
        return point.products

    def _linear(self, u: Array, v: Array) -> Array:
        """Weighted inner products of the terms ``u_k v_k.T`` with the offsets less the value of absence."""
        left, right = self._rest()
        scaled = self.cells.rows[:, None] * left, self.cells.cols[:, None] * right
        return np.asarray(self.cells.weight * _products((u, v), scaled).sum(axis=1)) + self._sloped(u, v)

    def _sloped(self, u: Array, v: Array) -> Array:
        """The slope times the weighted sums of the terms ``u_k v_k.T``."""
        return np.asarray(self.slope * (u.T @ self.cells.rows) * (v.T @ self.cells.cols))

    def _rest(self) -> tuple[Array, Array]:
        """Offsets less the value of absence as two terms ``left @ right.T``, or none if both are zero."""
        offsets, value, (m, n) = self.point.offsets, self.cells.value, self.point.factors.shape
        if offsets is None:
            width = int(value != 0)
            return np.full((m, width), -value), np.ones((n, width))
        rows, cols = offsets.rows.astype(np.float64), offsets.cols.astype(np.float64)
        left = np.column_stack((rows + (offsets.constant - value), np.ones(m)))
        return left, np.column_stack((np.ones(n), cols))


class WholeGradient(SparsePlusLowRank):
    """Slopes at the observed entries plus ``weight D_r (X + offsets - value) D_c``, low-rank and not formed."""

    def __init__(self, slopes: EntrywiseGradient, low_rank: LowRank, inner_product: float) -> None:
        super().__init__(slopes, low_rank)
        self.slopes, self.inner = slopes, slopes.inner + inner_product

    @cached_property
    def norm(self) -> float:
        """Frobenius norm, in O(rank n_observed + rank**2 (n_rows + n_cols)) when it is first used."""
        theta, U, V, each = self.low_rank.theta, self.low_rank.U, self.low_rank.V, self.each
        own = theta @ (inner(U, U, each).astype(np.float64) * inner(V, V, each)) @ theta
        cross = np.sum(self.slopes.matmat(V) * (U * theta))
        return float(np.sqrt(max(self.slopes.norm**2 + 2 * cross + own, 0.0)))


def _with_ones(side: Array) -> Array:
    return np.column_stack((side, np.ones(len(side))))


def _products(one: tuple[Array, Array], other: tuple[Array, Array]) -> Array:
    """Inner products of the terms ``one[0][:, k] one[1][:, k].T`` with those of `other`, in float64."""
    (u, v), (left, right) = ((np.asarray(side, np.float64) for side in pair) for pair in (one, other))
    return np.asarray((u.T @ left) * (v.T @ right))
