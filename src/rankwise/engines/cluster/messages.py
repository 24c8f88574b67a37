"""Messages between a client and its workers: calls of operations with their arrays, each worker's rows alone."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..._arrays import Array
from ...kernels.row_parts import RowProblem
from ..base import Node, Results
from ..offsets import Offsets
from ..operations import AnyOperation, Call, Join
from .kept import Foreign, Holder, Kept, Key, Own
from .peers import Exchange, runs_of


class Zeros(NamedTuple):
    """Stands for an array of zeros, which is not sent."""

    shape: tuple[int, ...]
    dtype: str


class Padded(NamedTuple):
    """Stands for `block` with columns of zeros after it, `width` in all, which are not sent."""

    block: Array
    width: int


class PartLines(NamedTuple):
    """Stands for an array with a line per column: some lines, and the width with padding if it was padded.

    The worker gets other lines from its peers.
    """

    lines: Array
    width: int | None


Sent = Array | Zeros | Padded | PartLines | Own | Foreign
ChangeArray = Callable[[str, Any], Any]  # of a dotted name, and the array or what stands for it


@dataclass
class Message:
    """Calls for the shards of a worker, which returns the results of each; and its peers, if they take part."""

    past: list[Call]  # to be run first, by shards that are new
    calls: list[Call]
    numbers: list[int | None]  # of the calls whose lines stay with the worker
    exchange: Exchange | None = None
    forget: tuple[Key, ...] = ()  # lines that are not needed any more
    layouts: dict[int, tuple[Holder, ...]] = field(default_factory=dict)  # of other engines, new to the worker

    @property
    def n_bytes(self) -> int:
        """Size of the arrays."""
        return sum(_size(args) for _, args in [*self.past, *self.calls])


class Answer(NamedTuple):
    """Results of a worker's shards for one call: pieces with their shard numbers, and nodes of the tree of sums.

    Instead of nodes, a worker with peers may have a run of lines of the sum over all shards.
    """

    pieces: list[tuple[int, Any]]
    nodes: list[Node]
    run: Array | None = None

    @classmethod
    def of(cls, results: Results, run: Array | None = None) -> "Answer":
        """Make an answer of contiguous arrays."""
        pieces = [
            (number, map_arrays(piece, lambda _, array: np.ascontiguousarray(array)))
            for number, piece in results.pieces
        ]
        return cls(pieces, results.tree.nodes if run is None else [], run)

    def results(self, join: Join) -> Results:
        """Return the results for the client's engine to join."""
        results = Results(join)
        results.pieces = self.pieces
        results.tree.nodes = [Node(node.first, node.width, writable(node.sum)) for node in self.nodes]
        return results

    @property
    def n_bytes(self) -> int:
        """Size of the arrays."""
        sums = [node.sum for node in self.nodes] + ([] if self.run is None else [self.run])
        return sum(_size(piece) for _, piece in self.pieces) + sum(part.nbytes for part in sums)


@dataclass
class Reply:
    """Answers of a worker to the calls of a message, or an error, and the bytes that it got from other workers."""

    answers: list[Answer] = field(default_factory=list)
    peer_bytes: int = 0
    error: Exception | None = None

    @property
    def n_bytes(self) -> int:
        """Size of the arrays."""
        return sum(answer.n_bytes for answer in self.answers)


def joined(answers: Sequence[Answer], join: Join, n_shards: int) -> Results:
    """Return the results of all shards from the answers of all workers."""
    results = Results(join)
    results.merge(answer.results(join) for answer in answers)
    runs = [answer.run for answer in answers if answer.run is not None]
    if runs:
        results.tree.add(Node(0, n_shards, np.concatenate(runs)))
    return results


def shared_part(calls: Sequence[Call], least: float = math.inf, pull: bool = True) -> list[Call]:
    """Return the calls with every array that all workers get as it is sent; arrays by row are left alone.

    Arrays by column of more than `least` bytes are to be spread over the workers. Those that other workers keep are
    fetched by each worker itself, or by the client unless `pull`.
    """

    def sent(operation: AnyOperation, name: str, array: Any) -> Any:
        if _is_among(name, operation.by_row):
            return array
        if isinstance(array, Kept):
            if pull:
                return array.foreign()
            array = np.asarray(array)
        by_col = _is_among(name, operation.by_col)
        whole = as_sent(array, by_col and array.ndim == 2)
        if not by_col or isinstance(whole, Zeros) or _n_bytes(whole) <= least:
            return whole
        return PartLines(*whole) if isinstance(whole, Padded) else PartLines(whole, None)

    return [(operation, _map_args(operation, args, partial(sent, operation))) for operation, args in calls]


