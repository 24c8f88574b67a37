"""Checkpoints: a run that is killed at any moment resumes from the last one, to the same bits."""

import json
import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from .._checks import is_whole
from .._errors import CheckpointError, SettingError
from .._files import file_lock
from .._version import __version__
from ..objectives import Checkpointable, HasSides, Objective
from ..storage.archive import DAMAGE, read_arrays, write_arrays
from ..storage.trees import Packer, UnknownPart, Unpacker
from .base import Solver
from .history import Record
from .run import Run, SavedRun

log = logging.getLogger("rankwise")
CHECKPOINT_FORMAT, CHECKPOINT_VERSION = "rankwise-checkpoint", 1
NAME, PATTERN = "step-{:08d}.checkpoint", re.compile(r"step-(\d{8,})\.checkpoint")
CHECKPOINT_INTERVAL = 30.0  # seconds between two checkpoints if `every` is None
TIMES_WRITING = 20.0  # and at least so many times as long as writing one takes
LOGGED = {"phase": "checkpoint"}  # tells the command line which messages to show


@dataclass(frozen=True)
class Checkpoint:
    """Where and when a fit writes checkpoints, and whether it resumes from the last one.

    Parameters
    ----------
    folder : str or path
        Created if it does not exist. The last two checkpoints are kept.
    every : int, optional
        Steps between two checkpoints. By default about half a minute passes between them, and at least twenty times as
        long as writing one takes.
    resume : bool, default=False
        Whether to resume from the last checkpoint in the folder, if there is one, to the same bits as a fit that was
        never stopped. Data and settings must be the same, except `max_iter`, `tol`, `time_limit` and `callback`. If
        False, a folder that contains checkpoints raises an error.

    Examples
    --------
    >>> import tempfile
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = rw.solve(rw.Problem(seen, "square"), rank=2, checkpoint=folder)
    ...     again = rw.solve(rw.Problem(seen, "square"), rank=2, checkpoint=rw.Checkpoint(folder, resume=True))
    >>> bool((first.model.U == again.model.U).all())
    True
    """

    folder: str | os.PathLike[str]
    every: int | None = None
    resume: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.folder, str | os.PathLike):
            raise SettingError(f"`checkpoint` must be the path of a folder, or a `Checkpoint`, got {self.folder!r}.")
        if self.every is not None and not (is_whole(self.every) and self.every >= 1):
            raise SettingError(f"`every` must be a positive integer or None, got {self.every!r}.")
        if not isinstance(self.resume, bool | np.bool_):
            raise SettingError(f"`resume` must be True or False, got {self.resume!r}.")


