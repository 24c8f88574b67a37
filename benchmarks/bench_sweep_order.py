"""Does it matter whether a sweep solves rows or columns first? Decides `SweepState.sides`.

Sweeps of the default on the data and on its transpose, which is the other order. `bound` is the objective that they
minimize, per observation; `cost` is RMSE in stars or wrong signs in %, on held-out entries; means of two splits,
minimum of the seconds.
"""

from collections.abc import Iterator

import numpy as np

from .common import Row, Split, sweep


def run(names: tuple[str, ...] = ("movielens-100k", "movielens-1m", "slashdot"), n_splits: int = 2) -> Iterator[Row]:
    """Bound, cost and seconds of both orders."""
    for name in names:
        splits = [Split.load(name, seed) for seed in range(n_splits)]
        turned = [Split(split.train.transposed(), split.held_out.transposed()) for split in splits]
        for order, given in (("rows first", splits), ("columns first", turned)):
            last = [sweep(split).history[-1] for split in given]
            row: Row = {"data": name, "order": order, "shape": "{} x {}".format(*given[0].train.shape)}
            row |= {"bound": round(float(np.mean([one.value for one in last])) / given[0].train.n_observed, 5)}
            row |= {"cost": round(float(np.mean([one.score for one in last])), 4)}
            yield row | {"seconds": round(min(one.wall_seconds for one in last), 3)}
