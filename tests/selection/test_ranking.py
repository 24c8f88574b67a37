"""Ranking scores equal independent implementations, and splits within rows hold out what they promise."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, ndcg_score

import rankwise as rw
from rankwise import DataError, MatrixCompletion, Observations, SettingError
from rankwise.selection import ranking_scores, split_rows, split_within_rows


def planted(seed=0, shape=(30, 25)):
    return rw.datasets.ratings(*shape, rank=2, density=0.5, random_state=seed).observations


def dense_scores(model, train):
    """All scores of a model, minus infinity at training entries; computed without the kernel."""
    scores = model.to_dense().copy()
    scores[train.rows, train.cols] = -np.inf
    return scores


@pytest.fixture(scope="module")
def fitted():
    train, test = split_within_rows(planted(), 0.3)
    return MatrixCompletion("square", rank=2, method="eglrl").fit(train).model_, train, test


@pytest.mark.parametrize("k", [1, 5, 11])
def test_scores_are_those_of_scikit_learn_and_of_their_definitions(fitted, k):
    model, train, test = fitted
    found, scores = ranking_scores(model, test, k), dense_scores(model, train)
    relevant = np.zeros(model.shape)
    relevant[test.rows, test.cols] = 1
    rows = np.flatnonzero(relevant.any(axis=1))
    ndcg, ap, recall, precision, mrr = [], [], [], [], []
    for i in rows:
        finite = np.isfinite(scores[i])
        ndcg.append(ndcg_score(relevant[i][finite][None], scores[i][finite][None], k=k, ignore_ties=True))
        order = np.argsort(-scores[i], kind="stable")[:k]
        hits = relevant[i, order]
        recall.append(hits.sum() / relevant[i].sum())
        precision.append(hits.mean())
        cut = average_precision_score(hits, -np.arange(k)) if hits.any() else 0.0  # of the hits within k
        ap.append(cut * hits.sum() / relevant[i].sum())
        mrr.append(1 / (1 + np.argmax(hits)) if hits.any() else 0.0)
    assert found.n_rows == rows.size and found.k == k
    np.testing.assert_allclose(
        [found.ndcg, found.map, found.recall, found.precision, found.mrr],
        [np.mean(part) for part in (ndcg, ap, recall, precision, mrr)],
        atol=1e-12,
    )
    assert found.hit_rate == np.mean(np.array(recall) > 0)


def test_coverage_and_popularity_describe_what_is_recommended(fitted):
    model, train, test = fitted
    found, scores = ranking_scores(model, test, 3), dense_scores(model, train)
    rows = np.unique(test.rows)
    best = np.argsort(-scores[rows], axis=1, kind="stable")[:, :3]
    assert found.coverage == np.unique(best).size / model.shape[1]
    assert found.popularity == pytest.approx(np.bincount(train.cols, minlength=model.shape[1])[best].mean())


def test_only_entries_of_at_least_that_value_are_relevant(fitted):
    model, _, test = fitted
    level = float(np.median(test.targets))
    assert ranking_scores(model, test, 5, least=level) == ranking_scores(model, test.take(test.targets >= level), 5)


def test_labels_are_matched_and_unknown_columns_count_as_missed():
    seen = Observations.from_labels(["a", "a", "b", "b", "c"], ["x", "y", "y", "z", "x"], [1.0, 2.0, 2.0, 1.0, 1.0])
    model = MatrixCompletion("square", rank=1, method="eglrl").fit(seen).model_
    known = ranking_scores(model, Observations.from_labels(["a"], ["z"], [1.0]), 1)
    assert (known.recall, known.n_rows) == (1.0, 1)  # z is the only column left
    both = ranking_scores(model, Observations.from_labels(["a", "a", "new"], ["z", "w", "z"], [1.0, 1.0, 1.0]), 1)
    assert (both.recall, both.n_rows) == (0.5, 1)
    with pytest.raises(DataError, match="no relevant entry in a row of the model"):
        ranking_scores(model, Observations.from_labels(["new"], ["x"], [1.0]))


@pytest.mark.parametrize("option, message", [({"k": 0}, "`k` must be a positive"), ({"least": "4"}, "`least` must be")])
def test_settings_are_checked(fitted, option, message):
    with pytest.raises(SettingError, match=message):
        ranking_scores(fitted[0], fitted[2], **option)


def test_estimators_and_matrices_are_scored_like_models_and_entries(fitted):
    _, train, test = fitted
    with pytest.raises(SettingError, match="`model` must be a LowRankModel or a fitted estimator"):
        ranking_scores(MatrixCompletion(), test)
    estimator = MatrixCompletion("square", rank=2, method="eglrl").fit(train)
    assert ranking_scores(estimator, test.to_sparse()) == ranking_scores(estimator.model_, test)


@pytest.mark.parametrize("held_out", [0.2, 0.5, 1, 3])
def test_every_row_gives_its_share_and_keeps_an_entry(held_out):
    seen = planted(3)
    train, test = split_within_rows(seen, held_out, random_state=1)
    counts, kept = np.bincount(seen.rows, minlength=30), np.bincount(train.rows, minlength=30)
    share = np.rint(held_out * counts) if isinstance(held_out, float) else held_out
    np.testing.assert_array_equal(counts - kept, np.minimum(share, np.maximum(counts - 1, 0)))
    pairs = set(zip(train.rows, train.cols, strict=True)) | set(zip(test.rows, test.cols, strict=True))
    assert len(pairs) == seen.n_observed == train.n_observed + test.n_observed


def test_the_latest_entries_of_each_row_are_held_out():
    seen, rng = planted(4), np.random.default_rng(0)
    time = rng.permutation(seen.n_observed)
    train, test = split_within_rows(seen, 0.3, time=time)
    stamps = np.full(seen.shape, -1)
    stamps[seen.rows, seen.cols] = time
    for i in np.unique(test.rows):
        assert stamps[i, train.cols[train.rows == i]].max() < stamps[i, test.cols[test.rows == i]].min()


def test_rows_are_held_out_whole():
    seen = planted(5)
    train, new = split_rows(seen, 0.2)
    assert train.shape == (24, 25) and new.shape == (6, 25)
    assert train.n_observed + new.n_observed == seen.n_observed
    with pytest.raises(SettingError, match="at least two rows"):
        split_rows([[1.0, 2.0]])


@pytest.mark.parametrize("time", [[1.0], [float("nan")] * 375, ["a"] * 375])
def test_a_time_is_a_number_for_each_entry(time):
    seen = planted(6)
    with pytest.raises(DataError, match="`time` must have a time for each of the 375 entries"):
        split_within_rows(seen, 0.2, time=time[: seen.n_observed])


@pytest.mark.parametrize("share", [0, 1.0, -1, "half"])
def test_a_share_is_a_fraction_or_a_count(share):
    with pytest.raises(SettingError, match="`held_out` must be a positive integer or a fraction"):
        split_within_rows(planted(), share)


def test_held_out_entries_of_the_training_data_do_not_count_as_missed():
    seen = planted()
    train, test = split_within_rows(seen, 0.2)
    model = MatrixCompletion(max_iter=3).fit(train).model_
    both = ranking_scores(model, seen, 5)
    assert both.n_seen == train.n_observed
    assert both._replace(n_seen=0) == ranking_scores(model, test, 5)
    assert ranking_scores(model, seen, 5, exclude_seen=False).n_seen == 0
    with pytest.raises(DataError, match=f"{train.n_observed} are among its training entries"):
        ranking_scores(model, train, 5)
