"""Compatibility with scikit-learn: its estimator checks, clone, pickle, pipelines, searches over entries."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from helpers import rarely
from sklearn.base import clone, is_classifier
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import validate_data

from rankwise import (
    DataError,
    MatrixCompletion,
    Observations,
    RankwiseError,
    RobustFactorization,
    SignedLinkPredictor,
    load,
)
from rankwise.losses import Huber
from rankwise.solvers import BayesSweeps, FactorSweeps, GreedyPursuit
from rankwise.spectral import PowerMethod

MATRICES = [MatrixCompletion(rank=3, max_iter=3), RobustFactorization(rank=3)]
LINKS = SignedLinkPredictor(rank=3, max_iter=3)
# Checks that call `predict`, `score` or `fit` with `sample_weight`, all of which take pairs, with a matrix. They run
# without these methods in `test_transformers_of_matrices_pass_every_check`.
NOT_MATRICES = (
    *("check_all_zero_sample_weights_error", "check_dict_unchanged", "check_dtype_object", "check_estimators_dtypes"),
    *("check_estimators_pickle", "check_f_contiguous_array_estimator", "check_fit_idempotent"),
    *("check_fit_score_takes_y", "check_methods_sample_order_invariance", "check_methods_subset_invariance"),
    *("check_n_features_in_after_fitting", "check_pipeline_consistency", "check_sample_weights_list"),
    *("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    "check_sample_weights_not_an_array",
)
# Checks that give X with other than the two columns of a pair. `test_links_pass_every_check_on_the_first_two_columns`
# runs them, and the others in `make test-all` alone.
NOT_PAIRS = (
    *("check_all_zero_sample_weights_error", "check_dict_unchanged", "check_dont_overwrite_parameters"),
    *("check_dtype_object", "check_estimators_dtypes", "check_estimators_nan_inf", "check_estimators_pickle"),
    *("check_f_contiguous_array_estimator", "check_fit2d_predict1d", "check_fit_score_takes_y"),
    *("check_methods_sample_order_invariance", "check_methods_subset_invariance", "check_n_features_in_after_fitting"),
    *("check_non_transformer_estimators_n_iter", "check_pipeline_consistency", "check_positive_only_tag_during_fit"),
    *("check_sample_weight_equivalence_on_dense_data", "check_sample_weights_list", "check_supervised_y_2d"),
    "check_classifiers_one_label_sample_weights",
)


def matrix_failures(estimator):
    return dict.fromkeys(NOT_MATRICES, "gives a matrix to `predict`, `score` or `sample_weight`, which take pairs")


def link_failures(estimator):
    return dict.fromkeys(NOT_PAIRS, "gives X with other than the two columns of a pair")


@parametrize_with_checks(MATRICES, expected_failed_checks=matrix_failures)
def test_estimators_of_matrices_pass_every_check(estimator, check):
    check(estimator)


def others_rarely(every_check, names_here):
    """The cases of a test of every check; those that another test runs are left to `make test-all`.

    So are those with read-only arrays, for which kernels compile once more.
    """
    names, cases = every_check.args
    kept = [
        case if check.func.__name__ in names_here and not check.keywords.get("readonly_memmap") else rarely(*case)
        for estimator, check in cases
        for case in [(estimator, check)]
    ]
    return pytest.mark.parametrize(names, kept, **every_check.kwargs)


class WithoutPairs:
    """A `MatrixCompletion` that is a transformer of matrices alone."""

    def fit(self, X, y=None):
        return super().fit(X)

    @property
    def predict(self):
        raise AttributeError("predict")

    @property
    def predict_proba(self):
        raise AttributeError("predict_proba")

    @property
    def score(self):
        raise AttributeError("score")


class CompletionTransformer(WithoutPairs, MatrixCompletion):
    pass


class RobustTransformer(WithoutPairs, RobustFactorization):
    pass


TRANSFORMERS = [CompletionTransformer(rank=3, max_iter=3), RobustTransformer(rank=3)]


@others_rarely(parametrize_with_checks(TRANSFORMERS), NOT_MATRICES)
def test_transformers_of_matrices_pass_every_check(estimator, check):
    check(estimator)


@parametrize_with_checks([LINKS], expected_failed_checks=link_failures)
def test_links_pass_every_check_but_those_with_other_columns(estimator, check):
    check(estimator)


class LinksOfTwoColumns(SignedLinkPredictor):
    """`SignedLinkPredictor` on the first two columns of X, for checks that give more."""

    def fit(self, X, y, sample_weight=None):
        super().fit(first_two(X), y, sample_weight)
        validate_data(self, X, skip_check_array=True)
        return self

    def _predict_pairs(self, X, *options, **named):
        if "model_" in vars(self) and np.asarray(X).ndim == 2:
            validate_data(self, X, reset=False, skip_check_array=True)
        return super()._predict_pairs(first_two(X), *options, **named)


def first_two(X):
    if hasattr(X, "iloc"):
        return X.iloc[:, :2]
    X = X if sp.issparse(X) else np.asarray(X)
    return X[:, :2] if not sp.issparse(X) and X.ndim == 2 and X.shape[1] > 2 else X


@others_rarely(parametrize_with_checks([LinksOfTwoColumns(rank=3, max_iter=3)]), NOT_PAIRS)
def test_links_pass_every_check_on_the_first_two_columns(estimator, check):
    check(estimator)


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


SETTINGS = [
    {"method": GreedyPursuit("economic", PowerMethod(3), 0.5), "offsets": "both", "random_state": 3},
    {"method": FactorSweeps(block=1, ridge=0.5, count_power=1.0), "max_iter": 3, "tol": 0.0},
    {"method": BayesSweeps(pattern_prior=False), "max_iter": 3, "time_limit": 60.0, "n_jobs": 1},
    {"method": "glrl", "dtype": "float64"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("signs", [False, True])
def test_a_fit_to_pairs_is_the_fit_to_the_matrix_of_these_entries(planted, signs, settings):
    pairs, values = planted
    values = np.where(values > 3, 1.0, -1.0) if signs else values
    loss = "logistic" if signs else "square"
    wanted = MatrixCompletion(loss, 2, **settings).fit(Observations.from_labels(*pairs.T, values)).model_
    fits = [MatrixCompletion(loss, 2, **settings), *([SignedLinkPredictor(2, **settings)] if signs else [])]
    for fitted in fits:
        model = fitted.fit(pairs, values).model_
        assert all(getattr(model, part).tobytes() == getattr(wanted, part).tobytes() for part in ("path", "U", "V"))


def test_predict_and_score_take_pairs_whatever_fit_took(planted):
    pairs, values = planted
    fitted = MatrixCompletion("square", rank=2).fit(pairs, values)
    wanted = MatrixCompletion("square", rank=2).fit(Observations.from_labels(*pairs.T, values))
    assert np.array_equal(fitted.predict(pairs), wanted.predict_entries(*pairs.T))
    assert np.array_equal(fitted.predict(pairs), wanted.predict(pairs))
    assert fitted.score(pairs, values) == r2_score(values, fitted.predict(pairs)) > 0.99
    weights = np.arange(values.size)
    assert fitted.score(pairs, values, weights) == r2_score(values, fitted.predict(pairs), sample_weight=weights)
    assert (fitted.n_features_in_, wanted.n_features_in_, fitted.n_iter_) == (2, 30, len(fitted.history_))


def test_predict_gives_classes_of_signs_and_counts_of_a_poisson_model(planted):
    pairs, values = planted
    signs = np.where(values > 3, 1.0, -1.0)
    for loss in ("logistic", "hinge"):
        fitted = MatrixCompletion(loss, rank=2, max_iter=3).fit(pairs, signs)
        classes = np.where(fitted.predict_entries(*pairs.T, scale="link") > 0, 1.0, -1.0)
        assert np.array_equal(fitted.predict(pairs), classes)
        assert fitted.score(pairs, signs) == accuracy_score(signs, classes) > 0.8
    counts = np.random.default_rng(0).poisson(np.exp(0.3 * values.clip(-2, 6)))
    fitted = MatrixCompletion("poisson", rank=2, max_iter=3).fit(pairs, counts)
    rates = np.exp(fitted.predict_entries(*pairs.T, scale="link"))
    np.testing.assert_allclose(fitted.predict(pairs), rates, rtol=1e-12)


def test_entries_can_be_cross_validated_with_scikit_learn_s_tools(planted):
    pairs, values = planted
    folds = KFold(3, shuffle=True, random_state=0)
    scores = cross_val_score(MatrixCompletion("square", rank=2), pairs, values, cv=folds)
    assert scores.min() > 0.9
    predicted = cross_val_predict(MatrixCompletion("square", rank=2), pairs, values, cv=folds)
    assert r2_score(values, predicted) > 0.9


def test_a_grid_search_finds_the_planted_rank(planted):
    pairs, values = planted
    grid = {"rank": [1, 2], "offsets": ["both", "none"]}
    search = GridSearchCV(MatrixCompletion("square", max_iter=8), grid, cv=KFold(3, shuffle=True, random_state=0))
    search.fit(pairs, values)
    assert search.best_params_ == {"rank": 2, "offsets": "both"}
    assert search.best_estimator_.model_.longest == 2
    assert np.array_equal(search.predict(pairs), search.best_estimator_.predict(pairs))


def test_estimators_go_into_pipelines(planted):
    pairs, values = planted
    frame = pd.DataFrame({"when": np.arange(values.size), "user": pairs[:, 0], "item": pairs[:, 1]})
    take = FunctionTransformer(lambda frame: frame[["user", "item"]])
    pipeline = make_pipeline(take, MatrixCompletion("square", rank=2)).fit(frame, values)
    assert np.array_equal(pipeline.predict(frame), MatrixCompletion("square", rank=2).fit(pairs, values).predict(pairs))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, lambda d: pl.DataFrame(d).lazy()])
def test_pairs_come_from_frames_and_labels_of_any_type(make):
    columns = {"user": ["b", "a", "b", "c"], "item": [20, 10, 10, 20]}
    values = [1.0, 2.0, 3.0, 4.0]
    lines = list(zip(*columns.values(), strict=True))
    fitted = MatrixCompletion("square", rank=1, max_iter=2).fit(make(columns), values)
    assert fitted.model_.row_labels.tolist() == ["a", "b", "c"] and fitted.model_.col_labels.tolist() == [10, 20]
    wanted = MatrixCompletion("square", rank=1, max_iter=2).fit(lines, values).predict(lines)
    assert np.array_equal(fitted.predict(make(columns)), wanted)
    assert np.array_equal(
        MatrixCompletion("square", rank=1, max_iter=2).fit(np.array(lines, object), values).predict(lines), wanted
    )


def test_unknown_labels_are_predicted_by_means(planted):
    pairs, values = planted
    fitted = MatrixCompletion("square", rank=2).fit(pairs, values)
    means = fitted.model_.marginals
    wanted = means.cols[4], means.rows[3], values.mean()
    np.testing.assert_allclose(fitted.predict([[99, 4], [3, 99], [99, 99]]), wanted, rtol=1e-5)


def test_copies_of_a_pair_are_its_mean_with_their_weights_together(planted):
    pairs, values = planted
    twice = np.concatenate((pairs, pairs[:50])), np.concatenate((values, values[:50] + 2.0))
    weights = np.where(np.arange(values.size) < 50, 2.0, 1.0)
    means = np.where(np.arange(values.size) < 50, values + 1.0, values)
    quadratic = Huber(1e3)  # at all of these values
    found = MatrixCompletion(quadratic, rank=2).fit(*twice).predict(pairs)
    wanted = MatrixCompletion(quadratic, rank=2).fit(pairs, means, sample_weight=weights).predict(pairs)
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
    assert np.array_equal(log_odds, wanted.predict_entries(*pairs.T, scale="link"))
    assert np.array_equal(chances[:, 1], wanted.predict_entries(*pairs.T, decode="probability"))
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
    plain = SignedLinkPredictor(rank=1, method="eglrl").fit(pairs, signs)
    assert np.array_equal(
        SignedLinkPredictor(rank=1, method="eglrl").fit(*disputed).predict_proba(pairs), plain.predict_proba(pairs)
    )
    weights = np.r_[np.ones(30), np.zeros(30), np.ones(signs.size - 60)]
    without = MatrixCompletion("logistic", rank=1, method="eglrl").fit(
        Observations.from_labels(*pairs.T, signs, weights=weights)
    )
    found = SignedLinkPredictor(rank=1, method="eglrl").fit(*even).decision_function(pairs)
    np.testing.assert_allclose(found, without.predict_entries(*pairs.T, scale="link"), rtol=1e-6, atol=1e-9)


FITTED = [
    (MatrixCompletion("square", rank=2, max_iter=2), np.array([[1.0, np.nan], [2.0, 3.0]]), None),
    (RobustFactorization(rank=1), np.array([[1.0, np.nan], [2.0, 3.0]]), None),
    (MatrixCompletion("square", rank=1, max_iter=2), [("a", 1), ("b", 2), ("a", 2)], [1.0, 2.0, 3.0]),
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
    fitted = MatrixCompletion("square", rank=1, max_iter=2).fit(frame, [1.0, 2.0, 3.0])
    assert fitted.feature_names_in_.tolist() == ["user", "item"]
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(frame.rename(columns={"item": "thing"}))
    wide = pd.DataFrame([[1.0, np.nan], [2.0, 3.0]], columns=["a", "b"])
    completed = MatrixCompletion("square", rank=1, max_iter=2).fit(wide)
    assert completed.feature_names_in_.tolist() == ["a", "b"]
    assert not hasattr(completed.fit(wide.to_numpy()), "feature_names_in_")


BAD_PAIRS = {
    "three columns": ([[1, 2, 3]], "3 feature.s. .*where two are needed"),
    "ragged": ([(1, 2), (1,)], "differ in length"),
    "flat": ([1, 2], "Reshape your data"),
    "no pair": (np.zeros((0, 2), int), "0 pairs"),
    "no label": ([("a", 2), (None, 3)], "row label.*NoneType; leave out"),
    "nan label": ([(1.0, 2), (np.nan, 3)], "row labels are NaN or infinity"),
    "mixed labels in a list": ([("a", 1), (3, 2)], "row labels mix text and numbers"),
    "mixed labels": (np.array([("a", 1), (3, 2)], object), "row labels mix text and numbers"),
    "sparse": (sp.eye_array(2).tocsr(), "cannot be sparse"),
}
BAD_VALUES = {
    "too few values": ([1.0], "2 pairs but `y` has 1 values"),
    "text values": (["high", "low"], "`y` must be real numbers"),
    "nan values": ([1.0, np.nan], "not finite"),
    "complex values": ([1.0, 2.0j], "Complex data not supported"),
}


@pytest.mark.parametrize("estimator", [MatrixCompletion(rank=1, max_iter=2), SignedLinkPredictor(rank=1, max_iter=2)])
@pytest.mark.parametrize(("X", "sentence"), BAD_PAIRS.values(), ids=BAD_PAIRS)
def test_bad_pairs_are_an_error_in_one_sentence(estimator, X, sentence):
    fitted = clone(estimator).fit([(1, 2), (1, 3), (2, 2)], [1.0, -1.0, 1.0])
    with pytest.raises(RankwiseError, match=sentence) as caught:
        fitted.predict(X)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


@pytest.mark.parametrize(("y", "sentence"), BAD_VALUES.values(), ids=BAD_VALUES)
def test_bad_values_are_an_error_in_one_sentence(y, sentence):
    with pytest.raises(RankwiseError, match=sentence) as caught:
        MatrixCompletion().fit([(1, 2), (1, 3)], y)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


def test_weights_of_a_matrix_are_not_given_as_weights_of_samples():
    with pytest.raises(RankwiseError, match="`sample_weight` needs pairs"):
        MatrixCompletion().fit(np.eye(3), sample_weight=[1, 2, 3])


@pytest.mark.parametrize(
    ("y", "sentence"), [([1, 1], "`y` must have two classes"), ([0, 1, 2], "Only binary"), (None, "requires y")]
)
def test_other_than_two_classes_are_an_error(y, sentence):
    with pytest.raises(DataError, match=sentence):
        SignedLinkPredictor().fit([(1, k) for k in range(3)][: len(y or [0])], y)


def test_a_classifier_is_restored_with_its_classes(network, tmp_path):
    pairs, signs = network
    named = pd.DataFrame(pairs, columns=["who", "whom"]), np.where(signs > 0, "trust", "distrust")
    fitted = SignedLinkPredictor(rank=2, max_iter=3).fit(*named)
    fitted.save(tmp_path / "m.rankwise")
    loaded = load(tmp_path / "m.rankwise")
    assert loaded.classes_.tolist() == ["distrust", "trust"] and loaded.feature_names_in_.tolist() == ["who", "whom"]
    assert np.array_equal(loaded.predict(named[0]), fitted.predict(named[0]))
