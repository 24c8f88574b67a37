"""Engine interface: run an operation on every shard and join the results of the shards as the operation declares."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from .operations import AnyOperation, ArgsT, Call, Join, Operation, ResultT

MIN_REUSED = 1024  # numbers; smaller arrays are not worth reusing


class Buffers:
    """Idle float64 arrays for reuse, since zeroing an old array costs less than fresh pages; safe between threads."""

    def __init__(self) -> None:
        self._idle: defaultdict[tuple[int, ...], list[Array]] = defaultdict(list)

    def take(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Return an array of zeros."""
        try:
            array = self._idle[shape].pop()
        except IndexError:
            return np.zeros(shape)
        array.fill(0.0)
        return array

    def give_back(self, array: Array) -> None:
        """Keep an array that is not used any more."""
        if array.size >= MIN_REUSED:
            self._idle[array.shape].append(array)

    def clear(self) -> None:
        """Free all idle arrays."""
        self._idle.clear()


class Node(NamedTuple):
    """Sum of the results of the shards ``first`` to ``first + width - 1``: a node of the tree of sums."""

    first: int
    width: int
    sum: Array


class TreeSum:
    """Sum along the binary tree over shard numbers, so that its bits do not depend on who adds up which shards.

    Nodes are runs of ``2**k`` shards that begin at a multiple of ``2**k``. Two nodes that make up a larger one are
    added as soon as both are present. A worker with a run of shards therefore sends at most two nodes per doubling of
    its length.
    """

    def __init__(self, buffers: Buffers | None = None) -> None:
        self.buffers = buffers
        self.nodes: list[Node] = []

    def add(self, node: Node) -> None:
        """Add a node; nodes must come in the order of shards."""
        self.nodes.append(node)
        while len(self.nodes) > 1 and _siblings(*self.nodes[-2:]):
            self._add_last_two()

    def total(self) -> Array:
        """Return the sum over all shards, once all are present: the nodes that are left, from the last to the first."""
        while len(self.nodes) > 1:
            self._add_last_two()
        return self.nodes[0].sum

    def _add_last_two(self) -> None:
        right, left = self.nodes.pop(), self.nodes.pop()
        with np.errstate(invalid="ignore"):  # a line search may meet an infinite f
            np.add(left.sum, right.sum, out=left.sum)
        if self.buffers is not None:
            self.buffers.give_back(right.sum)
        self.nodes.append(Node(left.first, left.width + right.width, left.sum))


def _siblings(left: Node, right: Node) -> bool:
    return left.width == right.width and left.first % (2 * left.width) == 0 and right.first == left.first + left.width


class Results:
    """Results of some or all shards under one operation, not joined yet.

    Attributes
    ----------
    pieces : list of (int, object)
        Shard numbers and what is to be concatenated: an array, or a tuple of arrays; one item for every block.
    tree : TreeSum
        What is to be summed.
    kept : object
        Handles of what stays with the workers instead of `pieces`; None if nothing does.
    """

    def __init__(self, join: Join, buffers: Buffers | None = None) -> None:
        self.join, self.tree = join, TreeSum(buffers)
        self.pieces: list[tuple[int, Any]] = []
        self.kept: Any = None

    def add(self, number: int, *results: Any) -> None:
        """Add the result of one shard, or the results of its blocks of rows; both must come in order.

        Terms of blocks are summed before shards are, along a tree of their own.
        """
        pieces: Sequence[Any] = results if self.join is Join.CONCATENATE else ()
        terms: Sequence[Array] = results if self.join is Join.SUM else ()
        if self.join is Join.BOTH:
            pieces, terms = zip(*results, strict=True)
        self.pieces.extend((number, piece) for piece in pieces)
        if terms:
            blocks = TreeSum(self.tree.buffers)
            for k, term in enumerate(terms):
                blocks.add(Node(k, 1, term))
            self.tree.add(Node(number, 1, blocks.total()))

    def merge(self, parts: Iterable["Results"]) -> None:
        """Add the results of all shards, which several workers hold in parts."""
        parts = list(parts)
        self.pieces = sorted((piece for part in parts for piece in part.pieces), key=lambda piece: piece[0])
        for node in sorted((node for part in parts for node in part.tree.nodes), key=lambda node: node.first):
            self.tree.add(node)

    def joined(self) -> Any:
        """Return the joined result of all shards."""
        if self.join is Join.SUM:
            return self.tree.total()
        if self.join is Join.CONCATENATE:
            return self._concatenated()
        return (self._concatenated(), self.tree.total()) if self.join is Join.BOTH else None

    def _concatenated(self) -> Any:
        if self.kept is not None:
            return self.kept
        pieces = [piece for _, piece in self.pieces]
        if isinstance(pieces[0], tuple):
            return tuple(np.concatenate(parts) for parts in zip(*pieces, strict=True))
        return np.concatenate(pieces)


class Engine:
    """Base of the engines, which differ in where the shards are. Results do not depend on the engine.

    Attributes
    ----------
    n_jobs : int
        Threads of this process.
    rounds : int
        Operations run so far.
    recover : callable
        Returns the calls that bring a new shard to the state of the others; set by the owner of the engine.
    """

    n_jobs: int
    rounds: int = 0
    recover: Callable[[], Iterable[Call]] = staticmethod(tuple)

    def run(self, operation: Operation[ResultT, *ArgsT], *args: *ArgsT) -> ResultT:
        """Run an operation on every shard and return the joined result.

        Parameters
        ----------
        operation : Operation
            Such as ``Shard.product``.
        *args
            Its arguments; those with a line per row are given for all rows of the matrix.
        """
        return cast(ResultT, self.apply(operation, args).joined())

    def apply(self, operation: AnyOperation, args: tuple[Any, ...]) -> Results:
        """Run an operation on every shard and return the results before they are joined."""
        raise NotImplementedError(f"{type(self).__name__} does not implement `apply`.")

    def kept(self, lines: Any) -> Any:
        """Return an array with a line per row, or its handle if the engine's workers are to keep it."""
        return lines

    def each(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """Call `work` with each item in the engine's threads of this process; return the results in order."""
        raise NotImplementedError(f"{type(self).__name__} does not implement `each`.")

    def close(self) -> None:
        """Release threads, buffers and workers; the next operation acquires them again."""
