"""Fit, score, save and draw on synthetic matrices with a known truth; ``make demo`` runs it.

Run it: python examples/demo.py [FOLDER]   (writes demo.rankwise and rank_path.png; demo-output by default)
"""

import sys
import time
from pathlib import Path

import matplotlib.pyplot as plt

import rankwise as rw

start, folder = time.perf_counter(), Path(*sys.argv[1:2] or ["demo-output"])
folder.mkdir(parents=True, exist_ok=True)

# 1. Make signs and ratings: dense enough to learn the planted rank, noisy enough to overfit beyond it.
signs = rw.datasets.signed_network(1500, 1000, rank=4, density=0.2, flip=0.05, random_state=1)
stars = rw.datasets.ratings(1500, 1000, rank=5, density=0.13, noise=0.5, random_state=1)
tasks = {
    "Signed network": (signs, "logistic", ["eglrl", "glrl"], rw.selection.sign_accuracy, "accuracy"),
    "Ratings": (stars, "square", ["r1mp"], rw.selection.root_mean_squared_error, "RMSE, stars"),
}

# 2. Fit methods of the paper, scored on a held-out tenth of the entries after each rank, and the default estimator.
scores, truths = {}, {}
for title, (data, loss, methods, score, unit) in tasks.items():
    train, test = rw.selection.split_entries(data.observations, 0.1)
    for method in methods:
        result = rw.solve(rw.Problem(train, loss), method, rank=10, held_out=test, score=score, random_state=1)
        scores[title, method] = [record.score for record in result.history]
    truths[title] = score(test.targets, data.truth.at(test.rows, test.cols))
    default = rw.MatrixCompletion(random_state=1).fit(train)
    by_default = score(test.targets, default.model_.at(test.rows, test.cols))

    # 3. Print held-out scores by rank, and those of the planted truth.
    print(f"\n{title}: {data.about}; {loss} loss; held-out {unit}")
    print("  rank", *(f"{method.upper():>8}" for method in methods))
    for rank in range(1, 11):
        print(f"{rank:6}", *(f"{scores[title, method][rank - 1]:8.4f}" for method in methods))
    print(f" truth {truths[title]:8.4f}\nMatrixCompletion() with default parameters: {by_default:.4f}")

# 4. Save and load the estimator, and predict at three ranks of its path.
estimator = rw.MatrixCompletion("logistic", rank=10, method="eglrl", random_state=1).fit(signs.observations)
estimator.save(folder / "demo.rankwise")
model = rw.load(folder / "demo.rankwise")
rows, cols = [0, 7, 1499], [0, 9, 999]
print(f"\nProbabilities of +1 at three entries, by {folder / 'demo.rankwise'}")
for rank in (1, 4, 10):
    chances = model.predict_entries(rows, cols, rank=rank, scale="response")
    print(f"  rank {rank:2}:", *(f"{chance:.0%}" for chance in chances))

# 5. Draw the scores against the rank, with the planted truth.
figure, panels = plt.subplots(1, 2, figsize=(10.4, 4.4), layout="constrained")
for axes, (title, (data, _, methods, _, unit)) in zip(panels, tasks.items(), strict=True):
    for method, marker in zip(methods, "os", strict=False):
        axes.plot(range(1, 11), scores[title, method], marker=marker, label=method.upper())
    axes.axhline(truths[title], color="black", linestyle="--", label="planted truth")
    axes.axvline(data.truth.rank, color="grey", linestyle=":", label="planted rank")
    axes.set(title=title, xlabel="rank", ylabel=f"held-out {unit}")
    axes.legend()
figure.savefig(folder / "rank_path.png", dpi=150)
print(f"\nPicture: {folder / 'rank_path.png'}\nTime: {time.perf_counter() - start:.1f} s in all")
