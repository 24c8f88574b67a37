"""What came of an experiment, in numbers: means and deviations over the splits, beside what the paper printed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .. import selection
from .plan import Data, Experiment, Method, Printed
from .runner import usable
from .scores import SCORES
from .store import Line, Store

EARLY = ("max_iter", "diverged", "no-descent")  # ends that are not what the paper's stopping rules ask for


@dataclass(frozen=True)
class Estimate:
    """Mean over some splits, and the sample deviation if there are two or more."""

    mean: float
    deviation: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "Estimate":
        """Mean and deviation of some numbers."""
        return cls(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None)


@dataclass(frozen=True)
class Row:
    """One method on one data set.

    Attributes
    ----------
    data, method, label : str
        Names of both, and the method's name to show.
    splits : int
        How many the means are over.
    scores : mapping of str to Estimate
        Empty where there is a dash.
    rank, cpu_seconds, wall_seconds : Estimate or None
    search_seconds : float or None
        Wall seconds of a search for a setting, not part of the others.
    printed : Printed or None
    best : bool
        Whether it is the best, or not significantly worse.
    notes : tuple of str
        Sentences for below the table.
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
    """Rows by data set, in the experiment's order; data sets without any result; what ran it."""

    experiment: Experiment
    rows: Mapping[str, Sequence[Row]]
    missing: Sequence[Data]
    machines: Sequence[str]


def summarise(experiment: Experiment, store: Store) -> Summary:
    """Numbers of the table, from what the store holds for the experiment's settings."""
    lines = {data: _lines(experiment, data, store) for data in experiment.data}
    there = {data: found for data, found in lines.items() if any(found.values())}
    rows = {data.name: _rows(experiment, data, found, store) for data, found in there.items()}
    every = [line for found in there.values() for one in found.values() for line in one]
    machines = list(dict.fromkeys(line["machine"] for line in every))
    return Summary(experiment, rows, [data for data in experiment.data if data not in there], machines)


def _lines(experiment: Experiment, data: Data, store: Store) -> dict[Method, list[Line]]:
    """Usable fits by method; a last failure that was not made good since stands alone."""
    found = {}
    for method in experiment.methods:
        fits = usable(store, experiment, data, method)
        latest = store.find("fit", data.name, method.name, experiment.digest(data, method))[-1:]
        failed = bool(latest) and latest[0]["status"] == "failed" and len(fits) < experiment.used
        found[method] = latest if failed else fits
    return found


def _rows(experiment: Experiment, data: Data, lines: Mapping[Method, list[Line]], store: Store) -> list[Row]:
    done = {method: found for method, found in lines.items() if found and found[-1]["status"] == "done"}
    best = _best(experiment, done)
    return [_row(experiment, data, method, found, method.name in best, store) for method, found in lines.items()]


def _best(experiment: Experiment, done: Mapping[Method, list[Line]]) -> set[str]:
    """Methods to set in bold face, judged on the splits that all of them have."""
    main = experiment.scores[0]
    by_split = {method.name: {line["split"]: line["scores"][main] for line in found} for method, found in done.items()}
    shared = sorted(set.intersection(*(set(found) for found in by_split.values()))) if by_split else []
    scores = {method: [found[split] for split in shared] for method, found in by_split.items()}
    return selection.best_methods(scores, larger_is_better=SCORES[main].higher)


def _row(experiment: Experiment, data: Data, method: Method, lines: list[Line], best: bool, store: Store) -> Row:
    searches = store.find("search", data.name, method.name, experiment.digest(data, method))
    whole = bool(lines) and lines[-1]["status"] == "done"
    notes = [method.note, _why(data, method, lines)]
    return Row(
        data=data.name,
        method=method.name,
        label=method.label,
        splits=len(lines) if whole else 0,
        scores={name: Estimate.of([line["scores"][name] for line in lines]) for name in experiment.scores if whole},
        rank=_estimate(lines, "rank") if whole else None,
        cpu_seconds=_estimate(lines, "cpu_seconds") if whole else None,
        wall_seconds=_estimate(lines, "wall_seconds") if whole else None,
        search_seconds=searches[-1]["wall_seconds"] if searches else None,
        printed=method.paper.get(data.name),
        best=best,
        notes=tuple(note for note in notes if note),
    )


def _estimate(lines: list[Line], name: str) -> Estimate:
    return Estimate.of([line[name] for line in lines])


def _why(data: Data, method: Method, lines: list[Line]) -> str:
    """Sentence on a dash, or on a fit that was cut off before its own rule was met; empty if all is well."""
    if not lines:
        return f"{method.label} has not been run on {data.label} yet."
    if lines[-1]["status"] == "time":
        return f"{method.label} did not end within {lines[-1]['time_limit']:g} s on {data.label}."
    if lines[-1]["status"] == "failed":
        return f"{method.label} on {data.label}: {lines[-1]['message']}"
    cut = [line for line in lines if line["end"] in EARLY]
    if not cut:
        return ""
    where = f"{method.label} on {data.label}, {len(cut)} of {len(lines)} splits"
    return f"{where}: its stopping rule was not met. {cut[0]['message']}"
