"""`rankwise info`: what a model is, how it was learned, and what its file reveals."""

from pathlib import Path
from typing import Any

import click

from ..model import LowRankModel, load
from .tables import console, size_of, table
from .words import decimals, in_json, loss_in_words, number, plural

LINES = 12  # ranks or steps that are shown


def run(path: Path, as_json: bool) -> None:
    """Print what a model file says of itself."""
    model = load(path)
    if as_json:
        click.echo(in_json({"model": str(path), "bytes": path.stat().st_size} | plain(model)))
        return
    out = console()
    for what, words in described(model).items():
        out.print(f"{what + ':':<11}{words}")
    out.print(f"{'File:':<11}{path}, {size_of(path)}")
    _show_path(model, out)


def plain(model: LowRankModel) -> dict[str, Any]:
    """Facts for programs."""
    return {
        "shape": list(model.shape),
        "rank": model.rank,
        "longest": model.longest,
        "keeps_path": model.only_by is None,
        "link": model.link,
        "loss": None if model.loss is None else repr(model.loss),
        "offsets": model.offsets is not None,
        "uncertainty": model.posterior is not None,
        "labels": [model.row_labels is not None, model.col_labels is not None],
        "seen": model.seen is not None,
        "facts": model.facts,
    }


def described(model: LowRankModel) -> dict[str, str]:
    """Facts for people."""
    facts = model.facts
    found = {"Model": f"{model.shape[0]:,} rows x {model.shape[1]:,} columns, {_ranks(model)}"}
    offsets = "offsets and a low-rank part" if model.offsets is not None else "a low-rank part"
    sure = "; knows how sure it is" if model.posterior is not None else ""
    found["Made of"] = offsets + sure
    found["Loss"] = loss_in_words(model.loss)
    if model.link != "identity":
        scale = {"logit": "log-odds of +1", "log": "logs of rates"}[model.link]
        found["Loss"] += f"; predictions are {scale}, --scale response gives {_response(model.link)}"
    if facts:
        found["Learned"] = _learned(facts)
        found["Result"] = _result(facts)
    if "held_out" in facts:
        found["Held out"] = _held_out(facts["held_out"])
    if "command" in facts:
        found["Command"] = facts["command"]
    found["Reveals"] = _reveals(model)
    return found


def _ranks(model: LowRankModel) -> str:
    if model.only_by is not None:
        return f"rank {model.rank} only ({model.only_by} keeps no others)"
    return f"rank {model.rank}" + (f"; ranks 0 to {model.longest} can be used with --rank" if model.longest else "")


def _response(link: str) -> str:
    return "probabilities" if link == "logit" else "rates"


def _learned(facts: dict[str, Any]) -> str:
    settings = ", ".join(f"{name}={value!r}" for name, value in facts.get("settings", {}).items())
    named = f"{facts.get('estimator', 'an estimator')}({settings})"
    return f"from {plural(facts.get('n_observed', 0), 'entry')} by {named}"


def _held_out(held_out: dict[str, Any]) -> str:
    scores = ", ".join(f"{name.replace('_', ' ')} {decimals(value)}" for name, value in held_out["scores"].items())
    return f"{scores} on {plural(held_out['n'], 'entry')}"


def _result(facts: dict[str, Any]) -> str:
    values = facts.get("history", {}).get("value", [])
    value = f"objective {number(values[-1])} after " if values else ""
    return f"{value}{plural(len(values), 'step')}, {facts.get('seconds', 0.0):.1f} s. {facts.get('status', '')}"


def _reveals(model: LowRankModel) -> str:
    sides = (("rows", model.row_labels), ("columns", model.col_labels))
    named = [which for which, labels in sides if labels is not None]
    labels = f"the names of its {' and '.join(named)}" if named else "no names"
    seen = "which entries were seen" if model.seen is not None else "not which entries were seen"
    return f"{labels}, and {seen}; no values of entries"


def _show_path(model: LowRankModel, out: Any) -> None:
    """The ranks that were tried, where one was chosen; else the steps."""
    path, history = model.facts.get("path"), model.facts.get("history", {})
    if path and path["settings"]:
        lines = list(zip(*(path[name] for name in ("settings", "scores", "deviations")), strict=True))
        shown = [(f"{setting:g}", decimals(score, 5), decimals(error, 5)) for setting, score, error in _some(lines)]
        title = f"Tried on held-out entries; {path['best']:g} was chosen"
        table(out, title, (">rank or ridge", ">held-out loss", ">standard error"), shown)
    elif history.get("step"):
        names = [name for name in ("step", "rank", "value", "score", "wall_seconds") if history.get(name)]
        titles = {"value": "objective", "score": "held-out loss", "wall_seconds": "seconds"}
        shows = {"value": number, "score": decimals, "wall_seconds": "{:.1f}".format}
        lines = list(zip(*(history[name] for name in names), strict=True))
        cells = [[shows.get(name, str)(x) for name, x in zip(names, line, strict=True)] for line in _some(lines)]
        table(out, "Steps", [f">{titles.get(name, name)}" for name in names], cells)


def _some(lines: list[Any]) -> list[Any]:
    """The lines, or if they are many, some from the first to the last."""
    if len(lines) <= LINES:
        return lines
    step = (len(lines) - 1) / (LINES - 1)
    return [lines[round(k * step)] for k in range(LINES)]
