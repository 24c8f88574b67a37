"""How accurate is `MatrixCompletion()` with default parameters on published splits, beside the best published numbers?

Ratings: RMSE and MAE of `decode="mean"`, MAE of `decode="median"` (whole stars). MovieLens 100K: the five published
splits u1 to u5, and half held out at random; MovieLens 1M: ten random folds with a tenth held out, and half held out.
Signs: `decode="probability"`; AUC, macro-F1 and accuracy, all in %. Epinions and Slashdot: a fifth of all entries held
out, and a tenth after the paper's filter. Entries of rows or columns without a training entry are predicted from
offsets (`unknown="offset"`) and count. Seconds are CPU seconds of the fit, all threads added up, compilation excluded.
One row per split and one of the means; rows that are stored are not computed again (`python -m benchmarks.bench_records
NAME ...` runs some cases, `--again` computes anew).
"""

import io
import json
import os
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import rankwise as rw
from rankwise import DataError, Observations
from rankwise.datasets import SOURCES, find, read_signed_network
from rankwise.selection import auc, macro_f1, mean_absolute_error, root_mean_squared_error, sign_accuracy, split_entries

from .common import RESULTS, Row, store, table

NAME = "bench_records"
Pair = tuple[Observations, Observations]


def published(split: int) -> Pair:
    """Split u1 to u5 of MovieLens 100K."""
    path = Path(os.environ.get("RANKWISE_DATA", "")) / "ml-100k" / "ml-100k_full.tar.gz"
    if not path.exists():
        raise DataError(f"{path} is not there; set RANKWISE_DATA to the folder of the data sets.")
    with tarfile.open(path) as archive:
        files = {Path(name).name: name for name in archive.getnames()}
        parts = [archive.extractfile(files[f"u{split + 1}.{part}"]) for part in ("base", "test")]
        train, test = (np.loadtxt(io.BytesIO(part.read()), int)[:, :3].T for part in parts if part is not None)
    return tuple(Observations.from_coo(*part[:2] - 1, part[2], (943, 1682)) for part in (train, test))  # type: ignore[return-value]


def fold(name: str, n_folds: int) -> Callable[[int], Pair]:
    """One of `n_folds` random folds of a data set."""

    def split(k: int) -> Pair:
        data = rw.datasets.load(name)
        folds = np.random.default_rng(0).integers(0, n_folds, data.n_observed)
        return data.take(folds != k), data.take(folds == k)

    return split


def at_random(name: str, share: float) -> Callable[[int], Pair]:
    """A random share of a data set held out, split number being the seed; networks as `load` filters them."""
    return lambda seed: split_entries(rw.datasets.load(name), share, seed)


def unfiltered(name: str) -> Callable[[int], Pair]:
    """A fifth of all entries of a signed network held out, split number being the seed."""

    def split(seed: int) -> Pair:
        path = find(SOURCES[name])
        if path is None:
            raise DataError(f"There is no {name} on this machine: run `rankwise data fetch {name}`.")
        return split_entries(Observations.from_labels(*read_signed_network(path)), 0.2, seed)

    return split


CASES: dict[str, tuple[Callable[[int], Pair], int]] = {
    "movielens-100k, u1 to u5": (published, 5),
    "movielens-100k, 50/50": (at_random("movielens-100k", 0.5), 5),
    "movielens-1m, 90/10": (fold("movielens-1m", 10), 10),
    "movielens-1m, 50/50": (at_random("movielens-1m", 0.5), 5),
    "epinions, 80/20": (unfiltered("epinions"), 5),
    "slashdot, 80/20": (unfiltered("slashdot"), 5),
    "epinions, the paper's filter, 90/10": (at_random("epinions", 0.1), 5),
    "slashdot, the paper's filter, 90/10": (at_random("slashdot", 0.1), 5),
}


def scores(train: Observations, test: Observations) -> Row:
    """Scores of the default on one split, its rank and the CPU seconds of its fit."""
    start = time.process_time()
    fitted = rw.MatrixCompletion().fit(train)
    seconds = time.process_time() - start - fitted.model_.facts["compile_seconds"]
    pairs = test.rows, test.cols
    if test.row_labels is not None and test.col_labels is not None:
        pairs = test.row_labels[test.rows], test.col_labels[test.cols]

    def decoded(how: str) -> np.ndarray:
        return np.asarray(fitted.predict_entries(*pairs, decode=how, unknown="offset"))

    targets, found = test.targets, dict[str, Any]()
    if train.target_facts().signs:
        odds = decoded("probability") - 0.5
        found["auc_%"], found["macro_f1_%"] = 100 * auc(targets, odds), 100 * macro_f1(targets, odds)
        found["accuracy_%"] = 100 * sign_accuracy(targets, odds)
    else:
        mean = decoded("mean")
        found["rmse"], found["mae"] = root_mean_squared_error(targets, mean), mean_absolute_error(targets, mean)
        found["grid_mae"] = mean_absolute_error(targets, decoded("median"))
    return found | {"rank": fitted.model_.rank, "cpu_seconds": seconds}


def run(cases: list[str] | None = None, again: bool = False) -> Iterator[Row]:
    """One row per split, then the means over the splits of each case; stored rows of splits are kept unless `again`."""
    known = {} if again and not cases else stored()
    for name, (split, n_splits) in CASES.items():
        rows = []
        for k in range(n_splits):
            row = known.get((name, k)) if not (again and cases and name in cases) else None
            if row is None and (not cases or name in cases):
                if k == 0:
                    rw.MatrixCompletion(max_iter=1).fit(split(0)[0])  # compile
                row = {"data": name, "split": k} | {key: round(x, 4) for key, x in scores(*split(k)).items()}
            if row is not None:
                rows.append(row)
                yield row
        if rows:
            means = {
                key: round(float(np.mean([row[key] for row in rows])), 4)
                for key in rows[0]
                if key not in ("data", "split")
            }
            yield {"data": name, "split": f"mean of {len(rows)}"} | means


def stored() -> dict[tuple[str, int], Row]:
    """Rows of single splits in the stored results."""
    path = RESULTS / f"{NAME}.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    return {(row["data"], row["split"]): row for row in rows if isinstance(row["split"], int)}


if __name__ == "__main__":
    names = [name for name in sys.argv[1:] if name != "--again"]
    print(table(store(NAME, (__doc__ or "").strip(), run(names, "--again" in sys.argv))))
