"""Gradient and restrictions of a `Problem`, computed by operations on its shards."""

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from ..engines import Engine, Operation, Shard, best_weight
from ..kernels.lanes import pad_columns
from ..spectral import Operator
from .point import Point


class EntrywiseGradient(Operator):
    """Slopes of the losses on the observed pattern, shape (n_rows, n_cols); a product costs O(n_observed)."""

    def __init__(self, engine: Engine, point: Point, norm: float, inner: float) -> None:
        super().__init__(np.dtype(np.float64), point.factors.shape)
        self.point, self.version, self.norm, self.inner = point, point.version, norm, inner
        self.stored_dtype, self.each = point.factors.dtype, engine.each
        self._engine, self._no_shift = engine, np.zeros(self.shape[0])

    def _matvec(self, v: Array) -> Array:
        return self._product(Shard.product, v.ravel())

    def _rmatvec(self, u: Array) -> Array:
        return self._product(Shard.transposed, u.ravel())

    def _matmat(self, V: Array) -> Array:
        return self._product(Shard.product, V)

    def _rmatmat(self, U: Array) -> Array:
        return self._product(Shard.transposed, U)

    def gram(self, v: Array, shift: Array | None = None) -> tuple[Array, Array]:
        """Return ``z = G v + shift`` and ``G.T z`` for a vector or a block, in one pass over the observations."""
        if v.ndim == 1:
            shift = self._no_shift if shift is None else shift
            return self._current().run(Shard.gram, np.ascontiguousarray(v, self.stored_dtype), shift)
        block, n = pad_columns(v, self.stored_dtype), v.shape[1]
        shifts = np.zeros((self.shape[0], block.shape[1]))
        if shift is not None:
            shifts[:, :n] = shift
        z, w = self._current().run(Shard.gram, block, shifts)
        return z[:, :n], w[:, :n]

    def twice(self, v: Array) -> Array:
        """Return ``G.T G v`` for a vector or a block of columns, in one pass over the observations."""
        return self._product(Shard.twice, v)

    def _product(self, operation: Operation[Array, Array], v: Array) -> Array:
        """Run an operation on a vector, or on a block of columns, which the shards take in whole lanes."""
        if v.ndim == 1:
            return self._current().run(operation, np.ascontiguousarray(v, self.stored_dtype))
        return self._current().run(operation, pad_columns(v, self.stored_dtype))[:, : v.shape[1]]

    def _current(self) -> Engine:
        if self.version != self.point.version or self.point.summary is None:
            raise RuntimeError("X has changed since this gradient was computed; call `problem.gradient()` again.")
        return self._engine


class Plane:
    """``(shrink, weight) -> f(shrink X + weight D)`` for the direction D stored in the shards."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def __call__(self, c: Array) -> tuple[float, NDArray[np.float64]]:
        """Return value and gradient, shape (2,), in one pass over the observations."""
        sums = self.engine.run(Shard.plane, c[0], c[1])
        return float(sums[0]), sums[1:]

    def curve(self, c: Array, direction: Array) -> NDArray[np.float64]:
        """Return the Hessian at c times `direction`, in one pass over the observations."""
        return np.asarray(self._hessian_at(c) @ direction)

    def hessian(self) -> NDArray[np.float64]:
        """Return the Hessian of a quadratic f, shape (2, 2)."""
        return self._hessian_at(np.array([1.0, 0.0]))

    def best_weight(self, tilt: float = 0.0, curvature: float = 0.0) -> float:
        """Minimize ``f(X + w D) + tilt w + curvature w**2 / 2`` over w >= 0 for a piecewise linear loss.

        The minimizer is a weighted median; `tilt` and `curvature` are those of a ridge.
        """
        return best_weight(self.engine, tilt, curvature)

    def _hessian_at(self, c: Array) -> NDArray[np.float64]:
        xx, xd, dd = self.engine.run(Shard.plane_curve, c[0], c[1])
        return np.array([[xx, xd], [xd, dd]])


class Terms:
    """``theta -> f(sum_k theta[k] u_k v_k.T)`` over the terms of X."""

    def __init__(self, engine: Engine, point: Point) -> None:
        self.engine, self.point = engine, point

    def __call__(self, c: Array) -> tuple[float, NDArray[np.float64]]:
        """Return value and gradient, shape (rank,), in O(rank n_observed)."""
        factors = self.point.factors
        self.point.drop_scratch()
        sums = self.engine.run(Shard.terms, factors.pad(c), *factors.padded[1:])
        return float(sums[0]), sums[1 : 1 + factors.rank]

    def curve(self, c: Array, direction: Array) -> NDArray[np.float64]:
        """Return the Hessian at c times `direction`, in O(rank n_observed)."""
        factors = self.point.factors
        self.point.drop_scratch()
        product = self.engine.run(Shard.curve_terms, factors.pad(c), factors.pad(direction), *factors.padded[1:])
        return product[: factors.rank]

    def hessian(self) -> NDArray[np.float64]:
        """Return the Hessian of a quadratic f: inner products of the terms on the observed entries, each made once."""
        point = self.point
        for k in range(point.gram.shape[0], point.factors.rank):
            unit = np.zeros(k + 1)
            unit[k] = 1.0
            column = self.curve(unit, unit)[: k + 1]
            point.gram = np.pad(point.gram, (0, 1))
            point.gram[k, : k + 1] = point.gram[: k + 1, k] = column
        return point.gram
