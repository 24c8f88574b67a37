"""`rankwise methods`: what can be chosen, as the methods and losses themselves answer."""

from .. import losses, solvers
from .._errors import LossError
from ..objectives import Problem
from ..observations import Observations
from .tables import console, table


def show() -> None:
    """Print the methods and the losses."""
    out = console()
    methods = [(name, what, losses_of(name)) for name, (_, what) in solvers.METHODS.items()]
    table(out, "Methods", ("name", "what it does", "losses"), methods)
    table(out, "Losses", ("name", "smooth", "Lipschitz constant", "targets"), map(_facts, losses.BY_NAME))


def losses_of(method: str) -> str:
    """Which losses a method takes, in words, found by offering it each."""
    taken = {name for name in losses.BY_NAME if _takes(method, name)}
    smooth = {name for name in losses.BY_NAME if losses.get(name).smooth}
    kinds = {"any": set(losses.BY_NAME), "smooth ones": smooth, "nonsmooth ones": set(losses.BY_NAME) - smooth}
    return next((words for words, kind in kinds.items() if taken == kind), ", ".join(sorted(taken)))


def _takes(method: str, loss: str) -> bool:
    problem = Problem(Observations.from_coo([0], [0], [1.0]), loss, n_jobs=1)  # 1 is a target of every loss
    try:
        solver = solvers.get(method, problem)
        if not solver.truncates:  # the sweeps take any loss; their `init` would compile row solves for each, in minutes
            solver.init(problem, 1)
    except LossError:
        return False
    finally:
        problem.close()
    return True


def _facts(name: str) -> tuple[str, str, str, str]:
    loss = losses.get(name)
    bound = "none" if loss.lipschitz is None else f"{loss.lipschitz:g}"
    return name, "yes" if loss.smooth else "no", bound, loss.domain
