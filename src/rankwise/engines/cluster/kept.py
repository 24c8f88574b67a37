"""Arrays with a line per row that stay with the workers: handles in the client, and the lines in each worker.

A worker keeps the lines of its own rows. Workers of the transpose need lines of the rows in which they have entries:
each asks the holders for them, by a list of lines that it sends once. The client has handles, and fetches lines only if
it is asked for an array.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._arrays import Array
from ..._errors import ClusterError
from ..base import Results
from ..shard import Shard
from .distributed import call_actor, distributed
from .remote import Remote

Key = tuple[int, int]  # number of a result, and of an array in it
Fetch = Callable[["Kept", Array | None], Array]
_numbers = itertools.count()


class LinesLost(ClusterError):
    """Lines that a lost worker kept."""


class Own(NamedTuple):
    """Stands for the lines of a worker's rows, which it has."""

    key: Key


class Foreign(NamedTuple):
    """Stands for an array of all rows of another engine, of which a worker gets the lines that its entries need."""

    key: Key
    layout: int
    shape: tuple[int, ...]
    dtype: str


class Description(NamedTuple):
    """Lines that a worker keeps: their shape but for the number of rows, and whether all are zero."""

    shape: tuple[int, ...]
    dtype: str
    zero: bool


class Holder(NamedTuple):
    """An actor and the rows whose lines it keeps, in this order."""

    address: str
    actor: str
    rows: tuple[tuple[int, int], ...]


class Holders:
    """Workers of an engine that keep lines of all of its rows."""

    def __init__(self, remotes: Sequence[Remote]) -> None:
        self.remotes, self.layout = tuple(remotes), next(_numbers)

    def description(self) -> tuple[Holder, ...]:
        """Return where lines are, for a worker of another engine."""
        return tuple(
            Holder(remote.address, remote.future.key, tuple((rows.start, rows.stop) for rows in remote.rows))
            for remote in self.remotes
        )


class Kept:
    """Handle of an array that stays with the workers; NumPy makes an array of it by fetching all lines."""

    def __init__(self, fetch: Fetch, key: Key, holders: Holders, n_rows: int, parts: Iterable[Description]) -> None:
        parts = list(parts)
        self._fetch, self.key, self.holders = fetch, key, holders
        self.shape, self.dtype = (n_rows, *parts[0].shape), np.dtype(parts[0].dtype)
        self.ndim, self.zero = len(self.shape), all(part.zero for part in parts)
        self._whole: Array | None = None  # once it was fetched

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self._whole is None:
            self._whole = np.zeros(self.shape, self.dtype) if self.zero else self._fetch(self, None)
        return self._whole if dtype is None else self._whole.astype(dtype, copy=False)

    def __getitem__(self, rows: Array) -> Array:
        """Return the lines of some rows."""
        if self.zero:
            return np.zeros((len(rows), *self.shape[1:]), self.dtype)
        return self._fetch(self, rows) if self._whole is None else np.asarray(self._whole[rows])

    def of(self, remote: Remote) -> Own:
        """Return what stands for the lines of a worker's own rows."""
        if remote not in self.holders.remotes:
            raise LinesLost("A worker was lost with the factors of its rows.")
        return Own(self.key)

    def foreign(self) -> Foreign:
        """Return what stands for the array in a message to workers of another engine."""
        return Foreign(self.key, self.holders.layout, self.shape, self.dtype.str)


class KeptLines:
    """Lines that a worker keeps, and its way to those of others."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards = shards
        self.n_bytes = 0  # received from other workers in this trip
        self._lines: dict[Key, Array] = {}
        self._asked: dict[tuple[int, str], Any] = {}  # by layout and actor: the lines that it needs from here
        self._needed: dict[int, list[tuple[Holder, Any, Any]]] = {}  # by layout: lines at a holder, and in the array
        self._told: set[int] = set()  # layouts whose holders know which lines are needed here

    def forget(self, keys: Iterable[Key]) -> None:
        """Delete lines that no handle refers to."""
        for key in keys:
            self._lines.pop(key, None)

    def learn(self, layouts: dict[int, tuple[Holder, ...]]) -> None:
        """Find out which lines of other workers the entries here need."""
        for layout, holders in layouts.items():
            occurs = np.zeros(self.shards[0].n_cols, bool)
            for shard in self.shards:
                occurs[shard.indices] = True
            self._needed[layout] = [(holder, *_needed(holder, occurs)) for holder in holders]

    def keep(self, number: int, results: Results) -> list[Description]:
        """Keep the lines of a result, and describe its arrays."""
        pieces = [piece for _, piece in results.pieces]
        parts = list(zip(*pieces, strict=True)) if isinstance(pieces[0], tuple) else [tuple(pieces)]
        results.pieces = []
        found = []
        for k, part in enumerate(parts):
            lines = np.concatenate(part)
            zero = not lines.reshape(-1).view(np.uint8).any()
            found.append(Description(lines.shape[1:], lines.dtype.str, zero))
            self._lines[number, k] = lines
        return found

    def own(self, key: Key) -> Array:
        """Return the lines of the rows here."""
        return self._lines[key]

    async def take(self, keys: Sequence[Key], layout: int, asker: str, lines: Any) -> list[Array]:
        """Return some lines of arrays here; without `lines`, those that the asker named the first time."""
        if lines is None:
            lines = self._asked[layout, asker]
        elif layout >= 0:
            self._asked[layout, asker] = lines
        return [self._lines[key][lines] for key in keys]

    def foreign(self, tokens: Sequence[Foreign], me: str, fetched: Callable[..., Any]) -> dict[Foreign, Array]:
        """Return arrays of another engine; lines of rows without entries here are zero. `fetched` runs the messages."""
        self.n_bytes = 0
        arrays = {token: np.zeros(token.shape, token.dtype) for token in tokens}
        if not tokens:
            return arrays
        worker = distributed().get_worker()

        async def ask(layout: int, holder: Holder, lines: Any, places: Any) -> None:
            wanted = [token for token in arrays if token.layout == layout]
            args = [[token.key for token in wanted], layout, me, None if layout in self._told else lines]
            if holder.address == worker.address:
                taken = await worker.state.actors[holder.actor].lines(*args)
            else:
                taken = await call_actor(worker.rpc(holder.address), holder.actor, "lines", args)
                self.n_bytes += sum(part.nbytes for part in taken)
            for token, part in zip(wanted, taken, strict=True):
                arrays[token][places] = part

        async def ask_all() -> None:
            layouts = {token.layout for token in tokens}
            await asyncio.gather(*(ask(layout, *each) for layout in layouts for each in self._needed[layout]))
            self._told |= layouts

        fetched(ask_all)
        return arrays


def _needed(holder: Holder, occurs: Array) -> tuple[Any, Any]:
    """Return the lines of a holder whose rows occur, and the numbers of these rows."""
    rows = np.concatenate([np.arange(start, stop) for start, stop in holder.rows])
    lines = np.flatnonzero(occurs[rows])
    return _as_slice(lines), _as_slice(rows[lines])


def _as_slice(numbers: Array) -> Any:
    """Return consecutive numbers as a slice, which needs no copy."""
    if numbers.size and int(numbers[-1] - numbers[0]) == numbers.size - 1 and (np.diff(numbers) == 1).all():
        return slice(int(numbers[0]), int(numbers[-1]) + 1)
    return numbers
