"""The engine that fits where the observed entries are."""

from typing import Any

import numpy as np

from .._errors import DataError
from ..losses import Loss
from ..observations import Observations
from .base import Engine
from .shard import Shard
from .threads import Threads


def engine_over(entries: Any, loss: Loss, dtype: Any, n_jobs: int | None = None) -> Engine:
    """An engine over the shards of these entries; refuses targets that the loss or the number type cannot take."""
    if not isinstance(entries, Observations):  # they live elsewhere, and know how to be reached
        found: Engine = entries.engine(loss, np.dtype(dtype), n_jobs)
        return found
    check_targets(entries.targets, loss, np.dtype(dtype))
    return Threads([Shard(piece, loss, dtype) for piece in entries.pieces()], n_jobs)


def check_targets(targets: Any, loss: Loss, dtype: np.dtype[Any]) -> None:
    """Raise if the loss, or squares in this number type, cannot take one of the targets."""
    loss.check_targets(targets)
    check_largest(float(np.abs(targets).max(initial=0.0)), dtype)


def check_largest(largest: float, dtype: np.dtype[Any]) -> None:
    """Raise if a target as large as this cannot be squared in the number type."""
    if largest > 1e-3 * float(np.finfo(dtype).max) ** 0.5:
        raise DataError(
            f"The largest target, {largest:g}, is too large to be squared in {dtype}; "
            "divide the targets by a constant, or use dtype=float64."
        )
