"""``rankwise fit --implicit`` and the scores of models of clicks, which have no values."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from click.core import ParameterSource

from .._arrays import Array
from .._errors import DataError, SettingError
from ..estimators import ImplicitFactorization
from ..estimators.implicit import clicks_of_pairs
from ..io import EntryTable, Reading, read_table
from ..model import LowRankModel, save
from ..observations import Observations
from ..selection import RankingScores, most_popular, ranking_scores, split_within_rows
from .files import check_output, read
from .formatting import command_line, console, file_size, format_decimals, plural, print_table, to_json
from .terminal import echo

if TYPE_CHECKING:
    from .fit import FitOptions

TOP = 20  # columns recommended to each row when rankings are scored
RATINGS_ONLY = (
    *("loss", "method", "offsets", "max_iter", "time_limit", "calibration", "weight", "missing", "duplicates"),
    *("checkpoint", "checkpoint_every", "resume", "memory_limit", "row_features", "col_features"),
)
CLICKS_ONLY = ("time", "counts")


def refuse(names: tuple[str, ...], reason: str) -> None:
    """Raise `SettingError` if one of these options was typed."""
    context = click.get_current_context()
    for name in names:
        if context.get_parameter_source(name) == ParameterSource.COMMANDLINE:
            raise SettingError(f"--{name.replace('_', '-')} {reason}.")


def run(options: "FitOptions") -> None:
    """Read the clicks, fit the model, write it, and print a summary."""
    refuse(RATINGS_ONLY, "does not apply to clicks; leave it out, or leave out --implicit")
    check_output(options.target, options.force, options.file, options.held_out)
    clicks, times = _read_clicks(options)
    train, train_times, held_out = _split(clicks, times, options)
    n_jobs = -1 if options.threads is None else options.threads
    estimator = ImplicitFactorization(
        options.rank, counts=options.counts, n_jobs=n_jobs, random_state=options.seed
    ).fit(train, time=train_times)
    outcome = ClickOutcome(estimator.model_, held_out, options.target)
    save(outcome.model, options.target, labels=not options.no_labels, seen=not options.no_seen)
    if options.as_json:
        echo(to_json(outcome.to_dict()))
    else:
        outcome.show()


def read_clicks(path: Path, reading: Reading) -> tuple[EntryTable, Observations]:
    """Read pairs, and their counts if a column of values is chosen; repeated pairs are added up."""
    table = read(path, replace(reading, pairs=reading.value is None))
    return table, clicks_of_pairs(*_labels(table), table.values, None)[0]


def _read_clicks(options: "FitOptions") -> tuple[Observations, Array | None]:
    """Clicks with their counts, and the latest time of each if there is a column of times."""
    if options.file.is_dir():
        raise DataError(f"{options.file} is a folder; --implicit reads files into memory, so name a file.")
    table, clicks = read_clicks(options.file, options)
    if table.values is None:
        echo(f"{table.path}: no values are read; each of {plural(table.size, 'line')} is a click.", err=True)
    if options.time is None:
        return clicks, None
    stamps = _times(options.file, replace(options, col=options.time, value=None, pairs=True))
    if stamps.size != table.size:
        raise DataError(f"{table.path}: {stamps.size:,} times for {table.size:,} clicks; every line needs a time.")
    return clicks_of_pairs(*_labels(table), table.values, stamps)


def _labels(table: EntryTable) -> tuple[Array, Array]:
    return table.rows.names[table.rows.codes], table.cols.names[table.cols.codes]


def _times(path: Path, reading: Reading) -> Array:
    """Numbers in the order of the times in a column, which the reader takes for labels."""
    try:
        table = read_table(path, reading)
    except DataError:  # the clicks were read before, so that it is the column of times
        raise DataError(f"{path}: no column {reading.col!r} to read times from; set --time to another.") from None
    names = table.cols.names
    if names.dtype.kind not in "iu":
        for kind in (np.float64, "datetime64[ns]"):
            try:
                names = names.astype(str).astype(kind)
                break
            except ValueError:
                continue
        else:
            raise DataError(f"{table.path}: times must be numbers or dates such as 2024-05-31, got {names[0]!s}.")
    if (names != names).any():
        raise DataError(f"{table.path}: some times are missing; leave those lines out.")
    return np.unique(names, return_inverse=True)[1][table.cols.codes]


def _split(
    clicks: Observations, times: Array | None, options: "FitOptions"
) -> tuple[Observations, Array | None, Observations | None]:
    """Training clicks, their times, and held-out clicks: the latest of each row if there are times."""
    if options.held_out is None:
        return clicks, times, None
    if isinstance(options.held_out, Path):
        return clicks, times, read_clicks(options.held_out, options)[1]
    train, held_out = split_within_rows(clicks, options.held_out, time=times, random_state=options.seed)
    if times is not None:
        n_cols = clicks.shape[1]
        keys = [part.rows.astype(np.int64) * n_cols + part.cols for part in (clicks, train)]
        times = times[np.isin(keys[0], keys[1], assume_unique=True)]
    return train, times, held_out


@dataclass(frozen=True)
class ClickOutcome:
    """A model of clicks, and what the command knows about its fit."""

    fitted: LowRankModel
    held_out: Observations | None
    target: Path  # the model's file

    @cached_property
    def scores(self) -> RankingScores | None:
        """Scores on the held-out clicks; None without any."""
        return None if self.held_out is None else ranking_scores(self.fitted, self.held_out, TOP)

    @cached_property
    def model(self) -> LowRankModel:
        """The model with the command and the scores among its facts."""
        facts: dict[str, Any] = {"command": command_line(click.get_current_context())}
        if self.held_out is not None and self.scores is not None:
            scores = {f"recall_at_{TOP}": self.scores.recall, f"ndcg_at_{TOP}": self.scores.ndcg}
            facts["held_out"] = {"n": self.held_out.n_observed, "scores": scores}
        return replace(self.fitted, facts=self.fitted.facts | facts)

    def to_dict(self) -> dict[str, Any]:
        """Return the summary for programs."""
        model, names = self.model, ("n_observed", "seconds", "chosen", "chosen_on", "parts", "rule", "command")
        return {
            "model": str(self.target),
            "bytes": self.target.stat().st_size,
            "shape": list(model.shape),
            "rank": model.rank,
            "held_out": {} if self.scores is None else self.scores._asdict(),
        } | {name: model.facts[name] for name in names}

    def show(self) -> None:
        """Print the summary for people."""
        out, model, facts = console(), self.model, self.model.facts
        clicks = plural(facts["n_observed"], "pair")
        out.print(f"Learned:   {model.shape[0]:,} rows x {model.shape[1]:,} columns from {clicks}")
        out.print(f"Chosen:    {facts['chosen']}; on {facts['chosen_on']}, {facts['seconds']:.1f} s")
        for k, (part, recall, ndcg) in enumerate(facts["parts"]):
            worth = f"recall@{TOP} {format_decimals(recall)}, NDCG@{TOP} {format_decimals(ndcg)}"
            out.print(f"{'' if k else 'Parts:':<11}{part}: {worth}")
        if self.scores is not None:
            recall, ndcg = format_decimals(self.scores.recall), format_decimals(self.scores.ndcg)
            rows = plural(self.scores.n_rows, "row")
            out.print(f"Held out:  recall@{TOP} {recall}, NDCG@{TOP} {ndcg} (means over {rows}, higher is better)")
        out.print(f"Model:     {self.target} ({file_size(self.target)})")


def score_rankings(model: LowRankModel, held_out: Observations, k: int, **options: Any) -> dict[str, RankingScores]:
    """Scores of the model's recommendations, and of the columns with the most training entries."""
    rankings = {"model": (model, options), "most popular": (most_popular(model), {"least": options.get("least")})}
    return {name: ranking_scores(each, held_out, k, **given) for name, (each, given) in rankings.items()}


def show_rankings(title: str, scores: dict[str, RankingScores]) -> None:
    """Print a table of ranking scores."""
    lines = [
        (one[0][0], *(format_decimals(value) for _, value, _ in one), one[0][2])
        for one in zip(*(each.titled() for each in scores.values()), strict=True)
    ]
    print_table(console(), title, ("score", *(f">{name}" for name in scores), "unit"), lines)
