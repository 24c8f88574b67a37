"""Scores agree with their definitions and name what they reject; splits cover every entry exactly once."""

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats

from rankwise import DataError, Observations, Problem, SettingError, ShardFolder, selection, solve, write_shards
from rankwise.losses import Hinge, Poisson, Square
from rankwise.selection import paths
from rankwise.solvers import FactorSweeps

NO_METRICS = (
    *("Choice", "Score", "best_methods", "choose_rank", "choose_ridge", "fitting_scores", "folds", "split_entries"),
    *("RankingScores", "most_popular", "ranking_scores", "split_rows", "split_within_rows"),
)
METRICS = {name: getattr(selection, name) for name in selection.__all__ if name not in NO_METRICS}
SIGN_METRICS = ("auc", "macro_f1", "sign_accuracy")


def signs_and_predictions(seed, n=500, grid=None):
    """Random signs and predictions that know something of them; on a grid there are ties and zeros."""
    rng = np.random.default_rng(seed)
    signs = np.where(rng.random(n) < 0.7, 1.0, -1.0)
    predicted = signs + 1.5 * rng.standard_normal(n)
    return signs, predicted if grid is None else np.round(predicted * grid) / grid


def auc_by_pairs(signs, predicted):
    """Fraction of pairs of a +1 and a -1 that are in order, ties counted half."""
    differences = predicted[signs > 0][:, None] - predicted[signs < 0]
    return np.mean((np.sign(differences) + 1) / 2)


def macro_f1_by_counts(signs, predicted):
    """Mean over both signs of 2 TP / (2 TP + FP + FN)."""
    counts = [
        [np.sum(true & claimed), np.sum(true ^ claimed)]
        for true, claimed in ((signs > 0, predicted > 0), (signs < 0, predicted < 0))
    ]
    return np.mean([2 * both / (2 * both + wrong) for both, wrong in counts])


ORACLES = {
    "auc": auc_by_pairs,
    "macro_f1": macro_f1_by_counts,
    "mean_absolute_error": lambda targets, predicted: np.abs(predicted - targets).mean(),
    "root_mean_squared_error": lambda targets, predicted: np.sqrt(((predicted - targets) ** 2).mean()),
    "sign_accuracy": lambda signs, predicted: np.mean(np.sign(predicted) == signs),
}


def observed(n_rows=30, n_cols=20, seed=0, weighted=False):
    rng = np.random.default_rng(seed)
    rows, cols = np.nonzero(rng.random((n_rows, n_cols)) < 0.4)
    weights = rng.random(rows.size) + 0.5 if weighted else None
    labels = (np.arange(n_rows) * 10, [f"item {j}" for j in range(n_cols)])
    values = np.arange(rows.size, dtype=float)  # a different value each, so that entries can be told apart
    return Observations.from_coo(rows, cols, values, (n_rows, n_cols), weights=weights, labels=labels)


def entries(observations):
    weights = np.ones(observations.n_observed) if observations.weights is None else observations.weights
    return list(zip(observations.rows, observations.cols, observations.targets, weights, strict=True))


def test_every_metric_has_an_oracle():
    assert sorted(ORACLES) == sorted(METRICS)


@pytest.mark.parametrize("grid", [None, 2])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", METRICS)
def test_metrics_agree_with_their_definitions(name, seed, grid):
    targets, predicted = signs_and_predictions(seed, grid=grid)
    assert METRICS[name](targets, predicted) == pytest.approx(ORACLES[name](targets, predicted), rel=1e-12)


@pytest.mark.parametrize("name", METRICS)
def test_perfect_predictions_have_the_best_score(name):
    targets, _ = signs_and_predictions(0)
    assert METRICS[name](targets, targets) == (0.0 if name.endswith("error") else 1.0)


def test_a_prediction_of_zero_counts_as_wrong():
    assert selection.sign_accuracy([1, -1, 1, -1], [0.0, 0.0, 2.0, -2.0]) == 0.5
    assert selection.macro_f1([1, -1], [0.0, 0.0]) == 0.0


def test_auc_sees_only_the_order():
    targets, predicted = signs_and_predictions(1)
    assert selection.auc(targets, np.exp(predicted)) == selection.auc(targets, predicted)
    assert selection.auc(targets, -predicted) == pytest.approx(1 - selection.auc(targets, predicted))
    assert selection.auc(targets, np.zeros_like(targets)) == 0.5


