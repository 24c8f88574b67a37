"""Data frames of every package are the matrix they describe, and labels come back as they came in."""

import decimal
import subprocess
import sys
from datetime import date, datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rankwise as rw
from rankwise import DataError, MatrixCompletion, Observations, SettingError
from rankwise.observations.labels import LabelIndex
from rankwise.observations.pairs import as_pairs

MAKERS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "lazy": lambda d: pl.DataFrame(d).lazy(), "pyarrow": pa.table}
every_package = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
NAMES = {"row": "user", "col": "item", "value": "rating"}


@pytest.fixture
def entries():
    """Distinct pairs in random order, with labels of text and of numbers."""
    rng = np.random.default_rng(5)
    rows, cols = np.nonzero(rng.random((9, 7)) < 0.6)
    order = rng.permutation(rows.size)
    users, items = np.array(["bob", "Ann", "éva", "zoe", "al", "b", "c2", "c10", "Z"]), np.arange(7) * 10 - 20
    values = rng.integers(1, 6, rows.size).astype(float)
    return {"user": users[rows[order]], "item": items[cols[order]], "rating": values}


def same(one, other):
    parts = ("indptr", "indices", "targets", "row_labels", "col_labels")
    return all(np.array_equal(getattr(one, part), getattr(other, part)) for part in parts) and one.shape == other.shape


@every_package
def test_a_long_frame_is_its_labels_and_values(entries, make):
    found = Observations.from_frame(make(entries), **NAMES)
    assert same(found, Observations.from_labels(*entries.values()))
    assert same(found, Observations.from_any(make(entries), **NAMES))


COLUMNS = {
    "pandas category": lambda c: pd.DataFrame({"user": pd.Categorical(c["user"]), **_rest(c)}),
    "pandas object": lambda c: pd.DataFrame({"user": c["user"].astype(object), **_rest(c)}),
    "pandas nullable": lambda c: pd.DataFrame(
        {"user": c["user"], "item": pd.array(c["item"], "Int64"), "rating": pd.array(c["rating"], "Float64")}
    ),
    "pandas arrow": lambda c: pa.table(c).to_pandas(types_mapper=pd.ArrowDtype),
    "pandas chunks": lambda c: pd.concat([pd.DataFrame(c)[:3], pd.DataFrame(c)[3:]]),
    "polars category": lambda c: pl.DataFrame(c).with_columns(pl.col("user").cast(pl.Categorical)),
    "polars small": lambda c: pl.DataFrame(c).with_columns(
        pl.col("item").cast(pl.Int8), pl.col("rating").cast(pl.Float32)
    ),
    "arrow dictionary": lambda c: pa.table({"user": pa.array(c["user"]).dictionary_encode(), **_rest(c)}),
    "arrow chunks": lambda c: pa.concat_tables([pa.table(c).slice(0, 3), pa.table(c).slice(3)]),
    "arrow chunks of dictionaries": lambda c: pa.table(
        {
            "user": pa.chunked_array([pa.array(part).dictionary_encode() for part in (c["user"][:9], c["user"][9:])]),
            **_rest(c),
        }
    ),
    "arrow batch": lambda c: pa.table(c).combine_chunks().to_batches()[0],
    "decimals": lambda c: pa.table(
        {"user": c["user"], "item": c["item"], "rating": [decimal.Decimal(str(value)) for value in c["rating"]]}
    ),
}


def _rest(columns):
    return {name: columns[name] for name in ("item", "rating")}


@pytest.mark.parametrize("make", COLUMNS.values(), ids=COLUMNS)
def test_columns_of_every_type_give_the_same_entries(entries, make):
    assert same(Observations.from_frame(make(entries), **NAMES), Observations.from_labels(*entries.values()))


def test_weights_come_from_their_column(entries):
    weights = np.arange(1.0, entries["rating"].size + 1)
    found = Observations.from_frame(pd.DataFrame(entries | {"w": weights}), weight="w", **NAMES)
    wanted = Observations.from_labels(*entries.values(), weights=weights)
    assert same(found, wanted) and np.array_equal(found.weights, wanted.weights)


def test_repeated_pairs_are_refused_or_merged(entries):
    frame = pd.concat([pd.DataFrame(entries)] * 2)
    with pytest.raises(DataError, match="given more than once"):
        MatrixCompletion().fit(frame, **NAMES)
    merged = Observations.from_frame(frame, duplicates="mean", **NAMES)
    assert same(merged, Observations.from_labels(*entries.values()))


