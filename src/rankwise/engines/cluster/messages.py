"""What travels between a client and its workers: verbs with their arrays, each worker's rows alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...kernels.lanes import pad_columns
from ...kernels.row_parts import RowProblem
from ..base import Answers
from ..fold import Part
from ..offsets import Offsets

Array = NDArray[Any]
Verb = tuple[str, tuple[Any, ...]]
Change = Callable[[Any], Any]  # of an array, or of `Zeros`

BY_ROW = {  # places of the arguments that have a line for every row of the matrix
    "aim": (0,),
    "curve_terms": (2,),
    "expected_loss": (1, 2),
    "gram": (1,),
    "replace": (2,),
    "solve_rows": (2, 3),
    "terms": (1,),
    "transposed": (0,),
}
NARROW = ("expected_loss", "gather", "solve_rows")  # the first argument has columns of zeros that need not travel


class Zeros(NamedTuple):
    """An array of zeros, which need not travel."""

    shape: tuple[int, ...]
    dtype: str


@dataclass
class Told:
    """Verbs for some shards: all but the last change them, the last is answered."""

    join: str
    verbs: list[Verb]

    @property
    def n_bytes(self) -> int:
        """What the arrays take on the wire."""
        return sum(_size(args) for _, args in self.verbs)


@dataclass
class Reply:
    """Answers of a worker's shards: pieces with their shards' numbers, and parts of a sum."""

    pieces: list[tuple[int, Any]] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    error: Exception | None = None

    @classmethod
    def of(cls, answers: Answers) -> "Reply":
        """What there is to send, as it lies in memory."""
        pieces = [(number, each_array(piece, np.ascontiguousarray)) for number, piece in answers.pieces]
        return cls(pieces, answers.fold.parts)

    def answers(self, join: str) -> Answers:
        """The same as the client's engine joins them."""
        found = Answers(join)
        found.pieces = self.pieces
        found.fold.parts = [Part(part.first, part.width, own(part.sum)) for part in self.parts]
        return found

    @property
    def n_bytes(self) -> int:
        """What the arrays take on the wire."""
        return sum(_size(piece) for _, piece in self.pieces) + sum(part.sum.nbytes for part in self.parts)


def ready(verbs: Sequence[Verb]) -> list[Verb]:
    """Verbs as all workers are told them, but for what has a line for every row."""
    return [(verb, _changed(verb, _narrow(verb, args), lambda array: array, _sent)) for verb, args in verbs]


def told(join: str, verbs: Sequence[Verb], take: Change) -> Told:
    """Verbs that are `ready` as one worker is told them; `take` cuts an array with a line per row to the worker's."""
    return Told(join, [(verb, _changed(verb, args, lambda a: _sent(take(a)), lambda a: a)) for verb, args in verbs])


def heard(verb: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments as the kernels know them: they are compiled for arrays that can be written to, of whole lanes."""
    found: tuple[Any, ...] = each_array(args, own)
    if verb in NARROW:
        whole = pad_columns(found[0], found[0].dtype) if verb == "gather" else found[0].padded()
        return (whole, *found[1:])
    return found


def own(array: Array | Zeros) -> Array:
    """The array itself, or a copy if it lies in a message's bytes and cannot be written to or is not aligned."""
    if isinstance(array, Zeros):
        return np.zeros(array.shape, array.dtype)
    return array if array.flags.writeable and array.flags.aligned else array.copy()


def each_array(value: Any, change: Change) -> Any:
    """The same value with every array in it changed."""
    if isinstance(value, np.ndarray | Zeros):
        return change(value)
    if isinstance(value, Offsets):
        return Offsets(value.constant, each_array(value.rows, change), each_array(value.cols, change))
    if isinstance(value, tuple):
        parts = [each_array(part, change) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def _changed(verb: str, args: tuple[Any, ...], by_row: Change, others: Change) -> tuple[Any, ...]:
    """The arguments with their arrays changed: those that have a line per row in one way, the others in another."""

    def changed(place: int, arg: Any) -> Any:
        if isinstance(arg, RowProblem):
            return arg.map_arrays(by_row, others)
        if isinstance(arg, Offsets):
            return Offsets(arg.constant, by_row(arg.rows), others(arg.cols))
        return each_array(arg, by_row if place in BY_ROW.get(verb, ()) else others)

    return tuple(changed(place, arg) for place, arg in enumerate(args))


def _narrow(verb: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments without the columns of zeros that only kernels want."""
    if verb not in NARROW:
        return args
    first, width = args[0], args[1] if verb == "gather" else args[-1].shape[1]  # as many as a row has variances
    if verb == "gather":
        return (first[:, :width], *args[1:])
    return (first._replace(factors=first.factors[:, :width], variances=first.variances[:, :width]), *args[1:])


def _sent(array: Array) -> Any:
    """The array, or a note if all of its bits are zero, as a gram product's shift and new factors are."""
    whole = np.ascontiguousarray(array)
    return whole if whole.reshape(-1).view(np.uint8).any() else Zeros(array.shape, array.dtype.str)


def _size(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, Offsets):
        return _size((value.rows, value.cols))
    return sum(map(_size, value)) if isinstance(value, tuple) and not isinstance(value, Zeros) else 0
