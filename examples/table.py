"""Impute a table whose columns are numbers, an ordered category, a boolean and a category.

Run it: python examples/table.py
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_wine

import rankwise as rw

# 1. Load 178 wines: eight measurements, an ordered category, a boolean, and the maker as a category.
wine = load_wine(as_frame=True)
table = wine.data[["alcohol", "malic_acid", "ash", "magnesium", "total_phenols", "flavanoids", "hue", "proline"]].copy()
colour = pd.cut(wine.data["color_intensity"], [0, 3, 5, 20], labels=["pale", "medium", "deep"])  # ordered
table["colour"] = colour
table["astringent"] = (wine.data["proanthocyanins"] > 1.6).astype("boolean")
table["maker"] = wine.target.map({0: "Anna", 1: "Bruno", 2: "Carla"}).astype(object)

# 2. Remove a fifth of the cells.
hidden = np.random.default_rng(0).random(table.shape) < 0.2
gaps = table.mask(hidden)
print(f"{hidden.sum()} of {table.size} cells are missing; complete rows: {len(gaps.dropna())} of {len(gaps)}")

# 3. Fill the gaps. Each column has the loss of its type, and keeps its type.
filled = rw.LowRankImputer().fit_transform(gaps)
assert (filled.dtypes == gaps.dtypes).all() and not filled.isna().any(axis=None)

# 4. Fill them with the column's median or most frequent value, for comparison.
plain = gaps.apply(lambda column: column.fillna(column.median() if column.dtype == float else column.mode()[0]))

# 5. Compare the errors: mean absolute error of numbers, distance in levels, or share of wrong values.


def error(column: str, guess: pd.DataFrame) -> float:
    """Return the mean error of a column's hidden cells."""
    cells = hidden[:, table.columns.get_loc(column)]
    right, guessed = table[column][cells], guess[column][cells]
    if column == "colour":
        right, guessed = right.cat.codes, guessed.cat.codes
    numbers = column == "colour" or right.dtype == float
    return float(np.abs(right - guessed).mean() if numbers else (right != guessed).mean())


shares = {column: error(column, filled) / error(column, plain) for column in table}
print("\n".join(f"{column}: error {share:.2f} times that of the median or mode" for column, share in shares.items()))

figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
axes.barh(list(shares), list(shares.values()))
axes.axvline(1, color="black", linestyle="--")
axes.invert_yaxis()
axes.set(
    xlabel="error of the filled cells; 1 is the median's or the most frequent value's",
    title="A fifth of the cells, filled",
)
figure.savefig("table.png", dpi=80)
