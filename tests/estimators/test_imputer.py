"""`LowRankImputer`: tables of mixed columns, their types, new rows, bad input, scikit-learn's conventions."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import rankwise as rw
from rankwise import LowRankImputer
from rankwise.datasets import mixed_table
from rankwise.datasets.mixed import GRADES
from rankwise.estimators.frames import read
from rankwise.estimators.tables import chosen_kinds
from rankwise.solvers.folding import RowFolder

QUICK = {"max_iter": 4, "n_jobs": 1}
TYPES = {
    "real": "float64",
    "boolean": "boolean",
    "ordered": pd.CategoricalDtype(list(GRADES), ordered=True),
    "category": "category",
    "count": "Int64",
}


def frames(n_rows=60, n_columns=10, seed=0, missing=0.3):
    """A complete pandas frame of mixed columns, and the same with cells taken away."""
    table = mixed_table(n_rows, n_columns, missing=missing, random_state=seed)
    full = pd.DataFrame(table.columns).astype({name: TYPES[kind] for name, kind in table.kinds.items()})
    full.index = [f"row {i}" for i in range(n_rows)]
    return full, full.mask(table.hidden), table


@pytest.fixture(scope="module")
def fitted():
    _, seen, _ = frames()
    return LowRankImputer(**QUICK).fit(seen)


@pytest.mark.slow
def test_scikit_learns_checks_pass_without_an_exception():
    results = check_estimator(LowRankImputer(max_iter=2), on_skip=None)
    assert {result["status"] for result in results} <= {"passed", "skipped"}
    assert len(results) > 30


def test_a_pandas_frame_comes_back_with_its_types_index_and_observed_cells(fitted):
    _, seen, _ = frames()
    filled = fitted.transform(seen)
    assert filled.dtypes.equals(seen.dtypes) and filled.index.equals(seen.index)
    assert list(filled.columns) == list(seen.columns) and not filled.isna().any(axis=None)
    for name in seen:
        there = seen[name].notna()
        assert (filled[name][there] == seen[name][there]).all()
    assert seen.isna().any(axis=None)  # the input is left alone
    assert fitted.table_.kinds[:5] == ("huber", "logistic", "proportional-odds", "category", "poisson")


def test_a_polars_frame_is_filled_with_the_same_values_as_a_pandas_frame(fitted):
    _, seen, table = frames()
    grades = [pl.col(name).cast(pl.Enum(list(GRADES))) for name, kind in table.kinds.items() if kind == "ordered"]
    theirs = pl.from_pandas(seen.reset_index(drop=True)).with_columns(grades)
    filled = clone(fitted).fit_transform(theirs)
    assert isinstance(filled, pl.DataFrame) and filled.schema == theirs.schema
    ours = fitted.transform(seen)
    for name in seen:
        if table.kinds[name] == "real":
            np.testing.assert_allclose(filled[name].to_numpy(), ours[name], rtol=1e-9)
        else:
            assert filled[name].to_list() == ours[name].tolist()


def test_fitting_and_filling_at_once_is_filling_after_fitting(fitted):
    _, seen, _ = frames()
    pd.testing.assert_frame_equal(clone(fitted).fit_transform(seen), fitted.transform(seen))


def test_each_row_is_filled_for_itself(fitted):
    _, seen, _ = frames()
    some = seen.iloc[[3, 11, 4]]
    pd.testing.assert_frame_equal(fitted.transform(some), fitted.transform(seen).iloc[[3, 11, 4]])


def test_a_row_of_which_nothing_is_known_gets_the_best_constants():
    _, seen, table = frames(200, 10, missing=0.1)
    imputer = LowRankImputer(**QUICK).fit(seen)
    nothing = seen.iloc[:2].mask(np.ones((2, 10), bool))
    filled = imputer.transform(nothing).iloc[0]
    for name, kind in table.kinds.items():
        present = seen[name].dropna()
        if kind in ("boolean", "category"):
            assert filled[name] == present.mode()[0]
        elif kind == "ordered":
            codes = np.sort(present.cat.codes)
            assert abs(GRADES.index(filled[name]) - codes[codes.size // 2]) <= 1
        else:
            assert abs(filled[name] - present.mean()) < 0.4 * present.std()


@pytest.mark.slow
def test_on_a_planted_table_every_kind_is_filled_better_than_by_constants_and_nearly_as_well_as_can_be():
    full, seen, table = frames(200, 30)
    filled = LowRankImputer().fit_transform(seen)
    shares = {"real": [], "boolean": [], "ordered": [], "category": [], "count": []}
    for j, (name, kind) in enumerate(table.kinds.items()):
        cells, present = table.hidden[:, j], seen[name].dropna()
        truth, guess, best = full[name][cells], filled[name][cells], pd.Series(table.truth[name])[cells]
        if kind in ("real", "count"):
            constant = present.mean()
            errors = [
                np.sqrt(np.mean((np.asarray(each, float) - truth.to_numpy(float)) ** 2))
                for each in (guess, constant, best)
            ]
        elif kind == "ordered":
            level = {grade: k for k, grade in enumerate(GRADES)}
            middle = sorted(present, key=level.get)[present.size // 2]
            errors = [
                np.mean([abs(level[a] - level[b]) for a, b in zip(each, truth, strict=True)])
                for each in (guess, [middle] * truth.size, best)
            ]
        else:
            errors = [np.mean(np.asarray(each) != np.asarray(truth)) for each in (guess, present.mode()[0], best)]
        shares[kind].append(errors)
    for kind, found in shares.items():
        ours, constant, best = np.mean(found, axis=0)
        assert ours < constant - 0.6 * (constant - best), kind


def test_columns_that_follow_from_each_other_fill_each_other():
    x = np.linspace(-3, 3, 60)
    X = np.column_stack((x, 10 - 2 * x, 0.5 * x + 1))
    seen = X.copy()
    seen[::4, 0], seen[1::4, 1], seen[2::4, 2] = np.nan, np.nan, np.nan
    filled = LowRankImputer(n_jobs=1).fit_transform(seen)
    assert np.abs((filled - X) / X.std(axis=0)).max() < 0.1  # the best constant is off by up to 1.7


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_keep_their_number_type(dtype):
    X = np.random.default_rng(0).normal(size=(20, 3)).astype(dtype)
    X[::5, 1] = np.nan
    filled = LowRankImputer(**QUICK).fit_transform(X)
    assert filled.dtype == dtype and np.isfinite(filled).all()
    np.testing.assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])


def test_an_array_of_objects_may_hold_text_numbers_and_booleans():
    rng = np.random.default_rng(0)
    number = rng.normal(size=40)
    X = np.column_stack((number.astype(object), np.where(number > 0, "high", "low").astype(object), number > 0.5))
    X = X.astype(object)
    X[::7, 0], X[1::7, 1], X[2::7, 2] = np.nan, None, None
    imputer = LowRankImputer(**QUICK).fit(X)
    filled = imputer.transform(X)
    assert imputer.table_.kinds == ("huber", "category", "logistic")
    assert set(filled[:, 1]) == {"high", "low"} and set(filled[:, 2]) == {True, False}
    assert all(isinstance(each, float) for each in filled[:, 0])


def test_text_that_reads_as_a_number_stays_text():
    X = np.array([["01", "a"], ["02", "b"], ["01", None], [None, "b"], ["02", "a"]], object)
    imputer = LowRankImputer(**QUICK).fit(X)
    assert imputer.table_.kinds == ("category", "category")
    assert imputer.transform(X)[3, 0] in ("01", "02") and imputer.transform(X)[0, 0] == "01"


def test_integers_are_counts_where_these_are_likelier_than_numbers():
    rng = np.random.default_rng(0)
    columns = {
        "poisson": rng.poisson(3.0, 400),
        "rates that vary": rng.poisson(np.exp(2 + 0.7 * rng.normal(size=400))),
        "years": np.rint(rng.normal(50, 5, 400)),
        "stars": rng.integers(1, 6, 400),
        "balance": np.rint(rng.normal(1, 3, 400)),
        "yes": rng.integers(0, 2, 400),
        "rare": rng.poisson(0.02, 400) + 2 * (np.arange(400) == 7),
    }
    frame = pd.DataFrame(columns).astype("Int64").mask(rng.random((400, 7)) < 0.1)
    assert chosen_kinds(read(frame), "auto") == ["poisson", "poisson", "huber", "huber", "huber", "logistic", "poisson"]


def test_kinds_may_be_chosen_for_some_or_all_columns():
    _, seen, _ = frames()
    kinds = {"real_0": rw.losses.Quantile(0.9), "ordered_0": "ordinal", "count_0": "huber", "real_1": "square"}
    imputer = LowRankImputer(kinds, **QUICK).fit(seen)
    assert imputer.table_.kinds[:6] == ("quantile", "logistic", "ordinal", "category", "huber", "square")
    filled = imputer.transform(seen)
    assert filled.dtypes.equals(seen.dtypes)
    everywhere = LowRankImputer(["huber", "l1"], **QUICK).fit(seen[["real_0", "count_0"]])
    assert everywhere.table_.kinds == ("huber", "l1")


def test_a_high_quantile_fills_with_higher_numbers():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 2))
    X[::2, 1] = np.nan
    low, high = (
        LowRankImputer({1: rw.losses.Quantile(q)}, **QUICK).fit_transform(X)[::2, 1].mean() for q in (0.1, 0.9)
    )
    assert low < np.nanquantile(X[:, 1], 0.3) and high > np.nanquantile(X[:, 1], 0.7)


def test_set_output_chooses_the_container():
    _, seen, _ = frames()
    numbers = seen[["real_0", "real_1"]]
    as_frame = LowRankImputer(**QUICK).set_output(transform="pandas").fit_transform(numbers.to_numpy())
    assert list(as_frame.columns) == ["x0", "x1"]
    typed = LowRankImputer(**QUICK).set_output(transform="pandas").fit_transform(seen)
    assert typed.dtypes.equals(seen.dtypes)


def test_it_survives_cloning_pickling_and_pipelines(fitted):
    _, seen, _ = frames()
    again = pickle.loads(pickle.dumps(fitted))
    pd.testing.assert_frame_equal(again.transform(seen), fitted.transform(seen))
    numbers = seen[["real_0", "real_1"]]
    pipe = make_pipeline(LowRankImputer(**QUICK), LinearRegression()).fit(numbers, np.arange(len(numbers)))
    assert np.isfinite(pipe.predict(numbers)).all()


def test_threads_do_not_change_a_bit():
    _, seen, _ = frames()
    one, two = (LowRankImputer(max_iter=4, n_jobs=n).fit_transform(seen) for n in (1, 2))
    pd.testing.assert_frame_equal(one, two, check_exact=True)


def test_a_fit_ends_when_its_sweeps_change_little():
    _, seen, _ = frames()
    steps = [LowRankImputer(n_jobs=1, max_iter=6, tol=tol).fit(seen).n_iter_ for tol in (0.0, 0.5)]
    assert steps[0] == 6 > steps[1]


def test_a_column_with_one_value_is_filled_with_it():
    X = np.column_stack((np.arange(6.0), [5.0, 5, np.nan, 5, 5, np.nan]))
    np.testing.assert_array_equal(LowRankImputer(**QUICK).fit_transform(X)[:, 1], 5.0)


def test_a_table_of_constants_needs_no_model():
    frame = pd.DataFrame({"a": ["x", None, "x"], "b": pd.array([True, None, True], "boolean")})
    imputer = LowRankImputer().fit(frame)
    assert imputer.fits_ == []
    assert imputer.transform(frame).to_numpy().tolist() == [["x", True]] * 3


def test_empty_columns_are_left_out_or_kept_as_scikit_learns_imputers_do():
    frame = pd.DataFrame({"a": [1.0, 2.0, np.nan, 4.0], "empty": [np.nan] * 4, "b": [2.0, np.nan, 6.0, 8.0]})
    left_out = LowRankImputer(**QUICK).fit(frame)
    assert list(left_out.transform(frame).columns) == ["a", "b"] == list(left_out.get_feature_names_out())
    kept = LowRankImputer(keep_empty_features=True, **QUICK).fit(frame)
    assert list(kept.get_feature_names_out()) == ["a", "empty", "b"]
    assert (kept.transform(frame)["empty"] == 0).all()


COLOURS = pd.DataFrame({"colour": ["red", "blue", "red", None], "size": [1.0, 2.0, 3.0, 4.0]})
BAD = {
    "infinite": (
        {"colour": ["red", "red"], "size": [1.0, np.inf]},
        "Input X contains infinity: column 'size' is inf in row 1",
    ),
    "text for numbers": ({"colour": ["red", "red"], "size": ["big", "small"]}, "holds 'big', but `fit` saw numbers"),
    "other columns": ({"size": [1.0], "colour": ["red"]}, "feature names should match"),
    "fewer columns": ({"colour": ["red"]}, "feature names should match"),
}


@pytest.mark.parametrize(("columns", "message"), BAD.values(), ids=BAD)
def test_rows_that_do_not_fit_the_table_get_one_sentence(columns, message):
    imputer = LowRankImputer(**QUICK).fit(COLOURS)
    with pytest.raises(rw.DataError, match=message):
        imputer.transform(pd.DataFrame(columns))


def test_categories_that_fit_did_not_see_are_kept_and_count_as_missing(fitted):
    _, seen, _ = frames()
    new = seen.iloc[:6].astype({"category_0": object})
    known = fitted.transform(new.assign(category_0=new["category_0"].mask([True] * 3 + [False] * 3)))
    new.loc[new.index[:3], "category_0"] = "violet"
    filled = fitted.transform(new)
    assert filled["category_0"].tolist()[:3] == ["violet"] * 3
    pd.testing.assert_frame_equal(filled.drop(columns="category_0"), known.drop(columns="category_0"))
    message = r"Column 'category_0' has 3 cells with a value that `fit` did not see \(first: 'violet' in row 0\)"
    with pytest.raises(rw.DataError, match=message):
        pickle.loads(pickle.dumps(fitted)).set_params(handle_unknown="error").transform(new)


def skewed(n_rows=300, seed=0):
    """Six columns that are mostly zero and otherwise heavy-tailed, and two normal ones in proportion; some hidden."""
    rng = np.random.default_rng(seed)
    X = np.exp(1.5 * rng.standard_normal((n_rows, 8))) * (rng.random((n_rows, 8)) < 0.35)
    X[:, 6:] = np.outer(rng.standard_normal(n_rows), [1.0, 2.0]) + 0.1 * rng.standard_normal((n_rows, 2))
    hidden = rng.random(X.shape) < 0.2
    return X, np.where(hidden, np.nan, X), hidden


def test_skewed_columns_are_filled_from_their_range_and_no_worse_than_by_their_mean():
    X, seen, hidden = skewed()
    filled = LowRankImputer(n_jobs=1, max_iter=8).fit_transform(seen)
    assert (filled >= np.nanmin(seen, axis=0)).all() and (filled <= np.nanmax(seen, axis=0)).all()

    def errors(guess):
        return np.sqrt([np.mean((guess - X)[hidden[:, j], j] ** 2) for j in range(8)])

    best = errors(np.broadcast_to(np.nanmean(seen, axis=0), X.shape))
    assert (errors(filled) <= 1.02 * best).all() and (errors(filled) < 0.7 * best)[6:].all()


def test_fills_may_leave_the_observed_range_if_asked_to():
    x = np.linspace(-3, 3, 60)
    X = np.column_stack((x, 10 - 2 * x, 0.5 * x + 1))
    seen = X.copy()
    seen[55:, 0] = np.nan  # the largest ones
    free, bounded = (LowRankImputer(bounds=each, n_jobs=1).fit_transform(seen)[-1, 0] for each in (None, "observed"))
    assert bounded <= x[54] < free
    with pytest.raises(rw.SettingError, match="`bounds` must be 'observed' or None, got 'all'"):
        LowRankImputer(bounds="all").fit(seen)
    with pytest.raises(rw.SettingError, match="`handle_unknown` must be 'ignore' or 'error', got 'drop'"):
        LowRankImputer(handle_unknown="drop").fit(seen)


def test_a_row_is_left_alone_once_its_filled_values_no_longer_change(monkeypatch, fitted):
    _, seen, _ = frames()
    rounds, improve = [], RowFolder._improve
    monkeypatch.setattr(RowFolder, "_improve", lambda *args: rounds.append(args[-1]) or improve(*args))
    targets = fitted.table_.targets(read(seen))
    quick = fitted._predict(targets, len(seen))
    assert max(rounds) < 40
    monkeypatch.setattr("rankwise.estimators.imputer.FOLD_TOL", 1e-8)
    assert np.abs(fitted._predict(targets, len(seen)) - quick).max() < 1e-2 * quick.std()


WRONG = {
    "infinite": ({"a": [1.0, -np.inf]}, "auto", rw.DataError, "column 'a' is -inf in row 1"),
    "dates": (
        {"a": pd.to_datetime(["2020-01-01", None])},
        "auto",
        rw.DataError,
        "is of type Datetime.*no loss takes",
    ),
    "text without order": ({"a": ["x", "y"]}, {"a": "ordinal"}, rw.DataError, "no order that is known"),
    "text as a number": ({"a": ["x", "y"]}, "huber", rw.DataError, "holds 'x', but the kind 'huber' needs numbers"),
    "negative count": ({"a": [1.0, -2.0]}, "poisson", rw.DataError, "is -2 in row 1, but counts cannot be negative"),
    "three for two": (
        {"a": [1.0, 2.0, 3.0]},
        "logistic",
        rw.DataError,
        "has 3 values, but the kind 'logistic' needs two",
    ),
    "unknown kind": ({"a": [1.0, 2.0]}, ["cubic"], rw.SettingError, "Column 'a' cannot have the kind 'cubic'"),
    "unknown column": ({"a": [1.0, 2.0]}, {"b": "huber"}, rw.SettingError, "names 'b', which the table does not have"),
    "too many kinds": ({"a": [1.0, 2.0]}, ["huber"] * 2, rw.SettingError, "has 2 kinds, but the table has 1 columns"),
    "no kinds": ({"a": [1.0, 2.0]}, 3, rw.SettingError, "The 'columns' parameter of LowRankImputer must be"),
    "names that mix types": (
        {"a": [1.0, 2.0], 1: [1.0, 2.0]},
        "auto",
        rw.DataError,
        "all input features have string names",
    ),
    "lists": ({"a": [[1], [2]]}, "auto", rw.DataError, r"holds values that cannot be compared \(first: \[1\]\)"),
    "all missing": ({"a": [np.nan, np.nan]}, "auto", rw.DataError, "No cell of the table has a value"),
    "nothing": ({"a": []}, "auto", rw.DataError, r"0 sample\(s\)"),
}


@pytest.mark.parametrize(("columns", "kinds", "error", "message"), WRONG.values(), ids=WRONG)
def test_tables_that_cannot_be_learned_get_one_sentence(columns, kinds, error, message):
    with pytest.raises(error, match=message):
        LowRankImputer(kinds, **QUICK).fit(pd.DataFrame(columns))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"a": [1.0, 2.0]}), "Data of type pyarrow.Table"),
        (pl.LazyFrame({"a": [1.0, 2.0]}), "Data of type polars.LazyFrame"),
    ],
)
def test_frames_that_cannot_be_written_to_get_one_sentence(table, message):
    with pytest.raises(rw.DataError, match=f"{message} cannot be filled; make it a data frame first"):
        rw.LowRankImputer().fit(table)


def test_it_must_be_fitted_first_and_with_a_sound_rank():
    with pytest.raises(rw.NotFittedError, match="call `fit` first"):
        LowRankImputer().transform(COLOURS)
    with pytest.raises(rw.SettingError, match="`rank` must be a positive integer or 'auto', got 0"):
        LowRankImputer(rank=0).fit(COLOURS)


def test_the_truth_of_the_planted_table_is_what_its_factors_say():
    table = mixed_table(4000, 5, random_state=3)
    for name, kind in table.kinds.items():
        values, truth = table.columns[name], table.truth[name]
        if kind in ("real", "count"):
            assert np.mean(values - truth) == pytest.approx(0, abs=4 * np.std(values - truth) / np.sqrt(values.size))
            assert np.std(values - truth) < 0.8 * np.std(values)
        else:
            assert np.mean(values == truth) > np.max(np.unique(values, return_counts=True)[1]) / values.size
    assert table.hidden.mean() == pytest.approx(0.3, abs=0.01)


@pytest.mark.parametrize("settings", [{"n_rows": 0}, {"rank": 1.5}, {"missing": 1.0}])
def test_the_planted_table_refuses_nonsense(settings):
    with pytest.raises(rw.SettingError, match=f"`{next(iter(settings))}` must be"):
        mixed_table(**settings)
