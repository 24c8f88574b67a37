"""Do fewer than five L-BFGS iterations suffice to refit the coefficients (Section 3.1)? Rank 40, one tenth held out.

Decides the defaults `Economic.max_iter` and `Coefficients.max_iter`.
"""

from collections.abc import Iterator

import rankwise as rw
from rankwise.selection import sign_accuracy
from rankwise.solvers import Coefficients, Economic, GreedyPursuit

from .common import Row, signed_split


def run() -> Iterator[Row]:
    """Training value and held-out accuracy by iteration cap."""
    for name in ("epinions", "slashdot"):
        train, held_out = signed_split(name)
        problem = rw.Problem(train, "logistic")
        for refinement in (Economic, Coefficients):
            for cap in (1, 2, 3, 5, 10, 50):
                solver = GreedyPursuit(refinement(cap))
                history = rw.solve(problem, solver, rank=40, held_out=held_out, score=sign_accuracy).history
                yield {
                    "data": name,
                    "refinement": refinement.__name__,
                    "max_iter": cap,
                    "value": round(history[-1].value),
                    "accuracy_%": round(100 * history[-1].score, 2),
                    "best_%": round(100 * float(history.column("score").max()), 2),
                    "evaluations_per_step": round(float(history.column("n_evaluations").mean()), 1),
                    "wall_s": round(history[-1].wall_seconds, 2),
                }
