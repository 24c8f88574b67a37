"""Draw the pictures of the pages: ``python docs/make_pictures.py`` draws the overview and runs every example.

Pictures go to docs/pictures. The examples take real data from RANKWISE_DATA where it is there; ours have it.
"""

import os
import subprocess
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

import rankwise as rw

HERE = Path(__file__).resolve().parent


def overview() -> None:
    """What is known, what is learned from it, the truth, how sure it is; and what the learned matrix is a sum of."""
    rng = np.random.default_rng(3)
    along, across = np.linspace(0, 1, 60)[:, None], np.linspace(0, 1, 90)
    truth = 2 * np.sin(5 * along) * np.cos(4 * across) + 1.5 * np.cos(9 * along) * np.sin(8 * across) + along - across
    truth += np.sin(14 * along) * np.cos(13 * across)
    known = np.where(rng.random(truth.shape) < 0.3, truth + 0.3 * rng.normal(size=truth.shape), np.nan)
    model = rw.MatrixCompletion(rank=6).fit(known)
    parts = [model.reconstruct(rank=rank) for rank in range(4)]
    spread = model.predict_entries(*(each.ravel() for each in np.indices(truth.shape)), return_std=True)[1]
    above = {
        f"what is known: {np.isfinite(known).mean():.0%} of the\ncells, with noise; grey is unknown": known,
        "→ what rankwise learns": model.reconstruct(),
        "the truth,\nwhich it has not seen": truth,
        "how unsure it is\n(standard deviation)": spread.reshape(truth.shape),
    }
    names = ("= offsets of rows and columns", "+ component 1", "+ component 2", "+ component 3")
    below = dict(zip(names, (parts[0], *np.diff(parts, axis=0)), strict=True))
    figure, axes = plt.subplots(2, 4, figsize=(10.5, 4.5), layout="constrained")
    for axis, (name, matrix) in zip(axes.flat, [*above.items(), *below.items()], strict=True):
        colours = {"cmap": "viridis"} if "unsure" in name else {"cmap": "RdBu_r", "vmin": -3, "vmax": 3}
        image = axis.imshow(matrix, aspect="auto", interpolation="none", **colours)
        axis.set_title(name, fontsize="medium")
        axis.set(xticks=[], yticks=[])
        axis.set_facecolor("0.85")
        if "unsure" in name or name == names[-1]:
            figure.colorbar(image, ax=axis)
    axes[0, 0].set(ylabel="rows", xlabel="columns")
    figure.savefig("overview.png", dpi=72)
    error = np.sqrt(np.mean((model.reconstruct() - truth) ** 2))
    print(
        f"overview: rank {model.model_.rank}, error {error:.3f}, where the noise is 0.3 and the truth {truth.std():.3f}"
    )


if __name__ == "__main__":
    (HERE / "pictures").mkdir(exist_ok=True)
    os.chdir(HERE / "pictures")
    overview()
    for example in sorted((HERE.parent / "examples").glob("*.py")):
        print(f"\n{example.name}", flush=True)
        subprocess.run([sys.executable, example], env=os.environ | {"MPLBACKEND": "Agg"}, check=True)