@pytest.mark.parametrize("name", [name for name in METRICS if name.endswith("error")])
def test_clipped_errors_are_those_of_clipped_predictions(name):
    rng = np.random.default_rng(0)
    targets, predicted = rng.integers(1, 6, 400).astype(float), rng.normal(3, 3, 400)
    clipped = METRICS[name](targets, predicted, clip=(1, 5))
    assert clipped == pytest.approx(ORACLES[name](targets, np.minimum(np.maximum(predicted, 1), 5)))
    assert clipped < METRICS[name](targets, predicted) - 0.1
    for wrong in ((5, 1), (1, 1), (1, np.nan), 5, "ab", (1, 2, 3)):
        with pytest.raises(SettingError, match="clip"):
            METRICS[name](targets, predicted, clip=wrong)


def bold_by_hand(scores, larger_is_better):
    """Compute the paired t statistic by hand, and compare it with a quantile of Student's distribution."""
    sign, n = 1 if larger_is_better else -1, len(next(iter(scores.values())))
    best = max(scores, key=lambda name: sign * np.mean(scores[name]))
    differences = {name: scores[best] - scores[name] for name in scores if name != best}
    t = {name: abs(d.mean()) / (d.std(ddof=1) / np.sqrt(n)) for name, d in differences.items()}
    return {best} | {name for name in t if t[name] <= scipy.stats.t(n - 1).ppf(0.975)}


@pytest.mark.parametrize("larger_is_better", [True, False])
@pytest.mark.parametrize("n_folds", [2, 5, 10])
def test_the_best_methods_are_those_of_a_paired_t_test(n_folds, larger_is_better):
    sizes = set()
    for seed in range(40):
        rng = np.random.default_rng(seed)
        folds = rng.normal(0.9, 0.05, n_folds)  # shared by the methods, so pairing matters
        scores = {f"method {k}": folds + 0.01 * k + rng.normal(0, 0.01, n_folds) for k in range(6)}
        expected = bold_by_hand(scores, larger_is_better)
        assert selection.best_methods(scores, larger_is_better=larger_is_better) == expected
        sizes.add(len(expected))
    assert len(sizes) > 2


def test_equal_scores_tie_and_a_constant_gap_does_not():
    scores = {"a": [0.9, 0.8, 0.7], "b": [0.9, 0.8, 0.7], "c": [0.8, 0.7, 0.6], "d": [0.9, 0.8, 0.7 * (1 + 3e-16)]}
    assert selection.best_methods(scores, larger_is_better=True) == {"a", "b", "d"}
    assert selection.best_methods(scores, larger_is_better=False) == {"c"}


def test_with_one_fold_the_best_stands_alone_beside_its_equals():
    scores = {"a": [0.9], "b": [0.9], "c": [0.89999]}
    assert selection.best_methods(scores, larger_is_better=True) == {"a", "b"}


@pytest.mark.parametrize("unfinished", [None, [], [0.99, np.nan, 0.99], [np.nan] * 3, [np.inf, 0.9, 0.9]])
def test_methods_that_did_not_finish_are_left_out(unfinished):
    scores = {"a": [0.9, 0.8, 0.7], "late": unfinished}
    assert selection.best_methods(scores, larger_is_better=True) == {"a"}
    assert selection.best_methods({"late": unfinished}, larger_is_better=True) == set()


def test_a_higher_confidence_leaves_more_methods():
    rng = np.random.default_rng(1)
    scores = {f"method {k}": 0.01 * k + rng.normal(0, 0.02, 8) for k in range(8)}
    found = [selection.best_methods(scores, larger_is_better=True, confidence=c) for c in (0.5, 0.95, 0.9999)]
    assert found[0] < found[1] < found[2]


def test_a_paired_test_refuses_what_is_not_paired():
    for other in ([0.9, 0.8], [[0.9, 0.8, 0.7]], 0.9):
        with pytest.raises(DataError, match="one score per fold"):
            selection.best_methods({"a": [0.9, 0.8, 0.7], "b": other}, larger_is_better=True)
    for confidence in (0.0, 1.0, 95, "high"):
        with pytest.raises(SettingError, match="confidence"):
            selection.best_methods({"a": [0.9]}, larger_is_better=True, confidence=confidence)


