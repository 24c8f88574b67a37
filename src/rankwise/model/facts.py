"""Types of the facts about a fit that reports show, checked when a model is saved and when it is loaded."""

from typing import Any

from .._checks import is_number, is_whole
from ..storage.trees import is_of

FACT_TYPES: dict[str, Any] = {
    **dict.fromkeys(("estimator", "solver", "loss", "status", "command"), str),
    **dict.fromkeys(("seconds", "compile_seconds"), float),
    **dict.fromkeys(("settings", "held_out", "history", "path"), dict),
}
MAX_DEPTH = 50  # of dicts and lists inside each other, which recursive functions show


def facts_are_sound(facts: object) -> bool:
    """Return whether all facts that are present have the types that fits give them; other names may hold anything."""
    if not isinstance(facts, dict) or not _is_shallow(facts, MAX_DEPTH):
        return False
    if not all(is_of(facts.get(name, kind()), kind) for name, kind in FACT_TYPES.items()):
        return False
    held_out, path = facts.get("held_out"), facts.get("path", {})
    return (
        _is_count(facts.get("n_observed", 0))
        and _is_table(facts.get("history", {}), ("value", "wall_seconds"))
        and _is_table({name: column for name, column in path.items() if name != "best"}, ("settings", "scores"))
        and (not path or is_number(path.get("best")))
        and (held_out is None or (_is_count(held_out.get("n")) and _has_numbers(held_out.get("scores"))))
    )


def _is_shallow(part: Any, levels: int) -> bool:
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return levels > 0 and all(_is_shallow(each, levels - 1) for each in inner)


def _is_count(n: Any) -> bool:
    return is_whole(n) and 0 <= n < 2**63


def _has_numbers(scores: Any) -> bool:
    return isinstance(scores, dict) and all(map(is_number, scores.values()))


def _is_table(columns: dict[str, Any], required: tuple[str, ...]) -> bool:
    """Return whether it is empty, or has the required columns and all are lists of numbers of one length."""
    if not columns:
        return True
    sound = set(required) <= set(columns) and all(is_of(column, list[float]) for column in columns.values())
    return sound and len({len(column) for column in columns.values()}) == 1
