"""What lives in a worker of a cluster: some shards, and the threads that run verbs on them."""

import pickle
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...losses import Loss
from ...observations import Piece
from ..shard import Shard
from ..threads import Threads
from .distributed import distributed
from .lines import Door, listen
from .messages import Reply, Told, heard


class Holder:
    """Some shards of a matrix, which know their rows by their place among those that are here.

    Parameters
    ----------
    pieces : sequence of Piece
        In the order of their numbers.
    numbers : sequence of int
        Of the shards, among all there are.
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
            shards.append(Shard(_placed(piece, start), _loss(loss), np.dtype(dtype)))
            start = shards[-1].stop
        self.engine = Threads(shards, n_threads, numbers)

    def ask(self, told: Told) -> Reply:
        """Run the verbs in order; the answers to the last one, or the error of any."""
        try:
            for verb, args in told.verbs[:-1]:
                self.engine.run(verb, *heard(verb, args))
            verb, args = told.verbs[-1]
            return Reply.of(self.engine.ask(told.join, verb, heard(verb, args)))
        except Exception as error:
            return Reply(error=_travelling(error))

    def listen(self) -> Door | None:
        """Where the client can talk to these shards without Dask in between; None if it cannot."""
        dask = distributed()
        worker = dask.get_worker()
        protocol, _, _ = worker.address.partition("://")
        if protocol not in ("tcp", "tls"):
            return None
        context = worker.security.get_listen_args("worker")["ssl_context"] if protocol == "tls" else None
        try:
            return listen(dask.comm.get_address_host(worker.address), context, self)
        except OSError:  # the address is not one of this machine's own
            return None


def _placed(piece: Piece, start: int) -> Piece:
    """The piece at another row, its arrays as kernels want them."""
    arrays: Any = (array if array is None or array.flags.aligned else array.copy() for array in piece[2:])
    return Piece(start, piece.n_cols, *arrays)


@lru_cache(maxsize=16)
def _loss(pickled: bytes) -> Loss:
    """The loss, the same object each time it comes: a loss that a user wrote is compiled once."""
    found: Loss = pickle.loads(pickled)
    return found


def _travelling(error: Exception) -> Exception:
    """The error, or its words if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