def worker_part(calls: Sequence[Call], take: Callable[[Any], Any], among: tuple[int, int] | None = None) -> list[Call]:
    """Return the calls for one worker, of those from `shared_part`; `take` cuts an array by row to its rows.

    `among` are the number of the worker among its peers, and their number, if they take part.
    """

    def cut(operation: AnyOperation, name: str, array: Any) -> Any:
        if isinstance(array, PartLines) and among is not None:
            return array._replace(lines=array.lines[runs_of(array.lines.shape[0], among[1])[among[0]]])
        return as_sent(take(array)) if _is_among(name, operation.by_row) else array

    return [(operation, _map_args(operation, args, partial(cut, operation))) for operation, args in calls]


def arrays_in(calls: Sequence[Call]) -> list[Any]:
    """Return all arrays in the arguments, or what stands for them, in order."""
    arrays: list[Any] = []
    map_arrays(tuple(args for _, args in calls), lambda _, array: arrays.append(array))
    return arrays


def with_arrays(calls: Sequence[Call], arrays: Iterable[Any]) -> list[Call]:
    """Return the calls with other arrays in the places of `arrays_in`."""
    following = iter(arrays)
    return [(operation, map_arrays(args, lambda _, array: next(following))) for operation, args in calls]


def layouts_in(calls: Sequence[Call], shared: Sequence[Call]) -> dict[int, tuple[Holder, ...]]:
    """Return where the lines are that workers are to get from those of another engine, for calls of `shared_part`."""
    wanted = {array.layout for array in arrays_in(shared) if isinstance(array, Foreign)}
    places = [array.place for array in arrays_in(calls) if isinstance(array, Kept)]
    return {holders.layout: holders.description() for holders in places if holders.layout in wanted}


def copied(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments with copies of all arrays."""
    copies: tuple[Any, ...] = map_arrays(args, lambda _, array: array if isinstance(array, Kept) else np.copy(array))
    return copies


def received(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of a received call as the kernels are compiled for them: arrays that can be written to."""
    arrays: tuple[Any, ...] = map_arrays(args, lambda _, array: writable(array))
    return arrays


def as_sent(array: Any, padded: bool = False) -> Any:
    """Return the array, or what stands for it: if all of its bits are zero, or its last columns if it is `padded`."""
    if isinstance(array, Own):
        return array
    whole = np.ascontiguousarray(array)
    bits = whole.reshape(-1).view(np.uint8)
    if not bits.any():
        return Zeros(array.shape, array.dtype.str)
    if padded:
        used = bits.reshape(whole.shape[0], whole.shape[1], -1).any(axis=(0, 2))
        n = int(np.flatnonzero(used)[-1]) + 1
        if n < whole.shape[1]:
            return Padded(np.ascontiguousarray(whole[:, :n]), whole.shape[1])
    return whole


def writable(array: Sent) -> Array:
    """Return the array that was sent, or a copy if it lies in a message's bytes and is read-only or not aligned."""
    if isinstance(array, Zeros):
        return np.zeros(array.shape, array.dtype)
    if isinstance(array, PartLines | Own | Foreign):
        raise TypeError("Lines of an array that is spread over workers are not the array.")
    if isinstance(array, Padded):
        return np.pad(array.block, ((0, 0), (0, array.width - array.block.shape[1])))
    return array if array.flags.writeable and array.flags.aligned else array.copy()


def map_arrays(value: Any, change: ChangeArray, name: str = "") -> Any:
    """Return the value with every array in it replaced by ``change(dotted name, array)``."""
    if isinstance(value, np.ndarray | Zeros | Padded | PartLines | Own | Foreign | Kept):
        return change(name, value)
    if isinstance(value, Offsets):
        rows, cols = (map_arrays(getattr(value, part), change, f"{name}.{part}") for part in ("rows", "cols"))
        return Offsets(value.constant, rows, cols)
    if isinstance(value, RowProblem):
        return value.map_arrays(partial(change, f"{name}.by_row"), partial(change, name))
    if isinstance(value, tuple):
        if not hasattr(value, "_fields"):
            return tuple(map_arrays(part, change, name) for part in value)
        parts = (map_arrays(part, change, f"{name}.{key}") for key, part in zip(value._fields, value, strict=True))
        return type(value)(*parts)
    return value


def _map_args(operation: AnyOperation, args: tuple[Any, ...], change: ChangeArray) -> tuple[Any, ...]:
    return tuple(map_arrays(arg, change, name) for name, arg in zip(operation.parameters, args, strict=True))


def _size(value: Any) -> int:
    sizes: list[int] = []
    map_arrays(value, lambda _, array: sizes.append(_n_bytes(array)))
    return sum(sizes)


def _n_bytes(array: Sent) -> int:
    if isinstance(array, Zeros | Own | Foreign):
        return 0
    if isinstance(array, Padded | PartLines):
        return array[0].nbytes
    return array.nbytes


def _is_among(name: str, declared: Sequence[str]) -> bool:
    """Return whether an array, or the argument that it is part of, is declared."""
    return any(name == each or name.startswith(f"{each}.") for each in declared)
