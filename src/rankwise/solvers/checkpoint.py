"""Checkpoints: a fit that is killed at any moment goes on from the last one, to the same bits."""

import json
import logging
import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .._checks import is_whole
from .._errors import CheckpointError, SettingError
from .._locks import is_taken, release
from .._version import __version__
from ..engines import Offsets
from ..model.sides import Side
from ..objectives import Ridged
from ..objectives.journal import Added, Journal
from ..objectives.snapshot import MultitaskSnapshot, RidgedSnapshot, Snapshot
from ..storage.archive import DAMAGE, read_arrays, write_arrays
from ..storage.seal import sealed
from ..storage.trees import Packer, UnknownPart, Unpacker
from . import altmin, nonsmooth, nuclear, sweep_state
from .history import Record
from .pattern_prior import PatternPrior
from .run import Kept, Run

log = logging.getLogger("rankwise")
FORMAT, VERSION = "rankwise-checkpoint", 1
CLASSES: dict[str, type[Any]] = {
    **{kind.__name__: kind for kind in (Kept, Record, Snapshot, RidgedSnapshot, MultitaskSnapshot, Journal, Added)},
    **{kind.__name__: kind for kind in (Offsets, Side, PatternPrior, nuclear.Iterate)},
    **{f"{module}.State": kind for module, kind in (("altmin", altmin.State), ("nonsmooth", nonsmooth.State))},
    **{f"{module}.State": kind for module, kind in (("nuclear", nuclear.State), ("sweeps", sweep_state.State))},
}
NAME, PATTERN = "step-{:08d}.checkpoint", re.compile(r"step-(\d{8,})\.checkpoint")
APART = 30.0  # seconds between two checkpoints unless the caller says how many steps
SHARE = 20.0  # and at least so many times as long as writing one takes
SHARED = {"loss": "loss", "engine": "engine", "across": "_across"}  # what a state has of a problem, and where it is
SAID = {"phase": "checkpoint"}  # how the command line knows what to show


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a fit writes checkpoints, and whether it resumes from one.

    Parameters
    ----------
    folder : str or path
        Created if it does not exist.
    every : int, optional
        Iterations between two checkpoints. By default one is written about every 30 s.
    resume : bool, default=False
        If True, resume from the last checkpoint in the folder, if there is one; the result has the same bits as that
        of an uninterrupted fit. If False, a folder with checkpoints is an error.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.MatrixCompletion(checkpoint=rw.Checkpoint("checkpoints", every=5, resume=True)).checkpoint.every
    5
    """

    folder: str | os.PathLike[str]
    every: int | None = None
    resume: bool = False


class Checkpoints:
    """The checkpoints of one fit: files in a folder, the last two of them kept.

    Parameters
    ----------
    folder : str or path
        Made if it is not there.
    every : int, optional
        Steps between two checkpoints. By default one is written after the first step that ends half a minute after the
        last one, or twenty times as long after it as writing takes, so that writing takes a twentieth of the time at
        most.
    resume : bool, default=False
        Whether to go on from the last checkpoint, if there is one. Without it, a folder that has checkpoints is
        refused.
    """

    def __init__(self, folder: Any, every: int | None = None, resume: bool = False) -> None:
        if not isinstance(folder, str | os.PathLike):
            raise SettingError(f"`checkpoint` must be the path of a folder, got {folder!r}.")
        if every is not None and not (is_whole(every) and every >= 1):
            raise SettingError(f"Checkpoints are written every so many steps, an integer of at least 1, got {every!r}.")
        if not isinstance(resume, bool | np.bool_):
            raise SettingError(f"`resume` must be True or False, got {resume!r}.")
        self.folder, self.every, self.resume = Path(folder), every, bool(resume)
        self.fit: dict[str, Any] = {}
        self._own: list[Path] = []  # sound ones, the newest last
        self._last = -1  # step of the last one
        self._written, self._took, self._failed = 0.0, 0.0, False
        self._lock = self._opened()

    def _opened(self) -> int | None:
        """Make the folder and claim it for this fit."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            found = self._files()
            lock = os.open(self.folder / "lock", os.O_WRONLY | os.O_CREAT, 0o666)
        except OSError as error:
            raise CheckpointError(f"Checkpoints cannot be written to {self.folder}: {_reason(error)}.") from error
        if is_taken(lock):
            os.close(lock)
            raise CheckpointError(
                f"Another fit is writing checkpoints to {self.folder}; wait for it, or give another folder."
            )
        if found and not self.resume:
            release(lock)
            raise CheckpointError(
                f"{self.folder} holds checkpoints of an earlier fit, up to step {_step(found[0])}: go on with "
                "`resume=True`, give another folder, or delete them."
            )
        return lock

    def close(self) -> None:
        """Let another fit have the folder."""
        if self._lock is not None:
            release(self._lock)
            self._lock = None

    def is_of(self, objective: Any, solver: Any, **settings: Any) -> None:
        """Say what is fitted, and how: what a checkpoint must agree with to be gone on from."""
        if not solver.checkpoints:
            raise SettingError(f"{type(solver).__name__} writes no checkpoints; leave out `checkpoint`.")
        if not hasattr(objective, "snapshot") or not hasattr(objective, "fingerprint"):
            raise SettingError(
                f"{type(objective).__name__} cannot be checkpointed: it needs `fingerprint`, `snapshot` and `restore`, "
                "as Problem has them; leave out `checkpoint`."
            )
        about = {"solver": re.sub(r" at 0x[0-9a-f]+", "", repr(solver)), **settings}
        self.fit = json.loads(json.dumps(objective.fingerprint() | about))

    def restored(self, objective: Any, solver: Any) -> Run | None:
        """The run as the last sound checkpoint has it, the objective moved there; None if there is no checkpoint."""
        damaged: list[str] = []
        files = self._files()
        for k, path in enumerate(files):
            try:
                run = self._read(path, objective, solver)
            except (MemoryError, PermissionError, CheckpointError):
                raise
            except DAMAGE:
                damaged.append(path.name)
                continue
            if damaged:
                log.warning("%s: %s is damaged; going back to %s", self.folder, damaged[-1], path.name, extra=SAID)
            self._own, self._last, self._written = [path], len(run.history), time.monotonic()
            if not damaged:
                self._own = [*files[k + 1 : k + 2], path]
                self._tidy()
            log.info("going on from step %d, %s", self._last, path, extra=SAID)
            return run
        if damaged:
            raise CheckpointError(
                f"No checkpoint in {self.folder} can be read ({', '.join(damaged)}); delete them to start anew."
            )
        if self.resume:
            log.info("no checkpoint in %s to go on from: starting anew", self.folder, extra=SAID)
        return None

    def _read(self, path: Path, objective: Any, solver: Any) -> Run:
        with open(path, "rb") as file:
            if not sealed(file):
                raise ValueError("its checksum does not hold")
            arrays = read_arrays(file)
        about = json.loads(arrays.pop("about").tobytes())
        if about["format"] != FORMAT or about["version"] > VERSION:
            raise CheckpointError(
                f"{path} is a {about['format']} of format {about['version']}; this version of rankwise goes on from "
                f"checkpoints up to {VERSION}."
            )
        self._compare(about["fit"])
        try:
            inner = _inside(objective)
            outside = {name: partial(getattr, inner, name) for name in SHARED}
            kept = Unpacker(CLASSES, outside, arrays).thing(about["run"])
            if not isinstance(kept, Kept):
                raise ValueError("it holds no run")
        except DAMAGE as error:
            if about["rankwise"] == __version__:
                raise
            raise CheckpointError(
                f"{path} was written by rankwise {about['rankwise']}, and {__version__} cannot go on from it; end the "
                "fit with the version that began it, or start anew in another folder."
            ) from error
        if about["rankwise"] != __version__:
            log.warning("%s was written by rankwise %s, this is %s", path, about["rankwise"], __version__, extra=SAID)
        return Run.restored(kept, objective, solver)

    def _compare(self, found: dict[str, Any]) -> None:
        """Raise if the checkpoint is of another fit, with what differs."""
        names = [name for name in {**self.fit, **found} if self.fit.get(name) != found.get(name)]
        told = [name for name in names if not any(_is_checksum(fit.get(name)) for fit in (self.fit, found))]
        differences = [f"{name} is {self.fit.get(name)!r} and was {found.get(name)!r}" for name in told]
        differences = differences or [f"{name} differ" if name.endswith("s") else f"{name} differs" for name in names]
        if differences:
            raise CheckpointError(
                f"The checkpoints in {self.folder} are of another fit: {'; '.join(differences)}. Resume with the data "
                "and settings of that fit, or give another folder."
            )

    def keep(self, run: Run, seconds: tuple[float, float], ended: bool = False) -> None:
        """Write a checkpoint if one is due, and always of the first and the last moment of a run."""
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
                kept = f"{self._own[-1].name} stays, and the fit goes on"
                log.warning("no checkpoint of step %d: %s; %s", step, _reason(error), kept, extra=SAID)
            self._failed = True
        else:
            self._last, self._failed = step, False
        self._written = time.monotonic()
        self._took = self._written - begun

    def _due(self, step: int) -> bool:
        if self.every is not None:
            return step % self.every == 0
        return time.monotonic() - self._written >= max(APART, SHARE * self._took)

    def _write(self, path: Path, run: Run, seconds: tuple[float, float]) -> None:
        inner = _inside(run.iterates.objective)
        packer = Packer(CLASSES, {name: getattr(inner, made, None) for name, made in SHARED.items()})
        try:
            tree = packer.plain(run.kept(seconds))
        except UnknownPart as error:
            raise SettingError(
                f"{type(run.iterates.solver).__name__} carries a {error} from step to step, which a checkpoint cannot "
                "hold; use numbers, words, arrays, lists and dicts, or leave out `checkpoint`."
            ) from error
        about = {"format": FORMAT, "version": VERSION, "rankwise": __version__, "fit": self.fit, "run": tree}
        write_arrays(path, {**packer.arrays, "about": np.frombuffer(json.dumps(about).encode(), np.uint8)})
        self._own = [*self._own[-1:], path]
        self._tidy()

    def _tidy(self) -> None:
        """Delete what is neither of the last two sound checkpoints: older ones, damaged ones, unfinished ones."""
        unfinished = self.folder.glob(f".{NAME.format(0)[:5]}*.checkpoint.*")
        for path in {*self._files(), *unfinished} - set(self._own):
            with suppress(OSError):
                path.unlink()

    def _files(self) -> list[Path]:
        """Checkpoints in the folder, the newest first."""
        found = (path for path in self.folder.iterdir() if PATTERN.fullmatch(path.name))
        return sorted(found, key=_step, reverse=True)


def opened(folder: Any, every: int | None = None, resume: bool = False) -> Checkpoints | None:
    """The checkpoints of a fit, if it is to have any."""
    if isinstance(folder, Checkpoint):
        return Checkpoints(folder.folder, folder.every, folder.resume)
    if folder is not None:
        return Checkpoints(folder, every, resume)
    if every is not None or resume is not False:
        raise SettingError("`checkpoint` must name the folder of the checkpoints to write or to `resume` from.")
    return None


def check_folder(folder: Any, every: int | None = None, resume: bool = False) -> None:
    """Raise what `opened` would raise, before any work."""
    checkpoints = opened(folder, every, resume)
    if checkpoints is not None:
        checkpoints.close()


def _inside(objective: Any) -> Any:
    """The objective without its ridge."""
    while isinstance(objective, Ridged):
        objective = objective.objective
    return objective


def _step(path: Path) -> int:
    found = PATTERN.fullmatch(path.name)
    return -1 if found is None else int(found[1])


def _is_checksum(found: Any) -> bool:
    return isinstance(found, str) and re.fullmatch("[0-9a-f]{32}", found) is not None


def _reason(error: OSError) -> str:
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "there is a file of that name"
    return str(error.strerror or error).lower()
