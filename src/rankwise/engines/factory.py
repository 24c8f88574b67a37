"""Choice of the engine by where the observed entries are."""

from typing import Any

import numpy as np

from .._errors import DataError
from ..losses import Loss
from ..observations import AnyEntries, Observations
from .base import Engine
from .shard import Shard
from .threads import Threads


def engine_over(entries: AnyEntries, loss: Loss, dtype: Any, n_jobs: int | None = -1) -> Engine:
    """Return an engine over the shards of these entries.

    Raises `DataError` or `LossError` if the loss or the dtype cannot represent one of the targets.
    """
    if not isinstance(entries, Observations):
        engine: Engine = entries.engine(loss, np.dtype(dtype), n_jobs)
        return engine
    check_targets(entries.targets, loss, np.dtype(dtype))
    return Threads([Shard(piece, loss, dtype) for piece in entries.pieces()], n_jobs)


def check_targets(targets: Any, loss: Loss, dtype: np.dtype[Any]) -> None:
    """Raise if a target is outside the domain of the loss, or cannot be squared in this dtype."""
    loss.check_targets(targets)
    check_largest(float(np.abs(loss.units.stored(targets, np.float64)).max(initial=0.0)), dtype)


def check_largest(largest: float, dtype: np.dtype[Any]) -> None:
    """Raise if a target as large as this cannot be squared in this dtype."""
    if largest > 1e-3 * float(np.finfo(dtype).max) ** 0.5:
        raise DataError(
            f"The largest target, {largest:g}, is too large to be squared in {dtype}; "
            "divide the targets by a constant, or use dtype=float64."
        )
