"""Targets of 0 and 1, and booleans: the logistic loss, probabilities of 1, and classes as they were given."""

import numpy as np
import pytest

import rankwise as rw
from rankwise.losses import Bernoulli, Logistic

ROWS, COLS = np.divmod(np.arange(20 * 15), 15)


@pytest.fixture(scope="module")
def table():
    """Ones and zeros of a rank-1 matrix of log-odds, with gaps."""
    rng = np.random.default_rng(5)
    chances = 1 / (1 + np.exp(-3 * rng.normal(size=(20, 1)) * rng.normal(size=15)))
    return np.where(rng.random((20, 15)) < 0.7, (rng.random((20, 15)) < chances).astype(float), np.nan)


@pytest.mark.parametrize("settings", [{}, {"method": "eglrl", "rank": 2}], ids=str)
def test_a_fit_to_0_and_1_is_the_logistic_fit_to_signs_with_the_classes_mapped_back(table, settings):
    found = rw.MatrixCompletion(**settings).fit(table)
    signs = rw.MatrixCompletion("logistic", **settings).fit(2 * table - 1)
    assert found.model_.loss == Bernoulli() and found.model_.link == "logit"
    np.testing.assert_array_equal(found.reconstruct(scale="link"), signs.reconstruct(scale="link"))
    np.testing.assert_array_equal(found.reconstruct(), signs.reconstruct())
    assert found.classes_.tolist() == [0, 1] and signs.classes_.tolist() == [-1, 1]
    pairs = np.column_stack((ROWS, COLS))
    np.testing.assert_array_equal(2 * found.predict(pairs) - 1, signs.predict(pairs))
    decoded = found.predict_entries(ROWS, COLS, decode="class")
    np.testing.assert_array_equal(2 * decoded - 1, signs.predict_entries(ROWS, COLS, decode="class"))
    seen = ~np.isnan(table).ravel()
    score = found.score(pairs[seen], table.ravel()[seen])
    assert score == signs.score(pairs[seen], 2 * table.ravel()[seen] - 1) > 0.7


def test_booleans_of_every_form_are_0_and_1(table):
    pandas = pytest.importorskip("pandas")
    seen = ~np.isnan(table)
    wanted = rw.MatrixCompletion(rank=1).fit(table).reconstruct()
    long = pandas.DataFrame({"i": ROWS, "j": COLS, "yes": table.ravel() > 0})[seen.ravel()]
    wide = pandas.DataFrame(table).astype("boolean")
    pairs, y = np.column_stack((ROWS, COLS))[seen.ravel()], table[seen] > 0
    fits = [
        rw.MatrixCompletion(rank=1).fit(long, row="i", col="j", value="yes"),
        rw.MatrixCompletion(rank=1).fit(wide),
        rw.MatrixCompletion(rank=1).fit(pairs, y),
    ]
    for fitted in fits:
        assert fitted.model_.loss == Bernoulli()
        np.testing.assert_array_equal(fitted.reconstruct(), wanted)


def test_entries_on_disk_are_recognised_and_a_file_keeps_the_classes(table, tmp_path):
    seen = rw.Observations.from_dense(table)
    rw.write_shards([(seen.rows, seen.indices, seen.targets)], tmp_path / "s", shape=seen.shape)
    fitted = rw.MatrixCompletion(rank=1).fit(tmp_path / "s")
    fitted.save(tmp_path / "m")
    loaded = rw.load(tmp_path / "m")
    assert loaded.model_.loss == Bernoulli() and loaded.classes_.tolist() == [0, 1]
    np.testing.assert_array_equal(loaded.reconstruct(), rw.MatrixCompletion(rank=1).fit(table).reconstruct())


def test_another_loss_has_no_classes(table):
    estimator = rw.MatrixCompletion(rank=1, max_iter=1).fit(table)
    assert "classes_" not in vars(estimator.fit(3 * table))


def test_the_bernoulli_loss_is_that_of_signs():
    x, ones = np.linspace(-30, 30, 13), np.array([0.0, 1.0] * 6 + [1.0])
    for name in ("value", "slope", "curvature"):
        found, wanted = getattr(Bernoulli(), name)(x, ones), getattr(Logistic(), name)(x, 2 * ones - 1)
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_allclose(Bernoulli().value(x, ones), np.logaddexp(0, x) - ones * x, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "loss, targets, remedy", [("logistic", [0, 1], '"bernoulli"'), ("bernoulli", [-1, 1], "logistic")]
)
def test_the_other_two_classes_are_an_error_that_names_their_loss(loss, targets, remedy):
    with pytest.raises(rw.DataError, match=remedy):
        rw.MatrixCompletion(loss).fit(np.array([targets, targets], float))


def test_two_classes_of_text_are_for_the_classifier():
    pairs = [["a", "x"], ["a", "y"], ["b", "x"], ["b", "y"]]
    with pytest.raises(rw.DataError, match="SignedLinkPredictor takes two classes of any type"):
        rw.MatrixCompletion().fit(pairs, ["yes", "no", "no", "yes"])
    assert rw.SignedLinkPredictor(1, max_iter=1).fit(pairs, ["yes", "no", "no", "yes"]).classes_.tolist() == [
        "no",
        "yes",
    ]