@pytest.mark.parametrize(
    "labels",
    [np.array(["x", "y"]), np.array([3, 1]), np.array([0.5, -0.5]), np.array(["2020-01-02", "2020-01-01"], "M8[ns]")],
    ids=lambda labels: labels.dtype.name,
)
@every_package
def test_labels_come_back_as_they_came_in(labels, make):
    frame = make({"user": labels[[0, 0, 1, 1]], "item": labels[[0, 1, 0, 1]], "rating": [1.0, 2.0, 3.0, 5.0]})
    fitted = MatrixCompletion("square", rank=1).fit(frame, **NAMES)
    best, _ = fitted.recommend(labels[0], 2, exclude_seen=False)
    assert best.dtype.kind == labels.dtype.kind and set(best.tolist()) == set(labels.astype(best.dtype).tolist())
    both = fitted.predict_entries(labels, labels)
    assert np.array_equal(both[::-1], fitted.predict_entries(labels[::-1], labels[::-1]))


@pytest.mark.parametrize("unit", ["D", "s", "us", "ns"])
@pytest.mark.parametrize("as_one", [pd.Timestamp, np.datetime64, datetime.fromisoformat, date.fromisoformat])
def test_a_time_is_the_same_label_in_every_package_and_unit(unit, as_one):
    days = np.array(["2020-01-02", "2020-01-01", "2020-01-03"], f"M8[{unit}]")
    found = LabelIndex(days, 3, "row").positions([as_one(f"2020-01-0{day}") for day in (1, 3, 4)])
    assert found.tolist() == [1, 2, -1]
    assert LabelIndex(days, 3, "row").positions(as_one("2020-01-02")).tolist() == [0]


def test_times_within_a_day_and_a_microsecond_are_told_apart():
    midnight = np.array(["2020-01-01"], "M8[D]")
    assert LabelIndex(midnight, 1, "row").positions([datetime(2020, 1, 1, 12), datetime(2020, 1, 1)]).tolist() == [
        -1,
        0,
    ]
    late = pd.Timestamp("2020-01-01") + pd.Timedelta(1, "ns")
    exact = LabelIndex(midnight.astype("M8[ns]"), 1, "row")
    assert exact.positions([late, pd.Timestamp("2020-01-01")]).tolist() == [-1, 0]
    hours = np.array([1, 2], "m8[h]").astype("m8[ns]")
    asked = [pd.Timedelta("2h"), timedelta(hours=1), timedelta(hours=3)]
    assert LabelIndex(hours, 2, "row").positions(asked).tolist() == [1, 0, -1]


@every_package
def test_times_with_a_zone_are_labels_too(make):
    when = pd.to_datetime(["2020-01-01", "2021-01-01"]).tz_localize("UTC")
    frame = make({"user": list(when), "item": ["a", "b"], "rating": [1.0, 2.0]})
    found = Observations.from_frame(frame, **NAMES)
    assert found.row_labels.tolist() == list(when)


WIDE = np.array([[1.0, np.nan, 3.0], [np.nan, 2.0, np.nan], [4.0, 5.0, 0.5], [1.0, 1.5, np.nan]])


@pytest.mark.parametrize(
    ("frame", "labels"),
    [
        (pd.DataFrame(WIDE, index=list("wxyz"), columns=["c", "a", "b"]), (list("wxyz"), ["c", "a", "b"])),
        (pd.DataFrame(WIDE, index=[4, 3, 2, 1], columns=[30, 10, 20]), ([4, 3, 2, 1], [30, 10, 20])),
        (pd.DataFrame(WIDE), (None, None)),
        (pd.DataFrame(WIDE, columns=list("cab"), dtype="Float64"), (None, ["c", "a", "b"])),
        (pl.DataFrame(WIDE, schema=["c", "a", "b"]), (None, ["c", "a", "b"])),
        (pl.DataFrame(WIDE, schema=["c", "a", "b"]).fill_nan(None).lazy(), (None, ["c", "a", "b"])),
        (pa.table(dict(zip("cab", WIDE.T, strict=True))), (None, ["c", "a", "b"])),
    ],
    ids=["text", "numbers", "default", "nullable", "polars", "lazy", "pyarrow"],
)
def test_a_wide_frame_is_its_array_with_labels(frame, labels):
    found, wanted = Observations.from_any(frame), Observations.from_dense(WIDE, labels=labels)
    assert same(found, wanted)
    one, other = (MatrixCompletion("square", rank=1).fit(data).model_ for data in (frame, WIDE))
    assert np.array_equal(one.to_dense(), other.to_dense())


