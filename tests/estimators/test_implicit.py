"""`ImplicitFactorization` finds planted structure, takes clicks in every form, and explains its scores."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import rankwise as rw
from rankwise import DataError, ImplicitFactorization, SettingError
from rankwise.model.neighbours import Neighbours
from rankwise.selection import ranking_scores, split_within_rows
from rankwise.solvers import ScoringRule
from rankwise.solvers.scoring_rules import ClickParts, size_of

RULE = ScoringRule(0.5, 0.4, 0.2, 4, 1.0, "counts")
SWEPT = ScoringRule(rank=4, neighbours="ridge", absent=0.1)


def planted(seed=0, n_rows=120, n_cols=40, n_groups=4, per_row=8):
    """Pairs of rows and columns in groups: a row clicks mostly on the columns of its group."""
    rng = np.random.default_rng(seed)
    pairs = []
    for i in range(n_rows):
        chance = np.where(np.arange(n_cols) % n_groups == i % n_groups, 8.0, 1.0)
        pairs += [(i, j) for j in rng.choice(n_cols, per_row, replace=False, p=chance / chance.sum())]
    return np.array(pairs)


@pytest.fixture(scope="module")
def fitted():
    return ImplicitFactorization(rule=RULE).fit(planted())


def test_it_recommends_the_columns_of_a_row_s_group(fitted):
    labels, _ = fitted.recommend(np.arange(120), 2)
    assert np.mean(labels % 4 == (np.arange(120) % 4)[:, None]) > 0.8


def test_clicks_in_every_form_give_the_same_model():
    pairs = np.concatenate((planted(1), planted(1)[:30]))  # thirty are clicked twice
    counts = sp.coo_array((np.ones(len(pairs)), pairs.T)).tocsr()
    counts.sum_duplicates()
    frame = pd.DataFrame(pairs, columns=["user", "film"])
    long = pd.DataFrame({"user": counts.tocoo().row, "film": counts.tocoo().col, "n": counts.tocoo().data})
    models = [
        ImplicitFactorization(rule=RULE).fit(pairs),
        ImplicitFactorization(rule=RULE).fit(counts),
        ImplicitFactorization(rule=RULE).fit(counts.toarray()),
        ImplicitFactorization(rule=RULE).fit(frame),
        ImplicitFactorization(rule=RULE).fit(frame.assign(day=0), row="user", col="film"),
        ImplicitFactorization(rule=RULE).fit(long, row="user", col="film", value="n"),
        ImplicitFactorization(rule=RULE).fit(frame.assign(n=1), row="user", col="film", value="n"),
        ImplicitFactorization(rule=RULE).fit(pd.DataFrame(counts.toarray())),
    ]
    for other in models[1:]:
        assert np.array_equal(other.model_.to_dense(), models[0].model_.to_dense())


def test_counts_are_weighed_as_asked():
    pairs = np.concatenate((planted(2), np.repeat(planted(2)[:99], 2, axis=0)))  # 99 are clicked three times
    logs, linear = (ImplicitFactorization(rule=RULE, counts=how).fit(pairs) for how in ("log", "linear"))
    assert np.array_equal(np.unique(logs.observations_.targets), [1, 3])
    twice = np.concatenate((planted(2), planted(2)[:99]))  # log2(1 + 3) = 2
    again = ImplicitFactorization(rule=RULE, counts="linear").fit(twice).model_
    np.testing.assert_allclose(logs.model_.to_dense(), again.to_dense(), atol=1e-5)
    assert np.abs(linear.model_.to_dense() - again.to_dense()).max() > 1e-3
    same = ImplicitFactorization(rule=RULE).fit(logs.observations_).model_
    assert np.array_equal(same.to_dense(), logs.model_.to_dense())
    ignored = ImplicitFactorization(rule=RULE, counts="ignore").fit(pairs).model_
    assert np.array_equal(ignored.to_dense(), ImplicitFactorization(rule=RULE).fit(planted(2)).model_.to_dense())


def test_folding_in_a_training_row_gives_that_row_back(fitted):
    pairs = planted()
    new = fitted.fold_in(pairs[pairs[:, 0] < 5])
    np.testing.assert_allclose(new.to_dense(), fitted.model_.to_dense()[:5], atol=1e-5)
    assert np.array_equal(new.recommend(3, 5)[0], fitted.recommend(3, 5)[0])


def test_contributions_of_the_row_s_columns_sum_to_the_score(fitted):
    label, score = (part[0] for part in fitted.recommend(7, 1))
    labels, added = fitted.explain(7, label, 40)
    assert set(labels) == set(planted()[planted()[:, 0] == 7, 1])
    assert added.sum() == pytest.approx(score, rel=1e-5) and (np.diff(added) <= 0).all()


@pytest.mark.parametrize("rule", [RULE, SWEPT], ids=["svd", "sweeps"])
def test_contributions_count_repeated_clicks(rule, tmp_path):
    pairs = np.concatenate((planted(), np.repeat(planted()[::3], 4, axis=0)))
    model = ImplicitFactorization(rule=rule).fit(pairs)
    model.save(tmp_path / "counts.rankwise")
    new = model.fold_in(pairs[pairs[:, 0] == 7])
    for one in (model, rw.load(tmp_path / "counts.rankwise"), new):
        label, score = (part[0] for part in one.recommend(7, 1))
        assert one.explain(7, label, 40)[1].sum() == pytest.approx(score, rel=1e-4)


def test_a_saved_estimator_recommends_and_fits_again(fitted, tmp_path):
    fitted.save(tmp_path / "clicks.rankwise")
    loaded = rw.load(tmp_path / "clicks.rankwise")
    assert np.array_equal(loaded.recommend([1, 2], 5)[0], fitted.recommend([1, 2], 5)[0])
    assert loaded.rule == loaded.rule_ == RULE and np.array_equal(
        loaded.fit(planted()).model_.U, fitted.model_.U
    )  # the settings are complete
    fitted.save(tmp_path / "without.rankwise", seen=False)
    low_rank = rw.load(tmp_path / "without.rankwise").recommend(1, 5, exclude_seen=False)[1]
    assert np.all(low_rank <= fitted.recommend(1, 5, exclude_seen=False)[1])  # neighbours add to it


def test_the_choice_is_the_best_of_what_was_tried_on_held_out_entries():
    pairs = planted(3, n_rows=200)
    model = ImplicitFactorization(rank=4).fit(pairs)
    means = [choice.mean for choice in model.choices_]
    assert model.rule_ == model.choices_[0].rule and means == sorted(means, reverse=True)
    assert {choice.rule.neighbours for choice in model.choices_} == {"none", "counts", "ridge"}
    train, test = split_within_rows(model.observations_, 0.2)
    again = ImplicitFactorization(rule=model.rule_).fit(train)
    assert ranking_scores(again.model_, test).recall == pytest.approx(model.choices_[0].recall, abs=0.02)


def test_with_times_the_latest_entries_decide():
    """Early clicks follow the groups and late ones nothing: rules that are scored on late clicks alone score less."""
    rng, pairs = np.random.default_rng(0), planted(4, per_row=12)
    time = np.tile(np.arange(12.0), 120)
    late = time >= 9
    pairs[late, 1] = 40 + rng.integers(0, 160, late.sum())
    timed, random = (ImplicitFactorization(rank=4).fit(pairs, time=stamps) for stamps in (time, None))
    frame = pd.DataFrame({"user": pairs[:, 0], "film": pairs[:, 1], "day": time})
    named = ImplicitFactorization(rank=4).fit(frame, row="user", col="film", time="day")
    assert named.choices_ == timed.choices_
    assert timed.choices_[0].ndcg < 0.5 * random.choices_[0].ndcg
    assert timed.model_.facts["chosen_on"] == "the latest entries of each row"


@pytest.mark.parametrize(
    "X, options, message",
    [
        (sp.csr_array(np.diag([1.0, -1.0, 2.0])), {}, "must be positive; 1 of 3"),
        (planted(), {"time": [1.0]}, "`time` must have a time for each of the 960 pairs"),
        (planted(), {"time": np.append(np.arange(959.0), np.nan)}, "Some times are missing"),
        (planted(), {"time": [{}] * 960}, "`time` must be numbers or dates"),
        (np.array([[1, 2], [3, 4]]), {}, "Every row has a single click"),
        (np.array([[1.0, np.inf, 2.0]]), {}, "1 of 3 values are not finite"),
        ([["a", "b", "c"]], {}, "An array of real numbers"),
        (pd.DataFrame({"u": [1], "f": [2]}), {"row": "user", "col": "f"}, "The frame has no column 'user'"),
    ],
)
def test_bad_clicks_are_refused(X, options, message):
    with pytest.raises(DataError, match=message):
        ImplicitFactorization().fit(X, **options)


@pytest.mark.parametrize("settings", [{"rank": 0}, {"rank": "best"}, {"rule": "ials"}, {"counts": "square"}])
def test_bad_settings_are_refused(settings):
    with pytest.raises(SettingError, match=next(iter(settings))):
        ImplicitFactorization(**settings).fit(planted())


@pytest.mark.parametrize(
    "settings",
    [
        {"neighbours": "some"},
        {"rank": 0},
        {"ridge": -1.0},
        {"low_rank": np.nan},
        {"row_power": 2.0},
        {"col_power": "1"},
    ],
)
def test_bad_rules_are_refused(settings):
    with pytest.raises(SettingError, match=f"`{next(iter(settings))}` must be"):
        ScoringRule(**settings)


@pytest.mark.parametrize("neighbours", ["none", "ridge"])
def test_weighted_sweeps_fold_in_explain_and_save(neighbours, tmp_path):
    pairs = planted()
    model = ImplicitFactorization(rule=replace(SWEPT, neighbours=neighbours)).fit(pairs)
    own = set(pairs[pairs[:, 0] == 7, 1])
    new = model.fold_in(pairs[pairs[:, 0] < 9])
    np.testing.assert_allclose(new.to_dense(), model.model_.to_dense()[:9], atol=1e-5)
    label, score = (part[0] for part in model.recommend(7, 1))
    labels, added = model.explain(7, label, 40)
    assert set(labels) == own and added.sum() == pytest.approx(score, rel=1e-4)
    model.save(tmp_path / "clicks.rankwise")
    loaded = rw.load(tmp_path / "clicks.rankwise")
    assert loaded.rule_ == model.rule_
    assert np.array_equal(loaded.recommend([1, 2], 5)[0], model.recommend([1, 2], 5)[0])
    np.testing.assert_allclose(loaded.fold_in(pairs[pairs[:, 0] < 9]).to_dense(), new.to_dense(), atol=1e-6)


def test_weighted_sweeps_minimize_the_objective_of_ials():
    """No other factors of a row have a lower weighted squared error plus ridge, given the columns."""
    clicks = ImplicitFactorization(rule=replace(SWEPT, neighbours="none")).fit(planted())
    model, seen = clicks.model_, clicks.observations_.to_sparse().toarray() > 0
    F = model.learned.cols.means.astype(float)
    weights = seen[3] + SWEPT.absent
    ridge = SWEPT.sweep_ridge * weights.sum()
    best = np.linalg.solve((F.T * weights) @ F + ridge * np.eye(F.shape[1]), F.T @ seen[3])
    np.testing.assert_allclose(model.to_dense()[3], F @ best, atol=1e-4)


def test_columns_cannot_be_folded_in(fitted):
    with pytest.raises(SettingError, match="Columns cannot be folded into a model of clicks"):
        rw.fold_in(fitted.model_, np.ones((120, 1)), axis="columns")
    with pytest.raises(SettingError, match="takes `row`, `col` and `value`, not `axis`"):
        fitted.fold_in(planted(), axis="columns")
    with pytest.raises(SettingError, match="has no transpose"):
        fitted.model_.transposed()
    with pytest.raises(DataError, match="None of the 1 clicks is on a column of the model"):
        fitted.fold_in([["ann", 999]])


@pytest.mark.parametrize("base", [RULE, SWEPT], ids=["svd", "sweeps"])
@pytest.mark.parametrize("neighbours", ["none", "counts", "ridge"])
def test_rules_are_chosen_by_the_scores_that_models_have(neighbours, base):
    clicks = ImplicitFactorization(rule=RULE).fit(np.concatenate((planted(5), planted(5)[:99]))).observations_
    parts, rule = ClickParts(clicks), replace(base, neighbours=neighbours)
    rows, near, size = np.arange(clicks.shape[0]), 0.0, 1.0
    ((_, low_rank),) = parts.low_rank_scores(rule, rows, (rule.rank,))
    if neighbours != "none":
        near = parts.near_scores(rule, rows)
        size = size_of(near) / size_of(low_rank)
    dense = parts.model(rule).to_dense()
    unit = size if base is SWEPT else 1.0  # neighbours are then in units of the low-rank scores
    np.testing.assert_allclose(near + size * low_rank, unit * dense, atol=1e-4)


def test_scores_are_no_predictions_of_counts(fitted):
    with pytest.raises(SettingError, match="there is nothing to calibrate"):
        fitted.calibrate(planted())
    with pytest.raises(SettingError, match="models of clicks have none"):
        fitted.residuals()


def test_rows_of_two_clicks_are_enough_for_a_choice():
    pairs = [(i, j) for i in range(40) for j in (i % 2, 2 + i % 4)]
    assert len(ImplicitFactorization().fit(pairs).choices_) > 10


def test_an_unknown_column_scores_zero_beside_known_ones_and_alone(fitted):
    both = fitted.predict_entries([1, 1], [2, 999], unknown="offset")
    alone = fitted.predict_entries([1], [999], unknown="offset")
    assert both[1] == alone[0] == 0.0 and both[0] == fitted.predict_entries([1], [2])[0]


def test_each_column_keeps_its_heaviest_sources():
    dense = np.random.default_rng(0).normal(size=(9, 9))
    kept = Neighbours.of(dense, 3).matrix.toarray()
    np.fill_diagonal(dense, 0.0)
    least = np.sort(np.abs(dense), axis=0)[-3]
    np.testing.assert_allclose(kept, np.where(np.abs(dense) >= least, dense, 0.0), rtol=1e-6)


def pairs_of_columns(seed):
    """Columns that come in pairs: 100 components of equal size, where the low-rank term has 8."""
    rng = np.random.default_rng(seed)
    pairs = np.concatenate([rng.permutation(100)[:4] for _ in range(300)])
    return np.column_stack((np.repeat(np.arange(300), 8), np.stack((2 * pairs, 2 * pairs + 1), axis=1).ravel()))


def latent_interests(seed):
    """Five clicks per row, by four latent factors: most columns that a row would like share no row with its own."""
    rng = np.random.default_rng(seed)
    U, V = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (rng.normal(size=(n, 4)) for n in (600, 300)))
    best = np.argsort(-(6 * U @ V.T + rng.gumbel(size=(600, 300))), axis=1)[:, :5]
    return np.column_stack((np.repeat(np.arange(600), 5), best.ravel()))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))])
@pytest.mark.parametrize(
    ("clicks", "right", "wrong"),
    [(pairs_of_columns, "neighbours", "low rank"), (latent_interests, "low rank", "neighbours")],
)
def test_the_part_that_is_right_is_found(clicks, right, wrong, seed):
    model = rw.ImplicitFactorization(8, random_state=seed).fit(clicks(seed))
    assert model.parts_[right].mean > 1.05 * model.parts_[wrong].mean
    assert model.rule_.part in (right, "both")
