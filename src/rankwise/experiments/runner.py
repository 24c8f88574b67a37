"""The runner: every data set, split and method in turn; results are kept as they come, and a killed run goes on."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .. import datasets
from .._errors import DataError, RankwiseError, SettingError
from ..observations import Observations
from .fit import Part, fit, parts, search_weight
from .machine import describe_machine
from .plan import SEARCH, TIME_LIMIT, Data, Experiment, Method
from .store import Line, Store

Loader = Callable[[str], Observations]


@dataclass(frozen=True)
class Event:
    """What the runner is at.

    Attributes
    ----------
    kind : {"start", "search", "done", "time", "failed", "skipped", "left-out"}
    data, method : str
        As shown; no method when a data set is left out.
    split : int
        From zero.
    done, total : int
        Fits that are finished, earlier runs included, and fits in all.
    seconds : float
        What this fit took, scoring included.
    seconds_left : float or None
        Estimate, once a fit is known.
    message : str
        Why a method or a data set gave nothing.
    """

    kind: str
    data: str
    method: str = ""
    split: int = 0
    done: int = 0
    total: int = 0
    seconds: float = 0.0
    seconds_left: float | None = None
    message: str = ""


def run(
    experiment: Experiment,
    store: Store,
    *,
    load: Loader = datasets.load,
    tell: Callable[[Event], None] = lambda event: None,
) -> None:
    """Run what the store does not hold yet.

    A method that fails or runs out of time on one split is not run on the data set's other splits. A failure is tried
    again by the next run, a time-out only if the limit is longer then.

    Parameters
    ----------
    experiment : Experiment
    store : Store
    load : callable (name) -> Observations
    tell : callable (Event) -> None
        Called before and after each fit.
    """
    runner = _Runner(experiment, store, tell)
    for data in experiment.data:
        if runner.pending(data):
            observations = _loaded(experiment, data, load, tell)
            if observations is not None:
                runner.run(data, observations)


def _loaded(experiment: Experiment, data: Data, load: Loader, tell: Callable[[Event], None]) -> Observations | None:
    """The data set; one of several may be missing."""
    try:
        return load(data.name)
    except (DataError, SettingError) as error:
        if len(experiment.data) == 1:
            raise
        tell(Event("left-out", data.label, message=str(error)))
        return None


class _Runner:
    def __init__(self, experiment: Experiment, store: Store, tell: Callable[[Event], None]) -> None:
        self.experiment, self.store, self.tell = experiment, store, tell
        self.jobs = {
            (data.name, split, method.name)
            for data in experiment.data
            for split in range(experiment.used)
            for method in experiment.methods
        }
        self.seconds: dict[tuple[str, str], list[float]] = {}
        self.finished = {job for data in experiment.data for job in self._kept(data)}

    def _kept(self, data: Data) -> Iterator[tuple[str, int, str]]:
        """Jobs whose results the store holds; a time-out also stands for the splits after it."""
        for method in self.experiment.methods:
            for line in usable(self.store, self.experiment, data, method):
                self.seconds.setdefault((data.name, method.name), []).append(line["seconds"])
                last = self.experiment.used if line["status"] == "time" else line["split"] + 1
                yield from ((data.name, split, method.name) for split in range(line["split"], last))

    def pending(self, data: Data) -> bool:
        """Whether anything is left to do on a data set."""
        return any(job[0] == data.name for job in self.jobs - self.finished)

    def run(self, data: Data, observations: Observations) -> None:
        """All that is left on one data set, split by split."""
        for part in parts(self.experiment, observations):
            for method in self.experiment.methods:
                if (data.name, part.number, method.name) not in self.finished:
                    self._job(data, part, method)

    def _job(self, data: Data, part: Part, method: Method) -> None:
        self._tell("start", data, part, method)
        start = time.perf_counter()
        line = {
            "kind": "fit",
            "data": data.name,
            "split": part.number,
            "method": method.name,
            "digest": self.experiment.digest(data, method),
            "time_limit": self.experiment.time_limit,
            **self._outcome(data, part, method),
            "seconds": time.perf_counter() - start,
            "machine": describe_machine(),
        }
        self.store.append(line)
        self._finish(data, part, method, line)

    def _outcome(self, data: Data, part: Part, method: Method) -> Line:
        """What a fit gives, or the sentence with which it failed: one method must not end a night's run."""
        try:
            return fit(self.experiment, data, part, method.build(self._settings(data, part, method)))
        except RankwiseError as error:
            return {"status": "failed", "message": str(error)}
        except Exception as error:
            return {"status": "failed", "message": f"{type(error).__name__}: {error}"}

    def _settings(self, data: Data, part: Part, method: Method) -> dict[str, Any]:
        """Settings with what the runner has to fill in."""
        settings = method.settings_on(data.name)
        if settings.get("nuclear_weight") == SEARCH:
            settings["nuclear_weight"] = self._weight(data, part, method)
        limits = {name: self.experiment.time_limit for name, value in settings.items() if value == TIME_LIMIT}
        return settings | limits

    def _weight(self, data: Data, part: Part, method: Method) -> float:
        """The nuclear weight: searched for on the first split that is run, then kept for all."""
        digest = self.experiment.digest(data, method)
        known = self.store.find("search", data.name, method.name, digest)
        if not known:
            self._tell("search", data, part, method)
            found = search_weight(self.experiment, data, part, method)
            key = {"kind": "search", "data": data.name, "split": part.number, "method": method.name, "digest": digest}
            known = [key | found]
            self.store.append(known[0])
        return float(known[-1]["nuclear_weight"])

    def _finish(self, data: Data, part: Part, method: Method, line: Line) -> None:
        """Count a fit; after a failure or a time-out also those that would follow."""
        last = part.number + 1 if line["status"] == "done" else self.experiment.used
        self.finished |= {(data.name, split, method.name) for split in range(part.number, last)}
        self.seconds.setdefault((data.name, method.name), []).append(line["seconds"])
        self._tell(line["status"], data, part, method, line)

    def _tell(self, kind: str, data: Data, part: Part, method: Method, line: Line | None = None) -> None:
        line = line or {"seconds": 0.0, "message": ""}
        counts = len(self.finished), len(self.jobs), line["seconds"], self._seconds_left()
        self.tell(Event(kind, data.label, method.label, part.number, *counts, line["message"]))

    def _seconds_left(self) -> float | None:
        """Sum over what is left: what the method took on this data set, or on another, or fits in general."""
        if not self.seconds:
            return None
        return sum(self._expected(data, method) for data, _, method in self.jobs - self.finished)

    def _expected(self, data: str, method: str) -> float:
        own = self.seconds.get((data, method))
        alike = own or [one for key, found in self.seconds.items() if key[1] == method for one in found]
        known = alike or [one for found in self.seconds.values() for one in found]
        return sum(known) / len(known)


def usable(store: Store, experiment: Experiment, data: Data, method: Method) -> list[Line]:
    """Stored fits that this experiment need not repeat, one per split, in order of split.

    They have the same settings and all the scores; failures are not among them, nor time-outs under a shorter limit.
    """
    found = {
        line["split"]: line
        for line in store.find("fit", data.name, method.name, experiment.digest(data, method))
        if line["split"] < experiment.used and _serves(line, experiment)
    }
    return [found[split] for split in sorted(found)]


def _serves(line: Line, experiment: Experiment) -> bool:
    if line["status"] == "time":
        return bool(line["time_limit"] >= experiment.time_limit)
    return line["status"] == "done" and set(experiment.scores) <= set(line["scores"])
