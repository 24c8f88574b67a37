"""``rankwise info``: description of a model, its fit, and what its file reveals."""

from pathlib import Path
from typing import Any

from rich.console import Console

from ..model import LowRankModel, known_facts, load
from .formatting import console, describe_loss, file_size, format_decimals, format_number, plural, print_table, to_json
from .terminal import echo

N_LINES = 12  # ranks or steps that are shown
LINK_SCALES = {"logit": ("probabilities of +1", "log-odds"), "log": ("expected counts", "their logarithms")}


def run(path: Path, as_json: bool) -> None:
    """Print the description of a model file."""
    model = load(path)
    if as_json:
        echo(to_json({"model": str(path), "bytes": path.stat().st_size} | to_dict(model)))
        return
    out = console()
    for topic, text in describe(model).items():
        out.print(f"{topic + ':':<11}{text}")
    out.print(f"{'File:':<11}{path}, {file_size(path)}")
    _show_history(model, out)


def to_dict(model: LowRankModel) -> dict[str, Any]:
    """Return the description for programs."""
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


def describe(model: LowRankModel) -> dict[str, str]:
    """Return the description for people, by topic."""
    facts = known_facts(model.facts)
    offsets = "offsets and a low-rank part" if model.offsets is not None else "a low-rank part"
    posterior = ", with posterior variances" if model.posterior is not None else ""
    neighbours = "neighbours of columns and " if model.neighbours is not None else ""
    topics = {
        "Model": f"{model.shape[0]:,} rows x {model.shape[1]:,} columns, {_ranks(model)}",
        "Parts": neighbours + offsets + posterior,
    }
    if not model.ranks_clicks:
        topics["Loss"] = describe_loss(model.loss)
    if model.link in LINK_SCALES:
        response, link = LINK_SCALES[model.link]
        topics["Loss"] += f"; predictions are {response}, or {link} with --scale link"
    if facts:
        topics["Learned"] = _learned(facts)
        topics |= {"Result": _result(facts)} if not model.ranks_clicks else _chosen(facts)
    if "held_out" in facts:
        topics["Held out"] = _held_out(facts["held_out"])
    if "command" in facts:
        topics["Command"] = facts["command"]
    topics["Reveals"] = _reveals(model)
    return topics


def _ranks(model: LowRankModel) -> str:
    if model.only_by is not None:
        return f"rank {model.rank} only ({model.only_by} keeps no others)"
    return f"rank {model.rank}" + (f"; ranks 0 to {model.longest} can be used with --rank" if model.longest else "")


def _learned(facts: dict[str, Any]) -> str:
    settings = ", ".join(f"{name}={value!r}" for name, value in facts.get("settings", {}).items())
    estimator = f"{facts.get('estimator', 'an estimator')}({settings})"
    return f"from {plural(facts.get('n_observed', 0), 'entry')} by {estimator}"


def _chosen(facts: dict[str, Any]) -> dict[str, str]:
    """Settings of a model of clicks, and what each part of its scores reached."""
    scores = (
        f"{part} {format_decimals(recall)} and {format_decimals(ndcg)}" for part, recall, ndcg in facts.get("parts", [])
    )
    parts = {"Worth": f"recall and NDCG on those entries: {', '.join(scores)}"} if facts.get("parts") else {}
    return {"Chosen": f"{facts.get('chosen', '')}; on {facts.get('chosen_on', 'no entries')}"} | parts


def _held_out(held_out: dict[str, Any]) -> str:
    scores = held_out["scores"].items()
    shown = ", ".join(f"{name.replace('_', ' ')} {format_decimals(value)}" for name, value in scores)
    return f"{shown} on {plural(held_out['n'], 'entry')}"


def _result(facts: dict[str, Any]) -> str:
    values = facts.get("history", {}).get("value", [])
    value = f"objective {format_number(values[-1])} after " if values else ""
    return f"{value}{plural(len(values), 'step')}, {facts.get('seconds', 0.0):.1f} s. {facts.get('status', '')}"


def _reveals(model: LowRankModel) -> str:
    sides = (("rows", model.row_labels), ("columns", model.col_labels))
    labelled = [which for which, labels in sides if labels is not None]
    labels = f"the labels of its {' and '.join(labelled)}" if labelled else "no labels"
    seen = "the positions of the observed entries" if model.seen is not None else "no positions of observed entries"
    return f"{labels}, and {seen}; no values of entries"


def _show_history(model: LowRankModel, out: Console) -> None:
    """Print the ranks or ridges that were tried, if one was chosen, else the steps."""
    facts = known_facts(model.facts)
    path, history = facts.get("path"), facts.get("history", {})
    if path and path["settings"]:
        lines = list(zip(*(path[name] for name in ("settings", "scores", "deviations")), strict=True))
        cells = [
            [f"{setting:g}", format_decimals(score, 5), format_decimals(error, 5)]
            for setting, score, error in _sample(lines)
        ]
        title = f"Tried on held-out entries; {path['best']:g} was chosen"
        print_table(out, title, (">rank or ridge", ">held-out loss", ">standard error"), cells)
    elif history.get("step"):
        names = [name for name in ("step", "rank", "value", "score", "wall_seconds") if history.get(name)]
        titles = {"value": "objective", "score": "held-out loss", "wall_seconds": "seconds"}
        formats = {"value": format_number, "score": format_decimals, "wall_seconds": "{:.1f}".format}
        lines = list(zip(*(history[name] for name in names), strict=True))
        cells = [[formats.get(name, str)(x) for name, x in zip(names, line, strict=True)] for line in _sample(lines)]
        print_table(out, "Steps", [f">{titles.get(name, name)}" for name in names], cells)


def _sample(lines: list[Any]) -> list[Any]:
    """Return the lines, or `N_LINES` of them at equal distances from the first to the last."""
    if len(lines) <= N_LINES:
        return lines
    step = (len(lines) - 1) / (N_LINES - 1)
    return [lines[round(k * step)] for k in range(N_LINES)]
