"""`rankwise evaluate`: scores of a model on entries that it has not learned from."""

from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from .._errors import DataError
from ..model import load
from ..selection import Score, fitting_scores
from .files import ToldToRead, check_values, places, predicted, read, reading, refuse_unknown
from .tables import console, table
from .words import decimals, in_json, plural


@dataclass(frozen=True, kw_only=True)
class Settings(ToldToRead):
    """What the command was told."""

    model: Path
    held_out: Path
    rank: int | None
    unknown: str
    as_json: bool


def run(settings: Settings) -> None:
    """Read a model and entries, and print the scores that fit the model's loss."""
    model = load(settings.model)
    entries = read(settings.held_out, reading(settings))
    check_values(entries, model.loss)
    rows, cols = places(entries, model)
    if settings.unknown == "error":
        refuse_unknown(entries, rows, cols, "Leave them out with --unknown skip.")
    known = (rows >= 0) & (cols >= 0)
    kept = np.ones_like(known) if settings.unknown == "offset" else known
    if not kept.any():
        raise DataError(f"{entries.path}: the model knows no entry's row and column; try --unknown offset.")
    values = np.empty(0) if entries.values is None else entries.values[kept]
    scores = fitting_scores(
        model.loss, values, predicted(model, rows[kept], cols[kept], rank=settings.rank, scale="link")
    )
    n_unknown, rank = int((~known).sum()), model.rank if settings.rank is None else settings.rank
    if settings.as_json:
        sizes = {"rank": rank, "n_scored": int(kept.sum()), "n_unknown": n_unknown, "unknown": settings.unknown}
        named = {score.name: score.value for score in scores}
        click.echo(in_json({"model": str(settings.model), "held_out": entries.path} | sizes | {"scores": named}))
    else:
        _show(scores, settings, int(kept.sum()), n_unknown, rank)


def _show(scores: list[Score], settings: Settings, n_scored: int, n_unknown: int, rank: int) -> None:
    out = console()
    title = f"{settings.model} at rank {rank} on {plural(n_scored, 'entry')} of {settings.held_out}"
    lines = [(score.title, decimals(score.value), score.unit) for score in scores]
    table(out, title, ("score", ">value", "unit"), lines)
    if n_unknown:
        done = {"skip": "left out (--unknown offset scores them)", "offset": "predicted by the offsets alone"}
        out.print(
            f"{plural(n_unknown, 'entry')} with a row or column the model has never seen: {done[settings.unknown]}."
        )
