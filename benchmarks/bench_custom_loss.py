"""How much slower is a custom loss than the built-in one? Targets: 1.5x with a slope, 3x without. Slashdot, rank 10.

Alternating fits, medians by the solver's clock; compilation is excluded and shown.
"""

import math
from collections.abc import Iterator
from statistics import median

import rankwise as rw

from .common import Row, signed_split


def logistic_value(x: float, o: float) -> float:
    """As a user would write it."""
    return math.log1p(math.exp(-abs(x * o))) + max(-x * o, 0.0)


def logistic_slope(x: float, o: float) -> float:
    """As a user would write it."""
    return -o / (1.0 + math.exp(x * o))


def square_value(x: float, o: float) -> float:
    """As a user would write it."""
    return (x - o) ** 2 / 2


def square_slope(x: float, o: float) -> float:
    """As a user would write it."""
    return x - o


def run(repeats: int = 5) -> Iterator[Row]:
    """Seconds and ratio to the built-in loss, per loss and per method."""
    train, _ = signed_split("slashdot")
    formulas = {"logistic": (logistic_value, logistic_slope, 0.25), "huber": (square_value, square_slope, 1.0)}
    for name, (value, slope, lipschitz) in formulas.items():
        facts = {"smooth": True, "lipschitz": lipschitz}
        built_in = rw.losses.Huber(1e6) if name == "huber" else rw.losses.get(name)  # wide enough to be the square
        losses = {
            "built-in": built_in,
            "custom, with slope": rw.loss(value, slope=slope, **facts),
            "custom, value only": rw.loss(value, **facts),
        }
        for method in ("eglrl", "glrl"):
            problems = {kind: rw.Problem(train, loss) for kind, loss in losses.items()}
            compiled = {kind: rw.solve(problem, method, rank=2).compile_seconds for kind, problem in problems.items()}
            times: dict[str, list[float]] = {kind: [] for kind in losses}
            for _ in range(repeats):
                for kind, problem in problems.items():
                    times[kind].append(rw.solve(problem, method, rank=10).history[-1].wall_seconds)
            for kind, found in times.items():
                yield {
                    "formula": name,
                    "method": method,
                    "loss": kind,
                    "median_s": round(median(found), 3),
                    "ratio": round(median(found) / median(times["built-in"]), 2),
                    "compile_s": round(compiled[kind], 2),
                }
