"""A row shard: some rows of the observed matrix, the prediction there, and the verbs it answers."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._digests import checksum
from ..kernels import pattern
from ..kernels.expected import majorised
from ..kernels.row_entries import Entries
from ..kernels.row_parts import Design, RowProblem
from ..kernels.row_solver import uncached_solve_rows
from ..losses import Loss
from ..observations import Piece
from .buffers import Buffers
from .offsets import Offsets

Array = NDArray[Any]


class Shard:
    """Rows ``start`` to ``stop`` of an observed matrix with the current prediction at their entries.

    Holds per entry the column (4 bytes), and in the problem's number type the target, the weight if any, the
    prediction, its slope, and the direction that was aimed at, made when first needed: by `room`, which gives an array
    for each of these names. `slopes` and `direction` also serve as scratch.
    Verbs that change the prediction carry a step number, so that repeating one does no harm.
    """

    def __init__(self, piece: Piece, loss: Loss, dtype: Any, room: Callable[[str], Array] | None = None) -> None:
        self.buffers = Buffers()
        self._room = room or (lambda name: np.zeros(piece.indices.size, dtype))
        self.start, self.stop, self.n_cols = piece.start, piece.stop, piece.n_cols
        self.loss, self.formula = loss.compiled, loss.formula
        self.indptr, self.indices = _fixed(piece.indptr), _fixed(piece.indices)
        self.targets = _fixed(piece.targets.astype(dtype, copy=False))
        self.weights = None if piece.weights is None else _fixed(piece.weights.astype(dtype, copy=False))
        self.base: Array | None = None
        self.step = 0

    @cached_property
    def predicted(self) -> Array:
        """X at the entries; zero at first."""
        return self._room("predicted")

    @cached_property
    def slopes(self) -> Array:
        """Slopes of the losses, as `evaluate` left them."""
        return self._room("slopes")

    @cached_property
    def direction(self) -> Array:
        """What was aimed at."""
        return self._room("direction")

    def answer(self, verb: str, args: tuple[Any, ...]) -> Any:
        """What this shard says to a verb."""
        return getattr(self, verb)(*args)

    def evaluate(self) -> Array:
        """Refresh the slopes; value, squared norm of the slopes, inner product of slopes and prediction. Join: sum."""
        found = self.loss.evaluate(self.formula, self.predicted, self.base, self.targets, self.weights, self.slopes)
        return np.array(found)

    def product(self, v: Array) -> Array:
        """``G v`` for a vector or a block of columns. Join: concatenate."""
        rows = np.empty((self.stop - self.start, *v.shape[1:]))
        kernel = pattern.product if v.ndim == 1 else pattern.product_block
        kernel(self.indptr, self.indices, self.slopes, v, rows)
        return rows

    def transposed(self, u: Array) -> Array:
        """``G.T u`` for a vector or a block of columns. Join: sum."""
        u, cols = u[self.start : self.stop], self.buffers.take((self.n_cols, *u.shape[1:]))
        kernel = pattern.transposed if u.ndim == 1 else pattern.transposed_block
        kernel(self.indptr, self.indices, self.slopes, u, cols)
        return cols

    def gram(self, v: Array, shift: Array) -> tuple[Array, Array]:
        """``z = G v + shift`` and ``G.T z`` for a vector or a block of columns. Join: concatenate, sum."""
        rows, shift = np.empty((self.stop - self.start, *v.shape[1:])), shift[self.start : self.stop]
        cols = self.buffers.take((self.n_cols, *v.shape[1:]))
        kernel = pattern.gram if v.ndim == 1 else pattern.gram_block
        kernel(self.indptr, self.indices, self.slopes, v, shift, rows, cols)
        return rows, cols

    def twice(self, v: Array) -> Array:
        """``G.T G v``, what `gram` has less its z, which need not travel. Join: sum."""
        rows = np.zeros((2, self.stop - self.start, *v.shape[1:]))
        cols = self.buffers.take((self.n_cols, *v.shape[1:]))
        kernel = pattern.gram if v.ndim == 1 else pattern.gram_block
        kernel(self.indptr, self.indices, self.slopes, v, rows[0], rows[1], cols)
        return cols

    def aim(self, u: Array, v: Array, theta: Array | None = None) -> None:
        """Remember ``u v.T``, or ``u diag(theta) v.T``, at the observed entries. Join: stay."""
        if theta is None:
            pattern.rank_one_at(self.indptr, self.indices, u[self.start : self.stop], v, self.direction)
        else:
            self._low_rank(theta, u, v, self.direction)

    def plane(self, shrink: float, weight: float) -> Array:
        """Value and first derivatives of f(shrink X + weight D), D being what was aimed at. Join: sum."""
        arrays = self.predicted, self.base, self.direction, self.targets, self.weights
        return np.array(self.loss.plane(self.formula, *arrays, float(shrink), float(weight)))

    def plane_curve(self, shrink: float, weight: float) -> Array:
        """Second derivatives of f(shrink X + weight D). Join: sum."""
        arrays = self.predicted, self.base, self.direction, self.targets, self.weights
        return np.array(self.loss.plane_curve(self.formula, *arrays, float(shrink), float(weight)))

    def breakpoints(self, lo: float, hi: float, n_bins: int) -> Array:
        """Slope of f(X + eta D) just above eta = lo, then jumps and counts in bins of (lo, hi]. Join: sum."""
        found = np.zeros((2, n_bins))
        arrays = self.predicted, self.base, self.direction, self.targets, self.weights
        slope = self.loss.breakpoints(self.formula, *arrays, float(lo), float(hi), *found)
        return np.concatenate(([slope], found.ravel()))

    def breakpoints_between(self, lo: float, hi: float, most: int) -> Array:
        """The breakpoints in (lo, hi], each with its jump, at most `most`. Join: concatenate.

        The first is at lo itself and holds the slope there, so that no kink is counted twice or lost to rounding.
        """
        found = np.empty((2, most + 1))
        arrays = self.predicted, self.base, self.direction, self.targets, self.weights
        n, slope = self.loss.breakpoints_between(self.formula, *arrays, float(lo), float(hi), *found[:, 1:])
        found[:, 0] = lo, slope
        return found[:, : int(n) + 1].T

    def add(self, step: int, shrink: float, weight: float) -> None:
        """``X = shrink X + weight D``. Join: stay."""
        if self.step < step:
            pattern.blend(self.predicted, float(shrink), float(weight), self.direction)
            self.step = step

    def zero(self, step: int) -> None:
        """``X = 0``. Join: stay."""
        self.predicted[:] = 0.0
        self.step = step

    def replace(self, step: int, theta: Array, U: Array, V: Array) -> None:
        """``X = U diag(theta) V.T``. Join: stay."""
        if self.step < step:
            self._low_rank(theta, U, V, self.predicted)
            self.step = step

    def terms(self, theta: Array, U: Array, V: Array) -> Array:
        """Value and gradient in theta of f(U diag(theta) V.T). Join: sum. Uses `direction` and `slopes` as scratch."""
        self._low_rank(theta, U, V, self.direction)
        found = self.loss.evaluate(self.formula, self.direction, self.base, self.targets, self.weights, self.slopes)
        return np.concatenate(([found[0]], self._pull_back(U, V)))

    def curve_terms(self, theta: Array, direction: Array, U: Array, V: Array) -> Array:
        """Hessian in theta of f(U diag(theta) V.T), times `direction`. Join: sum. Scratch as `terms`, twice."""
        self._low_rank(theta, U, V, self.slopes)
        self._low_rank(direction, U, V, self.direction)
        arrays = self.slopes, self.base, self.direction, self.targets, self.weights
        self.loss.curve(self.formula, *arrays, self.slopes)
        return self._pull_back(U, V)

    def shift(self, offsets: Offsets | None) -> None:
        """What is added to X at every entry from now on. Join: stay."""
        if offsets is None:
            self.base = None
            return
        if self.base is None:
            self.base = self._room("base")
        rows, cols = (np.ascontiguousarray(side, np.float64) for side in (offsets.rows, offsets.cols))
        pattern.offsets_at(
            self.indptr, self.indices, float(offsets.constant), rows[self.start : self.stop], cols, self.base
        )

    def gather(self, block: Array, width: int) -> Array:
        """Sums of the rows of `block` over every row's columns. Join: concatenate.

        The block has columns of zeros up to a multiple of eight; the first `width` are wanted.
        """
        rows = np.empty((self.stop - self.start, block.shape[1]), block.dtype)
        pattern.gather(self.indptr, self.indices, block, rows)
        return rows[:, :width]

    def solve_rows(
        self, design: Design, problem: RowProblem, means: Array, variances: Array
    ) -> tuple[tuple[Array, Array], Array]:
        """Improved means and variances of the rows, and the kernel's four sums. Join: concatenate, sum."""
        own = slice(self.start, self.stop)
        rows = means[own].copy(), variances[own].copy()
        problem = problem.map_arrays(lambda array: array[own], lambda array: array)
        trial = None if majorised(self.formula) else np.empty((2, means.shape[1]), means.dtype)
        solve = self.loss.solve_rows if problem.built_in else uncached_solve_rows
        sums = solve(self.formula, self._entries(design), problem, trial, *rows)
        return rows, np.array(sums)

    def expected_loss(self, design: Design, means: Array, variances: Array) -> Array:
        """Sum of the expected losses of the shard's entries. Join: sum."""
        own = slice(self.start, self.stop)
        return np.array([self.loss.expected_loss(self.formula, self._entries(design), means[own], variances[own])])

    def _entries(self, design: Design) -> Entries:
        return Entries(self.indptr, self.indices, self.targets, self.weights, design.padded())

    def checksum(self) -> Array:
        """Tells whether these are the same entries, 16 bytes. Join: concatenate."""
        found = checksum(self.n_cols, self.indptr, self.indices, self.targets, self.weights)
        return np.frombuffer(found, np.uint8)

    def _low_rank(self, theta: Array, U: Array, V: Array, out: Array) -> None:
        pattern.low_rank_at(self.indptr, self.indices, theta, U[self.start : self.stop], V, out)

    def _pull_back(self, U: Array, V: Array) -> Array:
        out = np.zeros(U.shape[1])
        pattern.pull_back(self.indptr, self.indices, self.slopes, U[self.start : self.stop], V, out)
        return out


def _fixed(array: Array) -> Array:
    """`array` marked read-only: one compiled signature, whether it is a view of the observations or a copy."""
    array.flags.writeable = False
    return array
