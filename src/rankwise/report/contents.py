"""Contents of the HTML report as plain values: the fit, its scores, the path of ranks and the components."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._arrays import Array
from .._text import percent
from ..losses.base import classes_of
from ..model import LowRankModel, known_facts
from ..model.decoding import respond
from ..model.pairwise import marginal_at
from ..observations import Observations
from ..selection import fitting_scores, most_popular, ranking_scores
from .compact import embed, seen_counts
from .held_out import RESIDUAL_UNITS, HeldOut, edges_of, kind_of, reliability_of, residual_words, residuals_of
from .plots import choice_of, places

Contents = dict[str, Any]
EXAMPLES, COMPONENTS, STRONGEST = 12, 12, 8
LONG_DECIMAL = re.compile(r"\d+\.\d{6,}")  # numbers that are shortened to five digits
PREDICTED = {"signs": "prediction", "counts": "expected count", "values": "prediction", "clicks": "score"}


def contents_of(model: LowRankModel, held: HeldOut | None, commands: list[str], *, labels: bool = True) -> Contents:
    """Values that the scripts of the page display; without `held`, there are no scores and no residuals.

    `commands` are those that made the model and the page. Without `labels`, rows and columns are shown by number.
    """
    names = _names(model.row_labels, model.shape[0], labels), _names(model.col_labels, model.shape[1], labels)
    valued = held if not model.ranks_clicks else None  # clicks have no values to predict
    classes = ("0", "1") if classes_of(model.loss)[0] == 0 else ("−1", "+1")
    return {
        "title": f"A rank-{model.rank} model of {model.shape[0]:,} rows and {model.shape[1]:,} columns",
        "about": _about(model, held),
        "commands": commands,
        "labelled": labels and not (model.row_labels is None and model.col_labels is None),
        "kind": kind_of(model),
        "classes": classes,
        "predicted": f"probability of {classes[1]}" if model.link == "logit" else PREDICTED[kind_of(model)],
        "link": model.link,
        "clicks": None if not model.ranks_clicks else _clicks(model, held),
        "ranks": _ranks(model, valued, names),
        "validation": _validation(model),
        "history": _history(model),
        "residuals": None if valued is None else _histogram(residuals_of(model, valued), residual_words(model)),
        "reliability": _reliability(model, held),
        "offsets": _offsets(model),
        "components": _components(model, names),
        "sizes": short(np.abs(model.theta)),
        "model": embed(model, *names),
    }


def short(numbers: ArrayLike) -> list[float | None]:
    """Numbers rounded to six digits; None where not finite."""
    return [float(f"{x:.6g}") if np.isfinite(x) else None for x in np.asarray(numbers, float).tolist()]


def _names(labels: Array | None, size: int, labelled: bool) -> list[str]:
    return [str(name) for name in (range(size) if labels is None or not labelled else labels)]


def _about(model: LowRankModel, held: HeldOut | None) -> list[tuple[str, str]]:
    """Pairs of heading and text: the matrix, its entries, loss, rank, solver and times."""
    facts, (n_rows, n_cols) = known_facts(model.facts), model.shape
    lines = [("Matrix", f"{n_rows:,} rows × {n_cols:,} columns")]
    n_observed = facts.get("n_observed") or (None if model.seen is None else model.seen.indices.size)
    if n_observed:
        share = percent(n_observed / max(n_rows * n_cols, 1))
        lines.append(("Learned from", f"{n_observed:,} entries, {share} of the matrix"))
    if "chosen" in facts:
        lines.append(("Scores by", facts["chosen"]))
    if loss := facts.get("loss") or (model.loss and repr(model.loss)):
        lines.append(("Loss", str(loss)))
    path = f"{model.only_by} stores no other ranks" if model.only_by else f"ranks 0 to {model.longest} are stored"
    lines.append(("Rank", f"{model.rank}; {path}"))
    offsets = "none" if model.offsets is None else f"constant {model.offsets.constant:.4g}, one per row and per column"
    lines.append(("Offsets", offsets))
    lines += [(word, str(facts[name])) for name, word in (("solver", "Solver"), ("status", "Ended")) if name in facts]
    if "seconds" in facts:
        compiling = facts.get("compile_seconds", 0.0)
        more = f", and {compiling:.1f} s to compile" if compiling >= 0.05 else ""
        lines.append(("Time", f"{facts['seconds']:.2f} s{more}"))
    lines = [(name, LONG_DECIMAL.sub(lambda number: f"{float(number[0]):.5g}", words)) for name, words in lines]
    if "held_out" in facts:
        scores = ", ".join(f"{name.replace('_', ' ')} {x:.4g}" for name, x in facts["held_out"]["scores"].items())
        lines.append(("At the fit", f"{scores}, on {facts['held_out']['n']:,} entries held out from the fit"))
    return lines if held is None else [*lines, ("Scored on", _held_words(held, model.ranks_clicks))]


def _held_words(held: HeldOut, clicks: bool) -> str:
    words = f"{held.targets.size:,} held-out entries"
    if held.n_unknown:
        words += f"; {held.n_unknown:,} more were left out, because their row or column is not in the model"
    if held.n_seen:
        effect = "are left out" if clicks else "makes the scores too good"
        words += f"; {held.n_seen:,} of them are also in the data of the fit, which {effect}"
    return words


def _clicks(model: LowRankModel, held: HeldOut | None) -> Contents:
    """Scores of a ranking and of the most popular columns, and the settings that were tried."""
    facts = known_facts(model.facts)
    contents: Contents = {
        "on": facts.get("chosen_on"),
        "tried": facts.get("tried", []),
        "parts": facts.get("parts", []),
    }
    if held is None or model.seen is None or held.n_seen == held.rows.size:
        return contents | {"scores": None}
    entries = Observations.from_coo(held.rows, held.cols, held.targets, model.shape, duplicates="last")
    numbered = replace(model, row_labels=None, col_labels=None)
    both = zip(*(ranking_scores(each, entries).titled() for each in (numbered, most_popular(numbered))), strict=True)
    contents["scores"] = [[title, value, popular, unit] for (title, value, unit), (_, popular, _) in both]
    return contents


def _ranks(model: LowRankModel, held: HeldOut | None, names: tuple[list[str], list[str]]) -> Contents:
    """Scores, and predictions of example entries, at every rank of the path."""
    ranks = [model.longest] if model.only_by else list(range(model.longest + 1))
    contents: Contents = {"ranks": ranks, "chosen": model.rank, "only_by": model.only_by, "scores": []}
    contents["examples"] = _examples(model, held, names, ranks)
    if held is not None:
        at_rank = [
            fitting_scores(model.loss, held.targets, marginal_at(model, held.rows, held.cols, rank)) for rank in ranks
        ]
        for scores in zip(*at_rank, strict=True):
            higher = "higher is better" in scores[0].unit
            about = {"title": scores[0].title, "unit": scores[0].unit, "higher": higher}
            contents["scores"].append(about | {"values": short([score.value for score in scores])})
    return contents


def _examples(
    model: LowRankModel, held: HeldOut | None, names: tuple[list[str], list[str]], ranks: list[int]
) -> Contents:
    """Entries drawn at random, held-out ones if there are any, with predictions on the response scale at each rank."""
    rng = np.random.default_rng(0)
    if held is None:
        rows, cols = (rng.integers(size, size=EXAMPLES) for size in model.shape)
        targets = None
    else:
        drawn = np.sort(rng.permutation(held.targets.size)[:EXAMPLES])
        rows, cols, targets = held.rows[drawn], held.cols[drawn], held.targets[drawn].tolist()
    predicted = [
        short(respond(model, model.at(rows, cols, rank), rows, cols, sure=rank != model.rank)) for rank in ranks
    ]
    sides = zip(names, (rows, cols), strict=True)
    row_names, col_names = ([side[k] for k in numbers] for side, numbers in sides)
    return {"rows": row_names, "cols": col_names, "targets": targets, "predicted": predicted}


def _validation(model: LowRankModel) -> Contents | None:
    choice = choice_of(model)
    if choice is None:
        return None
    name = "rank" if choice.settings.dtype.kind in "iu" else "ridge"
    numbers = {"settings": choice.settings, "scores": choice.scores, "deviations": choice.deviations}
    return {"name": name, "best": choice.best} | {key: short(column) for key, column in numbers.items()}


def _history(model: LowRankModel) -> Contents | None:
    history = known_facts(model.facts).get("history")
    if not history or not history["value"]:
        return None
    return {name: short(history[name]) for name in ("wall_seconds", "value", "score") if name in history}


def _histogram(numbers: Array, words: str) -> Contents:
    counts, edges = np.histogram(numbers, edges_of(numbers))
    return {"words": words, "counts": counts.tolist(), "edges": short(edges)}


def _reliability(model: LowRankModel, held: HeldOut | None) -> Contents | None:
    if held is None or model.link != "logit":
        return None
    return {name: short(column) for name, column in reliability_of(model, held)._asdict().items()}


def _offsets(model: LowRankModel) -> list[Contents]:
    """Histograms of the row offsets and of the column offsets, unless all are zero."""
    if model.offsets is None:
        return []
    unit = {"log": "log of the count"}.get(model.link, RESIDUAL_UNITS[kind_of(model)])
    sides = (("row", model.offsets.rows), ("column", model.offsets.cols))
    return [_histogram(numbers, f"{side} offset, {unit}") for side, numbers in sides if np.any(numbers)]


def _components(model: LowRankModel, names: tuple[list[str], list[str]]) -> list[Contents]:
    """Rows and columns with the largest factors of each component, signed so that their product is its contribution."""
    (rows, _), (cols, _) = places(model, "rows"), places(model, "columns")
    counts = seen_counts(model) if model.seen is not None else (None, None)
    components = []
    for k in range(min(model.rank, COMPONENTS)):
        flip = np.sign(cols[np.argmax(np.abs(cols[:, k])), k]) or 1.0
        sides = flip * np.sign(model.theta[k]) * rows[:, k], flip * cols[:, k]
        strongest = (_strongest(*side) for side in zip(sides, names, counts, strict=True))
        components.append(dict(zip(("rows", "cols"), strongest, strict=True)))
    return components


def _strongest(numbers: Array, names: list[str], counts: Array | None) -> Contents:
    order = np.argsort(-np.abs(numbers), kind="stable")[:STRONGEST]
    return {
        "names": [names[k] for k in order],
        "numbers": short(numbers[order]),
        "counts": None if counts is None else counts[order].tolist(),
    }
