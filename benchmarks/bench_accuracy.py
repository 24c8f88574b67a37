"""Is the default more accurate than LIBMF and cmfrec without tuning, and in less time?

`rankwise.MatrixCompletion()` with default parameters, on five splits of each data set: one tenth of the signs held out,
half of the ratings. The peers select from a small grid on a twentieth of the training entries, then fit to all of them;
their seconds include this search and count their fits only. Signs: accuracy in %, AUC. Ratings: RMSE and MAE in stars,
predictions clipped to 1-5; `grid MAE` after rounding to whole stars. Means over splits, with standard deviations.
"""

from collections.abc import Callable, Iterator

import numpy as np

import rankwise as rw

from .common import SHARES, Meter, NoAnswerError, Row, Split
from .peers import fitted, search, why_not

Predict = Callable[[Split], tuple[np.ndarray, float]]


def ours(split: Split) -> tuple[np.ndarray, float]:
    """The default."""
    with Meter() as meter:
        fit = rw.MatrixCompletion().fit(split.train)
    return fit.model_.at(split.held_out.rows, split.held_out.cols), meter.seconds


def tuned(name: str) -> Predict:
    """A peer at its best setting on validation entries."""

    def run(split: Split) -> tuple[np.ndarray, float]:
        choice = search(name, split)
        predicted, meter = fitted(name, split, choice.settings)
        return predicted, meter.seconds + choice.seconds

    return run


def run(n_splits: int = 5) -> Iterator[Row]:
    """Scores and seconds of every method on every data set."""
    for name in SHARES:
        splits = [Split.load(name, seed) for seed in range(n_splits)]
        peers = [peer for peer in ("libmf", "cmfrec") if not why_not(peer, splits[0])]
        ours(Split.load(name, 99))  # compile
        for method, predict in [("rankwise", ours), *((peer, tuned(peer)) for peer in peers)]:
            try:
                yield {"data": name, "method": method} | scored(splits, predict)
            except NoAnswerError as error:
                yield {"data": name, "method": method, "note": str(error)}


def scored(splits: list[Split], predict: Predict) -> Row:
    """Means and deviations over splits."""
    found, seconds = [], []
    for split in splits:
        predicted, spent = predict(split)
        seconds.append(spent)
        found.append(split.scores(predicted))
    row: Row = {}
    for key in found[0]:
        values = [each[key] for each in found]
        row[key] = f"{np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}"
    return row | {"seconds": round(float(np.mean(seconds)), 2), "splits": len(splits)}
