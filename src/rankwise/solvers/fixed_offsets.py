"""Offsets fitted before a pursuit."""

from ..model import Offsets
from ..model.units import original_offsets
from ..objectives import Problem
from .sweep_state import OFFSETS, best_constant, place_constant
from .sweeps import BayesSweeps


def fit_offsets(problem: Problem, offsets: str = "both") -> Offsets | None:
    """Fit offsets without factors: the best constant, and those of rows and columns by sweeps that learn their ridge.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.Observations.from_dense([[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]])
    >>> print(round(rw.solvers.fit_offsets(rw.Problem(seen, "square")).constant, 2))
    2.5
    """
    given, problem = problem, problem.in_own_units(level=offsets != "none")
    solver = BayesSweeps(offsets)
    if any(OFFSETS[offsets]):
        solver.init(problem, 1)
    else:  # without the transpose that sweeps need
        problem.reset()
        place_constant(problem, 0.0)
        place_constant(problem, best_constant(problem) if offsets == "global" else 0.0)
    fitted = problem.offsets if offsets != "none" else None
    problem.reset()
    return fitted if problem is given else original_offsets(fitted, problem.loss.units)