def test_errors_are_neither_clipped_nor_rounded_unless_asked():
    assert selection.mean_absolute_error([5.0], [7.25]) == 2.25
    assert selection.root_mean_squared_error([5.0, 5.0], [8.0, 9.0]) == pytest.approx(np.sqrt(12.5))


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize(
    "targets, predicted", [([], []), ([1.0], [1.0, 1.0]), ([[1.0]], [[1.0]]), ([1.0, -1.0], [0.0, np.nan])]
)
def test_metrics_refuse_what_they_cannot_score(name, targets, predicted):
    with pytest.raises(DataError):
        METRICS[name](targets, predicted)


@pytest.mark.parametrize("name", SIGN_METRICS)
def test_sign_metrics_take_0_and_1_and_refuse_these_beside_minus_one(name):
    assert METRICS[name]([1, 0, 1, 0], [0.1, 0.2, 0.3, -1]) == METRICS[name]([1, -1, 1, -1], [0.1, 0.2, 0.3, -1])
    with pytest.raises(DataError, match=r"of -1 and \+1, or of 0 and 1; 1 of 3 .*0 at entry 1"):
        METRICS[name]([1, 0, -1], [0.1, 0.2, 0.3])


def test_auc_needs_both_signs():
    with pytest.raises(DataError, match="give both"):
        selection.auc([1, 1], [0.1, 0.2])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("held_out", [0.001, 0.1, 0.5, 0.999])
def test_a_split_covers_every_entry_once(held_out, weighted):
    whole = observed(weighted=weighted)
    train, rest = selection.split_entries(whole, held_out, 3)
    assert sorted(entries(train) + entries(rest)) == sorted(entries(whole))
    assert rest.n_observed == min(max(round(held_out * whole.n_observed), 1), whole.n_observed - 1)


@pytest.mark.parametrize("n_folds", [2, 3, 7])
def test_folds_hold_out_every_entry_once(n_folds):
    whole = observed()
    pairs = list(selection.folds(whole, n_folds, 1))
    assert len(pairs) == n_folds
    assert sorted(entry for _, held_out in pairs for entry in entries(held_out)) == sorted(entries(whole))
    sizes = [held_out.n_observed for _, held_out in pairs]
    assert max(sizes) - min(sizes) <= 1
    for train, held_out in pairs:
        assert sorted(entries(train) + entries(held_out)) == sorted(entries(whole))


def test_matrices_are_split_as_their_entries_are_and_what_has_no_entries_here_is_refused(tmp_path):
    whole = observed()
    matrix = sp.csr_array((whole.targets, (whole.rows, whole.cols)), shape=whole.shape)
    for one, other in zip(selection.split_entries(matrix), selection.split_entries(whole), strict=True):
        assert entries(one) == entries(other)
    for one, other in zip(next(selection.folds(matrix, 3)), next(selection.folds(whole, 3)), strict=True):
        assert entries(one) == entries(other)
    with pytest.raises(DataError, match="Cannot read observations from int"):
        selection.split_entries(7)
    write_shards([(whole.rows, whole.cols, whole.targets)], tmp_path / "shards")
    with pytest.raises(SettingError, match="Splitting requires the entries in memory"):
        selection.split_entries(ShardFolder(tmp_path / "shards"))


def test_parts_keep_shape_and_labels():
    whole = observed()
    for part in (*selection.split_entries(whole), *next(selection.folds(whole, 2))):
        assert part.shape == whole.shape
        assert np.array_equal(part.row_labels, whole.row_labels)
        assert np.array_equal(part.col_labels, whole.col_labels)


def test_the_same_seed_gives_the_same_parts_and_another_seed_others():
    first, again, other = (selection.split_entries(observed(), 0.2, seed)[1] for seed in (5, 5, 6))
    assert entries(first) == entries(again) != entries(other)
    first, again, other = (next(selection.folds(observed(), 3, seed))[1] for seed in (5, 5, 6))
    assert entries(first) == entries(again) != entries(other)


@pytest.mark.parametrize("held_out", [0, 1, -0.1, 1.5, True, "a tenth", np.nan])
def test_a_split_refuses_a_share_that_is_none(held_out):
    with pytest.raises(SettingError, match="held_out"):
        selection.split_entries(observed(), held_out)


@pytest.mark.parametrize("n_folds", [1, 0, 10**6, 2.0, True])
def test_folds_refuse_a_number_that_cannot_be(n_folds):
    with pytest.raises(SettingError, match="n_folds"):
        selection.folds(observed(), n_folds)


