"""Draw the pictures of the pages: ``python docs/make_pictures.py [NAME ...]`` runs all, or those named.

Names are `overview`, `report` (a screenshot, which requires Chromium and `rankwise[test]`) and those of the examples.
Pictures go to docs/pictures. Examples use real data if RANKWISE_DATA has it; the pictures in the repository do.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

import rankwise as rw

HERE = Path(__file__).resolve().parent


def overview() -> None:
    """Draw observed entries, the estimate, the truth, standard deviations, and the parts of the estimate."""
    rng = np.random.default_rng(3)
    along, across = np.linspace(0, 1, 60)[:, None], np.linspace(0, 1, 90)
    truth = 2 * np.sin(5 * along) * np.cos(4 * across) + 1.5 * np.cos(9 * along) * np.sin(8 * across) + along - across
    truth += np.sin(14 * along) * np.cos(13 * across)
    known = np.where(rng.random(truth.shape) < 0.3, truth + 0.3 * rng.normal(size=truth.shape), np.nan)
    model = rw.MatrixCompletion(rank=6).fit(known)
    parts = [model.reconstruct(rank=rank) for rank in range(4)]
    spread = model.predict_entries(*(each.ravel() for each in np.indices(truth.shape)), return_std=True)[1]
    above = {
        f"observed: {np.isfinite(known).mean():.0%} of the\nentries, with noise": known,
        "estimate": model.reconstruct(),
        "true matrix": truth,
        "standard deviation\nof the estimate": spread.reshape(truth.shape),
    }
    names = ("offsets of rows and columns", "+ component 1", "+ component 2", "+ component 3")
    below = dict(zip(names, (parts[0], *np.diff(parts, axis=0)), strict=True))
    figure, axes = plt.subplots(2, 4, figsize=(10.5, 4.5), layout="constrained")
    for axis, (name, matrix) in zip(axes.flat, [*above.items(), *below.items()], strict=True):
        colours = {"cmap": "viridis"} if "deviation" in name else {"cmap": "RdBu_r", "vmin": -3, "vmax": 3}
        image = axis.imshow(matrix, aspect="auto", interpolation="none", **colours)
        axis.set_title(name, fontsize="medium")
        axis.set(xticks=[], yticks=[])
        axis.set_facecolor("0.85")
        if "deviation" in name or name == names[-1]:
            figure.colorbar(image, ax=axis)
    axes[0, 0].set(ylabel="rows", xlabel="columns")
    figure.savefig("overview.png", dpi=72)
    error = np.sqrt(np.mean((model.reconstruct() - truth) ** 2))
    print(
        f"overview: rank {model.model_.rank}, error {error:.3f}, where the noise is 0.3 and the truth {truth.std():.3f}"
    )


def report() -> None:
    """Take a screenshot of the top of the report on the data of ``rankwise demo``."""
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as running:
        command = [sys.executable, "-m", "rankwise"]
        subprocess.run([*command, "demo", "-o", folder], check=True)
        page = Path(folder, "report.html")
        inputs = [f"{folder}/demo.rankwise", "--data", f"{folder}/held_out.csv"]
        subprocess.run([*command, "report", *inputs, "-o", page], check=True)
        window = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"]).new_page(
            viewport={"width": 900, "height": 1145}, color_scheme="light"
        )
        window.goto(page.as_uri())
        window.screenshot(path="report.png")


if __name__ == "__main__":
    (HERE / "pictures").mkdir(exist_ok=True)
    os.chdir(HERE / "pictures")
    drawn = {"overview": overview, "report": report}
    examples = {path.stem: path for path in sorted((HERE.parent / "examples").glob("*.py")) if path.stem != "demo"}
    for name in sys.argv[1:] or [*drawn, *examples]:
        print(f"\n{name}", flush=True)
        if name in drawn:
            drawn[name]()
        else:
            subprocess.run([sys.executable, examples[name]], env=os.environ | {"MPLBACKEND": "Agg"}, check=True)
