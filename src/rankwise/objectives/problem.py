"""The entrywise objective: a loss summed over the observed entries, computed on shards."""

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import losses
from .._arrays import Array
from .._checks import check_choice
from .._digests import checksum
from .._errors import DataError, SettingError
from ..engines import Engine, LinesLost, Shard, engine_over
from ..losses import Loss
from ..losses.units import UNCHANGED, Units
from ..model import Cells, Everywhere, Factors, Offsets
from ..model.units import original_offsets
from ..observations import AnyEntries, Features, Observations
from ..spectral import SparsePlusLowRank
from .entrywise import EntrywiseGradient, Plane, Terms
from .everywhere import CellTerm
from .journal import Added, Journal
from .point import Direction, Point
from .protocol import PlaneRestriction, Restriction
from .sides import Side
from .snapshot import Snapshot

log = logging.getLogger("rankwise")


class Problem:
    """``f(X) = sum over observed (i, j) of weight_ij * loss(X_ij + offset_ij, target_ij)``, plus a term of all cells.

    Parameters
    ----------
    observations : Observations
    loss : str or Loss
        A name such as "logistic", or an object of `rankwise.losses`.
    dtype : {"float32", "float64"}, default="float32"
        How predictions and factors are stored; sums and loss formulas always use float64.
    n_jobs : int or None, default=-1
        Number of threads; -1 uses all usable cores. Results do not depend on it.
    offsets : Offsets, optional
        Added to X at every entry. Solvers that fit offsets do not accept them.
    everywhere : Everywhere, optional
        A square loss at every cell, observed or not, as for clicks and plays, where absence says something.
    features : mapping of "rows" and "columns" to Features, optional
        What is known of the rows, of the columns, or of both; used by the sweeps.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.Observations.from_coo([0, 0, 1], [0, 1, 1], [1.0, -1.0, 1.0])
    >>> problem = rw.Problem(seen, "logistic")
    >>> print(problem.shape, problem.lipschitz, round(problem.value(), 4))  # at X = 0: 3 log 2
    (2, 2) 0.25 2.0794
    """

    snapshot_types: ClassVar[tuple[type, ...]] = (Snapshot, Journal, Added, Offsets)

    def __init__(
        self,
        observations: AnyEntries,
        loss: str | Loss,
        *,
        dtype: DTypeLike = "float32",
        n_jobs: int | None = -1,
        offsets: Offsets | None = None,
        everywhere: Everywhere | None = None,
        features: Mapping[str, Features] | None = None,
    ) -> None:
        self.observations = Observations.from_any(observations).weighted()
        self.loss = losses.get(loss).measured(self.observations)
        self.shape = self.observations.shape
        self.smooth, self.quadratic = self.loss.smooth, self.loss.quadratic
        self.piecewise_linear = self.loss.piecewise_linear
        self.dtype = _checked_dtype(dtype)
        self.fixed_offsets: Offsets | None = None
        self.engine = engine_over(self.observations, self.loss, self.dtype, n_jobs)
        self.lipschitz = None if self.loss.lipschitz is None else self.loss.lipschitz * self.observations.heaviest
        self.strong_convexity = 0.0
        self.current = Point(self.shape, self.dtype)
        self._columns: Engine | None = None
        self.engine.recover = self.current.replay
        self.everywhere = _checked_everywhere(everywhere)
        self.features = _checked_features(features, self.shape)
        self.cells: Cells | None = None  # of the targets; those of the term are in the units of the loss
        self._term: CellTerm | None = None
        if self.everywhere is not None:
            self._set_cells(self.everywhere)
        self._n_jobs = n_jobs  # not the engine's, which is at most its number of shards; the transpose may have more
        if offsets is not None:
            self.fix_offsets(offsets)

    @property
    def point(self) -> Factors:
        """The current X."""
        return self.current.factors

    @property
    def offsets(self) -> Offsets | None:
        """Current offsets, the fixed ones or those that a solver has fitted."""
        return self.current.offsets

    @property
    def total_weight(self) -> float:
        """Sum of the weights of the entries, and of those of all cells if these count."""
        return self.observations.total_weight + (0.0 if self._term is None else self._term.cells.total)

    @property
    def passes(self) -> int:
        """Passes made over the observations so far."""
        return sum(engine.rounds for engine in self.engines.values())

    @property
    def engines(self) -> Mapping[str, Engine]:
        """Engines made so far, by axis."""
        return {"rows": self.engine} | ({} if self._columns is None else {"columns": self._columns})

    def engine_of(self, axis: str) -> Engine:
        """Return the engine over the shards of the rows, or of the columns, which is made on first use.

        Parameters
        ----------
        axis : {"rows", "columns"}
            For "columns", the rows of the shards are those of the transpose.
        """
        check_choice("axis", axis, ("rows", "columns"))
        if axis == "rows":
            return self.engine
        if self._columns is None:
            self._columns = engine_over(self.observations.transposed(), self.loss, self.dtype, self._n_jobs)
        return self._columns

    def side(self, axis: str, offset: bool = True) -> Side:
        """Return the rows, or the columns, as a side without factors and with offsets of zero, or without offsets."""
        engine, size = self.engine_of(axis), self.shape[axis == "columns"]
        return Side.empty(engine, size, offset, self.dtype, self.features.get(axis))

    def cells_of(self, axis: str) -> Cells | None:
        """Return the term of all cells as the solves of the rows, or of the columns, use it; None if there is none."""
        if self._term is None:
            return None
        return self._term.cells if axis == "rows" else self._term.cells.transposed()

    def row_weights(self, axis: str) -> NDArray[np.float64]:
        """Return the weight of each row, or column: of its entries, and of its cells if these count."""
        entries, cells = self.observations if axis == "rows" else self.observations.transposed(), self.cells_of(axis)
        return entries.row_weights() + (0.0 if cells is None else cells.row_totals)

    def in_own_units(self, level: bool) -> "Problem":
        """Return this problem in units chosen from its targets; the problem itself if they are ordinary.

        Values, gradients and offsets of the result are in these units, `loss.units`; models that `solve` makes of it
        are in those of the targets.

        Parameters
        ----------
        level : bool
            Whether predictions have a constant, so that the level of the targets may be removed.
        """
        units = UNCHANGED if self.loss.units != UNCHANGED else Units.of(self.loss, self.observations, level)
        if units == UNCHANGED:
            return self
        offsets = original_offsets(self.fixed_offsets, units.inverse())
        loss = self.loss.original.in_units(units)
        return self._like(self.observations, loss, self._n_jobs, offsets, self.features)

    def reset(self) -> None:
        """Set X = 0, and the offsets to the fixed ones."""
        current = self.current
        if current.behind or current.offsets is not self.fixed_offsets:
            current.behind, current.offsets = False, self.fixed_offsets
            self.engine.run(Shard.shift, current.offsets)
        current.clear()
        self.engine.run(Shard.zero, current.version)

    def fix_offsets(self, offsets: Offsets | None) -> None:
        """Add `offsets` to X at every entry from now on, or none, and set X = 0."""
        if offsets is not None and (offsets.rows.size, offsets.cols.size) != self.shape:
            raise DataError(
                f"`offsets` must be for a matrix of shape {self.shape}, got offsets for "
                f"{(offsets.rows.size, offsets.cols.size)}."
            )
        self.fixed_offsets = offsets
        self.reset()

    def value(self) -> float:
        """Return f(X), in one pass over the observations; a gradient at the same X then costs nothing."""
        value = float(self._evaluated()[0])
        return value if self._term is None else value + self._term.value()

    def fit_value(self) -> float:
        """Return the sum of the losses at the observed entries."""
        return float(self._evaluated()[0])

    def gradient(self) -> EntrywiseGradient | SparsePlusLowRank:
        """Return the gradient at X, sparse, or sparse plus low-rank; in one pass over the observations."""
        _, squared, inner = self._evaluated()
        slopes = EntrywiseGradient(self.engine, self.current, float(np.sqrt(squared)), float(inner))
        return slopes if self._term is None else self._term.gradient(slopes)

    def along(self, u: Array, v: Array, theta: Array | None = None) -> PlaneRestriction:
        """Return ``(shrink, weight) -> f(shrink X + weight u diag(theta) v.T)``; an evaluation is O(n_observed)."""
        self._catch_up()
        self._aim((u, v, theta))
        plane = Plane(self.engine)
        return plane if self._term is None else self._term.along(plane, (u, v, theta))

    def along_terms(self) -> Restriction:
        """Return ``theta -> f(sum_k theta[k] u_k v_k.T)``; an evaluation is O(rank n_observed)."""
        self._catch_up()
        terms = Terms(self.engine, self.current)
        return terms if self._term is None else self._term.along_terms(terms)

    def add(self, shrink: float, weight: float, u: Array, v: Array, theta: Array | None = None) -> None:
        """Set ``X = shrink X + weight u diag(theta) v.T``; u and v are vectors or matrices."""
        self._catch_up()
        self._aim((u, v, theta))
        self.current.changed()
        self.engine.run(Shard.add, self.current.version, shrink, weight)
        self.current.append(shrink, weight, (u, v, theta))

    def replace(self, theta: Array) -> None:
        """Set the coefficients of the terms of X; O(rank n_observed)."""
        self._catch_up()
        self.point.replace(theta)
        self.current.changed()
        self.current.recompute()
        self.engine.run(Shard.replace, self.current.version, *self.point.padded)

    def move(self, theta: Array, U: Array, V: Array) -> None:
        """Set ``X = U diag(theta) V.T``, keeping the offsets; O(rank n_observed)."""
        self._catch_up()
        self.current.set(theta, U, V)
        self.replace(theta)

    def place(self, offsets: Offsets | None, U: Any, V: Any) -> None:
        """Set ``X = U V.T`` and the offsets; predictions are computed when they are first needed.

        U and V, arrays or what NumPy makes arrays of, are also read then, and must not change until then.
        """
        current = self.current
        current.offsets = offsets
        current.place(U, V)
        current.behind, current.direction = True, None  # a shard made meanwhile has no direction
        current.changed()

    def fingerprint(self) -> dict[str, object]:
        """Return values and checksums that identify the problem wherever its entries are; one pass over them."""
        fixed = self.fixed_offsets
        entries = self.engine.run(Shard.checksum)
        cells = {} if self.everywhere is None else {"everywhere": repr(self.everywhere)}
        known = {f"features of the {axis}": part.checksum() for axis, part in self.features.items()}
        return (
            cells
            | known
            | {
                "shape": list(self.shape),
                "number of entries": int(self.observations.n_observed),
                "loss": repr(self.loss),
                "formula of the loss": self.loss.checksum().hex(),
                "dtype": str(self.dtype),
                "labels": checksum(self.observations.row_labels, self.observations.col_labels).hex(),
                "offsets": None if fixed is None else checksum(fixed.constant, fixed.rows, fixed.cols).hex(),
                "entries": checksum(np.ascontiguousarray(entries, np.uint8)).hex(),
            }
        )

    def snapshot(self) -> Snapshot:
        """Return the current point, with the journal of the predictions, for a checkpoint."""
        return self.current.snapshot(self.fixed_offsets)

    def restore(self, snapshot: Snapshot) -> None:
        """Move to the point of a snapshot; the predictions in the shards get the same bits."""
        self.current.restore(snapshot, self.fixed_offsets)
        self.engine.run(Shard.zero, 0)  # resets the shards' versions, which would make them skip the journal
        for operation, args in self.current.replay():
            self.engine.run(operation, *args)

    def rehearsal(self) -> tuple[tuple[object, ...], "Problem"]:
        """Return a key of the compiled code that this problem needs, and a tiny problem that needs the same code."""
        few = self.observations.few_targets(6)
        weights = None if self.observations.weights is None else np.ones(6)
        small = Observations.from_coo([0, 0, 1, 1, 2, 2], [0, 1, 1, 2, 2, 0], few, weights=weights)
        offsets = None if self.fixed_offsets is None else Offsets.zero(small.shape)
        key = type(self.loss.formula), self.dtype, weights is None, offsets is None, self.everywhere
        return key, self._like(small, self.loss, 1, offsets)

    def close(self) -> None:
        """End the threads; they start again when needed."""
        try:
            self.current.read()
        except LinesLost as error:  # the point is lost with the workers that kept it
            log.warning("%s", error)
            self.reset()
        for engine in self.engines.values():
            engine.close()

    def _like(
        self,
        entries: AnyEntries,
        loss: Loss,
        n_jobs: int | None,
        offsets: Offsets | None,
        features: Mapping[str, Features] | None = None,
    ) -> "Problem":
        """Return a problem with the dtype and the term of all cells of this one."""
        options: dict[str, Any] = {"offsets": offsets, "everywhere": self.everywhere, "features": features}
        return Problem(entries, loss, dtype=self.dtype, n_jobs=n_jobs, **options)

    def _set_cells(self, everywhere: Everywhere) -> None:
        """Make the term of all cells, in the units of the loss."""
        counts: Any = map(np.ones, self.shape)
        if everywhere.row_power or everywhere.col_power:  # without the transpose, which pursuits do not need
            counts = (sums[:, 0] for sums in self.engine.run(Shard.moments, 0.0, 1.0, None))
        self.cells = Cells.of(everywhere, *counts)
        self._term = CellTerm(self.cells.in_units(self.loss.units), self.current, self.engine)
        self.strong_convexity = self._term.strong_convexity
        self.lipschitz = None if self.lipschitz is None else self.lipschitz + self._term.lipschitz

    def _evaluated(self) -> NDArray[np.float64]:
        self._catch_up()
        if self.current.summary is None:
            self.current.summary = self.engine.run(Shard.evaluate)
        return self.current.summary

    def _catch_up(self) -> None:
        """Compute the predictions and offsets in the shards if `place` has changed them."""
        if self.current.behind:
            self.current.recompute()
            self.engine.run(Shard.shift, self.current.offsets)
            self.engine.run(Shard.replace, self.current.version, *self.point.padded)

    def _aim(self, direction: Direction) -> None:
        """Store the direction's products in the shards, unless these very arrays are stored already."""
        stored = self.current.direction
        if stored is None or any(new is not old for new, old in zip(direction, stored, strict=True)):
            self.engine.run(Shard.aim, *self.current.as_stored(direction))
            self.current.direction = direction


def _checked_everywhere(everywhere: Everywhere | None) -> Everywhere | None:
    if everywhere is not None and not isinstance(everywhere, Everywhere):
        raise SettingError(f"`everywhere` must be None or an `Everywhere`, got {type(everywhere).__name__}.")
    return None if everywhere is None or everywhere.weight == everywhere.slope == 0 else everywhere


def _checked_features(features: Mapping[str, Features] | None, shape: tuple[int, int]) -> dict[str, Features]:
    checked = dict(features or {})
    for axis, side in checked.items():
        check_choice("axis", axis, ("rows", "columns"))
        size = shape[axis == "columns"]
        if not isinstance(side, Features) or side.shape[0] != size:
            raise DataError(f"`features` of the {axis} must be `Features` of all {size} {axis}, got {side!r}.")
    return checked


def _checked_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    try:
        checked: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        checked = np.dtype(object)
    if checked not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise SettingError(f"`dtype` must be float32 or float64, got {dtype!r}.")
    return checked
