"""Fold-in: factors and offsets of rows that were not in the fit, with the columns of a model as they are."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from .. import losses
from .._arrays import Array
from .._checks import check_choice
from .._errors import DataError, LossError, SettingError
from ..losses import Loss
from ..losses.units import UNCHANGED, Units
from ..model import Cells, Learned, LearnedSide, LowRankModel, Offsets
from ..model.odds import OddsCalibration
from ..model.ranking import AXES
from ..model.units import original_model, stored_model, units_of_model
from ..objectives import Problem
from ..objectives.sides import RowSettings, Side
from ..observations import Observations
from ..penalties import Fixed, Penalty
from .feature_prior import regression_means
from .new_rows import NewRows
from .row_priors import restored_prior
from .steps import extrapolated
from .validation import need_positive

MAX_SOLVES = 300  # solves of a row at most; rows that no longer move are removed from later rounds
ROW_TOL = {4: 1e-3, 8: 1e-8}  # relative change below which a row has converged, by the bytes of its numbers
ROUNDED = 0.01  # corners of nonsmooth losses are rounded over this fraction of the mean loss; over 50 times it at first


def fold_in(
    model: LowRankModel,
    new: Any = None,
    *,
    features: Any = None,
    axis: str = "rows",
    loss: str | Loss | None = None,
    n_jobs: int | None = -1,
    tol: float | None = None,
    **names: Any,
) -> LowRankModel:
    """Model of rows (or columns) that were not in the fit, with the other side unchanged.

    Each new row solves the problem that a row of the fit solves: the same loss, the fixed or learned precisions and
    noise. A model of a pursuit has no ridge; there, new rows have the covariance of the fitted ones as their prior,
    and the noise is that of the fit. A row without entries gets its prior mean.

    Parameters
    ----------
    model : LowRankModel
    new : SciPy sparse matrix, array with NaN at unknown entries, data frame, or Observations
        New rows with the model's columns, matched by label if both have labels, else by number. With
        ``axis="columns"``, new columns with the model's rows. None for rows of which only features are known.
    features : data frame, SciPy sparse matrix or array, optional
        Features of the new rows, with the columns of the table that `fit` got; matched to `new` by label, or by number.
        Categories that `fit` has not seen are ignored. A row without features has the prior mean of zero.
    axis : {"rows", "columns"}, default="rows"
    loss : str or Loss, optional
        By default the model's; required for a model from a file that was fitted with a user-defined loss.
    n_jobs : int, default=-1
        Number of threads; -1 means all usable cores. Results do not depend on it.
    tol : float, optional
        A row has converged if none of its factors changes by more than this fraction of its largest one; by default
        1e-3 in float32 and 1e-8 in float64.
    **names : names of columns
        Of a long data frame, as in `fit`: ``row="user", col="film", value="stars"``, and ``weight=``.

    Returns
    -------
    LowRankModel
        Of the new rows alone, with the model's columns, path and column offsets. Predictions at any rank of the path
        and their standard deviations are available, and probabilities of signs are calibrated as those of the model;
        intervals are not available, because they were calibrated for other rows.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> model = rw.solve(rw.Problem(seen, "square"), rw.solvers.BayesSweeps(), rank=2).model
    >>> new = np.full((1, 30), np.nan)
    >>> new[0, :3] = [4.0, 3.0, 5.0]
    >>> print(rw.fold_in(model, new))
    LowRankModel(1 x 30, rank 2)
    """
    check_choice("axis", axis, AXES)
    need_positive("tol", tol, optional=True)
    if model.ranks_clicks and axis != "rows":
        raise SettingError("Columns cannot be folded into a model of clicks; fit it again with the new columns.")
    if model.encoder is not None:
        return _encoded(model, NewRows.read(model, new, axis, names))
    base = model if axis == "rows" else model.transposed()
    units = units_of_model(replace(base, loss=_loss(model, loss)))
    solver = RowFolder.of(stored_model(base, units), _loss(model, loss))
    solver = replace(solver, tol=tol or ROW_TOL[base.U.itemsize], units=units)
    batch = _batch(base, new, features, axis, names)
    with threadpool_limits(limits=1, user_api="blas"):  # BLAS changes bits with its number of threads
        folded = original_model(solver.model(batch, *solver.solve(batch, n_jobs)), units)
    return folded if axis == "rows" else folded.transposed()


def _batch(base: LowRankModel, new: Any, features: Any, axis: str, names: dict[str, Any]) -> NewRows:
    """New rows of a model, or columns as rows of the transpose, with their features."""
    own = names if axis == "rows" else names | {"row": names.get("col")}
    if new is None:
        if features is None:
            raise DataError("`new` must be the entries of new rows, or `features` what is known of them; got neither.")
        return NewRows.of_features(base, features, own)
    batch = NewRows.read(base, new, axis, names)
    return batch if features is None else batch.with_features(base, features, own)


def _encoded(model: LowRankModel, batch: "NewRows") -> LowRankModel:
    """New rows whose factors are a linear function of their entries."""
    entries = (
        sp.csr_array((batch.size, model.shape[1])) if batch.observations is None else batch.observations.to_sparse()
    )
    assert model.encoder is not None
    factors = model.encoder.factors(entries, model.V)
    theta = model.path[-1] if model.longest else np.zeros(0)
    U = np.divide(factors, theta, out=np.zeros_like(factors), where=theta != 0).astype(model.U.dtype)
    return replace(model, U=U, row_labels=batch.labels, seen=batch.seen, facts={})


def _loss(model: LowRankModel, loss: str | Loss | None) -> Loss:
    if loss is not None:
        return losses.get(loss)
    if model.loss is None:
        raise LossError("The model has no loss, because files keep no user-defined loss; pass `loss=` to `fold_in`.")
    return model.loss


@dataclass(frozen=True)
class RowFolder:
    """Row solves with the columns of a model.

    Attributes
    ----------
    base : LowRankModel
    loss : Loss
    learned : Learned
        Sides that the row solves use: those of the fit, or an equivalent of a pursuit's terms.
    rotation : ndarray of shape (rank, longest)
        Takes the factors of a row to its line of the model's ``U``.
    tol : float
        Relative change below which a row has converged.
    units : Units
        Units of `base` and of the row solves.
    """

    base: LowRankModel
    loss: Loss
    learned: Learned
    rotation: Array
    tol: float = ROW_TOL[4]
    units: Units = UNCHANGED

    @classmethod
    def of(cls, model: LowRankModel, loss: Loss) -> "RowFolder":
        """Row solves of a model of sweeps, or of a pursuit."""
        if model.learned is not None and model.only_by is not None:  # the factors were kept as they are
            if isinstance(model.learned.rows.penalty, Fixed):
                raise SettingError("The factors of the rows were given (`Fixed`); `fold_in` cannot solve for new ones.")
            return cls(model, loss, model.learned, np.diag(1.0 / model.theta))
        if model.learned is not None:
            factors = model.learned.cols.means[:, : model.learned.rank].astype(np.float64)
            return cls(model, loss, model.learned, (factors.T @ model.V) / model.theta)
        if model.posterior is not None:
            raise SettingError("The model's file has no priors, which `fold_in` requires; fit the model again.")
        return cls.of_terms(model, loss)

    @classmethod
    def of_terms(cls, model: LowRankModel, loss: Loss) -> "RowFolder":
        """Prior of a pursuit's rows: ``U = Z rotation`` with Z of variance 1.

        ``rotation.T @ rotation`` is ``U.T @ U / n_rows``, and an entry counts for `model.scale`, one over the noise of
        the fit, so that a row's solution is its likeliest if the rows are normal.
        """
        n, rank, dtype = max(model.shape[0], 1), model.longest, model.U.dtype
        U = model.U.astype(np.float64)
        values, vectors = np.linalg.eigh(U.T @ U / n)
        rotation = (np.sqrt(np.maximum(values, 0.0)) * vectors).T
        theta = np.zeros(rank)
        theta[: model.rank] = model.theta
        factors = (model.V * theta) @ rotation.T
        squares = 0.0 if model.offsets is None else float(np.mean(model.offsets.rows.astype(np.float64) ** 2))
        precisions = np.append(np.ones(rank), 1.0 / squares) if squares > 0 else np.ones(rank)
        no_rows = np.zeros((0, precisions.size), dtype)
        rows = LearnedSide(no_rows, no_rows, precisions, squares > 0)
        if model.offsets is not None:
            factors = np.column_stack((factors, model.offsets.cols))
        factors = np.ascontiguousarray(factors, dtype)
        cols = LearnedSide(factors, np.zeros_like(factors), np.ones(factors.shape[1]), model.offsets is not None)
        smoothing = 0.0 if loss.smooth else (ROUNDED / model.scale) ** 2
        return cls(model, loss, Learned(rows, cols, False, smoothing), rotation)

    def solve(self, batch: NewRows, n_jobs: int | None = -1) -> tuple[Array, Array]:
        """Means and variances of the new rows."""
        observations, rows = batch.observations, np.arange(batch.size)
        means, variances = self._start(batch.size)
        if observations is None or means.shape[1] == 0:
            return self._without_entries(batch, means, variances)
        cells = self._cells(observations.row_weights())
        side = self._side(replace(self.learned.rows, means=means, variances=variances), batch, cells, n_jobs)
        moving, iterates = np.ones(batch.size, bool), [side.means]
        for k in range(MAX_SOLVES):
            moves = self._improve(side, cells, k)
            means[rows[moving]], variances[rows[moving]] = side.means[moving], side.variances[moving]
            moving &= moves  # a row that has converged stays, so that it does not depend on the other rows
            if not moving.any():
                break
            iterates.append(side.means)
            if len(iterates) == 3 and self.penalty is None:  # a penalty's constraint would not hold
                side.means = extrapolated(*iterates)
                iterates = [side.means]
            if 2 * np.count_nonzero(moving) < moving.size:  # else it costs more than it saves
                side.engine.close()
                rows, iterates = rows[moving], [part[moving] for part in iterates]
                cells = None if cells is None else replace(cells, rows=cells.rows[moving])
                side, moving = self._subset(side, moving, observations.take_rows(rows), n_jobs), moving[moving]
        side.engine.close()
        return means, variances

    @property
    def penalty(self) -> Penalty | None:
        """Penalty of the rows beside the ridge."""
        penalty = self.learned.rows.penalty
        return None if penalty is None or penalty.formulas is None else penalty

    def _start(self, size: int) -> tuple[Array, Array]:
        """Means of zero, and the prior's variances if variances are estimated."""
        means = np.zeros((size, self.learned.rows.precisions.size), self.base.U.dtype)
        variances = np.zeros_like(means)
        if self.learned.uncertain:
            variances += 1.0 / self.learned.rows.precisions
        if self.penalty is not None:
            means[:, : self.learned.rank] = self.penalty.feasible(means[:, : self.learned.rank])
        return means, variances

    def _cells(self, counts: Array) -> Cells | None:
        """Term of all cells of rows with these numbers of entries, in the units of the row solves; None without one."""
        cells = self.base.cells
        return None if cells is None else cells.for_new_rows(counts).in_units(self.units)

    def _without_entries(self, batch: NewRows, means: Array, variances: Array) -> tuple[Array, Array]:
        """Rows that have no entries: at their prior, or at the minimum of prior and the term of all cells."""
        means += regression_means(self.learned.rows.prior, batch.features)
        cells, cols, d = self._cells(np.zeros(1)), self.learned.cols, means.shape[1]
        if cells is not None and d:
            moments = cells.col_moments(cols.means, cols.variances, cols.offset, self._constant)
            matrix, vector = cells.row_quadratic(moments, d, self.base.scale)
            power = np.maximum(cells.row_totals[0], 1.0) ** self.learned.count_power
            prior = power * self.learned.rows.precisions
            matrix += np.diag(prior)
            means[:] = np.linalg.solve(matrix, vector[:, None] + (prior * means).T).T
            variances[:] = 1.0 / np.diag(matrix) if self.learned.uncertain else 0.0
        return means, variances

    @property
    def _constant(self) -> float:
        return 0.0 if self.base.offsets is None else float(self.base.offsets.constant)

    def _problem(self, observations: Observations, n_jobs: int | None) -> Problem:
        return Problem(observations, self.loss.in_units(self.units), dtype=self.base.U.dtype, n_jobs=n_jobs)

    def _side(self, start: LearnedSide, batch: NewRows, cells: Cells | None, n_jobs: int | None) -> Side:
        """The new rows at their prior means."""
        observations = batch.observations
        assert observations is not None
        engine = self._problem(observations, n_jobs).side("rows").engine
        side, other = (Side.from_learned(learned, engine) for learned in (start, self.learned.cols))
        side.features = batch.features
        if self.learned.count_power:
            counts = observations.row_weights() + (0.0 if cells is None else cells.row_totals)
            side.multipliers = (np.maximum(counts, 1.0) ** self.learned.count_power).astype(side.means.dtype)
        if start.prior is not None:
            prior = restored_prior(start.prior)
            if not prior.is_sound(side, other):
                raise DataError("The arrays of the model's row prior do not fit its sides; fit the model again.")
            side.prior_means = prior.row_means(side)
            side.means = side.prior_means.copy()
        return side

    def _subset(self, side: Side, chosen: Array, observations: Observations, n_jobs: int | None) -> Side:
        """The chosen rows of a side."""
        return replace(
            side,
            engine=self._problem(observations, n_jobs).side("rows").engine,
            means=side.means[chosen],
            variances=side.variances[chosen],
            prior_means=side.prior_means[chosen],
            multipliers=side.multipliers[chosen],
        )

    def _improve(self, side: Side, cells: Cells | None, k: int) -> Array:
        """Run round k of the solve; return a mask of the rows that have not converged."""
        before, learned = side.means, self.learned
        smoothing = max(learned.smoothing, 2500 * learned.smoothing * 0.25**k)
        settings = RowSettings(self._constant, self.base.scale, learned.uncertain, smoothing)
        side.improve(Side.from_learned(learned.cols, side.engine), settings, penalty=self.penalty, cells=cells)
        if self.loss.quadratic and self.penalty is None:  # solved exactly
            return np.zeros(before.shape[0], bool)
        size, moved = (np.abs(part).max(axis=1) for part in (side.means, side.means - before))
        return np.asarray((moved > self.tol * size) | (smoothing > learned.smoothing))

    def model(self, batch: NewRows, means: Array, variances: Array) -> LowRankModel:
        """The model of the new rows."""
        base, learned = self.base, self.learned
        rank, dtype = self.rotation.shape[0], base.U.dtype
        U = np.ascontiguousarray(means[:, :rank].astype(np.float64) @ self.rotation, dtype)
        offsets = base.offsets
        if offsets is not None:
            own = means[:, -1] if learned.rows.offset else np.zeros(batch.size, dtype)
            offsets = Offsets(offsets.constant, own.copy(), offsets.cols)
        sides = posterior = marginals = None
        if base.marginals is not None:
            at_unseen = base.marginals.constant if offsets is None else offsets.constant + offsets.rows
            marginals = base.marginals.for_new_rows(at_unseen + np.zeros(batch.size), batch.counts)
        if base.learned is not None:
            cols = replace(learned.cols, prior=self._column_prior(batch.size))
            sides = replace(learned, rows=replace(learned.rows, means=means, variances=variances), cols=cols)
        if base.posterior is not None and sides is not None:
            posterior = sides.posterior(base.posterior.noise_variance)
        return replace(
            base,
            U=U,
            offsets=offsets,
            posterior=posterior,
            learned=sides,
            loss=self.loss,
            targets=None if base.targets is None else base.targets.for_new_rows(),
            baseline=None,
            marginals=marginals,
            cells=None if base.cells is None else base.cells.for_new_rows(batch.weights),
            row_labels=batch.labels,
            seen=batch.seen,
            calibration=base.calibration if isinstance(base.calibration, OddsCalibration) else None,
            facts={"folded_in": batch.size},
        )

    def _column_prior(self, size: int) -> Any:
        """Prior of the columns, for which all rows are new."""
        saved = self.learned.cols.prior
        if saved is None:
            return None
        prior = restored_prior(saved)
        prior.renumber(np.full(size, -1), self.base.U.dtype)
        return prior.to_arrays()
