"""Shard operations: declared by a decorator where they are written, and passed to engines as objects.

Engines, the messages of the cluster and the table in docs/design.md all read these declarations.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from inspect import signature
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar, TypeVarTuple, overload

import numpy as np

ArgsT = TypeVarTuple("ArgsT")
ResultT = TypeVar("ResultT")
Prepare = Callable[[Any], Any]
NOTHING: Mapping[str, Prepare] = MappingProxyType({})


class Line(NamedTuple):
    """Shape and number type of one line of an array with a line per row."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, block: Any, width: int | None = None) -> "Line":
        """Return the line of a block, or of one with another width."""
        return cls(tuple(block.shape[1:]) if width is None else (width,), np.dtype(block.dtype))


Lines = Callable[..., tuple[Line, ...]]  # of the arguments of an operation


class Join(Enum):
    """How the results of the shards become one result."""

    SUM = "sum"  # along the binary tree over shard numbers
    CONCATENATE = "concatenate"  # in the order of shards
    BOTH = "concatenate and sum"  # results are pairs: the first part is concatenated, the second summed
    STAY = "stay"  # the shards change, and return nothing


class Operation(Generic[ResultT, *ArgsT]):
    """A method that runs on every shard, with what an engine needs to know of it.

    On an instance it is a bound method, ``shard.product(v)``; on the class it is this object, for
    ``engine.run(Shard.product, v)``. It is pickled by name.

    Parameters
    ----------
    method : callable
        Called with the shard and the arguments.
    join : Join
        How the results of the shards are combined.
    by_row : tuple of str
        Arguments with one line for every row of the matrix, of which a worker is sent the lines of its own rows. A part
        of an argument has a dotted name such as ``"offsets.rows"``.
    by_col : tuple of str
        Arguments, or parts of them, with one line for every column of the matrix. A cluster sends them without padding,
        columns of zeros at the end, and may leave out lines of columns in which a worker has no entries.
    by_block : bool
        Whether threads share the rows of a shard, in blocks: for operations that take long and have no sums by column.
    prepare : dict of str to callable
        Functions of arguments, which every process calls once, and not for every shard.
    kept : callable, optional
        For operations whose concatenated results have a line per row and stay with the workers of a cluster: returns
        these lines, one for each array, from the arguments. The client gets a handle of each array, and the sums when
        it reads them; NumPy makes arrays of both.

    Attributes
    ----------
    parameters : tuple of str
        Names of the arguments, the shard apart.
    """

    def __init__(
        self,
        method: Callable[[Any, *ArgsT], ResultT],
        join: Join,
        by_row: tuple[str, ...] = (),
        by_col: tuple[str, ...] = (),
        by_block: bool = False,
        prepare: Mapping[str, Prepare] = NOTHING,
        kept: Lines | None = None,
    ) -> None:
        self.__doc__ = method.__doc__
        self.method, self.join, self.by_row, self.by_col, self.by_block = method, join, by_row, by_col, by_block
        self.prepare, self.kept = prepare, kept
        self.parameters = tuple(signature(method).parameters)[1:]
        if unknown := {path.partition(".")[0] for path in (*by_row, *by_col, *prepare)} - set(self.parameters):
            raise TypeError(f"{method.__name__} has no argument {', '.join(sorted(unknown))}.")

    def prepared(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments as the shards take them."""
        if not self.prepare:
            return args
        return tuple(self.prepare.get(name, _same)(arg) for name, arg in zip(self.parameters, args, strict=True))

    def __set_name__(self, owner: type, name: str) -> None:
        self.owner, self.name = owner, name

    @overload
    def __get__(self, shard: None, owner: type) -> "Operation[ResultT, *ArgsT]": ...
    @overload
    def __get__(self, shard: object, owner: type) -> Callable[[*ArgsT], ResultT]: ...
    def __get__(self, shard: Any, owner: type) -> Any:
        return self if shard is None else self.method.__get__(shard, owner)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self.owner, self.name)

    def __repr__(self) -> str:
        return f"{self.owner.__name__}.{self.name}"


AnyOperation = Operation[Any, *tuple[Any, ...]]
Call = tuple[AnyOperation, tuple[Any, ...]]  # an operation and its arguments


def operation(join: Join, **declared: Any) -> Callable[[Callable[[Any, *ArgsT], ResultT]], Operation[ResultT, *ArgsT]]:
    """Declare a method of a shard as an operation, with the keywords that `Operation` has."""

    def declare(method: Callable[[Any, *ArgsT], ResultT]) -> Operation[ResultT, *ArgsT]:
        return Operation(method, join, **declared)

    return declare


def operations_of(owner: type) -> Iterator[AnyOperation]:
    """Yield the operations of a class and its bases, in the order in which they are written."""
    members = (member for each in owner.__mro__ for member in vars(each).values())
    return (member for member in members if isinstance(member, Operation))


def _same(arg: Any) -> Any:
    return arg
