"""Which column is which: numbers of lines and times are not taken for data, and doubt is refused."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankwise import DataError, ShardFolder
from rankwise.io import Reading, read_file, read_table, shard_file


def write(folder, text, name="some.csv"):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def lines(n, pattern):
    return "".join(pattern.format(k=k, user=k % 7, item=k % 5 + 100, time=881_250_949 + k) + "\n" for k in range(n))


@pytest.mark.parametrize(
    ("header", "pattern", "roles"),
    [
        (",uid,mid,My rating,timestamp", "{k},{user},{item},3.5,{time}", ("uid", "mid", "My rating")),
        ("Unnamed: 0,who,what,movieRating", "{k},{user},{item},3.5", ("who", "what", "movieRating")),
        ("when,who,what,grade", "{time},{user},{item},3.5", ("who", "what", "grade")),
        ("a,b,c,d", "{time},{user},{item},3.5", ("b", "c", "d")),
        ("a,b,c,d", "2020-01-02 10:00,{user},{item},3.5", ("b", "c", "d")),
        ("a,b,c,d", "{user},{item},horror,3.5", ("a", "b", "d")),
        ("sensor,time,value", "{user},2020-01-02,3.5", ("sensor", "time", "value")),
        ("user,rating_date,film,user_rating", "{user},{time},{item},3.5", ("user", "film", "user_rating")),
    ],
)
def test_indices_and_times_are_no_data(tmp_path, header, pattern, roles):
    table = read_table(write(tmp_path, f"{header}\n{lines(30, pattern)}"))
    row, col, value = roles
    assert f"rows from {row!r}, columns from {col!r}, values from {value!r}" in table.notes[0]
    assert (table.values == 3.5).all()


@pytest.mark.parametrize(
    ("header", "pattern", "words"),
    [
        (",item,rating", "{k},{item},3.5", "no column for the row, since '' numbers the lines; set `row`, `col` and"),
        ("user,item,timestamp", "{user},{item},{time}", "no column for the value, since 'timestamp' holds times"),
        ("user,item,x", "{user},{item},{time}000", "no column for the value, since 'x' holds times"),
        ("a,b,c,d", "{k},{user},{item},3.5", "the first column may be the row or the number of the line; set `row`"),
        ("who,Alien,Babe,Cube,Dune,Evil", "u{k},1,2,,4,5", "one line per row; write one line per entry"),
    ],
)
def test_doubt_is_refused_with_the_settings_that_resolve_it(tmp_path, header, pattern, words):
    path = write(tmp_path, f"{header}\n{lines(20, pattern)}")
    with pytest.raises(DataError, match=f"line 1: .*{words}"):
        read_table(path)
    table = read_table(path, Reading(row=1, col=2, value=3, skip_bad_lines=True))
    assert table.size == 20 and table.rows.codes.size == 20


def test_parquet_columns_are_judged_alike(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "r.parquet"
    columns = {"": range(9), "uid": [k % 3 for k in range(9)], "mid": range(9), "My rating": [1.5] * 9}
    parquet.write_table(arrow.table(columns), path)
    assert "rows from 'uid', columns from 'mid', values from 'My rating'" in read_table(path).notes[0]


@pytest.mark.parametrize("ending", ["", 'x,"two\nlines",TRUE\n'], ids=["pyarrow", "csv"])
def test_true_and_false_are_one_and_zero(tmp_path, ending):
    table = read_table(write(tmp_path, "user,item,liked\nann,x,True\nbob,x,false\n" + ending))
    assert table.values.tolist() == [1.0, 0.0, 1.0][: table.size]


def test_entries_with_the_missing_value_do_not_exist(tmp_path):
    path = write(tmp_path, "user,item,rating\nann,x,0\nbob,x,5\nbob,y,0\ncy,z,3\ncy,z,4\n")
    table = read_table(path, Reading(missing=0))
    assert table.rows.names.tolist() == ["bob", "cy"] and table.cols.names.tolist() == ["x", "z"]
    assert table.values.tolist() == [5, 3, 4] and "left out 2 of 5 entries with the value 0" in table.notes[-1]
    with pytest.raises(DataError, match=r"line 6: .* at line 5"):
        table.observations()
    folder, notes = shard_file(path, tmp_path / "shards", how=Reading(missing=0), duplicates="last")
    assert "left out 2 of 5 entries with the value 0" in notes[-1]
    streamed = ShardFolder(folder)
    wanted = read_file(path, missing=0, duplicates="last")
    assert streamed.shape == wanted.shape and streamed.row_labels.tolist() == wanted.row_labels.tolist()
    with pytest.raises(DataError, match="no entry with a value other than missing=7"):
        read_table(write(tmp_path, "user,item,rating\nann,x,7\n"), Reading(missing=7))


@pytest.mark.parametrize(
    ("values", "noted"),
    [
        ([0, 0, 0, 3, 5, 7], True),
        ([0, 3, 3, 5, 7, 8], False),
        ([0, 0, 0, 1, 1, 1], False),
        ([0, 0, 0, -1, 1, 2], False),
    ],
    ids=["ratings", "rare", "yes and no", "inside"],
)
def test_zeros_that_may_mean_missing_are_noted(tmp_path, values, noted):
    path = write(tmp_path, "".join(f"{k},{k},{value}\n" for k, value in enumerate(np.repeat(values, 3))))
    assert any("--missing 0" in note for note in read_table(path).notes) == noted


def test_parquet_columns_that_python_cannot_hold_do_not_stand_in_the_way(tmp_path):
    far = pa.array([2**50, 2**50], pa.timestamp("ms"))  # beyond the years of Python
    columns = {"user": ["a", "b"], "item": ["x", "y"], "when": far, "rating": [1.0, 2.0]}
    pq.write_table(pa.table(columns), tmp_path / "far.parquet")
    assert read_table(tmp_path / "far.parquet").values.tolist() == [1.0, 2.0]
