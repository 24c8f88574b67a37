"""A penalty on the factors of a row, behind pointers, so that the row solver is compiled once for all penalties.

A penalty is declared by `PenaltyFormulas`: a NamedTuple of its parameters, all floats, whose first field `size` is the
number of components that it covers, and scalar functions. Two functions are compiled of each declaration: one that
minimizes a row's quadratic plus the penalty, and one for the penalty's value. The solver gets their addresses.
Components after the first `size`, a row's offset, are not penalized.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import carray, float64, int64, types, uint64
from numba.extending import intrinsic, overload

from .._arrays import Array
from .jit import PART, callback, part
from .tile_losses import rebuilt

PASSES = 500  # of coordinate descent at most
LAST_PASS = 1e-3  # a pass that lowers the quadratic by less than this fraction of all passes is the last
LEAST_MOVE = 1e-12  # as is one that moves no component by more than this fraction of the largest
Rule = Callable[..., Any]  # a function that Numba compiles


class NoFields(NamedTuple):
    """Base of the parameters of penalties that have none but their size."""

    size: float


@dataclass(frozen=True)
class PenaltyFormulas:
    """Functions of a penalty, each called with the tuple `p` of its parameters first.

    Attributes
    ----------
    parameters : type
        The NamedTuple of the parameters.
    prox : callable (p, z, step) -> float, optional
        For a penalty that is a sum over components: the minimizer over x of ``(x - z)**2 / (2 step) + penalty(x)``.
    value : callable (p, x) -> float, optional
        Penalty of one component; zero by default, as for a constraint.
    minimize : callable (p, d, matrix, diagonal, vector, solution) -> None, optional
        In place of `prox`: lower a row's quadratic under the penalty, starting from `solution`, in place. `matrix` is
        the Hessian, `diagonal` its diagonal, and `vector` the gradient with its sign changed, which must stay so.
    choices : bool
        Whether a row is one of `size` unit vectors. Under a loss that is not quadratic all of them are tried.
    """

    parameters: type[Any]
    prox: Rule | None = None
    value: Rule | None = None
    minimize: Rule | None = None
    choices: bool = False


class RowPenalty(NamedTuple):
    """Machine code of a penalty and the parameters of one, as the row solver takes it."""

    minimizer: int
    valuer: int
    fields: Array  # (2 * n_fields,), int64, as `tile_losses.rebuilt` reads them
    size: int
    n_choices: int  # unit vectors that the row may be, or zero


def row_penalty(formulas: PenaltyFormulas, parameters: Any, *, cached: bool) -> RowPenalty:
    """Compile a penalty, or load its machine code from the cache, and store the parameters."""
    bits = np.array(parameters, np.float64).view(np.int64)
    fields = np.column_stack((bits, np.ones_like(bits))).ravel()
    minimizer, valuer = _machine_code(formulas, cached)
    size = int(parameters.size)
    return RowPenalty(minimizer.address, valuer.address, fields, size, size if formulas.choices else 0)


@cache  # Numba never unloads machine code, so that an address stays valid
def _machine_code(formulas: PenaltyFormulas, cached: bool) -> tuple[Any, Any]:
    kind, n_fields = formulas.parameters, 2 * len(formulas.parameters._fields)
    rule: Any = formulas.minimize if formulas.prox is None else _descent(part(formulas.prox))
    rule, component = part(rule), part(formulas.value or _nothing)

    def minimize(fields, d, width, matrix, diagonal, vector, solution):
        p, line = rebuilt(kind, carray(fields, (n_fields,))), (width,)
        square = carray(matrix, (width, width))
        rule(p, d, square, carray(diagonal, line), carray(vector, line), carray(solution, line))

    def value(fields, row):
        p, total = rebuilt(kind, carray(fields, (n_fields,))), 0.0
        for a in range(uint64(p.size)):
            total += component(p, row[a])
        return total

    numbers, name = types.CPointer(float64), f"{__name__}.{kind.__module__}.{kind.__name__}" if cached else None
    minimizing = types.void(types.CPointer(int64), uint64, types.intp, numbers, numbers, numbers, numbers)
    return (
        callback(minimize, minimizing, name and f"{name}.minimize"),
        callback(value, float64(types.CPointer(int64), numbers), name and f"{name}.value"),
    )


def _nothing(p, x):
    return 0.0


def _descent(prox: Rule) -> Any:
    """Coordinate descent with a proximal map."""

    def descend(p, d, matrix, diagonal, vector, solution):
        size, fallen = uint64(p.size), 0.0
        for _ in range(PASSES):
            moved, largest, fall = 0.0, 0.0, 0.0
            for a in range(d):
                old, step = solution[a], 1.0 / diagonal[a]
                new = old + step * vector[a]
                if a < size:
                    new = prox(p, new, step)
                fall += move_component(d, a, new, matrix, diagonal, vector, solution)
                moved, largest = max(moved, abs(new - old)), max(largest, abs(new))
            fallen += fall
            if fall <= LAST_PASS * fallen or moved <= LEAST_MOVE * largest:
                break

    return descend


@part
def move_component(d, a, new, matrix, diagonal, vector, solution):
    """Set a component of the solution, and update the gradient; return half the squared move in the norm of the row."""
    change = new - solution[a]
    if change != 0.0:
        line = matrix[a]
        for b in range(d):
            vector[b] -= line[b] * change
        solution[a] = new
    return 0.5 * diagonal[a] * change * change


@part
def begin_descent(mean, d, work):
    """Make the matrix symmetric, and set the solution to the row and the vector to the negative gradient there."""
    matrix, vector, solution = work.matrix, work.vector, work.solution
    for a in range(d):
        for b in range(a):
            matrix[a, b] = matrix[b, a]
        solution[a] = float64(mean[a])
    for a in range(d):
        line, product = matrix[a], 0.0
        for b in range(d):
            product += line[b] * solution[b]
        vector[a] -= product


@part
def minimize_row(penalty, d, work):
    """Lower the row's quadratic plus its penalty, from where `begin_descent` has put the solution."""
    _call_minimizer(
        penalty.minimizer,
        penalty.fields.ctypes.data,
        uint64(d),
        work.matrix.shape[1],
        work.matrix.ctypes.data,
        work.diagonal.ctypes.data,
        work.vector.ctypes.data,
        work.solution.ctypes.data,
    )


