"""Rows that come after the fit: each one's factors and offset, the columns being as they are."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from .. import losses
from .._errors import DataError, LossError, SettingError
from ..engines import Offsets, engine_over
from ..kernels.rows import Task
from ..losses import Loss
from ..observations import LabelIndex, Observations, is_frame
from ..observations.build import as_matrix
from ..observations.frames import read_wide
from ..observations.labels import as_labels
from .learned import Learned, LearnedSide
from .low_rank import LowRankModel
from .ranking import Seen
from .sides import Side, lengths_of, spread

Array = NDArray[Any]
AXES = ("rows", "columns")
ROUNDS = 300  # solves of a row at most; those that no longer move are left out of later rounds
FARTHEST = 16.0  # a leap, in steps
SETTLED = {4: 1e-3, 8: 1e-8}  # share of a row's size, by its numbers' bytes, below which a move is none
ROUNDED = 0.01  # corners of nonsmooth losses, over this share of the mean loss; over fifty times as much at first


def fold_in(
    model: LowRankModel,
    new: Any,
    *,
    axis: str = "rows",
    loss: str | Loss | None = None,
    n_jobs: int | None = None,
    **names: Any,
) -> LowRankModel:
    """See `LowRankModel.fold_in`."""
    if axis not in AXES:
        raise SettingError(f"`axis` must be 'rows' or 'columns', got {axis!r}.")
    base = model if axis == "rows" else model.transposed()
    known = Known.of(base, _loss(model, loss))
    batch = Batch.read(base, new, axis, names)
    with threadpool_limits(limits=1, user_api="blas"):  # BLAS changes bits with its number of threads
        found = known.model(batch, *known.solve(batch, n_jobs))
    return found if axis == "rows" else found.transposed()


def _loss(model: LowRankModel, loss: str | Loss | None) -> Loss:
    if loss is None and model.loss is None:
        raise LossError(
            "The model does not say with which loss it was learned (files keep no loss of your own making); "
            "pass `loss=` to fold in."
        )
    return model.loss if loss is None and model.loss is not None else losses.get(loss)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Batch:
    """New rows of a model: their entries, matched to its columns; None if there are none at all."""

    size: int
    observations: Observations | None
    labels: Array | None = None

    @classmethod
    def read(cls, model: LowRankModel, new: Any, axis: str, names: dict[str, Any]) -> "Batch":
        """Entries of the new rows, or of new columns turned to rows."""
        wide = is_frame(new) and {use for use, name in names.items() if name is not None} <= {"row"}
        matrix, labels = read_wide(new, names.get("row")) if wide else (new, (None, None))
        size = _size_if_empty(matrix) if wide or not names else None
        if size is not None:
            size, labels = (size, labels) if axis == "rows" else (size[::-1], labels[::-1])
            _places(model, size[1], labels[1], axis)
            return cls(size[0], None, as_labels(labels[0], size[0], axis[:-1]))
        found = Observations.from_dense(matrix, labels=labels) if wide else Observations.from_any(new, **names)
        found = _matched(model, (found if axis == "rows" else found.transposed()).weighted(), axis)
        return cls(found.shape[0], found, found.row_labels)

    @property
    def seen(self) -> Seen | None:
        """Which entries the new rows have."""
        if self.observations is None:
            return Seen(np.zeros(self.size + 1, np.uint64), np.zeros(0, np.uint32))
        return Seen.of(self.observations)


def _size_if_empty(new: Any) -> tuple[int, int] | None:
    """Shape of a matrix without any entry, which `Observations` cannot be; None for others."""
    if sp.issparse(new):
        return tuple(new.shape) if new.nnz == 0 and len(new.shape) == 2 else None
    if not isinstance(new, list | tuple | np.ndarray):
        return None
    array = as_matrix(new)
    return array.shape if array.dtype.kind == "f" and bool(np.isnan(array).all()) else None


def _check_width(given: int, wanted: int, axis: str) -> None:
    if given != wanted:
        other = AXES[1 - AXES.index(axis)]
        raise DataError(
            f"The new {axis} have {given} {other} but the model has {wanted}; give all of them in the model's order, "
            "or observations with labels."
        )


def _places(model: LowRankModel, width: int, theirs: Array | None, axis: str) -> Array | None:
    """The model's numbers of the new rows' columns, by label if both have labels; None if they are the same."""
    if model.col_labels is None or theirs is None:
        _check_width(width, model.shape[1], axis)
    other = AXES[1 - AXES.index(axis)]
    own, new = (LabelIndex(*side, other.rstrip("s")) for side in ((model.col_labels, model.shape[1]), (theirs, width)))
    place = own.align(new, by_position=True, remedy=f"leave them out, or fit with the new {other} too")
    return None if np.array_equal(place, np.arange(own.size)) else place


def _matched(model: LowRankModel, new: Observations, axis: str) -> Observations:
    """The new rows in the model's columns."""
    place = _places(model, new.shape[1], new.col_labels, axis)
    if place is None:
        return new
    shape, labels = (new.shape[0], model.shape[1]), (new.row_labels, model.col_labels)
    return Observations.from_coo(new.rows, place[new.indices], new.targets, shape, weights=new.weights, labels=labels)


