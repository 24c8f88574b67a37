"""SIMD operations on eight numbers, in which the row solves are written.

LLVM vectorizes Numba's loops for long trip counts and runs the remainder one by one; here the width is fixed. Every
operation is a plain function of NumPy arrays, which defines it, and has a twin of a few machine instructions that
compiled code gets instead. On a machine without eight lanes LLVM splits them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types, uint64
from numba.extending import lower_builtin, models, register_model, type_callable

from .._arrays import Array

LANES = 8
STRIDE = uint64(LANES)  # step of loops over lanes
FLAGS = ("reassoc", "contract", "nsz", "arcp")


def padded(n: int) -> int:
    """Return `n` rounded up to a multiple of eight."""
    return -(-n // LANES) * LANES


def pad_columns(block: Array, dtype: np.dtype[Any]) -> Array:
    """Return `block` C-contiguous and padded with columns of zeros to a multiple of eight; no copy if it is both."""
    n = block.shape[1]
    if n % LANES == 0:
        return np.ascontiguousarray(block, dtype)
    wide = np.zeros((block.shape[0], padded(n)), dtype)
    wide[:, :n] = block
    return wide


class Lanes(types.Type):
    """Numba type of a vector of eight float32 or float64 numbers."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"Lanes({dtype})")


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):
    """LLVM vector of eight numbers."""

    def __init__(self, manager, lanes):
        super().__init__(manager, lanes, ir.VectorType(manager.lookup(lanes.dtype).get_value_type(), LANES))


def zeros(like):
    """Return eight zeros of an array's dtype."""
    return np.zeros(LANES, like.dtype)


def doubles():
    """Return eight zeros of float64."""
    return np.zeros(LANES)


def load(array, at):
    """Return ``array[at : at + 8]``."""
    return array[at : at + LANES].copy()


def pick(array, places, at):
    """Gather ``array[places[at : at + 8]]``."""
    return array[places[at : at + LANES]]


def fetch(array, at):
    """Prefetch the memory of ``array[at]``; has no other effect."""


def store(array, at, lanes):
    """Set ``array[at : at + 8]``, in the dtype of `array`."""
    array[at : at + LANES] = lanes


def accumulate(array, at, lanes):
    """Add to ``array[at : at + 8]``, in the dtype of `array`."""
    array[at : at + LANES] += lanes


def scatter(array, places, at, lanes):
    """Add to ``array[places[at : at + 8]]``, one after another, so that places may repeat."""
    for k in range(LANES):
        array[places[at + k]] += lanes[k]


def times(x, lanes):
    """Return ``x * lanes``."""
    return lanes.dtype.type(x) * lanes


def add(sums, one, other):
    """Return ``sums + one * other``."""
    return sums + one * other


def add_times(sums, x, lanes):
    """Return ``sums + x * lanes``."""
    return sums + lanes.dtype.type(x) * lanes


def product(one, other):
    """Return ``one * other``."""
    return one * other


def widen(lanes):
    """Convert to float64."""
    return lanes.astype(np.float64)


def total(lanes):
    """Return the sum of the eight numbers, in a fixed order."""
    pairs = lanes[:4] + lanes[4:]
    pairs = pairs[:2] + pairs[2:]
    return pairs[0] + pairs[1]


def bits_of(x):
    """Return the bits of a float64 as an integer."""
    return np.float64(x).view(np.int64)


def number_of(bits):
    """Return the float64 that has these bits."""
    return np.int64(bits).view(np.float64)


def compiled(function: Callable[..., Any], answer: Callable[..., Any], *kinds: Any) -> Any:
    """Register the decorated function as the compiled twin of `function`; `answer` returns its return type."""
    type_callable(function)(lambda context: answer)
    return lower_builtin(function, *kinds)


def _place(context, builder, sig, args):
    """Return the address of ``array[at : at + 8]`` (the first two arguments) and its alignment in bytes."""
    kind, at = sig.args[0], context.cast(builder, args[1], sig.args[1], types.uint64)
    data = context.make_array(kind)(context, builder, args[0]).data
    width = ir.VectorType(context.get_value_type(kind.dtype), LANES)
    return builder.bitcast(builder.gep(data, [at]), width.as_pointer()), kind.dtype.bitwidth // 8


def _places(context, builder, sig, args):
    """Yield the addresses of ``array[places[at : at + 8]]``, the first three arguments."""
    data, places = (context.make_array(sig.args[k])(context, builder, args[k]).data for k in (0, 1))
    at, wide = context.cast(builder, args[2], sig.args[2], types.uint64), ir.IntType(64)
    for k in range(LANES):
        place = builder.load(builder.gep(places, [builder.add(at, ir.Constant(wide, k))]))
        yield builder.gep(data, [builder.zext(place, wide)])