class CheckpointFolder:
    """An open folder of checkpoints, locked against other fits until `close`.

    Parameters
    ----------
    settings : Checkpoint
    """

    def __init__(self, settings: Checkpoint) -> None:
        self.settings, self.folder = settings, Path(settings.folder)
        self.fit: dict[str, Any] = {}
        self._own: list[Path] = []  # sound checkpoints of this fit, the newest last
        self._last = -1  # step of the newest
        self._written, self._took, self._failed = 0.0, 0.0, False
        self._lock = self._open()

    def _open(self) -> FileLock:
        """Create the folder and lock it; return the lock."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = file_lock(self.folder / "lock")
            lock.acquire(timeout=0)
        except Timeout:
            raise CheckpointError(
                f"Another fit is writing checkpoints to {self.folder}; wait until it has ended, or use another folder."
            ) from None
        except OSError as error:
            raise CheckpointError(f"Checkpoints cannot be written to {self.folder}: {_reason(error)}.") from error
        try:
            _refuse_earlier(self.settings)
        except CheckpointError:
            lock.release()
            raise
        return lock

    def close(self) -> None:
        """Unlock the folder."""
        self._lock.release()

    def identify(self, objective: Objective, solver: Solver[Any, Any], **settings: Any) -> None:
        """Store what identifies this fit; raise unless solver and objective support checkpoints."""
        if not solver.checkpoints:
            raise SettingError(f"{type(solver).__name__} does not support checkpoints; set checkpoint=None.")
        described = {"solver": re.sub(r" at 0x[0-9a-f]+", "", repr(solver)), **settings}
        self.fit = json.loads(json.dumps(_checkpointable(objective).fingerprint() | described))

    def restored(self, objective: Objective, solver: Solver[Any, Any]) -> Run | None:
        """Return the run of the last sound checkpoint, with the objective moved to its point; None without one."""
        damaged: list[str] = []
        files = _checkpoints_in(self.folder)
        for k, path in enumerate(files):
            try:
                run = self._read(path, _checkpointable(objective), solver)
            except (MemoryError, PermissionError, CheckpointError):
                raise
            except DAMAGE:
                damaged.append(path.name)
                continue
            if damaged:
                log.warning("%s: %s is damaged; using %s", self.folder, damaged[-1], path.name, extra=LOGGED)
            self._own, self._last, self._written = [path], len(run.history), time.monotonic()
            if not damaged:
                self._own = [*files[k + 1 : k + 2], path]
                self._tidy()
            log.info("resuming from step %d, %s", self._last, path, extra=LOGGED)
            return run
        if damaged:
            raise CheckpointError(
                f"No checkpoint in {self.folder} can be read ({', '.join(damaged)}); delete them to start anew."
            )
        if self.settings.resume:
            log.info("no checkpoint in %s to resume from: starting anew", self.folder, extra=LOGGED)
        return None

    def _read(self, path: Path, objective: Checkpointable, solver: Solver[Any, Any]) -> Run:
        with open(path, "rb") as file:
            arrays = read_arrays(file)
        header = json.loads(arrays.pop("about").tobytes())
        if header["format"] != CHECKPOINT_FORMAT or header["version"] > CHECKPOINT_VERSION:
            raise CheckpointError(
                f"{path} is a {header['format']} of format {header['version']}; this version of rankwise reads "
                f"checkpoints up to format {CHECKPOINT_VERSION}."
            )
        self._compare(header["fit"])
        try:
            tree = Unpacker(_types(objective, solver), _references(objective), arrays).thing(header["run"])
            if not isinstance(tree, SavedRun):
                raise ValueError("it holds no run")
        except DAMAGE as error:
            if header["rankwise"] == __version__:
                raise
            raise CheckpointError(
                f"{path} was written by rankwise {header['rankwise']}, and {__version__} cannot resume from it; finish "
                "the fit with the version that began it, or start anew in another folder."
            ) from error
        if header["rankwise"] != __version__:
            text = "%s was written by rankwise %s, this is %s"
            log.warning(text, path, header["rankwise"], __version__, extra=LOGGED)
        return Run.restored(tree, objective, solver)

    def _compare(self, stored: dict[str, Any]) -> None:
        """Raise if the checkpoint is of another fit, naming what differs."""
        names = [name for name in {**self.fit, **stored} if self.fit.get(name) != stored.get(name)]
        shown = [name for name in names if not any(_is_checksum(fit.get(name)) for fit in (self.fit, stored))]
        differences = [f"{name} is {self.fit.get(name)!r} and was {stored.get(name)!r}" for name in shown]
        differences = differences or [f"{name} differ" if name.endswith("s") else f"{name} differs" for name in names]
        if differences:
            raise CheckpointError(
                f"The checkpoints in {self.folder} are of another fit: {'; '.join(differences)}. Resume with the data "
                "and settings of that fit, or use another folder."
            )

    def write(self, run: Run, seconds: tuple[float, float], ended: bool = False) -> None:
        """Write a checkpoint if one is due, and always before the first step and at the end of a run."""
        step = len(run.history)
        if step == self._last or not (ended or step == 0 or self._due(step)):
            return
        begun = time.monotonic()
        try:
            self._write(self.folder / NAME.format(step), run, seconds)
        except OSError as error:
            if not self._own:
                raise CheckpointError(f"Checkpoints cannot be written to {self.folder}: {_reason(error)}.") from error
            if not self._failed:
                text = "no checkpoint of step %d: %s; the fit continues, and %s remains"
                log.warning(text, step, _reason(error), self._own[-1].name, extra=LOGGED)
            self._failed = True
        else:
            self._last, self._failed = step, False
        self._written = time.monotonic()
        self._took = self._written - begun

    def _due(self, step: int) -> bool:
        if self.settings.every is not None:
            return step % self.settings.every == 0
        return time.monotonic() - self._written >= max(CHECKPOINT_INTERVAL, TIMES_WRITING * self._took)

    def _write(self, path: Path, run: Run, seconds: tuple[float, float]) -> None:
        objective, solver = _checkpointable(run.iterates.objective), run.iterates.solver
        named = {name: thing for name, thing in _named(objective).items() if thing is not None}
        packer = Packer(_types(objective, solver), named)
        try:
            tree = packer.plain(run.saved(objective, seconds))
        except UnknownPart as error:
            raise SettingError(
                f"The state of {type(solver).__name__} contains a {error}, which a checkpoint cannot store; use "
                "numbers, strings, arrays, lists, dicts, or dataclasses in `state_types`, or set checkpoint=None."
            ) from error
        header = {
            "format": CHECKPOINT_FORMAT,
            "version": CHECKPOINT_VERSION,
            "rankwise": __version__,
            "fit": self.fit,
            "run": tree,
        }
        write_arrays(path, {**packer.arrays, "about": np.frombuffer(json.dumps(header).encode(), np.uint8)})
        self._own = [*self._own[-1:], path]
        self._tidy()

    def _tidy(self) -> None:
        """Delete all but the last two sound checkpoints: older, damaged and unfinished ones."""
        unfinished = self.folder.glob(f".{NAME.format(0)[:5]}*.checkpoint.*")
        for path in {*_checkpoints_in(self.folder), *unfinished} - set(self._own):
            with suppress(OSError):
                path.unlink()


AnyCheckpoint = str | os.PathLike[str] | Checkpoint | CheckpointFolder | None


def open_folder(checkpoint: AnyCheckpoint) -> CheckpointFolder | None:
    """Open the folder of a checkpoint setting; return one that is open already as it is, and None for None."""
    if checkpoint is None or isinstance(checkpoint, CheckpointFolder):
        return checkpoint
    return CheckpointFolder(checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint))


@contextmanager
def opened(checkpoint: AnyCheckpoint) -> Iterator[CheckpointFolder | None]:
    """Open the folder of a checkpoint setting; close it at the end of the block if it was opened here."""
    folder = open_folder(checkpoint)
    try:
        yield folder
    finally:
        if folder is not None and folder is not checkpoint:
            folder.close()


def _checkpoints_in(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder, the newest first."""
    files = (path for path in folder.iterdir() if PATTERN.fullmatch(path.name) and path.is_file())
    return sorted(files, key=_step, reverse=True)


