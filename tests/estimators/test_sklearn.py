"""The estimators are what scikit-learn takes estimators for: its own checks, clone, pickle, pipelines, searches."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from helpers import rarely
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import rankwise.estimators.pairs as pairs_module
from rankwise import (
    DataError,
    MatrixCompletion,
    Observations,
    PairRegressor,
    RankwiseError,
    RobustFactorization,
    SignedLinkPredictor,
)
from rankwise.losses import Huber
from rankwise.observations import as_pairs
from rankwise.spectral import PowerMethod

MATRICES = [MatrixCompletion(rank=3, max_iter=3), RobustFactorization(rank=3)]
PAIRS = [PairRegressor(rank=3, max_iter=3), SignedLinkPredictor(rank=3, max_iter=3)]
# Checks that give X with other than two columns; a pair has two, a row label and a column label. The same checks run
# on the same estimators in `test_estimators_of_pairs_pass_every_check_on_the_first_two_columns`, and the others there
# in `make test-all` alone.
NOT_PAIRS = (
    *("check_all_zero_sample_weights_error", "check_dict_unchanged", "check_dont_overwrite_parameters"),
    *("check_dtype_object", "check_estimators_dtypes", "check_estimators_nan_inf", "check_estimators_pickle"),
    *("check_f_contiguous_array_estimator", "check_fit2d_predict1d", "check_fit_score_takes_y"),
    *("check_methods_sample_order_invariance", "check_methods_subset_invariance", "check_n_features_in_after_fitting"),
    *("check_non_transformer_estimators_n_iter", "check_pipeline_consistency", "check_positive_only_tag_during_fit"),
    *("check_sample_weight_equivalence_on_dense_data", "check_sample_weights_list", "check_supervised_y_2d"),
)
MORE = {
    PairRegressor: (
        *("check_fit2d_1sample", "check_regressor_data_not_an_array", "check_regressors_int"),
        *("check_regressors_no_decision_function", "check_regressors_train"),
    ),
    SignedLinkPredictor: ("check_classifiers_one_label_sample_weights",),
}


def expected_failures(estimator):
    return dict.fromkeys((*NOT_PAIRS, *MORE[type(estimator)]), "gives X with other than the two columns of a pair")


@parametrize_with_checks(MATRICES)
def test_estimators_of_matrices_pass_every_check(estimator, check):
    check(estimator)


@parametrize_with_checks(PAIRS, expected_failed_checks=expected_failures)
def test_estimators_of_pairs_pass_every_check_but_those_with_other_columns(estimator, check):
    check(estimator)


def others_rarely(every_check):
    """The cases of a test of every check; those that need no other columns are left to `make test-all`."""
    names, cases = every_check.args
    kept = [
        case if check.func.__name__ in (*NOT_PAIRS, *MORE[type(estimator)]) else rarely(*case)
        for case in cases
        for estimator, check in [case]
    ]
    return pytest.mark.parametrize(names, kept, **every_check.kwargs)


@others_rarely(parametrize_with_checks(PAIRS))
def test_estimators_of_pairs_pass_every_check_on_the_first_two_columns(estimator, check, monkeypatch):
    monkeypatch.setattr(pairs_module, "as_pairs", lambda X: as_pairs(first_two(X)))
    check(estimator)


def first_two(X):
    if hasattr(X, "iloc"):
        return X.iloc[:, :2]
    X = X if sp.issparse(X) else np.asarray(X)
    return X[:, :2] if not sp.issparse(X) and X.ndim == 2 and X.shape[1] > 2 else X


@pytest.fixture(scope="module")
def planted():
    """Pairs and values of a rank-2 matrix with offsets and a little noise, in random order."""
    rng = np.random.default_rng(11)
    rows, cols = np.nonzero(rng.random((40, 30)) < 0.6)
    order = rng.permutation(rows.size)
    rows, cols = rows[order], cols[order]
    U, V, a, b = rng.normal(size=(40, 2)), rng.normal(size=(30, 2)), rng.normal(size=40), rng.normal(size=30)
    values = (U @ V.T)[rows, cols] + a[rows] + b[cols] + 3 + 0.1 * rng.normal(size=rows.size)
    return np.column_stack((rows, cols)), values


REGRESSIONS = [
    {"refine": "economic", "offsets": "both", "shrinkage": 0.5, "oracle": PowerMethod(3), "random_state": 3},
    {"refine": "factors", "ridge": 0.5, "count_power": 1.0, "block": 1, "max_iter": 3, "tol": 0.0},
    {"pattern_prior": False, "max_iter": 3, "time_limit": 60.0, "n_jobs": 1},
    {"method": "glrl", "dtype": "float64"},
]
LINKS = [
    {"refine": "factors", "ridge": 0.5, "max_iter": 3, "tol": 0.0, "n_jobs": 1},
    {"refine": "economic", "offsets": "both", "random_state": 3, "dtype": "float64"},
    {"pattern_prior": False, "max_iter": 3, "time_limit": 60.0},
]


@pytest.mark.parametrize(
    ("kind", "loss", "settings"),
    [
        *((PairRegressor, "square", each) for each in REGRESSIONS),
        *((SignedLinkPredictor, None, each) for each in LINKS),
    ],
)
def test_settings_of_the_estimators_of_pairs_are_those_of_the_completion(planted, kind, loss, settings):
    pairs, values = planted
    values = values if loss else np.where(values > 3, 1.0, -1.0)
    usual = ({"loss": loss} if loss else {}) | {"rank": 2}
    fitted = kind(**usual | settings).fit(pairs, values).model_
    wanted = MatrixCompletion(loss or "logistic", rank=2, **settings).fit(Observations.from_labels(*pairs.T, values))
    assert all(getattr(fitted, part).tobytes() == getattr(wanted.model_, part).tobytes() for part in ("path", "U", "V"))
    plain = kind(**usual).fit(pairs, values).model_
    assert fitted.V.tobytes() != plain.V.tobytes()


def test_a_regressor_of_pairs_is_the_completion_of_the_matrix_of_these_entries(planted):
    pairs, values = planted
    fitted = PairRegressor("square", rank=2).fit(pairs, values)
    wanted = MatrixCompletion("square", rank=2).fit(Observations.from_labels(*pairs.T, values))
    assert np.array_equal(fitted.predict(pairs), wanted.predict_entries(*pairs.T))
    assert np.array_equal(fitted.predict(pairs), fitted.predict_entries(*pairs.T))
    assert fitted.score(pairs, values) == r2_score(values, fitted.predict(pairs)) > 0.99
    assert (fitted.n_features_in_, fitted.n_iter_) == (2, len(fitted.history_))
    assert is_regressor(fitted) and not is_classifier(fitted)


def test_entries_can_be_cross_validated_with_scikit_learn_s_tools(planted):
    pairs, values = planted
    folds = KFold(3, shuffle=True, random_state=0)
    scores = cross_val_score(PairRegressor("square", rank=2), pairs, values, cv=folds)
    assert scores.min() > 0.9
    predicted = cross_val_predict(PairRegressor("square", rank=2), pairs, values, cv=folds)
    assert r2_score(values, predicted) > 0.9


def test_a_grid_search_finds_the_planted_rank(planted):
    pairs, values = planted
    grid = {"rank": [1, 2], "offsets": ["both", "none"]}
    search = GridSearchCV(PairRegressor("square", max_iter=8), grid, cv=KFold(3, shuffle=True, random_state=0))
    search.fit(pairs, values)
    assert search.best_params_ == {"rank": 2, "offsets": "both"}
    assert search.best_estimator_.model_.longest == 2
    assert np.array_equal(search.predict(pairs), search.best_estimator_.predict(pairs))


def test_estimators_go_into_pipelines(planted):
    pairs, values = planted
    frame = pd.DataFrame({"when": np.arange(values.size), "user": pairs[:, 0], "item": pairs[:, 1]})
    take = FunctionTransformer(lambda frame: frame[["user", "item"]])
    pipeline = make_pipeline(take, PairRegressor("square", rank=2)).fit(frame, values)
    assert np.array_equal(pipeline.predict(frame), PairRegressor("square", rank=2).fit(pairs, values).predict(pairs))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, lambda d: pl.DataFrame(d).lazy()])
def test_pairs_come_from_frames_and_labels_of_any_type(make):
    columns = {"user": ["b", "a", "b", "c"], "item": [20, 10, 10, 20]}
    values = [1.0, 2.0, 3.0, 4.0]
    lines = list(zip(*columns.values(), strict=True))
    fitted = PairRegressor("square", rank=1, max_iter=2).fit(make(columns), values)
    assert fitted.model_.row_labels.tolist() == ["a", "b", "c"] and fitted.model_.col_labels.tolist() == [10, 20]
    wanted = PairRegressor("square", rank=1, max_iter=2).fit(lines, values).predict(lines)
    assert np.array_equal(fitted.predict(make(columns)), wanted)
    assert np.array_equal(
        PairRegressor("square", rank=1, max_iter=2).fit(np.array(lines, object), values).predict(lines), wanted
    )


def test_unknown_labels_are_predicted_from_the_offsets(planted):
    pairs, values = planted
    fitted = PairRegressor("square", rank=2).fit(pairs, values)
    a, b, c = fitted.offsets_.constant, fitted.offsets_.rows, fitted.offsets_.cols
    np.testing.assert_allclose(fitted.predict([[99, 4], [3, 99], [99, 99]]), [a + c[4], a + b[3], a], rtol=1e-6)


def test_copies_of_a_pair_are_its_mean_with_their_weights_together(planted):
    pairs, values = planted
    twice = np.concatenate((pairs, pairs[:50])), np.concatenate((values, values[:50] + 2.0))
    weights = np.where(np.arange(values.size) < 50, 2.0, 1.0)
    means = np.where(np.arange(values.size) < 50, values + 1.0, values)
    quadratic = Huber(1e3)  # at all of these values
    found = PairRegressor(quadratic, rank=2).fit(*twice).predict(pairs)
    wanted = PairRegressor(quadratic, rank=2).fit(pairs, means, sample_weight=weights).predict(pairs)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.fixture(scope="module")
def network():
    rng = np.random.default_rng(12)
    rows, cols = np.nonzero(rng.random((40, 40)) < 0.5)
    log_odds = 4 * rng.normal(size=(40, 1)) @ rng.normal(size=(1, 40)) + 1
    return np.column_stack((rows, cols)), np.where(rng.random((40, 40)) < 1 / (1 + np.exp(-log_odds)), 1, -1)[
        rows, cols
    ]


@pytest.mark.parametrize("classes", [(-1, 1), (0, 1), ("distrust", "trust"), (False, True)], ids=str)
def test_signed_links_in_any_two_classes(network, classes):
    pairs, signs = network
    named = np.array(classes)[(signs > 0).astype(int)]
    fitted = SignedLinkPredictor(rank=2).fit(pairs, named)
    wanted = MatrixCompletion("logistic", rank=2).fit(Observations.from_labels(*pairs.T, signs))
    assert fitted.classes_.tolist() == list(classes) and is_classifier(fitted)
    log_odds, chances = fitted.decision_function(pairs), fitted.predict_proba(pairs)
    assert np.array_equal(log_odds, wanted.predict_entries(*pairs.T))
    assert np.array_equal(chances[:, 1], wanted.predict_entries(*pairs.T, scale="response"))
    np.testing.assert_allclose(chances.sum(1), 1.0)
    assert np.array_equal(fitted.predict(pairs), np.array(classes)[(log_odds > 0).astype(int)])
    assert fitted.score(pairs, named) > 0.85


def test_held_out_links_are_predicted_better_than_by_chance(network):
    pairs, signs = network
    folds = KFold(3, shuffle=True, random_state=0)
    scores = cross_val_score(SignedLinkPredictor(rank=2), pairs, signs, cv=folds, scoring="roc_auc")
    assert scores.mean() > 0.85
    chances = cross_val_predict(SignedLinkPredictor(rank=2), pairs, signs, cv=folds, method="predict_proba")[:, 1]
    assert roc_auc_score(signs, chances) > 0.85 and np.mean((chances - (signs > 0)) ** 2) < 0.16


def test_the_class_with_more_weight_counts_with_its_surplus(network):
    pairs, signs = network
    disputed = np.concatenate((pairs, pairs[:30], pairs[:30])), np.concatenate((signs, signs[:30], -signs[:30]))
    even = np.concatenate((pairs, pairs[30:60])), np.concatenate((signs, -signs[30:60]))
    plain = SignedLinkPredictor(rank=1, refine="economic").fit(pairs, signs)
    assert np.array_equal(
        SignedLinkPredictor(rank=1, refine="economic").fit(*disputed).predict_proba(pairs), plain.predict_proba(pairs)
    )
    weights = np.r_[np.ones(30), np.zeros(30), np.ones(signs.size - 60)]
    without = MatrixCompletion("logistic", rank=1, refine="economic").fit(
        Observations.from_labels(*pairs.T, signs, weights=weights)
    )
    found = SignedLinkPredictor(rank=1, refine="economic").fit(*even).decision_function(pairs)
    np.testing.assert_allclose(found, without.predict_entries(*pairs.T), rtol=1e-6, atol=1e-9)


FITTED = [
    (MatrixCompletion("square", rank=2, max_iter=2), np.array([[1.0, np.nan], [2.0, 3.0]]), None),
    (RobustFactorization(rank=1), np.array([[1.0, np.nan], [2.0, 3.0]]), None),
    (PairRegressor("square", rank=1, max_iter=2), [("a", 1), ("b", 2), ("a", 2)], [1.0, 2.0, 3.0]),
    (SignedLinkPredictor(rank=1, max_iter=2), [("a", 1), ("b", 2), ("a", 2)], [0, 1, 1]),
]


@pytest.mark.parametrize(("estimator", "X", "y"), FITTED, ids=lambda given: type(given).__name__)
def test_clones_and_pickles_do_the_same(estimator, X, y):
    fitted = clone(estimator).fit(X, y)
    copy = pickle.loads(pickle.dumps(fitted))
    again = clone(fitted)
    assert not hasattr(again, "model_") and again.get_params() == fitted.get_params()
    assert np.array_equal(copy.model_.to_dense(), fitted.model_.to_dense())
    assert np.array_equal(again.fit(X, y).model_.to_dense(), fitted.model_.to_dense())
    assert all(name.endswith("_") for name in vars(fitted).keys() - fitted.get_params().keys())


def test_names_of_columns_are_kept_and_checked(planted):
    frame = pd.DataFrame({"user": [1, 1, 2], "item": [1, 2, 2]})
    fitted = PairRegressor("square", rank=1, max_iter=2).fit(frame, [1.0, 2.0, 3.0])
    assert fitted.feature_names_in_.tolist() == ["user", "item"]
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(frame.rename(columns={"item": "thing"}))
    wide = pd.DataFrame([[1.0, np.nan], [2.0, 3.0]], columns=["a", "b"])
    completed = MatrixCompletion("square", rank=1, max_iter=2).fit(wide)
    assert completed.feature_names_in_.tolist() == ["a", "b"]
    assert not hasattr(completed.fit(wide.to_numpy()), "feature_names_in_")


BAD_PAIRS = {
    "three columns": ([[1, 2, 3]], [1.0], "3 feature.s. .*where two are needed"),
    "ragged": ([(1, 2), (1,)], [1.0, 2.0], "differ in length"),
    "flat": ([1, 2], [1.0, 2.0], "Reshape your data"),
    "no pair": (np.zeros((0, 2), int), [], "0 pairs"),
    "too few values": ([(1, 2), (1, 3)], [1.0], "2 pairs but 1 values"),
    "no label": ([("a", 2), (None, 3)], [1.0, 2.0], "row label.*NoneType; leave out"),
    "nan label": ([(1.0, 2), (np.nan, 3)], [1.0, 2.0], "row labels are NaN or infinity"),
    "mixed labels in a list": ([("a", 1), (3, 2)], [1.0, 2.0], "row labels mix text and numbers"),
    "mixed labels": (np.array([("a", 1), (3, 2)], object), [1.0, 2.0], "row labels mix text and numbers"),
    "text values": ([(1, 2)], ["high"], "values must be real numbers"),
    "nan values": ([(1, 2), (1, 3)], [1.0, np.nan], "not finite"),
    "sparse": (sp.eye_array(2).tocsr(), [1.0, 2.0], "cannot be sparse"),
}


@pytest.mark.parametrize(("X", "y", "sentence"), BAD_PAIRS.values(), ids=BAD_PAIRS)
def test_bad_pairs_are_refused_in_one_sentence(X, y, sentence):
    with pytest.raises(RankwiseError, match=sentence) as caught:
        PairRegressor().fit(X, y)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("y", "sentence"), [([1, 1], "Two classes are needed"), ([0, 1, 2], "Only binary"), (None, "requires y")]
)
def test_other_than_two_classes_are_refused(y, sentence):
    with pytest.raises(DataError, match=sentence):
        SignedLinkPredictor().fit([(1, k) for k in range(3)][: len(y or [0])], y)
