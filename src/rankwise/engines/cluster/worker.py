"""Actor in a worker of a cluster: some shards, and the threads that run operations on them."""

import pickle
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...losses import Loss
from ...observations import Piece
from ..shard import Shard
from ..threads import Threads
from .messages import Message, Reply, received


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
        self.engine = Threads(shards, n_threads, numbers)

    def handle(self, message: Message) -> Reply:
        """Run the calls in order; return the results of the last one, or the error of any."""
        try:
            for operation, args in message.calls[:-1]:
                self.engine.apply(operation, received(args))
            operation, args = message.calls[-1]
            return Reply.of(self.engine.apply(operation, received(args)))
        except Exception as error:
            return Reply(error=_picklable(error))


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
