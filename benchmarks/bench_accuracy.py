"""Is the default more accurate than LIBMF and cmfrec, with nothing to tune, and in less time?

`rankwise.MatrixCompletion()` as it comes, on five splits of each data set: one tenth of the signs held out, half of
the ratings. The peers choose from a small grid on a twentieth of the training entries, then learn from all of them;
their seconds include that search. Signs: accuracy in %, AUC. Ratings: RMSE and MAE in stars, predictions clipped to
1-5; `grid MAE` after rounding to whole stars. Means over splits, with deviations.
"""

import time
from collections.abc import Callable, Iterator

import numpy as np

import rankwise as rw
from rankwise.observations import Observations
from rankwise.selection import auc, mean_absolute_error, root_mean_squared_error, sign_accuracy, split_entries

from .common import Row
from .peers import PEERS, installed, timed

DATA = {"movielens-100k": 0.5, "movielens-1m": 0.5, "slashdot": 0.1, "epinions": 0.1}
Predict = Callable[[Observations, Observations], tuple[np.ndarray, float]]


def scores(targets: np.ndarray, predicted: np.ndarray, signs: bool) -> dict[str, float]:
    """What the data set is judged by; the first one chooses the peers' settings."""
    if signs:
        return {"accuracy_%": 100 * sign_accuracy(targets, predicted), "auc": auc(targets, predicted)}
    clipped = np.clip(predicted, 1, 5)
    found = {"rmse": root_mean_squared_error(targets, clipped), "mae": mean_absolute_error(targets, clipped)}
    return found | {"grid_mae": mean_absolute_error(targets, np.round(clipped))}


def ours(train: Observations, held_out: Observations) -> tuple[np.ndarray, float]:
    """The default."""
    start = time.perf_counter()
    found = rw.MatrixCompletion().fit(train).model_.at(held_out.rows, held_out.cols)
    return found, time.perf_counter() - start


def tuned(name: str, signs: bool) -> Predict:
    """A peer at its best setting on validation entries."""
    settings = PEERS[name][0](signs)

    def run(train: Observations, held_out: Observations) -> tuple[np.ndarray, float]:
        part, validation = split_entries(train, 0.05, 1)
        tried = [timed(name, part, validation, each) for each in settings]
        firsts = [next(iter(scores(validation.targets, found, signs).values())) for found, _ in tried]
        best = settings[int(np.argmax(firsts) if signs else np.argmin(firsts))]
        predicted, seconds = timed(name, train, held_out, best)
        return predicted, seconds + sum(spent for _, spent in tried)

    return run


def run(n_splits: int = 5) -> Iterator[Row]:
    """Scores and seconds of every method on every data set."""
    for name, share in DATA.items():
        observations, signs = rw.datasets.load(name), share == 0.1
        methods: dict[str, Predict] = {"rankwise": ours} | {peer: tuned(peer, signs) for peer in installed()}
        ours(*split_entries(observations, share, 99))  # compile
        for method, predict in methods.items():
            found, seconds = [], []
            for seed in range(n_splits):
                train, held_out = split_entries(observations, share, seed)
                predicted, spent = predict(train, held_out)
                seconds.append(spent)
                found.append(scores(held_out.targets, predicted, signs))
            row: Row = {"data": name, "method": method}
            for key in found[0]:
                values = [each[key] for each in found]
                row[key] = f"{np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}"
            yield row | {"seconds": round(float(np.mean(seconds)), 2), "splits": n_splits}
