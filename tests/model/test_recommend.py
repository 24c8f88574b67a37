"""`recommend`, `similar`, `reconstruct` and unknown labels, against NumPy's brute force."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwise import (
    DataError,
    LowRankModel,
    MatrixCompletion,
    Observations,
    RankwiseError,
    SettingError,
    datasets,
    load,
)
from rankwise.losses import Logistic
from rankwise.model import Offsets, Posterior, Seen, ranking
from rankwise.model.ranking import directions
from rankwise.selection import split_entries


def make_model(
    rng, shape=(30, 300), rank=5, density=0.3, dtype=np.float32, offsets=True, coarse=False, posterior=False
):
    """A random model that has seen a random pattern; with few different numbers if `coarse`, so that scores tie."""
    draw = (lambda *size: rng.integers(-1, 2, size)) if coarse else (lambda *size: rng.normal(size=size))
    U, V = (draw(size, rank).astype(dtype) for size in shape)
    path = np.tril(np.tile(np.round(rng.uniform(1, 3, rank)), (rank, 1)))
    indptr, indices = pattern(rng, shape, density)
    found = Offsets(0.5, *(draw(size).astype(dtype) for size in shape)) if offsets else None
    doubt = None
    if posterior:
        sizes = [(size, rank + 1) for size in shape]
        parts = [part for size in sizes for part in (rng.normal(size=size), rng.gamma(0.3, size=size))]
        doubt = Posterior(*(part.astype(dtype) for part in parts))
    return LowRankModel(path, U, V, offsets=found, seen=Seen(indptr, indices), posterior=doubt)


def pattern(rng, shape, density):
    mask = rng.random(shape) < density
    mask[0, 0] = True
    return np.concatenate(([0], np.cumsum(mask.sum(1)))).astype(np.uint64), np.nonzero(mask)[1].astype(np.uint32)


def brute(model, rows, n, *, exclude_seen=True, only=None, rank=None, risk=0.0):
    """Columns and scores of every row from the whole matrix and a stable sort."""
    scores = model.to_dense(rank)
    if risk:
        means, widths = (part.astype(float) for part in (model.posterior.row_means, model.posterior.col_variances))
        scores = scores - risk * np.sqrt((means**2)[:, :-1] @ widths[:, :-1].T + widths[:, -1])
    if exclude_seen:
        for i in range(scores.shape[0]):
            scores[i, model.seen.indices[int(model.seen.indptr[i]) : int(model.seen.indptr[i + 1])]] = -np.inf
    if only is not None:
        scores[:, np.setdiff1d(np.arange(scores.shape[1]), only)] = -np.inf
    order = np.argsort(-scores[rows], axis=1, kind="stable")[:, :n]
    best = np.take_along_axis(scores[rows], order, 1)
    order = np.where(best == -np.inf, -1, order)
    missing = n - order.shape[1]
    return np.pad(order, ((0, 0), (0, missing)), constant_values=-1), np.pad(
        best, ((0, 0), (0, missing)), constant_values=-np.inf
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offsets", [True, False])
@pytest.mark.parametrize(
    "options",
    [{}, {"exclude_seen": False}, {"rank": 2}, {"rank": 0}, {"only": [3, 250, 7, 7, 299, 130]}, {"n": 1}, {"n": 400}],
    ids=str,
)
def test_the_best_columns_are_those_of_the_whole_matrix(dtype, offsets, options):
    model = make_model(np.random.default_rng(1), dtype=dtype, offsets=offsets)
    rows = [4, 0, 29, 4]
    n = options.pop("n", 10)
    columns, scores = model.recommend(rows, n, **options)
    wanted, best = brute(model, rows, n, **options)
    assert np.array_equal(columns, wanted) and scores.shape == (4, n)
    np.testing.assert_allclose(scores, best, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("options", [{}, {"exclude_seen": False}, {"only": [3, 250, 7, 299, 130]}, {"n": 400}], ids=str)
@pytest.mark.parametrize("risk", [0.2, 1.0, 30.0])
def test_a_risk_deducts_standard_deviations_of_the_columns_from_every_prediction(dtype, options, risk):
    model, rows = make_model(np.random.default_rng(1), dtype=dtype, posterior=True), [4, 0, 29, 4]
    n = options.get("n", 10)
    options = {key: option for key, option in options.items() if key != "n"}
    columns, scores = model.recommend(rows, n, risk=risk, **options)
    wanted, best = brute(model, rows, n, risk=risk, **options)
    assert np.array_equal(columns, wanted)
    np.testing.assert_allclose(scores, best, rtol=1e-5, atol=1e-5)
    plain = model.recommend(rows, n, risk=0, **options)
    assert np.array_equal(plain[0], brute(model, rows, n, **options)[0]) and not np.array_equal(plain[0], columns)


def test_without_standard_deviations_the_prediction_alone_ranks():
    model = make_model(np.random.default_rng(1), posterior=True)
    bare = replace(model, posterior=None)
    for one, options in ((bare, {}), (model, {"rank": 3})):
        for found, wanted in zip(one.recommend([2], **options), one.recommend([2], risk=0, **options), strict=True):
            assert np.array_equal(found, wanted)
    for risk in (-1.0, np.nan, np.inf, "high", None, True):
        with pytest.raises(SettingError, match="`risk` must be a number of at least zero or 'auto'"):
            model.recommend(0, risk=risk)


def test_by_default_items_with_few_ratings_do_not_crowd_out_what_is_known_to_be_good():
    """Ratings of a few popular items and of many that hardly anybody has rated, as of books; chosen by taste."""
    rng, (n_users, n_items, n) = np.random.default_rng(0), (300, 600, 6000)
    popular = np.exp(1.8 * rng.standard_normal(n_items))
    users, items = rng.integers(n_users, size=4 * n), rng.choice(n_items, 4 * n, p=popular / popular.sum())
    taste, kind = rng.standard_normal((n_users, 3)), rng.standard_normal((n_items, 3))
    match = (taste[users] * kind[items]).sum(axis=1)
    stars = 7.6 + 0.5 * rng.standard_normal(n_items)[items] + 0.4 * match + 1.4 * rng.standard_normal(4 * n)
    chosen = np.flatnonzero(rng.random(4 * n) < 1 / (1 + np.exp(1 - 1.5 * match)))
    chosen = chosen[np.unique(users[chosen] * n_items + items[chosen], return_index=True)[1]]
    held_out = rng.random(chosen.size) < 0.2
    train, test = chosen[~held_out], chosen[held_out & (stars[chosen] >= 8)]
    data = Observations.from_coo(users[train], items[train], stars[train], (n_users, n_items))
    model = MatrixCompletion().fit(data).model_

    def hits(**options):
        best = model.recommend(np.arange(n_users), 20, **options)[0]
        return np.mean([item in best[user] for user, item in zip(users[test], items[test], strict=True)])

    assert hits() > 4 * hits(risk=0)
    signs = replace(model, link="logit")
    assert np.array_equal(signs.recommend([1, 2])[0], signs.recommend([1, 2], risk=0)[0])


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**31), st.integers(1, 300), st.integers(0, 9), st.integers(1, 40), st.sampled_from([0.0, 0.5, 0.99])
)
def test_ties_go_to_the_lower_column(seed, n_cols, rank, n, density):
    """Scores of small whole numbers are exact, and most of them tie."""
    rng = np.random.default_rng(seed)
    model = make_model(rng, (7, n_cols), rank, density, coarse=True)
    only = rng.choice(n_cols, rng.integers(1, n_cols + 1), replace=False) if seed % 2 else None
    found = model.recommend(np.arange(7), n, only=only)
    for one, other in zip(found, brute(model, np.arange(7), n, only=only), strict=True):
        assert np.array_equal(one, other)


def test_the_same_bits_on_any_number_of_threads_and_in_any_company():
    model = make_model(np.random.default_rng(2), (500, 700), 9)
    wanted = model.recommend(np.arange(500), 7, n_jobs=1)
    for n_jobs in (2, 3, None):
        found = model.recommend(np.arange(500), 7, n_jobs=n_jobs)
        assert all(np.array_equal(one, other) for one, other in zip(found, wanted, strict=True))
    for row in (0, 63, 64, 499):
        alone = model.recommend(row, 7)
        assert all(np.array_equal(one, other[row]) for one, other in zip(alone, wanted, strict=True))


def test_a_single_row_gets_as_many_as_there_are_and_several_are_padded():
    model = make_model(np.random.default_rng(3), (3, 4))
    model = replace(model, seen=Seen(np.array([0, 3, 4, 4], np.uint64), np.array([0, 1, 3, 2], np.uint32)))
    columns, scores = model.recommend(0, 3)
    assert columns.tolist() == [2] and scores.shape == (1,)
    columns, scores = model.recommend([0, 2], 3)
    assert columns[0].tolist()[1:] == [-1, -1] and scores[0, 1:].tolist() == [-np.inf, -np.inf]
    assert -1 not in columns[1] and np.isfinite(scores[1]).all()
    named = replace(model, col_labels=np.array(["a", "b", "c", "d"]))
    assert named.recommend(0, 3)[0].tolist() == ["c"]
    assert named.recommend([0, 2], 3)[0][0].tolist() == ["c", None, None]
    assert named.recommend([2], 3)[0].dtype == named.col_labels.dtype
    empty, none = named.recommend([], 3)
    assert empty.shape == none.shape == (0, 3)
    assert named.recommend(0, only=["a"])[0].shape == (0,) and model.recommend(0, only=[])[0].shape == (0,)


def test_a_single_row_may_ask_for_more_than_any_memory_holds():
    model = make_model(np.random.default_rng(3), (3, 4), density=0.0)
    assert model.recommend(1, 10**15)[0].size == 4
    assert model.similar(0, 10**15)[0].size == 2


def test_labels_name_rows_columns_and_filters():
    rng = np.random.default_rng(4)
    values = rng.normal(size=(6, 5))
    values[rng.random((6, 5)) < 0.4] = np.nan
    data = Observations.from_dense(values, labels=(list("uvwxyz"), [50, 40, 30, 20, 10]))
    fitted = MatrixCompletion("square", rank=2).fit(data)
    unseen = np.flatnonzero(np.isnan(values[2]))
    best, scores = fitted.recommend("w", 5, risk=0)
    assert set(best) == set(data.col_labels[unseen]) and np.all(np.diff(scores) <= 0)
    np.testing.assert_allclose(scores, fitted.predict_entries(["w"] * best.size, best), rtol=1e-12)
    everything = fitted.recommend("w", only=[50, 10], exclude_seen=False)[0]
    assert set(everything) == {50, 10}
    with pytest.raises(DataError, match=r"1 row labels are unknown to the model .first: 'q'"):
        fitted.recommend(["w", "q"])
    with pytest.raises(DataError, match=r"column labels are unknown to the model .first: 7"):
        fitted.recommend("w", only=[7])


def test_a_model_without_its_pattern_says_how_to_go_on(tmp_path):
    fitted = MatrixCompletion("square", rank=1).fit(np.array([[1.0, np.nan], [2.0, 3.0]]))
    fitted.model_.save(tmp_path / "m", seen=False)
    with pytest.raises(SettingError, match="exclude_seen=False"):
        load(tmp_path / "m").recommend(0)
    assert load(tmp_path / "m").recommend(0, exclude_seen=False)[0].size == 2


@pytest.mark.parametrize("axis", ["rows", "columns"])
@pytest.mark.parametrize("rank", [None, 2, 0])
def test_similar_ones_have_the_largest_cosine_in_the_low_rank_part(axis, rank):
    """Also where the factors are not orthogonal, as after a pursuit."""
    model = make_model(np.random.default_rng(5), (40, 25), 4, dtype=np.float64)
    model.U[3] = model.V[3] = 0.0
    low_rank = replace(model, offsets=None).to_dense(rank)
    vectors = low_rank if axis == "rows" else low_rank.T
    lengths = np.linalg.norm(vectors, axis=1)
    cosines = vectors @ vectors.T / np.maximum(np.outer(lengths, lengths), 1e-300)
    np.fill_diagonal(cosines, -np.inf)
    asked = [0, 3, 11]
    found, scores = model.similar(asked, 6, axis=axis, rank=rank)
    np.testing.assert_allclose(scores, -np.sort(-cosines[asked], axis=1)[:, :6], atol=1e-12)
    np.testing.assert_allclose(np.take_along_axis(cosines[asked], found, 1), scores, atol=1e-12)
    assert not any(label in line for label, line in zip(asked, found.tolist(), strict=True))
    alone, _ = model.similar(11, 6, axis=axis, rank=rank)
    assert np.array_equal(alone, found[2])


def test_the_vectors_of_similar_are_computed_once_and_not_stored(monkeypatch):
    model, calls = make_model(np.random.default_rng(5), (40, 25), 4), []
    monkeypatch.setattr(ranking, "directions", lambda *args: calls.append(1) or directions(*args))
    model.row_index.find(0)  # which is kept, too
    before = len(pickle.dumps(model))
    first = [model.similar(k, 5)[1] for k in range(3)]
    assert len(calls) == 1 and len(pickle.dumps(model)) == before
    low, full = model.similar(0, 5, rank=1)[1], model.similar(0, 5)[1]
    assert len(calls) == 3 and np.array_equal(full, first[0]) and not np.array_equal(low, full)
    assert not np.array_equal(replace(model, V=model.V * np.arange(1, 5)).similar(0, 5)[1], full)


def test_similar_by_label_and_padded_like_recommend():
    model = replace(make_model(np.random.default_rng(6), (3, 8)), row_labels=np.array(["a", "b", "c"]))
    assert set(model.similar("a")[0]) == {"b", "c"}
    labels, cosines = model.similar(["a", "b"], 4)
    assert labels.shape == (2, 4) and labels[:, 2:].tolist() == [[None] * 2] * 2 and np.all(cosines[:, 2:] == -np.inf)
    with pytest.raises(DataError, match="unknown to the model"):
        model.similar("z")


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.recommend(0, 0),
        lambda m: m.recommend(0, 2.5),
        lambda m: m.recommend(0, True),
        lambda m: m.recommend(0, rank=99),
        lambda m: m.recommend(0, n_jobs=0),
        lambda m: m.recommend([[0]]),
        lambda m: m.recommend(0.5),
        lambda m: m.similar(0, axis="row"),
        lambda m: m.similar(0, 0),
        lambda m: m.similar(-1),
        lambda m: m.reconstruct(max_bytes="much"),
        lambda m: m.reconstruct(max_bytes=np.nan),
        lambda m: m.reconstruct(scale="log"),
        lambda m: m.predict_entries([0], [0], unknown="guess"),
    ],
)
def test_bad_wishes_are_refused_in_a_sentence(call):
    with pytest.raises(RankwiseError) as caught:
        call(make_model(np.random.default_rng(7), (3, 4)))
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_the_whole_matrix_is_made_only_if_it_fits():
    model = make_model(np.random.default_rng(8), (30, 300))
    assert np.array_equal(model.reconstruct(), model.to_dense())
    assert np.array_equal(model.reconstruct(2, 8 * 30 * 300), model.to_dense(2))
    with pytest.raises(SettingError, match=r"whole matrix of 30 x 300 takes .* GiB, more than .*predict_entries"):
        model.reconstruct(max_bytes=8 * 30 * 300 - 1)
    huge = replace(model, U=np.broadcast_to(np.float32(1), (10**9, 5)), offsets=None)
    with pytest.raises(SettingError, match="raise `max_bytes`"):
        huge.reconstruct()
    chances = replace(model, link="logit").reconstruct(scale="response")
    np.testing.assert_allclose(chances, 1 / (1 + np.exp(-model.to_dense())), atol=1e-15)


@pytest.mark.parametrize("labels", [False, True])
def test_unknown_rows_and_columns_get_what_the_offsets_say(labels):
    model = make_model(np.random.default_rng(9), (4, 6), dtype=np.float64)
    if labels:
        model = replace(model, row_labels=np.array(list("abcd")), col_labels=np.array(list("uvwxyz")))
    rows, cols = (list("ab??"), list("u?v?")) if labels else ([0, 1, 77, 99], [0, 50, 1, -3])
    found = model.predict_entries(rows, cols, unknown="offset")
    a, b, c = model.offsets.constant, model.offsets.rows, model.offsets.cols
    np.testing.assert_allclose(found, [model.to_dense()[0, 0], a + b[1], a + c[1], a])
    assert found[0] == model.predict_entries(rows[:1], cols[:1])[0]
    chances = replace(model, link="logit").predict_entries(rows, cols, unknown="offset", scale="response")
    np.testing.assert_allclose(chances, 1 / (1 + np.exp(-found)))
    bare = replace(model, offsets=None).predict_entries(rows, cols, unknown="offset")
    assert bare[1:].tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(DataError):
        model.predict_entries(rows, cols)
    alone = Offsets(1.0, np.arange(4.0), -np.arange(6.0))
    found = replace(model, baseline=alone).predict_entries(rows, cols, unknown="offset")
    np.testing.assert_allclose(found, [model.to_dense()[0, 0], 2.0, 0.0, 1.0])  # offsets fitted without factors


def test_no_standard_deviation_is_made_up_for_the_unknown():
    fitted = MatrixCompletion(Logistic(), rank=1).fit(np.array([[1.0, np.nan, -1.0], [-1.0, 1.0, 1.0]]))
    assert np.isfinite(fitted.predict_entries([0, 5], [0, 0], unknown="offset")).all()
    assert len(fitted.predict_entries([0], [1], unknown="offset", return_std=True)) == 2
    with pytest.raises(SettingError, match="return_std"):
        fitted.predict_entries([0, 5], [0, 0], unknown="offset", return_std=True)


@pytest.mark.parametrize("axis", ["rows", "columns"])
def test_what_little_is_known_of_is_not_much_like_anything(axis):
    data = datasets.ratings(60, 40, rank=2, density=0.5)
    kept = (data.observations.cols != 7) | (data.observations.rows < 3)
    kept &= (data.observations.rows != 5) | (data.observations.cols < 3)
    model = MatrixCompletion("square", 3).fit(data.observations.take(kept)).model_
    part = model.to_dense() - model.offsets.to_dense()
    left, right = model.posterior, model.posterior
    variances, others = (
        (left.row_variances, right.col_means) if axis == "rows" else (left.col_variances, right.row_means)
    )
    part = part if axis == "rows" else part.T
    lengths = np.sqrt((part**2).sum(axis=1) + variances[:, :-1] @ (others[:, :-1] ** 2).sum(axis=0))
    cosines = part @ part.T / np.outer(lengths, lengths)
    labels, scores = model.similar(0, 10, axis=axis)
    np.testing.assert_allclose(scores, np.sort(np.delete(cosines[0], 0))[::-1][:10], rtol=1e-3, atol=1e-4)
    thin = 5 if axis == "rows" else 7
    assert cosines[thin, thin] < np.median(np.diag(cosines)) - 0.05 and thin not in labels[:3]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["movielens-100k", "movielens-1m"])
def test_by_default_more_liked_films_are_found_than_by_predictions_or_popularity(name, record_property):
    """Recall at 20 of held-out ratings of at least 4 stars, among all films that a user has not rated."""
    try:
        ratings = datasets.load(name)
    except RankwiseError:
        pytest.skip(f"{name} is not in RANKWISE_DATA")
    train, test = split_entries(ratings, 0.2)
    model, liked = MatrixCompletion().fit(train).model_, np.flatnonzero(test.targets >= 4)
    users, items = test.rows[liked], test.cols[liked]
    numbers = replace(model, row_labels=None, col_labels=None)

    def recall(one, **options):
        best, asked = one.recommend(np.unique(users), 20, **options)[0], np.unique(users, return_inverse=True)[1]
        hits = (best[asked] == items[:, None]).any(axis=1)
        return np.mean(np.bincount(asked, hits) / np.bincount(asked))

    counts = np.bincount(train.cols, minlength=train.shape[1]).astype(float)[:, None]
    size = np.linalg.norm(counts)
    popularity = LowRankModel(
        np.array([[size]]), np.ones((train.shape[0], 1)), counts / size, loss=model.loss, seen=model.seen
    )
    found = {"auto": recall(numbers), "plain": recall(numbers, risk=0), "popularity": recall(popularity)}
    record_property("recall at 20", found)
    assert found["auto"] > 1.3 * found["plain"] and found["auto"] > found["popularity"]
