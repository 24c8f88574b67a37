"""Row shards: some rows of the observed matrix with the prediction at their entries, and the operations on them."""

from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from .._arrays import Array
from .._digests import checksum
from ..kernels import pattern, tile_losses
from ..kernels.entrywise import SearchLine
from ..kernels.expected import majorised
from ..kernels.lanes import pad_columns
from ..kernels.row_entries import RowEntries
from ..kernels.row_parts import Design, RowProblem
from ..kernels.row_solver import expected_loss, solve_rows, uncached_solve_rows
from ..kernels.row_work import Scratch
from ..kernels.tile_losses import TileLoss
from ..losses import Loss
from ..observations import Piece
from ..observations.build import rows_of
from ..observations.shards import count_blocks, cut_blocks
from ..spectral.tall import blended
from .base import Buffers, Results
from .lines import RowLines, row_squares
from .offsets import Offsets
from .operations import AnyOperation, Join, Line, operation


class Shard(RowLines):
    """Rows ``start`` to ``stop`` of an observed matrix with the current prediction at their entries.

    Stores per entry the column (4 bytes) and, in the problem's dtype, the target, the weight if any, the prediction X,
    its slope, and the direction D, each allocated when first needed. `slopes` and `direction` also serve as scratch.
    G is the matrix of slopes at the observed entries.

    Operations that change the prediction carry a step number, so that repeating one has no effect.

    Parameters
    ----------
    piece : Piece
    loss : Loss
    dtype : dtype
    allocate : callable, optional
        Returns an array of zeros, one per entry, for each of the names "predicted", "slopes", "direction" and "base";
        in memory by default.
    """

    def __init__(self, piece: Piece, loss: Loss, dtype: Any, allocate: Callable[[str], Array] | None = None) -> None:
        self.buffers = Buffers()
        self._allocate = allocate or (lambda name: np.zeros(piece.indices.size, dtype))
        self.start, self.stop, self.n_cols = piece.start, piece.stop, piece.n_cols
        self.loss, self.formula, self.cached = loss.compiled, loss.formula, loss.built_in
        self.quadratic = loss.quadratic
        self.indptr, self.indices = _fixed(piece.indptr), _fixed(piece.indices)
        self._stored: Callable[[], Array] = lambda: loss.units.stored(piece.targets, dtype)
        self.weights = None if piece.weights is None else _fixed(piece.weights.astype(dtype, copy=False))
        self.base: Array | None = None
        self.step = 0
        self.n_blocks = count_blocks(self.indices.size)

    @cached_property
    def targets(self) -> Array:
        """Targets of the entries in the loss's units."""
        return _fixed(self._stored())

    @cached_property
    def predicted(self) -> Array:
        """X at the entries; zero at first."""
        return self._allocate("predicted")

    @cached_property
    def slopes(self) -> Array:
        """Slopes of the losses at X, as of the last `evaluate`."""
        return self._allocate("slopes")

    @cached_property
    def direction(self) -> Array:
        """D at the entries, as of the last `aim`."""
        return self._allocate("direction")

    def run(self, operation: AnyOperation, args: tuple[Any, ...]) -> Any:
        """Return the result of an operation on this shard."""
        if operation.by_block and self.n_blocks > 1:
            results = Results(operation.join, self.buffers)
            results.add(0, *(operation.method(block, *args) for block in self._blocks))
            return results.joined()
        return operation.method(self, *args)

    def parts(self, operation: AnyOperation) -> Sequence["Shard"]:
        """Return blocks of this shard's rows that threads may share under an operation, or the shard alone."""
        return self._blocks if operation.by_block and self.n_blocks > 1 else (self,)

    @cached_property
    def _blocks(self) -> list["Shard"]:
        return [self._block(first, last) for first, last in pairwise(cut_blocks(self.indptr).tolist())]

    def _block(self, first: int, last: int) -> "Shard":
        """Return some rows as a shard without a prediction."""
        block, entries = copy(self), slice(int(self.indptr[first]), int(self.indptr[last]))
        block.start, block.stop, block.n_blocks = self.start + first, self.start + last, 1
        block.indptr = _fixed(self.indptr[first : last + 1] - self.indptr[first])
        block.indices, block.targets = self.indices[entries], self.targets[entries]
        block.weights = None if self.weights is None else self.weights[entries]
        return block

    @operation(Join.SUM)
    def evaluate(self) -> Array:
        """Refresh the slopes; return f(X), the squared norm of the slopes, and the inner product of slopes and X."""
        arrays = self.predicted, self.base, self.targets, self.weights
        return np.array(self.loss.evaluate(self.formula, *arrays, self.slopes))

    @operation(Join.CONCATENATE, by_col=("v",))
    def product(self, v: Array) -> Array:
        """Return ``G v`` for a vector or a block of columns."""
        rows = np.empty((self.stop - self.start, *v.shape[1:]))
        kernel = pattern.product if v.ndim == 1 else pattern.product_block
        kernel(self.indptr, self.indices, self.slopes, v, rows)
        return rows

    @operation(Join.SUM, by_row=("u",))
    def transposed(self, u: Array) -> Array:
        """Return ``G.T u`` for a vector or a block of columns."""
        u, cols = u[self.start : self.stop], self.buffers.take((self.n_cols, *u.shape[1:]))
        kernel = pattern.transposed if u.ndim == 1 else pattern.transposed_block
        kernel(self.indptr, self.indices, self.slopes, u, cols)
        return cols

    @operation(Join.BOTH, by_row=("shift",), by_col=("v",))
    def gram(self, v: Array, shift: Array) -> tuple[Array, Array]:
        """Return ``z = G v + shift`` and ``G.T z`` for a vector or a block of columns, in one pass."""
        rows, shift = np.empty((self.stop - self.start, *v.shape[1:])), shift[self.start : self.stop]
        cols = self.buffers.take((self.n_cols, *v.shape[1:]))
        kernel = pattern.gram if v.ndim == 1 else pattern.gram_block
        kernel(self.indptr, self.indices, self.slopes, v, shift, rows, cols)
        return rows, cols

    @operation(Join.SUM, by_col=("v",))
    def twice(self, v: Array) -> Array:
        """Return ``G.T G v`` for a vector or a block of columns: `gram` without its z, which is not sent then."""
        rows = np.zeros((2, self.stop - self.start, *v.shape[1:]))
        cols = self.buffers.take((self.n_cols, *v.shape[1:]))
        kernel = pattern.gram if v.ndim == 1 else pattern.gram_block
        kernel(self.indptr, self.indices, self.slopes, v, rows[0], rows[1], cols)
        return cols

    @operation(Join.STAY, by_row=("u",), by_col=("v",))
    def aim(self, u: Array, v: Array, theta: Array | None) -> None:
        """Store the direction ``D = u v.T``, or ``u diag(theta) v.T``, at the observed entries."""
        if theta is None:
            pattern.rank_one_at(self.indptr, self.indices, u[self.start : self.stop], v, self.direction)
        else:
            self._low_rank(theta, u, v, self.direction)

    @operation(Join.SUM)
    def plane(self, shrink: float, weight: float) -> Array:
        """Return value and gradient in (shrink, weight) of f(shrink X + weight D)."""
        return np.array(self.loss.plane(self.formula, self._line(self.predicted), float(shrink), float(weight)))

    @operation(Join.SUM)
    def plane_curve(self, shrink: float, weight: float) -> Array:
        """Return the second derivatives in (shrink, weight) of f(shrink X + weight D): xx, xd, dd."""
        return np.array(self.loss.plane_curve(self.formula, self._line(self.predicted), float(shrink), float(weight)))

    @operation(Join.SUM)
    def breakpoints(self, lo: float, hi: float, n_bins: int) -> Array:
        """Return the slope of f(X + eta D) just above eta = lo, then jumps and counts in `n_bins` bins of (lo, hi]."""
        bins = np.zeros((2, n_bins))
        slope = self.loss.breakpoints(self.formula, self._line(self.predicted), float(lo), float(hi), *bins)
        return np.concatenate(([slope], bins.ravel()))

    @operation(Join.CONCATENATE)
    def breakpoints_between(self, lo: float, hi: float, most: int) -> Array:
        """Return the breakpoints of f(X + eta D) in (lo, hi], each with its jump, at most `most`; shape (n + 1, 2).

        The first is at lo itself and holds the slope there, so that no kink is counted twice or lost to rounding.
        """
        points = np.empty((2, most + 1))
        line = self._line(self.predicted)
        n, slope = self.loss.breakpoints_between(self.formula, line, float(lo), float(hi), *points[:, 1:])
        points[:, 0] = lo, slope
        return points[:, : int(n) + 1].T

    @operation(Join.STAY)
    def add(self, step: int, shrink: float, weight: float) -> None:
        """Set ``X = shrink X + weight D``."""
        if self.step < step:
            pattern.blend(self.predicted, float(shrink), float(weight), self.direction)
            self.step = step

    @operation(Join.STAY)
    def zero(self, step: int) -> None:
        """Set ``X = 0``."""
        self.predicted[:] = 0.0
        self.step = step

    @operation(Join.STAY, by_row=("U",), by_col=("V",))
    def replace(self, step: int, theta: Array, U: Array, V: Array) -> None:
        """Set ``X = U diag(theta) V.T``."""
        if self.step < step:
            self._low_rank(theta, U, V, self.predicted)
            self.step = step

    @operation(Join.SUM, by_row=("U",), by_col=("V",))
    def terms(self, theta: Array, U: Array, V: Array) -> Array:
        """Return value and gradient in theta of f(U diag(theta) V.T). Overwrites `direction` and `slopes`."""
        self._low_rank(theta, U, V, self.direction)
        arrays = self.direction, self.base, self.targets, self.weights
        value, *_ = self.loss.evaluate(self.formula, *arrays, self.slopes)
        return np.concatenate(([value], self._project_slopes(U, V)))

    @operation(Join.SUM, by_row=("U",), by_col=("V",))
    def curve_terms(self, theta: Array, direction: Array, U: Array, V: Array) -> Array:
        """Return the Hessian in theta of f(U diag(theta) V.T) times `direction`. Overwrites `direction`, `slopes`."""
        self._low_rank(theta, U, V, self.slopes)
        self._low_rank(direction, U, V, self.direction)
        self.loss.curve(self.formula, self._line(self.slopes), self.slopes)
        return self._project_slopes(U, V)

    @operation(Join.STAY, by_row=("offsets.rows",), by_col=("offsets.cols",))
    def shift(self, offsets: Offsets | None) -> None:
        """Set the offsets that are added to X at every entry from now on."""
        if offsets is None:
            self.base = None
            return
        if self.base is None:
            self.base = self._allocate("base")
        rows, cols = (np.ascontiguousarray(side, np.float64) for side in (offsets.rows, offsets.cols))
        pattern.offsets_at(
            self.indptr, self.indices, float(offsets.constant), rows[self.start : self.stop], cols, self.base
        )

    @operation(
        Join.CONCATENATE,
        by_col=("block",),
        by_block=True,
        prepare={"block": lambda block: pad_columns(block, block.dtype)},
        kept=lambda block, width: (Line.of(block, width),),
    )
    def gather(self, block: Array, width: int) -> Array:
        """Sums of the rows of `block`, which are of this width, over every row's columns."""
        rows = np.empty((self.stop - self.start, block.shape[1]), block.dtype)
        pattern.gather(self.indptr, self.indices, block, rows)
        return rows[:, :width]

    @operation(
        Join.BOTH,
        by_row=("blocks", "scale"),
        by_col=("block",),
        prepare={"block": lambda block: pad_columns(block, block.dtype)},
        kept=lambda block, width, *_: (Line.of(block, width),),
    )
    def gather_blend(
        self, block: Array, width: int, factors: tuple[Any, ...], blocks: tuple[Array, ...], scale: Array | None
    ) -> tuple[Array, Array]:
        """Return a weighted sum of the result of `gather`, with the first factors, and of blocks; as `blend`."""
        own = slice(self.start, self.stop)
        terms = zip(factors, (self.gather(block, width), *(each[own] for each in blocks)), strict=True)
        return blended(*terms, scale=None if scale is None else scale[own])

    @operation(Join.BOTH, by_row=("offsets.rows",))
    def moments(self, centre: float, width: float, offsets: Offsets | None) -> tuple[Array, Array]:
        """Sums over the entries of every row, and of every column, in columns of shape (n, 3).

        The weights, and the weighted distances of the targets from `centre`, clipped at `width`, and their squares;
        from the offsets instead of `centre`, after the clipping, if there are any.
        """
        row_shifts, col_shifts = np.zeros(self.stop - self.start), np.zeros(self.n_cols)
        if offsets is not None:
            row_shifts += centre - offsets.constant - offsets.rows[self.start : self.stop]
            col_shifts -= offsets.cols
        rows, cols = np.zeros((row_shifts.size, 3)), np.zeros((col_shifts.size, 3))
        pattern.moments(
            (self.indptr, self.indices),
            self.targets,
            self.weights,
            (float(centre), float(width)),
            (row_shifts, col_shifts),
            (rows, cols),
        )
        return rows, cols

    @operation(Join.CONCATENATE, by_row=("numbers", "row_keys"), by_col=("col_keys",))
    def entries_below(self, numbers: Array, row_keys: Array, col_keys: Array, limit: int) -> Array:
        """Entries at which the sum of both keys, modulo 2**32, is below `limit`.

        Row by `numbers`, column, target and weight in columns of shape (n, 4).
        """
        own, rows = slice(self.start, self.stop), rows_of(self.indptr)
        found = np.flatnonzero(row_keys[own][rows] + col_keys[self.indices] < limit)
        weights = np.ones(found.size) if self.weights is None else self.weights[found]
        parts = numbers[own][rows[found]], self.indices[found], self.targets[found], weights
        return np.column_stack([part.astype(np.float64) for part in parts])

    @operation(
        Join.BOTH,
        by_row=("problem.by_row", "means", "variances"),
        by_col=("design",),
        by_block=True,
        prepare={"design": lambda design: design.padded()},
        kept=lambda design, problem, means, variances: (Line.of(means), Line.of(variances)),
    )
    def solve_rows(
        self, design: Any, problem: RowProblem, means: Array, variances: Array
    ) -> tuple[tuple[Array, Array], Array]:
        """Improved means and variances of the rows, given a `SideDesign` or a `Design`.

        The sums are the five of the kernel, and those of `row_squares`.
        """
        own = slice(self.start, self.stop)
        rows = means[own].copy(), variances[own].copy()
        problem = problem.map_arrays(lambda array: array[own], lambda array: array)
        entries, choosing = self._entries(design), False
        if problem.penalty is not None:
            problem = problem._replace(penalty=problem.penalty.compiled())
            choosing = problem.penalty.n_choices > 0 and not self.quadratic
        bounded = majorised(self.formula) and not choosing
        trial = None if bounded else np.empty((2, means.shape[1]), means.dtype)
        solve = solve_rows if problem.built_in else uncached_solve_rows
        sums = solve(self._tile_loss(design), entries, problem, _scratch(entries.design), trial, *rows)
        return rows, np.concatenate((sums, row_squares(*rows, problem.prior)))

    @operation(
        Join.SUM,
        by_row=("means", "variances"),
        by_col=("design",),
        by_block=True,
        prepare={"design": lambda design: design.padded()},
    )
    def expected_loss(self, design: Any, means: Array, variances: Array) -> Array:
        """Sum of the expected losses of the shard's entries."""
        own = slice(self.start, self.stop)
        entries = self._entries(design)
        scratch = _scratch(entries.design)
        return np.array([expected_loss(self._tile_loss(design), entries, scratch, means[own], variances[own])])

    def _tile_loss(self, design: Design) -> TileLoss:
        return tile_losses.tile_loss(self.formula, design.factors.dtype, cached=self.cached)

    def _entries(self, design: Design) -> RowEntries:
        return RowEntries(self.indptr, self.indices, self.targets, self.weights, design)

    @operation(Join.CONCATENATE)
    def checksum(self) -> Array:
        """Return a digest of the entries, 16 bytes."""
        return np.frombuffer(checksum(self.n_cols, self.indptr, self.indices, self.targets, self.weights), np.uint8)

    def _line(self, predicted: Array) -> SearchLine:
        return SearchLine(predicted, self.base, self.direction, self.targets, self.weights)

    def _low_rank(self, theta: Array, U: Array, V: Array, out: Array) -> None:
        pattern.low_rank_at(self.indptr, self.indices, theta, U[self.start : self.stop], V, out)

    def _project_slopes(self, U: Array, V: Array) -> Array:
        """Return ``u_k.T G v_k`` for every k."""
        out = np.zeros(U.shape[1])
        pattern.pull_back(self.indptr, self.indices, self.slopes, U[self.start : self.stop], V, out)
        return out


def _scratch(design: Design) -> Scratch:
    return Scratch.zero(design.factors.shape[1], design.factors.dtype)


def _fixed(array: Array) -> Array:
    """Mark `array` read-only, so that views of the observations and copies share one compiled signature."""
    array.flags.writeable = False
    return array
