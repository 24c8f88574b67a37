"""`rankwise fit`: from a file of entries to a model file."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import click
import numpy as np

from .. import losses, solvers
from .._errors import DataError, SettingError
from ..engines import ShardFolder
from ..estimators import MatrixCompletion
from ..model import LowRankModel, Seen, save
from ..observations import LabelIndex, Observations
from ..selection import Score, fitting_scores, split_entries
from ..solvers import Checkpoint
from ..solvers.checkpoint import check_folder
from ..solvers.validation import need_in_memory
from ..storage import is_shard_folder
from .files import ToldToRead, check_output, check_values, known, read, reading
from .progress import Watch
from .tables import console, size_of
from .words import command_line, decimals, in_json, loss_in_words, number, plural

PACKED = (".gz", ".bz2", ".xz")


@dataclass(frozen=True, kw_only=True)
class Settings(ToldToRead):
    """What the command was told."""

    file: Path
    output: Path | None
    duplicates: str
    loss: tuple[str, float | None]
    rank: int | str
    method: str | None
    refine: str | None
    offsets: str | None
    max_iter: int | None
    time_limit: float | None
    checkpoint: Path | None
    every: int | None
    resume: bool
    held_out: float | Path | None
    seed: int
    threads: int | None
    memory_limit: str | None
    no_labels: bool
    no_seen: bool
    force: bool
    as_json: bool

    @property
    def target(self) -> Path:
        """Where the model goes."""
        if self.output is not None:
            return self.output
        name = self.file.with_suffix("") if self.file.suffix in PACKED else self.file
        return Path(f"{name.stem}.rankwise")

    @property
    def given_loss(self) -> losses.Loss | None:
        """The loss that was asked for; None for "auto"."""
        name, number = self.loss
        if number is not None:
            return losses.BY_NAME[name](number)  # type: ignore[call-arg]
        return None if name == "auto" else losses.get(name)

    def estimator(self) -> MatrixCompletion:
        """The estimator that does what was asked."""
        return MatrixCompletion(
            self.loss[0] if self.loss[1] is None else self.given_loss,  # type: ignore[arg-type]
            self.rank,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            method=self.chosen,
            offsets=self.offsets or "auto",
            checkpoint=None if self.checkpoint is None else Checkpoint(self.checkpoint, self.every, self.resume),
            n_jobs=-1 if self.threads is None else self.threads,
            random_state=self.seed,
        )

    @property
    def chosen(self) -> str:
        """Name of the method."""
        names = {"coefficients": "glrl", "economic": "eglrl", "none": "glrl-none"}
        return self.method or names.get(self.refine or "bayes", self.refine or "bayes")

    @property
    def n_steps(self) -> int | None:
        """Steps that the fit takes, if that is known beforehand."""
        solver = solvers.METHODS[self.chosen][0]
        if not solver.grows:
            return self.max_iter or solver.max_iter
        return self.rank if isinstance(self.rank, int) else None


def run(settings: Settings) -> None:
    """Read, fit, save, and say what came of it."""
    target = settings.target
    check_output(target, settings.force)
    if settings.checkpoint is not None:
        check_folder(solvers.Checkpoint(settings.checkpoint, settings.every, settings.resume))
    given = _entries(settings)
    train, held_out = _parts(given, settings)
    estimator = settings.estimator()
    try:
        with Watch(settings.n_steps, settings.time_limit) as watch:
            estimator.fit(train, held_out=held_out, callback=watch)
    except KeyboardInterrupt:
        if settings.checkpoint is None or not any(settings.checkpoint.glob("step-*.checkpoint")):
            raise
        kept = f"there is no model, but a checkpoint in {settings.checkpoint}, from which --resume goes on"
        raise KeyboardInterrupt(kept) from None
    outcome = Outcome(estimator, held_out, target, watch.stopped, Seen.of(given))
    save(outcome.model, target, labels=not settings.no_labels, seen=not settings.no_seen)
    if settings.as_json:
        click.echo(in_json(outcome.plain()))
    else:
        outcome.tell()


def _entries(settings: Settings) -> Observations | ShardFolder:
    """The entries of the file, or of the folder of shards."""
    if settings.file.is_dir() and not is_shard_folder(settings.file):
        raise DataError(f"{settings.file} is a folder; name a file in it, or one that `rankwise shards` has made.")
    if settings.file.is_dir():
        return ShardFolder(settings.file, memory_limit=settings.memory_limit)
    if settings.memory_limit is not None:
        raise SettingError("`memory_limit` is for folders of shards; make one with `rankwise shards` first.")
    table = read(settings.file, reading(settings))
    check_values(table, settings.given_loss)
    return table.observations(settings.duplicates)


def _parts(observations: Any, settings: Settings) -> tuple[Any, Observations | None]:
    """Entries to learn from, and entries to score."""
    if settings.held_out is None:
        return observations, None
    if isinstance(settings.held_out, float):
        given = need_in_memory(observations, "A share to hold out", "give a file of held-out entries")
        return split_entries(given, settings.held_out, settings.seed)
    table = read(settings.held_out, replace(reading(settings), weight=None))  # scores weigh all entries alike
    check_values(table, settings.given_loss)
    rows = known(table.rows, LabelIndex(observations.row_labels, observations.shape[0], "row"))
    cols = known(table.cols, LabelIndex(observations.col_labels, observations.shape[1], "column"))
    kept = (rows >= 0) & (cols >= 0)
    if not kept.any():
        raise DataError(f"{table.path}: no entry has a row and a column of {settings.file}; give entries that do.")
    if not kept.all():
        left_out = plural(int((~kept).sum()), "entry")
        click.echo(f"{table.path}: left out {left_out} whose row or column is not in {settings.file}.", err=True)
    values = np.empty(0) if table.values is None else table.values
    labels = observations.row_labels, observations.col_labels
    try:
        held_out = Observations.from_coo(
            rows[kept], cols[kept], values[kept], observations.shape, duplicates=settings.duplicates, labels=labels
        )
    except DataError:
        table.refuse_repeats(settings.duplicates)
        raise
    return observations, held_out


@dataclass(frozen=True)
class Outcome:
    """What came of a fit."""

    estimator: MatrixCompletion
    held_out: Observations | None
    target: Path
    stopped: bool
    seen: Seen | None  # all entries of the file: a row has its held-out columns, too, and is not to be recommended them

    @cached_property
    def scores(self) -> list[Score]:
        """On the held-out entries, if any."""
        if self.held_out is None:
            return []
        model, held_out = self.estimator.model_, self.held_out
        return fitting_scores(model.loss, held_out.targets, model.at(held_out.rows, held_out.cols))

    @cached_property
    def status(self) -> str:
        """Why it stopped."""
        return "Stopped by Ctrl-C; the model so far is kept." if self.stopped else str(self.estimator.status_)

    @cached_property
    def model(self) -> LowRankModel:
        """The model, with what the command knows of its making."""
        held_out = {score.name: score.value for score in self.scores}
        n_held_out = 0 if self.held_out is None else self.held_out.n_observed
        about: dict[str, Any] = {"command": command_line(click.get_current_context()), "status": self.status}
        if n_held_out:
            about |= {"held_out": {"n": n_held_out, "scores": held_out}}
        model: LowRankModel = self.estimator.model_
        return replace(model, facts=model.facts | about, seen=self.seen)

    def plain(self) -> dict[str, Any]:
        """For programs."""
        model, history = self.model, self.estimator.history_
        kept = ("n_observed", "seconds", "compile_seconds", "command")
        reason = "interrupted" if self.stopped else self.estimator.status_.reason
        return {
            "model": str(self.target),
            "bytes": self.target.stat().st_size,
            "shape": list(model.shape),
            "rank": model.rank,
            "loss": loss_in_words(model.loss),
            "steps": len(history),
            "value": history[-1].value if len(history) else history.initial_value,
            "status": {"reason": reason, "message": self.status},
            "held_out": {score.name: score.value for score in self.scores},
        } | {name: model.facts[name] for name in kept}

    def tell(self) -> None:
        """For people."""
        out, model, facts = console(), self.model, self.plain()
        entries = plural(facts["n_observed"], "entry")
        out.print(f"Learned:   {model.shape[0]:,} rows x {model.shape[1]:,} columns from {entries}, rank {model.rank}")
        out.print(f"Loss:      {facts['loss']}")
        took = f"{plural(facts['steps'], 'step')}, {facts['seconds']:.1f} s"
        out.print(f"Objective: {number(facts['value'])} after {took}. {self.status}")
        for score in self.scores:
            head = "Held out:" if score is self.scores[0] else ""
            out.print(f"{head:<11}{score.title} {decimals(score.value)} ({score.unit})")
        out.print(f"Model:     {self.target} ({size_of(self.target)})")
