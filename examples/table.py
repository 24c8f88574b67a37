"""Filling the gaps of a table whose columns are numbers, grades, yes or no, and categories.

Run it: python examples/table.py
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_wine

import rankwise as rw

# 1. A table of 178 wines: eight measurements, and three more as people note them down; the maker is a category.
wine = load_wine(as_frame=True)
table = wine.data[["alcohol", "malic_acid", "ash", "magnesium", "total_phenols", "flavanoids", "hue", "proline"]].copy()
colour = pd.cut(wine.data["color_intensity"], [0, 3, 5, 20], labels=["pale", "medium", "deep"])  # ordered
table["colour"] = colour
table["astringent"] = (wine.data["proanthocyanins"] > 1.6).astype("boolean")
table["maker"] = wine.target.map({0: "Anna", 1: "Bruno", 2: "Carla"}).astype(object)

# 2. Lose a fifth of the cells.
hidden = np.random.default_rng(0).random(table.shape) < 0.2
gaps = table.mask(hidden)
print(f"{hidden.sum()} of {table.size} cells are missing; complete rows: {len(gaps.dropna())} of {len(gaps)}")

# 3. Fill them. Each column gets the loss of its type, and comes back in its type.
filled = rw.LowRankImputer().fit_transform(gaps)
assert (filled.dtypes == gaps.dtypes).all() and not filled.isna().any(axis=None)

# 4. The plain way, to compare with: the column's median, or its most frequent value.
plain = gaps.apply(lambda column: column.fillna(column.median() if column.dtype == float else column.mode()[0]))

# 5. How far off are they? Numbers: mean absolute error; levels: steps between them; the rest: share of wrong ones.


def error(column: str, guess: pd.DataFrame) -> float:
    """Mean error of the hidden cells of a column."""
    there = hidden[:, table.columns.get_loc(column)]
    right, guessed = table[column][there], guess[column][there]
    if column == "colour":
        right, guessed = right.cat.codes, guessed.cat.codes
    numbers = column == "colour" or right.dtype == float
    return float(np.abs(right - guessed).mean() if numbers else (right != guessed).mean())


shares = {column: error(column, filled) / error(column, plain) for column in table}
print("\n".join(f"{column}: error {share:.2f} of the plain one's" for column, share in shares.items()))

figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
axes.barh(list(shares), list(shares.values()))
axes.axvline(1, color="black", linestyle="--")
axes.invert_yaxis()
axes.set(
    xlabel="error of the filled cells; 1 is the median's or the most frequent value's",
    title="A fifth of the cells, filled",
)
figure.savefig("table.png", dpi=80)
