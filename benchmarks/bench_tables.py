"""Does `LowRankImputer` fill mixed tables better than scikit-learn's imputers, column by column?

Three tenths of the cells, at random, are hidden from all methods, three times; errors are means over the three, in the
unit of each column: root mean squared error of numbers and counts, share of wrong booleans and categories, levels
between prediction and truth for ordered columns. `constant` is the best constant for that error; `mean/mode` is
SimpleImputer's. KNN and Iterative get standardized numbers, the numbers of levels, and one 0/1 column per category.
Because Iterative then predicts the most frequent category nearly always (the 0/1 columns are missing together), it is
also run with the numbers of the categories, `coded`. Their predictions are mapped to the nearest value that the column
can have. Tables: a synthetic one, and three made from scikit-learn's wine, breast cancer and diabetes data by cutting
three of every five columns into grades, colors or halves. The imputer's constants were chosen on the first three, not
on diabetes. `best` names the lowest error.
"""

import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer

import rankwise as rw
from rankwise.datasets.mixed import COLOURS, GRADES

from .common import Row

Frame = pd.DataFrame
Impute = Callable[[Frame], Frame]


def typed(frame: Frame) -> Frame:
    """Columns with the types their names say."""
    types = {
        "boolean": "boolean",
        "count": "Int64",
        "ordered": pd.CategoricalDtype(list(GRADES), ordered=True),
        "category": pd.CategoricalDtype(list(COLOURS)),
    }
    return frame.astype({name: types[kind(name)] for name in frame if kind(name) != "real"})


def kind(name: str) -> str:
    """First part of a column's name."""
    return name.partition("_")[0]


def planted() -> Frame:
    """The planted table, 200 x 30."""
    return typed(Frame(rw.datasets.mixed_table(200, 30).columns))


def real(load: Callable[..., object], whole: tuple[str, ...] = ()) -> Frame:
    """A bundled table: its class as a boolean or category, some columns whole numbers, others cut into pieces."""
    data = load(as_frame=True)
    found, rng = {}, np.random.default_rng(0)
    for k, (name, column) in enumerate(data.data.items()):
        word, values = str(name).replace(" ", "-").replace("/", "-"), column.to_numpy()
        if np.unique(values).size == 2:
            found[f"boolean_{word}"] = values > values.min()
        elif name in whole:
            found[f"count_{word}"] = values.astype(int)
        elif k % 5 == 1:
            found[f"ordered_{word}"] = np.array(GRADES)[pd.qcut(values, len(GRADES), labels=False, duplicates="drop")]
        elif k % 5 == 2:
            found[f"category_{word}"] = rng.permutation(COLOURS)[
                pd.qcut(values, len(COLOURS), labels=False, duplicates="drop")
            ]
        elif k % 5 == 3:
            found[f"boolean_{word}"] = values > np.quantile(values, 0.6)
        else:
            found[f"real_{word}"] = values
    target = data.target.to_numpy()
    if target.max() > len(COLOURS):
        found["count_target"] = target.astype(int)
    elif target.max() == 1:
        found["boolean_class"] = target == 1
    else:
        found["category_class"] = np.array(COLOURS)[target]
    return typed(Frame(found))


TABLES: dict[str, Callable[[], Frame]] = {
    "planted": planted,
    "wine": lambda: real(load_wine, ("magnesium", "proline")),
    "breast cancer": lambda: real(load_breast_cancer),
    "diabetes": lambda: real(load_diabetes),
}


def coded(frame: Frame, split: bool) -> tuple[np.ndarray, list[int]]:
    """Numbers, levels by number, categories by number or `split` into 0/1 columns; and how wide each column is."""
    parts = []
    for name, column in frame.items():
        if kind(str(name)) in ("real", "count", "boolean"):
            parts.append(column.to_numpy(float, na_value=np.nan)[:, None])
            continue
        codes = column.cat.codes.to_numpy().astype(float)
        codes = np.where(codes < 0, np.nan, codes)[:, None]
        if kind(str(name)) == "category" and split:
            codes = np.where(np.isnan(codes), np.nan, codes == np.arange(len(COLOURS)))
        parts.append(codes)
    return np.hstack(parts), [part.shape[1] for part in parts]


