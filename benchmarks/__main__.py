"""Run all benchmarks, or those named: ``python -m benchmarks [name ...]``; store JSON and one Markdown page."""

import importlib
import json
import sys
from pathlib import Path

from rankwise import DataError

from .common import RESULTS, store, table

FOLDER = Path(__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("bench_*.py"))


def page() -> str:
    """All stored results as one Markdown page."""
    parts = ["# Benchmarks\n\n`make bench` rewrites this page. Ratios within a run carry over; seconds do not.\n"]
    for name in NAMES:
        stored = RESULTS / f"{name}.json"
        if stored.exists():
            content = json.loads(stored.read_text())
            about = ", ".join(f"{key} {value}" for key, value in content["machine"].items())
            parts.append(f"## {name}\n\n{content['question']}\n\n{table(content['rows'])}\n\n({about})\n")
    return "\n".join(parts)


def main(names: list[str]) -> None:
    """Run, print, store."""
    for name in names or NAMES:
        module = importlib.import_module(f"benchmarks.{name}")
        question = (module.__doc__ or "").strip()
        print(f"\n{name}: {question}\n", flush=True)
        try:
            print(table(store(name, question, module.run())), flush=True)
        except DataError as error:  # real data is not there; the others can run without it
            print(f"left out: {error}", flush=True)
        (FOLDER / "README.md").write_text(page())


if __name__ == "__main__":
    main(sys.argv[1:])
