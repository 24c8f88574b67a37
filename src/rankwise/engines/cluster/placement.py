"""Placement of shards on workers: runs of consecutive shards, in proportion to the threads of each worker."""

from collections.abc import Mapping, Sequence

import numpy as np


def place(
    numbers: Sequence[int], sizes: Sequence[int], threads: Mapping[str, int], held: Mapping[str, int]
) -> dict[str, list[int]]:
    """Return the shards for each worker.

    Every worker should end with observations in proportion to its threads; a worker with less than its share gets what
    is missing, in the order of addresses, so that the same workers get the same shards again.

    Parameters
    ----------
    numbers : sequence of int
        Shards to place, in order.
    sizes : sequence of int
        Observations of every shard, or its cost in observations, by shard number.
    threads : mapping of address to number of threads
    held : mapping of address to number of observations
        What the workers hold already.

    Returns
    -------
    dict of address to shard numbers
        Workers without any are left out.
    """
    names = sorted(threads)
    weights = np.array([max(1, sizes[number]) for number in numbers], float)
    share = np.array([threads[name] for name in names], float) / sum(threads.values())
    has = np.array([held.get(name, 0) for name in names], float)
    room = np.maximum(share * (weights.sum() + has.sum()) - has, 0.0)
    ends = np.cumsum(room) * weights.sum() / room.sum()
    middles = np.cumsum(weights) - 0.5 * weights
    workers = np.minimum(np.searchsorted(ends, middles, side="left"), len(names) - 1)
    placed: dict[str, list[int]] = {}
    for number, worker in zip(numbers, workers.tolist(), strict=True):
        placed.setdefault(names[worker], []).append(number)
    return placed
