"""Movie recommendations: fit on half of the ratings, score on the other half, recommend.

Run it: python examples/movies.py
"""

import matplotlib.pyplot as plt
import numpy as np

import rankwise as rw

# 1. Load MovieLens 100K if `rankwise data fetch movielens-100k` has downloaded it, else make synthetic ratings.
if rw.datasets.find(rw.datasets.get("movielens-100k")):
    ratings = rw.datasets.load("movielens-100k")
else:
    made = rw.datasets.ratings(200, 150, rank=3, density=0.3).observations
    stars = np.clip(np.round(3.4 + made.targets), 1, 5)
    ratings = rw.Observations.from_coo(made.rows, made.cols, stars, made.shape, labels=(range(1, 201), range(1, 151)))
print(f"{ratings.n_observed:,} ratings of {ratings.shape[1]:,} films by {ratings.shape[0]:,} users")

# 2. Fit on half of the ratings. A tenth of them is set aside to calibrate the intervals of step 5.
train, test = rw.selection.split_entries(ratings, 0.5)
model = rw.MatrixCompletion(calibration=0.1).fit(train)

# 3. Score the held-out ratings with every number of components; one fit contains all of them.
users, films = test.row_labels[test.rows], test.col_labels[test.cols]
ranks = range(model.model_.rank + 1)
errors = [
    rw.selection.root_mean_squared_error(test.targets, model.predict_entries(users, films, rank=rank)) for rank in ranks
]
print(f"RMSE {errors[-1]:.3f} stars; without components, from the offsets of users and films alone, {errors[0]:.3f}")

# 4. Recommend films that the user has not rated: those with the highest predictions less a share of their uncertainty.
user = train.row_labels[0]
best, _ = model.recommend(user, 8)
stars = model.predict_entries([user] * 8, best)

# 5. Compute intervals that contain 80 % of new ratings.
low, high = model.predict_interval([user] * 8, best, coverage=0.8, clip=True)
for film, star, least, most in zip(best, stars, low, high, strict=True):
    print(f"film {film}: {star:.1f} stars, from {least:.1f} to {most:.1f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
left.plot(ranks, errors, marker="o", markersize=3)
left.set(xlabel="components used", ylabel="RMSE of held-out ratings, stars", title="Error by number of components")
right.errorbar(stars, range(8), xerr=[np.maximum(stars - low, 0), np.maximum(high - stars, 0)], fmt="o", capsize=3)
right.set_yticks(range(8), [f"film {film}" for film in best])
right.invert_yaxis()
right.set(xlabel="stars, with 80 % intervals", title=f"Recommended to user {user}")
figure.savefig("movies.png", dpi=80)
