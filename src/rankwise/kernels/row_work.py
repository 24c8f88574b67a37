"""Scratch memory of the row solver: one object to hand on, whose attributes are arrays.

As a tuple of arrays it would reach each helper as some two hundred arguments, which took a third of the time to
compile the solver. Compiled code therefore has two addresses and a width, from which it forms an array where one is
used; the tuple `Work` defines the same for plain Python.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import float64, types
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, models, register_model
from numba.np.arrayobj import populate_array

from .._arrays import Array
from .lanes import compiled
from .tile_losses import TILE

ALIGNMENT = 64  # bytes of a cache line
TILE_ROWS = 8


class Scratch(NamedTuple):
    """Memory of a `Work`, allocated outside of the kernels."""

    numbers: Array  # in the factors' number type
    doubles: Array  # float64
    width: int  # of the factors

    @classmethod
    def zero(cls, width: int, kind: "np.dtype[np.floating]") -> "Scratch":
        """Return scratch for rows with factors of this width and number type."""
        numbers = _aligned(TILE_ROWS * TILE + (4 + 3 * TILE) * width, kind)
        doubles = _aligned((7 + width) * width, np.dtype(np.float64))
        doubles[width : 2 * width] = 1.0  # the diagonal, also beyond the last component
        return cls(numbers, doubles, width)


def _aligned(size: int, kind: "np.dtype[np.floating]") -> Array:
    """Zeros that begin where a cache line does."""
    memory = np.zeros(size * kind.itemsize + ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % ALIGNMENT
    return memory[first : first + size * kind.itemsize].view(kind)


class Work(NamedTuple):
    """Scratch for one row and one tile of its entries; `solution` and `diagonal` hold the results of a row solve."""

    mean: Array  # (width,), in the factors' number type, as are those down to `scaled`
    variance: Array  # (width,)
    second_moment: Array  # (width,): mean**2 + variance
    shrunk: Array  # (width,): a row of `scaled` over the diagonal
    tile: Array  # (8, TILE): the eight vectors that follow
    linear: Array  # (TILE,): factors @ mean
    base: Array  # (TILE,)
    base_variance: Array  # (TILE,)
    prediction_variance: Array  # (TILE,)
    target: Array  # (TILE,)
    weight: Array  # (TILE,): zero beyond the tile's last entry
    rhs_weight: Array  # (TILE,): factor of the entry's factors in the right-hand side
    curvature: Array  # (TILE,)
    factors: Array  # (TILE, width)
    factor_variances: Array  # (TILE, width)
    scaled: Array  # (TILE, width): factors times the curvature, or times its root
    rhs: Array  # (width,), float64, as are the following: right-hand side of the normal equations
    diagonal: Array  # (width,): diagonal of the normal equations
    solution: Array  # (width,)
    inverse_diagonal: Array  # (width,)
    vector: Array  # (width,): right-hand side, then solution, of the system that is solved
    zeros: Array  # (width,): mean and precisions of a row without a prior
    sums: Array  # (3,): results of `approximate_entries`
    matrix: Array  # (width, width): upper half of the normal equations, or of the system of few entries


class Place(NamedTuple):
    """Where an array of `Work` lies."""

    doubles: bool  # in `Scratch.doubles`, else in `Scratch.numbers`
    fixed: int  # it begins at number ``fixed + widths * width``
    widths: int
    shape: tuple[int | None, ...]  # None: the width


def _places() -> dict[str, Place]:
    """Place of each array of `Work`."""
    rows = ("linear", "base", "base_variance", "prediction_variance", "target", "weight", "rhs_weight", "curvature")
    vectors, blocks = ("mean", "variance", "second_moment", "shrunk"), ("factors", "factor_variances", "scaled")
    doubles = ("rhs", "diagonal", "solution", "inverse_diagonal", "vector", "zeros")
    after = TILE_ROWS * TILE
    return (
        {"tile": Place(False, 0, 0, (TILE_ROWS, TILE))}
        | {name: Place(False, k * TILE, 0, (TILE,)) for k, name in enumerate(rows)}
        | {name: Place(False, after, k, (None,)) for k, name in enumerate(vectors)}
        | {name: Place(False, after, 4 + k * TILE, (TILE, None)) for k, name in enumerate(blocks)}
        | {name: Place(True, 0, k, (None,)) for k, name in enumerate(doubles)}
        | {"sums": Place(True, 0, 6, (3,)), "matrix": Place(True, 0, 7, (None, None))}
    )


PLACES = _places()


def workspace(scratch):
    """Arrays of the scratch by name."""
    numbers, doubles, width = scratch
    arrays = {}
    for name, place in PLACES.items():
        shape = tuple(width if n is None else n for n in place.shape)
        first = place.fixed + place.widths * width
        arrays[name] = (doubles if place.doubles else numbers)[first : first + int(np.prod(shape))].reshape(shape)
    return Work(**arrays)


class WorkType(types.Type):
    """Numba type of a `Work`."""

    def __init__(self, number: Any) -> None:
        self.number = number
        super().__init__(name=f"Work({number})")

    def array(self, place):
        """Type of the array in a place."""
        return types.Array(float64 if place.doubles else self.number, len(place.shape), "C")


@register_model(WorkType)
class WorkModel(models.StructModel):
    """Addresses of the two arrays of a `Scratch`, and its width."""

    def __init__(self, manager, work):
        members = [
            ("numbers", types.CPointer(work.number)),
            ("doubles", types.CPointer(float64)),
            ("width", types.intp),
        ]
        super().__init__(manager, work, members)


@compiled(workspace, lambda scratch: WorkType(scratch[0].dtype), types.BaseTuple)
def _workspace(context, builder, sig, args):
    kind, work = sig.args[0], context.make_helper(builder, sig.return_type)
    for k, name in enumerate(("numbers", "doubles")):
        array = context.make_array(kind[k])(context, builder, builder.extract_value(args[0], k))
        setattr(work, name, array.data)
    work.width = context.cast(builder, builder.extract_value(args[0], 2), kind[2], types.intp)
    return work._getvalue()


@infer_getattr
class WorkAttributes(AttributeTemplate):
    """Types of the attributes."""

    key = WorkType

    def generic_resolve(self, work, name):
        """Type of one attribute."""
        return work.array(PLACES[name]) if name in PLACES else None


@lower_getattr_generic(WorkType)
def _attribute(context, builder, kind, value, name):
    place, work = PLACES[name], context.make_helper(builder, kind, value)
    array_kind = kind.array(place)
    size = context.get_constant(types.intp, array_kind.dtype.bitwidth // 8)
    shape = [work.width if n is None else context.get_constant(types.intp, n) for n in place.shape]
    strides = [builder.mul(size, shape[1]), size] if len(shape) == 2 else [size]
    widths = builder.mul(work.width, context.get_constant(types.intp, place.widths))
    first = builder.add(widths, context.get_constant(types.intp, place.fixed))
    array = context.make_array(array_kind)(context, builder)
    data = builder.gep(work.doubles if place.doubles else work.numbers, [first])
    populate_array(array, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None)
    return array._getvalue()
