"""A shard that is told the journal holds the same bits as the one that lived through it all."""

import numpy as np
import pytest

from rankwise import Observations, Problem, Ridged, solve
from rankwise.engines import Shard
from rankwise.losses import Absolute, Logistic, Square
from rankwise.solvers import BayesSweeps, GreedyPursuit, NonsmoothPursuit


def some_entries(loss, shape=(60, 40), seed=0):
    rng = np.random.default_rng(seed)
    kept = rng.random(shape) < 0.4
    values = rng.standard_normal((shape[0], 3)) @ rng.standard_normal((3, shape[1]))
    values = np.where(values > 0, 1.0, -1.0) if isinstance(loss, Logistic) else values
    return Observations.from_dense(np.where(kept, values, np.nan))


def new_shards(problem):
    """Shards that know nothing but what the problem says of the past."""
    shards = [Shard(piece, problem.loss, problem.dtype) for piece in problem.observations.pieces()]
    for operation, args in problem.current.replay():
        for shard in shards:
            shard.run(operation, args)
    return shards


def assert_same(problem):
    if problem.current.behind:  # nobody reads the predictions of old shards or new ones before they follow
        return
    for old, new in zip(problem.engine.shards, new_shards(problem), strict=True):
        assert old.predicted.tobytes() == new.predicted.tobytes()
        assert (old.base is None) == (new.base is None)
        if old.base is not None:
            assert old.base.tobytes() == new.base.tobytes()
        if problem.current.summary is not None:
            assert old.slopes.tobytes() == new.slopes.tobytes()
        if problem.current.direction is not None:
            assert old.direction.tobytes() == new.direction.tobytes()


SOLVERS = {
    "none": (GreedyPursuit("none"), Logistic()),
    "economic": (GreedyPursuit("economic"), Logistic()),
    "coefficients": (GreedyPursuit("coefficients"), Square()),
    "nonsmooth": (NonsmoothPursuit(), Absolute()),
    "bayes": (BayesSweeps(), Square()),
}


@pytest.mark.parametrize(
    ("name", "ridge"), [*((name, 0.0) for name in SOLVERS), *((name, 0.1) for name in SOLVERS if name != "bayes")]
)
def test_a_new_shard_is_where_the_old_ones_are_after_every_step(name, ridge):
    solver, loss = SOLVERS[name]
    problem = Problem(some_entries(loss), loss)
    looked = []

    def look(record):
        assert_same(problem)
        problem.value()  # evaluated, or caught up with the sweeps
        assert_same(problem)
        looked.append(record.step)

    solve(Ridged(problem, ridge) if ridge else problem, solver, rank=5, max_iter=5, callback=look)
    assert len(looked) >= 3


@pytest.mark.parametrize("begin", ["place", "replace"])
def test_terms_that_were_replaced_and_shrunk_since_are_shrunk_once_in_a_new_shard(begin):
    problem, rng = Problem(some_entries(Square()), Square()), np.random.default_rng(2)
    U, V = (rng.standard_normal((size, 2)) for size in problem.shape)
    if begin == "place":
        problem.place(None, U, V)
    else:
        problem.add(1.0, 1.0, U[:, 0], V[:, 0])
        problem.replace(np.array([0.7]))
    for shrink in (0.5, 0.25):
        problem.add(shrink, 2.0, U[:, 1], V[:, 1])
        assert_same(problem)


@pytest.mark.parametrize("name", ["economic", "coefficients", "nonsmooth", "bayes"])
def test_a_new_shard_joins_in_at_any_round(name):
    """Every round of a fit asks one shard that has just been made; the model is the same."""
    solver, loss = SOLVERS[name]

    def fit(renew):
        problem = Problem(some_entries(loss, seed=1), loss)
        engine, apply = problem.engine, problem.engine.apply

        def apply_to_new(*args):
            engine.shards = new_shards(problem)
            for shard in engine.shards:
                shard.buffers = engine.buffers
            return apply(*args)

        if renew:
            engine.apply = apply_to_new
        return solve(problem, solver, rank=4, max_iter=4).model

    old, new = fit(False), fit(True)
    for part in ("path", "U", "V"):
        assert getattr(old, part).tobytes() == getattr(new, part).tobytes()
