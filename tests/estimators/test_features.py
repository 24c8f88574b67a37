"""Laws of fits with features of rows and columns."""

import numpy as np
import pandas as pd
import pytest
from feature_cases import planted_features

import rankwise as rw
from rankwise import DataError, MatrixCompletion, SettingError

SETTINGS = {"loss": "square", "rank": 3, "max_iter": 12}


def people(data):
    """The planted features as a frame with text and a label column; labels are not in the order of the rows."""
    matrix = data.features["rows"].matrix
    kinds = np.array(["w", "x", "y", "z"])[matrix[:, :4].argmax(axis=1)]
    return pd.DataFrame({"who": names(len(matrix)), "kind": kinds, "age": 40 + 9 * matrix[:, 4], "noise": matrix[:, 5]})


def names(n):
    return np.array([f"p{(7 * i) % n:03d}" for i in range(n)])


def entries(data):
    seen = data.seen
    return pd.DataFrame({"who": names(seen.shape[0])[seen.rows], "what": seen.cols, "value": seen.targets})


def fitted(data, **options):
    columns = {"row": "who", "col": "what", "value": "value"}
    return MatrixCompletion(**SETTINGS | options).fit(entries(data), **columns, row_features=people(data))


def test_rows_that_only_the_features_have_are_rows_of_the_model_and_are_predicted():
    data = planted_features(cold=40)
    model, cold = fitted(data), names(300)[:40]
    rows, cols = np.repeat(np.arange(40), 120), np.tile(np.arange(120), 40)
    predicted, deviations = model.predict_entries(cold[rows], cols, return_std=True)
    truth = data.truth[rows, cols]
    assert np.sqrt(np.mean((predicted - truth) ** 2)) < 0.6 * truth.std()
    np.testing.assert_array_equal(model.predict(np.column_stack((cold[rows].astype(object), cols))), predicted)
    warm = model.predict_entries(names(300)[40:], np.zeros(260, int), return_std=True)[1]
    assert np.median(deviations) > 2 * np.median(warm)
    columns, scores = model.recommend(cold[0], 5, risk=0)
    np.testing.assert_allclose(scores, model.predict_entries([cold[0]] * 5, columns), rtol=1e-5)


def test_intervals_are_wider_for_rows_without_entries():
    data = planted_features(cold=40, density=0.2)
    model = fitted(data, calibration=0.2)
    low, high = model.predict_interval(names(300), np.zeros(300, int))
    assert np.median((high - low)[:40]) > 1.2 * np.median((high - low)[40:])


def test_features_match_rows_by_label_whatever_their_order():
    data = planted_features()
    columns = {"row": "who", "col": "what", "value": "value"}
    table = people(data)
    fits = [
        MatrixCompletion(**SETTINGS).fit(entries(data), **columns, row_features=given).U_
        for given in (table, table.iloc[::-1].reset_index(drop=True), table.set_index("who"))
    ]
    np.testing.assert_allclose(fits[1], fits[0], atol=1e-4)  # categories are counted in another order
    np.testing.assert_array_equal(fits[2], fits[0])


def test_arrays_match_rows_by_number_and_may_have_more():
    data = planted_features()
    dense = np.full(data.seen.shape, np.nan)
    dense[data.seen.rows, data.seen.cols] = data.seen.targets
    matrix = data.features["rows"].matrix
    model = MatrixCompletion(**SETTINGS).fit(dense[:290], row_features=matrix)
    assert model.model_.shape == (300, 120)
    same = MatrixCompletion(**SETTINGS).fit(dense[:290].T, col_features=matrix)
    assert same.model_.shape == (120, 300) and len(same.effects("columns")) == 6
    with pytest.raises(DataError, match="give the features labels"):
        MatrixCompletion(**SETTINGS).fit(pd.DataFrame(dense, index=names(300)), row_features=matrix[:200])


@pytest.mark.parametrize("axis", ["rows", "columns"])
def test_fold_in_of_a_training_row_with_its_features_gives_it_back(axis, tmp_path):
    data = planted_features(density=0.3)
    frame, table = entries(data), people(data)
    if axis == "rows":
        columns, given = {"row": "who", "col": "what", "value": "value"}, {"row_features": table}
    else:
        columns, given = {"row": "what", "col": "who", "value": "value"}, {"col_features": table}
    model = MatrixCompletion(**SETTINGS | {"max_iter": 40, "dtype": "float64"}).fit(frame, **columns, **given)
    model.save(tmp_path / "m.rankwise")
    chosen = names(300)[:5]
    folded = rw.load(tmp_path / "m.rankwise").fold_in(
        frame[frame.who.isin(chosen)], features=table[table.who.isin(chosen)], axis=axis, **columns
    )
    pairs = np.repeat(chosen, 120), np.tile(np.arange(120), 5)
    pairs = pairs if axis == "rows" else pairs[::-1]
    np.testing.assert_allclose(folded.predict_entries(*pairs), model.predict_entries(*pairs), atol=0.05)


def test_fold_in_of_features_alone_is_the_regression():
    data = planted_features(cold=40)
    model = fitted(data)
    new = people(data)[:40].assign(who=[f"new{i}" for i in range(40)])
    folded = model.fold_in(features=new, row="who")
    rows, cols = np.repeat(np.arange(40), 120), np.tile(np.arange(120), 40)
    predicted, deviations = folded.predict_entries(new.who.to_numpy()[rows], cols, return_std=True)
    np.testing.assert_allclose(predicted, model.predict_entries(names(300)[:40][rows], cols), atol=1e-4)
    assert np.isfinite(deviations).all() and deviations.min() > 0


def test_effects_name_the_features_and_find_the_planted_ones():
    effects = fitted(planted_features()).effects("rows")
    assert effects.feature.tolist() == ["kind=w", "kind=x", "kind=y", "kind=z", "age", "noise"]
    assert effects.ridge[5] > 20 * effects.ridge[:5].max()
    weights = effects.set_index("feature").offset
    assert abs(weights["noise"]) < 0.1 * abs(weights["age"]) and (effects.offset_std >= 0).all()


def test_a_warm_start_keeps_the_encoder():
    data = planted_features()
    model = fitted(data, warm_start=True)
    table = people(data)
    columns = {"row": "who", "col": "what", "value": "value"}
    before = model.model_.features
    model.fit(entries(data), **columns, row_features=table.assign(kind=table.kind.replace("w", "new")))
    assert model.model_.features == before


def test_misuse_is_refused_in_a_sentence():
    data = planted_features()
    table = people(data)
    columns = {"row": "who", "col": "what", "value": "value"}
    with pytest.raises(SettingError, match='require method="bayes" or "factors"'):
        MatrixCompletion(method="eglrl", rank=2).fit(entries(data), **columns, row_features=table)
    with pytest.raises(DataError, match="the labels differ"):
        MatrixCompletion(**SETTINGS).fit(
            entries(data), **columns, row_features=table.assign(who=np.arange(300).astype(str))
        )
    plain = MatrixCompletion(**SETTINGS).fit(entries(data), **columns)
    with pytest.raises(SettingError, match="fitted without features"):
        plain.fold_in(features=table, row="who")
    with pytest.raises(SettingError, match="have no features"):
        plain.effects("rows")
    with pytest.raises(DataError, match="got neither"):
        plain.fold_in()
