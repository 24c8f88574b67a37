"""What the benchmarks share: data, scores, the default by its parts, clocks, processes of their own, tables."""

import ctypes
import json
import multiprocessing
import os
import platform
import resource
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import rankwise as rw
from rankwise.estimators.planning import PRUNE_BELOW, most_factors, resolve_loss
from rankwise.observations import Observations
from rankwise.selection import auc, mean_absolute_error, root_mean_squared_error, sign_accuracy, split_entries
from rankwise.solvers import BayesSweeps, Result

RESULTS = Path(__file__).parent / "results"
SHARES = {"movielens-100k": 0.5, "movielens-1m": 0.5, "slashdot": 0.1, "epinions": 0.1}  # held out
THREADS = 2
Row = dict[str, Any]


def scattered(n_observed: int, shape: tuple[int, int], seed: int = 0) -> Observations:
    """Random entries of a rank-5 matrix plus noise, columns of uneven popularity."""
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, shape[0] * shape[1], int(n_observed * 1.02), dtype=np.int64)
    rows, cols = np.divmod(np.unique(cells), shape[1])
    cols = (cols.astype(float) ** 2 / shape[1]).astype(np.int64)  # low columns come more often
    keep = np.r_[True, (np.diff(rows) != 0) | (np.diff(cols) != 0)]
    rows, cols = rows[keep], cols[keep]
    left, right = rng.standard_normal((shape[0], 5)), rng.standard_normal((shape[1], 5))
    values = np.zeros(rows.size, np.float32)
    for k in range(5):
        values += (left[rows, k] * right[cols, k]).astype(np.float32)
    values += rng.standard_normal(rows.size).astype(np.float32)
    return Observations.from_coo(rows, cols, values, shape)


