"""Run the steps of a sweep solver without the loop."""

import numpy as np


def run(solver, problem, rank=3, n_steps=6, seed=0):
    """State after each of the steps' values and ranks."""
    state, found = solver.init(problem, rank), []
    for step in range(1, n_steps + 1):
        report = solver.step(problem, np.random.default_rng((seed, step)), state)
        found.append((state.rows.rank, report.value))
    return state, np.array(found)
