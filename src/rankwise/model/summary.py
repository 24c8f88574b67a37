"""Summary of a model for notebooks, as an HTML table with all text escaped."""

from html import escape
from typing import TYPE_CHECKING, Any

from .._text import percent
from .facts import known_facts

if TYPE_CHECKING:
    from .low_rank import LowRankModel

SUMMARY_LABELS = 5  # labels of each side
CELL = "text-align:left;padding:.1em .8em .1em 0;border:0;background:none;color:inherit;vertical-align:top"


def summary_html(model: "LowRankModel", title: str = "LowRankModel") -> str:
    """HTML table of `summary` that inherits the colors of the page."""
    lines = "".join(
        f'<tr><th scope="row" style="{CELL};font-weight:600;white-space:nowrap">{escape(name)}</th>'
        f'<td style="{CELL}">{escape(text)}</td></tr>'
        for name, text in summary(model).items()
    )
    style = "border-collapse:collapse;border:0;font-size:.9em;color:inherit;background:none"
    return f'<table style="{style}"><caption style="{CELL};font-weight:600">{escape(title)}</caption>{lines}</table>'


def summary(model: "LowRankModel") -> dict[str, str]:
    """Size, rank, loss, training entries, offsets, settings and course of the fit, as text by heading."""
    facts, rank = known_facts(model.facts), f"{model.rank}"
    if model.only_by is None and model.longest > 1:
        rank += f", and any from 0 to {model.longest}"
    lines = {
        "size": f"{model.shape[0]:,} rows × {model.shape[1]:,} columns",
        "rank": rank,
        "loss": _first(facts.get("loss"), model.loss),
        "learned from": _entries(model),
        "offsets": _offsets(model),
        "settings": ", ".join(f"{name}={value!r}" for name, value in facts.get("settings", {}).items()),
        "steps": _steps(facts),
        "ended": _first(facts.get("status")),
        "rows": _labels(model.row_labels),
        "columns": _labels(model.col_labels),
    }
    return {name: text for name, text in lines.items() if text}


def _first(*values: Any) -> str:
    """Text of the first value that is not None."""
    return next((str(value) for value in values if value is not None), "")


def _entries(model: "LowRankModel") -> str:
    if model.seen is None:
        return ""
    n = model.seen.indices.size
    return f"{n:,} entries, {percent(n / max(model.shape[0] * model.shape[1], 1))} of all"


def _offsets(model: "LowRankModel") -> str:
    if model.offsets is None:
        return "none"
    sides = [name for name, part in (("rows", model.offsets.rows), ("columns", model.offsets.cols)) if part.any()]
    return f"{model.offsets.constant:.4g}" + (f", and one for each of the {' and '.join(sides)}" if sides else "")


def _steps(facts: dict[str, Any]) -> str:
    history = facts.get("history", {})
    values, scores = (history.get(name) for name in ("value", "score"))
    if not values or "seconds" not in facts:
        return ""
    score = f", held-out loss {scores[-1]:.4g}" if scores else ""
    return f"{len(values)} in {facts['seconds']:.3g} s, value {values[-1]:.6g}{score}"


def _labels(labels: Any) -> str:
    if labels is None:
        return ""
    shown = ", ".join(str(label)[:40] for label in labels[:SUMMARY_LABELS])
    return shown + (", …" if len(labels) > SUMMARY_LABELS else "")
