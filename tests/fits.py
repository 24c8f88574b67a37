"""Small fits of every solver that writes checkpoints, killed on demand; what they found, as one number."""

import hashlib
import json

import numpy as np
import pytest
from helpers import make_observations

from rankwise import Checkpoint, MultitaskRegression, Problem, Ridged, solve
from rankwise.losses import Absolute, Logistic, Square
from rankwise.solvers import (
    ActiveSubspace,
    AISImpute,
    AltMin,
    BayesSweeps,
    Boosting,
    FactorSweeps,
    FrankWolfe,
    GreedyPursuit,
    LocalSearch,
    NonsmoothPursuit,
    fit_offsets,
    get,
)
from rankwise.spectral import PowerMethod
from rankwise.storage.archive import read_arrays, write_arrays

TIMES = ("wall_seconds", "cpu_seconds")
SHAPE = (30, 22)
FEW = PowerMethod(4)


class Killed(Exception):
    """Ends a fit as a kill would: nothing after it runs but `finally`."""


def entries(loss, seed=0, shape=SHAPE):
    return make_observations(loss, np.random.default_rng(seed), shape, 0.5)


def with_offsets(observations, loss):
    return Problem(observations, loss, offsets=fit_offsets(Problem(observations, loss)))


def multitask():
    rng = np.random.default_rng(3)
    designs = [rng.normal(size=(9, 6)) for _ in range(5)]
    return MultitaskRegression(designs, [design @ rng.normal(size=6) for design in designs])


class Plain:
    """An objective with the members of `Objective` and no others, around one that has more."""

    strong_convexity = 0.0

    def __init__(self, inner):
        self.inner, self.shape, self.lipschitz = inner, inner.shape, inner.lipschitz
        self.smooth, self.quadratic, self.piecewise_linear = inner.smooth, inner.quadratic, inner.piecewise_linear
        self.reset, self.value, self.gradient, self.add = inner.reset, inner.value, inner.gradient, inner.add
        self.along, self.along_terms, self.replace = inner.along, inner.along_terms, inner.replace
        self.close = inner.close

    @property
    def point(self):
        return self.inner.point


FITS = {
    "none": lambda: (Problem(entries(Square()), Square()), GreedyPursuit("none", FEW)),
    "economic": lambda: (Problem(entries(Logistic()), Logistic()), GreedyPursuit("economic", FEW)),
    "coefficients": lambda: (Problem(entries(Square()), Square()), GreedyPursuit("coefficients", FEW)),
    "coefficients, not quadratic": lambda: (Problem(entries(Logistic()), Logistic()), get("glrl")),
    "ridge": lambda: (Ridged(Problem(entries(Square()), Square(), dtype="float64"), 0.3), get("glrl")),
    "ridge, economic": lambda: (Ridged(Problem(entries(Logistic()), Logistic()), 0.3), get("eglrl")),
    "ridge, altmin": lambda: (Ridged(Problem(entries(Square()), Square()), 0.3), AltMin()),
    "given offsets": lambda: (with_offsets(entries(Square()), Square()), GreedyPursuit("economic", FEW)),
    "nonsmooth": lambda: (Problem(entries(Absolute()), Absolute()), NonsmoothPursuit(oracle=FEW)),
    "geco": lambda: (Problem(entries(Square()), Square()), get("geco")),
    "local-search": lambda: (Problem(entries(Square()), Square()), LocalSearch(GreedyPursuit("coefficients", FEW))),
    "altmin": lambda: (Problem(entries(Logistic()), Logistic()), AltMin()),
    "ais-impute": lambda: (Problem(entries(Square()), Square()), AISImpute(3.0)),
    "ais-impute, weight searched": lambda: (Problem(entries(Square()), Square()), AISImpute()),
    "active-subspace": lambda: (Problem(entries(Square()), Square()), ActiveSubspace(3.0)),
    "boosting": lambda: (Problem(entries(Logistic()), Logistic()), Boosting(1.0)),
    "frank-wolfe": lambda: (Problem(entries(Square()), Square()), FrankWolfe(60.0)),
    "frank-wolfe, plain": lambda: (Problem(entries(Logistic()), Logistic()), FrankWolfe(60.0, corrective=False)),
    "soft-impute": lambda: (Problem(entries(Logistic()), Logistic()), get("soft-impute")),
    "factors": lambda: (Problem(entries(Square()), Square()), FactorSweeps(block=2, count_power=0.5)),
    "factors, corners": lambda: (Problem(entries(Absolute()), Absolute()), FactorSweeps()),
    "bayes": lambda: (Problem(entries(Square()), Square()), BayesSweeps()),
    "bayes, block by block": lambda: (Problem(entries(Logistic()), Logistic()), BayesSweeps(block=2)),
    "bayes, fading": lambda: (Problem(entries(Square()), Square()), BayesSweeps(least_effect=0.1)),
    "bayes, no offsets": lambda: (Problem(entries(Square()), Square(), dtype="float64"), BayesSweeps("none")),
    "multitask": lambda: (multitask(), GreedyPursuit("coefficients", FEW)),
}
STEPS = 6


def fit(name, **options):
    objective, solver = FITS[name]()
    return solve(objective, solver, **{"rank": 5, "max_iter": STEPS, "tol": 0.0, **options})


def digest(result):
    """Everything that a fit found, but for the time it took."""
    found, model = hashlib.sha256(), result.model
    parts = [model.path, model.U, model.V, model.scale, model.chosen, model.only_by, str(result.status)]
    parts += [] if model.offsets is None else [model.offsets.constant, model.offsets.rows, model.offsets.cols]
    if model.learned is not None:
        for side in (model.learned.rows, model.learned.cols):
            parts += [side.means, side.variances, side.precisions]
            parts += [] if side.prior is None else list(side.prior.arrays.values())
    columns = {name: column for name, column in result.history.to_dict().items() if name not in TIMES}
    parts += [result.history.initial_value, *map(repr, columns.values())]
    for part in parts:
        found.update(part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
    return found.hexdigest()


def killed_after(step):
    def callback(record):
        if record.step == step:
            raise Killed

    return callback


def stopped(name, folder, after, **options):
    """Checkpoints of a fit that was killed after some step, before that step had one."""
    with pytest.raises(Killed):
        fit(name, checkpoint=Checkpoint(folder, every=1), callback=killed_after(after), **options)


def spoil(path, change, arrays=lambda arrays: None):
    """Change what a checkpoint says and holds, and seal it again."""
    with path.open("rb") as file:
        found = read_arrays(file)
    about = json.loads(found.pop("about").tobytes())
    change(about)
    arrays(found)
    write_arrays(path, {**found, "about": np.frombuffer(json.dumps(about).encode(), np.uint8)})
