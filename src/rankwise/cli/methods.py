"""`rankwise methods`: what can be chosen, and what fits what, as the methods and losses themselves answer."""

import json
from dataclasses import replace

import click
from rich.console import Console

from .. import losses, solvers
from .._errors import LossError
from ..objectives import Problem
from ..observations import Observations
from .tables import console, table

WIDE = 180  # characters of a line that no cell of these tables is wrapped in; what a pipe gets


def show(as_json: bool = False) -> None:
    """Print the methods, the losses, and which method takes which loss."""
    taken = {method: [loss for loss in losses.BY_NAME if takes(method, loss)] for method in solvers.METHODS}
    if as_json:
        found = {name: {"about": about, "losses": taken[name]} for name, (_, about) in solvers.METHODS.items()}
        click.echo(json.dumps({"methods": found, "losses": {name: _plain(name) for name in losses.BY_NAME}}))
        return
    out = console()
    out.width = out.width if out.is_terminal else WIDE
    methods = [(name, what, _rank(solver)) for name, (solver, what) in solvers.METHODS.items()]
    table(out, "Methods, for --method", ("name", "what it does", "--rank"), methods)
    table(out, "Losses, for --loss", ("name", "values", "smooth", "Lipschitz constant"), map(_facts, losses.BY_NAME))
    _show_fits(taken, out)
    out.print('"bayes" is what `rankwise fit` does unless it is told otherwise.')


def _show_fits(taken: dict[str, list[str]], out: Console) -> None:
    """A mark for every pair, or the names where the lines are too short for marks."""
    title, names = "Which method takes which loss", list(losses.BY_NAME)
    if out.width >= WIDE:
        marks = [(method, *("yes" if loss in found else "-" for loss in names)) for method, found in taken.items()]
        table(out, title, ("method", *names), marks)
    else:
        lists = [(method, "any" if found == names else ", ".join(found)) for method, found in taken.items()]
        table(out, title, ("method", "losses"), lists)


def takes(method: str, loss: str) -> bool:
    """Whether a method takes a loss, found by offering it."""
    problem = Problem(Observations.from_coo([0], [0], [1.0]), loss, n_jobs=1)  # 1 is a target of every loss
    try:
        solver = solvers.get(method, problem)
        if hasattr(solver, "nuclear_weight"):  # a given one does not have to be searched for
            solver = replace(solver, nuclear_weight=1.0)
        if not solver.truncates:  # the sweeps take any loss; their `init` would compile row solves for each, in minutes
            solver.init(problem, 1)
    except LossError:
        return False
    finally:
        problem.close()
    return True


def _rank(solver: solvers.Solver) -> str:
    return "auto or a number" if solver.grows or solver.truncates else "a number"


def _plain(name: str) -> dict[str, object]:
    loss = losses.get(name)
    return {"values": loss.domain, "smooth": loss.smooth, "lipschitz": loss.lipschitz, "link": loss.link}


def _facts(name: str) -> tuple[str, str, str, str]:
    loss = losses.get(name)
    bound = "none" if loss.lipschitz is None else f"{loss.lipschitz:g}"
    return name, loss.domain, "yes" if loss.smooth else "no", bound
