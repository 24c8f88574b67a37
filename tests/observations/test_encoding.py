"""Laws of tables of features and their encoder."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from rankwise import DataError
from rankwise.observations import FeatureEncoder, FeatureTable, LabelIndex

FILMS = {
    "film": ["a", "b", "c"],
    "year": [1990.0, None, 2000.0],
    "genres": ["Crime|Drama", "Drama", None],
    "studio": ["x", "y", "x"],
}
WANTED = [[-1, 1, 1, 1, 0], [0, 0, 1, 0, 1], [1, 0, 0, 1, 0]]


def tables():
    pandas, polars = pd.DataFrame(FILMS), pl.DataFrame(FILMS)
    lists = polars.with_columns(pl.col("genres").str.split("|"))
    sets = pandas.assign(genres=[{"Crime", "Drama"}, ("Drama",), None]).set_index("film")
    categories = pandas.assign(studio=pandas.studio.astype("category"))
    return {
        "pandas": pandas,
        "polars": polars,
        "lists": lists,
        "index": sets,
        "category": categories,
        "arrow": polars.to_arrow(),
    }


@pytest.mark.parametrize("table", tables().values(), ids=tables())
def test_frames_of_any_library_are_encoded_alike(table):
    read = FeatureTable.read(table, "film")
    encoder = FeatureEncoder.of(read)
    features, n_unseen = encoder.encode(read)
    assert read.labels.tolist() == ["a", "b", "c"] and n_unseen == 0
    assert encoder.names == ["year", "genres=Crime", "genres=Drama", "studio=x", "studio=y"]
    assert features.groups.tolist() == [0, 1, 1, 2, 2]
    np.testing.assert_allclose(features.matrix, WANTED)


def test_an_encoder_is_plain_json_and_ignores_and_counts_unseen_categories():
    read = FeatureTable.read(pd.DataFrame(FILMS), "film")
    encoder = FeatureEncoder.from_plain(json.loads(json.dumps(FeatureEncoder.of(read).to_plain())))
    assert encoder == FeatureEncoder.of(read)
    new = pd.DataFrame({"studio": ["z", "y"], "genres": ["Drama|Noir", None], "year": [1990, 1990], "more": [1, 2]})
    features, n_unseen = encoder.encode(FeatureTable.read(new))
    assert n_unseen == 2
    np.testing.assert_allclose(features.matrix, [[-1, 0, 1, 0, 0], [-1, 0, 0, 0, 1]])


def test_numbers_are_standardized_and_constant_ones_say_nothing():
    matrix = np.random.default_rng(0).normal(5, 3, (50, 3))
    matrix[:, 2] = 7.0
    read = FeatureTable.read(matrix)
    features, _ = FeatureEncoder.of(read).encode(read)
    np.testing.assert_allclose(features.matrix[:, :2].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(features.matrix[:, :2].std(axis=0), 1)
    assert not features.matrix[:, 2].any() and features.n_groups == 3


def test_a_sparse_matrix_is_one_group_and_stays_as_it_is():
    matrix = sp.random_array((40, 300), density=0.05, rng=np.random.default_rng(0))
    read = FeatureTable.read(matrix)
    features, _ = FeatureEncoder.of(read).encode(read)
    assert features.is_sparse and features.n_groups == 1
    np.testing.assert_array_equal(features.matrix.toarray(), matrix.toarray())


def test_times_become_days():
    dates = pd.DataFrame({"released": pd.to_datetime(["2000-01-01", None, "2000-01-03"])})
    values = FeatureTable.read(dates).columns["released"]
    assert values[2] - values[0] == 2 and np.isnan(values[1])


def test_labels_are_found_in_the_column_that_has_them():
    known = LabelIndex(np.array(["a", "b", "c"]), 3, "column")
    assert FeatureTable.read(pl.DataFrame(FILMS), None, known).labels.tolist() == ["a", "b", "c"]
    with pytest.raises(DataError, match="no column has those of the entries"):
        FeatureTable.read(pl.DataFrame(FILMS).drop("film"), None, known)


def test_features_of_other_kinds_are_refused():
    encoder = FeatureEncoder.of(FeatureTable.read(pd.DataFrame(FILMS), "film"))
    frame = pd.DataFrame(FILMS)
    with pytest.raises(DataError, match="lack the column 'year'"):
        encoder.encode(FeatureTable.read(frame.drop(columns="year"), "film"))
    with pytest.raises(DataError, match="'year' must be a number as in the fit"):
        encoder.encode(FeatureTable.read(frame.assign(year="old"), "film"))
    with pytest.raises(DataError, match="'studio' must be a category as in the fit"):
        encoder.encode(FeatureTable.read(frame.assign(studio=1.0), "film"))
    with pytest.raises(DataError, match="must have 3 columns"):
        FeatureEncoder.of(FeatureTable.read(sp.eye_array(3))).encode(FeatureTable.read(sp.eye_array(4)))
    with pytest.raises(ValueError, match="inconsistent"):
        FeatureEncoder.from_plain([{"name": "a", "kind": "code", "categories": []}])
