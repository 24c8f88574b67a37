"""Offsets of every method: data with a level, the paper's start from zero, and counts."""

import numpy as np
import pytest

import rankwise as rw
from rankwise.losses.links import response
from rankwise.solvers import METHODS

L1_ONLY = ("admm", "wiberg")
ALL_CELLS = ("scaled-svd",)  # counts absent entries as zeros, so that nothing can be added to the others
OTHERS = [name for name in METHODS if name not in ("bayes", "factors", *ALL_CELLS)]
EVERY = [name for name in METHODS if name not in ("factors", *ALL_CELLS)]


def planted(level=0.0, shape=(14, 10)):
    """Entries of a rank-2 matrix plus a level, and a mask of those that are seen."""
    rng = np.random.default_rng(3)
    truth = level + rng.normal(size=(shape[0], 2)) @ rng.normal(size=(2, shape[1]))
    return truth, rng.random(shape) < 0.6


def fit(name, truth, seen, **settings):
    loss = "l1" if name in L1_ONLY else "square"
    estimator = rw.MatrixCompletion(loss, rank=2, method=name, dtype="float64", **settings)
    return estimator.fit(np.where(seen, truth, np.nan)).reconstruct()


@pytest.mark.parametrize("name", OTHERS)
def test_a_level_moves_the_predictions_and_changes_nothing_else(name):
    without, with_level = (fit(name, *planted(level)) for level in (0.0, 100.0))
    if name == "wiberg":  # its linear programs have many solutions of one value
        truth, seen = planted()
        errors = [np.abs(fitted - truth)[seen].sum() for fitted in (without, with_level - 100)]
        assert errors[1] == pytest.approx(errors[0], rel=1e-2)
        return
    np.testing.assert_allclose(with_level, without + 100, atol=1e-3)


@pytest.mark.parametrize("name", OTHERS)
def test_the_start_from_zero_is_there_by_asking(name):
    truth, seen = planted(3.5)
    loss = "l1" if name in L1_ONLY else "square"
    problem = rw.Problem(np.where(seen, truth, np.nan), loss, dtype="float64")
    wanted = rw.solve(problem, name, rank=2).model.to_dense()
    np.testing.assert_array_equal(fit(name, truth, seen, offsets="none"), wanted)


@pytest.mark.parametrize("name", EVERY)
def test_every_method_takes_the_offsets_of_the_estimator(name):
    """Rows that differ by a constant are fitted exactly by their offsets, without any component."""
    rng = np.random.default_rng(1)
    truth, seen = np.repeat(rng.normal(5, 2, size=(14, 1)), 10, axis=1), rng.random((14, 10)) < 0.8
    assert np.abs(fit(name, truth, seen, offsets="rows") - truth).max() < 0.5


@pytest.mark.parametrize("method", ["eglrl", "glrl", "glrl-none"])
def test_counts_are_predicted_better_than_by_their_mean(method):
    rng = np.random.default_rng(0)
    rates = np.exp(3 + 0.3 * rng.normal(size=(40, 1)) * rng.normal(size=30))
    counts, seen = rng.poisson(rates).astype(float), rng.random(rates.shape) < 0.7
    fitted = rw.MatrixCompletion("poisson", rank=1, method=method).fit(np.where(seen, counts, np.nan))
    poisson = rw.losses.Poisson()
    unseen = ~seen

    def cost(linked):
        return poisson.value(linked[unseen], counts[unseen]).mean()

    linked = fitted.reconstruct(scale="link")
    assert cost(linked) < cost(np.full(rates.shape, np.log(counts[seen].mean())))
    np.testing.assert_allclose(response("log", linked), fitted.reconstruct())
