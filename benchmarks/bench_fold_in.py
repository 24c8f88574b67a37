"""How long does fold-in of new rows take, and how much accuracy does it lose compared with a refit?

`seconds`: 100,000 new rows with 50 entries each, folded into a model of 2,000 columns at rank 31, under several losses;
the best of three, with the entries per second. `movielens-1m`: one tenth of the entries is held out of everything, and
a tenth of the users is held out of the fit and folded in with their training entries. RMSE of their held-out entries,
clipped to 1-5, compared with a fit that included these users, and with the offsets alone (rank 0).
"""

import time
from collections.abc import Iterator

import numpy as np

import rankwise as rw
from rankwise.observations import Observations
from rankwise.selection import root_mean_squared_error, split_entries

from .common import Row, scattered

LOSSES = ("square", "huber", "logistic", "l1")


def signs(observations: Observations) -> Observations:
    """The same entries with their signs as targets."""
    targets = np.where(observations.targets > 0, 1.0, -1.0)
    return Observations.from_coo(observations.rows, observations.cols, targets, observations.shape)


def speed(n_rows: int = 100_000, per_row: int = 50, rank: int = 31, n_cols: int = 2000) -> Iterator[Row]:
    """Seconds to fold in, under each loss."""
    train, new = (scattered(n * per_row, (n, n_cols), seed) for seed, n in enumerate((n_rows // 5, n_rows)))
    for loss in LOSSES:
        given = [signs(each) if loss == "logistic" else each for each in (train, new)]
        model = rw.MatrixCompletion(loss, rank, max_iter=4).fit(given[0]).model_
        rw.fold_in(model, given[1].take_rows(np.arange(200)))  # compile
        spent = []
        for _ in range(3):
            start = time.perf_counter()
            rw.fold_in(model, given[1])
            spent.append(time.perf_counter() - start)
        row: Row = {"case": f"{loss}, rank {rank}", "rows": n_rows, "entries": given[1].n_observed}
        yield row | {"seconds": round(min(spent), 2), "entries_per_second": int(given[1].n_observed / min(spent))}


def accuracy(name: str = "movielens-1m", seed: int = 0) -> Row:
    """RMSE of new users' held-out ratings, folded in and trained on."""
    train, held_out = split_entries(rw.datasets.load(name), 0.1, seed)
    n_rows = train.shape[0]
    new = np.sort(np.random.default_rng(seed).choice(n_rows, n_rows // 10, replace=False))
    theirs = held_out.take_rows(new)

    def rmse(predicted: np.ndarray) -> float:
        return round(root_mean_squared_error(theirs.targets, predicted, (1, 5)), 5)

    trained = rw.MatrixCompletion().fit(train).model_.at(new[theirs.rows], theirs.cols)
    folded = rw.MatrixCompletion().fit(train.take(~np.isin(train.rows, new))).fold_in(train.take_rows(new))
    row: Row = {"case": name, "rows": new.size, "entries": train.take_rows(new).n_observed}
    row |= {"rmse_trained": rmse(trained), "rmse_folded": rmse(folded.at(theirs.rows, theirs.cols))}
    row["loss"] = round(row["rmse_folded"] - row["rmse_trained"], 5)
    return row | {"rmse_offsets": rmse(folded.at(theirs.rows, theirs.cols, 0))}


def run() -> Iterator[Row]:
    """Seconds, then accuracy."""
    yield from speed()
    yield accuracy()
