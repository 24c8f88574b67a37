"""Run the code of docs/tutorial.md and write its output into the page: ``python docs/make_tutorial.py``.

The commands of console blocks run in a shell, and all Python blocks run in one namespace; printed text replaces the
text block that follows. Pictures are written to docs/pictures. Requires MovieLens 1M in RANKWISE_DATA
(`ml-1m/ml-1m.zip`, for the titles), `rankwise[plots,io,test]`, and Chromium for screenshots of the report.
"""

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pandas as pd
from playwright.sync_api import sync_playwright

PAGE = Path(__file__).resolve().with_name("tutorial.md")
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```\n(?:\n```text\n.*?^```\n)?", re.M | re.S)


def write_files(archive: Path) -> None:
    """Write ratings of the first 600 users, a tenth of them to a second file, and three pairs to the current folder."""
    how = {"sep": "::", "engine": "python", "encoding": "latin-1", "nrows": 100_000}
    with zipfile.ZipFile(archive) as files:
        ratings = pd.read_csv(files.open("ml-1m/ratings.dat"), names=["user", "id", "stars", "time"], **how)
        films = pd.read_csv(files.open("ml-1m/movies.dat"), names=["id", "film", "genres"], **how)
    ratings = ratings[ratings["user"] <= 600].merge(films).sample(frac=1, random_state=0)[["user", "film", "stars"]]
    ratings[: len(ratings) // 10].to_csv("new_ratings.csv", index=False)
    ratings[len(ratings) // 10 :].to_csv("ratings.csv", index=False)
    chosen = ["Toy Story (1995)", "Matrix, The (1999)", "Titanic (1997)"]
    pd.DataFrame({"user": 42, "film": chosen}).to_csv("pairs.csv", index=False)


def commands_run(text: str) -> str:
    """Return a console block with each command of `text` and its output, standard error included."""
    shown = ""
    for command in re.findall(r"^\$ (.*)$", text, re.M):
        done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            sys.exit(f"{command}\n{done.stdout}")
        output = re.sub(r"(step 1 of .*\n)(?:step .*\n)+(step .*\n)", r"\1...\n\2", done.stdout)
        shown += f"$ {command}\n" + "".join(f"{line.rstrip()}\n" for line in output.rstrip().splitlines())
    return f"```console\n{shown}```\n"


def python_run(text: str, names: dict) -> str:
    """Run a Python block in the namespace `names`; return the block and a text block with its output."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(text, names)
    output = printed.getvalue().rstrip()
    return f"```python\n{text}```\n" + (f"\n```text\n{output}\n```\n" if output else "")


def take_screenshots(chromium: str) -> None:
    """Write screenshots of two sections of the report: scores at rank 4; recommendations at full rank, in dark mode."""
    with sync_playwright() as running:
        page = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"]).new_page(color_scheme="light")
        page.goto(Path("report.html").resolve().as_uri())
        page.add_style_tag(content="section { padding: 1em } #examples, #examples-title { display: none }")
        page.fill("#rank", "4")
        page.locator("#rank-section").screenshot(path="pictures/report-rank.png")
        page.emulate_media(color_scheme="dark")
        page.fill("#rank", page.get_attribute("#rank", "max"))
        page.fill("#row", "42")
        page.locator("#recommend-section").screenshot(path="pictures/report-recommend.png")


if __name__ == "__main__":
    archive, namespace = Path(os.environ["RANKWISE_DATA"]).resolve() / "ml-1m" / "ml-1m.zip", {}
    Path("tutorial-output").mkdir()  # must not exist, because the commands do not overwrite files
    os.chdir("tutorial-output")
    Path("pictures").mkdir()
    write_files(archive)
    run = {"console": commands_run, "python": lambda text: python_run(text, namespace)}
    PAGE.write_text(BLOCK.sub(lambda block: run[block[1]](block[2]), PAGE.read_text()))
    take_screenshots(next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))))
    shutil.copytree("pictures", PAGE.parent / "pictures", dirs_exist_ok=True)
