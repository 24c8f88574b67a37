"""A loss per column: the target is a code, a small integer that stands for a column and a target in it.

The loss looks both up, so that loops, shards, transposes and solvers see a single loss. Each column has a constant
that is added to its predictions, and a weight of its loss.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from numba import uint64

from .._arrays import Array
from .expected import expected_at, two_point_expected
from .formulas import FORMULAS, Formulas, curvature_at, declare, slope_at, value_at
from .jit import linked


class MixedFormula(NamedTuple):
    """``scales[j] * loss_j(x + shifts[j], values[code])`` with ``j = columns[code]``."""

    columns: Array  # (n_codes,)
    values: Array  # (n_codes,)
    kinds: Array  # (n_columns,): position of the column's loss in the sequence given to `declare_mixed`
    scales: Array  # (n_columns,)
    shifts: Array  # (n_columns,)
    starts: Array  # (n_columns + 1,): where the column's parameters begin
    parameters: Array  # of all columns, one after the other


# Numba cannot index types at run time, so the branches over the kinds of losses are written as source code.
LOOK_UP = """
def of_column(p, x, code):
    j, o = uint64(p.columns[uint64(code)]), p.values[uint64(code)]
    kind, start, x = p.kinds[j], uint64(p.starts[j]), x + p.shifts[j]
    result = 0.0
{branches}
    return p.scales[j] * result
"""
LOOK_UP_EXPECTED = """
def of_column(p, m, s, code):
    j, o = uint64(p.columns[uint64(code)]), p.values[uint64(code)]
    kind, start, x, scale = p.kinds[j], uint64(p.starts[j]), m + p.shifts[j], p.scales[j]
{branches}
    else:
        return two_point(p, m, s, code)
    return scale * value, scale * slope, scale * weight
"""


def declare_mixed(parameters: type[Any], kinds: Sequence[type[Any]]) -> Formulas:
    """Declare the formulas of tuples with the fields of `MixedFormula`.

    Parameters
    ----------
    parameters : type
        The type of the tuples.
    kinds : sequence of types
        Types of the parameters of the losses that columns may have; `MixedFormula.kinds` counts along it.
    """
    call = "result = function({loss}, x, o)"
    value_of, slope_of, curvature_of = (
        _compile(LOOK_UP, call, kinds, function=function) for function in (value_at, slope_at, curvature_at)
    )
    call = "value, slope, weight = function({loss}, x, s, o)"
    bounded = [kind if FORMULAS[kind].expected else None for kind in kinds]
    expected_of = _compile(LOOK_UP_EXPECTED, call, bounded, function=expected_at, two_point=linked(two_point_expected))

    def value(p, x, o):
        return value_of(p, x, o)

    def slope(p, x, o):
        return slope_of(p, x, o)

    def curvature(p, x, o):
        return curvature_of(p, x, o)

    def expected(p, m, s, o):
        return expected_of(p, m, s, o)

    return declare(Formulas(parameters, value, slope, curvature, expected=expected, bound=False))


def _compile(template: str, call: str, kinds: Sequence[type[Any] | None], **names: Any) -> Any:
    """Compile a template with a branch for every kind that is not None."""
    branches = [
        f"if kind == {k}:\n        {call.format(loss=_construction(kind))}"
        for k, kind in enumerate(kinds)
        if kind is not None
    ]
    namespace = {kind.__name__: kind for kind in kinds if kind is not None} | {"uint64": uint64, **names}
    exec(template.format(branches="    " + "\n    el".join(branches or ["if False:\n        pass"])), namespace)
    return linked(namespace["of_column"])


def _construction(kind: type[Any]) -> str:
    """Source code that rebuilds a column's parameters from the flat array of all columns."""
    if FORMULAS[kind].has_array:
        return f"{kind.__name__}(p.parameters[start : uint64(p.starts[j + uint64(1)])])"
    return f"{kind.__name__}({', '.join(f'p.parameters[start + uint64({k})]' for k in range(len(kind._fields)))})"