def _leap(first: Array, second: Array, third: Array) -> Array:
    """Where three points of a row's way lead to, if it goes on as it did (SQUAREM, Varadhan and Roland, 2008)."""
    step = second.astype(np.float64) - first
    bend = third.astype(np.float64) - second - step
    size, turn = (np.linalg.norm(part, axis=1, keepdims=True) for part in (step, bend))
    length = np.clip(np.divide(size, turn, out=np.ones_like(size), where=turn > 0), 1.0, FARTHEST)
    return np.ascontiguousarray(first + 2 * length * step + length**2 * bend, first.dtype)


@dataclass(frozen=True)
class Known:
    """What a row solve needs beside the row's entries.

    `turn` takes a row's factors to the model's ``U``.
    """

    base: LowRankModel
    loss: Loss
    learned: Learned
    turn: Array

    @classmethod
    def of(cls, model: LowRankModel, loss: Loss) -> "Known":
        """The sides that the sweeps left, or such as the terms of a pursuit amount to."""
        if model.learned is not None:
            factors = model.learned.cols.means[:, : model.learned.rank].astype(np.float64)
            return cls(model, loss, model.learned, (factors.T @ model.V) / model.theta)
        if model.posterior is not None:
            raise SettingError(
                "This model's file was written before models could fold in: it lacks what was known of rows "
                "before their entries were seen; fit it again."
            )
        return cls.of_terms(model, loss)

    @classmethod
    def of_terms(cls, model: LowRankModel, loss: Loss) -> "Known":
        """New rows are spread as the fitted ones: ``U = Z turn``, ``turn.T turn = U.T U / n_rows``, Z of variance 1.

        An entry counts for `model.scale`, one over the noise that the fit left: the ridge is the one that makes a row's
        solution its likeliest, if the rows are normal.
        """
        n, rank, dtype = max(model.shape[0], 1), model.longest, model.U.dtype
        U = model.U.astype(np.float64)
        values, vectors = np.linalg.eigh(U.T @ U / n)
        turn = (np.sqrt(np.maximum(values, 0.0)) * vectors).T
        theta = np.zeros(rank)
        theta[: model.rank] = model.theta
        factors = (model.V * theta) @ turn.T
        squares = 0.0 if model.offsets is None else float(np.mean(model.offsets.rows.astype(np.float64) ** 2))
        precisions = np.append(np.ones(rank), 1.0 / squares) if squares > 0 else np.ones(rank)
        nothing = np.zeros((0, precisions.size), dtype)
        rows = LearnedSide(nothing, nothing, precisions, squares > 0)
        if model.offsets is not None:
            factors = np.column_stack((factors, model.offsets.cols))
        factors = np.ascontiguousarray(factors, dtype)
        cols = LearnedSide(factors, np.zeros_like(factors), np.ones(factors.shape[1]), model.offsets is not None)
        blur = 0.0 if loss.smooth else (ROUNDED / model.scale) ** 2
        return cls(model, loss, Learned(rows, cols, False, blur), turn)

    @property
    def constant(self) -> float:
        """Part of every prediction."""
        return 0.0 if self.base.offsets is None else float(self.base.offsets.constant)

    def solve(self, batch: Batch, n_jobs: int | None = None) -> tuple[Array, Array]:
        """Means and variances of the new rows; a row without any entry stays where it was thought to be."""
        own, dtype = self.learned.rows, self.base.U.dtype
        means = np.zeros((batch.size, own.precisions.size), dtype)
        variances = np.zeros_like(means)
        if self.learned.uncertain:
            variances += 1.0 / own.precisions
        observations, rows = batch.observations, np.arange(batch.size)
        if observations is None or means.shape[1] == 0:
            return means, variances
        side = self._before(replace(own, means=means, variances=variances), observations, n_jobs)
        moving, trail = np.ones(batch.size, bool), [side.means]
        for k in range(ROUNDS):
            moves = self._improve(side, k)
            means[rows[moving]], variances[rows[moving]] = side.means[moving], side.variances[moving]
            moving &= moves  # once a row has settled it stays, so that it does not matter which others it came with
            if not moving.any():
                break
            trail.append(side.means)
            if len(trail) == 3:
                side.means = _leap(*trail)
                trail = [side.means]
            if 2 * np.count_nonzero(moving) < moving.size:  # else it costs more than it saves
                side.engine.close()
                rows, trail = rows[moving], [part[moving] for part in trail]
                side, moving = self._some(side, moving, observations.take_rows(rows), n_jobs), moving[moving]
        side.engine.close()
        return means, variances

    def _before(self, start: LearnedSide, observations: Observations, n_jobs: int | None) -> Side:
        """The rows as they are thought to be before their entries are seen."""
        engine = engine_over(observations, self.loss, self.base.U.dtype, n_jobs)
        side = Side.known(start, engine)
        if self.learned.count_power:
            counts = np.maximum(observations.row_weights(), 1.0) ** self.learned.count_power
            side.counts = counts.astype(side.means.dtype)
        if start.pattern is not None:
            lengths = lengths_of(engine, start.pattern.shape[0], side.means.dtype)
            side.around = np.ascontiguousarray(spread(engine, lengths, start.pattern), side.means.dtype)
            side.means = side.around.copy()
        return side

    def _some(self, side: Side, chosen: Array, observations: Observations, n_jobs: int | None) -> Side:
        """Only the chosen rows of a side."""
        engine = engine_over(observations, self.loss, self.base.U.dtype, n_jobs)
        parts = {name: getattr(side, name)[chosen] for name in ("means", "variances", "around", "counts")}
        return replace(side, engine=engine, **parts)

    def _improve(self, side: Side, k: int) -> Array:
        """Round k of the solve; which rows still move."""
        before, learned = side.means, self.learned
        blur = max(learned.blur, 2500 * learned.blur * 0.25**k)
        other = Side.known(learned.cols, side.engine)
        task = Task(float(self.base.scale), learned.uncertain)
        side.improve(other, self.constant, task, blur)
        if self.loss.quadratic:  # solved at once
            return np.zeros(before.shape[0], bool)
        size, moved = (np.abs(part).max(axis=1) for part in (side.means, side.means - before))
        return np.asarray((moved > SETTLED[size.itemsize] * size) | (blur > learned.blur))

    def model(self, batch: Batch, means: Array, variances: Array) -> LowRankModel:
        """The model of the new rows."""
        base, learned = self.base, self.learned
        rank, dtype = self.turn.shape[0], base.U.dtype
        U = np.ascontiguousarray(means[:, :rank].astype(np.float64) @ self.turn, dtype)
        offsets = base.offsets
        if offsets is not None:
            own = means[:, -1] if learned.rows.offset else np.zeros(batch.size, dtype)
            offsets = Offsets(offsets.constant, own.copy(), offsets.cols)
        kept = posterior = None
        if base.learned is not None:
            cols = learned.cols
            if cols.pattern is not None:  # nothing is known of what the new rows say of a column
                cols = replace(cols, pattern=np.zeros((batch.size, cols.means.shape[1]), dtype))
            kept = replace(learned, rows=replace(learned.rows, means=means, variances=variances), cols=cols)
        if base.posterior is not None and kept is not None:
            posterior = kept.posterior(base.posterior.noise_variance)
        targets = None if base.targets is None else base.targets.for_new_rows()
        found = replace(base, U=U, offsets=offsets, posterior=posterior, learned=kept, loss=self.loss, targets=targets)
        facts = {"folded_in": batch.size}
        return replace(found, row_labels=batch.labels, seen=batch.seen, calibration=None, facts=facts)
