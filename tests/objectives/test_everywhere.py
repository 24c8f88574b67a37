"""The term of all cells: value, gradient and restrictions against dense matrices, and every method that takes it."""

import numpy as np
import pytest
from helpers import but_rarely, targets_for
from loss_cases import LOSSES
from numpy.testing import assert_allclose

from rankwise import Everywhere, Observations, Problem, Ridged, SettingError, solve
from rankwise.model import Offsets
from rankwise.solvers import METHODS
from rankwise.spectral.operators import product, transposed

SHAPE = (9, 7)
TERM = Everywhere(0.3, row_power=-0.5, col_power=0.25, value=0.4)


def observed(loss, seed=0, weights=False, share=0.4):
    rng = np.random.default_rng(seed)
    mask = rng.random(SHAPE) < share
    mask[:, 0] = False  # a column without entries, whose cells count all the same
    rows, cols = np.nonzero(mask)
    targets = targets_for(loss, rng, rows.size)
    return Observations.from_coo(
        rows, cols, targets, SHAPE, weights=rng.uniform(0.5, 2.0, rows.size) if weights else None
    )


def offsets_of(rng):
    return Offsets(0.2, rng.normal(size=SHAPE[0]) * 0.3, rng.normal(size=SHAPE[1]) * 0.3)


class DenseTerm:
    """``f(X)`` of a dense X, from the formula alone."""

    def __init__(self, entries, loss, term, base=0.0):
        self.entries, self.loss, self.term = entries, loss, term
        self.base = np.broadcast_to(base, SHAPE)
        self.w = np.ones(entries.n_observed) if entries.weights is None else entries.weights
        counts = [np.bincount(part, self.w, n) for part, n in zip((entries.rows, entries.cols), SHAPE, strict=True)]
        r, d = (
            np.maximum(part, 1) ** power for part, power in zip(counts, (term.row_power, term.col_power), strict=True)
        )
        self.cells = term.weight * np.outer(r, d)

    def value(self, X):
        at = self.entries.rows, self.entries.cols
        fit = self.w @ self.loss.value((X + self.base)[at], self.entries.targets)
        return fit + 0.5 * np.sum(self.cells * (X + self.base - self.term.value) ** 2)

    def gradient(self, X):
        at = self.entries.rows, self.entries.cols
        G = self.cells * (X + self.base - self.term.value)
        G[at] += self.w * self.loss.slope((X + self.base)[at], self.entries.targets)
        return G


def problem_at(loss, with_offsets=True, term=TERM, rank=3, seed=1):
    """A problem at a random point, its dense twin, and the dense point."""
    rng = np.random.default_rng(seed)
    offsets = offsets_of(rng) if with_offsets else None
    entries = observed(loss, weights=with_offsets)
    problem = Problem(entries, loss, dtype="float64", n_jobs=1, offsets=offsets, everywhere=term)
    X = np.zeros(SHAPE)
    for _ in range(rank):
        u, v = (rng.normal(size=n) for n in SHAPE)
        problem.add(0.8, 0.3, u, v)
        X = 0.8 * X + 0.3 * np.outer(u, v)
    return problem, DenseTerm(entries, loss, term, 0.0 if offsets is None else offsets.to_dense()), X


