"""The HTML report: one self-contained file that loads nothing from the network."""

import os
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from .._errors import SettingError
from .._files import check_replaceable, replacing
from ..model import LowRankModel, known_facts
from .compact import as_script
from .contents import Contents, contents_of
from .held_out import match
from .plots import model_of

PAGE_FILES = {
    "style": ("uplot/uPlot.min.css", "page.css"),
    "script": ("uplot/uPlot.iife.min.js", "charts.js", "recommend.js", "page.js"),
}
LICENCE = "uplot/LICENSE"


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    held_out: Any = None,
    command: str | None = None,
    *,
    labels: bool = True,
    force: bool = False,
) -> None:
    """Write an HTML page about a model: the fit, its scores at every rank, and recommendations for any row.

    The page contains the labels of rows and columns unless ``labels=False``, the factors, the positions of the training
    entries if the model stores them, and a dozen held-out values. The file appears complete or not at all.

    Parameters
    ----------
    model : LowRankModel or estimator
    path : path
        Of the HTML file.
    held_out : Observations, sparse matrix or array with NaN, optional
        Entries that the model was not fitted to, for scores and residuals; matched by label.
    command : str, optional
        Command that made the page; the page shows it.
    labels : bool, default=True
        Whether rows and columns are shown by label; otherwise by number.
    force : bool, default=False
        Whether to replace an existing file.
    """
    model, target = model_of(model), Path(path)
    check_replaceable(target)
    if target.exists() and not force:
        raise SettingError(f"{target} already exists; choose another name, or --force (force=True) to replace it.")
    if not target.parent.is_dir():
        raise SettingError(f"There is no folder {target.parent} to write the report in; make it first.")
    held = None if held_out is None else match(model, held_out)
    text = page(contents_of(model, held, _commands(model, command), labels=labels))
    with replacing(target, "w", encoding="utf-8") as file:
        file.write(text)


def page(contents: Contents) -> str:
    """HTML of the template with its styles, scripts and `contents` filled in."""
    parts = {name: "\n".join(map(_read, names)) for name, names in PAGE_FILES.items()}
    parts |= {"contents": as_script(contents), "licence": _read(LICENCE)}
    return re.sub(r"@@(\w+)@@", lambda field: parts[field[1]], _read("page.html"))


def _read(name: str) -> str:
    return files(__package__).joinpath("template", name).read_text(encoding="utf-8")


def _commands(model: LowRankModel, command: str | None) -> list[str]:
    """Commands or calls that made the model, if known, and the page."""
    facts = known_facts(model.facts)
    made = facts.get("command")
    if made is None and "estimator" in facts:
        settings = ", ".join(f"{name}={_plain(value)}" for name, value in facts.get("settings", {}).items())
        made = f"rankwise.{facts['estimator']}({settings}).fit(X)"
    return [line for line in (made, command) if line]


def _plain(value: object) -> str:
    """A parameter in Python syntax; objects are stored as the text of their constructor call."""
    return value if isinstance(value, str) and value.endswith(")") else repr(value)
