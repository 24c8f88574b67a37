"""The scaled SVD is the best low-rank approximation of all cells, and scoring rules equal their dense formulas."""

import numpy as np
import pytest
import scipy.sparse as sp

from rankwise import LossError, Observations, Problem, SettingError, ShardFolder, solve, write_shards
from rankwise.solvers import ScaledSVD, ScoringRule
from rankwise.solvers.scoring_rules import SHRINKAGE, ClickParts


def clicks(seed=0, shape=(60, 40), density=0.15):
    """A matrix of clicks, one row and one column of which are empty."""
    R = (np.random.default_rng(seed).random(shape) < density).astype(float)
    R[3], R[:, 5] = 0, 0
    return R, Observations.from_sparse(sp.csr_array(R))


def counts_of(R):
    return np.maximum(R.sum(axis=1), 1), np.maximum(R.sum(axis=0), 1)


@pytest.mark.parametrize("p, q", [(0.5, 0.5), (0.3, 0.4), (0.0, 0.0)])
def test_it_is_the_dense_minimizer(p, q):
    R, seen = clicks()
    rows, cols = counts_of(R)
    U, s, Vt = np.linalg.svd(rows[:, None] ** -p * R * cols**-q)
    best = rows[:, None] ** p * ((U[:, :5] * s[:5]) @ Vt[:5]) * cols**q
    result = solve(Problem(seen, "square", dtype=np.float64), ScaledSVD(p, q), rank=5, max_iter=100, tol=0.0)
    np.testing.assert_allclose(result.model.to_dense(), best, atol=1e-8)
    assert result.history[-1].value == pytest.approx(-0.5 * np.sum(s[:5] ** 2), rel=1e-9)


def test_every_engine_gives_the_same_bits(tmp_path):
    _, seen = clicks(1, (300, 50))
    folder = write_shards([(seen.rows, seen.cols, seen.targets)], tmp_path / "shards", shape=seen.shape)
    problems = [
        Problem(seen, "square", n_jobs=1),
        Problem(seen, "square", n_jobs=2),
        Problem(ShardFolder(folder), "square"),
    ]
    models = [solve(problem, "scaled-svd", rank=6).model for problem in problems]
    for model in models[1:]:
        assert np.array_equal(model.U, models[0].U) and np.array_equal(model.V, models[0].V)
        assert np.array_equal(model.theta, models[0].theta)


def test_what_it_cannot_do_is_refused():
    _, seen = clicks()
    with pytest.raises(SettingError, match="`row_power` must be a number from 0 to 1"):
        ScaledSVD(row_power=2)
    with pytest.raises(LossError, match="the square loss"):
        solve(Problem(seen, "huber"), "scaled-svd", rank=2)


def dense_rule(R, rule, n_rows_sized=500):
    """The formula of the scoring rules by dense linear algebra, neighbours without their diagonal."""
    rows, cols = counts_of(R)
    A = rows[:, None] ** -rule.row_power * R * cols**-rule.col_power
    _, s, Vt = np.linalg.svd(A)
    s, V, c = s[: rule.rank], Vt[: rule.rank].T, rule.score_power
    low_rank = (R * cols**-c) @ V @ np.diag(s**2 / (s**2 + SHRINKAGE * s[0] ** 2)) @ V.T * cols**c
    if rule.neighbours == "none":
        return rule.low_rank * low_rank
    if rule.neighbours == "counts":
        gram = A.T @ A
        W = cols[:, None] ** -c * (gram - np.diag(np.diag(gram))) * cols**c
    else:
        B = rows[:, None] ** -rule.ridge_power * R
        gram = B.T @ B
        inverse = np.linalg.inv(gram + rule.ridge * np.trace(gram) / gram.shape[0] * np.eye(gram.shape[0]))
        W = -inverse / np.diag(inverse)
        np.fill_diagonal(W, 0.0)
    size = (R @ W).std(axis=1).mean() / low_rank.std(axis=1).mean()
    return R @ W + rule.low_rank * size * low_rank


RULES = [
    ScoringRule(0.4, 0.3, 0.2, 24),
    ScoringRule(0.4, 0.3, 0.2, 24, 0.7, "counts"),
    ScoringRule(0.4, 0.5, 0.1, 24, 0.7, "ridge", 3.0, 0.25),
    ScoringRule(0.5, 0.5, 0.5, 24, 0.0, "counts"),
]


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_a_rule_is_its_formula(rule):
    R, seen = clicks(2, (50, 24), 0.3)  # the block has all columns, so that the decomposition is exact
    model = ClickParts(seen).model(rule)
    np.testing.assert_allclose(model.to_dense(), dense_rule(R, rule), atol=2e-5)
    rows, cols = np.nonzero(np.ones_like(R))
    np.testing.assert_allclose(model.predict_entries(rows, cols), dense_rule(R, rule).ravel(), atol=2e-5)
