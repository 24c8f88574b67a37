"""Exchange among the workers of a fit: lines of arrays that their entries need, and parts of long sums.

The client gives each worker one run of lines of a large array; a worker gets the other lines that it needs from its
peers. A long sum is added up by runs of lines, each by one worker, along the tree of sums. So what passes through the
client does not grow with the number of workers. All messages are calls of actors by Dask.
"""

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..._arrays import Array
from ..base import Node, Results
from ..operations import Join
from ..shard import Shard
from .distributed import call_actor, distributed

PEER_TIMEOUT = 3600.0  # seconds for a peer to get its own message and to compute what others need
T = TypeVar("T")
Tagged = tuple[Any, Array]  # an array of a peer, and what it says about it


class PeerError(Exception):
    """Lines of a peer did not arrive."""


class Exchange(NamedTuple):
    """Number of a round trip, and the peers of a worker in it: their layout, addresses and keys."""

    trip: int
    layout: int  # changes with the peers
    own: int  # number of this worker among the peers
    least: int  # bytes of a sum from which peers add it up
    peers: tuple[tuple[str, str], ...] | None  # address and key of every actor; None if they are as before


def runs_of(n: int, n_peers: int) -> list[slice]:
    """Return the lines of an array of n lines that each of the peers has."""
    return [slice(lo, hi) for lo, hi in pairwise(n * k // n_peers for k in range(n_peers + 1))]


class Peers:
    """One worker's part in the exchange.

    Arrays for the others wait on a shelf, by round trip and kind, until the next trip.

    Parameters
    ----------
    shards : sequence of Shard
        Shards of this worker.
    """

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards, self.n_cols = shards, shards[0].n_cols
        self.peers: tuple[tuple[str, str], ...] = ()
        self.n_bytes = 0  # received from peers in this trip
        self._needed: list[Array] = []  # by peer: those of its lines that the entries here need
        self._layout = -1
        self._asked: dict[tuple[int, int], Array] = {}  # by layout and peer: the lines that it needs from here
        self._shelf: dict[tuple[int, str], concurrent.futures.Future[list[Tagged]]] = {}
        self._abandoned = 0  # last trip that the client has given up
        self._fetching: asyncio.Task[Any] | None = None  # read and written by the event loop alone

    def begin(self, exchange: Exchange) -> None:
        """Begin a round trip; arrays of earlier ones are not needed any more."""
        for key in [key for key in self._shelf if key[0] < exchange.trip]:
            del self._shelf[key]
        if exchange.peers is not None:
            self.peers = exchange.peers
            occurs = np.zeros(self.n_cols, bool)
            for shard in self.shards:
                occurs[shard.indices] = True
            self._needed = [np.flatnonzero(occurs[run]) for run in runs_of(self.n_cols, len(self.peers))]

    def completed(self, exchange: Exchange, parts: Sequence[tuple[Array, int | None]]) -> list[Array]:
        """Return whole arrays, given this worker's run of lines and the width with padding of each.

        Lines of columns without an entry in this worker are zero.
        """
        first = exchange.layout != self._layout
        received = self._from_peers(exchange, "lines", [(None, lines) for lines, _ in parts], self._wanted(first))
        self._layout = exchange.layout
        runs, arrays = runs_of(self.n_cols, len(self.peers)), []
        for number, (own, width) in enumerate(parts):
            shape = own.shape[1:] if width is None else (width,)
            whole = np.zeros((self.n_cols, *shape), own.dtype)
            for k, run in enumerate(runs):
                lines = own if k == exchange.own else received[k][number][1]
                at = slice(None) if k == exchange.own else self._needed[k]
                if width is None:
                    whole[run][at] = lines
                else:
                    whole[run, : own.shape[1]][at] = lines
            arrays.append(whole)
        return arrays

    def summed(self, exchange: Exchange, results: Results) -> Array | None:
        """Return this worker's run of lines of the sum over all shards; None if the sum is too short for that."""
        nodes = results.tree.nodes
        if results.join not in (Join.SUM, Join.BOTH) or nodes[0].sum.shape[0] != self.n_cols:
            return None
        if nodes[0].sum.nbytes * (len(self.peers) - 1) <= exchange.least:
            return None
        run = runs_of(self.n_cols, len(self.peers))[exchange.own]
        shelf: list[Tagged] = [((node.first, node.width), node.sum) for node in nodes]
        received = self._from_peers(exchange, "nodes", shelf, lambda k: run)
        received[exchange.own] = [(tag, array[run]) for tag, array in shelf]
        total = Results(Join.SUM)
        for (first, width), array in sorted((part for parts in received for part in parts), key=lambda part: part[0]):
            total.tree.add(Node(first, width, np.array(array)))
        return total.tree.total()

    async def take(self, trip: int, kind: str, asker: tuple[int, int], lines: Any) -> list[Tagged]:
        """Return lines of the arrays that wait here for a peer; without `lines`, those that it named the first time."""
        if lines is None:
            lines = self._asked[asker]
        elif kind == "lines":
            self._asked = {key: value for key, value in self._asked.items() if key[0] == asker[0]} | {asker: lines}
        arrays = await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(self._slot(trip, kind))), PEER_TIMEOUT)
        return [(tag, array[lines]) for tag, array in arrays]

    async def abandon(self, trip: int) -> None:
        """Stop waiting for peers in this round trip."""
        self._abandoned = max(trip, self._abandoned)
        if self._fetching is not None:
            self._fetching.cancel()

    def _wanted(self, first: bool) -> Callable[[int], Any]:
        """Return the lines to ask a peer for, by its number; None after the first time, since they stay the same."""
        return lambda k: self._needed[k] if first else None

    def _slot(self, trip: int, kind: str) -> "concurrent.futures.Future[list[Tagged]]":
        return self._shelf.setdefault((trip, kind), concurrent.futures.Future())

    def _from_peers(
        self, exchange: Exchange, kind: str, shelf: list[Tagged], lines_of: Callable[[int], Any]
    ) -> list[list[Tagged]]:
        """Put arrays on the shelf and return what the peers have there for this worker; nothing from itself."""
        self._slot(exchange.trip, kind).set_result(shelf)
        worker = distributed().get_worker()

        async def ask(k: int) -> list[Tagged]:
            if k == exchange.own:
                return []
            address, key = self.peers[k]
            args = [exchange.trip, kind, (exchange.layout, exchange.own), lines_of(k)]
            taken: list[Tagged] = await call_actor(worker.rpc(address), key, "take", args)
            return taken

        async def ask_all() -> list[list[Tagged]]:
            return await asyncio.gather(*map(ask, range(len(self.peers))))

        received = self.fetched(exchange.trip, ask_all)
        self.n_bytes += sum(array.nbytes for taken in received for _, array in taken)
        return received

    def fetched(self, trip: int, ask_all: Callable[[], Awaitable[T]]) -> T:
        """Return what other workers send, by messages in the event loop; raise `PeerError` if the trip is abandoned."""

        async def run() -> T:
            if self._abandoned >= trip:
                raise PeerError("The client has given up this round trip.")
            self._fetching = asyncio.current_task()
            return await asyncio.wait_for(ask_all(), PEER_TIMEOUT)

        try:
            return asyncio.run_coroutine_threadsafe(run(), distributed().get_worker().loop.asyncio_loop).result()
        except Exception as error:
            raise PeerError(f"Lines of another worker did not arrive: {error!r}") from error
