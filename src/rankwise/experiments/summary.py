"""Results of an experiment: means and standard deviations over the splits, beside the numbers of the paper."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .. import selection
from .plan import Data, Experiment, Method, Printed
from .runner import usable
from .scores import SCORES
from .store import Store, StoredLine

EARLY = ("max_iter", "diverged", "no-descent")  # reasons to stop other than the paper's stopping rules


@dataclass(frozen=True)
class Estimate:
    """Mean over splits, and the sample standard deviation if there are two or more."""

    mean: float
    deviation: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "Estimate":
        """Compute mean and standard deviation."""
        return cls(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None)


@dataclass(frozen=True)
class Row:
    """Results of a method on a data set.

    Attributes
    ----------
    data, method, label : str
        Names of the data set and the method, and the name of the method to show.
    splits : int
        Number of splits in the means.
    scores : mapping of str to Estimate
        Empty if the table has a dash.
    rank, cpu_seconds, wall_seconds : Estimate or None
    search_seconds : float or None
        Wall time of the search for a setting, not included in the other times.
    printed : Printed or None
    best : bool
        Whether no method is significantly better.
    notes : tuple of str
        Sentences to print below the table.
    """

    data: str
    method: str
    label: str
    splits: int
    scores: Mapping[str, Estimate]
    rank: Estimate | None
    cpu_seconds: Estimate | None
    wall_seconds: Estimate | None
    search_seconds: float | None
    printed: Printed | None
    best: bool
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Summary:
    """Rows by data set in the order of the experiment, data sets without results, and descriptions of the machines."""

    experiment: Experiment
    rows: Mapping[str, Sequence[Row]]
    missing: Sequence[Data]
    machines: Sequence[str]


def summarise(experiment: Experiment, store: Store) -> Summary:
    """Compute the numbers of the table from the stored results for the settings of the experiment."""
    lines = {data: _lines(experiment, data, store) for data in experiment.data}
    available = {data: by_method for data, by_method in lines.items() if any(by_method.values())}
    rows = {data.name: _rows(experiment, data, by_method, store) for data, by_method in available.items()}
    every = [line for by_method in available.values() for lines in by_method.values() for line in lines]
    machines = list(dict.fromkeys(line["machine"] for line in every))
    return Summary(experiment, rows, [data for data in experiment.data if data not in available], machines)


def _lines(experiment: Experiment, data: Data, store: Store) -> dict[Method, list[StoredLine]]:
    """Return the usable fits by method; only the last fit if it failed and fits are missing."""
    by_method = {}
    for method in experiment.methods:
        fits = usable(store, experiment, data, method)
        latest = store.find("fit", data.name, method.name, experiment.digest(data, method))[-1:]
        failed = bool(latest) and latest[0]["status"] == "failed" and len(fits) < experiment.used
        by_method[method] = latest if failed else fits
    return by_method


def _rows(experiment: Experiment, data: Data, lines: Mapping[Method, list[StoredLine]], store: Store) -> list[Row]:
    done = {method: fits for method, fits in lines.items() if fits and fits[-1]["status"] == "done"}
    best = _best(experiment, done)
    return [_row(experiment, data, method, fits, method.name in best, store) for method, fits in lines.items()]


def _best(experiment: Experiment, done: Mapping[Method, list[StoredLine]]) -> set[str]:
    """Return the names of the methods in bold face, compared on the splits that all of them have.

    Methods with fewer than half of the splits of another one are not compared.
    """
    main, most = experiment.scores[0], max(map(len, done.values()), default=0)
    done = {method: fits for method, fits in done.items() if 2 * len(fits) >= most}
    by_split = {method.name: {line["split"]: line["scores"][main] for line in fits} for method, fits in done.items()}
    shared = sorted(set.intersection(*(set(scores) for scores in by_split.values()))) if by_split else []
    scores = {method: [values[split] for split in shared] for method, values in by_split.items()}
    return selection.best_methods(scores, larger_is_better=SCORES[main].higher)


def _row(experiment: Experiment, data: Data, method: Method, lines: list[StoredLine], best: bool, store: Store) -> Row:
    searches = store.find("search", data.name, method.name, experiment.digest(data, method))
    done = bool(lines) and lines[-1]["status"] == "done"
    notes = [method.note, _explain(data, method, lines)]
    return Row(
        data=data.name,
        method=method.name,
        label=method.label,
        splits=len(lines) if done else 0,
        scores={name: Estimate.of([line["scores"][name] for line in lines]) for name in experiment.scores if done},
        rank=_estimate(lines, "rank") if done else None,
        cpu_seconds=_estimate(lines, "cpu_seconds") if done else None,
        wall_seconds=_estimate(lines, "wall_seconds") if done else None,
        search_seconds=searches[-1]["wall_seconds"] if searches else None,
        printed=method.paper.get(data.name),
        best=best,
        notes=tuple(note for note in notes if note),
    )


def _estimate(lines: list[StoredLine], name: str) -> Estimate:
    return Estimate.of([line[name] for line in lines])


def _explain(data: Data, method: Method, lines: list[StoredLine]) -> str:
    """Return a sentence on a dash, or on fits that stopped before their stopping rule was met; empty otherwise."""
    if not lines:
        return f"{method.label} has not been run on {data.label} yet."
    if lines[-1]["status"] == "time":
        return f"{method.label} did not end within {lines[-1]['time_limit']:g} s on {data.label}."
    if lines[-1]["status"] == "failed":
        return f"{method.label} on {data.label}: {lines[-1]['message']}"
    early = [line for line in lines if line["end"] in EARLY]
    if not early:
        return ""
    where = f"{method.label} on {data.label}, {len(early)} of {len(lines)} splits"
    return f"{where}: its stopping rule was not met. {early[0]['message']}"
