"""``rankwise methods``: the methods, the losses, and the losses that each method supports."""

import json
from dataclasses import replace

import click
from rich.console import Console

from .. import losses, solvers
from .._errors import LossError
from ..objectives import Problem
from ..observations import Observations
from .formatting import console, print_table
from .shim import METHODS, get  # AT MERGE: solvers.METHODS and solvers.get

WIDE = 180  # characters of a line in which no cell of these tables is wrapped; the width of a pipe


def run(as_json: bool = False) -> None:
    """Print the methods, the losses, and the losses that each method supports."""
    supported = {method: [loss for loss in losses.BY_NAME if supports(method, loss)] for method in METHODS}
    if as_json:
        methods = {name: {"about": about, "losses": supported[name]} for name, (_, about) in METHODS.items()}
        click.echo(json.dumps({"methods": methods, "losses": {name: _to_dict(name) for name in losses.BY_NAME}}))
        return
    out = console()
    out.width = out.width if out.is_terminal else WIDE
    lines = [(name, about, _ranks(solver)) for name, (solver, about) in METHODS.items()]
    print_table(out, "Methods, for --method", ("name", "what it does", "--rank"), lines)
    print_table(
        out, "Losses, for --loss", ("name", "values", "smooth", "Lipschitz constant"), map(_row, losses.BY_NAME)
    )
    _show_supported(supported, out)
    out.print('"bayes" is the default.')


def _show_supported(supported: dict[str, list[str]], out: Console) -> None:
    """Print a matrix of methods and losses, or lists of losses if the lines are too short for it."""
    title, names = "Losses that each method supports", list(losses.BY_NAME)
    if out.width >= WIDE:
        marks = [(method, *("yes" if loss in found else "-" for loss in names)) for method, found in supported.items()]
        print_table(out, title, ("method", *names), marks)
    else:
        lists = [(method, "any" if found == names else ", ".join(found)) for method, found in supported.items()]
        print_table(out, title, ("method", "losses"), lists)


def supports(method: str, loss: str) -> bool:
    """Return whether a method accepts a loss, by starting it on a problem with one entry."""
    problem = Problem(Observations.from_coo([0], [0], [1.0]), loss, n_jobs=1)  # 1 is in the domain of every loss
    try:
        solver = get(method, problem)
        if isinstance(solver, solvers.AISImpute):  # a weight that is given is not searched for
            solver = replace(solver, nuclear_weight=1.0)
        if not solver.truncates:  # sweeps support every loss, and compiling their row solves would take minutes
            solver.init(problem, 1)
    except LossError:
        return False
    finally:
        problem.close()
    return True


def _ranks(solver: solvers.Solver) -> str:
    return "auto or a number" if solver.grows or solver.truncates else "a number"


def _to_dict(name: str) -> dict[str, object]:
    loss = losses.get(name)
    return {"values": loss.domain, "smooth": loss.smooth, "lipschitz": loss.lipschitz, "link": loss.link}


def _row(name: str) -> tuple[str, str, str, str]:
    loss = losses.get(name)
    bound = "none" if loss.lipschitz is None else f"{loss.lipschitz:g}"
    return name, loss.domain, "yes" if loss.smooth else "no", bound
