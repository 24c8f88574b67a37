"""Should the factors start all at once or a few at a time? Decides the default of `block`.

Ten sweeps of the default, seed 0. `bound` is the negative evidence lower bound that they minimize, per entry; `cost` is
RMSE in stars or wrong signs in %, on held-out entries; seconds by the solver's clock, the minimum of two runs.
"""

from collections.abc import Iterator

from rankwise.solvers import BayesSweeps

from .common import Row, Split, sweep


def run(names: tuple[str, ...] = ("movielens-100k", "movielens-1m", "slashdot"), repeats: int = 2) -> Iterator[Row]:
    """Bound, cost and seconds."""
    for name in names:
        split = Split.load(name)
        for block in (None, 16, 8, 4):
            histories = [sweep(split, BayesSweeps(block=block)).history for _ in range(repeats)]
            last = histories[0][-1]
            row: Row = {"data": name, "block": "all" if block is None else block, "sweeps": last.step}
            row |= {"bound": round(last.value / split.train.n_observed, 5), "cost": round(last.score, 4)}
            yield row | {"seconds": round(min(history[-1].wall_seconds for history in histories), 3)}
