"""A loss behind a pointer, so that the row solver is compiled once for all losses.

The row solver needs the loss at one tile of entries at a time: `approximate_entries`. That function is compiled for
each type of loss, and the solver gets its address. It reads the parameters of the loss from a table of integers:
for each field of the loss's tuple the bits of a float, or the address and the length of an array.
"""

from functools import cache
from typing import Any, NamedTuple, get_type_hints

import numpy as np
from llvmlite import ir
from numba import float64, from_dtype, int64, types, uint64
from numba.extending import intrinsic, overload
from numba.np.arrayobj import populate_array

from .._arrays import Array
from .._errors import LossError
from .expected import expected_at
from .jit import PART, callback, part
from .lanes import number_of

TILE = 64  # entries whose products are summed in the factors' number type before they are added to a float64 sum
# Rows of the buffer of a tile.
LINEAR, BASE, BASE_VARIANCE, PREDICTION_VARIANCE, TARGET, WEIGHT, RHS_WEIGHT, CURVATURE = range(8)
BUFFER = (8, TILE)
_3, _4 = uint64(3), uint64(4)


class TileLoss(NamedTuple):
    """Machine code of `approximate_entries` for a type of loss, and the parameters of one."""

    address: int
    fields: Array  # (2 * n_fields,), int64


@part
def padded_count(n):
    """`n` rounded up to whole registers of float64, because a remainder loop would not be vectorized."""
    return (n + _3) // _4 * _4


@part
def approximate_entries(loss, tile, n, scale, sums):
    """Store the quadratic approximation of each entry's expected loss, times `scale`, in the tile's last two rows.

    Writes to `sums` the expected loss of the n entries, the value of the approximations at a row of zeros without
    variance, and the sum of the curvatures, all three without `scale`.
    """
    value_sum, at_zero, curvature_sum = 0.0, 0.0, 0.0
    linears, bases, noises, spreads = tile[LINEAR], tile[BASE], tile[BASE_VARIANCE], tile[PREDICTION_VARIANCE]
    targets, weights, rhs_weights, curvatures = tile[TARGET], tile[WEIGHT], tile[RHS_WEIGHT], tile[CURVATURE]
    for k in range(padded_count(n)):
        linear, spread, w = float64(linears[k]), float64(spreads[k]), float64(weights[k])
        x = linear + float64(bases[k])
        value, slope, weight = expected_at(loss, x, spread, float64(targets[k]))
        value_sum += w * value if w > 0.0 else 0.0  # also where the value is infinite
        at_zero += w * (value - slope * linear + 0.5 * weight * (linear * linear - spread + float64(noises[k])))
        curvature_sum += w * weight
        curvatures[k] = scale * w * weight
        rhs_weights[k] = scale * w * (weight * linear - slope)
    sums[0], sums[1], sums[2] = value_sum, at_zero, curvature_sum


def at_pointer(loss, tile, n, scale, sums):
    """`approximate_entries` of a `TileLoss`; uncompiled code passes the loss itself."""
    approximate_entries(loss, tile, n, scale, sums)


@overload(at_pointer, jit_options=PART)
def _at_pointer(loss, tile, n, scale, sums):
    return lambda loss, tile, n, scale, sums: _call(
        loss.address, loss.fields.ctypes.data, tile.ctypes.data, uint64(n), float64(scale), sums.ctypes.data
    )


def tile_loss(parameters: Any, dtype: Any, *, cached: bool) -> TileLoss:
    """Compile `approximate_entries` for a type of loss and a type of factors, and store the parameters.

    The arrays among the parameters must outlive the result.
    """
    kind: Any = type(parameters)
    fields = []
    for value, is_float in zip(parameters, _are_floats(kind), strict=True):
        if is_float:
            fields += [int(np.float64(value).view(np.int64)), 1]
        elif isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype == float and value.flags.c_contiguous:
            fields += [value.ctypes.data, value.size]
        else:
            raise LossError(f"Parameters of a loss must be floats or one-dimensional float64 arrays, got {value!r}.")
    return TileLoss(_machine_code(kind, np.dtype(dtype), cached).address, np.array(fields, np.int64))


@cache
def _are_floats(kind: Any) -> tuple[bool, ...]:
    """Whether each field of a loss's tuple is a float; the others are arrays."""
    return tuple(hint is float for hint in get_type_hints(kind).values())


@cache  # Numba never unloads machine code, so that an address stays valid
def _machine_code(kind: Any, dtype: np.dtype[Any], cached: bool) -> Any:
    number = from_dtype(dtype)

    def approximate(fields, tile, n, scale, sums):
        approximate_entries(rebuilt(kind, fields), _buffer_at(tile), n, scale, sums)

    signature = types.void(types.CPointer(int64), types.CPointer(number), uint64, float64, types.CPointer(float64))
    return callback(approximate, signature, f"{__name__}.{kind.__module__}.{kind.__name__}" if cached else None)


def rebuilt(kind, fields):
    """The loss's tuple from the table of its fields; compiled code only."""


@overload(rebuilt, jit_options=PART)
def _rebuilt(kind, fields):
    parts = ", ".join(
        f"bits(fields[{2 * k}])" if is_float else f"array(fields[{2 * k}], fields[{2 * k + 1}])"
        for k, is_float in enumerate(_are_floats(kind.instance_class))
    )
    namespace = {"bits": number_of, "array": _array_at}
    exec(f"def rebuild(kind, fields):\n    return kind({parts})", namespace)
    return namespace["rebuild"]


@intrinsic
def _buffer_at(typing_context, address):
    """Array of shape `BUFFER` at an address; Numba's `carray` would count references."""
    kind = types.Array(address.dtype, len(BUFFER), "C")

    def generate(context, builder, signature, arguments):
        item = kind.dtype.bitwidth // 8
        numbers = [[context.get_constant(types.intp, n) for n in part] for part in (BUFFER, (TILE * item, item))]
        array, (shape, strides) = context.make_array(kind)(context, builder), numbers
        populate_array(array, arguments[0], shape, strides, itemsize=strides[-1], meminfo=None)
        return array._getvalue()

    return kind(address), generate


@intrinsic
def _array_at(typing_context, address, size):
    """Read-only array at an address, of the type of a loss's own array: its formulas are compiled once for both."""
    kind = types.Array(float64, 1, "C", readonly=True)

    def generate(context, builder, signature, arguments):
        array, item = context.make_array(kind)(context, builder), context.get_constant(types.intp, 8)
        data = builder.inttoptr(arguments[0], context.get_data_type(float64).as_pointer())
        populate_array(array, data=data, shape=[arguments[1]], strides=[item], itemsize=item, meminfo=None)
        return array._getvalue()

    return kind(types.int64, types.int64), generate


@intrinsic
def _call(typing_context, address, fields, tile, n, scale, sums):
    """Call the C function at an address."""

    def generate(context, builder, signature, arguments):
        target, *values = arguments
        function = ir.FunctionType(ir.VoidType(), [value.type for value in values])
        builder.call(builder.inttoptr(target, function.as_pointer()), values)
        return context.get_dummy_value()

    return types.void(types.int64, types.intp, types.intp, types.uint64, types.float64, types.intp), generate
