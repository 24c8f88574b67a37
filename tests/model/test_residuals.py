"""`residuals`: the observed entries that a model finds most unlikely."""

import copy
import pickle

import numpy as np
import pytest
from helpers import make_observations
from sklearn.base import clone

import rankwise as rw
from rankwise import MatrixCompletion, Observations, RobustFactorization
from rankwise.losses import Huber, Logistic, Square

PLANTED = rw.datasets.corrupted(150, 120, 3, 0.4, share=0.03)
ENTRIES = PLANTED.observations
WRONG = np.abs(ENTRIES.targets - PLANTED.truth.at(ENTRIES.rows, ENTRIES.cols)) > 1
ESTIMATORS = [MatrixCompletion(rank=6), MatrixCompletion("l1", rank=6), RobustFactorization("l1", rank=10)]


@pytest.fixture(scope="module")
def data():
    return make_observations(Square(), np.random.default_rng(5), (20, 12), 0.6)


@pytest.fixture(scope="module")
def fit(data):
    return MatrixCompletion(rank=2, max_iter=3).fit(data)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: f"{type(each).__name__}-{each.loss}")
def test_planted_outliers_come_first(estimator, record_property):
    n = int(WRONG.sum())
    found = estimator.fit(ENTRIES).residuals(n=n)
    planted = set(zip(ENTRIES.rows[WRONG], ENTRIES.cols[WRONG], strict=True))
    precision = np.mean([pair in planted for pair in zip(found.rows, found.cols, strict=True)])
    record_property("precision", float(precision))
    assert n > 100 and precision >= 0.9


def test_they_are_the_entries_of_largest_loss_in_falling_order(data, fit):
    found, everything = fit.residuals(n=7), fit.residuals(n=10**6)
    predicted = fit.predict_entries(data.rows, data.cols)
    losses = fit.model_.loss.value(predicted, data.targets)
    assert isinstance(fit.model_.loss, Huber) and everything.losses.size == data.n_observed
    np.testing.assert_array_equal(everything.losses, np.sort(losses)[::-1])
    np.testing.assert_array_equal(found.losses, everything.losses[:7])
    for row, col, target, prediction, loss in zip(*found, strict=True):
        k = np.flatnonzero((data.rows == row) & (data.cols == col))[0]
        assert (target, prediction, loss) == (data.targets[k], predicted[k], losses[k])


def test_there_are_twenty_unless_asked_otherwise(fit):
    assert {part.shape for part in fit.residuals()} == {(20,)}
    assert list(fit.residuals(n=2).to_dict()) == ["rows", "cols", "targets", "predictions", "losses"]


def test_rows_and_columns_are_given_by_label(data, fit):
    names = np.array([f"r{k:02}" for k in range(20)])[::-1], np.array([f"c{k:02}" for k in range(12)])
    named = Observations.from_coo(data.rows, data.cols, data.targets, data.shape, labels=names)
    found, plain = MatrixCompletion(rank=2, max_iter=3).fit(named).residuals(n=9), fit.residuals(n=9)
    np.testing.assert_array_equal(found.rows, names[0][plain.rows])
    np.testing.assert_array_equal(found.cols, names[1][plain.cols])
    np.testing.assert_array_equal(found.losses, plain.losses)


def test_other_entries_are_found_by_their_labels():
    names = np.array(list("abcd")), np.array(list("xyz"))
    data = Observations.from_coo(*np.divmod(np.arange(12), 3), np.arange(12.0), labels=names)
    fit = MatrixCompletion("square", rank=1, max_iter=2).fit(data)
    other = Observations.from_labels(["d", "b"], ["x", "z"], [99.0, 5.0])
    found = fit.residuals(n=1, X=other)
    assert (found.rows[0], found.cols[0], found.targets[0]) == ("d", "x", 99.0)
    assert found.predictions[0] == fit.predict_entries(["d"], ["x"])[0]
    with pytest.raises(rw.DataError, match=r"^The rows of this model have labels and those of the entries do not"):
        fit.residuals(n=1, X=np.ones((4, 3)))


def test_entries_of_weight_zero_are_left_out(data, fit):
    weights = np.ones(data.n_observed)
    weights[:5] = 0
    weighted = Observations.from_coo(data.rows, data.cols, data.targets, data.shape, weights=weights)
    found = fit.residuals(n=10**6, X=weighted)
    assert found.rows.size == data.n_observed - 5


def test_predictions_of_signs_are_probabilities():
    signs = make_observations(Logistic(), np.random.default_rng(0), (20, 12), 0.6)
    fit = MatrixCompletion(rank=1, method="eglrl", loss="logistic").fit(signs)
    found = fit.residuals(n=5)
    np.testing.assert_allclose(
        found.losses, -np.log(np.where(found.targets > 0, found.predictions, 1 - found.predictions))
    )


# The entries are kept by reference, and left out of pickles and files.


def test_the_entries_are_not_copied(data, fit):
    assert fit.observations_ is data
    assert not hasattr(clone(fit), "observations_")


@pytest.mark.parametrize("again", [lambda fit: pickle.loads(pickle.dumps(fit)), copy.deepcopy], ids=["pickle", "copy"])
def test_a_pickle_leaves_them_out_and_says_what_to_do(again, data, fit):
    copied = again(fit)
    assert hasattr(fit, "observations_")
    with pytest.raises(rw.SettingError, match=r"`residuals` needs `X`.* call `residuals\(X\)`"):
        copied.residuals(n=3)
    np.testing.assert_array_equal(copied.residuals(n=3, X=data).losses, fit.residuals(n=3).losses)


def test_a_loaded_model_looks_at_given_entries(data, fit, tmp_path):
    fit.save(tmp_path / "m.rankwise")
    np.testing.assert_array_equal(rw.load(tmp_path / "m.rankwise").residuals(data, 3).losses, fit.residuals(n=3).losses)


@pytest.mark.parametrize("n", [0, -1, 2.0, "all", True])
def test_the_number_is_a_number(n, fit):
    with pytest.raises(rw.SettingError, match=r"^`n` must be an integer of at least 1, got "):
        fit.residuals(n=n)


def test_targets_that_the_loss_does_not_take_are_refused():
    signs = make_observations(Logistic(), np.random.default_rng(0), (20, 12), 0.6)
    fit = MatrixCompletion(rank=1, method="eglrl", loss="logistic").fit(signs)
    with pytest.raises(rw.DataError, match="-1 or \\+1"):
        fit.residuals(n=3, X=np.full((20, 12), 0.5))


def test_a_loss_that_is_code_is_not_in_the_file(data, fit):
    with pytest.raises(rw.NotFittedError):
        MatrixCompletion().residuals()
    nameless = rw.LowRankModel(np.zeros((0, 0)), np.zeros((20, 0)), np.zeros((12, 0)))
    with pytest.raises(rw.SettingError, match=r"^This model has no loss"):
        nameless.residuals(data)
