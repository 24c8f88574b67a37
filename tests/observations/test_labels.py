"""`LabelIndex`: one rule for every place where two sets of labels meet."""

import numpy as np
import pytest
from helpers import make_observations

import rankwise as rw
from rankwise.losses import Square
from rankwise.observations import LabelIndex, Observations

KINDS = {
    "text": np.array(["ann", "bob", "cy", "dora"]),
    "unsorted": np.array([7, -3, 2**40, 0]),
    "dates": np.array(["2020-01-02", "2020-01-01", "2021-01-01", "1999-01-01"], "M8[D]"),
    "objects": np.array(["z", "a", "m", "b"], object),
}


def index(labels, size=None, axis="row"):
    return LabelIndex(labels, len(labels) if size is None else size, axis)


@pytest.mark.parametrize("labels", KINDS.values(), ids=KINDS)
def test_align_gives_the_place_of_each_label_in_any_order(labels):
    for order in ([3, 1, 0, 2], [2], [0, 1, 2, 3], []):
        assert index(labels).align(index(labels[order])).tolist() == list(order)


def test_unknown_labels_are_named_or_skipped():
    own, other = index(KINDS["text"]), index(np.array(["cy", "eve", "ann"]))
    assert own.align(other, unknown="skip").tolist() == [2, -1, 0]
    with pytest.raises(rw.DataError, match=r"^1 row labels are unknown to the model \(first: 'eve'\); add them\.$"):
        own.align(other, remedy="add them")
    assert index(np.array([], str)).positions(["ann"]).tolist() == [-1]


def test_without_labels_numbers_are_matched():
    assert index(None, 3).align(index(None, 2)).tolist() == [0, 1]
    assert index(None, 2).align(index(None, 3), unknown="skip").tolist() == [0, 1, -1]
    with pytest.raises(rw.DataError, match=r"^The row 2 is outside the model, which has 2 rows"):
        index(None, 2).align(index(None, 3))


def test_labels_against_numbers():
    """Labels of the other are numbers; numbers of the other are refused where there are labels, unless by position."""
    assert index(None, 4).align(index(np.array([2, 0]))).tolist() == [2, 0]
    with pytest.raises(rw.DataError, match="have labels and those of the entries do not; label them too"):
        index(KINDS["text"]).align(index(None, 4))
    assert index(KINDS["text"]).align(index(None, 4), by_position=True).tolist() == [0, 1, 2, 3]
    assert index(None, 4).align(index(np.array([9, 8])), by_position=True).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("labels", "read", "known"),
    [
        (np.array([5, 7]), np.array(["7", "007", "7.0", "five", "5"]), [1, -1, -1, -1, 0]),
        (np.array([5, 7]), np.array([7.0, 5.5]), [1, -1]),
        (np.array(["5", "x"]), np.array([5, 6]), [0, -1]),
        (KINDS["dates"], np.array(["2020-01-01", "today"]), [1, -1]),
        (None, np.array(["1", "9", "01"]), [1, -1, -1]),
    ],
)
def test_labels_read_as_text_are_cast_to_the_type_of_the_index(labels, read, known):
    own = index(labels, 2 if labels is None else None)
    assert own.positions(own.cast(read)).tolist() == known


def shuffled(observations, rng):
    """The same entries with the rows and columns in another order, under the same labels."""
    rows, cols = (rng.permutation(size) for size in observations.shape)
    labels = observations.row_labels[np.argsort(rows)], observations.col_labels[np.argsort(cols)]
    places = rows[observations.rows], cols[observations.cols]
    return Observations.from_coo(*places, observations.targets, observations.shape, labels=labels)


@pytest.fixture(scope="module")
def parts():
    rng = np.random.default_rng(3)
    data = make_observations(Square(), rng, (12, 9), 0.9)
    labels = np.array([f"r{k}" for k in range(12)]), np.array([f"c{k}" for k in range(9)])
    data = Observations.from_coo(data.rows, data.cols, data.targets, data.shape, labels=labels)
    return *rw.selection.split_entries(data, 0.3, 0), rng


def test_held_out_entries_are_scored_by_label(parts):
    train, held_out, rng = parts
    problem = {"objective": rw.Problem(train, "square"), "method": "glrl-none", "rank": 2}
    wanted, *others = (
        rw.solve(**problem, held_out=entries).history.column("score")
        for entries in (held_out, shuffled(held_out, rng), Observations.from_labels(*triples(held_out)))
    )
    for found in others:
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def triples(observations):
    rows, cols = observations.row_labels[observations.rows], observations.col_labels[observations.cols]
    return rows, cols, observations.targets


def test_residuals_do_not_depend_on_the_order_of_rows_and_columns(parts):
    train, held_out, rng = parts
    model = rw.solve(rw.Problem(train, "square"), "glrl-none", rank=2).model
    wanted, found = (model.residuals(entries, 5) for entries in (held_out, shuffled(held_out, rng)))
    for one, other in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_aligned_entries_of_the_same_rows_and_columns_are_not_copied(parts):
    train, held_out, rng = parts
    assert held_out.aligned(train) is held_out
    turned = shuffled(held_out, rng).aligned(train)
    for name in ("indptr", "indices", "targets", "row_labels"):
        np.testing.assert_array_equal(getattr(turned, name), getattr(held_out, name))


STORED = {
    "booleans": [False, True],
    "integers": [3, 7],
    "large integers": np.array([1, 2**64 - 1], np.uint64),
    "floats": [0.5, np.inf],
    "half floats": np.array([1, 2], np.float16),
    "long floats": np.array([1, 2], np.longdouble),
    "text": ["ann", "zoë"],
    "text of variable length": np.array(["ann", "zoë"], np.dtypes.StringDType()),
    "text as objects": np.array(["ann", "zoë"], object),
    "bytes": [b"a", b"b"],
    "times": np.array(["2024-01-01", "2024-06-01"], "M8[D]"),
    "durations": np.array([1, 2], "m8[s]"),
}


@pytest.mark.parametrize("labels", STORED.values(), ids=STORED)
def test_labels_that_a_fit_accepts_are_found_again_in_its_file(labels, tmp_path):
    """Types that a file cannot hold are refused before the fit, see test_refusals.py."""
    seen = Observations.from_labels(labels, [0, 1], [1.0, 2.0])
    ones = np.ones((2, 1))
    model = rw.LowRankModel(path=np.ones((1, 1)), U=ones, V=ones, row_labels=seen.row_labels)
    model.save(tmp_path / "m.rankwise")
    loaded = rw.load(tmp_path / "m.rankwise")
    assert np.array_equal(loaded.row_labels, np.asarray(labels))
    assert loaded.row_index.find(labels).tolist() == [0, 1]
