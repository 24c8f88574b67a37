"""Synthetic tables with columns of several types, generated from known latent factors."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from .._arrays import Array
from .._checks import is_whole
from .._errors import SettingError
from ..selection.splits import generator

COLUMN_KINDS = ("real", "boolean", "ordered", "category", "count")
GRADES = ("E", "D", "C", "B", "A")  # levels of the ordered columns, lowest first
STRENGTH = 2.0  # standard deviation of the scores
COLOURS = ("blue", "green", "red", "white")  # values of the category columns


@dataclass(frozen=True, eq=False)
class MixedTable:
    """Table with columns of several kinds that depend on the same few latent factors of the rows.

    Attributes
    ----------
    columns : dict of str to ndarray of shape (n_rows,)
        The complete table: float, bool, int, or str.
    kinds : dict of str to str
        "real", "boolean", "ordered" (levels E to A), "category" or "count".
    hidden : ndarray of bool, shape (n_rows, n_columns)
        Cells to treat as missing.
    truth : dict of str to ndarray of shape (n_rows,)
        Best prediction of each cell from the true factors: mean, more probable value, median level, most probable
        category, mean count.
    about : str
        Description in one sentence.

    Examples
    --------
    >>> import rankwise as rw
    >>> table = rw.datasets.mixed_table(50, 5)
    >>> print(sorted(set(table.kinds.values())))
    ['boolean', 'category', 'count', 'ordered', 'real']
    """

    columns: dict[str, Array]
    kinds: dict[str, str]
    hidden: Array
    truth: dict[str, Array]
    about: str


def mixed_table(
    n_rows: int = 200,
    n_columns: int = 30,
    rank: int = 3,
    missing: float = 0.3,
    random_state: int = 0,
) -> MixedTable:
    """Generate a table of real, boolean, ordered, category and count columns, in turn, from a few latent factors.

    Every row has `rank` hidden normal factors, and every column mixes them with weights of its own to a score of
    standard deviation 2. Real columns are that score plus normal noise of standard deviation 1, in a unit of
    their own; the others are drawn from it by the logistic, proportional-odds and softmax models; counts are Poisson
    with a log-mean that spreads by a third of the score.

    Parameters
    ----------
    n_rows : int, default=200
    n_columns : int, default=30
    rank : int, default=3
    missing : float, default=0.3
        Share of the cells that is hidden, completely at random.
    random_state : int, default=0

    Examples
    --------
    >>> import rankwise as rw
    >>> table = rw.datasets.mixed_table(50, 5, missing=0.2)
    >>> print(list(table.columns), table.hidden.shape)
    ['real_0', 'boolean_0', 'ordered_0', 'category_0', 'count_0'] (50, 5)
    """
    for name, number in (("n_rows", n_rows), ("n_columns", n_columns), ("rank", rank)):
        if not is_whole(number) or number < 1:
            raise SettingError(f"`{name}` must be an integer of at least 1, got {number!r}.")
    if not 0 <= missing < 1:
        raise SettingError(f"`missing` must be a share from 0 to below 1, got {missing!r}.")
    rng = generator(random_state)
    factors = rng.standard_normal((n_rows, rank))
    columns: dict[str, Array] = {}
    truth: dict[str, Array] = {}
    kinds: dict[str, str] = {}
    for j in range(n_columns):
        kind = COLUMN_KINDS[j % len(COLUMN_KINDS)]
        name = f"{kind}_{j // len(COLUMN_KINDS)}"
        kinds[name] = kind
        columns[name], truth[name] = _DRAW[kind](_Scores(factors, rng), rng)
    hidden = rng.random((n_rows, n_columns)) < missing
    about = f"a table of {n_rows} rows and {n_columns} columns of five kinds, rank {rank}, {missing:.0%} hidden"
    return MixedTable(columns, kinds, hidden, truth, about)


@dataclass
class _Scores:
    """Draw scores of a column: a random linear combination of the factors."""

    factors: Array
    rng: Generator

    def __call__(self) -> Array:
        weights = self.rng.standard_normal(self.factors.shape[1])
        return np.asarray(self.factors @ weights * (STRENGTH / np.linalg.norm(weights)))


def _real(scores: _Scores, rng: Generator) -> tuple[Array, Array]:
    mean, unit, score = 100 * rng.standard_normal(), 10 ** rng.uniform(-2, 2), scores()
    return mean + unit * (score + rng.standard_normal(score.size)), mean + unit * score


def _boolean(scores: _Scores, rng: Generator) -> tuple[Array, Array]:
    score = rng.standard_normal() + scores()
    return score + rng.logistic(size=score.size) > 0, score > 0


def _ordered(scores: _Scores, rng: Generator) -> tuple[Array, Array]:
    score, thresholds = scores(), np.sort(rng.normal(0, 2, len(GRADES) - 1))
    levels = (np.searchsorted(thresholds, part) for part in (score + rng.logistic(size=score.size), score))
    drawn, median = (np.array(GRADES)[part] for part in levels)
    return drawn, median


def _category(scores: _Scores, rng: Generator) -> tuple[Array, Array]:
    score = np.stack([rng.standard_normal() + scores() for _ in COLOURS])
    drawn = score + rng.gumbel(size=score.shape)  # the largest has the softmax probabilities
    return np.array(COLOURS)[drawn.argmax(axis=0)], np.array(COLOURS)[score.argmax(axis=0)]


def _count(scores: _Scores, rng: Generator) -> tuple[Array, Array]:
    mean = np.exp(rng.uniform(0, 3) + scores() / 3)
    return rng.poisson(mean), mean


_DRAW = {"real": _real, "boolean": _boolean, "ordered": _ordered, "category": _category, "count": _count}
