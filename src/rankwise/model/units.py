"""Conversion of a fitted model between the units of the targets and those that a fit stores."""

from dataclasses import replace
from typing import Any

import numpy as np

from .._arrays import Array
from ..engines import Offsets
from ..losses.units import UNCHANGED, Units
from ..penalties import allow_units, factor_units
from .learned import Learned, LearnedSide
from .low_rank import LowRankModel

LARGEST = 2.0**30  # units beyond which float32 may not hold a squared one


def original_model(model: LowRankModel, units: Units) -> LowRankModel:
    """Return a model of numbers stored in `units` as a model of the targets; its loss stays.

    Its arrays are in float64 if float32 cannot hold a squared unit.
    """
    return model if units == UNCHANGED else _converted(model, units, _dtype(model.U, units))


def stored_model(model: LowRankModel, units: Units) -> LowRankModel:
    """Return a model of the targets as a model of numbers stored in `units`."""
    return model if units == UNCHANGED else _converted(model, units.inverse(), model.U.dtype)


def _converted(model: LowRankModel, units: Units, dtype: Any) -> LowRankModel:
    learned = None if model.learned is None else _learned(model.learned, units, dtype)
    posterior = model.posterior
    if posterior is not None and learned is not None:
        posterior = learned.posterior(posterior.noise_variance * units.unit**2)
    marginals = model.marginals
    if marginals is not None:
        rows, cols = (units.original(part) for part in (marginals.rows, marginals.cols))
        marginals = replace(marginals, rows=rows, cols=cols, constant=float(units.original(marginals.constant)))  # type: ignore[arg-type]
    return replace(
        model,
        path=model.path * units.unit,
        offsets=original_offsets(model.offsets, units, dtype),
        baseline=original_offsets(model.baseline, units, dtype),
        marginals=marginals,
        learned=learned,
        posterior=posterior,
        scale=model.scale if learned is not None and not learned.uncertain else model.scale / units.size,
    )


def original_offsets(offsets: Offsets | None, units: Units, dtype: Any = None) -> Offsets | None:
    """Return offsets of stored numbers as offsets of the targets."""
    if units == UNCHANGED:
        return offsets
    if offsets is None:
        return None
    dtype = _dtype(offsets.rows, units) if dtype is None else dtype
    rows, cols = (_scaled(side, units.unit, dtype) for side in (offsets.rows, offsets.cols))
    return Offsets(float(units.level + units.unit * offsets.constant), rows, cols)


def units_of_model(model: LowRankModel, level: bool = True) -> Units:
    """Return units in which new rows of a model can be solved: near the spread of its predictions."""
    loss, offsets, learned = model.loss, model.offsets, model.learned
    if loss is None or not loss.has_units:
        return UNCHANGED
    if learned is not None and not allow_units((learned.rows.penalty, learned.cols.penalty)):
        return UNCHANGED
    parts = [] if offsets is None else [offsets.rows, offsets.cols]
    squares = [float(np.mean(part.astype(np.float64) ** 2)) for part in parts if part.size]
    squares.append(float(np.sum(model.theta**2)) / max(model.shape[0] * model.shape[1], 1))
    constant = 0.0 if offsets is None else float(offsets.constant)
    return Units.near(constant, float(np.sqrt(sum(squares))), loss, offsets is not None)


def _dtype(part: Array, units: Units) -> Any:
    """Return the dtype of `part`, or float64 for units that float32 cannot square."""
    return part.dtype if 1 / LARGEST < units.unit < LARGEST else np.dtype(np.float64)


def _scaled(part: Array, factor: Any, dtype: Any) -> Array:
    return np.asarray(part.astype(np.float64) * factor).astype(dtype)


def _learned(learned: Learned, units: Units, dtype: Any) -> Learned:
    """Convert both sides: factors have the root of the unit, or one side all of it, and offsets the unit.

    Precisions are relative to the scaled loss if it is a density, else to the loss itself.
    """
    factor = 1.0 if learned.uncertain else units.size

    def side(part: LearnedSide, unit: float) -> LearnedSide:
        scales = np.full(part.precisions.size, unit)
        scales[part.precisions.size - int(part.offset) :] = units.unit
        prior = part.prior
        if prior is not None:
            prior = replace(prior, arrays={name: _scaled(a, scales, dtype) for name, a in prior.arrays.items()})
        means, variances = _scaled(part.means, scales, dtype), _scaled(part.variances, scales**2, dtype)
        penalty = None if part.penalty is None else part.penalty.in_units(1 / unit, 1 / units.size)
        return LearnedSide(means, variances, factor * part.precisions / scales**2, part.offset, prior, penalty)

    smoothing = learned.smoothing * units.unit**2
    unit_of = factor_units((learned.rows.penalty, learned.cols.penalty), units.unit)
    rows, cols = side(learned.rows, unit_of[0]), side(learned.cols, unit_of[1])
    return replace(learned, rows=rows, cols=cols, smoothing=smoothing)
