"""``rankwise evaluate``: scores of a model on held-out entries."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .._errors import DataError
from ..model import load
from ..selection import Score, fitting_scores
from .files import ReadOptions, check_known, check_values, entry_positions, predictions_at, read
from .formatting import console, format_decimals, plural, print_table, to_json
from .terminal import echo


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(ReadOptions):
    """Arguments of the command."""

    model: Path
    held_out: Path
    rank: int | None
    unknown: str
    as_json: bool


def run(options: EvaluateOptions) -> None:
    """Read a model and entries, and print the scores that suit the model's loss."""
    model = load(options.model)
    entries = read(options.held_out, options.reading())
    check_values(entries, model.loss)
    rows, cols = entry_positions(entries, model)
    if options.unknown == "error":
        check_known(entries, rows, cols, "Leave them out with --unknown skip.")
    known = (rows >= 0) & (cols >= 0)
    scored = np.ones_like(known) if options.unknown == "offset" else known
    if not scored.any():
        raise DataError(f"{entries.path}: the model knows no entry's row and column; try --unknown offset.")
    values = np.empty(0) if entries.values is None else entries.values[scored]
    predictions = predictions_at(model, rows[scored], cols[scored], rank=options.rank, scale="link")
    scores = fitting_scores(model.loss, values, predictions)
    n_unknown, rank = int((~known).sum()), model.rank if options.rank is None else options.rank
    if options.as_json:
        sizes = {"rank": rank, "n_scored": int(scored.sum()), "n_unknown": n_unknown, "unknown": options.unknown}
        by_name = {score.name: score.value for score in scores}
        echo(to_json({"model": str(options.model), "held_out": entries.path} | sizes | {"scores": by_name}))
    else:
        _show(scores, options, int(scored.sum()), n_unknown, rank)


def _show(scores: list[Score], options: EvaluateOptions, n_scored: int, n_unknown: int, rank: int) -> None:
    out = console()
    title = f"{options.model} at rank {rank} on {plural(n_scored, 'entry')} of {options.held_out}"
    lines = [(score.title, format_decimals(score.value), score.unit) for score in scores]
    print_table(out, title, ("score", ">value", "unit"), lines)
    if n_unknown:
        treated = {"skip": "left out (--unknown offset scores them)", "offset": "predicted from the offsets alone"}
        entries = plural(n_unknown, "entry")
        out.print(f"{entries} with a row or column that the model has not seen: {treated[options.unknown]}.")
