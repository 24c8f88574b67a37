"""``rankwise demo``: a few methods on synthetic ratings, compared on held-out entries."""

import time
from pathlib import Path

from ..datasets import ratings
from ..estimators import MatrixCompletion
from ..model import save
from ..observations import Observations
from ..selection import root_mean_squared_error, split_entries
from .files import check_output, csv_numbers, csv_writer
from .formatting import console, format_decimals, print_table
from .terminal import echo

RANK = 5  # of the planted matrix, and given to the methods that do not choose one
MODEL, HELD_OUT = "demo.rankwise", "held_out.csv"
LOSSES = {"r1mp": "square", "altmin": "square", "bayes": "auto"}  # by method


def run(output: Path | None, force: bool) -> None:
    """Fit each method and print its score; with a folder, write the last model and the held-out entries to it."""
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        for name in (MODEL, HELD_OUT):
            check_output(output / name, force)
    planted = ratings(1500, 1000, rank=RANK, density=0.13, noise=0.5, random_state=1)
    train, test = split_entries(planted.observations, 0.1)
    rows = []
    for method, loss in LOSSES.items():
        echo(f"Fitting with method {method} ...", err=True)
        start = time.perf_counter()
        rank = "auto" if method == "bayes" else RANK
        model = MatrixCompletion(loss, rank, method=method, random_state=1).fit(train).model_
        seconds = time.perf_counter() - start
        compiling = model.facts["compile_seconds"]
        error = root_mean_squared_error(test.targets, model.at(test.rows, test.cols))
        rows.append((method, f"{model.rank}", format_decimals(error), f"{seconds - compiling:.1f}", f"{compiling:.1f}"))
    truth = root_mean_squared_error(test.targets, planted.truth.at(test.rows, test.cols))
    rows.append(("planted matrix", f"{RANK}", format_decimals(truth), "", ""))
    out = console()
    columns = ("method", ">rank", ">held-out RMSE", ">seconds", ">seconds to compile, once")
    print_table(out, f"{planted.about}; a tenth is held out", columns, rows)
    if output is not None:
        save(model, output / MODEL)
        _write(test, output / HELD_OUT)
        out.print(f"Model of method {method}: {output / MODEL}\nHeld-out entries: {output / HELD_OUT}")
        out.print(f"Next: rankwise report {output / MODEL} --data {output / HELD_OUT}")


def _write(entries: Observations, path: Path) -> None:
    with csv_writer(path) as writer:
        writer.writerow(("user", "item", "rating"))
        writer.writerows(zip(entries.rows, entries.cols, csv_numbers(entries.targets), strict=True))