@pytest.mark.parametrize("seed", [-1, 0.5, None, True])
def test_a_seed_must_be_a_number(seed):
    with pytest.raises(SettingError, match="random_state"):
        selection.split_entries(observed(), 0.1, seed)


# Ranks and ridges.


def planted(noise=0.3, seed=5, shape=(60, 40)):
    rng = np.random.default_rng(seed)
    truth = sum(np.outer(rng.normal(size=shape[0]), rng.normal(size=shape[1])) for _ in range(2))
    seen = rng.random(shape) < 0.6
    return Observations.from_dense(np.where(seen, truth + noise * rng.normal(size=shape), np.nan))


def square(observations):
    return Problem(observations, Square(), dtype=np.float64)


@pytest.mark.parametrize("method", ["glrl", "eglrl"])
def test_the_chosen_rank_is_the_smallest_within_a_standard_error_of_the_least_validation_loss(method):
    data = planted()
    choice = selection.choose_rank(data, square, method, longest=30, loss=Square(), random_state=3)
    train, held_out = selection.split_entries(data, paths.HELD_OUT, 3)
    model = solve(square(train), method, rank=int(choice.settings[-1]), random_state=3).model
    for rank, score, deviation in zip(choice.settings, choice.scores, choice.deviations, strict=True):
        losses = 0.5 * (model.at(held_out.rows, held_out.cols, int(rank)) - held_out.targets) ** 2
        assert score == pytest.approx(losses.mean(), rel=1e-9)
        assert deviation == pytest.approx(losses.std() / np.sqrt(losses.size), rel=1e-9)
    least = choice.scores.argmin()
    within = choice.scores <= choice.scores[least] + choice.deviations[least]
    assert choice.best == choice.settings[within].min() and isinstance(choice.best, int)
    assert choice.settings.tolist() == list(range(1, choice.settings.size + 1))
    assert choice.settings.size - 1 - least <= paths.PATIENCE
    assert choice.to_dict()["scores"] == choice.scores.tolist()


def test_a_planted_rank_is_chosen():
    assert selection.choose_rank(planted(), square, "glrl", longest=30, loss=Square()).best in (2, 3)


def test_the_chosen_ridge_is_the_best_of_those_tried_and_the_path_ends_where_the_loss_rises():
    data, ridges = planted(noise=1.0), [64.0, 16.0, 4.0, 1.0, 0.25, 1 / 16, 1 / 64]
    choice = selection.choose_ridge(
        data, square, lambda ridge: FactorSweeps(ridge=ridge), ridges=ridges, rank=4, loss=Square()
    )
    train, held_out = selection.split_entries(data, paths.HELD_OUT, 0)
    assert choice.settings.tolist() == ridges[: choice.settings.size]
    for ridge, score in zip(choice.settings, choice.scores, strict=True):
        model = solve(square(train), FactorSweeps(ridge=float(ridge)), rank=4).model
        losses = 0.5 * (model.at(held_out.rows, held_out.cols) - held_out.targets) ** 2
        assert score == pytest.approx(losses.mean(), rel=1e-9)
    assert choice.best == choice.settings[choice.scores.argmin()] < 64.0
    assert np.all(np.diff(choice.scores[:-1]) <= 0)


def test_the_scores_of_a_loss_are_of_its_kind_and_name_their_unit():
    signs, predicted = signs_and_predictions(4)
    found = {score.name: score for score in selection.fitting_scores(Hinge(), signs, predicted)}
    assert list(found) == ["accuracy", "auc", "macro_f1", "mean_loss"]
    assert found["mean_loss"].value == pytest.approx(np.maximum(1 - signs * predicted, 0).mean())
    assert "auc" not in {score.name for score in selection.fitting_scores(Hinge(), np.ones(3), np.ones(3))}
    counts = np.array([0.0, 2.0, 3.0])
    rmse, mae, mean = selection.fitting_scores(Poisson(), counts, np.log([1.0, 2.0, 5.0]))  # logs of rates
    assert (rmse.value, mae.value) == (pytest.approx(np.sqrt(5 / 3)), pytest.approx(1.0))
    assert mean.value == pytest.approx(np.mean([1.0, 2.0, 5.0] - counts * np.log([1.0, 2.0, 5.0])))
    assert [score.name for score in selection.fitting_scores(None, counts, counts)] == ["rmse", "mae"]
    assert all(score.unit and score.title for score in (rmse, mae, mean, *found.values()))
