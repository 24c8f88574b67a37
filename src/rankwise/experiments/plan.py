"""What an experiment is, read from a TOML file: data sets, split, methods with settings, what the paper printed."""

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
from .._checks import is_number, is_whole
from .._errors import SettingError
from .scores import SCORES

KINDS = ("folds", "random")
SEARCH, TIME_LIMIT = "search", "time_limit"  # settings that the runner fills in


@dataclass(frozen=True)
class Printed:
    """A number of the paper: mean, deviation, and whether it was printed in bold face."""

    mean: float
    deviation: float
    best: bool = False


@dataclass(frozen=True)
class Data:
    """A data set by its name in `rankwise.datasets`, the name to show, and the rank to learn."""

    name: str
    label: str
    rank: int


@dataclass(frozen=True)
class Split:
    """Parts that are held out in turn.

    Attributes
    ----------
    kind : {"folds", "random"}
        Folds of a cross-validation, or random splits of their own.
    parts : int
        How many.
    held_out : float
        Share of the entries that a random split holds out.
    seed : int
        Folds are drawn with it, random split k with ``seed + k``.
    """

    kind: str
    parts: int
    held_out: float = 0.5
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Method:
    """A row of the table.

    Attributes
    ----------
    name : str
        Unique within the experiment; results are stored under it.
    label : str
        The name to show.
    method : str
        A name of `rankwise.solvers.METHODS`, or
    solver : str
        a class of `rankwise.solvers`, made with `settings`.
    settings : mapping
        ``nuclear_weight = "search"`` is found on the first split; ``"time_limit"`` stands for the limit in seconds.
    settings_for : mapping of data set to mapping
        Settings that differ by data set.
    paper : mapping of data set to Printed
        What the paper printed for this row.
    note : str
        A sentence for below the table.
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
        """Settings for one data set, before the runner fills in what it must find."""
        return {**self.settings, **self.settings_for.get(data, {})}

    def build(self, settings: Mapping[str, Any]) -> Any:
        """The solver, or the name of the method."""
        return getattr(solvers, self.solver)(**settings) if self.solver else self.method


@dataclass(frozen=True)
class Experiment:
    """A table of the paper and the figure that belongs to it.

    Attributes
    ----------
    name, figure : str
        The paper's names for them.
    title : str
    loss : str
    scores : tuple of str
        Names in `SCORES`; the first is the one that the paper printed and draws.
    standardise : bool
        Whether the training half's mean is taken off the targets and its deviation divided out.
    time_limit : float
        Seconds per fit.
    split : Split
    used : int
        How many of the split's parts are run, from the first on.
    data : tuple of Data
    methods : tuple of Method
    quick : mapping
        What a quick run changes: `used`, `time_limit`, `data`, and `without`, names of methods that it leaves out.
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
        """Sixteen letters that change with anything that decides a result, other than the time limit."""
        decisive = {
            "loss": self.loss,
            "standardise": self.standardise,
            "rank": data.rank,
            "split": vars(self.split),
            "method": method.method or method.solver,
            "settings": method.settings_on(data.name),
        }
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]

    def quickened(self) -> "Experiment":
        """The quick version, as the file has it; a data set that is not in it stays if it is the only one."""
        kept = tuple(one for one in self.data if one.name in self.quick.get("data", [one.name]))
        found = self.first(self.quick.get("used", self.used)).within(self.quick.get("time_limit", self.time_limit))
        methods = tuple(one for one in self.methods if one.name not in self.quick.get("without", ()))
        return replace(found, data=kept or self.data, methods=methods)

    def first(self, used: int) -> "Experiment":
        """The same on the first few splits only."""
        if not is_whole(used) or not 1 <= used <= self.split.parts:
            raise SettingError(f"{self.name} has {self.split.parts} splits; use from 1 to all of them, got {used!r}.")
        return replace(self, used=used)

    def on(self, data: str) -> "Experiment":
        """The same on one data set only."""
        kept = tuple(one for one in self.data if one.name == data)
        if not kept:
            names = ", ".join(one.name for one in self.data)
            raise SettingError(f"{self.name} has no data set {data!r}: use one of {names}.")
        return replace(self, data=kept)

    def within(self, time_limit: float) -> "Experiment":
        """The same with another time limit."""
        if not is_number(time_limit) or not time_limit > 0:
            raise SettingError(f"The time limit must be a positive number of seconds, got {time_limit!r}.")
        return replace(self, time_limit=float(time_limit))

    def searched(self) -> "Experiment":
        """The same with every stored nuclear weight searched for again."""
        return replace(self, methods=tuple(_searched(method) for method in self.methods))


def _searched(method: Method) -> Method:
    again = {
        data: {**settings, "nuclear_weight": SEARCH} if "nuclear_weight" in settings else settings
        for data, settings in method.settings_for.items()
    }
    return replace(method, settings_for=again)


@cache
def available() -> dict[str, Experiment]:
    """All experiments of the paper, by the name of their table."""
    found = (entry for entry in files(__package__).iterdir() if entry.name.endswith(".toml"))
    experiments = (_experiment(tomllib.loads(entry.read_text(encoding="utf-8")), entry.name) for entry in found)
    return {experiment.name: experiment for experiment in sorted(experiments, key=lambda one: one.name)}


def find(name: str) -> Experiment:
    """The experiment behind a table or a figure of the paper."""
    for experiment in available().values():
        if name in (experiment.name, experiment.figure):
            return experiment
    names = [*available(), *(experiment.figure for experiment in available().values())]
    raise SettingError(f"Unknown experiment {name!r}: use one of {', '.join(names)} or all.")


def read(path: str | os.PathLike[str]) -> Experiment:
    """An experiment of your own."""
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
        found = Experiment(
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
    _check(found, file)
    return found


def _method(entry: dict[str, Any]) -> Method:
    return Method(**entry | {"paper": {data: Printed(**number) for data, number in entry.get("paper", {}).items()}})


def _check(experiment: Experiment, file: str) -> None:
    """Raise on names that do not exist."""
    if experiment.split.kind not in KINDS:
        raise SettingError(f"{file}: a split is one of {', '.join(KINDS)}, got {experiment.split.kind!r}.")
    unknown = [score for score in experiment.scores if score not in SCORES]
    if unknown or not experiment.scores:
        raise SettingError(f"{file}: scores must be among {', '.join(SCORES)}, got {list(experiment.scores)}.")
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
        solvers.get(method.method)