@part
def penalty_value(penalty, mean, work):
    """Penalty of a row."""
    numbers = work.inverse_diagonal
    for a in range(uint64(penalty.size)):
        numbers[a] = float64(mean[a])
    return _call_valuer(penalty.valuer, penalty.fields.ctypes.data, numbers.ctypes.data)


def n_trials(penalty, most):
    """Number of trial points of a row's step: `most` on the way to the minimum, or one for every choice."""
    return most if penalty is None or penalty.n_choices == 0 else penalty.n_choices


@overload(n_trials, jit_options=PART)
def _n_trials(penalty, most):
    if isinstance(penalty, types.NoneType):
        return lambda penalty, most: most
    return lambda penalty, most: most if penalty.n_choices == 0 else penalty.n_choices


def _calling(kind):
    """Code of an intrinsic that calls the C function at its first argument."""

    def generate(context, builder, signature, arguments):
        target, *values = arguments
        returned = ir.VoidType() if kind is types.void else context.get_value_type(kind)
        function = ir.FunctionType(returned, [value.type for value in values])
        result = builder.call(builder.inttoptr(target, function.as_pointer()), values)
        return context.get_dummy_value() if kind is types.void else result

    return generate


@intrinsic
def _call_minimizer(typing_context, address, fields, d, width, matrix, diagonal, vector, solution):
    place = types.intp
    arguments = types.int64, place, types.uint64, place, place, place, place, place
    return types.void(*arguments), _calling(types.void)


@intrinsic
def _call_valuer(typing_context, address, fields, row):
    return float64(types.int64, types.intp, types.intp), _calling(float64)
