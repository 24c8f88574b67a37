"""Which form of a prediction is closest to ratings on a grid? Decides the recommended `decode=` for stars.

MovieLens, half held out, default parameters. Mean absolute error in stars of the prediction itself (`link`), of the
rounded prediction, and of the median of the predictive distribution; share of exact hits of the rounded prediction and
of the most likely star (`class`). Means over five splits; the form of the distribution was chosen on others.
"""

from collections.abc import Iterator

import numpy as np

import rankwise as rw

from .common import Row, Split

FORMS = {"link": None, "round": "round", "median": "median", "class": "class"}


def run(n_splits: int = 5) -> Iterator[Row]:
    """Errors and hits of each form."""
    for name in ("movielens-100k", "movielens-1m"):
        found = [scores(Split.load(name, seed)) for seed in range(n_splits)]
        means = {key: round(float(np.mean([each[key] for each in found])), 4) for key in found[0]}
        yield {"data": name} | means | {"splits": n_splits}


def scores(split: Split) -> dict[str, float]:
    """Of one split."""
    held_out, fit = split.held_out, rw.MatrixCompletion().fit(split.train)
    entries = held_out.row_labels[held_out.rows], held_out.col_labels[held_out.cols]
    predicted = {form: fit.predict_entries(*entries, decode=how) for form, how in FORMS.items()}
    errors = {form: np.abs(given - held_out.targets) for form, given in predicted.items()}
    found = {f"{form}_MAE": float(errors[form].mean()) for form in ("link", "round", "median")}
    return found | {f"{form}_hits_%": 100 * float((errors[form] < 0.01).mean()) for form in ("round", "class")}
