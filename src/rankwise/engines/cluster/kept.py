"""Arrays with a line per row that stay with the workers: handles in the client, and the lines in each worker.

A worker keeps the lines of its own rows. Workers of the transpose need lines of the rows in which they have entries:
each asks the holders for them, by a list of lines that it sends once, and waits if they are still to be computed. The
client has handles, and fetches lines only if it is asked for an array.
"""

import asyncio
import concurrent.futures
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._arrays import Array
from ..._errors import ClusterError
from ..base import Results
from ..operations import Line
from ..shard import Shard
from .distributed import call_actor, distributed
from .remote import Remote

Key = tuple[int, int]  # number of a result, and of an array in it
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
    """Handle of an array that stays with the workers; NumPy makes an array of it by fetching all lines.

    Parameters
    ----------
    engine : Cluster
        The engine over whose rows the lines are.
    key : tuple of int
    line : Line
    """

    def __init__(self, engine: Any, key: Key, line: Line) -> None:
        self.engine, self.key = engine, key
        self.holders: Holders | None = None  # known once the lines have been computed
        self.shape, self.dtype = (engine.cuts[-1], *line.shape), line.dtype
        self.ndim = len(self.shape)
        self._whole: Array | None = None  # once it was fetched

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self._whole is None:
            self._whole = self.engine.fetch(self)
        return self._whole if dtype is None else self._whole.astype(dtype, copy=False)

    def __getitem__(self, rows: Array) -> Array:
        """Return the lines of some rows."""
        return np.asarray(self.engine.fetch(self, rows) if self._whole is None else self._whole[rows])

    @property
    def place(self) -> Holders:
        """Workers that keep the lines, or will have computed them."""
        holders: Holders = self.engine.holders if self.holders is None else self.holders
        if not set(holders.remotes) <= set(self.engine.remotes):
            raise LinesLost("A worker was lost with the factors of its rows.")
        return holders

    def of(self, remote: Remote) -> Own:
        """Return what stands for the lines of a worker's own rows."""
        if remote not in self.place.remotes:
            raise LinesLost("A worker was lost with the factors of its rows.")
        return Own(self.key)

    def foreign(self) -> Foreign:
        """Return what stands for the array in a message to workers of another engine."""
        return Foreign(self.key, self.place.layout, self.shape, self.dtype.str)


class Stored(NamedTuple):
    """Lines that a worker keeps, and whether all are zero."""

    lines: Array
    zero: bool


class KeptLines:
    """Lines that a worker keeps, and its way to those of others."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards = shards
        self.n_bytes = 0  # received from other workers so far
        self._lines: dict[Key, concurrent.futures.Future[Stored]] = {}
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

    def keep(self, number: int, results: Results) -> None:
        """Keep the lines of a result."""
        pieces = [piece for _, piece in results.pieces]
        parts = list(zip(*pieces, strict=True)) if isinstance(pieces[0], tuple) else [tuple(pieces)]
        results.pieces = []
        for k, part in enumerate(parts):
            lines = np.concatenate(part)
            slot = self._slot((number, k))
            if not slot.done():  # otherwise the call is repeated, with the same result
                slot.set_result(Stored(lines, not lines.reshape(-1).view(np.uint8).any()))

    def own(self, key: Key) -> Array:
        """Return the lines of the rows here."""
        return self._lines[key].result(0).lines

    async def take(self, keys: Sequence[Key], layout: int, asker: str, lines: Any) -> list[Array | None]:
        """Return some lines of arrays here, or None where all are zero; wait until they have been computed.

        Without `lines`, return those that the asker named the first time.
        """
        if lines is None:
            lines = self._asked[layout, asker]
        elif layout >= 0:
            self._asked[layout, asker] = lines
        found = [await asyncio.shield(asyncio.wrap_future(self._slot(key))) for key in keys]
        return [None if stored.zero else stored.lines[lines] for stored in found]

    def _slot(self, key: Key) -> "concurrent.futures.Future[Stored]":
        return self._lines.setdefault(key, concurrent.futures.Future())

    def foreign(self, tokens: Sequence[Foreign], me: str, fetched: Callable[..., Any]) -> dict[Foreign, Array]:
        """Return arrays of another engine; lines of rows without entries here are zero. `fetched` runs the messages."""
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
            for token, part in zip(wanted, taken, strict=True):
                if part is not None:
                    arrays[token][places] = part
                    self.n_bytes += part.nbytes if holder.address != worker.address else 0

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