@every_package
def test_row_names_the_column_with_the_labels_of_a_wide_frame(make):
    frame = make({"a": WIDE[:, 0], "who": np.array(list("wxyz")), "b": WIDE[:, 1]})
    assert same(
        Observations.from_any(frame, row="who"), Observations.from_dense(WIDE[:, :2], labels=(list("wxyz"), ["a", "b"]))
    )


def test_integers_that_pandas_calls_nullable_stay_integers():
    ids = 2**60 + np.arange(4)  # different, and one float
    column = pd.array(ids, dtype="Int64")
    found = Observations.from_any(pd.DataFrame({"who": column, "a": WIDE[:, 0], "b": WIDE[:, 1]}), row="who")
    assert found.row_labels.tolist() == ids.tolist()
    rows, cols = as_pairs(pd.DataFrame({"who": column, "what": column}))
    assert rows.tolist() == cols.tolist() == ids.tolist()


def test_a_column_may_be_called_as_a_method_of_another_package():
    frame = pd.DataFrame({"collect": WIDE[:, 0], "b": WIDE[:, 1]})
    assert same(Observations.from_any(frame), Observations.from_dense(WIDE[:, :2], labels=(None, ["collect", "b"])))


@pytest.mark.parametrize("held", ["frame", "labels", "wide"])
def test_held_out_entries_are_matched_by_label(entries, held, caplog):
    frame = pd.DataFrame(entries)
    train, test = frame[:-8], frame[-8:]
    test = pd.concat([test, pd.DataFrame({"user": ["nobody"], "item": [0], "rating": [3.0]})])
    forms = {
        "frame": pl.from_pandas(test),
        "labels": Observations.from_labels(test["user"], test["item"], test["rating"]),
        "wide": test.pivot(index="user", columns="item", values="rating"),
    }
    fitted = MatrixCompletion("square", rank=2, max_iter=3).fit(train, held_out=forms["frame"], **NAMES)
    known = test["user"].isin(train["user"]) & test["item"].isin(train["item"])
    assert f"{(~known).sum()} of 9 entries" in caplog.text
    predicted = fitted.predict_entries(test["user"][known], test["item"][known])
    wanted = 0.5 * np.mean((predicted - test["rating"][known]) ** 2)
    assert fitted.history_[-1].score == pytest.approx(wanted, rel=1e-5)
    assert fitted.model_.facts["history"]["score"][-1] == fitted.history_[-1].score
    again = MatrixCompletion("square", rank=2, max_iter=3)
    if held == "labels":
        again.fit(train, held_out=forms[held], **NAMES)
        assert again.history_[-1].score == fitted.history_[-1].score
    elif held == "wide":
        again.fit(train.pivot(index="user", columns="item", values="rating"), held_out=forms[held])
        assert again.history_[-1].score == pytest.approx(fitted.history_[-1].score)


def test_a_callback_sees_every_step_and_may_stop(entries):
    seen = []
    fitted = MatrixCompletion("square", rank=2).fit(
        pd.DataFrame(entries), callback=lambda record: seen.append(record) or record.step == 3, **NAMES
    )
    assert seen == list(fitted.history_) and len(seen) == 3 and fitted.status_.reason == "callback"


GOOD = {"user": ["a", "a", "b"], "item": ["x", "y", "x"], "rating": [1.0, 2.0, 3.0]}
BAD = {
    "no such column": (GOOD, NAMES | {"row": "usr"}, r"no column 'usr' \(asked for by row=\); it has 'user', 'item'"),
    "not a name": (GOOD, NAMES | {"row": ["user"]}, r"no column \['user'\]"),
    "value only": (GOOD, {"value": "rating"}, "row= and col= are not given"),
    "col missing": (GOOD, {"row": "user", "value": "rating"}, "col= is not given"),
    "text values": (GOOD | {"rating": ["1", "2", "3"]}, NAMES, "'rating' must hold real numbers.*'1'"),
    "times as values": (GOOD | {"rating": [datetime(2020, 1, 1)] * 3}, NAMES, "'rating' must hold real numbers"),
    "missing label": (GOOD | {"user": ["a", None, None]}, NAMES, "2 of 3 lines have no label in column 'user'.*line 1"),
    "lists as labels": (GOOD | {"user": [[1], [2], [1]]}, NAMES, "row labels are of a type that cannot be numbered"),
    "missing value": (GOOD | {"rating": [1.0, None, 3.0]}, NAMES, "1 of 3 values are not finite.*entry 1"),
    "long taken for wide": (GOOD, {}, "'user' must hold real numbers.*row=, col= and value="),
    "numbers taken for wide": (
        {"u": [1, 2, 3, 1, 2], "i": [5, 6, 7, 6, 5], "r": [0.5, 1, 2, 3, 4]}, {}, "reads like a list of entries.*row=",
    ),
    "no line": (dict.fromkeys(GOOD, np.zeros(0)), NAMES, "no observed entry"),
}  # fmt: skip


