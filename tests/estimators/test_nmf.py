"""`NMF` against scikit-learn's, NumPy and SciPy; the losses of rates, and the term that zeros have in common."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import nnls
from sklearn.decomposition import NMF as SklearnNMF
from sklearn.utils.estimator_checks import parametrize_with_checks

import rankwise as rw
from rankwise.engines import Offsets
from rankwise.losses import KullbackLeibler, KullbackLeiblerBeyondZero, SquareBeyondZero

LOSSES = {"square": "frobenius", "kullback-leibler": "kullback-leibler"}
EVERY_LOSS = pytest.mark.parametrize("loss", LOSSES)


def table(loss, gaps=False):
    """Numbers of at least zero around a product of non-negative factors."""
    rng = np.random.default_rng(0)
    X = 0.3 * rng.gamma(1.0, 1.0, (60, 4)) @ rng.gamma(1.0, 1.0, (4, 40))
    X = rng.poisson(X).astype(float) if loss == "kullback-leibler" else X + 0.1 * rng.random(X.shape)
    return np.where(rng.random(X.shape) < 0.3, np.nan, X) if gaps else X


def total(loss, X, R):
    """Sum of the losses at the known entries."""
    known = ~np.isnan(X)
    X, R = X[known], np.maximum(R[known], 1e-12)
    if loss == "square":
        return 0.5 * np.sum((X - R) ** 2)
    return np.sum(R - X) + np.sum(X[X > 0] * np.log(X[X > 0] / R[X > 0]))


@parametrize_with_checks([rw.NMF(2)])
def test_nmf_passes_every_check(estimator, check):
    check(estimator)


@EVERY_LOSS
def test_the_value_is_within_half_a_percent_of_the_best_of_sklearns_starts(loss):
    X, values = table(loss), []
    for seed in range(3):
        settings = {"beta_loss": LOSSES[loss], "solver": "cd" if loss == "square" else "mu", "init": "random"}
        peer = SklearnNMF(4, max_iter=1000, random_state=seed, tol=1e-4, **settings)
        values.append(total(loss, X, peer.fit_transform(X) @ peer.components_))
    nmf = rw.NMF(4, loss=loss, max_iter=500, tol=1e-6)
    assert total(loss, X, nmf.inverse_transform(nmf.fit_transform(X))) <= 1.005 * min(values)


@EVERY_LOSS
@pytest.mark.parametrize("gaps", [False, True])
def test_the_value_is_that_of_the_known_entries_and_falls(loss, gaps):
    X = table(loss, gaps)
    nmf = rw.NMF(4, loss=loss, ridge=0.1, l1=0.2, dtype="float64", max_iter=20).fit(X)
    W, H = nmf.model_.learned.rows.means, nmf.components_
    penalty = 0.05 * (np.sum(W**2) + np.sum(H**2)) + 0.2 * (W.sum() + H.sum())
    assert nmf.reconstruction_err_ == pytest.approx(total(loss, X, W @ H) + penalty, rel=1e-4)
    assert (np.diff([record.value for record in nmf.history_]) <= 1e-9 * nmf.reconstruction_err_).all()
    assert W.min() >= 0 and H.min() >= 0


@EVERY_LOSS
def test_absent_entries_of_a_sparse_matrix_are_zeros_or_missing(loss):
    X = table(loss) * (np.random.default_rng(1).random((60, 40)) < 0.5)
    settings = {"loss": loss, "dtype": "float64", "max_iter": 5}
    dense, zeros = (rw.NMF(3, **settings).fit(A).components_ for A in (X, sp.csr_array(X)))
    np.testing.assert_array_equal(dense, zeros)
    gaps, missing = np.where(X > 0, X, np.nan), rw.NMF(3, absent="missing", **settings)
    np.testing.assert_array_equal(rw.NMF(3, **settings).fit(gaps).components_, missing.fit(sp.csr_array(X)).components_)


@pytest.mark.parametrize("gaps", [False, True])
def test_transform_is_scipys_nnls(gaps):
    X = table("square", gaps)
    nmf = rw.NMF(4, dtype="float64", max_iter=10).fit(X)
    for x, w in zip(X[:10], nmf.transform(X[:10]), strict=True):
        known = ~np.isnan(x)
        np.testing.assert_allclose(w, nnls(nmf.components_.T[known], x[known])[0], atol=1e-4)


@EVERY_LOSS
@pytest.mark.parametrize("gaps", [False, True])
def test_a_file_keeps_the_factors_and_transforms_alike(loss, gaps, tmp_path):
    X = table(loss, gaps)
    nmf = rw.NMF(3, loss=loss, max_iter=5).fit(X)
    nmf.save(tmp_path / "parts.rankwise")
    loaded = rw.load(tmp_path / "parts.rankwise")
    np.testing.assert_array_equal(loaded.components_, nmf.components_)
    np.testing.assert_array_equal(loaded.transform(X), nmf.transform(X))


def test_weights_count_entries_more_than_once():
    X = table("square")
    rows, cols = (part.ravel() for part in np.indices(X.shape))
    weights = np.where(rows < 30, 2.0, 1.0)
    seen = rw.Observations.from_coo(rows, cols, X.ravel(), X.shape, weights=weights)
    settings = {"dtype": "float64", "max_iter": 500, "tol": 1e-9}
    weighted = rw.NMF(2, **settings).fit(seen).components_
    twice = rw.NMF(2, **settings).fit(np.vstack((X, X[:30]))).components_
    products = [H / np.linalg.norm(H, axis=1, keepdims=True) for H in (weighted, twice)]
    np.testing.assert_allclose(*products, atol=2e-2)


@pytest.mark.parametrize("loss", [KullbackLeibler(), KullbackLeiblerBeyondZero(), SquareBeyondZero()], ids=repr)
def test_slopes_and_curvatures_are_those_of_the_values(loss):
    x, o = np.array([0.3, 1.0, 4.0]), np.array([0.0, 2.0, 3.0])
    h = 1e-5
    slopes = (loss.value(x + h, o) - loss.value(x - h, o)) / (2 * h)
    np.testing.assert_allclose(loss.slope(x, o), slopes, rtol=1e-6, atol=1e-6)
    bends = (loss.slope(x + h, o) - loss.slope(x - h, o)) / (2 * h)
    np.testing.assert_allclose(loss.curvature(x, o), bends, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("offsets", [None, "some"])
def test_a_slope_everywhere_is_a_sum_over_all_cells(offsets):
    rng = np.random.default_rng(2)
    X = np.where(rng.random((12, 9)) < 0.5, rng.random((12, 9)), np.nan)
    shift = None if offsets is None else Offsets(0.3, rng.random(12), rng.random(9))
    settings = {"dtype": "float64", "offsets": shift}
    everywhere = rw.Everywhere(0.2, value=0.1, slope=0.7)
    term, plain = (rw.Problem(X, "square", everywhere=e, **settings) for e in (everywhere, None))
    U, V = rng.random((12, 2)), rng.random((9, 2))
    for problem in (term, plain):
        problem.add(1.0, 1.0, U, V, np.ones(2))
    P = U @ V.T - 0.1 + (0.0 if shift is None else 0.3 + shift.rows[:, None] + shift.cols)
    assert term.value() - plain.value() == pytest.approx(0.1 * np.sum(P**2) + 0.7 * P.sum())
    difference = term.gradient() @ np.eye(9) - plain.gradient() @ np.eye(9)
    np.testing.assert_allclose(difference, 0.2 * P + 0.7, rtol=1e-6)


def test_settings_that_cannot_be_are_refused():
    X = table("square")
    with pytest.raises(rw.SettingError, match="`n_components` must be"):
        rw.NMF(0).fit(X)
    with pytest.raises(rw.SettingError, match='absent="zero" needs'):
        rw.NMF(2, loss="huber").fit(sp.csr_array(X))
    with pytest.raises(ValueError, match="Negative values"):
        rw.NMF(2).fit(-X)
