"""What are features of users and films worth, for predictions and for films that nobody has rated?

MovieLens 100K, predictions clipped to 1-5, nothing set. `published`: the splits u1 and u3, without features, with age,
sex and occupation of users and year and genres of films, and with noise in their place (five normal numbers and a
category of 20 values for each side). `cpu` is the process time of a fit over that of one without features, the median
of five pairs that are fitted by turns. `cold`: a tenth of the films, or of the users, is held out with all of its
ratings, in five splits; RMSE there with features, with the column or row means that a model without features predicts
(`offsets`), and of cmfrec with the same features encoded alike (rank and ridge chosen on a tenth of the other films or
users, held out in the same way).
"""

import importlib.util
import io
import os
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import rankwise as rw
from rankwise.observations import FeatureEncoder, FeatureTable

from .common import THREADS, Row

ARCHIVE = "ml-100k/ml-100k_full.tar.gz"
GENRES = ["unknown", "Action", "Adventure", "Animation", "Children", "Comedy", "Crime", "Documentary", "Drama"]
GENRES += ["Fantasy", "Noir", "Horror", "Musical", "Mystery", "Romance", "SciFi", "Thriller", "War", "Western"]
COLUMNS = {"row": "user", "col": "film", "value": "stars"}
GRID = [
    {"k": k, "lambda_": ridge, "w_user": w, "w_item": w} for k in (10, 30) for ridge in (5.0, 20.0) for w in (0.5, 5.0)
]


class MovieLens(NamedTuple):
    """Ratings by published split (train and test), and features of users and films."""

    splits: dict[str, tuple[pd.DataFrame, pd.DataFrame]]
    users: pd.DataFrame
    films: pd.DataFrame

    @classmethod
    def load(cls) -> "MovieLens":
        """Read the publisher's archive in the folder `RANKWISE_DATA`."""
        with tarfile.open(Path(os.environ["RANKWISE_DATA"]) / ARCHIVE) as archive:
            paths = {Path(name).name: name for name in archive.getnames()}

            def table(name: str, separator: str) -> pd.DataFrame:
                content = io.BytesIO(archive.extractfile(paths[name]).read())  # type: ignore[union-attr]
                return pd.read_csv(content, sep=separator, header=None, encoding="latin-1")

            def ratings(name: str) -> pd.DataFrame:
                return table(name, "\t").iloc[:, :3].set_axis(list(COLUMNS.values()), axis=1)

            splits = {name: (ratings(f"{name}.base"), ratings(f"{name}.test")) for name in ("u1", "u3")}
            users, films = table("u.user", "|"), table("u.item", "|")
        users = users.iloc[:, :4].set_axis(["user", "age", "sex", "occupation"], axis=1)
        kinds = ["|".join(np.array(GENRES)[line]) for line in films.iloc[:, 5:].to_numpy(bool)]
        years = pd.to_datetime(films[2], errors="coerce").dt.year
        return cls(splits, users, pd.DataFrame({"film": films[0], "year": years, "genres": kinds}))

    def features(self) -> dict[str, pd.DataFrame]:
        """Arguments of `fit`."""
        return {"row_features": self.users, "col_features": self.films}

    def noise(self, seed: int = 0) -> dict[str, pd.DataFrame]:
        """Tables of noise for the same users and films."""
        rng = np.random.default_rng(seed)

        def table(labels: pd.Series) -> pd.DataFrame:
            numbers = {f"x{k}": rng.standard_normal(labels.size) for k in range(5)}
            kinds = np.array(list("abcdefghijklmnopqrst"))[rng.integers(0, 20, labels.size)]
            return pd.DataFrame({labels.name: labels, **numbers, "kind": kinds})

        return {"row_features": table(self.users.user), "col_features": table(self.films.film)}


def error(predicted: Any, test: pd.DataFrame) -> float:
    """Root mean squared error of predictions clipped to 1-5."""
    return float(np.sqrt(np.mean((np.clip(predicted, 1, 5) - test.stars.to_numpy()) ** 2)))


def fit(train: pd.DataFrame, features: dict[str, Any]) -> rw.MatrixCompletion:
    """Fit with default parameters."""
    return rw.MatrixCompletion(n_jobs=THREADS).fit(train, **COLUMNS, **features)


def published(data: MovieLens, repeats: int = 5) -> Iterator[Row]:
    """RMSE on the published splits, and the time of a fit."""
    kinds: dict[str, dict[str, Any]] = {"none": {}, "users and films": data.features(), "noise": data.noise()}
    for name, (train, test) in data.splits.items():
        seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
        errors = {}
        for kind in [kind for _ in range(repeats + 1) for kind in kinds]:
            start = time.process_time()
            model = fit(train, kinds[kind])
            seconds[kind].append(time.process_time() - start)
            errors[kind] = error(model.predict(test[["user", "film"]]), test)
        for kind in kinds:
            ratio = median(a / b for a, b in zip(seconds[kind][1:], seconds["none"][1:], strict=True))
            row: Row = {"part": "published", "data": name, "features": kind}
            yield row | {"rmse": round(errors[kind], 4), "cpu": round(ratio, 2)}


def cmfrec_errors(train: pd.DataFrame, test: pd.DataFrame, data: MovieLens, settings: dict[str, Any]) -> float:
    """RMSE of cmfrec on users or films without ratings."""
    from cmfrec import CMF

    tables = []
    for frame, label, name in ((data.users, "user", "UserId"), (data.films, "film", "ItemId")):
        read = FeatureTable.read(frame, label)
        matrix = FeatureEncoder.of(read).encode(read)[0].matrix
        known = pd.DataFrame(matrix, columns=[f"f{k}" for k in range(matrix.shape[1])])
        tables.append(known.assign(**{name: read.labels}))
    frame = train.set_axis(["UserId", "ItemId", "Rating"], axis=1)
    model = CMF(**settings, niter=15, nthreads=THREADS, verbose=False, include_all_X=True).fit(
        frame, U=tables[0], I=tables[1]
    )
    found = np.asarray(model.predict(test.user.to_numpy(), test.film.to_numpy()), float)
    return error(np.where(np.isnan(found), train.stars.mean(), found), test)


def held_out(ratings: pd.DataFrame, side: str, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Ratings without those of a tenth of the users or films, and these."""
    labels = np.unique(ratings[side])
    chosen = np.random.default_rng(seed).choice(labels, labels.size // 10, replace=False)
    cold = ratings[side].isin(chosen)
    return ratings[~cold], ratings[cold]


def cold(data: MovieLens, n_splits: int = 5) -> Iterator[Row]:
    """RMSE on films and users whose ratings are all held out."""
    ratings = pd.concat(data.splits["u1"], ignore_index=True)
    for side in ("film", "user"):
        for seed in range(n_splits):
            train, test = held_out(ratings, side, seed)
            row: Row = {"part": "cold", "data": f"{side}s, split {seed}"}
            pairs = test[["user", "film"]]
            for kind, features in (("offsets", {}), ("features", data.features())):
                row[kind] = round(error(fit(train, features).predict(pairs), test), 4)
            if importlib.util.find_spec("cmfrec"):
                inner = held_out(train, side, seed + 100)
                best = min(GRID, key=lambda settings, inner=inner: cmfrec_errors(*inner, data, settings))  # type: ignore[misc]
                row["cmfrec"] = round(cmfrec_errors(train, test, data, best), 4)
            else:
                row["cmfrec"] = "left out: not installed"
            yield row


def run() -> Iterator[Row]:
    """All parts."""
    data = MovieLens.load()
    yield from published(data)
    yield from cold(data)
