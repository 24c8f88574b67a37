"""Runner of experiments: every data set, split and method in turn.

Results are stored as soon as a fit has ended, so that a killed run can be continued.
"""

import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any

from .. import datasets
from .._errors import DataError, RankwiseError, SettingError
from .._version import __version__
from ..engines import usable_cores
from ..observations import Observations
from .fit import Part, fit, parts, search
from .plan import SEARCH, SEARCHED, TIME_LIMIT, Data, Experiment, Method
from .store import Store, StoredLine

Loader = Callable[[str], Observations]
ReportEvent = Callable[["Event"], None]
PACKAGES = ("numpy", "scipy", "numba")  # whose versions are stored with a result


@dataclass(frozen=True)
class Event:
    """Progress of a run.

    Attributes
    ----------
    kind : {"start", "search", "done", "time", "failed", "left-out"}
    data, method : str
        Labels; no method if a data set is left out.
    split : int
        Number of the split, from 0.
    done, total : int
        Number of finished fits, including those of earlier runs, and of all fits.
    seconds : float
        Duration of the fit, including scoring.
    seconds_left : float or None
        Estimated time to the end, once a fit has been timed.
    message : str
        Why there is no result.
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
    report: ReportEvent = lambda event: None,
) -> None:
    """Run the fits whose results are not in the store; raise `DataError` if no data set is here and none is stored.

    A method that fails or runs out of time on one split is not run on the other splits of the data set. The next run
    repeats failed fits, and fits that ran out of time if its time limit is longer.

    Parameters
    ----------
    experiment : Experiment
    store : Store
    load : callable (name) -> Observations
    report : callable (Event) -> None
        Called before and after each fit.
    """
    runner = _Runner(experiment, store, report)
    for data in experiment.data:
        if runner.pending(data):
            observations = _load(experiment, data, load, report)
            if observations is not None:
                runner.run(data, observations)
    if not runner.finished:
        names = ", ".join(data.name for data in experiment.data)
        raise DataError(
            f"{experiment.name} has no results: none of its data sets ({names}) is on this machine; run `rankwise data "
            f"fetch {experiment.data[0].name}`."
        )


def _load(experiment: Experiment, data: Data, load: Loader, report: ReportEvent) -> Observations | None:
    """Return the data set; None if it is missing and the experiment has others."""
    try:
        return load(data.name)
    except (DataError, SettingError) as error:
        if len(experiment.data) == 1:
            raise
        report(Event("left-out", data.label, message=str(error)))
        return None


class _Runner:
    def __init__(self, experiment: Experiment, store: Store, report: ReportEvent) -> None:
        self.experiment, self.store, self.report = experiment, store, report
        self.jobs = {
            (data.name, split, method.name)
            for data in experiment.data
            for split in range(experiment.used)
            for method in experiment.methods
        }
        self.seconds: dict[tuple[str, str], list[float]] = {}
        self.finished = {job for data in experiment.data for job in self._stored(data)}

    def _stored(self, data: Data) -> Iterator[tuple[str, int, str]]:
        """Yield the jobs with a stored result; a fit that ran out of time also counts for the splits after it."""
        for method in self.experiment.methods:
            for line in usable(self.store, self.experiment, data, method):
                self.seconds.setdefault((data.name, method.name), []).append(line["seconds"])
                last = self.experiment.used if line["status"] == "time" else line["split"] + 1
                yield from ((data.name, split, method.name) for split in range(line["split"], last))

    def pending(self, data: Data) -> bool:
        """Return whether a fit on the data set is missing."""
        return any(job[0] == data.name for job in self.jobs - self.finished)

    def run(self, data: Data, observations: Observations) -> None:
        """Run the missing fits on a data set, split by split."""
        for part in parts(self.experiment, observations):
            for method in self.experiment.methods:
                if (data.name, part.number, method.name) not in self.finished:
                    self._job(data, part, method)

    def _job(self, data: Data, part: Part, method: Method) -> None:
        self._report("start", data, part, method)
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

    def _outcome(self, data: Data, part: Part, method: Method) -> StoredLine:
        """Return the result of a fit, or the message of its error: one method must not end a run of hours."""
        try:
            return fit(self.experiment, data, part, method.build(self._settings(data, part, method)))
        except RankwiseError as error:
            return {"status": "failed", "message": str(error)}
        except Exception as error:
            return {"status": "failed", "message": f"{type(error).__name__}: {error}"}

    def _settings(self, data: Data, part: Part, method: Method) -> dict[str, Any]:
        """Return the settings of a method with nuclear weight, radius and time limit filled in."""
        settings = method.settings_on(data.name)
        for name in SEARCHED:
            if settings.get(name) == SEARCH:
                settings[name] = float(self._search(data, part, method)[name])
        limits = {name: self.experiment.time_limit for name, value in settings.items() if value == TIME_LIMIT}
        return settings | limits

    def _search(self, data: Data, part: Part, method: Method) -> StoredLine:
        """Return the results of the search, made on the first split that is run and stored for the others."""
        digest = self.experiment.digest(data, method)
        searches = self.store.find("search", data.name, method.name, digest)
        if not searches:
            self._report("search", data, part, method)
            result = search(self.experiment, data, part)
            key = {"kind": "search", "data": data.name, "split": part.number, "method": method.name, "digest": digest}
            searches = [key | result]
            self.store.append(searches[0])
        return searches[-1]

    def _finish(self, data: Data, part: Part, method: Method, line: StoredLine) -> None:
        """Count a fit as finished; after a failure or out of time, also those on the splits after it."""
        last = part.number + 1 if line["status"] == "done" else self.experiment.used
        self.finished |= {(data.name, split, method.name) for split in range(part.number, last)}
        self.seconds.setdefault((data.name, method.name), []).append(line["seconds"])
        self._report(line["status"], data, part, method, line)

    def _report(self, kind: str, data: Data, part: Part, method: Method, line: StoredLine | None = None) -> None:
        line = line or {"seconds": 0.0, "message": ""}
        counts = len(self.finished), len(self.jobs), line["seconds"], self._seconds_left()
        self.report(Event(kind, data.label, method.label, part.number, *counts, line["message"]))

    def _seconds_left(self) -> float | None:
        """Sum the expected times of the missing fits."""
        if not self.seconds:
            return None
        return sum(self._expected(data, method) for data, _, method in self.jobs - self.finished)

    def _expected(self, data: str, method: str) -> float:
        """Return the mean time of the method on the data set, else on all data sets, else of all methods."""
        same_data = self.seconds.get((data, method))
        same_method = same_data or [one for key, times in self.seconds.items() if key[1] == method for one in times]
        times = same_method or [one for times in self.seconds.values() for one in times]
        return sum(times) / len(times)


def usable(store: Store, experiment: Experiment, data: Data, method: Method) -> list[StoredLine]:
    """Return the stored fits that the experiment need not repeat, one per split, in the order of the splits.

    They have the settings and all scores of the experiment, did not fail, and did not run out of time under a shorter
    limit.
    """
    fits = {
        line["split"]: line
        for line in store.find("fit", data.name, method.name, experiment.digest(data, method))
        if line["split"] < experiment.used and _is_usable(line, experiment)
    }
    return [fits[split] for split in sorted(fits)]


def _is_usable(line: StoredLine, experiment: Experiment) -> bool:
    if line["status"] == "time":
        return bool(line["time_limit"] >= experiment.time_limit)
    return line["status"] == "done" and set(experiment.scores) <= set(line["scores"])


@cache
def describe_machine() -> str:
    """Return usable cores, CPU, operating system and versions in one line; the host is not named."""
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    versions = f"Python {platform.python_version()}, rankwise {__version__}, {packages}"
    return f"{usable_cores()} of {os.cpu_count()} cores, {_cpu()}, {platform.system()}, {versions}"


def _cpu() -> str:
    """Return the model of the CPU, or its architecture if the system does not name the model."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
            return next(models, platform.machine())
    except OSError:  # not on Linux
        return platform.processor() or platform.machine()
