"""Recommendations from clicks: fit to who clicked what, and compare the ranking with popularity and a plain SVD.

Run it: python examples/clicks.py
"""

import matplotlib.pyplot as plt
import numpy as np

import rankwise as rw

# 1. Make clicks: users have a few of 30 interests, items are about a few of them, and some items are better known.
rng = np.random.default_rng(0)
interests, topics = rng.dirichlet(np.full(30, 0.05), 300), rng.dirichlet(np.full(30, 0.05), 200)
fame = np.exp(rng.standard_normal(200))
chances = 0.9 * interests @ (topics * fame[:, None]).T + 0.1 * fame / 30
chances = np.minimum(15 * chances / chances.sum(axis=1, keepdims=True), 1)
users, items = np.nonzero(rng.random(chances.shape) < chances)
clicks = rw.Observations.from_coo(users, items, np.ones(users.size), chances.shape)
print(f"{clicks.n_observed:,} clicks of {clicks.shape[0]} users on {clicks.shape[1]} items")

# 2. Hold out a fifth of every user's clicks and fit to the rest. The fit chooses its scoring rule by itself.
train, test = rw.selection.split_within_rows(clicks, 0.2)
model = rw.ImplicitFactorization().fit(train)
print(model.rule_)

# 3. Rankings to compare with: by the true chances, by an SVD of the matrix of zeros and ones, and the same for all.
plain = rw.ImplicitFactorization(rule=rw.solvers.ScoringRule(row_power=0, col_power=0, rank=20)).fit(train)
seen, everybody = model.model_.seen, np.ones((300, 1))
counts = np.bincount(train.cols, minlength=200).astype(float)[:, None]
ranked = {
    "true chances": rw.LowRankModel(np.tri(200), chances, np.eye(200), seen=seen),
    "ImplicitFactorization": model.model_,
    "plain SVD, rank 20": plain.model_,
    "most clicked": rw.LowRankModel(np.ones((1, 1)), everybody, counts, seen=seen),
}

# 4. Score the k items recommended to each user by how many of the held-out clicks they contain.
sizes = (1, 2, 5, 10, 20, 30, 50)
recall = {name: [rw.selection.ranking_scores(one, test, k).recall for k in sizes] for name, one in ranked.items()}
for name, shares in recall.items():
    print(f"{name}: {shares[sizes.index(20)]:.0%} of the held-out clicks are among 20 recommended items")

# 5. Why is an item recommended? By the items that the user has clicked.
(best, *_), _ = model.recommend(7, 5)
why, shares = model.explain(7, best, 3)
print(f"item {best} for user 7, because of items {', '.join(map(str, why))}")

figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
for (name, shares), style in zip(recall.items(), (":", "-", "--", "-."), strict=True):
    axes.plot(sizes, shares, style, marker="o", markersize=4, label=name, color="grey" if "true" in name else None)
axes.set(
    xlabel="recommended items", ylabel="share of held-out clicks", title="Recall on held-out clicks", ylim=(0, None)
)
axes.legend()
figure.savefig("clicks.png", dpi=80)
