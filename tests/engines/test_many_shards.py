"""Several shards give the results of one, and of NumPy: every operation finds its own rows."""

import numpy as np
import pytest
from helpers import make_observations

from rankwise import Problem, ShardFolder, solve, write_shards
from rankwise.engines import Offsets, Shard
from rankwise.losses import Logistic, Square
from rankwise.observations import shards as cutting
from rankwise.solvers import BayesSweeps, FactorSweeps

SHAPE = (60, 17)


def problems(loss, monkeypatch, part="MIN_SHARD", **options):
    """The same problem as one shard of one block, and as several shards or blocks, moved to the same place."""
    found = []
    for smallest in (1 << 16, 40):
        monkeypatch.setattr(cutting, part, smallest)
        seen = make_observations(loss, np.random.default_rng(2), SHAPE, 0.5, weights=True)
        found.append(Problem(seen, loss, dtype=np.float64, **options))
    one, many = found
    assert _n_parts(one) == 1 and _n_parts(many) > 4
    return found


def _n_parts(problem):
    return sum(len(shard.parts(Shard.solve_rows)) for shard in problem.engine.shards)


def moved(problem):
    rng = np.random.default_rng(5)
    for shrink in (1.0, 0.7):
        problem.add(shrink, 2.0, *(rng.standard_normal(size) for size in SHAPE))
    return problem


@pytest.mark.parametrize("width", [None, 3, 8])
def test_products_with_the_gradient_are_those_of_the_dense_matrix(monkeypatch, width):
    for problem in map(moved, problems(Square(), monkeypatch)):
        seen = problem.observations
        dense = np.zeros(SHAPE)
        X = (problem.point.U * problem.point.theta) @ problem.point.V.T
        dense[seen.rows, seen.cols] = seen.weights * (X[seen.rows, seen.cols] - seen.targets)
        rng, gradient = np.random.default_rng(1), problem.gradient()
        u, v = (rng.standard_normal(size if width is None else (size, width)) for size in SHAPE)
        forth, back = ("matvec", "rmatvec") if width is None else ("matmat", "rmatmat")
        np.testing.assert_allclose(getattr(gradient, forth)(v), dense @ v, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(getattr(gradient, back)(u), dense.T @ u, rtol=1e-10, atol=1e-10)
        z, w = gradient.gram(v)
        np.testing.assert_allclose(z, dense @ v, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(w, dense.T @ (dense @ v), rtol=1e-10, atol=1e-9)
        assert gradient.norm == pytest.approx(np.linalg.norm(dense), rel=1e-12)
        assert gradient.inner == pytest.approx(np.sum(dense * X), rel=1e-10)


@pytest.mark.parametrize("offsets", [False, True])
@pytest.mark.parametrize("loss", [Square(), Logistic()], ids=repr)
def test_values_lines_and_coefficients_are_those_of_one_shard(monkeypatch, loss, offsets):
    rng = np.random.default_rng(7)
    given = Offsets(0.3, *(rng.standard_normal(size) for size in SHAPE)) if offsets else None
    u, v, c, d = (rng.standard_normal(size) for size in (*SHAPE, 2, 2))
    answers = []
    for problem in map(moved, problems(loss, monkeypatch, offsets=given)):
        line, terms, theta = problem.along(u, v), problem.along_terms(), problem.point.theta
        parts = [problem.value(), *line(c), line.curve(c, d), *terms(theta + 0.1), terms.curve(theta, c)]
        problem.replace(theta[::-1].copy())
        answers.append(np.concatenate([np.ravel(part) for part in (*parts, problem.value())]))
    np.testing.assert_allclose(*answers, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("part", ["MIN_SHARD", "MIN_BLOCK"])
@pytest.mark.parametrize("solver", [FactorSweeps(), BayesSweeps()], ids=["factors", "bayes"])
def test_sweeps_are_those_of_one_shard_and_block(monkeypatch, solver, part):
    one, many = (solve(problem, solver, rank=2, max_iter=3) for problem in problems(Square(), monkeypatch, part))
    np.testing.assert_allclose(many.model.to_dense(), one.model.to_dense(), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(many.history.column("value"), one.history.column("value"), rtol=1e-8)


def test_blocks_of_a_shard_have_the_same_bits_in_memory_and_on_disk(monkeypatch, tmp_path):
    monkeypatch.setattr(cutting, "MIN_SHARD", 150)
    monkeypatch.setattr(cutting, "MIN_BLOCK", 20)
    seen = make_observations(Square(), np.random.default_rng(2), SHAPE, 0.5)
    stored = write_shards([(seen.rows, seen.cols, seen.targets)], tmp_path / "shards", shape=SHAPE)
    found = []
    for data, n_jobs in ((seen, 1), (seen, 3), (ShardFolder(stored), 2)):
        problem = Problem(data, Square(), n_jobs=n_jobs)
        assert len(problem.engine.shards) == 2
        found.append(solve(problem, BayesSweeps(), rank=2, max_iter=3).model.to_dense().tobytes())
    assert len(set(found)) == 1


def test_the_transpose_has_the_threads_that_were_asked_for(monkeypatch):
    monkeypatch.setattr(cutting, "MIN_SHARD", 40)
    seen = make_observations(Square(), np.random.default_rng(2), (2, 400), 0.9)
    problem = Problem(seen, Square(), n_jobs=3)
    assert len(problem.engine.shards) < 3 < len(problem.engine_of("columns").shards)
    assert problem.engine_of("columns").n_jobs == 3
    problem.close()
