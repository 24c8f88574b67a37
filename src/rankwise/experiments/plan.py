"""Experiments, read from TOML files: data sets, splits, methods with settings, and the numbers of the paper."""

import hashlib
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from .. import solvers
from .._checks import is_number, is_whole, one_of
from .._errors import SettingError
from .scores import SCORES

SPLIT_KINDS = ("folds", "random")
SEARCH, TIME_LIMIT = "search", "time_limit"  # values of settings that the runner replaces
SEARCHED = ("nuclear_weight", "radius")  # settings that AIS-Impute's search for the rank finds
STORED_AS = {"bayes": "rankwise"}  # names of methods in the digests of stored results, where they differ


@dataclass(frozen=True)
class Printed:
    """Number printed in the paper: mean, standard deviation, and whether it is in bold face."""

    mean: float
    deviation: float
    best: bool = False


@dataclass(frozen=True)
class Data:
    """Data set: its name in `rankwise.datasets`, the name to show, and the rank of the fits."""

    name: str
    label: str
    rank: int


@dataclass(frozen=True)
class Split:
    """Rule for dividing the entries into training and held-out entries.

    Attributes
    ----------
    kind : {"folds", "random"}
        Folds of a cross-validation, or independent random splits.
    parts : int
        Number of folds or splits.
    held_out : float
        Fraction of the entries that a random split holds out.
    seed : int
        Seed of the folds; random split k has ``seed + k``.
    """

    kind: str
    parts: int
    held_out: float = 0.5
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Method:
    """Row of the table: a method with its settings.

    Attributes
    ----------
    name : str
        Unique within the experiment; key of the stored results.
    label : str
        Name to show.
    method : str
        Name in `rankwise.solvers.METHODS`; empty if `solver` is given.
    solver : str
        Class in `rankwise.solvers`, created with `settings`; empty if `method` is given.
    settings : mapping
        ``nuclear_weight = "search"`` and ``radius = "search"`` are replaced by the results of a search on the first
        split, and ``"time_limit"`` by the time limit in seconds.
    settings_for : mapping of data set to mapping
        Additional settings for some data sets.
    paper : mapping of data set to Printed
        Numbers of the paper in this row.
    note : str
        Sentence to print below the table.
    """

    name: str
    label: str
    method: str = ""
    solver: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    settings_for: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    paper: Mapping[str, Printed] = field(default_factory=dict)
    note: str = ""

    def settings_on(self, data: str) -> dict[str, Any]:
        """Return the settings for a data set as the file has them."""
        return {**self.settings, **self.settings_for.get(data, {})}

    def build(self, settings: Mapping[str, Any]) -> Any:
        """Return the solver with these settings, or the name of the method."""
        if self.solver:
            return getattr(solvers, self.solver)(**settings)
        return self.method


@dataclass(frozen=True)
class Experiment:
    """Experiment of the paper: a table, and the figure of the same fits.

    Attributes
    ----------
    name, figure : str
        Names of the table and the figure in the paper.
    title : str
    loss : str
    scores : tuple of str
        Names in `SCORES`; the paper has the first.
    standardise : bool
        Whether targets are standardized by the mean and the standard deviation of the training targets.
    time_limit : float
        Seconds per fit.
    split : Split
    used : int
        Number of folds or splits that are run, from the first.
    data : tuple of Data
    methods : tuple of Method
    quick : mapping
        Changes for a quick run: `used`, `time_limit`, `data`, and `without`, the names of omitted methods.
    """

    name: str
    figure: str
    title: str
    loss: str
    scores: tuple[str, ...]
    standardise: bool
    time_limit: float
    split: Split
    used: int
    data: tuple[Data, ...]
    methods: tuple[Method, ...]
    quick: Mapping[str, Any] = field(default_factory=dict)

    def digest(self, data: Data, method: Method) -> str:
        """Return 16 hexadecimal digits that depend on everything that affects a result, except the time limit."""
        decisive = {
            "loss": self.loss,
            "standardise": self.standardise,
            "rank": data.rank,
            "split": vars(self.split),
            "method": STORED_AS.get(method.method, method.method) or method.solver,
            "settings": method.settings_on(data.name),
        }
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]

    def quickened(self) -> "Experiment":
        """Return the quick version that the file describes; its data sets are ignored if none of them is here."""
        data = tuple(one for one in self.data if one.name in self.quick.get("data", [one.name]))
        quick = self.first(self.quick.get("used", self.used)).within(self.quick.get("time_limit", self.time_limit))
        methods = tuple(one for one in self.methods if one.name not in self.quick.get("without", ()))
        return replace(quick, data=data or self.data, methods=methods)

    def first(self, used: int) -> "Experiment":
        """Return the experiment restricted to its first `used` splits."""
        if not is_whole(used) or not 1 <= used <= self.split.parts:
            raise SettingError(
                f"{self.name} has {self.split.parts} splits; give a number from 1 to {self.split.parts}, got {used!r}."
            )
        return replace(self, used=used)

    def on(self, data: str) -> "Experiment":
        """Return the experiment restricted to one data set."""
        chosen = tuple(one for one in self.data if one.name == data)
        if not chosen:
            names = one_of(one.name for one in self.data)
            raise SettingError(f"{self.name} has no data set {data!r}: use {names}.")
        return replace(self, data=chosen)

    def within(self, time_limit: float) -> "Experiment":
        """Return the experiment with another time limit in seconds."""
        if not is_number(time_limit) or not time_limit > 0:
            raise SettingError(f"The time limit must be a positive number of seconds, got {time_limit!r}.")
        return replace(self, time_limit=float(time_limit))

    def searched(self) -> "Experiment":
        """Return the experiment with stored nuclear weights and radii replaced by searches."""
        return replace(self, methods=tuple(_searched(method) for method in self.methods))