def uncoded(numbers: np.ndarray, widths: list[int], frame: Frame) -> Frame:
    """The nearest values that each column can have."""
    found, place = {}, 0
    for width, (name, column) in zip(widths, frame.items(), strict=True):
        part, what = numbers[:, place : place + width], kind(str(name))
        place += width
        if what in ("ordered", "category"):
            last = len(column.cat.categories) - 1
            codes = part.argmax(axis=1) if width > 1 else np.clip(np.rint(part[:, 0]), 0, last).astype(int)
            found[name] = pd.Categorical.from_codes(codes, dtype=column.dtype)
        else:
            values = {"boolean": part[:, 0] > 0.5, "count": np.rint(np.maximum(part[:, 0], 0))}.get(what, part[:, 0])
            found[name] = pd.Series(values).astype(column.dtype)
    return Frame(found)


def by_sklearn(imputer: object, split: bool) -> Impute:
    """One of scikit-learn's imputers on standardised numbers."""

    def impute(frame: Frame) -> Frame:
        numbers, widths = coded(frame, split)
        centre, spread = np.nanmean(numbers, axis=0), np.nanstd(numbers, axis=0) + 1e-12
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that ten rounds of IterativeImputer are not enough
            filled = imputer.fit_transform((numbers - centre) / spread)
        return uncoded(filled * spread + centre, widths, frame)

    return impute


def constants(best: bool) -> Impute:
    """The mean of numbers, the most frequent value of others; the median of levels and halves if `best`."""

    def guess(name: str, column: pd.Series) -> object:
        if kind(name) in ("real", "count"):
            return column.mean() if kind(name) == "real" else round(column.mean())
        if kind(name) == "ordered" and best:
            codes = np.sort(column.dropna().cat.codes)
            return GRADES[codes[codes.size // 2]]
        return column.mode().iloc[0]

    return lambda frame: typed(Frame({name: [guess(name, column)] * len(frame) for name, column in frame.items()}))


METHODS: dict[str, Impute] = {
    "rankwise": lambda frame: rw.LowRankImputer().fit_transform(frame),
    "constant": constants(True),
    "mean/mode": constants(False),
    "KNN": by_sklearn(KNNImputer(), split=True),
    "Iterative": by_sklearn(IterativeImputer(random_state=0), split=True),
    "Iterative, coded": by_sklearn(IterativeImputer(random_state=0), split=False),
}


def error(name: str, truth: pd.Series, guess: pd.Series) -> float:
    """In the column's own unit."""
    if kind(name) in ("real", "count"):
        return float(np.sqrt(np.mean((guess.to_numpy(float) - truth.to_numpy(float)) ** 2)))
    if kind(name) == "ordered":
        return float(np.mean(np.abs(guess.cat.codes.to_numpy(int) - truth.cat.codes.to_numpy(int))))
    return float(np.mean(guess.to_numpy() != truth.to_numpy()))


def errors(table: Frame, methods: dict[str, Impute], n_splits: int) -> Frame:
    """Mean errors: a row per column, a column per method."""
    total = Frame(0.0, index=table.columns, columns=list(methods))
    for seed in range(n_splits):
        hidden = np.random.default_rng(seed).random(table.shape) < 0.3
        seen = table.mask(hidden)
        for method, impute in methods.items():
            filled = impute(seen)
            for j, name in enumerate(table.columns):
                cells = hidden[:, j]
                total.loc[name, method] += error(name, table[name][cells], filled[name][cells]) / n_splits
    return total


def run(n_splits: int = 3) -> Iterator[Row]:
    """Errors of every method at every column."""
    for table, make in TABLES.items():
        for name, row in errors(make(), METHODS, n_splits).iterrows():
            yield {"table": table, "column": name, **{m: f"{e:.4g}" for m, e in row.items()}, "best": row.idxmin()}
