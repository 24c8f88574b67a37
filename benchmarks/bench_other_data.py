"""Does the default work on data unlike the four sets it was developed on? No parameter is set; LIBMF is tuned on each.

Synthetic offsets and factors, then noise and a scale: jokes rated -10 to 10 by nearly all, ten stars, three ratings per
row, two signed networks of other balance, counts, heavy tails, outliers, no factors at all, and tiny matrices. A fifth
is held out. `truth` is the cost of the true values, clipped to the range of the data: about the lowest possible cost.
Cost: RMSE, or wrong signs in %. `left` is the excess cost over the truth, relative to that of the offsets alone: 0 is
the truth, 1 is offsets alone, above 1 is worse than offsets alone; empty where the truth consists of offsets only.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import rankwise as rw
from rankwise.observations import Observations
from rankwise.solvers import fit_offsets

from .common import Meter, NoAnswerError, Row, Split, default_problem
from .peers import fitted, search, why_not

Array = np.ndarray
Observe = Callable[[Array, np.random.Generator], Array]


def same(x: Array) -> Array:
    """The planted value itself."""
    return x


def normal(deviation: float) -> Observe:
    """Gaussian noise."""
    return lambda x, rng: x + deviation * rng.standard_normal(x.size)


def heavy(scale: float, degrees: float = 2.0) -> Observe:
    """Student's noise, of infinite variance at two degrees of freedom."""
    return lambda x, rng: x + scale * rng.standard_t(degrees, x.size)


def outliers(deviation: float, share: float, size: float) -> Observe:
    """Gaussian noise, and a share of entries thrown off."""
    return lambda x, rng: normal(deviation)(x, rng) + size * (rng.random(x.size) < share) * rng.choice((-1, 1), x.size)


def signs(deviation: float) -> Observe:
    """Signs after Gaussian noise."""
    return lambda x, rng: np.where(normal(deviation)(x, rng) < 0, -1.0, 1.0)


def poisson(x: Array, rng: np.random.Generator) -> Array:
    """Counts with the logarithm of their mean planted."""
    return rng.poisson(np.exp(x)).astype(float)


@dataclass(frozen=True)
class Kind:
    """How a data set is made: size, entries per row (log-normal about it), planted parts, noise, and scale."""

    shape: tuple[int, int]
    per_row: float
    rank: int
    factors: float
    offsets: float
    level: float
    observe: Observe
    scale: Callable[[Array], Array] = same
    skew: float = 1.0

    def make(self, seed: int = 0) -> tuple[Split, Array]:
        """A split, and the planted values at its held-out entries."""
        rng = np.random.default_rng(seed)
        rows, cols = self._pattern(rng)
        U, V = (rng.standard_normal((size, self.rank)) for size in self.shape)
        a, b = (self.offsets * rng.standard_normal(size) for size in self.shape)
        shares = self.factors * np.sqrt(0.8 ** np.arange(self.rank) / max(self.rank, 1))
        truth = self.level + a[rows] + b[cols] + np.einsum("ij,ij->i", U[rows] * shares, V[cols])
        targets = self.scale(self.observe(truth, rng))
        split = Split.of(Observations.from_coo(rows, cols, targets, self.shape), 0.2, 1)
        known = Split.of(Observations.from_coo(rows, cols, truth, self.shape), 0.2, 1).held_out.targets
        return split, np.exp(known) if self.observe is poisson else known

    def _pattern(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """Different cells, popular rows and columns more often."""
        n_rows, n_cols = self.shape
        counts = np.maximum(1, self.per_row * np.exp(0.5 * self.skew * rng.standard_normal(n_rows)))
        likely = np.exp(self.skew * rng.standard_normal(n_cols))
        edges = np.cumsum(likely) / likely.sum()
        rows = np.repeat(np.arange(n_rows), counts.astype(int))
        cols = np.minimum(np.searchsorted(edges, rng.random(rows.size)), n_cols - 1)
        return np.divmod(np.unique(rows * n_cols + cols), n_cols)


def stars(most: int) -> Callable[[Array], Array]:
    """Rounded to whole stars from 1 on."""
    return lambda x: np.clip(np.round(x), 1, most)


KINDS = {
    "jokes, -10 to 10": Kind((5000, 100), 250, 4, 2.5, 2.0, 1.0, normal(3.0), lambda x: np.clip(x, -10, 10), 0.3),
    "ten stars": Kind((4000, 1500), 60, 8, 1.2, 0.9, 7.0, normal(1.2), stars(10)),
    "five stars, 3 per row": Kind((20000, 3000), 3, 5, 0.5, 0.5, 3.8, normal(0.7), stars(5)),
    "signs, balanced and sparse": Kind((8000, 8000), 12, 5, 1.0, 0.3, 0.0, signs(0.5)),
    "signs, 95 % positive": Kind((4000, 4000), 40, 3, 0.6, 0.8, 2.2, signs(0.6)),
    "counts": Kind((3000, 1000), 60, 4, 0.5, 0.5, 0.5, poisson),
    "Student t, 2 degrees": Kind((3000, 1000), 60, 5, 1.0, 0.5, 0.0, heavy(0.5)),
    "a tenth of outliers": Kind((3000, 1000), 60, 5, 1.0, 0.5, 0.0, outliers(0.3, 0.1, 5.0)),
    "offsets only": Kind((3000, 1000), 30, 0, 0.0, 0.7, 3.5, normal(0.8)),
    "noise only": Kind((3000, 1000), 30, 0, 0.0, 0.0, 3.5, normal(1.0)),
    "rank 60": Kind((3000, 1000), 200, 60, 1.5, 0.3, 0.0, normal(0.3)),
    "nearly exact": Kind((500, 400), 100, 3, 1.0, 0.3, 0.0, normal(1e-3), skew=0.3),
    "tiny, 30 x 20": Kind((30, 20), 10, 2, 1.0, 0.5, 3.0, normal(0.3), skew=0.3),
    "tiny, 8 x 6": Kind((8, 6), 4, 1, 1.0, 0.5, 3.0, normal(0.3), skew=0.3),
}


def costs(split: Split, truth: Array) -> Iterator[tuple[str, float, float]]:
    """Method, cost and seconds."""
    rows, cols = split.held_out.rows, split.held_out.cols
    yield "truth", split.cost(truth), 0.0
    offsets = fit_offsets(default_problem(split))
    yield "offsets", split.cost(offsets.at(rows, cols)), 0.0
    rw.MatrixCompletion(max_iter=1).fit(split.train)  # loads the kernels
    with Meter() as meter:
        fit = rw.MatrixCompletion().fit(split.train)
    yield "rankwise", split.cost(fit.model_.at(rows, cols)), meter.seconds
    if not why_not("libmf", split):
        choice = search("libmf", split)
        predicted, meter = fitted("libmf", split, choice.settings)
        yield "libmf", split.cost(predicted), choice.seconds + meter.seconds


def run(names: tuple[str, ...] = tuple(KINDS)) -> Iterator[Row]:
    """One row per kind of data."""
    for name in names:
        split, truth = KINDS[name].make()
        row: Row = {"data": name, "shape": "{} x {}".format(*split.train.shape), "entries": split.train.n_observed}
        try:
            for method, cost, seconds in costs(split, truth):
                row[method] = round(cost, 4)
                if seconds:
                    row[f"{method}_s"] = round(seconds, 2)
        except NoAnswerError as error:
            row["note"] = str(error)
        above = row["offsets"] - row["truth"]
        row["left"] = round((row["rankwise"] - row["truth"]) / above, 3) if above > 0.01 * row["truth"] else ""
        yield row