def _splat(context, builder, x, kind, lanes):
    """Return a vector with one number in all lanes."""
    x, width = context.cast(builder, x, kind, lanes.dtype), context.get_value_type(lanes)
    first = builder.insert_element(ir.Constant(width, ir.Undefined), x, ir.Constant(ir.IntType(32), 0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(first, ir.Constant(width, ir.Undefined), mask)


@compiled(bits_of, lambda x: types.int64, types.Float)
def _bits_of(context, builder, sig, args):
    return builder.bitcast(context.cast(builder, args[0], sig.args[0], types.float64), ir.IntType(64))


@compiled(number_of, lambda bits: types.float64, types.Integer)
def _number_of(context, builder, sig, args):
    return builder.bitcast(context.cast(builder, args[0], sig.args[0], types.int64), ir.DoubleType())


@compiled(zeros, lambda like: Lanes(like.dtype), types.Array)
def _zeros(context, builder, sig, args):
    return ir.Constant(context.get_value_type(sig.return_type), None)


@compiled(doubles, lambda: Lanes(types.float64))
def _doubles(context, builder, sig, args):
    return ir.Constant(context.get_value_type(sig.return_type), None)


@compiled(load, lambda array, at: Lanes(array.dtype), types.Array, types.Integer)
def _load(context, builder, sig, args):
    place, align = _place(context, builder, sig, args)
    return builder.load(place, align=align)


@compiled(pick, lambda array, places, at: Lanes(array.dtype), types.Array, types.Array, types.Integer)
def _pick(context, builder, sig, args):
    lanes = ir.Constant(context.get_value_type(sig.return_type), ir.Undefined)
    for k, place in enumerate(_places(context, builder, sig, args)):
        lanes = builder.insert_element(lanes, builder.load(place), ir.Constant(ir.IntType(32), k))
    return lanes


@compiled(fetch, lambda array, at: types.none, types.Array, types.Integer)
def _fetch(context, builder, sig, args):
    place, number, address = _place(context, builder, sig, args)[0], ir.IntType(32), ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [address, number, number, number])
    prefetch = builder.module.declare_intrinsic("llvm.prefetch", [address], kind)
    read, near, data = (ir.Constant(number, k) for k in (0, 3, 1))
    builder.call(prefetch, [builder.bitcast(place, address), read, near, data])
    return context.get_dummy_value()


@compiled(store, lambda array, at, lanes: types.none, types.Array, types.Integer, Lanes)
def _store(context, builder, sig, args):
    place, align = _place(context, builder, sig, args)
    lanes = args[2]
    if lanes.type != place.type.pointee:
        lanes = builder.fptrunc(lanes, place.type.pointee)
    builder.store(lanes, place, align=align)
    return context.get_dummy_value()


@compiled(accumulate, lambda array, at, lanes: types.none, types.Array, types.Integer, Lanes)
def _accumulate(context, builder, sig, args):
    place, align = _place(context, builder, sig, args)
    more, old = args[2], builder.load(place, align=align)
    if more.type != old.type:
        more = builder.fpext(more, old.type)
    builder.store(builder.fadd(old, more, flags=FLAGS), place, align=align)
    return context.get_dummy_value()


@compiled(scatter, lambda array, places, at, lanes: types.none, types.Array, types.Array, types.Integer, Lanes)
def _scatter(context, builder, sig, args):
    for k, place in enumerate(_places(context, builder, sig, args)):
        more = builder.extract_element(args[3], ir.Constant(ir.IntType(32), k))
        builder.store(builder.fadd(builder.load(place), more, flags=FLAGS), place)
    return context.get_dummy_value()


@compiled(times, lambda x, lanes: lanes, types.Number, Lanes)
def _times(context, builder, sig, args):
    return builder.fmul(_splat(context, builder, args[0], *sig.args), args[1], flags=FLAGS)


@compiled(add, lambda sums, one, other: sums, Lanes, Lanes, Lanes)
def _add(context, builder, sig, args):
    return builder.fadd(args[0], builder.fmul(args[1], args[2], flags=FLAGS), flags=FLAGS)


@compiled(add_times, lambda sums, x, lanes: sums, Lanes, types.Number, Lanes)
def _add_times(context, builder, sig, args):
    product = builder.fmul(_splat(context, builder, args[1], *sig.args[1:]), args[2], flags=FLAGS)
    return builder.fadd(args[0], product, flags=FLAGS)


@compiled(product, lambda one, other: one, Lanes, Lanes)
def _product(context, builder, sig, args):
    return builder.fmul(*args, flags=FLAGS)


@compiled(widen, lambda lanes: Lanes(types.float64), Lanes)
def _widen(context, builder, sig, args):
    wide = context.get_value_type(sig.return_type)
    return args[0] if args[0].type == wide else builder.fpext(args[0], wide)


@compiled(total, lambda lanes: lanes.dtype, Lanes)
def _total(context, builder, sig, args):
    sums, width = args[0], LANES
    while width > 1:
        width //= 2
        halves = [
            builder.shuffle_vector(sums, sums, ir.Constant(ir.VectorType(ir.IntType(32), width), places))
            for places in (list(range(width)), list(range(width, 2 * width)))
        ]
        sums = builder.fadd(*halves, flags=FLAGS)
    return builder.extract_element(sums, ir.Constant(ir.IntType(32), 0))
