"""Which `risk` of `recommend` ranks best, and does it beat a list of the most rated columns?

`planted books`: 30 sets of ratings of which a few books have most and many have one or two; readers choose by taste.
`movielens-100k`: the published ratings. A fifth of the entries is set aside and not used; recall and NDCG at 20 are
those of a tenth of the other entries, among them the ratings of at least 8 of 10, or 4 of 5 stars. For the books, means
over the sets, with the standard error of the difference to the most rated ones.
"""

from collections.abc import Iterator

import numpy as np

import rankwise as rw
from rankwise.observations import Observations
from rankwise.selection import most_popular, ranking_scores, split_entries

from .common import Row

RISKS = (0, 10, 20, 30, 40, 60)


def books(seed: int, shape: tuple[int, int] = (300, 600), n: int = 24_000) -> Observations:
    """Ratings from about 1 to 14, chosen among `n` encounters of readers with books by popularity and taste."""
    rng, (n_users, n_items) = np.random.default_rng(seed), shape
    popular = np.exp(1.8 * rng.standard_normal(n_items))
    users, items = rng.integers(n_users, size=n), rng.choice(n_items, n, p=popular / popular.sum())
    taste, kind = rng.standard_normal((n_users, 3)), rng.standard_normal((n_items, 3))
    match = (taste[users] * kind[items]).sum(axis=1)
    stars = 7.6 + 0.5 * rng.standard_normal(n_items)[items] + 0.4 * match + 1.4 * rng.standard_normal(n)
    chosen = np.flatnonzero(rng.random(n) < 1 / (1 + np.exp(1 - 1.5 * match)))
    chosen = chosen[np.unique(users[chosen] * n_items + items[chosen], return_index=True)[1]]
    return Observations.from_coo(users[chosen], items[chosen], stars[chosen], shape)


def scores(ratings: Observations, least: float) -> dict[str, np.ndarray]:
    """Recall and NDCG of the most rated columns and of every risk."""
    train, validation = split_entries(split_entries(ratings, 0.2)[0], 0.1)
    model = rw.MatrixCompletion().fit(train).model_
    ranked = {"most ratings": ranking_scores(most_popular(model), validation, least=least)}
    ranked |= {f"risk={risk}": ranking_scores(model, validation, least=least, risk=risk) for risk in RISKS}
    return {name: np.array([each.recall, each.ndcg]) for name, each in ranked.items()}


def run(n_sets: int = 30) -> Iterator[Row]:
    """A row for each ranking of each data set."""
    sets = [scores(books(20 + seed), 8) for seed in range(n_sets)]
    for name in sets[0]:
        found = np.array([each[name] for each in sets])
        gain = found - [each["most ratings"] for each in sets]
        means, error = found.mean(axis=0).round(4), (gain.std(axis=0) / n_sets**0.5).round(4)
        row: Row = {"data": "planted books", "ranking": name, "recall": float(means[0]), "ndcg": float(means[1])}
        yield row | {"recall_gain_error": float(error[0]), "ndcg_gain_error": float(error[1])}
    for name, each in scores(rw.datasets.load("movielens-100k"), 4).items():
        yield {
            "data": "movielens-100k",
            "ranking": name,
            "recall": round(float(each[0]), 4),
            "ndcg": round(float(each[1]), 4),
        }