@pytest.mark.parametrize("with_offsets", [True, False])
@pytest.mark.parametrize("loss", but_rarely(LOSSES), ids=repr)
def test_value_and_gradient_are_those_of_the_dense_matrix(loss, with_offsets):
    problem, dense, X = problem_at(loss, with_offsets)
    gradient, G = problem.gradient(), dense.gradient(X)
    assert problem.value() == pytest.approx(dense.value(X), rel=1e-10)
    assert_allclose(gradient.matmat(np.eye(SHAPE[1])), G, atol=1e-10)
    assert_allclose(gradient.rmatmat(np.eye(SHAPE[0])), G.T, atol=1e-10)
    assert gradient.norm == pytest.approx(np.linalg.norm(G), rel=1e-9)
    assert gradient.inner == pytest.approx(np.sum(G * X), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("shape", [(SHAPE[1],), (SHAPE[1], 3)], ids=["vector", "block"])
def test_products_of_the_gradient_are_those_of_the_dense_matrix(shape):
    problem, dense, X = problem_at(LOSSES[0])
    rng, gradient, G = np.random.default_rng(2), problem.gradient(), dense.gradient(X)
    v, shift = rng.normal(size=shape), rng.normal(size=(SHAPE[0], *shape[1:]))
    z, w = gradient.gram(v, shift)
    assert_allclose(product(gradient, v), G @ v, atol=1e-10)
    assert_allclose(transposed(gradient, z), G.T @ z, atol=1e-10)
    assert_allclose(z, G @ v + shift, atol=1e-10)
    assert_allclose(w, G.T @ z, atol=1e-9)
    assert_allclose(gradient.twice(v), G.T @ (G @ v), atol=1e-9)


@pytest.mark.parametrize("with_offsets", [True, False])
def test_restrictions_are_those_of_the_dense_matrix(with_offsets):
    problem, dense, X = problem_at(LOSSES[0], with_offsets)
    rng = np.random.default_rng(3)
    u, v, theta = rng.normal(size=(SHAPE[0], 2)), rng.normal(size=(SHAPE[1], 2)), np.array([0.7, -0.4])
    D, c = u * theta @ v.T, np.array([0.6, 1.7])
    value, slopes = problem.along(u, v, theta)(c)
    at = c[0] * X + c[1] * D
    assert value == pytest.approx(dense.value(at), rel=1e-10)
    assert_allclose(slopes, [np.sum(dense.gradient(at) * part) for part in (X, D)], rtol=1e-9)
    terms = [np.outer(a, b) for a, b in zip(problem.point.U.T, problem.point.V.T, strict=True)]
    phi, theta = problem.along_terms(), np.array([0.5, -1.0, 0.2])
    at = sum(t * term for t, term in zip(theta, terms, strict=True))
    value, slopes = phi(theta)
    assert value == pytest.approx(dense.value(at), rel=1e-10)
    assert_allclose(slopes, [np.sum(dense.gradient(at) * term) for term in terms], rtol=1e-9)


def test_hessians_are_those_of_the_dense_matrix():
    problem, dense, X = problem_at(LOSSES[[loss.quadratic for loss in LOSSES].index(True)])
    rng = np.random.default_rng(4)
    u, v = (rng.normal(size=n) for n in SHAPE)
    terms = [np.outer(a, b) for a, b in zip(problem.point.U.T, problem.point.V.T, strict=True)]
    flat = dense.gradient(np.zeros(SHAPE))

    def second(parts):
        return [[np.sum((dense.gradient(a) - flat) * b) for b in parts] for a in parts]

    assert_allclose(problem.along_terms().hessian(), second(terms), rtol=1e-9)
    assert_allclose(problem.along(u, v).hessian(), second([X, np.outer(u, v)]), rtol=1e-9)


def test_constants_bound_the_curvature():
    loss = LOSSES[[loss.quadratic for loss in LOSSES].index(True)]
    problem, dense, _ = problem_at(loss)
    assert problem.lipschitz == pytest.approx(loss.lipschitz * dense.w.max() + dense.cells.max())
    assert problem.strong_convexity == pytest.approx(dense.cells.min())


@pytest.mark.parametrize("name", METHODS)
def test_every_method_minimizes_the_whole_function_or_says_that_it_cannot(name):
    """A run ends at a model with the value that the dense formula has there, below that of zero."""
    loss = "l1" if name in ("admm", "wiberg", "wiberg-inexact", "glrl-nonsmooth") else "square"
    entries = observed(Problem(observed(LOSSES[0]), "square").loss)
    problem = Problem(entries, loss, dtype="float64", n_jobs=1, everywhere=TERM)
    try:
        result = solve(problem, name, rank=3, max_iter=8)
    except SettingError as error:
        assert name in ("admm", "wiberg", "scaled-svd") and "everywhere" in str(error)
        return
    dense = DenseTerm(entries, problem.loss, TERM)
    value = dense.value(result.model.to_dense())
    assert value < dense.value(np.zeros(SHAPE))
    penalized = "bayes", "factors", "ais-impute", "soft-impute", "active-subspace", "frank-wolfe", "boosting"
    if name not in penalized:
        assert result.history[-1].value == pytest.approx(value, rel=1e-9)


def test_more_terms_reach_the_minimum_of_all_cells():
    """At full rank the pursuit's limit is the cellwise minimum, known in closed form for squares."""
    entries = observed(Problem(observed(LOSSES[0]), "square").loss)
    problem = Problem(entries, "square", dtype="float64", n_jobs=1, everywhere=TERM)
    dense = DenseTerm(entries, problem.loss, TERM)
    best = np.full(SHAPE, TERM.value)
    at = entries.rows, entries.cols
    best[at] = (entries.targets + dense.cells[at] * TERM.value) / (1 + dense.cells[at])
    model = solve(problem, "r1mp", rank=60).model
    assert_allclose(model.to_dense(), best, atol=1e-4)


def test_a_ridge_adds_to_the_whole_function():
    problem, dense, X = problem_at(LOSSES[0])
    ridged = Ridged(problem, 0.7)
    ridged.move(problem.point.theta.copy(), problem.point.U.copy(), problem.point.V.copy())
    assert ridged.value() == pytest.approx(dense.value(X) + 0.35 * np.sum(X * X), rel=1e-9)


@pytest.mark.parametrize("method", ["eglrl", "factors", "bayes"])
def test_a_weight_of_zero_is_the_plain_problem(method):
    entries = observed(Problem(observed(LOSSES[0]), "square").loss, share=0.7)
    models = [
        solve(Problem(entries, "square", n_jobs=1, everywhere=term), method, rank=2, max_iter=3).model
        for term in (None, Everywhere(0.0, row_power=1.0))
    ]
    assert all(np.array_equal(getattr(models[0], name), getattr(models[1], name)) for name in ("path", "U", "V"))


@pytest.mark.parametrize(
    "bad", [{"weight": -1}, {"weight": np.nan}, {"weight": 1, "row_power": 9}, {"weight": 1, "value": np.inf}]
)
def test_settings_that_are_no_term_are_refused(bad):
    with pytest.raises(SettingError):
        Everywhere(**bad)


def test_only_an_everywhere_is_accepted():
    with pytest.raises(SettingError, match="everywhere"):
        Problem(observed(LOSSES[0]), LOSSES[0], everywhere=0.3)
