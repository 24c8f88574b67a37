"""``rankwise fit``: fit a model to a file of entries, and write it."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import click
import numpy as np

from .. import losses
from .._errors import DataError, SettingError
from ..engines import ShardFolder
from ..estimators import MatrixCompletion
from ..estimators.features import with_features
from ..io import Reading
from ..io.feature_file import read_features
from ..model import LowRankModel, Seen, save
from ..model.pairwise import marginal_at
from ..observations import AnyEntries, Observations, need_in_memory
from ..selection import Score, fitting_scores, split_entries
from ..solvers import METHODS, Checkpoint
from ..solvers.checkpoint import CheckpointFolder, opened
from ..storage import is_shard_folder
from . import clicks
from .files import check_output, check_values, positions, read
from .formatting import command_line, console, describe_loss, file_size, format_decimals, format_number, plural, to_json
from .progress import FitProgress
from .terminal import echo

COMPRESSED_SUFFIXES = (".gz", ".bz2", ".xz")


@dataclass(frozen=True, kw_only=True)
class FitOptions(Reading):
    """Arguments of the command, those of the reader among them."""

    file: Path
    output: Path | None
    duplicates: str
    loss: tuple[str, float | None]
    rank: int | str
    method: str
    offsets: str
    max_iter: int | None
    time_limit: float | None
    checkpoint: Path | None
    checkpoint_every: int | None
    resume: bool
    held_out: float | Path | None
    calibration: float
    seed: int
    threads: int | None
    memory_limit: str | None
    no_labels: bool
    no_seen: bool
    force: bool
    as_json: bool
    row_features: Path | None = None
    col_features: Path | None = None
    implicit: bool = False
    counts: str = "log"

    @property
    def target(self) -> Path:
        """File to write the model to."""
        if self.output is not None:
            return self.output
        name = self.file.with_suffix("") if self.file.suffix in COMPRESSED_SUFFIXES else self.file
        return Path(f"{name.stem}.rankwise")

    @property
    def chosen_loss(self) -> losses.Loss | None:
        """The loss, or None for "auto"."""
        name, parameter = self.loss
        if parameter is not None:
            return losses.BY_NAME[name](parameter)  # type: ignore[call-arg]
        return None if name == "auto" else losses.get(name)

    @property
    def checkpoints(self) -> Checkpoint | None:
        """Where and when to write checkpoints."""
        if self.checkpoint is None:
            if self.resume or self.checkpoint_every is not None:
                raise SettingError("--resume and --checkpoint-every need a folder: name it with --checkpoint.")
            return None
        return Checkpoint(self.checkpoint, self.checkpoint_every, self.resume)

    @property
    def n_steps(self) -> int | None:
        """Number of steps, if it is known before the fit."""
        solver = METHODS[self.method].solver
        if not solver.grows:
            return self.max_iter or solver.max_iter
        return self.rank if isinstance(self.rank, int) else None

    @property
    def is_open_ended(self) -> bool:
        """Whether the method takes more than `n_steps` steps where that helps."""
        return self.max_iter is None and METHODS[self.method].solver.most_steps > 0

    def estimator(self, folder: CheckpointFolder | None) -> MatrixCompletion:
        """Return the estimator with these options; it writes checkpoints to the open folder."""
        return MatrixCompletion(
            self.chosen_loss or "auto",
            self.rank,
            method=self.method,
            offsets=self.offsets,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            checkpoint=folder,
            calibration=self.calibration,
            n_jobs=-1 if self.threads is None else self.threads,
            random_state=self.seed,
        )


def run(options: FitOptions) -> None:
    """Read the entries, fit the model, write it, and print a summary."""
    if options.implicit:
        clicks.run(options)
        return
    clicks.refuse(clicks.CLICKS_ONLY, "is for clicks; add --implicit")
    check_output(options.target, options.force, options.file, options.held_out, options.checkpoint)
    try:
        with opened(options.checkpoints) as folder:
            entries = _read_entries(options)
            entries, features = _read_features(entries, options)
            train, held_out = _split(entries, options)
            estimator = options.estimator(folder)
            with FitProgress(options.n_steps, options.time_limit, at_least=options.is_open_ended) as progress:
                estimator.fit(train, held_out=held_out, callback=progress, **features)
    except KeyboardInterrupt:
        if options.checkpoint is None or not any(options.checkpoint.glob("step-*.checkpoint")):
            raise
        partial = f"no model was written, but --resume continues from the checkpoint in {options.checkpoint}"
        raise KeyboardInterrupt(partial) from None
    outcome = Outcome(estimator, held_out, options.target, progress.stopped, Seen.of(entries))
    save(outcome.model, options.target, labels=not options.no_labels, seen=not options.no_seen)
    if options.as_json:
        echo(to_json(outcome.to_dict()))
    else:
        outcome.show()


def _read_entries(options: FitOptions) -> AnyEntries:
    if options.file.is_dir() and not is_shard_folder(options.file):
        raise DataError(f"{options.file} is a folder; name a file in it, or a folder written by `rankwise shards`.")
    if options.file.is_dir():
        return ShardFolder(options.file, memory_limit=options.memory_limit)
    if options.memory_limit is not None:
        raise SettingError("--memory-limit is for folders of shards; make one with `rankwise shards` first.")
    table = read(options.file, options)
    check_values(table, options.chosen_loss)
    return table.observations(options.duplicates)


def _read_features(entries: AnyEntries, options: FitOptions) -> tuple[AnyEntries, dict[str, Any]]:
    """Return the entries with the rows and columns that only the features have, and the features for `fit`."""
    sides = (
        (options.row_features, entries.row_index, options.row),
        (options.col_features, entries.col_index, options.col),
    )
    tables = [None if path is None else read_features(path, index, name) for path, index, name in sides]
    for note in (note for table in tables if table is not None for note in table[1]):
        echo(note, err=True)
    rows, cols = (None if table is None else table[0] for table in tables)
    entries, _ = with_features(entries, {"rows": rows, "columns": cols}, {})
    return entries, {"row_features": rows, "col_features": cols}


def _split(entries: AnyEntries, options: FitOptions) -> tuple[AnyEntries, Observations | None]:
    """Return the training entries and the validation entries."""
    if options.held_out is None:
        return entries, None
    if isinstance(options.held_out, float):
        in_memory = need_in_memory(entries, "A fraction to hold out", "give a file of held-out entries")
        return split_entries(in_memory, options.held_out, options.seed)
    return entries, _read_held_out(options.held_out, entries, options)


def _read_held_out(path: Path, entries: AnyEntries, options: FitOptions) -> Observations:
    """Read validation entries, and drop those whose row or column has no label in the training entries."""
    table = read(path, replace(options, weight=None))  # scores weigh all entries alike
    check_values(table, options.chosen_loss)
    rows = positions(table.rows, entries.row_index)
    cols = positions(table.cols, entries.col_index)
    known = (rows >= 0) & (cols >= 0)
    if not known.any():
        raise DataError(f"{table.path}: no entry has a row and a column of {options.file}; give entries that do.")
    if not known.all():
        dropped = plural(int((~known).sum()), "entry")
        echo(f"{table.path}: left out {dropped} whose row or column is not in {options.file}.", err=True)
    values = np.empty(0) if table.values is None else table.values
    labels = entries.row_labels, entries.col_labels
    try:
        return Observations.from_coo(
            rows[known], cols[known], values[known], entries.shape, duplicates=options.duplicates, labels=labels
        )
    except DataError:
        table.refuse_repeats(options.duplicates)
        raise


@dataclass(frozen=True)
class Outcome:
    """A fitted estimator, and what the command knows about the fit."""

    estimator: MatrixCompletion  # fitted
    held_out: Observations | None  # validation entries
    target: Path  # the model's file
    stopped: bool  # whether Ctrl-C stopped the fit
    seen: Seen | None  # all entries of the file, the held-out ones included: none of them is to be recommended

    @cached_property
    def scores(self) -> list[Score]:
        """Scores on the validation entries; empty without any."""
        if self.held_out is None:
            return []
        model, held_out = self.estimator.model_, self.held_out
        return fitting_scores(model.loss, held_out.targets, marginal_at(model, held_out.rows, held_out.cols))

    @cached_property
    def status(self) -> str:
        """Sentence on why the fit stopped."""
        return "Stopped by Ctrl-C; the model so far is kept." if self.stopped else str(self.estimator.status_)

    @cached_property
    def model(self) -> LowRankModel:
        """The model with the command, the status and the validation scores among its facts."""
        facts: dict[str, Any] = {"command": command_line(click.get_current_context()), "status": self.status}
        if self.held_out is not None:
            scores = {score.name: score.value for score in self.scores}
            facts |= {"held_out": {"n": self.held_out.n_observed, "scores": scores}}
        model = self.estimator.model_
        return replace(model, facts=model.facts | facts, seen=self.seen)

    def to_dict(self) -> dict[str, Any]:
        """Return the summary for programs."""
        model, history = self.model, self.estimator.history_
        reason = "interrupted" if self.stopped else self.estimator.status_.reason
        return {
            "model": str(self.target),
            "bytes": self.target.stat().st_size,
            "shape": list(model.shape),
            "rank": model.rank,
            "loss": describe_loss(model.loss),
            "steps": len(history),
            "value": history[-1].value if len(history) else history.initial_value,
            "status": {"reason": reason, "message": self.status},
            "held_out": {score.name: score.value for score in self.scores},
        } | {name: model.facts[name] for name in ("n_observed", "seconds", "compile_seconds", "command")}

    def show(self) -> None:
        """Print the summary for people."""
        out, model, summary = console(), self.model, self.to_dict()
        entries = plural(summary["n_observed"], "entry")
        out.print(f"Learned:   {model.shape[0]:,} rows x {model.shape[1]:,} columns from {entries}, rank {model.rank}")
        out.print(f"Loss:      {summary['loss']}")
        steps = f"{plural(summary['steps'], 'step')}, {summary['seconds']:.1f} s"
        out.print(f"Objective: {format_number(summary['value'])} after {steps}. {self.status}")
        for score in self.scores:
            head = "Held out:" if score is self.scores[0] else ""
            out.print(f"{head:<11}{score.title} {format_decimals(score.value)} ({score.unit})")
        out.print(f"Model:     {self.target} ({file_size(self.target)})")