@every_package
@pytest.mark.parametrize(("columns", "names", "sentence"), BAD.values(), ids=BAD)
def test_bad_frames_are_refused_in_one_sentence(make, columns, names, sentence):
    with pytest.raises(rw.RankwiseError, match=sentence) as caught:
        MatrixCompletion().fit(make(columns), **names)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


def test_labels_with_parts_of_their_own_are_refused():
    frame = pl.DataFrame(GOOD | {"user": [{"a": 1, "b": 2}, {"a": 2, "b": 1}, {"a": 1, "b": 1}]})
    with pytest.raises(DataError, match=r"row labels are of a type that cannot be numbered \(Struct"):
        Observations.from_frame(frame, **NAMES)


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (pd.DataFrame(WIDE, columns=["a", "b", "a"]), "different names, got 'a' 2 times"),
        (pd.DataFrame(WIDE, columns=["a", "b", 3]), "mix types"),
        (pd.DataFrame(WIDE, index=list("wxyw")), "row label 'w' is given more than once"),
        (pd.DataFrame(WIDE, index=pd.MultiIndex.from_product([[1, 2], [3, 4]])), "index has 2 levels"),
        (pd.DataFrame(WIDE[:, :2], columns=pd.MultiIndex.from_tuples([(1, 2), (1, 3)])), "columns have 2 levels"),
        (pd.DataFrame(index=[1, 2]), "0 feature.s. .*while a minimum of 1 is required"),
        (pd.DataFrame({"a": [1 + 2j, 3.0]}), "'a' must hold real numbers"),
    ],
)
def test_bad_wide_frames_are_refused_in_one_sentence(frame, sentence):
    with pytest.raises(DataError, match=sentence):
        MatrixCompletion().fit(frame)


def test_column_names_without_a_frame_are_refused():
    with pytest.raises(SettingError, match="row= names a column of a data frame, but a ndarray was given"):
        MatrixCompletion().fit(WIDE, **NAMES)
    with pytest.raises(DataError, match=r"must be a data frame of pandas, polars or pyarrow, got list"):
        Observations.from_frame([[1.0]])


class Stream:
    """Speaks Arrow's PyCapsule interface, as frames of DuckDB and others do, and nothing else."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def test_anything_that_speaks_arrow_is_a_frame(entries):
    wanted = Observations.from_labels(*entries.values())
    assert same(Observations.from_any(Stream(pa.table(entries)), **NAMES), wanted)
    wide = dict(zip("cab", WIDE.T, strict=True))
    assert same(Observations.from_any(Stream(pa.table(wide))), Observations.from_any(pa.table(wide)))
    for series in (pl.Series([1.0, 2.0]), pa.chunked_array([[1.0, 2.0]]), pd.Series([1.0, 2.0])):
        with pytest.raises(DataError, match="must be a data frame"):
            Observations.from_frame(series)


def once(columns):
    """A stream that can be read once, as one of a query of a database."""
    table = pa.table(columns)
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches())


@pytest.mark.parametrize("kind", [once, lambda columns: Stream(pa.table(columns))], ids=["once", "bare"])
def test_estimators_read_streams_as_they_read_tables(entries, kind):
    pairs, values = dict(list(entries.items())[:2]), np.asarray(list(entries.values())[2], float)
    model = MatrixCompletion("square", rank=1)
    streamed = model.fit(kind(pairs), values).predict(kind(pairs))
    assert np.array_equal(streamed, model.fit(pa.table(pairs), values).predict(pa.table(pairs)))
    wide = dict(zip("cab", WIDE.T, strict=True))
    streamed = model.fit(kind(wide)).transform(kind(wide))
    assert np.array_equal(streamed, model.fit(pa.table(wide)).transform(pa.table(wide)))


def test_arrays_need_no_frame_package(tmp_path):
    source = """
import sys
sys.modules.update(dict.fromkeys(("pandas", "polars", "pyarrow")))  # None: not installed
import numpy as np, rankwise as rw
print(rw.MatrixCompletion("square", rank=1).fit(np.array([[1.0, np.nan], [2.0, 3.0]])).recommend(0)[0].tolist())
"""
    done = subprocess.run([sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.stdout.strip() == "[1]", done.stderr
