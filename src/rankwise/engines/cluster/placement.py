"""Which worker holds which shards: runs of shards that follow each other, as many observations each as it has room."""

from collections.abc import Mapping, Sequence

import numpy as np


def deal(
    numbers: Sequence[int], sizes: Sequence[int], threads: Mapping[str, int], held: Mapping[str, int]
) -> dict[str, list[int]]:
    """Shards for each worker.

    Every worker should end with observations in proportion to its threads; who has fewer than its share gets what is
    missing, in the order of addresses, so that the same workers are dealt the same shards again.

    Parameters
    ----------
    numbers : sequence of int
        Shards to deal, in order.
    sizes : sequence of int
        Observations of every shard there is, by its number; or what it takes to go through.
    threads : mapping of address to number of threads
    held : mapping of address to number of observations
        What the workers have already.

    Returns
    -------
    dict of address to shard numbers
        Workers that get none are left out.
    """
    names = sorted(threads)
    weights = np.array([max(1, sizes[number]) for number in numbers], float)
    share = np.array([threads[name] for name in names], float) / sum(threads.values())
    has = np.array([held.get(name, 0) for name in names], float)
    room = np.maximum(share * (weights.sum() + has.sum()) - has, 0.0)
    ends = np.cumsum(room) * weights.sum() / room.sum()
    middles = np.cumsum(weights) - 0.5 * weights
    places = np.minimum(np.searchsorted(ends, middles, side="left"), len(names) - 1)
    found: dict[str, list[int]] = {}
    for number, place in zip(numbers, places.tolist(), strict=True):
        found.setdefault(names[place], []).append(number)
    return found
