"""``rankwise methods``: the methods, the losses, and the losses that each method supports."""

import json
from typing import Any

import click
from rich.console import Console

from .. import losses, solvers
from .._errors import LossError
from ..objectives import Problem
from ..observations import Observations
from ..solvers import METHODS
from .formatting import console, print_table

METHODS_WIDTH = 180  # characters of a line in which no cell of these tables is wrapped; the width of a pipe


def run(as_json: bool = False) -> None:
    """Print the methods, the losses, and the losses that each method supports."""
    supported = {method: [loss for loss in losses.BY_NAME if supports(method, loss)] for method in METHODS}
    if as_json:
        methods = {name: {"about": method.summary, "losses": supported[name]} for name, method in METHODS.items()}
        click.echo(json.dumps({"methods": methods, "losses": {name: _to_dict(name) for name in losses.BY_NAME}}))
        return
    out = console()
    out.width = out.width if out.is_terminal else METHODS_WIDTH
    lines = [(name, method.summary, _ranks(method.solver)) for name, method in METHODS.items()]
    print_table(out, "Methods, for --method", ("name", "what it does", "--rank"), lines)
    print_table(
        out, "Losses, for --loss", ("name", "values", "smooth", "Lipschitz constant"), map(_row, losses.BY_NAME)
    )
    _show_supported(supported, out)
    out.print('"bayes" is the default.')


def _show_supported(supported: dict[str, list[str]], out: Console) -> None:
    """Print a matrix of methods and losses, or lists of losses if the lines are too short for it."""
    title, names = "Losses that each method supports", list(losses.BY_NAME)
    if out.width >= METHODS_WIDTH:
        marks = [(method, *("yes" if loss in taken else "-" for loss in names)) for method, taken in supported.items()]
        print_table(out, title, ("method", *names), marks)
    else:
        lists = [(method, "any" if taken == names else ", ".join(taken)) for method, taken in supported.items()]
        print_table(out, title, ("method", "losses"), lists)


def supports(method: str, loss: str) -> bool:
    """Return whether a method accepts a loss, by its declared needs on a problem with one entry."""
    problem = Problem(Observations.from_coo([0], [0], [1.0]), loss, n_jobs=1)  # 1 is in the domain of every loss
    try:
        solvers.get(method, problem)
    except LossError:
        return False
    finally:
        problem.close()
    return True


def _ranks(solver: solvers.Solver[Any, Any]) -> str:
    return "auto or a number" if solver.grows or solver.truncates else "a number"


def _to_dict(name: str) -> dict[str, object]:
    loss = losses.get(name)
    return {"values": str(loss.domain), "smooth": loss.smooth, "lipschitz": loss.lipschitz, "link": loss.link}


def _row(name: str) -> tuple[str, str, str, str]:
    loss = losses.get(name)
    bound = "none" if loss.lipschitz is None else f"{loss.lipschitz:g}"
    return name, str(loss.domain), "yes" if loss.smooth else "no", bound
