"""Which interval widths are sharper: constant, by learned variances or by quantile fits? Decides `calibrate`'s default.

Synthetic matrices of 400 x 300 and rank 3, a quarter or nine tenths of them observed, with five kinds of noise, and
MovieLens 100K. Three tenths are held out for the scores; a tenth of the rest is used for calibration. At a coverage of
80 %: share of held-out targets inside, mean width, and interval score (width plus ten times the distance of targets
outside; lower is sharper). A mean width alone favors intervals that are too narrow where the noise is large.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

import rankwise as rw
from rankwise.model.intervals import Calibration, Spread
from rankwise.observations import Observations
from rankwise.selection import split_entries

from .common import Row

SHAPE = (400, 300)


def noises(clean: Observations, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """What is added to the entries, by name."""
    by_row, by_col = (np.exp(0.7 * rng.standard_normal(size)) for size in SHAPE)
    normal, level = rng.standard_normal(clean.n_observed), clean.targets
    return {
        "normal": 0.5 * normal,
        "Student t, 2.5 degrees": 0.4 * rng.standard_t(2.5, clean.n_observed),
        "normal, scale by row": 0.4 * by_row[clean.rows] * normal,
        "normal, scale by column": 0.4 * by_col[clean.cols] * normal,
        "normal, scale by level": 0.3 * np.exp(0.7 * level) * normal,
    }


def data() -> Iterator[tuple[str, Observations, int | str]]:
    """Name, entries, and rank."""
    for density in (0.25, 0.9):
        clean = rw.datasets.ratings(*SHAPE, 3, density, noise=0.0).observations
        for name, noise in noises(clean, np.random.default_rng(0)).items():
            noisy = Observations.from_coo(clean.rows, clean.cols, clean.targets + noise, SHAPE)
            yield f"{name}, {density:.0%} observed", noisy, 8
    yield "MovieLens 100K", rw.datasets.load("movielens-100k"), "auto"


def run() -> Iterator[Row]:
    """Coverage, width and score of each way on each data set."""
    for name, observations, rank in data():
        rest, test = split_entries(observations, 0.3, 5)
        train, held_out = split_entries(rest, 0.1, 1)
        fit = rw.MatrixCompletion(rank=rank).fit(train)
        entries = (test.rows, test.cols, test.targets)
        even = Spread(1.0, *map(np.ones, observations.shape))
        plain = replace(fit.model_, posterior=None)
        flat = Calibration.on(plain, even, held_out.rows, held_out.cols, held_out.targets)
        models = {"one for all": replace(plain, calibration=flat)}
        models |= {by: fit.calibrate(held_out, by=by).model_ for by in ("variances", "quantiles", "auto")}
        for by, model in models.items():
            low, high = model.calibration.interval(model, test.rows, test.cols, 0.8)
            row: Row = {"data": name, "widths": by, "coverage_%": round(100 * inside(test, low, high), 1)}
            row |= {"mean_width": round(float(np.mean(high - low)), 3)}
            yield row | {"interval_score": round(model.calibration.interval_score(model, entries, 0.8), 3)}


def inside(test: Observations, low: np.ndarray, high: np.ndarray) -> float:
    """Share of the targets between the ends."""
    return float(np.mean((low <= test.targets) & (test.targets <= high)))
