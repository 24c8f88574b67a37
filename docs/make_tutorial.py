"""Run what docs/tutorial.md shows, and write what came out back into it: ``python docs/make_tutorial.py``.

The page is its own source: every command of a console block runs, every Python block runs in one namespace, the block of
text after it gets what was printed, and the pictures that it saves go to docs/pictures. Needs MovieLens 1M in
RANKWISE_DATA (`ml-1m/ml-1m.zip`, for the titles), `rankwise[plots,io]`, and Chromium for the picture of the report.
"""

import contextlib
import csv
import io
import os
import random
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

PAGE = Path(__file__).resolve().with_name("tutorial.md")
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```\n(?:\n```text\n.*?^```\n)?", re.M | re.S)
USERS, PAIRS = 600, ("Toy Story (1995)", "Matrix, The (1999)", "Titanic (1997)")
SHOTS = {"report.png": ("900,1250", []), "report-phone.png": ("390,800", ["--blink-settings=preferredColorScheme=0"])}


def write_files(archive: Path) -> None:
    """Ratings of the first users by title, a tenth of them apart, and a few pairs, in the current folder."""
    with zipfile.ZipFile(archive) as files:
        films, lines = (
            files.read(f"ml-1m/{name}.dat").decode("latin-1").splitlines() for name in ("movies", "ratings")
        )
    titles = dict(line.split("::")[:2] for line in films)
    fields = [line.split("::")[:3] for line in lines]
    entries = [(user, titles[film], stars) for user, film, stars in fields if int(user) <= USERS]
    random.Random(0).shuffle(entries)
    write("new_ratings.csv", ("user", "film", "stars"), entries[: len(entries) // 10])
    write("ratings.csv", ("user", "film", "stars"), entries[len(entries) // 10 :])
    write("pairs.csv", ("user", "film"), [(42, film) for film in PAIRS])


def write(name: str, header: tuple[str, ...], lines: list) -> None:
    with open(name, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *lines])


def commands_run(text: str) -> str:
    """A console block anew: each line that begins with a dollar, and what the command says, on both channels."""
    shown = ""
    for command in re.findall(r"^\$ (.*)$", text, re.M):
        done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            sys.exit(f"{command}\n{done.stdout}")
        said = re.sub(r"(step 1 of .*\n)(?:step .*\n)+(step .*\n)", r"\1...\n\2", done.stdout)
        shown += f"$ {command}\n" + "".join(f"{line.rstrip()}\n" for line in said.rstrip().splitlines())
    return f"```console\n{shown}```\n"


def python_run(text: str, names: dict) -> str:
    """A Python block, and what it printed."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(text, names)
    said = printed.getvalue().rstrip()
    return f"```python\n{text}```\n" + (f"\n```text\n{said}\n```\n" if said else "")


def main(folder: Path, data: Path) -> None:
    """Make the page and its pictures, working in an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "pictures").mkdir(parents=True)
    os.chdir(folder)
    write_files(data / "ml-1m" / "ml-1m.zip")
    names: dict = {}
    made = BLOCK.sub(
        lambda at: commands_run(at[2]) if at[1] == "console" else python_run(at[2], names), PAGE.read_text()
    )
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    for name, (size, extra) in SHOTS.items() if chromium else ():
        shot = f"--screenshot={folder / 'pictures' / name}"
        how = [chromium, "--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={size}", *extra, shot]
        subprocess.run([*how, (folder / "report.html").as_uri()], check=True, capture_output=True, timeout=120)
    shutil.copytree("pictures", PAGE.parent / "pictures", dirs_exist_ok=True)
    PAGE.write_text(made)


if __name__ == "__main__":
    main(Path("tutorial-output").resolve(), Path(os.environ["RANKWISE_DATA"]).resolve())
