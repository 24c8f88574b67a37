"""Eight numbers at once: the few vector operations that the row solves are written in.

Numba leaves short loops to LLVM, which unrolls them for long ones and walks the rest one by one. Here the width is
fixed. Every operation is a plain function of NumPy arrays, which is its meaning, and has a twin of a few machine
instructions that compiled code gets instead; on a machine without eight lanes LLVM splits them.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, overload, register_model

from .jit import INLINED

LANES = 8
FLAGS = ("reassoc", "contract", "nsz", "arcp")


def padded(n):
    """The next multiple of eight."""
    return -(-n // LANES) * LANES


def pad_columns(block, dtype):
    """A matrix in rows, with columns of zeros up to a multiple of eight; itself if it is so already."""
    n = block.shape[1]
    if n % LANES == 0:
        return np.ascontiguousarray(block, dtype)
    found = np.zeros((block.shape[0], padded(n)), dtype)
    found[:, :n] = block
    return found


class Lanes(types.Type):
    """Eight floats, or eight doubles."""

    def __init__(self, dtype):
        self.dtype = dtype
        super().__init__(name=f"Lanes({dtype})")


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):
    """A vector register, or as many as it takes."""

    def __init__(self, manager, lanes):
        super().__init__(manager, lanes, ir.VectorType(manager.lookup(lanes.dtype).get_value_type(), LANES))


def zeros(like):
    """Eight zeros of an array's number type."""
    return np.zeros(LANES, like.dtype)


def load(array, at):
    """Eight numbers of a vector, from place `at` on."""
    return array[at : at + LANES].copy()


def store(array, at, lanes):
    """Put eight numbers into a vector."""
    array[at : at + LANES] = lanes


def accumulate(array, at, lanes):
    """Add eight numbers to those of a vector, in the vector's number type."""
    array[at : at + LANES] += lanes


def times(x, lanes):
    """A number times eight."""
    return lanes.dtype.type(x) * lanes


def add(sums, one, other):
    """Eight sums and eight products."""
    return sums + one * other


def add_times(sums, x, lanes):
    """Eight sums and the products of a number with eight."""
    return sums + lanes.dtype.type(x) * lanes


def product(one, other):
    """Eight products."""
    return one * other


def widen(lanes):
    """Eight doubles."""
    return lanes.astype(np.float64)


def total(lanes):
    """Sum of the eight, in a fixed order."""
    pairs = lanes[:4] + lanes[4:]
    pairs = pairs[:2] + pairs[2:]
    return pairs[0] + pairs[1]


def _vector_at(context, builder, kind, array, at):
    """Address of the eight numbers from place `at` on."""
    data = context.make_array(kind)(context, builder, array).data
    width = ir.VectorType(context.get_value_type(kind.dtype), LANES)
    return builder.bitcast(builder.gep(data, [at]), width.as_pointer())


def _splat(builder, x, width):
    """One number in all lanes."""
    first = builder.insert_element(ir.Constant(width, ir.Undefined), x, ir.Constant(ir.IntType(32), 0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(first, ir.Constant(width, ir.Undefined), mask)


def _align(kind):
    return kind.dtype.bitwidth // 8


@intrinsic
def _zeros(context, like):
    kind = Lanes(like.dtype)
    return kind(like), lambda context, builder, sig, args: ir.Constant(context.get_value_type(kind), None)


@intrinsic
def _load(context, array, at):
    def code(context, builder, sig, args):
        return builder.load(_vector_at(context, builder, sig.args[0], *args), align=_align(sig.args[0]))

    return Lanes(array.dtype)(array, types.uint64), code


@intrinsic
def _store(context, array, at, lanes):
    def code(context, builder, sig, args):
        builder.store(args[2], _vector_at(context, builder, sig.args[0], *args[:2]), align=_align(sig.args[0]))
        return context.get_dummy_value()

    return types.none(array, types.uint64, lanes), code


@intrinsic
def _accumulate(context, array, at, lanes):
    def code(context, builder, sig, args):
        place, align = _vector_at(context, builder, sig.args[0], *args[:2]), _align(sig.args[0])
        more, old = args[2], builder.load(place, align=align)
        if more.type != old.type:
            more = builder.fpext(more, old.type)
        builder.store(builder.fadd(old, more, flags=FLAGS), place, align=align)
        return context.get_dummy_value()

    return types.none(array, types.uint64, lanes), code


@intrinsic
def _times(context, x, lanes):
    def code(context, builder, sig, args):
        return builder.fmul(_splat(builder, args[0], args[1].type), args[1], flags=FLAGS)

    return lanes(lanes.dtype, lanes), code


@intrinsic
def _add(context, sums, one, other):
    def code(context, builder, sig, args):
        return builder.fadd(args[0], builder.fmul(args[1], args[2], flags=FLAGS), flags=FLAGS)

    return sums(sums, one, other), code


@intrinsic
def _add_times(context, sums, x, lanes):
    def code(context, builder, sig, args):
        product = builder.fmul(_splat(builder, args[1], args[2].type), args[2], flags=FLAGS)
        return builder.fadd(args[0], product, flags=FLAGS)

    return sums(sums, lanes.dtype, lanes), code


@intrinsic
def _product(context, one, other):
    return one(one, other), lambda context, builder, sig, args: builder.fmul(*args, flags=FLAGS)


@intrinsic
def _widen(context, lanes):
    def code(context, builder, sig, args):
        wide = context.get_value_type(sig.return_type)
        return args[0] if args[0].type == wide else builder.fpext(args[0], wide)

    return Lanes(types.float64)(lanes), code


@intrinsic
def _total(context, lanes):
    def code(context, builder, sig, args):
        sums, width = args[0], LANES
        while width > 1:
            width //= 2
            halves = [
                builder.shuffle_vector(sums, sums, ir.Constant(ir.VectorType(ir.IntType(32), width), places))
                for places in (list(range(width)), list(range(width, 2 * width)))
            ]
            sums = builder.fadd(*halves, flags=FLAGS)
        return builder.extract_element(sums, ir.Constant(ir.IntType(32), 0))

    return lanes.dtype(lanes), code


# What compiled code gets for each of the functions above.
overload(zeros, jit_options=INLINED)(lambda like: lambda like: _zeros(like))
overload(load, jit_options=INLINED)(lambda array, at: lambda array, at: _load(array, at))
overload(store, jit_options=INLINED)(lambda array, at, lanes: lambda array, at, lanes: _store(array, at, lanes))
overload(accumulate, jit_options=INLINED)(
    lambda array, at, lanes: lambda array, at, lanes: _accumulate(array, at, lanes)
)
overload(times, jit_options=INLINED)(lambda x, lanes: lambda x, lanes: _times(x, lanes))
overload(add, jit_options=INLINED)(lambda sums, one, other: lambda sums, one, other: _add(sums, one, other))
overload(add_times, jit_options=INLINED)(lambda sums, x, lanes: lambda sums, x, lanes: _add_times(sums, x, lanes))
overload(product, jit_options=INLINED)(lambda one, other: lambda one, other: _product(one, other))
overload(widen, jit_options=INLINED)(lambda lanes: lambda lanes: _widen(lanes))
overload(total, jit_options=INLINED)(lambda lanes: lambda lanes: _total(lanes))