def _refuse_earlier(settings: Checkpoint) -> None:
    """Raise if the folder contains checkpoints and they are not to be resumed from."""
    files = [] if settings.resume else _checkpoints_in(Path(settings.folder))
    if files:
        raise CheckpointError(
            f"{settings.folder} contains checkpoints of an earlier fit, up to step {_step(files[0])}: continue it with "
            "`checkpoint=rankwise.Checkpoint(folder, resume=True)` or --resume, use another folder, or delete them."
        )


def _checkpointable(objective: Objective) -> Checkpointable:
    if not isinstance(objective, Checkpointable):
        raise SettingError(
            f"{type(objective).__name__} does not support checkpoints, which require `fingerprint`, `snapshot`, "
            "`restore` and `snapshot_types` (`rankwise.objectives.Checkpointable`); set checkpoint=None."
        )
    return objective


def _types(objective: Checkpointable, solver: Solver[Any, Any]) -> dict[str, type]:
    """Return the dataclasses that a checkpoint may contain, by name."""
    types = dict.fromkeys((SavedRun, Record, *objective.snapshot_types, *solver.state_types))
    names = [kind.__name__ for kind in types]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise SettingError(
            f"`state_types` of {type(solver).__name__} must have names of their own, got {', '.join(sorted(twice))} "
            "twice; rename the class."
        )
    return dict(zip(names, types, strict=True))


def _named(objective: Checkpointable) -> dict[str, object]:
    """Return the objects of an objective that a state may refer to; a checkpoint stores only their names."""
    if not isinstance(objective, HasSides):
        return {}
    engines = {"rows": objective.engine_of("rows"), "columns": objective.engines.get("columns")}
    return {"loss": objective.loss, **engines, **_features(objective)}


def _references(objective: Checkpointable) -> dict[str, Any]:
    """Return callables for the objects that a checkpoint refers to by name."""
    if not isinstance(objective, HasSides):
        return {}
    sides = {axis: partial(objective.engine_of, axis) for axis in ("rows", "columns")}
    features = {name: partial(_features(objective).__getitem__, name) for name in _features(objective)}
    return {"loss": lambda: objective.loss, **sides, **features}


def _features(objective: HasSides) -> dict[str, Any]:
    """Return the features of rows and columns by name."""
    return {f"features of {axis}": part for axis, part in getattr(objective, "features", {}).items()}


def _step(path: Path) -> int:
    match = PATTERN.fullmatch(path.name)
    return -1 if match is None else int(match[1])


def _is_checksum(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{32}", value) is not None


def _reason(error: OSError) -> str:
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "there is a file of that name"
    return str(error.strerror or error).lower()
