"""``rankwise evaluate``: scores of a model on held-out entries."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from .._errors import DataError, SettingError
from ..io import Reading
from ..model import LowRankModel, load
from ..model.pairwise import marginal_at
from ..selection import Score, fitting_scores
from ..selection.scoring import best_constant
from . import clicks
from .files import check_known, check_values, entry_positions, read
from .formatting import console, format_decimals, plural, print_table, to_json
from .terminal import echo


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(Reading):
    """Arguments of the command, those of the reader among them."""

    model: Path
    held_out: Path
    rank: int | None
    unknown: str
    top: int | None
    least: float | None
    as_json: bool


def run(options: EvaluateOptions) -> None:
    """Read a model and entries; print the scores of the model, of its offsets alone and of the best constant."""
    model = load(options.model)
    if model.ranks_clicks or options.top is not None:
        _rank(model, options)
        return
    if options.least is not None:
        raise SettingError("--least is for rankings; add --top.")
    entries = read(options.held_out, options)
    check_values(entries, model.loss)
    rows, cols = entry_positions(entries, model)
    if options.unknown == "error":
        check_known(entries, rows, cols, "Leave them out with --unknown skip.")
    known = (rows >= 0) & (cols >= 0)
    scored = np.ones_like(known) if options.unknown == "offset" else known
    if not scored.any():
        raise DataError(f"{entries.path}: no entry has a row and a column of the model; try --unknown offset.")
    values = np.empty(0) if entries.values is None else entries.values[scored]
    rows, cols = rows[scored], cols[scored]
    predictions = {"model": marginal_at(model, rows, cols, options.rank)}
    if model.offsets is not None:
        predictions["offsets alone"] = marginal_at(offsets_alone(model), rows, cols)
    predictions["constant"] = np.full(rows.size, best_constant(model.loss, values))
    scores = {name: fitting_scores(model.loss, values, x) for name, x in predictions.items()}
    n_unknown, rank = int((~known).sum()), model.rank if options.rank is None else options.rank
    if options.as_json:
        sizes = {"rank": rank, "n_scored": int(scored.sum()), "n_unknown": n_unknown, "unknown": options.unknown}
        by_name = {name: {score.name: score.value for score in some} for name, some in scores.items()}
        results = {"scores": by_name.pop("model"), "baselines": by_name}
        echo(to_json({"model": str(options.model), "held_out": entries.path} | sizes | results))
    else:
        _show(scores, options, int(scored.sum()), n_unknown, rank)


def _rank(model: LowRankModel, options: EvaluateOptions) -> None:
    """Print the scores of the model's recommendations and of the most popular columns."""
    if model.ranks_clicks and options.value is None and options.least is not None:
        raise SettingError("--least needs values, and clicks are read without them; name a column with --value.")
    if model.ranks_clicks:
        held_out = clicks.read_clicks(options.held_out, options)[1]
    else:
        held_out = read(options.held_out, options).observations()
    k = options.top or clicks.TOP
    scores = clicks.score_rankings(model, held_out, k, least=options.least, rank=options.rank)
    if options.as_json:
        results = {name: each._asdict() for name, each in scores.items()}
        found = {"scores": results.pop("model"), "baselines": results}
        echo(to_json({"model": str(options.model), "held_out": str(options.held_out)} | found))
    else:
        rows, n_seen = plural(scores["model"].n_rows, "row"), scores["model"].n_seen
        clicks.show_rankings(f"{options.model}: the {k} best columns of {rows} of {options.held_out}", scores)
        if n_seen:
            console().print(
                f"{plural(n_seen, 'entry')} of the training data: left out, since they are not recommended."
            )


def offsets_alone(model: LowRankModel) -> LowRankModel:
    """Return the model without its low-rank part."""
    return replace(model, path=np.zeros((0, 0)), U=model.U[:, :0], V=model.V[:, :0], chosen=None, only_by=None)


def _show(scores: dict[str, list[Score]], options: EvaluateOptions, n_scored: int, n_unknown: int, rank: int) -> None:
    out = console()
    title = f"{options.model} at rank {rank} on {plural(n_scored, 'entry')} of {options.held_out}"
    lines = [
        (one[0].title, *(format_decimals(each.value) for each in one), one[0].unit)
        for one in zip(*scores.values(), strict=True)
    ]
    print_table(out, title, ("score", *(f">{name}" for name in scores), "unit"), lines)
    if n_unknown:
        treated = {"skip": "left out (--unknown offset scores them)", "offset": "predicted from the other side's mean"}
        entries = plural(n_unknown, "entry")
        out.print(f"{entries} with a row or column that the model has not seen: {treated[options.unknown]}.")
