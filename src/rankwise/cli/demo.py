"""`rankwise demo`: the main job from end to end, on data whose truth is known."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from .. import datasets, selection
from .._errors import MissingExtraError, SettingError
from ..datasets import Planted
from ..estimators import MatrixCompletion
from ..model import LowRankModel, load, save
from ..objectives import Problem
from ..observations import Observations
from ..report import Panel, rank_path
from ..solvers import Result, solve
from .tables import console, table


@dataclass(frozen=True)
class Task:
    """One kind of data, the methods that learn from it, and the score that judges them."""

    name: str
    make: Callable[[int], Planted]
    loss: str
    methods: tuple[str, ...]
    rank: int
    score: Callable[[Any, Any], float]
    score_name: str
    unit: float  # scores are shown as multiples of this
    digits: int


@dataclass(frozen=True)
class Outcome:
    """What came of a task."""

    task: Task
    planted: Planted
    held_out: Observations
    results: dict[str, Result]
    default: float  # score of `MatrixCompletion()`, as shown

    @property
    def truth(self) -> float:
        """Score of the planted truth on the held-out entries, as shown."""
        predicted = self.planted.truth.at(self.held_out.rows, self.held_out.cols)
        return self.task.score(self.held_out.targets, predicted) / self.task.unit

    def scores(self, method: str) -> list[float]:
        """Held-out scores at ranks 1, 2, ..., as shown."""
        return [record.score / self.task.unit for record in self.results[method].history if record.score is not None]


# Sizes and noise are such that the planted rank shows: dense enough to learn it, noisy enough to overfit beyond it.
TASKS = (
    Task(
        "Signed network",
        lambda seed: datasets.signed_network(1500, 1000, rank=4, density=0.2, flip=0.05, random_state=seed),
        "logistic",
        ("eglrl", "glrl"),
        10,
        selection.sign_accuracy,
        "accuracy, %",
        0.01,
        1,
    ),
    Task(
        "Ratings",
        lambda seed: datasets.ratings(1500, 1000, rank=5, density=0.13, noise=0.5, random_state=seed),
        "square",
        ("r1mp",),
        10,
        selection.root_mean_squared_error,
        "RMSE, stars",
        1.0,
        3,
    ),
)


def run(output: Path, seed: int, threads: int | None) -> None:
    """Fit, score, save, draw and reload; write ``demo.rankwise`` and ``rank_path.png`` into `output`."""
    start, out = time.perf_counter(), console()
    _make_folder(output)
    out.print("A tenth of the entries is held out; `value` is the loss on the others, `truth` the planted matrix.\n")
    outcomes = []
    for task in TASKS:
        with out.status(f"{task.name}: making data and fitting (the first run compiles) ..."):
            outcomes.append(_learn(task, seed, threads))
        _show(outcomes[-1], out)
    path = output / "demo.rankwise"
    save(outcomes[0].results[TASKS[0].methods[0]].model, path)
    try:
        _reload(outcomes[0], path, out)
        _picture(outcomes, output / "rank_path.png", out)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"the model is in {path}") from None
    _times(outcomes, time.perf_counter() - start, out)


def _make_folder(output: Path) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
        (probe := output / ".rankwise-probe").touch()
        probe.unlink()
    except OSError as error:
        raise SettingError(
            f"Cannot write to the folder {output} ({error.strerror}); choose another --output."
        ) from None


def _learn(task: Task, seed: int, threads: int | None) -> Outcome:
    planted = task.make(seed)
    train, held_out = selection.split_entries(planted.observations, 0.1, seed)
    results = {
        method: solve(
            Problem(train, task.loss, n_jobs=threads),
            method,
            rank=task.rank,
            held_out=held_out,
            score=task.score,
            random_state=seed,
        )
        for method in task.methods
    }
    default = MatrixCompletion(n_jobs=threads, random_state=seed).fit(train)
    predicted = default.model_.at(held_out.rows, held_out.cols)
    return Outcome(task, planted, held_out, results, task.score(held_out.targets, predicted) / task.unit)


def _show(outcome: Outcome, out: Console) -> None:
    """One line per rank; the planted truth last."""
    task = outcome.task
    shown = f"{{:.{task.digits}f}}".format
    columns = [">rank"]
    for method in task.methods:
        columns += [f">{method.upper()} value", f">{method.upper()} {task.score_name}"]
    rows = [[str(k + 1)] for k in range(task.rank)]
    for method in task.methods:
        for row, record, score in zip(rows, outcome.results[method].history, outcome.scores(method), strict=False):
            row += [f"{record.value:,.0f}", shown(score)]
    truth = ["truth", *["", shown(outcome.truth)] * len(task.methods)]
    table(out, f"{task.name}: {outcome.planted.about}; {task.loss} loss", columns, rows, last=truth)
    out.print(f"MatrixCompletion() with nothing set: {task.score_name} {shown(outcome.default)}.\n")


def _reload(outcome: Outcome, path: Path, out: Console) -> None:
    """Read the first method's model back, and predict three held-out entries at two ranks of its path."""
    method = outcome.task.methods[0]
    model, held_out = load(path), outcome.held_out
    chosen = np.linspace(0, held_out.n_observed - 1, 5).astype(int)[1:-1]
    rows, cols = held_out.rows[chosen], held_out.cols[chosen]
    ranks = (1, outcome.planted.truth.rank)
    predicted = [_percents(model, rows, cols, rank) for rank in ranks]
    planted = np.sign(outcome.planted.truth.at(rows, cols))
    signs = [[f"{sign:+.0f}" for sign in found] for found in (planted, held_out.targets[chosen])]
    columns = (">row", ">column", ">planted", ">observed", *(f">P(+1), rank {rank}" for rank in ranks))
    lines = zip(map(str, rows), map(str, cols), *signs, *predicted, strict=True)
    table(out, f"Three held-out entries, predicted by the saved {method.upper()} model", columns, list(lines))
    out.print(f"Model:   {path}")


def _percents(model: LowRankModel, rows: Any, cols: Any, rank: int) -> list[str]:
    return [f"{chance:.0%}" for chance in model.predict_entries(rows, cols, rank=rank, scale="response")]


def _picture(outcomes: list[Outcome], path: Path, out: Console) -> None:
    panels = [
        Panel(
            f"{outcome.task.name} ({outcome.task.loss} loss)",
            f"held-out {outcome.task.score_name}",
            {method.upper(): outcome.scores(method) for method in outcome.task.methods},
            outcome.truth,
            outcome.planted.truth.rank,
        )
        for outcome in outcomes
    ]
    try:
        rank_path(panels, path)
    except MissingExtraError as error:
        out.print(f"Picture: none. {error}")
    else:
        out.print(f"Picture: {path}")


def _times(outcomes: list[Outcome], total: float, out: Console) -> None:
    results = {method: result for outcome in outcomes for method, result in outcome.results.items()}
    fits = ", ".join(f"{method.upper()} {result.history[-1].wall_seconds:.2f} s" for method, result in results.items())
    compiling = sum(result.compile_seconds for result in results.values())
    out.print(f"Time:    fitting {fits}; compiling {compiling:.1f} s; {total:.1f} s in all.")
