"""Actor in a worker of a cluster: some shards, and the threads that run operations on them."""

import asyncio
import contextvars
import pickle
import sys
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ...losses import Loss
from ...observations import Piece
from ..operations import Call
from ..shard import Shard
from ..threads import Threads
from .kept import Foreign, KeptLines, Own
from .messages import Answer, Message, PartLines, Reply, arrays_in, map_arrays, received, with_arrays
from .peers import Exchange, Peers


class ShardWorker:
    """Some shards of a matrix, whose rows are numbered by their place among the rows of this worker.

    Parameters
    ----------
    pieces : sequence of Piece
        In the order of their numbers.
    numbers : sequence of int
        Numbers of the shards among all shards of the matrix.
    loss : bytes
        The pickled loss.
    dtype : str
    n_threads : int
    """

    def __init__(
        self, pieces: Sequence[Piece], numbers: Sequence[int], loss: bytes, dtype: str, n_threads: int
    ) -> None:
        shards, start = [], 0
        for piece in pieces:
            shards.append(Shard(_moved(piece, start), _loss(loss), np.dtype(dtype)))
            start = shards[-1].stop
        self.engine, self.peers, self.kept = Threads(shards, n_threads, numbers), Peers(shards), KeptLines(shards)
        self.name = uuid.uuid4().hex
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="rankwise-shards")

    async def handle(self, message: Message) -> Reply:
        """Run the calls in order; return the results of the last one, or the error of any.

        In a thread of its own: Dask has one thread for all actors of a worker, and two of them may be peers.
        """
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()  # the context has Dask's worker
        return await loop.run_in_executor(self.thread, context.run, self._handle, message)

    def _handle(self, message: Message) -> Reply:
        try:
            self.kept.forget(message.forget)
            self.kept.learn(message.layouts)
            self.kept.n_bytes = self.peers.n_bytes = 0
            for operation, args in message.past:
                self.engine.apply(operation, received(args))
            calls, answers = self._completed(message), []
            for k, (operation, args) in enumerate(calls):
                results = self.engine.apply(operation, received(self._whole(args, message.exchange)))
                number, run = message.numbers[k], None
                if number is not None:
                    self.kept.keep(number, results)
                elif message.exchange is not None and k == len(calls) - 1:
                    run = self.peers.summed(message.exchange, results)
                answers.append(Answer.of(results, run))
            return Reply(answers, self.kept.n_bytes + self.peers.n_bytes)
        except Exception as error:
            return Reply(error=_picklable(error))

    async def take(self, *args: Any) -> Any:
        """Return lines of arrays to a peer, see `Peers.take`."""
        return await self.peers.take(*args)

    async def lines(self, *args: Any) -> Any:
        """Return lines that are kept here, see `KeptLines.take`."""
        return await self.kept.take(*args)

    async def alive(self) -> None:
        """Answer, which shows that the process runs."""

    async def abandon(self, trip: int) -> None:
        """Stop waiting for peers in this round trip."""
        await self.peers.abandon(trip)

    def _completed(self, message: Message) -> list[Call]:
        """Return the calls with the arrays whole whose lines the client has spread over the peers."""
        if message.exchange is None:
            return message.calls
        self.peers.begin(message.exchange)
        arrays = arrays_in(message.calls)
        spread = [array for array in arrays if isinstance(array, PartLines)]
        whole = iter(self.peers.completed(message.exchange, spread) if spread else ())
        return with_arrays(message.calls, [next(whole) if isinstance(array, PartLines) else array for array in arrays])

    def _whole(self, args: tuple[Any, ...], exchange: Exchange | None) -> tuple[Any, ...]:
        """Return the arguments of a call with the lines that are kept, here or by workers of another engine."""
        tokens: list[Any] = []
        map_arrays(args, lambda _, array: tokens.append(array))
        fetched = partial(self.peers.fetched, sys.maxsize if exchange is None else exchange.trip)
        foreign = self.kept.foreign([each for each in tokens if isinstance(each, Foreign)], self.name, fetched)

        def change(_: str, array: Any) -> Any:
            if isinstance(array, Own):
                return self.kept.own(array.key)
            return foreign[array] if isinstance(array, Foreign) else array

        whole: tuple[Any, ...] = map_arrays(args, change)
        return whole


def _moved(piece: Piece, start: int) -> Piece:
    """Return the piece with another first row, its arrays aligned."""
    arrays: Any = (array if array is None or array.flags.aligned else array.copy() for array in piece[2:])
    return Piece(start, piece.n_cols, *arrays)


@lru_cache(maxsize=16)
def _loss(pickled: bytes) -> Loss:
    """Unpickle a loss, each one once, so that a custom loss is compiled once."""
    loss: Loss = pickle.loads(pickled)
    return loss


def _picklable(error: Exception) -> Exception:
    """Return the error, or a `RuntimeError` with its message if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
