"""A loss per column: the target is a code, a small whole number, that stands for a column and a value in it.

The loss looks both up, so that loops, shards, transposes and solvers know of one loss only. Prediction zero is moved to
the column's own best constant, and the column's loss is multiplied by its own weight.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from numba import njit, uint64

from . import expected, formulas, thresholds
from .expected import expected_at, two_point_expected
from .formulas import curvature_at, slope_at, value_at
from .jit import OPTIONS

_njit = njit(**OPTIONS)  # not cached, as no loss's parts are; called from Python too, where a formula is
SQUARE, HUBER, ABSOLUTE, QUANTILE, HINGE, LOGISTIC, POISSON, ORDINAL, ORDINAL_HINGE, ODDS = range(10)


class MixedFormula(NamedTuple):
    """``scales[j] * loss_j(x + shifts[j], values[code])`` with ``j = columns[code]``."""

    columns: Any  # (n_codes,)
    values: Any  # (n_codes,)
    kinds: Any  # (n_columns,): numbers from above
    scales: Any  # (n_columns,)
    shifts: Any  # (n_columns,)
    parameters: Any  # (n_columns,): of Huber's and the quantile loss
    starts: Any  # (n_columns + 1,): where the column's own thresholds are
    thresholds: Any


def look_up(verb: Callable[..., Any]) -> Any:
    """Apply `verb`, one of value_at, slope_at and curvature_at, to the loss of the code's column."""

    @_njit
    def of_column(p, x, code):
        j, o = p.columns[uint64(code)], p.values[uint64(code)]
        kind, x = p.kinds[j], x + p.shifts[j]
        if kind == SQUARE:
            found = verb(formulas.SquareFormula(0.0), x, o)
        elif kind == HUBER:
            found = verb(formulas.HuberFormula(p.parameters[j]), x, o)
        elif kind == ABSOLUTE:
            found = verb(formulas.AbsoluteFormula(0.0), x, o)
        elif kind == QUANTILE:
            found = verb(formulas.QuantileFormula(p.parameters[j]), x, o)
        elif kind == HINGE:
            found = verb(formulas.HingeFormula(0.0), x, o)
        elif kind == LOGISTIC:
            found = verb(formulas.LogisticFormula(0.0), x, o)
        elif kind == POISSON:
            found = verb(formulas.PoissonFormula(0.0), x, o)
        elif kind == ORDINAL:
            found = verb(thresholds.OrdinalFormula(p.thresholds[p.starts[j] : p.starts[j + 1]]), x, o)
        elif kind == ORDINAL_HINGE:
            found = verb(thresholds.OrdinalHingeFormula(p.thresholds[p.starts[j] : p.starts[j + 1]]), x, o)
        else:
            found = verb(thresholds.ProportionalOddsFormula(p.thresholds[p.starts[j] : p.starts[j + 1]]), x, o)
        return p.scales[j] * found

    return of_column


value_of, slope_of, curvature_of = look_up(value_at), look_up(slope_at), look_up(curvature_at)
two_point = _njit(two_point_expected)


@_njit
def expected_of(p, m, s, code):
    """The column's own parabola; an average over two points where it has none."""
    j, o = p.columns[uint64(code)], p.values[uint64(code)]
    kind, x, scale = p.kinds[j], m + p.shifts[j], p.scales[j]
    if kind == SQUARE:
        value, slope, weight = expected_at(formulas.SquareFormula(0.0), x, s, o)
    elif kind == HUBER:
        value, slope, weight = expected_at(formulas.HuberFormula(p.parameters[j]), x, s, o)
    elif kind == ABSOLUTE:
        value, slope, weight = expected_at(formulas.AbsoluteFormula(0.0), x, s, o)
    elif kind == QUANTILE:
        value, slope, weight = expected_at(formulas.QuantileFormula(p.parameters[j]), x, s, o)
    elif kind == HINGE:
        value, slope, weight = expected_at(formulas.HingeFormula(0.0), x, s, o)
    elif kind == ORDINAL_HINGE:
        loss = thresholds.OrdinalHingeFormula(p.thresholds[p.starts[j] : p.starts[j + 1]])
        value, slope, weight = expected_at(loss, x, s, o)
    else:
        return two_point(p, m, s, code)
    return scale * value, scale * slope, scale * weight


def mixed_value(p, x, o):
    """See `value_of`."""
    return value_of(p, x, o)


def mixed_slope(p, x, o):
    """See `slope_of`."""
    return slope_of(p, x, o)


def mixed_curvature(p, x, o):
    """See `curvature_of`."""
    return curvature_of(p, x, o)


def mixed_expected(p, m, s, o):
    """See `expected_of`."""
    return expected_of(p, m, s, o)


formulas.FORMULAS[MixedFormula] = mixed_value, mixed_slope, mixed_curvature
expected.PARABOLAS[MixedFormula] = mixed_expected
expected.UNSURE.add(MixedFormula)