def layered(n_observed: int, n_cols: int = 20_000, per_row: int = 100, seed: int = 0) -> Observations:
    """The same kind of matrix with `per_row` entries in each row, one at random from each layer of its columns.

    Columns are equally popular. Made row block by row block, sorted as it comes: nothing beside the result is of its
    size, which is 8 bytes an entry.
    """
    rng, n_rows, width = np.random.default_rng(seed), max(n_observed // per_row, 1), n_cols // per_row
    left, right = (rng.standard_normal((size, 5)).astype(np.float32) for size in (n_rows, n_cols))
    first = np.arange(per_row, dtype=np.uint32) * np.uint32(width)
    indices, targets = np.empty((n_rows, per_row), np.uint32), np.empty((n_rows, per_row), np.float32)
    for rows in np.array_split(np.arange(n_rows), -(-n_rows * per_row // 1_000_000)):
        cols = first + rng.integers(0, width, (rows.size, per_row), dtype=np.uint32)
        noise = rng.standard_normal(cols.shape, dtype=np.float32)
        indices[rows], targets[rows] = cols, np.einsum("ik,ijk->ij", left[rows], right[cols]) + noise
    indptr = np.arange(n_rows + 1, dtype=np.uint64) * np.uint64(per_row)
    return Observations(indptr, indices.ravel(), targets.ravel(), (n_rows, n_cols))


def signs_of(data: Observations) -> Observations:
    """The same entries with the signs of their targets."""
    return Observations(data.indptr, data.indices, np.where(data.targets < 0, -1, 1).astype(np.float32), data.shape)


def signed_split(name: str, seed: int = 0) -> tuple[Observations, Observations]:
    """A signed network after the paper's filter, one tenth held out."""
    return split_entries(rw.datasets.load(name), held_out=0.1, random_state=seed)


@dataclass(frozen=True)
class Split:
    """Entries to learn from, entries to predict, and how predictions of them are judged."""

    train: Observations
    held_out: Observations

    @classmethod
    def of(cls, observations: Observations, share: float, seed: int = 0) -> "Split":
        """At random, with `share` held out."""
        return cls(*split_entries(observations, share, seed))

    @classmethod
    def load(cls, name: str, seed: int = 0) -> "Split":
        """A published data set, half of the ratings or a tenth of the signs held out."""
        return cls.of(rw.datasets.load(name), SHARES[name], seed)

    @property
    def signs(self) -> bool:
        """Whether the targets are -1 and +1."""
        return self.train.target_facts().signs

    def scores(self, predicted: np.ndarray) -> dict[str, float]:
        """Accuracy and AUC of signs; RMSE and MAE of others, clipped to the training range; rounded MAE."""
        targets = self.held_out.targets
        if self.signs:
            return {"accuracy_%": 100 * sign_accuracy(targets, predicted), "auc": auc(targets, predicted)}
        clipped = np.clip(predicted, self.train.targets.min(), self.train.targets.max())
        found = {"rmse": root_mean_squared_error(targets, clipped), "mae": mean_absolute_error(targets, clipped)}
        if (targets == np.round(targets)).all():
            found["grid_mae"] = mean_absolute_error(targets, np.round(clipped))
        return found

    def cost(self, predicted: np.ndarray) -> float:
        """The first score, as something to be small: share of wrong signs in %, or RMSE."""
        first = next(iter(self.scores(predicted).values()))
        return 100 - first if self.signs else first


def default_problem(split: Split, loss: Any = "auto", n_jobs: int = THREADS) -> rw.Problem:
    """What the default minimises."""
    return rw.Problem(split.train, resolve_loss(loss, split.train, "bayes"), n_jobs=n_jobs)


def sweep(split: Split, solver: Any = None, problem: Any = None, *, rank: int | None = None, **options: Any) -> Result:
    """The default's sweeps, with the cost on held-out entries after each; other settings where given."""
    problem = problem or default_problem(split)
    score = {"held_out": split.held_out, "score": lambda targets, predicted: split.cost(predicted)}
    solver = solver or BayesSweeps(least_effect=PRUNE_BELOW)
    return rw.solve(problem, solver, rank=rank or most_factors(split.train), **score, **options)


class Meter:
    """Seconds of what is done inside `with`, and by how many MB it raises the peak of this process's memory."""

    seconds = megabytes = 0.0

    def __enter__(self) -> "Meter":
        self._before, self._start = _resident(), time.perf_counter()
        return self

    def __exit__(self, *problem: Any) -> None:
        self.seconds = time.perf_counter() - self._start
        self.megabytes = max(_peak() - self._before, 0.0) / 1e6


def _resident() -> float:
    """Bytes now; the peak starts again from here, where the system can do that."""
    with suppress(AttributeError, OSError, TypeError):  # what was freed before must not hide what comes
        ctypes.CDLL(None).malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return _status("VmRSS")
    except OSError:
        return _peak()


def _peak() -> float:
    try:
        return _status("VmHWM")
    except OSError:
        return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _status(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024.0 * float(line.split()[1]) for line in lines if line.startswith(field))


class NoAnswerError(RuntimeError):
    """A process of its own was too slow, or ended without an answer."""


def apart(function: Callable[..., Any], *args: Any, limit: float = 300.0, tries: int = 1) -> Any:
    """What a function returns in a process of its own, which nothing else has warmed, filled or locked."""
    context = multiprocessing.get_context("spawn")
    for _ in range(tries):
        here, there = context.Pipe()
        child = context.Process(target=_answer, args=(there, function, args), daemon=True)
        child.start()
        there.close()
        if here.poll(limit):
            try:
                found, error = here.recv()
            except EOFError:
                found, error = None, "the process ended without an answer"
            child.join()
            if error:
                raise NoAnswerError(error)
            return found
        child.kill()
        child.join()
    raise NoAnswerError(f"no answer within {limit:g} s" + (f", {tries} times" if tries > 1 else ""))


def _answer(pipe: Any, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    try:
        pipe.send((function(*args), None))
    except Exception as error:
        pipe.send((None, f"{type(error).__name__}: {error}"))


def clocked(function: Callable[..., Any], *args: Any, repeats: int = 5) -> float:
    """Median seconds of a call, after one that is not counted."""
    return by_turns([lambda: function(*args)], repeats)[0]


def by_turns(functions: Sequence[Callable[[], Any]], repeats: int = 5) -> list[float]:
    """Median seconds of each call, by turns, so that all meet the same moods of the machine.

    Every turn begins with a call that is not counted: caches are as in a loop of the same calls.
    """
    found: list[list[float]] = [[] for _ in functions]
    for turn in range(repeats):
        for function, seconds in zip(functions, found, strict=True):
            if turn == 0 or len(functions) > 1:
                function()
            start = time.perf_counter()
            function()
            seconds.append(time.perf_counter() - start)
    return list(map(median, found))


def exponent(sizes: Iterable[float], seconds: Iterable[float]) -> float:
    """Slope of log seconds against log size."""
    return float(np.polyfit(np.log(list(sizes)), np.log(list(seconds)), 1)[0])


def machine() -> Row:
    """What ran the benchmark, without naming the host."""
    import numba
    import scipy

    versions = {"numpy": np.__version__, "scipy": scipy.__version__, "numba": numba.__version__}
    cpu = platform.processor() or platform.machine()
    return {"cpu": cpu, "cores": os.cpu_count(), "python": platform.python_version(), **versions}


def table(rows: list[Row]) -> str:
    """Rows as a Markdown table."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(str(row.get(name, "")) for name in names) + " |" for row in rows]
    return "\n".join(lines)


def store(name: str, question: str, rows: Iterable[Row]) -> list[Row]:
    """Write the rows beside the question they answer, and print them, each as it comes; return them."""
    found: list[Row] = []
    RESULTS.mkdir(exist_ok=True)
    for row in rows:
        print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        found.append(row)
        content = {"question": question, "machine": machine(), "rows": found}
        (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
    return found