def _searched(method: Method) -> Method:
    again = {
        data: {name: SEARCH if name in SEARCHED else value for name, value in settings.items()}
        for data, settings in method.settings_for.items()
    }
    return replace(method, settings_for=again)


@cache
def available() -> dict[str, Experiment]:
    """Return the experiments of the paper by the name of their table."""
    entries = (entry for entry in files(__package__).iterdir() if entry.name.endswith(".toml"))
    experiments = (_experiment(tomllib.loads(entry.read_text(encoding="utf-8")), entry.name) for entry in entries)
    return {experiment.name: experiment for experiment in sorted(experiments, key=lambda one: one.name)}


def find(name: str) -> Experiment:
    """Return the experiment of a table or a figure of the paper."""
    for experiment in available().values():
        if name in (experiment.name, experiment.figure):
            return experiment
    names = [*available(), *(experiment.figure for experiment in available().values())]
    raise SettingError(f"Unknown experiment {name!r}: use {one_of([*names, 'all'])}.")


def read(path: str | os.PathLike[str]) -> Experiment:
    """Read an experiment from a TOML file."""
    try:
        return _experiment(tomllib.loads(Path(path).read_text(encoding="utf-8")), Path(path).name)
    except OSError as error:
        raise SettingError(f"The experiment {os.fspath(path)} cannot be read ({error.strerror}).") from None
    except ValueError as error:
        if isinstance(error, SettingError):
            raise
        raise SettingError(f"{os.fspath(path)} is not TOML: {error}.") from None


def _experiment(content: dict[str, Any], file: str) -> Experiment:
    try:
        split = Split(**content.pop("split"))
        experiment = Experiment(
            **content
            | {
                "scores": tuple(content["scores"]),
                "split": split,
                "used": split.parts,
                "data": tuple(Data(**entry) for entry in content["data"]),
                "methods": tuple(_method(entry) for entry in content["methods"]),
            }
        )
    except KeyError as error:
        raise SettingError(f"{file} lacks the entry {error.args[0]!r}.") from None
    except TypeError as error:
        raise SettingError(f"{file} does not fit: {str(error).rpartition('__init__() ')[2]}.") from None
    _check(experiment, file)
    return experiment


def _method(entry: dict[str, Any]) -> Method:
    return Method(**entry | {"paper": {data: Printed(**number) for data, number in entry.get("paper", {}).items()}})


def _check(experiment: Experiment, file: str) -> None:
    """Raise for names of splits, scores, methods and solvers that do not exist."""
    if experiment.split.kind not in SPLIT_KINDS:
        raise SettingError(f"{file}: the kind of a split must be {one_of(SPLIT_KINDS)}, got {experiment.split.kind!r}.")
    unknown = [score for score in experiment.scores if score not in SCORES]
    if unknown or not experiment.scores:
        raise SettingError(f"{file}: every score must be {one_of(SCORES)}, got {list(experiment.scores)}.")
    names = [method.name for method in experiment.methods]
    if len(set(names)) < len(names):
        raise SettingError(f"{file}: two methods have the same name; results are stored under it.")
    for method in experiment.methods:
        _check_method(method, file)


def _check_method(method: Method, file: str) -> None:
    if bool(method.method) == bool(method.solver):
        raise SettingError(f"{file}: {method.name} must name either a method or a solver.")
    if method.solver and method.solver not in solvers.__all__:
        raise SettingError(f"{file}: {method.name} names the unknown solver {method.solver!r}.")
    if method.method and (method.settings or method.settings_for):
        raise SettingError(f"{file}: {method.name} has settings, so it must name a solver, not a method.")
    if method.method:
        solvers.get(method.build({}))
