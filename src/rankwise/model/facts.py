"""Facts about the fit that a model stores and that summaries, reports and plots show."""

import math
from collections.abc import Callable
from typing import Any

from .._checks import is_number, is_whole


def known_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts that estimators and commands write, without those of another type.

    `LowRankModel.facts` comes from a file, or from a user, and may hold anything under these names.
    """
    return {name: facts[name] for name, is_sound in KNOWN.items() if name in facts and is_sound(facts[name])}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return is_whole(value) and 0 <= value < 2**63


def _are_columns(value: dict[str, Any], names: set[str]) -> bool:
    """Return whether these entries of `value` are lists of numbers of one length."""
    columns = [value.get(name) for name in names]
    return all(isinstance(column, list) and all(map(_fits_float, column)) for column in columns) and (
        len({len(column) for column in columns if column is not None}) == 1
    )


def _fits_float(value: Any) -> bool:
    """Return whether `value` is a number that NumPy holds as one of 64 bits."""
    return is_number(value) and (isinstance(value, float) or abs(value) < 2**63)


def _is_history(value: Any) -> bool:
    return isinstance(value, dict) and _are_columns(value, {"wall_seconds", "value", *value})


def _is_path(value: Any) -> bool:
    if not isinstance(value, dict) or not _are_columns(value, {"settings", "scores", "deviations"}):
        return False
    return is_number(value.get("best")) and math.isfinite(value["best"])


def _is_held_out(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("scores"), dict):
        return False
    return _is_count(value.get("n")) and all(map(is_number, value["scores"].values()))


def _are_scored(value: Any) -> bool:
    """Return whether `value` lists settings in words with the recall and NDCG that they reached."""
    return isinstance(value, list) and all(
        isinstance(line, list) and len(line) == 3 and _is_text(line[0]) and all(map(is_number, line[1:]))
        for line in value
    )


KNOWN: dict[str, Callable[[Any], bool]] = {
    "estimator": _is_text,
    "settings": lambda value: isinstance(value, dict),
    "solver": _is_text,
    "loss": _is_text,
    "status": _is_text,
    "command": _is_text,
    "n_observed": _is_count,
    "seconds": is_number,
    "compile_seconds": is_number,
    "history": _is_history,
    "path": _is_path,
    "held_out": _is_held_out,
    "chosen_on": _is_text,
    "chosen": _is_text,
    "tried": _are_scored,
    "parts": _are_scored,
}
